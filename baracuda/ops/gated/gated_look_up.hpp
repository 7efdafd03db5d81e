#pragma once
// look_up for two registers at a time, dealt as load_dealt does. An AVX-512 processor reads each two indices as one word and places results by
// broadcasts under a mask, which any of its pipes takes: 11 cycles for 16 floats where loads into single lanes take 15 (Zen 4).
#include "baracuda/math/look_up.hpp"
#include "baracuda/math/twice.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

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
#endif
template <class T, int N> BARACUDA_HD Twice<Pack<float, N>> look_up_dealt(const float* table, const T* x) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (N == 16) {
    __m256 a[2], b[2];
    place_all<kIsBf16<T>>(a, b, table, reinterpret_cast<const uint16_t*>(x), std::make_integer_sequence<int, 16>{});
    return {Pack<float, N>::of(Raw<float, N>(beside(a[0], a[1]))), Pack<float, N>::of(Raw<float, N>(beside(b[0], b[1])))};
  }
#endif
  return {look_up<N, kStep<T, N>>(table, x), look_up<N, kStep<T, N>>(table, x + kSecond<T, N>)};
}
// Entries of two floats.
template <class T, int N, class E> BARACUDA_HD void look_up_dealt(const E* table, const T* x, Twice<Pack<float, N>>& first, Twice<Pack<float, N>>& second) {
#if BARACUDA_VECTOR_BYTES == 64
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

}  // namespace gated
}  // namespace baracuda
