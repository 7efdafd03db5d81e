#pragma once
// exp for sums and results in f16 or bf16, in few instructions (softmax and its gradient). 0 where exp(x) is hardly a normal number in f32: the
// instruction takes hundreds of cycles for what is not, so such lanes are left out. NaN stays. The same bits on every instruction set.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

inline constexpr double kLog2EInF32 = 0x1.715476p0;
// p 2^floor(h), 0 where h < least, where |h| < 2^22 otherwise; h is whole but for AVX-512.
template <bool kMasked, class V> BARACUDA_HD V scale_by_floor(V p, V h, [[maybe_unused]] double least) {
  static_assert(V::kF32);
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (V::kVector) {
    if constexpr (!kMasked) return V::of(decltype(p.v)(_mm512_scalef_ps(__m512(p.v), __m512(h.v))));
    return V::of(decltype(p.v)(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(__m512(h.v), __m512(V(least).v), _CMP_NLT_UQ), __m512(p.v), __m512(h.v))));
  }
#endif
  return where(h < least, V(0), scale(p, bits(h + kMagic<V>) - bits(V(kMagic<V>))));
}

// exp(d) 2^24 for d <= 0, in the place of exp_up, for results of halves: 2^(h - 126.5) is split where h has its integer part, so that one instruction
// of AVX-512 takes the fraction and another the exponent; h is positive, for such a fraction is exact. Relative error 2^-17.3;
// exactly 2^24 for d = 0; 0 from d = -87 down. kNear: no d is below -86.
template <bool kNear, class V> BARACUDA_HD V exp_up_for_half(V d) {
  constexpr double kLift = 126, up = 0x1p-102;
  const V h = fma(d, V(kLog2EInF32), V(kLift + 0.5));
  V f, whole = h;
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (V::kVector) f = V::of(decltype(d.v)(_mm512_reduce_ps(__m512(h.v), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)));
  else
#endif
  {
    const V c = larger(V(1), h);
#if BARACUDA_VECTOR_BYTES == 32
    if constexpr (V::kVector) whole = V::of(decltype(d.v)(_mm256_floor_ps(__m256(c.v))));
    else
#endif
    {
      const V near = (c + kMagic<V>) - kMagic<V>;
      whole = where(near > c, near - 1, near);
    }
    f = c - whole;
  }
  // 2^(f - 1/2) 2^(24 - 126), exact in the middle; a minimax polynomial
  const V p = poly(f, up * 0x1.6a0a28p-1, up * 0x1.f5c81p-2, up * 0x1.5dbc14p-3, up * 0x1.2cb02cp-5, up * 0x1.3ac75ep-7);
  if constexpr (V::kVector && BARACUDA_VECTOR_BYTES == 64) return scale_by_floor<!kNear>(p, h, 1);
  else return where(h < 1, V(0), p * pow2<V>(bits(whole + kMagic<V>) - bits(V(kMagic<V>))));
}
// exp(x) with the polynomial of exp_up and its error, for differences of which little may be left; 0 from x = -87 down.
template <class V> BARACUDA_HD V exp_or_zero(V x) {
  const V log2e = kLog2EInF32, c = smaller(V(89), x), t = fma(c, log2e, V(kMagic<V>)), k = t - kMagic<V>;
  const V p = poly(fma(c, log2e, -k), 1, 0x1.62e42ap-1, 0x1.ebf9bap-3, 0x1.c6b69cp-5, 0x1.3ceb06p-7, 0x1.5bfc72p-10);
  return scale_by_floor<true>(p, k, -125);
}

}  // namespace baracuda
