#pragma once
// A walk over several tensors of one shape whose strides differ: axes of extent 1 are dropped, neighbours that step as
// one in every tensor are merged, so that contiguous tensors become a single long row.
#include "baracuda/core/tensor.hpp"
#include "baracuda/host/thread_team.hpp"

namespace baracuda {

template <int K> struct Strided {
  int rank = 0;                          // after merging; at least 1
  int64_t extent[kMaxRank] = {};
  int64_t stride[K][kMaxRank] = {};      // in elements of tensor k
  int64_t rows = 1, inner = 1;           // product of the outer extents, extent of the last axis

  // Offsets of the row-th row, in elements.
  void offsets(int64_t row, int64_t (&at)[K]) const {
    for (int k = 0; k < K; ++k) at[k] = 0;
    for (int i = rank - 2; i >= 0; --i) {
      const int64_t c = row % extent[i];
      row /= extent[i];
      for (int k = 0; k < K; ++k) at[k] += c * stride[k][i];
    }
  }
  int64_t inner_stride(int k) const { return stride[k][rank - 1]; }
};

// `strides` broadcast the shape where they are 0.
template <int K> Strided<K> walk_of(const Shape& shape, const Strides* const (&strides)[K]) {
  Strided<K> w;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] == 1) continue;
    bool merge = w.rank > 0;
    for (int k = 0; k < K; ++k) merge = merge && w.stride[k][w.rank - 1] == (*strides[k])[i] * shape[i];
    const int at = merge ? w.rank - 1 : w.rank++;
    w.extent[at] = (merge ? w.extent[at] : 1) * shape[i];
    for (int k = 0; k < K; ++k) w.stride[k][at] = (*strides[k])[i];
  }
  if (w.rank == 0) {
    w.rank = 1, w.extent[0] = 1;
    for (int k = 0; k < K; ++k) w.stride[k][0] = 1;
  }
  w.inner = w.extent[w.rank - 1];
  for (int i = 0; i < w.rank - 1; ++i) w.rows *= w.extent[i];
  return w;
}

// Calls f(offsets, first, count) for pieces of rows: the piece is elements [first, first + count) of the row at
// `offsets`, which already include first. Pieces depend on the shape alone; threads share them.
inline constexpr int64_t kPiece = 16384;
template <int K, class F> void for_each_piece(const Strided<K>& w, int threads, F&& f, int64_t piece = kPiece) {
  if (w.rows * w.inner == 0) return;
  const int64_t pieces = (w.inner + piece - 1) / piece, grain = w.inner < piece ? piece / w.inner : 1;
  parallel_for(w.rows * pieces, grain, threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * piece, count = w.inner - first < piece ? w.inner - first : piece;
      int64_t at[K];
      w.offsets(i / pieces, at);
      for (int k = 0; k < K; ++k) at[k] += first * w.inner_stride(k);
      f(at, first, count);
    }
  });
}

}  // namespace baracuda
