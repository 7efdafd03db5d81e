#pragma once
// tan asin acos atan atan2 for any Pack, by the rules of vmath.hpp. Largest error in ulp, f32 / f64, over every 409th float and
// 2 10^6 doubles: tan 2.1/2.3, asin 0.63, acos 0.61, atan 1.2/1.35; atan2 below 2 over pairs of a few thousand values.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class V> inline constexpr double kHalfPi = V::kF32 ? 0x1.921fb6p0 : 0x1.921fb54442d18p0;
template <class V> inline constexpr double kHalfPiLow = V::kF32 ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54;

template <class V> BARACUDA_HD V tan(V x) {
  const Quarter<V> q = reduce_quarter(x);
  const SineCosine<V> f = sine_cosine(q);
  const auto odd = (q.n & 1) != 0;
  return where(x == 0, x, where(odd, -f.cosine, f.sine) / where(odd, f.sine, f.cosine));
}

// pi x = n pi/2 + r + low; every step but the last exact.
template <class V> BARACUDA_HD Quarter<V> reduce_quarter_pi(V x) {
  const V y = x - 2 * round_even(0.5 * x), k = round_even(y + y), r = fma(k, V(-0.5), y), hi = r * (2 * kHalfPi<V>);
  return {hi, fma(r, V(2 * kHalfPi<V>), -hi) + r * (2 * kHalfPiLow<V>), bits(k + kMagic<V>) - bits(V(kMagic<V>))};
}
template <class V> BARACUDA_HD V sinpi(V x) { return where(x == 0, x, sin_turned(reduce_quarter_pi(x), 0)); }
// sin(pi x) / (pi x): 1 at 0, 0 at the other integers and at infinity.
template <class V> BARACUDA_HD V sinc(V x) {
  const V s = sinpi(x), d = x * (2 * kHalfPi<V>), d_low = fma(x, V(2 * kHalfPi<V>), -d) + x * (2 * kHalfPiLow<V>);
  const V q = s / d, y = q - (fma(q, d, -s) + q * d_low) / d;
  return where(abs(x) < (V::kF32 ? 0x1p-20 : 0x1p-40), V(1), where(s == 0, V(0), where(abs(x) == kInf, V(0), y)));
}
template <class V> BARACUDA_HD V sinc_slope(V x) {
  const V z = x * x;
  V p;  // (cos(pi x) - sinc(x)) / z
  if constexpr (V::kF32) p = poly(z, -0x1.a51a66p1, 0x1.9f9ca8p1, -0x1.24fc8cp0, 0x1.abcc0cp-3, -0x1.6cc17p-6);
  else p = poly(z, -0x1.a51a6625307d3p1, 0x1.9f9cb402bc453p1, -0x1.24feab55899b6p0, 0x1.ac6805ceae82ep-3, -0x1.8061c515bd8ebp-6,
      0x1.d2ea8c91109ccp-10, -0x1.9998d00ef9f56p-14, 0x1.0eb74c877c7dep-18, -0x1.eb7b800cf71c2p-24);
  const V far = (sin_turned(reduce_quarter_pi(x), 1) - sinc(x)) / x;
  return where(z < 0.25, x * p, where(abs(x) == kInf, V(0), far));
}

// sin(x) and cos(x), the bits of each, from one reduction; and what they round away.
template <class V> BARACUDA_HD SineCosineParts<V> sin_cos_two(V x) {
  const Quarter<V> q = reduce_quarter(x);
  const SineCosineParts<V> p = sine_cosine_parts(q);
  const V sine = p.sine.hi + p.sine.lo, sine_low = (p.sine.hi - sine) + p.sine.lo;
  const V cosine = p.cosine.hi + p.cosine.lo, cosine_low = (p.cosine.hi - cosine) + p.cosine.lo;
  const auto odd = (q.n & 1) != 0, below = (q.n & 2) != 0, left = ((q.n + 1) & 2) != 0;
  const V s = where(odd, cosine, sine), s_low = where(odd, cosine_low, sine_low), c = where(odd, sine, cosine), c_low = where(odd, sine_low, cosine_low);
  return {{where(x == 0, x, where(below, -s, s)), where(below, -s_low, s_low)}, {where(left, -c, c), where(left, -c_low, c_low)}};
}
template <class V> BARACUDA_HD SineCosine<V> sin_cos(V x) {
  const SineCosineParts<V> t = sin_cos_two(x);
  return {t.sine.hi, t.cosine.hi};
}

// (atan(t) - t) / t^3 over z = t^2 in [0, 1]
template <class V> BARACUDA_HD V atan_poly(V z) {
  if constexpr (V::kF32)
    return poly(z, -0x1.555554p-2, 0x1.99984cp-3, -0x1.246f74p-3, 0x1.c423eep-4, -0x1.636df2p-4, 0x1.01e514p-4, -0x1.2a759ap-5,
                0x1.c62ea6p-7, -0x1.449a16p-9);
  else
    return poly(z, -0x1.5555555555555p-2, 0x1.9999999999717p-3, -0x1.249249247bfe2p-3, 0x1.c71c71bd6d439p-4, -0x1.745d1629d2cfap-4,
                0x1.3b139d554f918p-4, -0x1.111022acfa697p-4, 0x1.e1d2171a5c83dp-5, -0x1.aec5c05a22e29p-5, 0x1.8444921e83d29p-5,
                -0x1.5d73a7a8bd3f6p-5, 0x1.342771c2a294dp-5, -0x1.01f239f602268p-5, 0x1.88d42ed613c19p-6, -0x1.0329a043bfd73p-6,
                0x1.193ce762dc5f6p-7, -0x1.d9860aa6cf11p-9, 0x1.1e928ab968a9bp-10, -0x1.b82dce8e07252p-13, 0x1.4085098606d74p-16);
}
// quarters pi/2 + sign atan(t), 0 <= t <= 1, with one rounding of consequence.
template <class V> BARACUDA_HD V turned_atan(V t, V quarters, V sign) {
  const V z = t * t, s = sign * t, base = quarters * kHalfPi<V>, hi = base + s;
  return where(quarters == 0, fma(s * z, atan_poly(z), s), hi + ((base - hi) + s + fma(s * z, atan_poly(z), quarters * kHalfPiLow<V>)));
}
template <class V> BARACUDA_HD V atan(V x) {
  const V a = abs(x);
  const auto far = a > 1;
  return copysign(turned_atan(where(far, 1 / a, a), where(far, V(1), V(0)), where(far, V(-1), V(1))), x);
}
// The angle of (x, y). Signed zeros and infinities as in IEEE: atan2(0, -0) = pi, atan2(inf, -inf) = 3 pi / 4.
template <class V> BARACUDA_HD V atan2(V y, V x) {
  const V ay = abs(y), ax = abs(x);
  const auto steep = ay > ax, left = sign_bit(x);
  const V small = where(steep, ax, ay), large = where(steep, ay, ax);
  const V t = where(large == 0, small, where(small == large, V(1), small / large));
  const V quarters = where(steep, V(1), where(left, V(2), V(0))), toward = where(steep, V(-1), V(1));
  return copysign(turned_atan(t, quarters, where(left, -toward, toward)), y);
}

// (asin(s) - s) / s^3 over z = s^2 in [0, 1/4]
template <class V> BARACUDA_HD V asin_poly(V z) {
  if constexpr (V::kF32) return poly(z, 0x1.555554p-3, 0x1.3334cep-4, 0x1.6d3e6ap-5, 0x1.ffbf34p-6, 0x1.0fe1b2p-6, 0x1.1acb92p-5);
  else return poly(z, 0x1.5555555555556p-3, 0x1.3333333332d9ep-4, 0x1.6db6db6e48dffp-5, 0x1.f1c71c1187edcp-6, 0x1.6e8bb383c0f0dp-6,
                   0x1.1c4d0fc1b64edp-6, 0x1.c9d336dfbb7fbp-7, 0x1.77ff42ab05982p-7, 0x1.5336525098648p-7, 0x1.5dc12cb058336p-8,
                   0x1.224dcb4572a37p-6, -0x1.f6744bf4b44fbp-7, 0x1.dc690551ccd19p-6);
}
// Of a = |x| <= 1: hi + lo = asin(a) below 1/2, else asin(sqrt((1 - a) / 2)), which is (pi/2 - asin(a)) / 2.
template <class V> BARACUDA_HD TwoWords<V> asin_parts(V a) {
  const auto near = a < 0.5;
  const V z = where(near, a * a, 0.5 * (1 - a)), s = where(near, a, sqrt(z));
  const V s_low = where(near, V(0), where(z == 0, V(0), fma(-s, s, z) / (s + s)));
  return {s, fma(s * z, asin_poly(z), s_low)};
}
// quarters pi/2 + times (part.hi + part.lo)
template <class V> BARACUDA_HD V turned_asin(double quarters, TwoWords<V> part, double times) {
  const V base = quarters * kHalfPi<V>, s = times * part.hi, hi = base + s;
  return hi + (((base - hi) + s) + (quarters * kHalfPiLow<V> + times * part.lo));
}
template <class V> BARACUDA_HD V asin(V x) {
  const V a = abs(x);
  const TwoWords<V> p = asin_parts(a);
  return copysign(where(a < 0.5, p.hi + p.lo, turned_asin(1, p, -2)), x);
}
template <class V> BARACUDA_HD V acos(V x) {
  const V a = abs(x);
  const TwoWords<V> p = asin_parts(a);
  return where(a < 0.5, turned_asin(1, TwoWords<V>{copysign(p.hi, x), copysign(p.lo, x)}, -1),
               where(x < 0, turned_asin(2, p, -2), 2 * (p.hi + p.lo)));
}

}  // namespace baracuda
