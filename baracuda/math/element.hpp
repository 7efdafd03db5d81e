#pragma once
// Elements in memory and their way into a Pack and back: load<N>(p), store<T, N>(p, x), and load_tail / store_tail for
// the last `count` lanes, which touch no byte beyond them. f16, bf16 and 8-bit floats compute in float and are rounded once,
// to nearest even, at the store. The bit tricks serve every path; F16C is only faster (equal for all 2^32 floats). VCVTNEPS2BF16,
// which flushes subnormals, is bf16_instruction.hpp's.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "baracuda/core/dtype.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class T> inline constexpr bool kIsF16 = std::is_same_v<T, f16>;
template <class T> inline constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T> inline constexpr bool kIsNarrow = kIsHalf<T> || kIsFloat8<T>;  // computes in float
// The pack that an element type of storage computes in, at full width.
template <class T> using PackOf = Pack<Acc<T>, kLanes<Acc<T>>>;

// to_float and from_float of 8-bit floats for whole vectors; codes are in the low 8 bits of each lane.
template <class T, int N> BARACUDA_HD Pack<float, N> float8_value(typename Pack<float, N>::Bits code) {
  using V = Pack<float, N>;
  using B = typename V::Bits;
  constexpr Float8Format f = kFloat8<T>;
  const B magnitude = code & 0x7f, zero = code - code;
  const B x = bits(V::from_bits(magnitude << (23 - f.fraction)) * V::from_bits(zero + int32_t(kFloat8Factor<T>)));
  B value = (f.signed_zero ? magnitude > int32_t(f.largest) : code == int32_t(f.nan)) ? zero + 0x7fc00000 : x;
  if constexpr (f.overflow != f.nan) value = magnitude == int32_t(f.overflow) ? zero + 0x7f800000 : value;
  return V::from_bits(value | (code & 0x80) << 24);
}
template <class T, int N> BARACUDA_HD typename Pack<float, N>::Bits float8_bits(Pack<float, N> x) {
  using V = Pack<float, N>;
  using B = typename V::Bits;
  constexpr Float8Format f = kFloat8<T>;
  constexpr int shift = 23 - f.fraction;
  const B u = bits(x), a = u & 0x7fffffff, zero = u - u, t = a - int32_t(kFloat8Normal<T>) + (1 << 23);
  const B rounded = (t + ((1 << (shift - 1)) - 1) + ((t >> shift) & 1)) >> shift, normal = rounded > int32_t(f.largest) ? zero + int32_t(f.overflow) : rounded;
  const B small = bits(abs(x) + V::from_bits(zero + int32_t(kFloat8Addend<T>))) - int32_t(kFloat8Addend<T>);
  const B code = a > 0x7f800000 ? zero + int32_t(f.nan) : a >= int32_t(kFloat8Normal<T>) ? normal : small, sign = (u >> 24) & 0x80;
  if constexpr (f.signed_zero) return code | sign;
  else return (code & 0x7f) != 0 ? code | sign : code;
}

template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> load(const T* p) {
  using V = Pack<Acc<T>, N>;
  using B = typename V::Bits;
  if constexpr (N == 1) {  // no memcpy here: CUDA would load byte by byte
    if constexpr (kIsNarrow<T>) return V::of(to_float(*p));
    else return V::of(*p);
  } else if constexpr (!kIsNarrow<T>) {
    V x;
    __builtin_memcpy(&x.v, p, sizeof x.v);
    return x;
  } else if constexpr (kIsFloat8<T>) {
    Raw<uint8_t, N> h;
    __builtin_memcpy(&h, p, sizeof h);
    return float8_value<T, N>(__builtin_convertvector(h, B));
  }
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (V::kVector && kIsF16<T>)
    return V::of(Raw<float, N>(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))));
  else if constexpr (V::kVector)
    return V::from_bits(B(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))) << 16);
#elif BARACUDA_VECTOR_BYTES == 32
  else if constexpr (V::kVector && kIsF16<T>)
    return V::of(Raw<float, N>(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p))));
  else if constexpr (V::kVector)
    return V::from_bits(B(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p))) << 16);
#endif
  else {
    Raw<uint16_t, N> h;
    __builtin_memcpy(&h, p, sizeof h);
    const B wide = __builtin_convertvector(h, B);
    if constexpr (!kIsF16<T>) return V::from_bits(wide << 16);
    const B magnitude = (wide & 0x7fff) << 13, special = magnitude | 0x70000000;  // inf and NaN keep their payload
    const V x = V::from_bits(magnitude) * 0x1p112;                                // exact, subnormals included
    return V::from_bits((magnitude >= 0x0f800000 ? special : bits(x)) | (wide & 0x8000) << 16);
  }
}

// Halves in the low 16 bits of each lane.
template <class T, int N> BARACUDA_HD typename Pack<float, N>::Bits half_bits(Pack<float, N> x) {
  using V = Pack<float, N>;
  using B = typename V::Bits;
  const B u = bits(x), a = u & 0x7fffffff;
  if constexpr (!kIsF16<T>) {
    const B rounded = ((u + 0x7fff + ((u >> 16) & 1)) >> 16) & 0xffff, nan = ((u >> 16) & 0xffff) | 0x40;
    return a > 0x7f800000 ? nan : rounded;
  } else {
    const B t = a - (112 << 23), normal = (t + 0xfff + ((t >> 13) & 1)) >> 13;
    const B small = bits(abs(x) + 0.5) - 0x3f000000;  // an ulp of 0.5 is an f16 subnormal: the addition rounds
    const B nan = 0x7e00 | ((a >> 13) & 0x3ff), inf = a - a + 0x7c00;
    const B r = a < 0x38800000 ? small : a < 0x47800000 ? normal : a <= 0x7f800000 ? inf : nan;
    return r | ((u >> 16) & 0x8000);
  }
}
#if BARACUDA_VECTOR_BYTES == 64
BARACUDA_HD __m256i bf16_bits(__m512 x) {  // half_bits<bf16> in two thirds of the operations
  const __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(quiet, 16));
}
#endif
template <class T, int N> BARACUDA_HD void store(T* p, Pack<Acc<T>, N> x) {
  if constexpr (N == 1) {
    if constexpr (kIsNarrow<T>) *p = from_float<T>(x.v);
    else *p = x.v;
  } else if constexpr (!kIsNarrow<T>) __builtin_memcpy(p, &x.v, sizeof x.v);
  else if constexpr (kIsFloat8<T>) {
    const auto h = __builtin_convertvector(float8_bits<T>(x), Raw<uint8_t, N>);
    __builtin_memcpy(p, &h, sizeof h);
  }
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (Pack<float, N>::kVector && kIsF16<T>)  // 0: to nearest even
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(__m512(x.v), 0));
  else if constexpr (Pack<float, N>::kVector)
    _mm256_storeu_si256((__m256i*)p, bf16_bits(__m512(x.v)));
#elif BARACUDA_VECTOR_BYTES == 32
  else if constexpr (Pack<float, N>::kVector && kIsF16<T>) _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(__m256(x.v), 0));
#endif
  else {
    const auto h = __builtin_convertvector(half_bits<T>(x), Raw<uint16_t, N>);
    __builtin_memcpy(p, &h, sizeof h);
  }
}

// A store past the caches, for results that are too large to be read back from them; p is aligned to the bytes of the pack.
// store_past_fence() before another thread may look.
template <class T, int N> BARACUDA_HD void store_past(T* p, Pack<Acc<T>, N> x) {
#if BARACUDA_VECTOR_BYTES
  if constexpr (Pack<Acc<T>, N>::kVector) {
    alignas(64) T buffer[N];
    store<T, N>(buffer, x);
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (sizeof buffer == 64) return _mm512_stream_si512((__m512i*)p, _mm512_load_si512(buffer));
#endif
    if constexpr (sizeof buffer == 32) return _mm256_stream_si256((__m256i*)p, _mm256_load_si256((const __m256i*)buffer));
    if constexpr (sizeof buffer == 16) return _mm_stream_si128((__m128i*)p, _mm_load_si128((const __m128i*)buffer));
  }
#endif
  store<T, N>(p, x);
}
BARACUDA_HD void store_past_fence() {
#if BARACUDA_VECTOR_BYTES
  _mm_sfence();
#endif
}

// The first `count` lanes, 0 <= count <= N; the others are `fill` (loads) or not written (stores).
template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> load_tail(const T* p, int count, double fill = 0) {
  using V = Pack<Acc<T>, N>;
  if constexpr (N == 1) return count > 0 ? load<1>(p) : V(fill);
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (V::kVector && std::is_same_v<T, float>)
    return V::of(Raw<T, N>(_mm512_mask_loadu_ps(__m512(V(fill).v), __mmask16((1u << count) - 1), p)));
  else if constexpr (V::kVector && std::is_same_v<T, double>)
    return V::of(Raw<T, N>(_mm512_mask_loadu_pd(__m512d(V(fill).v), __mmask8((1u << count) - 1), p)));
  else if constexpr (V::kVector && kIsHalf<T>) {
    alignas(32) T buffer[N];
    _mm256_store_si256((__m256i*)buffer, _mm256_maskz_loadu_epi16(__mmask16((1u << count) - 1), p));
    const V x = load<N>(buffer);
    return V::of(Raw<float, N>(_mm512_mask_mov_ps(__m512(V(fill).v), __mmask16((1u << count) - 1), __m512(x.v))));
  }
#endif
  else {
    V x = fill;
    for (int i = 0; i < count; ++i) x.set_lane(i, load<1>(p + i).v);
    return x;
  }
}
template <class T, int N> BARACUDA_HD void store_tail(T* p, Pack<Acc<T>, N> x, int count) {
  if constexpr (N == 1) {
    if (count > 0) store<T, 1>(p, x);
  }
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (Pack<Acc<T>, N>::kVector && std::is_same_v<T, float>)
    _mm512_mask_storeu_ps(p, __mmask16((1u << count) - 1), __m512(x.v));
  else if constexpr (Pack<Acc<T>, N>::kVector && std::is_same_v<T, double>)
    _mm512_mask_storeu_pd(p, __mmask8((1u << count) - 1), __m512d(x.v));
  else if constexpr (Pack<Acc<T>, N>::kVector && kIsHalf<T>) {
    alignas(32) T buffer[N];
    store<T, N>(buffer, x);
    _mm256_mask_storeu_epi16(p, __mmask16((1u << count) - 1), _mm256_load_si256((const __m256i*)buffer));
  }
#endif
  else {
    alignas(64) T buffer[N];
    store<T, N>(buffer, x);
    for (int i = 0; i < count; ++i) p[i] = buffer[i];
  }
}

// A number as a double that rounds to any narrower float as the number itself does: of a 64-bit integer, any bit below the 53
// that a double keeps is folded into the last one.
template <class From> BARACUDA_HD double odd_double(From x) {
  if constexpr (sizeof(From) < 8 || std::is_same_v<From, double>) return double(x);
  else {
    const uint64_t m = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
    const uint64_t kept = m >> 53 ? (m >> 11 | uint64_t((m & 0x7ff) != 0)) : m;
    const double d = double(int64_t(kept)) * (m >> 53 ? 0x1p11 : 1.0);
    return x < 0 ? -d : d;
  }
}
// One element of any dtype to another, as a cast op means it: floats are rounded once to nearest even, floats to
// integers are cut towards zero, saturate, and take NaN to 0 (so does CUDA), integers wrap, bool is "not zero".
template <class To, class From> BARACUDA_HD To cast_element(From x) {
  if constexpr (std::is_same_v<To, From>) return x;
  else if constexpr (kIsNarrow<From>) return cast_element<To>(to_float(x));
  else if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (kIsNarrow<To>) {
    if constexpr (std::is_same_v<From, float>) return from_float<To>(x);
    else return from_double<To>(odd_double(x));
  } else if constexpr (std::is_floating_point_v<To> || std::is_integral_v<From>) return To(x);
  else {
    constexpr To lo = std::numeric_limits<To>::min(), hi = std::numeric_limits<To>::max();
    if (x != x) return To(0);
    if (x <= From(lo)) return lo;
    if (x >= From(hi)) return hi;  // From(hi) may round up to the first value out of range: still hi
    return To(x);
  }
}

}  // namespace baracuda
