#pragma once
// Two registers at a time: one of float as two of double and back, two of float as one of halves, which are stored as whole
// lines, and even and odd elements apart. The bits are those of convert(), load() and store(). N > 1 for widen and narrow.
#include <utility>
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
// Halves of 32 bits apart: an upper one goes up where the lower is more than a half, or one and the upper odd.
BARACUDA_HD __m512i bf16_rounded(__m512i upper, __m512i lower) {
  const __m512i one = _mm512_set1_epi16(1), sum = _mm512_adds_epu16(lower, _mm512_and_si512(upper, one));
  return _mm512_mask_add_epi16(upper, _mm512_cmpgt_epu16_mask(sum, _mm512_set1_epi16(-0x8000)), upper, one);
}
BARACUDA_HD __m512i bf16_bits(__m512 a, __m512 b) {
  const __m512i u = _mm512_castps_si512(a), v = _mm512_castps_si512(b), even = _mm512_set_epi16(
      62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i upper = _mm512_permutex2var_epi16(u, _mm512_or_si512(even, _mm512_set1_epi16(1)), v);
  const __m512i r = bf16_rounded(upper, _mm512_permutex2var_epi16(u, even, v));
  if (const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); __builtin_expect(nan != 0, 0)) {
    const __mmask32 both = _mm512_kunpackw(_mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q));
    return _mm512_mask_blend_epi16(both, r, _mm512_or_si512(upper, _mm512_set1_epi16(0x40)));
  }
  return r;
}
BARACUDA_HD __m512i bf16_bits_by_turns(__m512 a, __m512 b) {
  constexpr __mmask32 odd = 0xaaaaaaaa;
  const __m512i u = _mm512_castps_si512(a), v = _mm512_castps_si512(b);
  if (const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); __builtin_expect(nan != 0, 0)) {
    using V = Pack<float, 16>;
    return __m512i(half_bits<bf16>(V::of(Raw<float, 16>(a))) | half_bits<bf16>(V::of(Raw<float, 16>(b))) << 16);
  }
  return bf16_rounded(_mm512_mask_blend_epi16(odd, _mm512_srli_epi32(u, 16), v), _mm512_mask_blend_epi16(odd, u, _mm512_slli_epi32(v, 16)));
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

// p[0], p[2] ... and p[1], p[3] ..., and back.
template <class V, int... K> BARACUDA_HD Twice<V> apart(V a, V b, std::integer_sequence<int, K...>) {
  return {V::of(__builtin_shufflevector(a.v, b.v, 2 * K...)), V::of(__builtin_shufflevector(a.v, b.v, (2 * K + 1)...))};
}
template <class V, int... K> BARACUDA_HD Twice<V> by_turns(V a, V b, std::integer_sequence<int, K...>) {
  constexpr int N = sizeof...(K);
  return {V::of(__builtin_shufflevector(a.v, b.v, (K / 2 + K % 2 * N)...)), V::of(__builtin_shufflevector(a.v, b.v, (N / 2 + K / 2 + K % 2 * N)...))};
}
template <class T> inline constexpr bool kIsBf16 = std::is_same_v<T, bf16>;
template <int N, class T> BARACUDA_HD Twice<Pack<Acc<T>, N>> load_apart(const T* p) {
  using V = Pack<Acc<T>, N>;
  if constexpr (N == 1) return {load<1>(p), load<1>(p + 1)};
  else if constexpr (kIsBf16<T>) {
    typename V::Bits pairs;
    __builtin_memcpy(&pairs, p, sizeof pairs);
    return {V::from_bits(pairs << 16), V::from_bits(pairs & int32_t(0xffff0000))};
  } else return apart(load<N>(p), load<N>(p + N), std::make_integer_sequence<int, N>{});
}
template <class T, int N> BARACUDA_HD void store_by_turns(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (kIsBf16<T> && N == 16) {
    const __m512i r = bf16_bits_by_turns(__m512(a.v), __m512(b.v));
    return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
  }
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (kIsBf16<T> && N == 8) {
    const __m256i r = __m256i(half_bits<bf16>(a) | half_bits<bf16>(b) << 16);
    return past ? _mm256_stream_si256((__m256i*)p, r) : _mm256_storeu_si256((__m256i*)p, r);
  }
#endif
  if constexpr (N == 1) store<T, 1>(p, a), store<T, 1>(p + 1, b);
  else {
    const auto both = by_turns(a, b, std::make_integer_sequence<int, N>{});
    store_twice<T, N>(p, both.low, both.high, past);
  }
}
// 2 N elements in the order that costs least: of bf16 the even and the odd ones, else those up to N and the others. Element k of
// the first register is p[k kStep<T, N>], the second begins at p[kSecond<T, N>].
template <class T, int N> inline constexpr int kStep = kIsBf16<T> && N > 1 ? 2 : 1;
template <class T, int N> inline constexpr int kSecond = kStep<T, N> == 2 ? 1 : N;
template <int N, class T> BARACUDA_HD Twice<Pack<Acc<T>, N>> load_dealt(const T* p) {
  if constexpr (kStep<T, N> == 2) return load_apart<N>(p);
  else return {load<N>(p), load<N>(p + N)};
}
template <class T, int N> BARACUDA_HD void store_dealt(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
  if constexpr (kStep<T, N> == 2) store_by_turns<T, N>(p, a, b, past);
  else store_twice<T, N>(p, a, b, past);
}

}  // namespace baracuda
