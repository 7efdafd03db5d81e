#pragma once
// Philox4x32-10 over lanes: N blocks at once in vectors of 32-bit words, one for N = 1 (CUDA, portable).
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <int N> using Words = Raw<uint32_t, N>;
template <int N> struct PhiloxBlock { Words<N> word[4]; };

// hi, lo = a * m, 64 bits per lane.
template <int N> BARACUDA_HD void multiply_wide(Words<N> a, uint32_t m, Words<N>& hi, Words<N>& lo) {
  if constexpr (N == 1) {
#ifdef __CUDA_ARCH__
    uint64_t p;  // of the product of two 64-bit numbers the compiler keeps a sum with 0
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(p) : "r"(a), "r"(m));
#else
    const uint64_t p = uint64_t(a) * m;
#endif
    hi = uint32_t(p >> 32), lo = uint32_t(p);
  }
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (N == 16) {
    const __m512i b = _mm512_set1_epi32(int(m)), even = _mm512_mul_epu32(__m512i(a), b), odd = _mm512_mul_epu32(_mm512_srli_epi64(__m512i(a), 32), b);
    hi = Words<N>(_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd));
    lo = Words<N>(_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)));
  }
#elif BARACUDA_VECTOR_BYTES == 32
  else if constexpr (N == 8) {
    const __m256i b = _mm256_set1_epi32(int(m)), even = _mm256_mul_epu32(__m256i(a), b), odd = _mm256_mul_epu32(_mm256_srli_epi64(__m256i(a), 32), b);
    hi = Words<N>(_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa));
    lo = Words<N>(_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa));
  }
#endif
  else for (int i = 0; i < N; ++i) {
    const uint64_t p = uint64_t(a[i]) * m;
    hi[i] = uint32_t(p >> 32), lo[i] = uint32_t(p);
  }
}
template <int N> BARACUDA_HD PhiloxBlock<N> philox(PhiloxBlock<N> counter, uint64_t key) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  PhiloxBlock<N> c = counter;
  for (int round = 0; round < 10; ++round) {
    Words<N> hi0, lo0, hi1, lo1;
    multiply_wide<N>(c.word[0], 0xD2511F53, hi0, lo0);
    multiply_wide<N>(c.word[2], 0xCD9E8D57, hi1, lo1);
    c = {{hi1 ^ c.word[1] ^ k0, lo1, hi0 ^ c.word[3] ^ k1, lo0}};
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;  // the golden ratio, sqrt(3) - 1
  }
  return c;
}
// The blocks with numbers first, first + 1, ...: counter (number, 0) of 64 bits each.
template <int N> BARACUDA_HD PhiloxBlock<N> philox_blocks(uint64_t first, uint64_t seed) {
  PhiloxBlock<N> c;
  if constexpr (N == 1) c.word[0] = uint32_t(first), c.word[1] = uint32_t(first >> 32);
  else {
    Words<N> lane;
    for (int i = 0; i < N; ++i) lane[i] = uint32_t(i);
    c.word[0] = lane + uint32_t(first);
    c.word[1] = uint32_t(first >> 32) - Words<N>(c.word[0] < lane);  // the carry is a lane of ones, -1
  }
  c.word[2] = c.word[3] = Words<N>{};
  return philox<N>(c, seed);
}

}  // namespace baracuda
