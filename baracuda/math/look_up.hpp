#pragma once
// Results of a function of one half, taken from a table of all 65536 of them: cheaper than most formulas, and the same bits.
#include <cstdint>

#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class E> struct FourOf { E a, b, c, d; };
template <class E> BARACUDA_HD FourOf<E> look_up_four(const E* table, const uint16_t* x) {  // one load for four indices: loads are the limit
  uint64_t q;
  __builtin_memcpy(&q, x, sizeof q);
  return {table[q & 0xffff], table[q >> 16 & 0xffff], table[q >> 32 & 0xffff], table[q >> 48]};
}
// to[i] = table[x[i]], x as bits.
template <class E> BARACUDA_HD void look_up(const E* table, const void* x, E* to, int64_t n) {
  const uint16_t* from = static_cast<const uint16_t*>(x);
#if BARACUDA_VECTOR_BYTES
  constexpr int64_t step = sizeof(E) == 2 ? 8 : 4;
  for (; n >= step; n -= step, from += step, to += step) {
    const FourOf<E> p = look_up_four(table, from);
    if constexpr (sizeof(E) == 2) {
      const FourOf<E> q = look_up_four(table, from + 4);
      __m128i r = _mm_cvtsi32_si128(p.a);
      r = _mm_insert_epi16(r, p.b, 1), r = _mm_insert_epi16(r, p.c, 2), r = _mm_insert_epi16(r, p.d, 3), r = _mm_insert_epi16(r, q.a, 4);
      r = _mm_insert_epi16(r, q.b, 5), r = _mm_insert_epi16(r, q.c, 6), r = _mm_insert_epi16(r, q.d, 7);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), r);
    } else to[0] = p.a, to[1] = p.b, to[2] = p.c, to[3] = p.d;
  }
#endif
  for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
}

}  // namespace baracuda
