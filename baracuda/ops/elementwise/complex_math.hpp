#pragma once
// The kinds of complex numbers: functors as in functor_math.hpp over C = Complex<V>. Gradients follow PyTorch: of a real loss L,
// dx = dL/d re + i dL/d im, so that dx = dy conj(f'(x)) where f has a complex derivative.
#include "baracuda/math/complex_inverse.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <UnaryKind> struct ComplexUnary;
template <BinaryKind> struct ComplexBinary;

template <> struct ComplexUnary<UnaryKind::neg> : Functor1<kNothing> {
  template <class C> BARACUDA_HD C fwd(C x) const { return -x; }
  template <class C> BARACUDA_HD C bwd(C dy, C, C) const { return -dy; }
};
template <> struct ComplexUnary<UnaryKind::conj> : Functor1<kNothing> {
  template <class C> BARACUDA_HD C fwd(C x) const { return conj(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C) const { return conj(dy); }
};
template <> struct ComplexUnary<UnaryKind::real> : Functor1<kNothing> {
  template <class C> BARACUDA_HD auto fwd(C x) const { return x.re; }
  template <class C, class V> BARACUDA_HD C bwd(V dy, C, V) const { return {dy, 0}; }
};
template <> struct ComplexUnary<UnaryKind::imag> : Functor1<kNothing> {
  template <class C> BARACUDA_HD auto fwd(C x) const { return x.im; }
  template <class C, class V> BARACUDA_HD C bwd(V dy, C, V) const { return {0, dy}; }
};
template <> struct ComplexUnary<UnaryKind::abs> : Functor1<kX> {
  template <class C> BARACUDA_HD auto fwd(C x) const { return abs(x); }
  template <class C, class V> BARACUDA_HD C bwd(V dy, C x, V) const { return dy * sgn(x); }
};
template <> struct ComplexUnary<UnaryKind::angle> : Functor1<kX> {  // gradient 0 at 0
  template <class C> BARACUDA_HD auto fwd(C x) const { return arg(x); }
  template <class C, class V> BARACUDA_HD C bwd(V dy, C x, V) const {
    const V slope = dy / abs(x);
    return where(is_zero(x), C{0, 0}, slope * times_i(sgn(x)));
  }
};
template <> struct ComplexUnary<UnaryKind::sgn> : Functor1<kX> {  // only what turns x counts; gradient 0 at 0
  template <class C> BARACUDA_HD C fwd(C x) const { return sgn(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C y = sgn(x);
    return where(is_zero(x), C{0, 0}, (sum_of_products(y.re, dy.im, -y.im, dy.re) / abs(x)) * times_i(y));
  }
};
template <> struct ComplexUnary<UnaryKind::square> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return x * x; }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(x + x); }
};
template <> struct ComplexUnary<UnaryKind::sqrt> : Functor1<kY> {
  template <class C> BARACUDA_HD C fwd(C x) const { return sqrt(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C y) const { return typename C::Real(0.5) * (dy / conj(y)); }
};
template <> struct ComplexUnary<UnaryKind::reciprocal> : Functor1<kY> {
  template <class C> BARACUDA_HD C fwd(C x) const { return reciprocal(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C y) const { return -(dy * conj(y)) * conj(y); }
};
template <> struct ComplexUnary<UnaryKind::logical_not> : Predicate<1> {
  template <class C> BARACUDA_HD auto test(C x) const { return is_zero(x); }
};
template <> struct ComplexUnary<UnaryKind::isnan> : Predicate<1> {
  template <class C> BARACUDA_HD auto test(C x) const { return has_nan(x); }
};
template <> struct ComplexUnary<UnaryKind::isinf> : Predicate<1> {
  template <class C> BARACUDA_HD auto test(C x) const { return has_inf(x); }
};
template <> struct ComplexUnary<UnaryKind::isfinite> : Predicate<1> {
  template <class C> BARACUDA_HD auto test(C x) const { return is_finite(x); }
};
template <> struct ComplexUnary<UnaryKind::isreal> : Predicate<1> {
  template <class C> BARACUDA_HD auto test(C x) const { return x.im == 0; }
};

template <> struct ComplexUnary<UnaryKind::exp> : Functor1<kY> {
  template <class C> BARACUDA_HD C fwd(C x) const { return exp(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C, C y) const { return dy * conj(y); }
};
template <> struct ComplexUnary<UnaryKind::log> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return log(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy / conj(x); }
};
template <> struct ComplexUnary<UnaryKind::sin> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return sin(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(cos(x)); }
};
template <> struct ComplexUnary<UnaryKind::cos> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return cos(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return -dy * conj(sin(x)); }
};
template <> struct ComplexUnary<UnaryKind::tan> : Functor1<kX> {  // 1 + tan^2 cancels near the poles of the two: 1 / cos^2
  template <class C> BARACUDA_HD C fwd(C x) const { return tan(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C c = conj(cos(x));
    return dy / c / c;
  }
};
template <> struct ComplexUnary<UnaryKind::sinh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return sinh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(cosh(x)); }
};
template <> struct ComplexUnary<UnaryKind::cosh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return cosh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return dy * conj(sinh(x)); }
};
template <> struct ComplexUnary<UnaryKind::tanh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return tanh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C c = conj(cosh(x));
    return dy / c / c;
  }
};

// g / sqrt(1 - x^2) in factors that neither overflow nor cancel; x: the argument's conjugate
template <class C> BARACUDA_HD C over_circle(C g, C x) {
  const C one{1, 0};
  return g / sqrt(one - x) / sqrt(one + x);
}
template <> struct ComplexUnary<UnaryKind::asin> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return asin(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return over_circle(dy, conj(x)); }
};
template <> struct ComplexUnary<UnaryKind::acos> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return acos(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return over_circle(-dy, conj(x)); }
};
template <> struct ComplexUnary<UnaryKind::asinh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return asinh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const { return over_circle(dy, times_i(conj(x))); }
};
template <> struct ComplexUnary<UnaryKind::acosh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return acosh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C one{1, 0}, z = conj(x);
    return dy / sqrt(z - one) / sqrt(z + one);
  }
};
template <> struct ComplexUnary<UnaryKind::atan> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return atan(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C one{1, 0}, z = times_i(conj(x));
    return dy / (one - z) / (one + z);
  }
};
template <> struct ComplexUnary<UnaryKind::atanh> : Functor1<kX> {
  template <class C> BARACUDA_HD C fwd(C x) const { return atanh(x); }
  template <class C> BARACUDA_HD C bwd(C dy, C x, C) const {
    const C one{1, 0}, z = conj(x);
    return dy / (one - z) / (one + z);
  }
};

template <> struct ComplexBinary<BinaryKind::add> : Functor2<kNothing, kNothing> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const { return a + b; }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C, C, C) const { return {dy, dy}; }
};
template <> struct ComplexBinary<BinaryKind::sub> : Functor2<kNothing, kNothing> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const { return a - b; }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C, C, C) const { return {dy, -dy}; }
};
template <> struct ComplexBinary<BinaryKind::mul> : Functor2<kB, kA> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const { return a * b; }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C a, C b, C) const { return {dy * conj(b), dy * conj(a)}; }
};
template <> struct ComplexBinary<BinaryKind::div> : Functor2<kB, kA | kB> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const { return a / b; }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C a, C b, C) const {
    const C da = dy / conj(b);
    return {da, -(da * conj(a / b))};
  }
};
template <> struct ComplexBinary<BinaryKind::pow> : Functor2<kA | kB, kA | kB | kY> {
  template <class C> BARACUDA_HD C fwd(C a, C b) const { return pow(a, b); }
  template <class C> BARACUDA_HD Two<C> bwd(C dy, C a, C b, C y) const {
    const C zero{0, 0}, one{1, 0};
    return {where(is_zero(b), zero, dy * conj(b * pow(a, b - one))), where(is_zero(a) & (b.re >= 0), zero, dy * conj(y * log(a)))};
  }
};
template <> struct ComplexBinary<BinaryKind::eq> : Predicate<2> {
  template <class C> BARACUDA_HD auto test(C a, C b) const { return a == b; }
};
template <> struct ComplexBinary<BinaryKind::ne> : Predicate<2> {
  template <class C> BARACUDA_HD auto test(C a, C b) const { return mask_not(a == b); }
};
template <> struct ComplexBinary<BinaryKind::complex> : Functor2<kNothing, kNothing> {
  template <class V> BARACUDA_HD Complex<V> fwd(V a, V b) const { return {a, b}; }
  template <class C, class V> BARACUDA_HD Two<V> bwd(C dy, V, V, C) const { return {dy.re, dy.im}; }
};
template <> struct ComplexBinary<BinaryKind::polar> : Functor2<kB, kA | kB> {  // a (cos b + i sin b)
  template <class V> BARACUDA_HD Complex<V> fwd(V a, V b) const {
    const SineCosine<V> t = sin_cos(b);
    return {a * t.cosine, where(b == 0, copysign(V(1), a) * b, a * t.sine)};
  }
  template <class C, class V> BARACUDA_HD Two<V> bwd(C dy, V a, V b, C) const {
    const SineCosine<V> t = sin_cos(b);
    return {sum_of_products(dy.re, t.cosine, dy.im, t.sine), a * sum_of_products(dy.im, t.cosine, -dy.re, t.sine)};
  }
};

}  // namespace elementwise
}  // namespace baracuda
