#pragma once
// The elements of rows sorted by row, then by 64-bit words, of equals by index: stable sorts (device/radix_sort.cuh) by the low and the high word and by
// the row, the order of the one before being the start of the next. 16 bytes read and written per element and digit of 8 bits.
#include "baracuda/device/radix_sort.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace random_sort {

inline constexpr int kWordPasses = 4;
enum class Digits { low, high, row };
template <class W> struct Words { device::SortedRows s; W word; uint32_t n; };  // word(element) has 64 bits; n: of a row
template <Digits kDigits, class W> __global__ void __launch_bounds__(device_sort::kThreads) keys_kernel(const __grid_constant__ Words<W> p) {
  device_sort::make_keys(p.s, [&](int64_t i, uint32_t& key, uint32_t& value) {
    value = kDigits == Digits::low ? uint32_t(i) : p.s.values[0][i];  // an even number of passes was before
    if constexpr (kDigits == Digits::row) key = value / p.n;
    else key = uint32_t(p.word(value) >> (kDigits == Digits::low ? 0 : 32));
  });
}
template <Digits kDigits, class W> int sort_by(Words<W> p, int passes, void* stream) {
  p.s.passes = passes;
  int e = device::launch(keys_kernel<kDigits, W>, unsigned(p.s.parts), device_sort::kThreads, 0, stream, p);
  for (int k = 0; k < passes && !e; ++k) e = device::launch(device_sort::pass_kernel, unsigned(p.s.parts), device_sort::kThreads, 0, stream, device_sort::Pass{p.s, k});
  return e;
}
// Elements row n + i in their order are then s.order().
template <class W> int sort_rows(device::SortedRows& s, int64_t rows, int64_t n, const W& word, void* stream) {
  const Words<W> p{s, word, uint32_t(n)};
  s.passes = 0;
  while (uint64_t(rows - 1) >> (8 * s.passes)) ++s.passes;
  int e = sort_by<Digits::low>(p, kWordPasses, stream);
  if (!e) e = sort_by<Digits::high>(p, kWordPasses, stream);
  return e || !s.passes ? e : sort_by<Digits::row>(p, s.passes, stream);
}

}  // namespace random_sort
}  // namespace baracuda
