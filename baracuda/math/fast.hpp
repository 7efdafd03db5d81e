#pragma once
// Approximations for values that end up in 16 bits: shorter polynomials, one scaling step. The name says for which
// storage they are meant; nothing here is used for f32 or f64 results.
//   *_bf16: relative error < 2^-13    *_f16: relative error < 2^-18
// exp, exp2: results below 2^-125 are 0, infinities and NaN are right, overflow where exp overflows in float.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

// 2 2^f for |f| <= 1/2; the factor lets n = 128 be scaled in one step. Error 2^-13.7, 2^-18.5.
template <int bits_, class V> BARACUDA_HD V exp2_short(V k, V f, typename V::Bits n) {
  V p;
  if constexpr (bits_ == 8) p = poly(f, 0x1.fff69p0, 0x1.62f31cp0, 0x1.f0dea6p-2, 0x1.c3f79ap-4);
  else p = poly(f, 0x1.ffffe8p0, 0x1.62e0dcp0, 0x1.ec06aap-2, 0x1.ca14a2p-4, 0x1.39a1bep-6);
  return where(k < -125, V(0), p * pow2<V>(n - 1));
}
template <int bits_, class V> BARACUDA_HD V exp2_half(V x) {
  static_assert(V::kF32);
  const V c = clamp(x, -126, 128.5), t = c + kMagic<V>, k = t - kMagic<V>;
  return exp2_short<bits_>(k, c - k, bits(t) - bits(V(kMagic<V>)));
}
template <int bits_, class V> BARACUDA_HD V exp_half(V x) {
  static_assert(V::kF32);
  const V c = clamp(x, -87.5, 89), log2e = 0x1.715476p0, t = fma(c, log2e, V(kMagic<V>)), k = t - kMagic<V>;
  return exp2_short<bits_>(k, fma(c, log2e, -k), bits(t) - bits(V(kMagic<V>)));
}
template <class V> BARACUDA_HD V exp_bf16(V x) { return exp_half<8>(x); }
template <class V> BARACUDA_HD V exp_f16(V x) { return exp_half<11>(x); }
template <class V> BARACUDA_HD V exp2_bf16(V x) { return exp2_half<8>(x); }
template <class V> BARACUDA_HD V exp2_f16(V x) { return exp2_half<11>(x); }
template <class V> BARACUDA_HD V sigmoid_bf16(V x) {
  const V t = exp_bf16(-abs(x));
  return where(x < 0, t, V(1)) / (1 + t);
}
template <class V> BARACUDA_HD V sigmoid_f16(V x) {
  const V t = exp_f16(-abs(x));
  return where(x < 0, t, V(1)) / (1 + t);
}

}  // namespace baracuda
