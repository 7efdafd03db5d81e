#pragma once
// Unary kinds from the exponential, the logarithm and the circle.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/math/roots.hpp"
#include "baracuda/math/trigonometric.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

inline constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402;

template <> struct Unary<UnaryKind::exp> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return exp(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * y; }
};
template <> struct Unary<UnaryKind::exp2> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return exp2(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * y * kLn2; }
};
template <> struct Unary<UnaryKind::expm1> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return expm1(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return fma(dy, y, dy); }
};
template <> struct Unary<UnaryKind::log> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return log(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / x; }
};
template <> struct Unary<UnaryKind::log2> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return log2(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / x * (1 / kLn2); }
};
template <> struct Unary<UnaryKind::log10> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return log10(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / x * (1 / kLn10); }
};
template <> struct Unary<UnaryKind::log1p> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return log1p(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / (1 + x); }
};
template <> struct Unary<UnaryKind::sigmoid> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sigmoid(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * (y * (1 - y)); }
};
template <> struct Unary<UnaryKind::logit> : Functor1<kX, 1> {  // of x clamped to [alpha, 1 - alpha]; alpha < 0: as it is
  static constexpr double defaults[3] = {-1, 1, 1};
  template <class V> BARACUDA_HD V fwd(V x) const {
    if (!(alpha >= 0)) return logit(x);
    const V least = alpha, most = 1 - least, low = where(x < least, least, x);
    return logit(where(low > most, most, low));
  }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    const V slope = dy / (x * (1 - x));
    if (!(alpha >= 0)) return where(x < 0, V(kNaN), where(x > 1, V(kNaN), slope));
    const V least = alpha;
    return where(x < least, V(0), where(x > 1 - least, V(0), slope));
  }
};
template <> struct Unary<UnaryKind::erf> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return erf(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return times_any(dy * k2_SqrtPi, exp_minus_square(clamp(x, -40, 40))); }
};
template <> struct Unary<UnaryKind::erfc> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return erfc(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return times_any(dy * -k2_SqrtPi, exp_minus_square(clamp(x, -40, 40))); }
};
template <> struct Unary<UnaryKind::cbrt> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return cbrt(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy / (3 * y * y); }
};
template <> struct Unary<UnaryKind::pow_scalar> : Functor1<kX, 1> {  // x^alpha
  static constexpr int types = kNumbers;
  static constexpr double defaults[3] = {2, 1, 1};
  template <class V> BARACUDA_HD V fwd(V x) const { return pow(x, V(alpha)); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    if (alpha == 0) return 0;
    return dy * alpha * pow(x, V(alpha - 1));
  }
};

template <> struct Unary<UnaryKind::sin> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sin(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * cos(x); }
};
template <> struct Unary<UnaryKind::cos> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return cos(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return -dy * sin(x); }
};
template <> struct Unary<UnaryKind::tan> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return tan(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * fma(y, y, V(1)); }
};
template <> struct Unary<UnaryKind::asin> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return asin(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / sqrt((1 - x) * (1 + x)); }
};
template <> struct Unary<UnaryKind::acos> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return acos(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return -dy / sqrt((1 - x) * (1 + x)); }
};
template <> struct Unary<UnaryKind::atan> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return atan(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {  // 1 / (1 + x^2) in two steps: x^2 may be out of range
    const V far = 1 / x;
    return where(abs(x) > 1, dy * far / (far + x), dy / fma(x, x, V(1)));
  }
};
template <> struct Unary<UnaryKind::sinh> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sinh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * cosh(x); }
};
template <> struct Unary<UnaryKind::cosh> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return cosh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * sinh(x); }
};
// tanh in one word, half the work of vmath's: t / (t + 2), t = expm1(2 |x|).
template <class V> BARACUDA_HD V tanh_one_word(V x) {
  typename V::Bits n;
  const V a = abs(x);
  const TwoWords<V> r = reduce_ln2(smaller(V(40), a + a), n);
  V q;  // expm1_poly and a coefficient more: what is lost here counts twice below powers of two
  if constexpr (V::kF32) q = poly(r.hi, 0.5, 0x1.555556p-3, 0x1.5555p-5, 0x1.110fc2p-7, 0x1.6d3074p-10, 0x1.a2d982p-13);
  else q = expm1_poly(r.hi);
  const V p = r.hi + fma(r.hi * r.hi, q, r.lo), s = pow2<V>(n), t = fma(s, p, s - 1);
  return copysign(t / (t + 2), x);
}
template <> struct Unary<UnaryKind::tanh> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return tanh_one_word(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * ((1 - y) * (1 + y)); }
};
template <> struct Unary<UnaryKind::asinh> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return asinh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / hypot(x, V(1)); }
};
template <> struct Unary<UnaryKind::acosh> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return acosh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / (sqrt(x - 1) * sqrt(x + 1)); }
};
template <> struct Unary<UnaryKind::atanh> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return atanh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / ((1 - x) * (1 + x)); }
};

}  // namespace elementwise
}  // namespace baracuda
