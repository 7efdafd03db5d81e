#pragma once
// store_twice and store_by_turns (math/twice.hpp) where bf16 is rounded by the instruction of AVX512-BF16: the same bits, in a third of the
// operations. It makes zeros of subnormal values: registers that hold one go the other way.
#include "baracuda/math/twice.hpp"

namespace baracuda::inline BARACUDA_ISA {

#if defined(__AVX512BF16__)
BARACUDA_HD bool has_subnormal(__m512 a, __m512 b) {
  constexpr int kSubnormal = 0x20;
  return __builtin_expect(!_mm512_kortestz(_mm512_fpclass_ps_mask(a, kSubnormal), _mm512_fpclass_ps_mask(b, kSubnormal)), 0);
}
#endif
template <class T, int N> BARACUDA_HD void store_twice_rounded(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if defined(__AVX512BF16__)
  if constexpr (kIsBf16<T> && N == 16)
    if (!has_subnormal(__m512(a.v), __m512(b.v))) {
      const __m512i r = __m512i(_mm512_cvtne2ps_pbh(__m512(b.v), __m512(a.v)));
      return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
    }
#endif
  store_twice<T, N>(p, a, b, past);
}
template <class T, int N, bool kNormal = false> BARACUDA_HD void store_by_turns_rounded(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if defined(__AVX512BF16__)
  if constexpr (kIsBf16<T> && N == 16)
    if (kNormal || !has_subnormal(__m512(a.v), __m512(b.v))) {
      const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
      const __m512i r = _mm512_permutexvar_epi16(turns, __m512i(_mm512_cvtne2ps_pbh(__m512(b.v), __m512(a.v))));
      return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
    }
#endif
  store_by_turns<T, N>(p, a, b, past);
}
// kNormal: no value is subnormal.
template <class T, int N, bool kNormal = false> BARACUDA_HD void store_dealt_rounded(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
  if constexpr (kStep<T, N> == 2) store_by_turns_rounded<T, N, kNormal>(p, a, b, past);
  else store_dealt<T, N>(p, a, b, past);
}

}  // namespace baracuda
