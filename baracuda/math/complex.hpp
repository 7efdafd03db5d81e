#pragma once
// Complex<V>: a real and an imaginary part, each any Pack; arithmetic, exp log sqrt pow and the trigonometric and hyperbolic
// functions, by the rules of vmath.hpp. Infinities, NaN and signed zeros as in annex G of C: a value with an infinite part is
// an infinity, whatever the other part. Finite results are not lost in an intermediate that overflows or vanishes.
// Largest errors, in ulp of the magnitude of the result: elementwise/complex.md.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/math/roots.hpp"
#include "baracuda/math/trigonometric.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class V> struct Complex {
  using Real = V;
  using Mask = typename V::Mask;
  V re, im;
  BARACUDA_HD friend Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  BARACUDA_HD friend Complex operator-(Complex x, Complex y) { return {x.re - y.re, x.im - y.im}; }
  BARACUDA_HD friend Complex operator-(Complex x) { return {-x.re, -x.im}; }
  BARACUDA_HD friend Complex operator*(V s, Complex x) { return {s * x.re, s * x.im}; }
  BARACUDA_HD friend Mask operator==(Complex x, Complex y) { return (x.re == y.re) & (x.im == y.im); }
  BARACUDA_HD friend Complex conj(Complex x) { return {x.re, -x.im}; }
  BARACUDA_HD friend Complex times_i(Complex x) { return {-x.im, x.re}; }
  BARACUDA_HD friend Complex over_i(Complex x) { return {x.im, -x.re}; }
  BARACUDA_HD friend Complex where(Mask m, Complex a, Complex b) { return {where(m, a.re, b.re), where(m, a.im, b.im)}; }
  BARACUDA_HD friend V abs(Complex x) { return hypot(x.re, x.im); }
  BARACUDA_HD friend V arg(Complex x) { return atan2(x.im, x.re); }
  BARACUDA_HD friend Mask has_inf(Complex x) { return (abs(x.re) == kInf) | (abs(x.im) == kInf); }
  BARACUDA_HD friend Mask has_nan(Complex x) { return is_nan(x.re) | is_nan(x.im); }
  BARACUDA_HD friend Mask all_nan(Complex x) { return is_nan(x.re) & is_nan(x.im); }
  BARACUDA_HD friend Mask is_finite(Complex x) { return (abs(x.re) < kInf) & (abs(x.im) < kInf); }
  BARACUDA_HD friend Mask is_zero(Complex x) { return (x.re == 0) & (x.im == 0); }
  BARACUDA_HD friend V largest(Complex x) { return larger_magnitude(abs(x.re), abs(x.im)); }
  // Steps of annex G: infinities become units and the rest zeros; NaN becomes zero.
  BARACUDA_HD friend Complex boxed(Complex x) {
    return {copysign(where(abs(x.re) == kInf, V(1), V(0)), x.re), copysign(where(abs(x.im) == kInf, V(1), V(0)), x.im)};
  }
  BARACUDA_HD friend Complex without_nan(Complex x) {
    return {where(x.re == x.re, x.re, copysign(V(0), x.re)), where(x.im == x.im, x.im, copysign(V(0), x.im))};
  }
};

// hi + lo; lo is not looked at where it is zero or NaN, so that signed zeros and infinities stay.
template <class V> BARACUDA_HD V joined(V hi, V lo) {
  const V r = hi + lo;
  return where(lo == 0, hi, where(r == r, r, hi));
}
// a b + c d within 2 u of itself, whatever cancels: Cornea, Harrison and Tang (2002); error: Muller, ACM TOMS 41 (2015).
template <class V> BARACUDA_HD V sum_of_products(V a, V b, V c, V d) {
  const V p = a * b, q = c * d;
  return joined(p + q, fma(a, b, -p) + fma(c, d, -q));
}
template <class V> BARACUDA_HD Complex<V> plain_product(Complex<V> x, Complex<V> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class V> BARACUDA_HD Complex<V> accurate_product(Complex<V> x, Complex<V> y) {
  return {sum_of_products(x.re, y.re, -x.im, y.im), sum_of_products(x.re, y.im, x.im, y.re)};
}
template <class V> BARACUDA_HD Complex<V> operator*(Complex<V> x, Complex<V> y) {
  Complex<V> z = accurate_product(x, y);
  if (!any(has_nan(z))) return z;
  const Middle<V> mx(largest(x)), my(largest(y));  // of finite numbers two terms of opposite signs overflowed
  const V half = mx.root_down() * my.root_down();
  z = where(has_nan(z) & is_finite(x) & is_finite(y), half * (half * accurate_product(mx.up() * x, my.up() * y)), z);
  const auto lost = all_nan(z), big_x = has_inf(x), big_y = has_inf(y);
  const auto over = has_inf(Complex<V>{x.re * y.re, x.im * y.im}) | has_inf(Complex<V>{x.re * y.im, x.im * y.re});
  const Complex<V> p = where(big_x, boxed(x), where(big_y | over, without_nan(x), x));
  const Complex<V> q = where(big_y, boxed(y), where(big_x | over, without_nan(y), y));
  return where(lost & (big_x | big_y | over), V(kInf) * plain_product(p, q), z);
}

// p + q (r + r_low)
template <class V> BARACUDA_HD V plus_product(V p, V q, V r, V r_low) {
  const V t = q * r;
  const TwoWords<V> s = two_sum(p, t);
  return joined(s.hi, s.lo + (fma(q, r, -t) + q * r_low));
}
// Smith's quotient (CACM 5, 1962) with the ratio in two words, of numbers that were scaled as Baudin and Smith (2012) advise.
template <class V> BARACUDA_HD Complex<V> operator/(Complex<V> x, Complex<V> y) {
  const Middle<V> mx(largest(x)), my(largest(y));
  const Complex<V> u = mx.up() * x, v = my.up() * y;
  const auto steep = abs(v.re) < abs(v.im);
  const V big = where(steep, v.im, v.re), small = where(steep, v.re, v.im), inverse = 1 / big;
  const V ratio = small * inverse, r_low = fma(-ratio, big, small) * inverse, den = fma(small, ratio, big);
  const V r = where(steep, -ratio, ratio), low = where(steep, -r_low, r_low);
  const V p = where(steep, u.im, u.re), q = where(steep, -u.re, u.im);
  const V half = mx.root_down() * my.root_up();  // of the powers to undo, in two steps
  const Complex<V> z{plus_product(p, q, r, low) / den * half * half, plus_product(q, -p, r, low) / den * half * half};
  const auto lost = all_nan(z);
  if (!any(lost)) return z;
  const auto zero = is_zero(y) & mask_not(all_nan(x)), from_inf = has_inf(x) & is_finite(y), to_zero = has_inf(y) & is_finite(x);
  const Complex<V> a = where(from_inf, boxed(x), u), b = where(to_zero, boxed(y), v);
  const Complex<V> pole = copysign(V(kInf), y.re) * x, other = where(from_inf, V(kInf), V(0)) * plain_product(a, conj(b));
  return where(lost & zero, pole, where(lost & (from_inf | to_zero), other, z));
}
template <class V> BARACUDA_HD Complex<V> reciprocal(Complex<V> x) { return Complex<V>{1, 0} / x; }

// x / |x|, 0 at 0. An infinity's direction counts its infinite parts alone.
template <class V> BARACUDA_HD Complex<V> sgn(Complex<V> x) {
  const Complex<V> u = where(has_inf(x), boxed(x), Middle<V>(largest(x)).up() * x);
  const V m = where(has_nan(x), V(kNaN), abs(u));
  return where(is_zero(x), x, Complex<V>{u.re / m, u.im / m});
}

template <class V> BARACUDA_HD Complex<V> sqrt(Complex<V> x) {
  const V a = abs(x.re), b = abs(x.im);
  const Middle<V> range(larger_magnitude(a, b));
  const V up = range.up(), u = a * up, v = b * up, t0 = sqrt(0.5 * (u + sqrt(fma(u, u, v * v))));
  const auto high = b == kInf;
  const V t = where((a == kInf) | high, V(kInf), t0 * range.root_down());
  const V s = where(high, V(kInf), where(t0 == 0, b, where(a == kInf, b / a, v / (t0 + t0) * range.root_down())));
  const auto left = sign_bit(x.re);
  return {where(left, s, t), copysign(where(left, t, s), x.im)};
}

// log(|x| 2^octaves), near 1 too: the sum of the squares in two words.
template <class V> BARACUDA_HD V log_abs(Complex<V> x, double octaves = 0) {
  const V a = abs(x.re), b = abs(x.im), most = larger_magnitude(a, b), least = where(a < b, a, b);
  const Middle<V> range(most);
  const V up = range.up();
  const TwoWords<V> s = sum_of_squares(most * up, least * up);
  const V k = range.octaves() + octaves, y = 0.5 * log_two(s, k + k);
  return where((a == kInf) | (b == kInf), V(kInf), where(most == 0, where(least == 0, V(-kInf), y), y));
}
template <class V> BARACUDA_HD Complex<V> log(Complex<V> x) { return {log_abs(x), arg(x)}; }

// exp(x) 2^-halvings = (1 + p) 2^n, further out than exp has values: a product with a small number may still be one.
template <class V> struct Grown {
  V p;
  typename V::Bits n;
  BARACUDA_HD explicit Grown(V x, int halvings = 0) {
    const TwoWords<V> r = reduce_ln2(clamp(x, V::kF32 ? -104 : -746, V::kF32 ? 194 : 1456), n);
    n = n - halvings;
    p = fma(r.hi * r.hi, expm1_poly(r.hi), r.lo) + r.hi;
  }
  BARACUDA_HD V operator*(V s) const {
    const auto quarter = n >> 2;
    const V step = pow2<V>(quarter), t = s * step;
    return where(s == 0, s, fma(t, p, t) * step * step * pow2<V>(n - 3 * quarter));
  }
};
template <class V> BARACUDA_HD Complex<V> exp(Complex<V> x) {
  const Grown<V> e(x.re);
  const SineCosine<V> t = sin_cos(x.im);
  const Complex<V> y{e * t.cosine, where(x.im == 0, x.im, e * t.sine)};
  const auto turning = mask_not(abs(x.im) < kInf);  // the angle is not a number
  return where(turning & (abs(x.re) == kInf), Complex<V>{where(x.re < 0, V(0), V(kInf)), where(x.re < 0, copysign(V(0), x.im), V(kNaN))}, y);
}

// c cosh(x) and s sinh(x), where the product may be a number though cosh is none
template <class V> struct Hyperbola {
  V cosh_x, sinh_x;
  BARACUDA_HD Hyperbola(V x, V c, V s) {
    const auto big = abs(x) > (V::kF32 ? 80 : 700);
    const V a = where(big, V(0), x);
    cosh_x = c * cosh(a), sinh_x = s * sinh(a);
    if (!any(big)) return;
    const Grown<V> e(abs(x), 1);
    cosh_x = where(big, e * c, cosh_x), sinh_x = where(big, e * where(x < 0, -s, s), sinh_x);
  }
};
template <class V> BARACUDA_HD Complex<V> sinh(Complex<V> x) {
  const SineCosine<V> t = sin_cos(x.im);
  const Hyperbola<V> real(x.re, t.sine, t.cosine);
  const auto turning = mask_not(abs(x.im) < kInf) & ((x.re == 0) | (abs(x.re) == kInf));
  return {where(turning, x.re, real.sinh_x), where(x.im == 0, x.im, real.cosh_x)};
}
template <class V> BARACUDA_HD Complex<V> cosh(Complex<V> x) {
  const SineCosine<V> t = sin_cos(x.im);
  const Hyperbola<V> real(x.re, t.cosine, t.sine);
  const auto turning = mask_not(abs(x.im) < kInf);
  const V zero = copysign(V(1), x.re) * copysign(V(0), x.im);
  return {where(turning & (abs(x.re) == kInf), V(kInf), real.cosh_x), where((x.im == 0) | (turning & (x.re == 0)), zero, real.sinh_x)};
}
// a b of two words each
template <class V> BARACUDA_HD TwoWords<V> product(TwoWords<V> a, TwoWords<V> b) {
  const V p = a.hi * b.hi;
  return {p, fma(a.hi, b.hi, -p) + fma(a.hi, b.lo, a.lo * b.hi)};
}
// (t + i (1 - t^2) sin b cos b) / (cos^2 b + t^2 sin^2 b), t = tanh a
template <class V> BARACUDA_HD Complex<V> tanh(Complex<V> x) {
  const SineCosineParts<V> angle = sin_cos_two(x.im);
  const V a = abs(x.re), e = exp(-2 * a);
  const TwoWords<V> t = tanh_parts(a), w = product(t, angle.sine), sc = product(angle.sine, angle.cosine);
  const TwoWords<V> cc = product(angle.cosine, angle.cosine), ww = product(w, w), sum = two_sum(cc.hi, ww.hi);
  const TwoWords<V> den{sum.hi, sum.lo + (cc.lo + ww.lo)};
  const V slope = where(t.hi < 0.5, fma(-t.hi, t.hi, V(1)), 4 * e / ((1 + e) * (1 + e)));  // 1 - t^2
  const TwoWords<V> turned = product(sc, TwoWords<V>{slope, 0}), q = quotient(t.hi, den), r = quotient(turned.hi, den);
  const V re = q.hi + (q.lo + t.lo / den.hi), im = joined(r.hi, r.lo + turned.lo / den.hi);
  const auto turning = mask_not(abs(x.im) < kInf);
  return {where(turning & (x.re == 0), x.re, copysign(where(turning & (a == kInf), V(1), re), x.re)),
          where(x.im == 0, x.im, where(turning & (a == kInf), copysign(V(0), x.im), im))};
}
template <class V> BARACUDA_HD Complex<V> sin(Complex<V> x) { return over_i(sinh(times_i(x))); }
template <class V> BARACUDA_HD Complex<V> cos(Complex<V> x) { return cosh(times_i(x)); }
template <class V> BARACUDA_HD Complex<V> tan(Complex<V> x) { return over_i(tanh(times_i(x))); }

// a^b = exp(b log a), of c64 in f64; 1 for b = 0, exact squares. 0^b: 0 for a positive real part of b, an infinity for a negative.
template <class V> BARACUDA_HD Complex<V> pow(Complex<V> a, Complex<V> b) {
  Complex<V> y;
  if constexpr (V::kF32) {
    const auto wide = [](Complex<V> x) { return Complex<Pack<double, V::kWidth>>{convert<double>(x.re), convert<double>(x.im)}; };
    const auto z = exp(wide(b) * log(wide(a)));
    y = {convert<float>(z.re), convert<float>(z.im)};
  } else y = exp(b * log(a));
  const typename V::Mask simple = (b.im == 0) & ((b.re == 1) | (b.re == 2)), zero = is_zero(a);
  if (any(simple)) y = where(simple, where(b.re == 1, a, a * a), y);
  if (any(zero)) y = where(zero, where(b.re > 0, Complex<V>{0, 0}, Complex<V>{where(b.re < 0, V(kInf), V(kNaN)), kNaN}), y);
  return where(is_zero(b), Complex<V>{1, 0}, y);
}

}  // namespace baracuda
