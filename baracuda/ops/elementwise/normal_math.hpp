#pragma once
// The normal distribution and its inverse: ndtr log_ndtr ndtri erfinv. Largest error in ulp, f32 / f64: ndtr 1.75/2.4, ndtri
// 1.85/1.9, log_ndtr 2.15/2.25, erfinv 2.3/2.45.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <class V> BARACUDA_HD TwoWords<V> lower_tail(V z) {  // Phi(-z), z >= 0
  const ExpParts<V> g = normal_density(z);
  const TwoWords<V> t = tail_parts(V(1), z, V(0), g.e);
  return {scale(t.hi, g.n), t.lo * pow2<V>(g.n >> 1) * pow2<V>(g.n - (g.n >> 1))};
}
template <class V> BARACUDA_HD V ndtr(V x) {
  const V tail = lower_tail(clamp(abs(x), 0, 40)).hi;
  return where(x < 0, tail, 1 - tail);
}
// The density at z over Phi(-z), z >= 0, where the fraction that mills is leaves its interval: the asymptotic series.
template <class V> inline constexpr double kMillsMost = V::kF32 ? 12 : 40;
template <class V> BARACUDA_HD V far_hazard(V z) {
  const V inverse = 1 / z;
  return z + inverse * poly(inverse * inverse, 1, -2, 10, -74, 706);
}
template <class V> BARACUDA_HD V normal_hazard(V z) { return where(z < kMillsMost<V>, kSqrt1_2Pi / mills(z), far_hazard(z)); }
template <class V> BARACUDA_HD V log_ndtr(V x) {  // log(Phi(-z) exp(z^2 / 2)) - z^2 / 2, log(1 - Phi(-x))
  const V a = abs(x), z = clamp(a, 0, V::kF32 ? 0x1p60 : 0x1p500);
  const auto left = x < 0;
  const TwoWords<V> tail = lower_tail(clamp(a, 0, 40)), rest = two_sum(V(1), -tail.hi);
  const V near = tail_parts(V(1), z, V(0), V(0)).hi, ratio = where(z < kMillsMost<V>, near, kSqrt1_2Pi / far_hazard(z));
  const V l = log_two(TwoWords<V>{where(left, ratio, rest.hi), where(left, V(0), rest.lo - tail.lo)}, V(0));
  return where(left, fma(-0.5 * a, a, l), -abs(l));
}

// z / q with Phi(z) = 1/2 + q, of q^2 <= 1/16
template <class V> BARACUDA_HD V quantile_poly(V s) {
  if constexpr (V::kF32) return poly(s, 0x1.40d932p1, 0x1.4ffdccp1, 0x1.717bb4p2, 0x1.f358e2p3, 0x1.8ee81cp5, 0x1.5d6f6cp6, 0x1.1957e4p10);
  else return poly(s, 0x1.40d931ff62706p1, 0x1.4ffddeaa22af9p1, 0x1.7171308305843p2, 0x1.f55d0d6615a4cp3, 0x1.78494d061b5a2p5,
      0x1.2ba8be24dcb36p7, 0x1.f046a27b14359p8, 0x1.a697a3a514841p10, 0x1.6cc76ca58d15cp12, 0x1.59bbf10f864c5p14, 0x1.51643008e7861p15,
      0x1.5918c67512746p19, -0x1.4de040b1d94bbp21, 0x1.282a12b46ab78p24);
}
// z with Phi(-z) = p, 0 < p <= 1/4: r - D(r), r = sqrt(-2 log p) in two words, D a polynomial in (r - k) / (r + k).
template <class V> BARACUDA_HD TwoWords<V> upper_quantile(V p) {
  const TwoWords<V> l = log_parts(TwoWords<V>{p, V(0)}), r = sqrt_two(TwoWords<V>{-2 * l.hi, -2 * l.lo});
  const V t = (r.hi - 3) / (r.hi + 3);
  V d;
  if constexpr (V::kF32) d = poly(t, 0x1.6d401ap-1, -0x1.b104d6p-1, 0x1.5c1228p-2, -0x1.069f66p-2, 0x1.4356d8p-3, -0x1.17e3c8p-3,
      0x1.a5ec92p-4, -0x1.96b21ep-4, 0x1.33d01p-4, -0x1.2a4f86p-5, -0x1.c646c2p-9);
  else {
    d = poly(t, 0x1.6d40195a4f0fp-1, -0x1.b104d8e61b271p-1, 0x1.5c121908ef974p-2, -0x1.069d1e2b14a33p-2, 0x1.43786524c92e1p-3,
        -0x1.18a33bd25ba16p-3, 0x1.a190ffd0aededp-4, -0x1.7c74f1b3c9f3bp-4, 0x1.30021953573f6p-4, -0x1.1bcbe98450f31p-4,
        0x1.db5fe04c143d4p-5, -0x1.c238cd2caaa59p-5, 0x1.84633fa2c6a9dp-5, -0x1.75c1d067ae51dp-5, 0x1.490f5b73289a3p-5,
        -0x1.25f5464e018fdp-5, 0x1.098f1c1569f9fp-5, -0x1.898fd4ffce66fp-5, 0x1.5ce40d50a51ap-5);
    const V u = (r.hi - 12) / (r.hi + 12);
    const V far = poly(u, 0x1.247f6fb594ee9p-2, -0x1.a3ac6c79aafbp-2, 0x1.04a520e22265ep-2, -0x1.afe546133ff9ap-3, 0x1.550b53b642f78p-3,
        -0x1.26516d8856bbfp-3, 0x1.ecc0d30645eafp-4, -0x1.b215a07635059p-4, 0x1.761277e8b2f1cp-4, -0x1.4ec03faecd0e8p-4,
        0x1.269c0b8562d88p-4, -0x1.0b5ef0de942a5p-4, 0x1.def80c78de0b2p-5, -0x1.bc4709960643p-5, 0x1.9815c102e6b91p-5,
        -0x1.68b0b8256a0bp-5, 0x1.2bc3ec26c31ecp-5, -0x1.5218e554e3bfbp-5, 0x1.c3ceca992c9a2p-5, -0x1.8c66456cb9fffp-5,
        0x1.19104151b04bdp-6);
    d = where(r.hi < 5.5, d, far);
  }
  return plus(-d, r);
}
template <class V> BARACUDA_HD V ndtri(V p) {  // -inf at 0, inf at 1, NaN outside
  const V q = p - 0.5, rest = where(p < 0.5, p, 1 - p);
  const TwoWords<V> z = upper_quantile(where(rest > 0, rest, V(0.25)));
  const V tail = z.hi + z.lo, y = where(abs(q) <= 0.25, q * quantile_poly(q * q), where(p < 0.5, -tail, tail));
  return where(rest > 0, y, where(p == 0, V(-kInf), where(p == 1, V(kInf), V(kNaN))));
}
template <class V> BARACUDA_HD V erfinv(V x) {  // sign(x) inf at -1 and 1, NaN outside
  const V a = abs(x), rest = 0.5 * (1 - a), h = 0.5 * a, p = quantile_poly(h * h), near = h * p;
  const auto inner = a <= 0.5;
  const TwoWords<V> tail = upper_quantile(where(rest > 0, rest, V(0.25)));
  const V z = where(inner, near, tail.hi), z_low = where(inner, fma(h, p, -near), tail.lo);
  const double root = V::kF32 ? 0x1.6a09e6p-1 : 0x1.6a09e667f3bcdp-1, root_low = V::kF32 ? 0x1.9fcef32422cbfp-27 : -0x1.bdd3413b26456p-55;
  const V y = fma(z, V(root), fma(z, V(root_low), z_low * root));
  return copysign(where(rest > 0, y, where(a == 1, V(kInf), V(kNaN))), x);
}

}  // namespace elementwise
}  // namespace baracuda
