#pragma once
// Pairs of 16-bit words from two vectors, as the bf16 products take them: word i of a below word i of b.
#include "baracuda/math/config.hpp"
#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace baracuda::inline BARACUDA_ISA {

// For the low and the high half of two vectors of 32 words.
BARACUDA_HD void interleave_words(__m512i a, __m512i b, __m512i& low, __m512i& high) {
  const __m512i l = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2,
                                     33, 1, 32, 0);
  low = _mm512_permutex2var_epi16(a, l, b);
  high = _mm512_permutex2var_epi16(a, _mm512_add_epi16(l, _mm512_set1_epi16(16)), b);
}

}  // namespace baracuda::inline BARACUDA_ISA
#endif
