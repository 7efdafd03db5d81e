#pragma once
// tree_sum: the sum of row_sum.hpp over any terms, for ISA units (norms, losses, softmax). The caller says how elements
// i .. i + N - 1 enter an accumulator, for any width N:
//
//   const T* x = ...;
//   float squares = tree_sum<float>(n, [&](auto acc, int64_t i) {
//     const auto v = load<decltype(acc)::kWidth>(x + i);
//     return fma(v, v, acc);
//   });
//
// The order depends on n alone, so the bits are the same for every instruction set.
#include <utility>

#include "baracuda/host/row_sum.hpp"
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <int W, class T, int N, int... L> BARACUDA_HD Raw<T, N> moved_down(Raw<T, N> v, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(v, v, (L + W) % N...);
}
// Lanes l + (l + W), then W / 2 ... 1: what the fold of all lanes does inside one register.
template <int W, class T, int N> BARACUDA_HD T fold_register(Pack<T, N> a) {
  if constexpr (W == 0) return a.lane(0);
  else return fold_register<W / 2>(a + Pack<T, N>::of(moved_down<W, T, N>(a.v, std::make_integer_sequence<int, N>{})));
}
template <class T, int N> BARACUDA_HD T fold_lanes(Pack<T, N>* acc) {  // kSumLanes / N packs
#pragma GCC unroll 64
  for (int w = kSumLanes / N / 2; w; w /= 2)
#pragma GCC unroll 64
    for (int k = 0; k < w; ++k) acc[k] += acc[k + w];
  return fold_register<N / 2>(acc[0]);
}

// Elements [begin, begin + m), m <= kSumChunk; begin is a multiple of kSumChunk.
template <class T, class Step> BARACUDA_HD T chunk_sum_by_element(int64_t begin, int m, const Step& step) {
  T lane[kSumLanes];  // 64 scalars would not stay in registers: a loop is smaller and as fast
  for (T& l : lane) l = T(-0.0);
  for (int i = 0; i < m; i += kSumLanes)
    for (int l = 0, width = m - i < kSumLanes ? m - i : kSumLanes; l < width; ++l)
      lane[l] = step(Pack<T, 1>::of(lane[l]), begin + i + l).v;
  for (int w = kSumLanes / 2; w; w /= 2)
    for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
  return lane[0];
}
template <class T, class Step> BARACUDA_HD T chunk_sum_by_pack(int64_t begin, int m, const Step& step) {
  constexpr int N = kLanes<T>, packs = kSumLanes / N;
  using V = Pack<T, N>;
  V acc[packs];
#pragma GCC unroll 64
  for (int k = 0; k < packs; ++k) acc[k] = -0.0;  // the identity: + 0 would turn -0 into 0
  const int whole = m / kSumLanes * kSumLanes;
  for (int i = 0; i < whole; i += kSumLanes)
#pragma GCC unroll 64
    for (int k = 0; k < packs; ++k) acc[k] = step(acc[k], begin + i + k * N);
  if (whole < m) {
    alignas(64) T lane[kSumLanes];
    for (int k = 0; k < packs; ++k) store<T, N>(lane + k * N, acc[k]);
    int l = 0;
    for (; l + N <= m - whole; l += N) store<T, N>(lane + l, step(load<N>(lane + l), begin + whole + l));
    for (; l < m - whole; ++l) lane[l] = step(Pack<T, 1>::of(lane[l]), begin + whole + l).v;
    for (int k = 0; k < packs; ++k) acc[k] = load<N>(lane + k * N);
  }
  return fold_lanes(acc);
}
template <class T, class Step> BARACUDA_HD T chunk_sum(int64_t begin, int m, const Step& step) {
  if constexpr (kLanes<T> == 1) return chunk_sum_by_element<T>(begin, m, step);
  else return chunk_sum_by_pack<T>(begin, m, step);
}

// at(0) ... at(count - 1), count > 0, joined in pairs of neighbours, level by level; at is called in order. S: a number or a pack.
template <class S, class At> BARACUDA_HD S sum_pairs(int64_t count, const At& at) {
  S waiting[52], s;  // sums of 1, 2, 4 ... terms that still lack their right neighbour
  int depth = 0;
  for (int64_t c = 0;;) {
    s = at(c);
    for (int64_t k = c; k & 1; k >>= 1) s = waiting[--depth] + s;
    if (++c == count) break;
    waiting[depth++] = s;
  }
  while (depth) s = waiting[--depth] + s;
  return s;
}
template <class T, class Step> BARACUDA_HD T tree_sum(int64_t n, const Step& step) {
  if (n <= 0) return 0;
  return sum_pairs<T>(sum_chunks(n), [&](int64_t c) __attribute__((always_inline)) {
    const int64_t begin = c * kSumChunk, left = n - begin;
    return chunk_sum<T>(begin, int(left < kSumChunk ? left : kSumChunk), step);
  });
}

}  // namespace baracuda
