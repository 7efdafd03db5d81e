#pragma once
// The normal distribution's tail and exp of a two-word argument, which the gelu kinds and erfc are made of: the plain
// formulas lose all digits of the tail in 1 + erf, or scale an argument's rounding by its size.
#include "baracuda/math/ranged.hpp"
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

inline constexpr double kSqrt1_2Pi = 0.39894228040143267794, k2_SqrtPi = 1.12837916709551257390;

// exp(hi + lo) as (1 + e) 2^n: w exp(hi + lo) = fma(w, e, w) 2^n is rounded once in the normal range and once more at most when
// it is subnormal, and the rounding of hi does not reach it. hi <= 93 (720), |lo| far below |hi|; scale() says which w.
template <class V> struct ExpParts { V e; typename V::Bits n; };
template <class V> BARACUDA_HD V exp_floor() { return V::kF32 ? -160 : -1400; }  // further than exp_reduce goes: a factor may lift the result from 0
template <class V> BARACUDA_HD ExpParts<V> exp_parts(V hi) {
  typename V::Bits n;
  const V r = reduce_ln2(larger(exp_floor<V>(), hi), n).hi;
  return {expm1_reduced(r), n};
}
template <class V> BARACUDA_HD ExpParts<V> exp_parts(V hi, V lo) {
  typename V::Bits n;
  const V r = reduce_ln2(larger(exp_floor<V>(), hi), n).hi;
  return {expm1_reduced(r + where(hi < exp_floor<V>(), V(0), lo)), n};
}
// scale() for n from -231 (-2022) to 22: brought up, one factor 2^n is in range.
template <class V> BARACUDA_HD V scale_down(V x, typename V::Bits n) {
  if constexpr (V::kVector && sizeof(x) == 64) return scale(x, n);  // one instruction
  else return x * pow2<V>(n + (V::kF32 ? 105 : 1000)) * V(V::kF32 ? 0x1p-105 : 0x1p-1000);
}
template <class V> BARACUDA_HD V times(V w, ExpParts<V> p) { return scale_down(fma(w, p.e, w), p.n); }  // of an exponent below 15
template <class V> BARACUDA_HD V times_any(V w, ExpParts<V> p) {  // for any w; a subnormal result may be rounded twice
  return fma(w, p.e, w) * pow2<V>(p.n >> 1) * pow2<V>(p.n - (p.n >> 1));
}

// exp(-z^2 / 2), the square in two words.
template <class V> BARACUDA_HD ExpParts<V> normal_density(V z) {
  const V s = -0.5 * z * z;
  return exp_parts(s, fma(-0.5 * z, z, -s));
}
// The same for z <= kTailMost, where it is 0 to any factor there is.
template <class V> inline constexpr double kTailMost = V::kF32 ? 15 : 40;
template <class V> BARACUDA_HD ExpParts<V> tail_density(V z) {
  const V s = -0.5 * z * z;
  typename V::Bits n;
  const V r = reduce_ln2(s, n).hi;
  return {expm1_reduced(r + fma(-0.5 * z, z, -s)), n};
}
// Phi(-z) / exp(-z^2 / 2) = p / (z + k), z >= 0: p is a polynomial in t = (z - k) / (z + k) (Sollya fpminimax) and
// smooth for all z. Here p = first + t (second + t higher), the first two coefficients in two words.
template <class V> inline constexpr double kMillsShift = V::kF32 ? 3.375 : 4;
template <class V> inline constexpr double kMillsFirst = V::kF32 ? 0x1.7b6eep-1 : 0x1.82b4bb8c94dcep-1;
template <class V> inline constexpr double kMillsSecond = V::kF32 ? -0x1.1b21ccp-1 : -0x1.373e3a893c28ap-1;
template <class V> BARACUDA_HD V mills_higher(V t) {
  if constexpr (V::kF32)
    return poly(t, 0x1.2e77p-2, -0x1.92fb58p-4, 0x1.1dbbe2p-7, 0x1.005f22p-7, -0x1.275e78p-9, -0x1.bbfb26p-11,
                0x1.4863p-12, 0x1.160242p-13, -0x1.5ae8d2p-19);
  else
    return poly(t, 0x1.8c6dbf2cfc308p-2, -0x1.7dff2bff6848ep-3, 0x1.eec4cc3e4437p-5, -0x1.ee276104394dfp-8,
                -0x1.c81719c9583c7p-9, 0x1.ab825fb0b1e79p-10, 0x1.17a4a5f88a5fbp-13, -0x1.e4a421b84fc42p-13,
                -0x1.001105bc19734p-19, 0x1.26d06381dce02p-15, 0x1.7fd984bc8707p-21, -0x1.8d4904de83701p-18,
                -0x1.4faaccb4ba3c6p-21, 0x1.124d7d23af555p-20, 0x1.1ba2629f39649p-22, -0x1.50475c84c092fp-23,
                -0x1.4b9e1c899ace6p-24, 0x1.1410e4d988414p-26, 0x1.f64f29722ce96p-27, -0x1.74bf01111ba35p-32,
                -0x1.48e7657885791p-30);
}
template <class V> BARACUDA_HD V mills(V z) {
  const V d = z + kMillsShift<V>, t = ranged_quotient(z - kMillsShift<V>, d);
  return ranged_quotient(fma(t, fma(t, mills_higher(t), V(kMillsSecond<V>)), V(kMillsFirst<V>)), d);
}
// w Phi(-(z + z_low)) in two words, given exp(-(z + z_low)^2 / 2) = 1 + e, or that over a power of two: sums and products that
// would cost half an ulp each carry a second word.
template <class V> BARACUDA_HD TwoWords<V> tail_parts(V w, V z, V z_low, V e) {
  const double k = kMillsShift<V>, first = kMillsFirst<V>, second = kMillsSecond<V>;
  const double first_low = V::kF32 ? 0 : -0x1.565f5eebea41cp-55, second_low = V::kF32 ? 0 : 0x1.3174d50a816acp-55;
  const TwoWords<V> d = two_sum(z, V(k)), c = two_sum(z, V(-k));
  const V d_low = d.lo + z_low, t = c.hi / d.hi, inverse = (1 - t) * (0.5 / k), off = d_low * inverse;  // off = d_low / d
  const V t_low = ((fma(-t, d.hi, c.hi) + (c.lo + z_low)) - t * d_low) * inverse;
  const V h = mills_higher(t), q = fma(t, h, V(second)), q_low = fma(t, h, second - q) + second_low;
  const V p = fma(t, q, V(first)), p_low = fma(t, q_low, fma(t, q, first - p) + first_low) + t_low * fma(t, h, q);
  const V n = w * p, n_low = fma(-n, off, fma(w, p, -n) + w * p_low);
  const V more = fma(n, e, fma(n_low, e, n_low)), sum = n + more, y = sum / d.hi;
  return {y, (fma(-y, d.hi, sum) + ((n - sum) + more)) / d.hi};
}
template <class V> BARACUDA_HD V scaled_tail(V w, V z, V z_low, ExpParts<V> g) { return scale_down(tail_parts(w, z, z_low, g.e).hi, g.n); }
// z Phi(-z), z <= kTailMost. In f32 by one division: (z + k) Phi(-z) / exp(-z^2 / 2) is a polynomial in t = 1 - 2 k r, r = 1 / (z + k), of relative
// error 2^-26.2; what r and z + k round away counts 1.12 to 1.52 times.
template <class V> BARACUDA_HD V normal_tail(V z) {
  const ExpParts<V> g = tail_density(z);
  if constexpr (V::kF32) {
    const double k = 1.875;
    const V d = z + k, r = ranged_inverse(d), off = fma((d - k) - z, r, fma(-d, r, V(1)));
    const V t = fma(r, V(-2 * k), V(1)), first = 0x1.527a8p-1;
    const V q = poly(t, -0x1.33f53p-2, 0x1.18f57ap-8, 0x1.2d6672p-5, 0x1.57f83cp-8, -0x1.718d5ap-8, -0x1.a3feaap-9, 0x1.112818p-17, 0x1.d4941cp-11,
                     0x1.959448p-12, -0x1.7f0780p-14, -0x1.5dde5cp-14);
    const V p = fma(t, q, first), p_low = fma(t, q, first - p);
    const V m = z * r, m_low = fma(z, r, -m), n = m * p, n_low = fma(m_low, p, fma(m, p_low, fma(m, p, -n)));
    return scale_down(n + fma(n, fma(V(1.3), off, g.e), fma(n_low, g.e, n_low)), g.n);
  } else return scaled_tail(z, z, V(0), g);
}

template <class V> BARACUDA_HD ExpParts<V> exp_minus_square(V x) {
  const V s = x * x;
  return exp_parts(-s, -fma(x, x, -s));
}
template <class V> BARACUDA_HD V erfc(V x) {  // 2 Phi(-sqrt(2) x), mirrored below 0
  const V a = clamp(abs(x), 0, 30), root = V::kF32 ? 0x1.6a09e6p0 : 0x1.6a09e667f3bcdp0;
  const V z = a * root, z_low = fma(a, root, -z) + a * V(V::kF32 ? 0x1.9fcef4p-26 : -0x1.bdd3413b26456p-54);
  const V tail = scaled_tail(V(2), z, z_low, exp_minus_square(a));
  return where(a < 0.5, 1 - erf_near(x), where(x < 0, 2 - tail, tail));
}

// x / (1 + t) for x >= 0, x t / (1 + t) below, t = exponential(|x|): x times a sigmoid. Most of what the sum 1 + t rounds away goes
// into the longer product. t is 0 from `most` on.
template <class V, class E> BARACUDA_HD V times_sigmoid(V x, double most, E exponential) {
  const V z = clamp(abs(x), 0, most);
  const ExpParts<V> p = exponential(z);
  const V t = times(V(1), p), d = 1 + t, off = (d - 1) - t;
  const V y = ranged_quotient(where(x < 0, -fma(z, fma(off, p.e, p.e + off), z), x), d);
  return where(x < 0, scale_down(y, p.n), where(x > most, x, y));
}

// exp(-2 u), x >= 0, with u = sqrt(2 / pi) (x + 0.044715 x^3), the argument of gelu_tanh, in two words.
template <class V> BARACUDA_HD ExpParts<V> exp_minus_gelu_argument(V x) {
  const double c = V::kF32 ? 0x1.6e4e26p-5 : 0x1.6e4e26d4801f7p-5, c_low = V::kF32 ? 0x1.a9003ep-30 : 0x1.441355475a31ap-59;
  const double k = V::kF32 ? 0x1.988454p0 : 0x1.9884533d43651p0, k_low = V::kF32 ? -0x1.857936p-25 : -0x1.cbc0d30ebfd15p-54;
  const V s = x * x, s_low = fma(x, x, -s);
  const V p = c * s, p_low = fma(s, V(c), -p) + (c * s_low + c_low * s);
  const V w = 1 + p, big = where(p < 1, V(1), p), small = where(p < 1, p, V(1)), w_low = ((big - w) + small) + p_low;
  const V v = x * w, v_low = fma(x, w, -v) + x * w_low;
  const V a = v * k, a_low = fma(v, V(k), -a) + (v_low * k + v * k_low);
  return exp_parts(-a, -a_low);
}

}  // namespace elementwise
}  // namespace baracuda
