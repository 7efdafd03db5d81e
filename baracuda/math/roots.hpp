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

// sqrt(a^2 + b^2) without overflow; hypot(inf, NaN) = inf.
template <class V> BARACUDA_HD V hypot(V a, V b) {
  const V x = abs(a), y = abs(b), most = where(x < y, y, x), least = where(x < y, x, y);
  const auto big = most > (V::kF32 ? 0x1p60 : 0x1p500), tiny = most < (V::kF32 ? 0x1p-40 : 0x1p-400);
  const V up = where(big, V(V::kF32 ? 0x1p-70 : 0x1p-600), where(tiny, V(V::kF32 ? 0x1p100 : 0x1p700), V(1)));
  const V down = where(big, V(V::kF32 ? 0x1p70 : 0x1p600), where(tiny, V(V::kF32 ? 0x1p-100 : 0x1p-700), V(1)));
  const V u = most * up, v = least * up, uu = u * u, vv = v * v, s = uu + vv;
  const V low = ((uu - s) + vv) + (fma(u, u, -uu) + fma(v, v, -vv)), w = sqrt(s);
  const V r = where(s == 0, V(0), (w + (fma(-w, w, s) + low) / (w + w)) * down);
  return where(x == kInf, x, where(y == kInf, y, r));
}

}  // namespace baracuda
