#pragma once
// Floats of any width as lanes of double, for sums in f64: the elements of load<N>() in one conversion of a whole register, which compilers take
// apart (g++ 12: two halves of a register, each in two halves).
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <int N> BARACUDA_HD Pack<double, N> doubles_of(Pack<float, N> x) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (N == 8) return Pack<double, N>::of(Raw<double, N>(_mm512_cvtps_pd(__m256(x.v))));
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (N == 4) return Pack<double, N>::of(Raw<double, N>(_mm256_cvtps_pd(__m128(x.v))));
#endif
  return convert<double>(x);
}
template <int N, class T> BARACUDA_HD Pack<double, N> load_double(const T* p) {
  if constexpr (std::is_same_v<T, double>) return load<N>(p);
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (N == 8 && kIsF16<T>) return doubles_of(Pack<float, N>::of(Raw<float, N>(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)))));
  else if constexpr (N == 8 && kIsHalf<T>)
    return doubles_of(Pack<float, N>::of(Raw<float, N>(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16)))));
#endif
  else return doubles_of(load<N>(p));
}

}  // namespace baracuda
