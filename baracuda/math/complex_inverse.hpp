#pragma once
// asin acos atan asinh acosh atanh of Complex, by the rules of complex.hpp. Branch cuts as in C: signed zeros choose the side.
#include "baracuda/math/complex.hpp"

namespace baracuda::inline BARACUDA_ISA {

// Hull, Fairgrieve and Tang (ACM TOMS 23, 1997), with one arc tangent for all arguments: for a = (|x + 1| + |x - 1|) / 2,
// asin(x) = atan(|re| / d) + i log(a + sqrt(a^2 - 1)), d = sqrt(a^2 - re^2), up to signs; acos has the angle's complement.
template <class V> struct Arcs {
  V re, d, log;  // |re| and d: to atan2; both scaled alike
  BARACUDA_HD explicit Arcs(Complex<V> z) {
    const double limit = V::kF32 ? 0x1p20 : 0x1p40;  // 1 / |z|^2 does not count beyond
    re = abs(z.re);
    const typename V::Mask far = (re > limit) | (abs(z.im) > limit);
    const V x = where(far, V(2), re), y = where(far, V(2), abs(z.im)), gap = abs(x - 1), plus = x + 1;
    const V r = sqrt(fma(plus, plus, y * y)), s = hypot(gap, y), a = 0.5 * (r + s);
    // a - 1 and a - x: one is y^2 t, the other half of most
    const V t = 0.5 * (1 / (r + plus) + 1 / (s + gap)), most = y * (y / (r + plus)) + (s + gap);
    const auto inside = x < 1;
    const V large = sqrt(most * (0.5 * (a + where(inside, x, V(1))))), small = where(gap > 0, y * sqrt(t * (a + where(inside, V(1), x))), large);
    d = where(far, abs(z.im), where(inside, large, small));
    log = log1p(where(inside, y * (y * t), 0.5 * most) + where(inside, small, large));
    if (any(far)) log = where(far, log_abs(z, 1), log);
  }
};
template <class V> BARACUDA_HD Complex<V> asin(Complex<V> x) {
  const Arcs<V> arcs(x);
  return {where(x.re == 0, x.re, copysign(atan2(arcs.re, arcs.d), x.re)), copysign(arcs.log, x.im)};
}
template <class V> BARACUDA_HD Complex<V> acos(Complex<V> x) {
  const Arcs<V> arcs(x);
  return {where(x.re == 0, V(kHalfPi<V>), atan2(arcs.d, x.re)), copysign(arcs.log, -x.im)};
}
template <class V> BARACUDA_HD Complex<V> asinh(Complex<V> x) { return over_i(asin(times_i(x))); }
template <class V> BARACUDA_HD Complex<V> acosh(Complex<V> x) {
  const Complex<V> y = acos(x);
  return {abs(y.im), copysign(y.re, x.im)};
}

// log1p(4 re / |1 - x|^2) / 4 + i atan2(2 im, 1 - |x|^2) / 2 (Kahan 1987), and what that is at 1 and far out
template <class V> BARACUDA_HD Complex<V> atanh(Complex<V> z) {
  const double limit = V::kF32 ? 0x1p20 : 0x1p40;
  const V a = abs(z.re), b = abs(z.im);
  const typename V::Mask far = (a > limit) | (b > limit);
  const V x = where(far, V(0), a), y = where(far, V(0), b), u = 1 - x, s = hypot(u, y);
  const auto pole = s < (V::kF32 ? 0x1p-13 : 0x1p-27);
  V re = 0.25 * log1p(4 * x / where(pole, V(1), fma(u, u, y * y))), im = 0.5 * atan2(y + y, fma(-y, y, u * (1 + x)));
  if (any(pole)) re = where(pole, 0.5 * (fma(V(-0.5), u, V(0.69314718055994530942)) - log(s)), re);
  if (any(far)) {
    const V m = hypot(a, b);
    re = where(far, where(m == kInf, V(0), a / m / m), re);
    im = where(far, where(b == kInf, V(kHalfPi<V>), kHalfPi<V> - b / m / m), im);
  }
  return {where(z.re == 0, z.re, copysign(re, z.re)), copysign(im, z.im)};
}
template <class V> BARACUDA_HD Complex<V> atan(Complex<V> x) { return over_i(atanh(times_i(x))); }

}  // namespace baracuda
