#pragma once
// Unary kinds of a few operations each.
#include "baracuda/ops/elementwise/functor_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <> struct Unary<UnaryKind::neg> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return -x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return -dy; }
};
template <> struct Unary<UnaryKind::abs> : Functor1<kX> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return abs(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x > 0, dy, where(x < 0, -dy, x)); }  // 0 and NaN stay
};
template <> struct Unary<UnaryKind::square> : Functor1<kX> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return x * x; }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * (x + x); }
};
template <> struct Unary<UnaryKind::cube> : Functor1<kX> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return x * x * x; }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * (3 * x * x); }
};
template <> struct Unary<UnaryKind::sqrt> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sqrt(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return 0.5 * dy / y; }
};
template <> struct Unary<UnaryKind::rsqrt> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return 1 / sqrt(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return -0.5 * dy * y * y * y; }
};
template <> struct Unary<UnaryKind::reciprocal> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return 1 / x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return -(dy * y) * y; }
};
template <> struct Unary<UnaryKind::scale> : Functor1<kNothing, 1> {
  template <class V> BARACUDA_HD V fwd(V x) const { return alpha * x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return alpha * dy; }
};
template <> struct Unary<UnaryKind::affine> : Functor1<kNothing, 2> {
  static constexpr double defaults[3] = {1, 0, 1};
  template <class V> BARACUDA_HD V fwd(V x) const { return fma(V(alpha), x, V(beta)); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return alpha * dy; }
};
// Steps: the gradient is 0. -0 stays -0, NaN stays NaN, except in step.
template <> struct Unary<UnaryKind::sign> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x > 0, V(1), where(x < 0, V(-1), x)); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::step> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x > 0, V(1), V(0)); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::floor> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return floor(x); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::ceil> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return ceil(x); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::round> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return round_even(x); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::trunc> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return trunc(x); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};
template <> struct Unary<UnaryKind::frac> : Functor1<kNothing> {
  template <class V> BARACUDA_HD V fwd(V x) const { return copysign(x - trunc(x), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return dy; }
};
template <> struct Unary<UnaryKind::relu> : Functor1<kY> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= 0, V(0), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return where(y <= 0, V(0), dy); }
};
template <> struct Unary<UnaryKind::clamp> : Functor1<kX, 2> {  // alpha > beta gives beta; the gradient passes at the bounds
  static constexpr int types = kNumbers;
  static constexpr double defaults[3] = {-kInf, kInf, 1};
  template <class V> BARACUDA_HD V fwd(V x) const {
    const V low = where(x < alpha, V(alpha), x);
    return where(low > beta, V(beta), low);
  }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x < alpha, V(0), where(x > beta, V(0), dy)); }
};
template <> struct Unary<UnaryKind::nan_to_num> : Functor1<kX, 3> {  // alpha for NaN, beta for inf, gamma for -inf
  static constexpr double defaults[3] = {0, kInf, -kInf};
  template <class V> BARACUDA_HD V fwd(V x) const {
    return where(x == x, where(x == kInf, V(beta), where(x == -kInf, V(gamma), x)), V(alpha));
  }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(abs(x) < kInf, dy, V(0)); }
};
template <> struct Unary<UnaryKind::deg2rad> : Functor1<kNothing> {
  template <class V> BARACUDA_HD V fwd(V x) const { return x * 0x1.1df46a2529d39p-6; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return dy * 0x1.1df46a2529d39p-6; }
};
template <> struct Unary<UnaryKind::rad2deg> : Functor1<kNothing> {
  template <class V> BARACUDA_HD V fwd(V x) const { return x * 0x1.ca5dc1a63c1f8p5; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return dy * 0x1.ca5dc1a63c1f8p5; }
};

// Parts of a number that is real; those of complex ones: complex_math.hpp.
template <> struct Unary<UnaryKind::sgn> : Unary<UnaryKind::sign> {};
template <> struct Unary<UnaryKind::real> : Functor1<kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V x) const { return x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return dy; }
};
template <> struct Unary<UnaryKind::conj> : Unary<UnaryKind::real> {};
template <> struct Unary<UnaryKind::imag> : Plain<1, 0> {};
template <> struct Unary<UnaryKind::angle> : Functor1<kNothing> {  // of -0: 0
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x < 0, V(3.14159265358979323846), where(x == x, V(0), x)); }
  template <class V> BARACUDA_HD V bwd(V, V, V) const { return 0; }
};

}  // namespace elementwise
}  // namespace baracuda
