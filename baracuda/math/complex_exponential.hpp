#pragma once
// exp2 expm1 log1p sigmoid and logarithms to other bases of complex numbers, by the rules of complex.hpp.
#include "baracuda/math/complex.hpp"

namespace baracuda::inline BARACUDA_ISA {

// exp(x ln2), the product in two words, the second of which turns by a small angle; an infinite exponential has none
template <class V> BARACUDA_HD Complex<V> exp2(Complex<V> x) {
  const V c = 0x1.62e42fefa39efp-1, c_low = V::kF32 ? 0x1.62e42fefa39efp-1 - double(float(0x1.62e42fefa39efp-1)) : 0x1.abc9e3b39803fp-56;
  const Complex<V> hi = c * x, lo{fma(c, x.re, -hi.re) + c_low * x.re, fma(c, x.im, -hi.im) + c_low * x.im};
  const Complex<V> y = exp(hi), rest = plain_product(y, lo + V(0.5) * plain_product(lo, lo));
  const auto whole = has_nan(rest) | has_inf(rest);
  return {where(whole, y.re, y.re + rest.re), where(whole | (x.im == 0), y.im, y.im + rest.im)};
}
// x^3 by parts, scaled where the square of a large part is no number
template <class V> BARACUDA_HD Complex<V> cube(Complex<V> x) {
  const auto big = largest(x) > (V::kF32 ? 0x1p50 : 0x1p500);
  const V down = where(big, V(V::kF32 ? 0x1p-70 : 0x1p-600), V(1)), up = where(big, V(V::kF32 ? 0x1p70 : 0x1p600), V(1));
  const V a = x.re * down, b = x.im * down, aa = a * a, bb = b * b;
  const Complex<V> y{x.re * fma(V(-3), bb, aa) * up * up, x.im * fma(V(3), aa, -bb) * up * up};
  const auto infinite = has_inf(x);
  return any(infinite) ? where(infinite, x * x * x, y) : y;
}
// e^a cos b - 1 = expm1(a) cos b - 2 sin^2(b / 2): right where the whole vanishes, at multiples of 2 pi i
template <class V> BARACUDA_HD Complex<V> expm1(Complex<V> x) {
  const Complex<V> e = exp(x);
  const V half = sin_cos(0.5 * x.im).sine;
  return {where(abs(x.re) > 40, e.re - 1, fma(expm1(x.re), sin_cos(x.im).cosine, -2 * half * half)), e.im};
}
// log |1 + x| with 1 + x and the sum of its squares in two words
template <class V> BARACUDA_HD Complex<V> log1p(Complex<V> x) {
  const TwoWords<V> one = two_sum(V(1), x.re);
  const V a = abs(one.hi), b = abs(x.im), most = larger_magnitude(a, b), least = where(a < b, a, b);
  const Middle<V> range(most);
  const V up = range.up(), k = range.octaves();
  const TwoWords<V> s = sum_of_squares(most * up, least * up), t = two_sum(s.hi, s.lo + 2 * (one.hi * up) * (one.lo * up));
  const V y = 0.5 * log_two(t, k + k);
  return {where((a == kInf) | (b == kInf), V(kInf), where(most == 0, V(-kInf), where(is_zero(x), x.re, y))), atan2(x.im, one.hi)};
}
// 1 / (1 + e^-x) or e^x / (1 + e^x), whose exponential is small; near the imaginary axis, where its poles are, (1 + tanh(x / 2)) / 2
template <class V> BARACUDA_HD Complex<V> sigmoid(Complex<V> x) {
  const Complex<V> one{1, 0};
  const auto right = x.re > 0, near = abs(x.re) <= 1;
  const Complex<V> e = exp(where(right, -x, x)), far = where(right, one, e) / (one + e);
  if (!any(near)) return far;
  return where(near, V(0.5) * (one + tanh(V(0.5) * x)), far);
}
// log(x) / ln(base), of `scale` = 1 / ln(base)
template <class V> BARACUDA_HD Complex<V> log_scaled(Complex<V> x, double scale) { return V(scale) * log(x); }
template <class V> BARACUDA_HD Complex<V> log2(Complex<V> x) { return log_scaled(x, 1.4426950408889634); }
template <class V> BARACUDA_HD Complex<V> log10(Complex<V> x) { return log_scaled(x, 0.43429448190325183); }

}  // namespace baracuda
