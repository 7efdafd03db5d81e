#pragma once
// look_up for two registers at a time, dealt as load_dealt does. An AVX-512 processor reads each two indices as one word and places results by
// broadcasts under a mask, which any of its pipes takes: 11 cycles for 16 floats where loads into single lanes take 15 (Zen 4). Where
// has_fast_gathers() (host/gathers.hpp) says so, kGather takes them by gathers: 8.5 cycles for 16 (Intel of model 207). The same bits.
#include "baracuda/math/look_up.hpp"
#include "baracuda/math/twice.hpp"

namespace baracuda::inline BARACUDA_ISA {

#if BARACUDA_VECTOR_BYTES == 64
template <int n> BARACUDA_HD void place(__m256 (&r)[2], const float* p) {  // element n of 16
  __m256& to = r[n / 8];
  if constexpr (n % 8 == 0) to = _mm256_broadcast_ss(p);
  else to = _mm256_mask_broadcastss_ps(to, __mmask8(1 << n % 8), _mm_load_ss(p));
}
template <int n, class E> BARACUDA_HD void place(__m256d (&r)[2][2], const E* p) {  // in the order that take_apart expects
  constexpr int lane = n % 8 / 4 * 2 + n % 2;
  __m256d& to = r[n % 4 / 2][n / 8];
  const __m128d entry = _mm_load_sd(reinterpret_cast<const double*>(p));
  if constexpr (lane == 0) to = _mm256_broadcastsd_pd(entry);
  else to = _mm256_mask_broadcastsd_pd(to, __mmask8(1 << lane), entry);
}
// Elements 2 k and 2 k + 1 of 32.
template <bool kApart, int k, class R, class E> BARACUDA_HD void place_pair(R& a, R& b, const E* table, const uint16_t* x) {
  const IndexPair i = index_pair(x + 2 * k);
  if constexpr (kApart) place<k>(a, table + i.first), place<k>(b, table + i.second);
  else if constexpr (k < 8) place<2 * k>(a, table + i.first), place<2 * k + 1>(a, table + i.second);
  else place<2 * k - 16>(b, table + i.first), place<2 * k - 15>(b, table + i.second);
}
template <bool kApart, class R, class E, int... K>
BARACUDA_HD void place_all(R& a, R& b, const E* table, const uint16_t* x, std::integer_sequence<int, K...>) {
  (place_pair<kApart, K>(a, b, table, x), ...);
}
// Indices of 32 halves, dealt.
struct DealtIndices { __m512i low, high; };
template <class T> BARACUDA_HD DealtIndices dealt_indices(const T* x) {
  if constexpr (kIsBf16<T>) {
    const __m512i pairs = _mm512_loadu_si512(x);
    return {_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff)), _mm512_srli_epi32(pairs, 16)};
  } else return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)x)), _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(x + 16)))};
}
template <class E> BARACUDA_HD void gather_pairs(const E* table, __m512i i, Pack<float, 16>& first, Pack<float, 16>& second) {
  const __m512 a = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_castsi512_si256(i), table, 8));
  const __m512 b = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_extracti64x4_epi64(i, 1), table, 8));
  const auto both = apart(Pack<float, 16>::of(Raw<float, 16>(a)), Pack<float, 16>::of(Raw<float, 16>(b)), std::make_integer_sequence<int, 16>{});
  first = both.low, second = both.high;
}
#endif
template <bool kGather, class T, int N> BARACUDA_HD Twice<Pack<float, N>> look_up_dealt(const float* table, const T* x) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (N == 16 && kGather) {
    const auto i = dealt_indices<T>(x);
    return {Pack<float, N>::of(Raw<float, N>(_mm512_i32gather_ps(i.low, table, 4))), Pack<float, N>::of(Raw<float, N>(_mm512_i32gather_ps(i.high, table, 4)))};
  }
  if constexpr (N == 16) {
    __m256 a[2], b[2];
    place_all<kIsBf16<T>>(a, b, table, reinterpret_cast<const uint16_t*>(x), std::make_integer_sequence<int, 16>{});
    return {Pack<float, N>::of(Raw<float, N>(beside(a[0], a[1]))), Pack<float, N>::of(Raw<float, N>(beside(b[0], b[1])))};
  }
#endif
  return {look_up<N, kStep<T, N>>(table, x), look_up<N, kStep<T, N>>(table, x + kSecond<T, N>)};
}
// Entries of two floats.
template <bool kGather, class T, int N, class E> BARACUDA_HD void look_up_dealt(const E* table, const T* x, Twice<Pack<float, N>>& first, Twice<Pack<float, N>>& second) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (N == 16 && kGather) {
    const auto i = dealt_indices<T>(x);
    gather_pairs(table, i.low, first.low, second.low), gather_pairs(table, i.high, first.high, second.high);
    return;
  }
  if constexpr (N == 16) {
    __m256d a[2][2], b[2][2];
    place_all<kIsBf16<T>>(a, b, table, reinterpret_cast<const uint16_t*>(x), std::make_integer_sequence<int, 16>{});
    auto all = [](const __m256d (&r)[2]) { return Raw<float, N>(beside(_mm256_castpd_ps(r[0]), _mm256_castpd_ps(r[1]))); };
    take_apart<N>(all(a[0]), all(a[1]), first.low, second.low, std::make_integer_sequence<int, N>{});
    take_apart<N>(all(b[0]), all(b[1]), first.high, second.high, std::make_integer_sequence<int, N>{});
    return;
  }
#endif
  look_up<N, kStep<T, N>>(table, x, first.low, second.low);
  look_up<N, kStep<T, N>>(table, x + kSecond<T, N>, first.high, second.high);
}
// to[i] = table[x[i]], as look_up of halves does; the table is followed by another half.
template <bool kGather> BARACUDA_HD void look_up_halves(const uint16_t* table, const void* x, uint16_t* to, int64_t n, bool past) {
  const uint16_t* from = static_cast<const uint16_t*>(x);
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (kGather)
    for (; n >= 32; n -= 32, from += 32, to += 32) {
      if (past) __builtin_prefetch(reinterpret_cast<const char*>(from) + kLookUpAhead);
      const auto i = dealt_indices<bf16>(reinterpret_cast<const bf16*>(from));
      const __m512i even = _mm512_i32gather_epi32(i.low, table, 2), odd = _mm512_slli_epi32(_mm512_i32gather_epi32(i.high, table, 2), 16);
      const __m512i r = _mm512_mask_blend_epi16(0xaaaaaaaa, even, odd);
      past ? _mm512_stream_si512((__m512i*)to, r) : _mm512_storeu_si512(to, r);
    }
#endif
  look_up(table, from, to, n, past);
}

}  // namespace baracuda
