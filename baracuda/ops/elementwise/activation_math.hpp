#pragma once
// Activations. Where a factor exp(-...) of a negative x is small it comes last, so that tails keep their digits; |x| is cut
// where that factor is 0: 0 inf is not wanted.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/math/roots.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

inline constexpr double kSqrt2_Pi = 0.79788456080286535588, kCubic = 0.044715;

template <> struct Unary<UnaryKind::gelu> : Sloped<Unary<UnaryKind::gelu>> {  // x Phi(x)
  template <class V> BARACUDA_HD V fwd(V x) const {
    return where(x < 0, V(-0.0), x) - normal_tail(smaller(V(kTailMost<V>), abs(x)));
  }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V z = smaller(V(kTailMost<V>), abs(x));
    const V part = times(fma(z, V(kSqrt1_2Pi), -mills(z)), tail_density(z));  // beside the slope of max(x, 0), by |x|
    return where(x < 0, -part, 1 + part);
  }
};
template <> struct Unary<UnaryKind::gelu_tanh> : Sloped<Unary<UnaryKind::gelu_tanh>> {  // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u))
  template <class V> BARACUDA_HD V fwd(V x) const { return times_sigmoid(x, 40, [](V z) { return exp_minus_gelu_argument(z); }); }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V z = smaller(V(40), abs(x)), t = times(V(1), exp_minus_gelu_argument(z)), d = ranged_inverse(1 + t);
    const V part = z * (t * d * d) * (2 * kSqrt2_Pi * fma(3 * kCubic * z, z, V(1)));
    return where(x < 0, t * d - part, d + part);
  }
};
template <class V> BARACUDA_HD V ratio(V a, V b) { return ranged_quotient(a, b); }
// The slope of x sigmoid(u), u = alpha x, for z = |x| and t = exp(-alpha z).
template <class V> BARACUDA_HD V swish_slope(V x, V u, V t) {
  const V d = ranged_inverse(1 + t), part = u * (t * d * d);
  return where(x < 0, t * d - part, d + part);
}
template <> struct Unary<UnaryKind::silu> : Sloped<Unary<UnaryKind::silu>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return times_sigmoid(x, 1000, [](V z) { return exp_parts(-z); }); }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V z = smaller(V(1000), abs(x));
    return swish_slope(x, z, times(V(1), exp_parts(-z)));
  }
};
template <> struct Unary<UnaryKind::quick_gelu> : Sloped<Unary<UnaryKind::quick_gelu>, 1> {
  static constexpr double defaults[3] = {1.702, 1, 1};
  static constexpr Rule rule = kAlphaPositive;
  template <class V> BARACUDA_HD V fwd(V x) const {
    const double up = alpha > 0x1p64 ? V::kF32 ? 0x1p64 : 0x1p512 : 1;  // scale() takes nothing as small as 1 / alpha may be
    const V y = times_sigmoid(up * x, up * 1000 / alpha, [&](V z) {
      const TwoWords<V> u = times_constant(-alpha / up, z);
      return exp_parts(u.hi, u.lo);
    });
    return where(x > 1000 / alpha, x, y * (1 / up));
  }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V u = alpha * smaller(V(1000 / alpha), abs(x));
    return swish_slope(x, u, times(V(1), exp_parts(-u)));
  }
};
// x tanh(softplus(x)). With t = exp(-|x|) and q = 1 + 2 t + 2 t^2: x (1 - 2 t^2 / q); below 0, where exp(x) = t and
// r = 2 + 2 t + t^2: x t (1 - (t + t^2) / r).
template <> struct Unary<UnaryKind::mish> : Sloped<Unary<UnaryKind::mish>> {
  template <class V> BARACUDA_HD V fwd(V x) const {
    const V z = smaller(V(1000), abs(x));
    const ExpParts<V> e = exp_parts(-z);
    const V t = times(V(1), e), s = t * t;
    const V below = times(fma(z, ratio(fma(t, t, t), fma(2, t, s + 2)), -z), e), above = fma(-z, ratio(s + s, fma(2, t, fma(2, s, V(1)))), x);
    return where(x < 0, below, above);
  }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V z = smaller(V(1000), abs(x)), t = times(V(1), exp_parts(-z)), s = t * t;
    const V q = fma(2, t, fma(2, s, V(1))), r = fma(2, t, s + 2);
    const V above = ratio(fma(2, t, V(1)), q) + z * ratio(4 * s * (1 + t), q * q), below = ratio(t * (t + 2), r) - z * ratio(4 * t * (1 + t), r * r);
    return where(x < 0, below, where(x == x, above, x));
  }
};
template <class V> BARACUDA_HD V log1p_unit(V t) {  // log(1 + t), 0 <= t <= 1
  if constexpr (V::kF32)
    return fma(t * t, poly(t, -0.5, 0x1.55552ap-2, -0x1.fff212p-3, 0x1.98cffep-3, -0x1.4f996ap-3, 0x1.0c1192p-3, -0x1.79ee5p-4,
                           0x1.9a941ep-5, -0x1.203f72p-6, 0x1.7a99b8p-9), t);
  else return log1p(t);
}
// log(1 + exp(alpha x)) / alpha without overflow; x where alpha x > beta.
template <class V> BARACUDA_HD V softplus(V x, double alpha, double beta) {
  if (alpha == 1) return where(x > beta, x, where(x < 0, V(0), x) + log1p_unit(exp(-abs(x))));
  const TwoWords<V> u = times_constant(alpha, x);
  const V t = times(V(1), exp_parts(-abs(u.hi), where(u.hi < 0, u.lo, -u.lo)));
  return where(u.hi > beta, x, where(u.hi < 0, V(0), x) + log1p_unit(t) / alpha);
}
template <> struct Unary<UnaryKind::softplus> : Functor1<kX, 2> {
  static constexpr double defaults[3] = {1, kInf, 1};
  static constexpr Rule rule = kAlphaPositive;
  template <class V> BARACUDA_HD V fwd(V x) const { return softplus(x, alpha, beta); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(alpha * x > beta, dy, dy * sigmoid(alpha * x)); }
};
template <> struct Unary<UnaryKind::log_sigmoid> : Sloped<Unary<UnaryKind::log_sigmoid>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return -softplus(-x, 1, kInf); }
  template <class V> BARACUDA_HD V slope(V x) const { return sigmoid(-x); }
};
// factor expm1(x) for x <= 0, from expm1 in two words.
template <class V> BARACUDA_HD V times_expm1(double factor, V x) {
  typename V::Bits n;
  V p;
  const TwoWords<V> e = expm1_parts(where(x < -40, V(-40), where(x > 0, V(0), x)), n, p);
  return fma(V(factor), e.hi, factor * e.lo + low_word<V>(factor) * e.hi);
}
template <> struct Unary<UnaryKind::elu> : Functor1<kX, 1> {
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x < 0, times_expm1(alpha, x), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= 0, dy * alpha * exp(x), dy); }
};
template <> struct Unary<UnaryKind::selu> : Functor1<kX> {
  static constexpr double kScale = 1.0507009873554804934, kNegative = 1.7580993408473768599;  // scale, scale alpha
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x < 0, times_expm1(kNegative, x), kScale * x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= 0, dy * kNegative * exp(x), dy * kScale); }
};
template <> struct Unary<UnaryKind::celu> : Functor1<kX, 1> {
  static constexpr Rule rule = kAlphaPositive;
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x < 0, times_expm1(alpha, x / alpha), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= 0, dy * exp(x / alpha), dy); }
};
template <> struct Unary<UnaryKind::leaky_relu> : Piecewise<1> {
  static constexpr double defaults[3] = {0.01, 1, 1};
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x > 0, x, alpha * x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x > 0, dy, alpha * dy); }
};
template <> struct Unary<UnaryKind::relu6> : Piecewise<> {
  template <class V> BARACUDA_HD V fwd(V x) const { return clamp(x, 0, 6); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= 0, V(0), where(x >= 6, V(0), dy)); }
};
template <> struct Unary<UnaryKind::relu_squared> : Piecewise<> {
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= 0, V(0), x * x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= 0, V(0), dy * (x + x)); }
};
template <> struct Unary<UnaryKind::hardtanh> : Piecewise<2> {  // clamp whose gradient is 0 at the bounds
  static constexpr double defaults[3] = {-1, 1, 1};
  static constexpr Rule rule = kOrdered;
  template <class V> BARACUDA_HD V fwd(V x) const { return clamp(x, alpha, beta); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= alpha, V(0), where(x >= beta, V(0), dy)); }
};
template <> struct Unary<UnaryKind::hardsigmoid> : Piecewise<> {  // relu6(x + 3) / 6
  template <class V> BARACUDA_HD V fwd(V x) const { return clamp(x + 3, 0, 6) / 6; }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= -3, V(0), where(x >= 3, V(0), dy / 6)); }
};
template <> struct Unary<UnaryKind::hardswish> : Piecewise<> {  // x relu6(x + 3) / 6
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= -3, V(-0.0), where(x >= 3, x, x * (x + 3) / 6)); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    return where(x <= -3, V(0), where(x >= 3, dy, dy * fma(x, V(1.0 / 3), V(0.5))));
  }
};
template <> struct Unary<UnaryKind::hardshrink> : Piecewise<1> {
  static constexpr double defaults[3] = {0.5, 1, 1};
  template <class V> BARACUDA_HD V fwd(V x) const { return where(abs(x) <= alpha, V(0), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(abs(x) <= alpha, V(0), dy); }
};
template <> struct Unary<UnaryKind::softshrink> : Piecewise<1> {
  static constexpr double defaults[3] = {0.5, 1, 1};
  static constexpr Rule rule = kAlphaNotNegative;
  template <class V> BARACUDA_HD V fwd(V x) const { return where(abs(x) <= alpha, V(0), x - copysign(V(alpha), x)); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(abs(x) <= alpha, V(0), dy); }
};
template <> struct Unary<UnaryKind::softsign> : Piecewise<> {
  template <class V> BARACUDA_HD V fwd(V x) const { return where(abs(x) < kInf, x / (1 + abs(x)), where(x == x, copysign(V(1), x), x)); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / (1 + abs(x)) / (1 + abs(x)); }
};
template <> struct Unary<UnaryKind::tanhshrink> : Sloped<Unary<UnaryKind::tanhshrink>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return tanhshrink(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return tanh(x) * tanh(x); }
};
template <> struct Unary<UnaryKind::tanh_softcap> : Functor1<kY, 1> {  // alpha tanh(x / alpha)
  static constexpr double defaults[3] = {30, 1, 1};
  static constexpr Rule rule = kAlphaPositive;
  template <class V> BARACUDA_HD V fwd(V x) const { return alpha * tanh(x / alpha); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * ((1 - y / alpha) * (1 + y / alpha)); }
};
template <> struct Unary<UnaryKind::threshold> : Piecewise<2> {  // beta where x <= alpha
  static constexpr double defaults[3] = {0, 0, 1};
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= alpha, V(beta), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= alpha, V(0), dy); }
};
// (x + sqrt(x^2 + alpha)) / 2, without the difference below 0.
template <> struct Unary<UnaryKind::squareplus> : Sloped<Unary<UnaryKind::squareplus>, 1> {
  static constexpr double defaults[3] = {4, 1, 1};
  static constexpr Rule rule = kAlphaNotNegative;
  template <class V> BARACUDA_HD V fwd(V x) const {
    const V s = 0.5 * abs(x) + 0.5 * hypot(x, sqrt(V(alpha)));
    return where(x < 0, where(s == 0, V(0), 0.25 * V(alpha) / s), s);
  }
  template <class V> BARACUDA_HD V slope(V x) const {  // y / sqrt(x^2 + alpha)
    const V h = hypot(x, sqrt(V(alpha)));
    return where(abs(x) == kInf, where(x > 0, V(1), V(0)), where(h == 0, V(0.5), fwd(x) / h));
  }
};
template <> struct Unary<UnaryKind::sparse_plus> : Piecewise<> {  // 0, (x + 1)^2 / 4 between -1 and 1, x
  template <class V> BARACUDA_HD V fwd(V x) const {
    const V u = x + 1;
    return where(x <= -1, V(0), where(x >= 1, x, 0.25 * u * u));
  }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= -1, V(0), where(x >= 1, dy, dy * (0.5 * (x + 1)))); }
};
template <> struct Unary<UnaryKind::sparse_sigmoid> : Piecewise<> {  // its slope: (x + 1) / 2 between 0 and 1
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= -1, V(0), where(x >= 1, V(1), 0.5 * (x + 1))); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x <= -1, V(0), where(x >= 1, V(0), 0.5 * dy)); }
};

}  // namespace elementwise
}  // namespace baracuda
