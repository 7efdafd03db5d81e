#pragma once
// What the units of gemm_tile.hpp and gemm_few.hpp share, inside the namespace of an instruction set: vectors, masked
// memory, the multiply-adds by element type, and the way from elements as they lie to what is multiplied. Each unit has
// its own copy: everything is inlined.
#include <utility>
#include "baracuda/math/half.hpp"
#if BARACUDA_VECTOR_BYTES
#include <immintrin.h>
#endif

namespace baracuda::inline BARACUDA_ISA {
namespace {

#if BARACUDA_VECTOR_BYTES
constexpr int kVectorBytes = BARACUDA_VECTOR_BYTES, kMr = BARACUDA_VECTOR_BYTES == 64 ? 8 : 6;
#else
constexpr int kVectorBytes = 16, kMr = 4;
#endif
constexpr int kNv = 2;

constexpr BARACUDA_HD int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// W lanes of T, as a value and as memory of any alignment.
template <class T> struct Lanes {
  static constexpr int W = kVectorBytes / int(sizeof(T));
  typedef T V __attribute__((vector_size(kVectorBytes)));
  typedef T Memory __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
};
template <class T> using V = typename Lanes<T>::V;
template <class T> BARACUDA_HD V<T> load(const void* p) { return *static_cast<const typename Lanes<T>::Memory*>(p); }
template <class T> BARACUDA_HD void store(void* p, V<T> v) { *static_cast<typename Lanes<T>::Memory*>(p) = v; }

// The first lanes of a vector of 4 or 8 byte elements; the others read as zero and are not touched in memory.
#if BARACUDA_VECTOR_BYTES == 64
using Mask = uint32_t;
template <class T> BARACUDA_HD Mask mask(int lanes) { return (1u << lanes) - 1; }
template <class T> BARACUDA_HD V<T> load(const void* p, Mask m) {
  if constexpr (sizeof(T) == 4) return V<T>(_mm512_maskz_loadu_epi32(__mmask16(m), p));
  else return V<T>(_mm512_maskz_loadu_epi64(__mmask8(m), p));
}
template <class T> BARACUDA_HD void store(void* p, Mask m, V<T> v) {
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(p, __mmask16(m), __m512i(v));
  else _mm512_mask_storeu_epi64(p, __mmask8(m), __m512i(v));
}
#elif BARACUDA_VECTOR_BYTES == 32
using Mask = __m256i;
template <class T> BARACUDA_HD Mask mask(int lanes) {
  if constexpr (sizeof(T) == 4) return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  else return _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3));
}
template <class T> BARACUDA_HD V<T> load(const void* p, Mask m) {
  if constexpr (sizeof(T) == 4) return V<T>(_mm256_maskload_ps((const float*)p, m));
  else return V<T>(_mm256_maskload_pd((const double*)p, m));
}
template <class T> BARACUDA_HD void store(void* p, Mask m, V<T> v) {
  if constexpr (sizeof(T) == 4) _mm256_maskstore_ps((float*)p, m, __m256(v));
  else _mm256_maskstore_pd((double*)p, m, __m256d(v));
}
#else
using Mask = int;
template <class T> BARACUDA_HD Mask mask(int lanes) { return lanes; }
template <class T> BARACUDA_HD V<T> load(const void* p, Mask m) {
  V<T> v = {};
  for (int i = 0; i < Lanes<T>::W; ++i) if (i < m) v[i] = static_cast<const T*>(p)[i];
  return v;
}
template <class T> BARACUDA_HD void store(void* p, Mask m, V<T> v) {
  for (int i = 0; i < Lanes<T>::W; ++i) if (i < m) static_cast<T*>(p)[i] = v[i];
}
#endif

// What the micro-kernel multiplies. Element: as packed; Group: kGroup of them, one lane of B's vector.
template <class T> struct Single {
  using Element = T;
  using Group = T;
  using Sum = T;
  static constexpr int kGroup = 1;
  static V<T> BARACUDA_HD fma(V<T> a, V<T> b, V<T> c) {
#if BARACUDA_VECTOR_BYTES
    if constexpr (sizeof(T) == 4) return V<T>(BARACUDA_VECTOR_OP(fmadd_ps)(a, b, c));
    else return V<T>(BARACUDA_VECTOR_OP(fmadd_pd)(a, b, c));
#else
    return a * b + c;
#endif
  }
};
#if defined(__AVX512BF16__)
struct Bf16Pairs {
  using Element = bf16;
  using Group = int32_t;
  using Sum = float;
  static constexpr int kGroup = 2;
  static V<float> BARACUDA_HD fma(V<int32_t> a, V<int32_t> b, V<float> c) {
    return V<float>(_mm512_dpbf16_ps(__m512(c), (__m512bh)(__m512i)a, (__m512bh)(__m512i)b));
  }
};
#endif

// A Group of the packed type from elements of type X: one value, or two rounded to bf16 side by side.
template <class To, class X> BARACUDA_HD To convert_to(X x) {
  if constexpr (std::is_same_v<To, X>) return x;
  else if constexpr (std::is_same_v<To, float>) return to_float(x);
  else return from_float<To>(to_float(x));
}
#if BARACUDA_VECTOR_BYTES
// A vector of floats from that many halves.
template <class X> BARACUDA_HD V<float> widen(const X* x) {
#if BARACUDA_VECTOR_BYTES == 64
  const __m256i h = _mm256_loadu_si256((const __m256i*)x);
  if constexpr (std::is_same_v<X, f16>) return V<float>(_mm512_cvtph_ps(h));
  else return V<float>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
#else
  const __m128i h = _mm_loadu_si128((const __m128i*)x);
  if constexpr (std::is_same_v<X, f16>) return V<float>(_mm256_cvtph_ps(h));
  else return V<float>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
#endif
}
#endif
// `n` neighbours of X to neighbours of the packed element.
template <class To, class X> BARACUDA_HD void convert_run(const X* x, To* y, int64_t n) {
  int64_t i = 0;
  if constexpr (std::is_same_v<To, X>) { __builtin_memcpy(y, x, size_t(n) * sizeof(X)); return; }
#if BARACUDA_VECTOR_BYTES
  if constexpr (std::is_same_v<To, float> && sizeof(X) == 2)
    for (; i + Lanes<float>::W <= n; i += Lanes<float>::W) store<float>(y + i, widen(x + i));
#endif
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<To, bf16>)
    for (; i + 16 <= n; i += 16) _mm256_storeu_si256((__m256i*)(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
#endif
  for (; i < n; ++i) y[i] = convert_to<To>(x[i]);
}
// W x W transpose of one-group lanes: log2(W) rounds of exchanges between rows `step` apart.
template <int Step, class T, int... I> BARACUDA_HD void exchange(V<T>& a, V<T>& b, std::integer_sequence<int, I...>) {
  constexpr int W = Lanes<T>::W;
  const V<T> low = __builtin_shufflevector(a, b, (I & Step ? W + I - Step : I)...);
  b = __builtin_shufflevector(a, b, (I & Step ? W + I : I + Step)...);
  a = low;
}
template <class T, int Step = 1> BARACUDA_HD void transpose(V<T>* r) {
  constexpr int W = Lanes<T>::W;
  for (int i = 0; i < W; ++i)
    if (!(i & Step)) exchange<Step, T>(r[i], r[i + Step], std::make_integer_sequence<int, W>{});
  if constexpr (2 * Step < W) transpose<T, 2 * Step>(r);
}
// W groups of one column, k ascending.
template <class K, class X> BARACUDA_HD V<typename K::Group> column(const X* x) {
  using E = typename K::Element;
  using G = typename K::Group;
  if constexpr (std::is_same_v<E, X>) return load<G>(x);
#if BARACUDA_VECTOR_BYTES
  else if constexpr (std::is_same_v<E, float>) return widen(x);
#endif
  else {
    E y[Lanes<G>::W * K::kGroup];
    convert_run(x, y, Lanes<G>::W * K::kGroup);
    return load<G>(y);
  }
}

}  // namespace
}  // namespace baracuda::inline BARACUDA_ISA
