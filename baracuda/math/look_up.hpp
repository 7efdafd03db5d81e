#pragma once
// Results of a function of one half, taken from a table of all 65536 of them: cheaper than most formulas, and the same bits.
// An element costs a load for its result and a third of a cycle each to find and to place it; gathers are no faster. Indices are
// read two at a time, and results go straight into their lanes.
#include <cstdint>
#include <utility>

#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

inline constexpr int64_t kLookUpAhead = 4096;  // bytes: look-ups leave too little in flight to hide what the next lines cost
struct IndexPair { uint32_t first, second; };
BARACUDA_HD IndexPair index_pair(const void* x) {
  uint32_t q;
  __builtin_memcpy(&q, x, sizeof q);
  return {q & 0xffff, q >> 16};
}
#if BARACUDA_VECTOR_BYTES
BARACUDA_HD __m256 beside(__m128 a, __m128 b) { return _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1); }
#if BARACUDA_VECTOR_BYTES == 64
BARACUDA_HD __m512 beside(__m256 a, __m256 b) { return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1); }
#endif
BARACUDA_HD __m128i four_halves(const uint16_t* table, const uint16_t* x) {
  const IndexPair p = index_pair(x), q = index_pair(x + 2);
  __m128i r = _mm_cvtsi32_si128(table[p.first]);
  r = _mm_insert_epi16(r, table[p.second], 1), r = _mm_insert_epi16(r, table[q.first], 2);
  return _mm_insert_epi16(r, table[q.second], 3);
}
// table[x[0]], table[x[step]] ...
template <int count, int step> BARACUDA_HD auto look_up_floats(const float* table, const uint16_t* x) {
  if constexpr (count == 4) return __m128(Raw<float, 4>{table[x[0]], table[x[step]], table[x[2 * step]], table[x[3 * step]]});
  else return beside(look_up_floats<count / 2, step>(table, x), look_up_floats<count / 2, step>(table, x + count / 2 * step));
}
// Entries of two floats, a quarter of them in each 128 bits: of the 0th, 4th, 8th ... element and the one behind it.
template <int floats, int step, class E> BARACUDA_HD auto look_up_pairs(const E* table, const uint16_t* x) {
  if constexpr (floats == 4) {
    const __m128d r = _mm_load_sd(reinterpret_cast<const double*>(table + x[0]));
    return _mm_castpd_ps(_mm_loadh_pd(r, reinterpret_cast<const double*>(table + x[step])));
  } else return beside(look_up_pairs<floats / 2, step>(table, x), look_up_pairs<floats / 2, step>(table, x + floats / 2 * step));
}
// What is first, and what second, in the entries of two registers, whose 128 bits stand in for four elements.
template <int N, int... K>
BARACUDA_HD void take_apart(Raw<float, N> a, Raw<float, N> b, Pack<float, N>& first, Pack<float, N>& second, std::integer_sequence<int, K...>) {
  first.v = __builtin_shufflevector(a, b, (K / 4 * 4 + K % 2 * 2 + K % 4 / 2 * N)...);
  second.v = __builtin_shufflevector(a, b, (K / 4 * 4 + K % 2 * 2 + K % 4 / 2 * N + 1)...);
}
#endif
// to[i] = table[x[i]], x as bits; past the caches where `to` begins at a line.
BARACUDA_HD void look_up(const uint16_t* table, const void* x, uint16_t* to, int64_t n, [[maybe_unused]] bool past) {
  const uint16_t* from = static_cast<const uint16_t*>(x);
#if BARACUDA_VECTOR_BYTES
  for (; n >= 16; n -= 16, from += 16, to += 16) {
    if (past) __builtin_prefetch(reinterpret_cast<const char*>(from) + kLookUpAhead);
    const __m128i low = _mm_unpacklo_epi64(four_halves(table, from), four_halves(table, from + 4));
    const __m128i high = _mm_unpacklo_epi64(four_halves(table, from + 8), four_halves(table, from + 12));
    const __m256i r = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    if (past) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), r);
    else _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), r);
  }
#endif
  for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
}
// The results of x[0], x[step] ..., N of them.
template <int N, int step = 1> BARACUDA_HD Pack<float, N> look_up(const float* table, const void* x) {
  const uint16_t* from = static_cast<const uint16_t*>(x);
#if BARACUDA_VECTOR_BYTES
  if constexpr (N > 1) return Pack<float, N>::of(Raw<float, N>(look_up_floats<N, step>(table, from)));
#endif
  if constexpr (N == 1) return Pack<float, 1>::of(table[*from]);
}
// The same of two floats each.
template <int N, int step = 1, class E> BARACUDA_HD void look_up(const E* table, const void* x, Pack<float, N>& first, Pack<float, N>& second) {
  static_assert(sizeof(E) == 2 * sizeof(float));
  const uint16_t* from = static_cast<const uint16_t*>(x);
#if BARACUDA_VECTOR_BYTES
  if constexpr (N > 1)
    take_apart<N>(look_up_pairs<N, step>(table, from), look_up_pairs<N, step>(table, from + 2 * step), first, second, std::make_integer_sequence<int, N>{});
#endif
  if constexpr (N == 1) {
    float both[2];
    __builtin_memcpy(both, table + *from, sizeof both);
    first.v = both[0], second.v = both[1];
  }
}

}  // namespace baracuda
