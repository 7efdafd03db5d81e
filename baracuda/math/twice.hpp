#pragma once
// Two registers at a time: one of float as two of double and back, and two of float as one of halves, which are stored as whole
// lines. The bits are those of convert() and store(). N > 1 for widen and narrow.
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class V> struct Twice { V low, high; };
// What __builtin_convertvector means, without its way through memory.
template <int N> BARACUDA_HD Twice<Pack<double, N / 2>> widen(Pack<float, N> x) {
  [[maybe_unused]] auto of = [](auto v) { return Pack<double, N / 2>::of(Raw<double, N / 2>(v)); };
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (N == 16)
    return {of(_mm512_cvtps_pd(_mm512_castps512_ps256(__m512(x.v)))), of(_mm512_cvtps_pd(_mm512_extractf32x8_ps(__m512(x.v), 1)))};
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (N == 8) return {of(_mm256_cvtps_pd(_mm256_castps256_ps128(__m256(x.v)))), of(_mm256_cvtps_pd(_mm256_extractf128_ps(__m256(x.v), 1)))};
#endif
  return {convert<double>(x.half(0)), convert<double>(x.half(1))};
}
template <int H> BARACUDA_HD Pack<float, 2 * H> narrow(Pack<double, H> low, Pack<double, H> high) {
  using F = Pack<float, 2 * H>;
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (H == 8)
    return F::of(Raw<float, 16>(_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(__m512d(low.v))), _mm512_cvtpd_ps(__m512d(high.v)), 1)));
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (H == 4) return F::of(Raw<float, 8>(_mm256_set_m128(_mm256_cvtpd_ps(__m256d(high.v)), _mm256_cvtpd_ps(__m256d(low.v)))));
#endif
  return F::join(convert<float>(low), convert<float>(high));
}

#if BARACUDA_VECTOR_BYTES == 64
// Upper and lower halves apart: the upper ones go up where the lower are more than a half, or one and the upper odd.
BARACUDA_HD __m512i bf16_bits(__m512 a, __m512 b) {
  const __m512i u = _mm512_castps_si512(a), v = _mm512_castps_si512(b), even = _mm512_set_epi16(
      62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i one = _mm512_set1_epi16(1), upper = _mm512_permutex2var_epi16(u, _mm512_or_si512(even, one), v);
  const __m512i lower = _mm512_adds_epu16(_mm512_permutex2var_epi16(u, even, v), _mm512_and_si512(upper, one));
  const __m512i r = _mm512_mask_add_epi16(upper, _mm512_cmpgt_epu16_mask(lower, _mm512_set1_epi16(-0x8000)), upper, one);
  if (const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); __builtin_expect(nan != 0, 0)) {
    const __mmask32 both = _mm512_kunpackw(_mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q));
    return _mm512_mask_blend_epi16(both, r, _mm512_or_si512(upper, _mm512_set1_epi16(0x40)));
  }
  return r;
}
#endif
// p[0 .. 2 N); past: past the caches, p is then aligned to the bytes of a register.
template <class T, int N> BARACUDA_HD void store_twice(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (kIsHalf<T> && N == 16) {
    __m512i r;
    if constexpr (kIsF16<T>) r = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(__m512(a.v), 0)), _mm512_cvtps_ph(__m512(b.v), 0), 1);
    else r = bf16_bits(__m512(a.v), __m512(b.v));
    return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
  }
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (kIsHalf<T> && N == 8) {
    alignas(32) T buffer[16];
    store<T, N>(buffer, a), store<T, N>(buffer + N, b);
    const __m256i r = _mm256_load_si256((const __m256i*)buffer);
    return past ? _mm256_stream_si256((__m256i*)p, r) : _mm256_storeu_si256((__m256i*)p, r);
  }
#endif
  if (past) store_past<T, N>(p, a), store_past<T, N>(p + N, b);
  else store<T, N>(p, a), store<T, N>(p + N, b);
}

}  // namespace baracuda
