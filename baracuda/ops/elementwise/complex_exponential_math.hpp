#pragma once
// The kinds of complex numbers that are made of exponentials, logarithms, roots and powers, and those that are linear.
#include "baracuda/math/complex_exponential.hpp"
#include "baracuda/ops/elementwise/binary_math.hpp"
#include "baracuda/ops/elementwise/complex_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <TernaryKind> struct ComplexTernary;

template <> struct ComplexUnary<UnaryKind::exp2> : Functor1<kY> {
  template <class C> BARACUDA_HD C fwd(C x) const { return exp2(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C y) const { return typename C::Real(0.69314718055994531) * (dy * conj(y)); }
};
template <> struct ComplexUnary<UnaryKind::expm1> : Functor1<kX> {  // y + 1 would lose what is small
  template <class C> BARACUDA_HD C fwd(C x) const { return expm1(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(exp(x)); }
};
template <> struct ComplexUnary<UnaryKind::log2> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return log2(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return typename C::Real(1.4426950408889634) * (dy / conj(x)); }
};
template <> struct ComplexUnary<UnaryKind::log10> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return log10(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return typename C::Real(0.43429448190325183) * (dy / conj(x)); }
};
template <> struct ComplexUnary<UnaryKind::log1p> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return log1p(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy / conj(C{1, 0} + x); }
};
template <> struct ComplexUnary<UnaryKind::sigmoid> : Functor1<kX> {  // y (1 - y), whose second factor is sigmoid(-x)
  template <class C> BARACUDA_HD C fwd(C x) const { return sigmoid(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(sigmoid(x)) * conj(sigmoid(-x)); }
};
template <> struct ComplexUnary<UnaryKind::rsqrt> : Functor1<kY> {
  template <class C> BARACUDA_HD C fwd(C x) const { return reciprocal(sqrt(x)); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C y) const { return typename C::Real(-0.5) * (dy * conj(y)) * conj(y) * conj(y); }
};
template <> struct ComplexUnary<UnaryKind::cube> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return cube(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return typename C::Real(3) * (dy * conj(x * x)); }
};
template <> struct ComplexUnary<UnaryKind::scale> : Functor1<kNothing, 1> {
  template <class C> BARACUDA_HD C fwd(C x) const { return typename C::Real(alpha) * x; }
  template <class C> BARACUDA_HD C bwd(C dy, C, C) const { return typename C::Real(alpha) * dy; }
};
template <> struct ComplexUnary<UnaryKind::affine> : Functor1<kNothing, 2> {
  static constexpr double defaults[3] = {1, 0, 1};
  template <class C> BARACUDA_HD C fwd(C x) const {
    using V = typename C::Real;
    return {fma(V(alpha), x.re, V(beta)), V(alpha) * x.im};
  }
  template <class C> BARACUDA_HD C bwd(C dy, C, C) const { return typename C::Real(alpha) * dy; }
};

template <> struct ComplexBinary<BinaryKind::scale_add> : Functor2<kNothing, kNothing, 2> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const {
    using V = typename C::Real;
    return {fma(V(alpha), a.re, V(beta) * b.re), fma(V(alpha), a.im, V(beta) * b.im)};
  }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C, C, C) const { return {typename C::Real(alpha) * dy, typename C::Real(beta) * dy}; }
};
template <> struct ComplexBinary<BinaryKind::lerp> : Functor2<kNothing, kNothing, 1> {
  static constexpr double defaults[3] = {0.5, 1, 1};
  template <class C> BARACUDA_HD C fwd(C a, C b) const {
    using V = typename C::Real;
    return {interpolate(a.re, b.re, V(alpha)), interpolate(a.im, b.im, V(alpha))};
  }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C, C, C) const {
    using V = typename C::Real;
    return {(1 - V(alpha)) * dy, V(alpha) * dy};
  }
};
template <> struct ComplexBinary<BinaryKind::logical_and> : Predicate<2> {
  template <class C> BARACUDA_HD auto test(C a, C b) const { return mask_not(is_zero(a) | is_zero(b)); }
};
template <> struct ComplexBinary<BinaryKind::logical_or> : Predicate<2> {
  template <class C> BARACUDA_HD auto test(C a, C b) const { return mask_not(is_zero(a) & is_zero(b)); }
};
template <> struct ComplexBinary<BinaryKind::logical_xor> : Predicate<2> {
  template <class C> BARACUDA_HD auto test(C a, C b) const { return is_zero(a) != is_zero(b); }
};

template <> struct ComplexTernary<TernaryKind::lerp> : Functor3<kC, kC, kA | kB> {  // from the end that the weight is nearer to
  template <class C> BARACUDA_HD C fwd(C a, C b, C c) const {
    const C d = b - a;
    return where(abs(c.re) + abs(c.im) < 0.5, a + c * d, b + (c - C{1, 0}) * d);
  }
  template <class C> BARACUDA_HD Three<C> bwd(C dy, C a, C b, C c, C) const { return {dy * conj(C{1, 0} - c), dy * conj(c), dy * conj(b - a)}; }
};
template <> struct ComplexTernary<TernaryKind::addcmul> : Functor3<kNothing, kC, kB, 1> {
  template <class C> BARACUDA_HD C fwd(C a, C b, C c) const { return a + typename C::Real(alpha) * (b * c); }
  template <class C> BARACUDA_HD Three<C> bwd(C dy, C, C b, C c, C) const {
    const C g = typename C::Real(alpha) * dy;
    return {dy, g * conj(c), g * conj(b)};
  }
};
template <> struct ComplexTernary<TernaryKind::addcdiv> : Functor3<kNothing, kC, kB | kC, 1> {
  template <class C> BARACUDA_HD C fwd(C a, C b, C c) const { return a + typename C::Real(alpha) * (b / c); }
  template <class C> BARACUDA_HD Three<C> bwd(C dy, C, C b, C c, C) const {
    const C g = typename C::Real(alpha) * (dy / conj(c));
    return {dy, g, -(g * conj(b / c))};
  }
};

}  // namespace elementwise
}  // namespace baracuda
