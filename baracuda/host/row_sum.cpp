#include "baracuda/host/row_sum.hpp"

#include <algorithm>

#include "baracuda/host/thread_team.hpp"

namespace baracuda {
namespace {

template <class T> constexpr int kIndex = 0;
template <> constexpr int kIndex<bf16> = 1;
template <> constexpr int kIndex<float> = 2;
template <> constexpr int kIndex<double> = 3;
template <class T> const SumKernels& kernels_of(SumOf of) { return BARACUDA_ISA_PICK(sum_table).kernels[kIndex<T>][int(of)]; }

constexpr int64_t kLeastTile = 128, kMostTile = 1024;  // columns per block of work; no column's bits depend on it

}  // namespace

template <class T> Acc<T> row_sum(SumOf of, const T* x, const T* y, int64_t n) {
  Acc<T> sum = 0;
  kernels_of<T>(of).row(x, y, n, &sum);
  return sum;
}

template <class T> Acc<T> row_sum(SumOf of, const T* x, const T* y, int64_t n, Acc<T>* scratch, int max_threads) {
  const int64_t chunks = sum_chunks(n);
  if (chunks <= 1) return row_sum(of, x, y, n);
  const SumKernels& k = kernels_of<T>(of);
  parallel_for(chunks, 8, max_threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c)
      k.chunk(x, y, c * kSumChunk, int(std::min<int64_t>(n - c * kSumChunk, kSumChunk)), scratch + c);
  });
  for (int64_t w = 1; w < chunks; w *= 2)
    for (int64_t i = 0; i + w < chunks; i += 2 * w) scratch[i] += scratch[i + w];
  return scratch[0];
}

template <class T>
void column_sums(SumOf of, const T* x, int64_t x_pitch, const T* y, int64_t y_pitch, int64_t rows, int64_t columns,
                 Acc<T>* sums, Acc<T>* scratch, int max_threads) {
  if (columns <= 0) return;
  if (rows <= 0) {
    std::fill_n(sums, columns, Acc<T>(0));
    return;
  }
  const SumKernels& k = kernels_of<T>(of);
  const int64_t chunks = sum_chunks(rows), team = max_threads <= 0 ? threads() : std::min(max_threads, threads());
  const int64_t share = ((columns - 1) / team / 64 + 1) * 64, tile = std::clamp(share, kLeastTile, kMostTile);
  const int64_t tiles = (columns - 1) / tile + 1;
  Acc<T>* const chunk_sums = chunks == 1 ? sums : scratch;
  parallel_for(chunks * tiles, 1, max_threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i / tiles * kSumChunk, c = i % tiles * tile;
      k.columns(x + r * x_pitch + c, x_pitch, of == SumOf::products ? y + r * y_pitch + c : nullptr, y_pitch,
                int(std::min<int64_t>(rows - r, kSumChunk)), std::min(columns - c, tile),
                chunk_sums + i / tiles * columns + c);
    }
  });
  if (chunks == 1) return;
  for (int64_t w = 1; w < chunks; w *= 2)
    for (int64_t i = 0; i + w < chunks; i += 2 * w) {
      Acc<T>* const left = scratch + i * columns;
      const Acc<T>* const right = left + w * columns;
      for (int64_t c = 0; c < columns; ++c) left[c] += right[c];
    }
  std::copy_n(scratch, columns, sums);
}

#define BARACUDA_INSTANTIATE(T)                                                                                    \
  template Acc<T> row_sum<T>(SumOf, const T*, const T*, int64_t);                                                  \
  template Acc<T> row_sum<T>(SumOf, const T*, const T*, int64_t, Acc<T>*, int);                                    \
  template void column_sums<T>(SumOf, const T*, int64_t, const T*, int64_t, int64_t, int64_t, Acc<T>*, Acc<T>*, int);
BARACUDA_INSTANTIATE(f16)
BARACUDA_INSTANTIATE(bf16)
BARACUDA_INSTANTIATE(float)
BARACUDA_INSTANTIATE(double)
#undef BARACUDA_INSTANTIATE

}  // namespace baracuda
