#pragma once
// cbrt and hypot for any Pack, by the rules of vmath.hpp. Largest error seen, f32 and f64: 0.51 ulp.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

// |x| = m 2^(3 k), m in [0.35, 2.83]: a polynomial's guess (2^-16), then Halley's steps, the residual of the last in two words.
template <class V> BARACUDA_HD V cbrt(V x) {
  V e;
  const V a = abs(x), m0 = normalize(a, e), k = round_even(e * (1.0 / 3)), rest = fma(k, V(-3), e);
  const V m = m0 * where(rest < 0, V(0.5), where(rest > 0, V(2), V(1)));
  V t = poly(m0, 0x1.cea54cp-2, 0x1.cee29cp-1, -0x1.118916p-1, 0x1.ba1ed8p-3, -0x1.3332cap-5) *
        where(rest < 0, V(0x1.965fea53d6e3dp-1), where(rest > 0, V(0x1.428a2f98d728bp0), V(1)));
  if constexpr (!V::kF32) {
    const V c = t * t * t;
    t = fma(t, (m - c) / (c + c + m), t);
  }
  const V s = t * t, s_low = fma(t, t, -s), c = s * t, residual = fma(-s, t, m) - s_low * t;
  t = fma(t, residual / (c + c + m), t);
  const V y = t * pow2<V>(bits(k + kMagic<V>) - bits(V(kMagic<V>)));
  return copysign(where(a > 0, where(a < kInf, y, a), a), x);
}

// A power of two that takes a magnitude to where neither its square overflows nor that of a number half an ulp of it is lost.
template <class V> struct Middle {
  typename V::Mask big, tiny;
  BARACUDA_HD explicit Middle(V most) : big(most > (V::kF32 ? 0x1p60 : 0x1p500)), tiny(most < (V::kF32 ? 0x1p-40 : 0x1p-400)) {}
  BARACUDA_HD V pick(double of_big, double of_tiny, double otherwise = 1) const { return where(big, V(of_big), where(tiny, V(of_tiny), V(otherwise))); }
  BARACUDA_HD V up() const { return V::kF32 ? pick(0x1p-70, 0x1p100) : pick(0x1p-600, 0x1p700); }
  BARACUDA_HD V down() const { return V::kF32 ? pick(0x1p70, 0x1p-100) : pick(0x1p600, 0x1p-700); }
  BARACUDA_HD V root_up() const { return V::kF32 ? pick(0x1p-35, 0x1p50) : pick(0x1p-300, 0x1p350); }
  BARACUDA_HD V root_down() const { return V::kF32 ? pick(0x1p35, 0x1p-50) : pick(0x1p300, 0x1p-350); }
  BARACUDA_HD V octaves() const { return V::kF32 ? pick(70, -100, 0) : pick(600, -700, 0); }  // log2 of down()
};
template <class V> BARACUDA_HD V larger_magnitude(V x, V y) { return where(x < y, y, x); }
template <class V> BARACUDA_HD TwoWords<V> sum_of_squares(V u, V v) {  // u >= v >= 0, both in the middle
  const V uu = u * u, vv = v * v, s = uu + vv;
  return {s, ((uu - s) + vv) + (fma(u, u, -uu) + fma(v, v, -vv))};
}
// sqrt(a^2 + b^2) without overflow; hypot(inf, NaN) = inf.
template <class V> BARACUDA_HD V hypot(V a, V b) {
  const V x = abs(a), y = abs(b), most = larger_magnitude(x, y), least = where(x < y, x, y);
  const Middle<V> range(most);
  const V up = range.up();
  const TwoWords<V> s = sum_of_squares(most * up, least * up);
  const V w = sqrt(s.hi), r = where(s.hi == 0, V(0), (w + (fma(-w, w, s.hi) + s.lo) / (w + w)) * range.down());
  return where(x == kInf, x, where(y == kInf, y, r));
}

}  // namespace baracuda
