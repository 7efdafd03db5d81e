#pragma once
// What the instruction-set units of LayerNorm export. Weights, means and rstd are in the accumulator type A.
#include "baracuda/ops/norm/norm_cpu.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {

// Rows of n elements, of which `span` after one another share a weight and a bias; row i of all takes them from (i mod groups) n / span
// on. LayerNorm: span = groups = 1.
struct LayerNormRows {
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;
  int64_t x_pitch, y_pitch, mean_pitch, rstd_pitch, rows, n;
  double eps;
  bool past;          // write y past the caches
  int64_t first = 0;  // the number of the first row
  int64_t span = 1, groups = 1;
  const RowLay *x_lay = nullptr, *y_lay = nullptr;  // how the elements of a row lie; null: dense
  const Statistics* known = nullptr;                // of the one row of which this is a piece; null: made here, rows are whole
  bool beside = false;  // rows, dense and no more than a chunk, are summed beside others that are written; weight and bias are dealt where the dtype lies_dealt()
};
// A row of `length` elements: its statistics, and the sums that its gradient takes.
struct LayerNormKnown {
  Statistics found;
  ChunkSums sums;
  int64_t length;
};
struct LayerNormBackwardRows {
  const void *dy, *x, *weight, *mean, *rstd;
  void *dx, *dweight, *dbias;  // dweight, dbias: n sums in A, added to
  int64_t dy_pitch, x_pitch, mean_pitch, rstd_pitch, dx_pitch, rows, n;
  double eps;
  bool past;
  const LayerNormKnown* known = nullptr;  // of the one row of which this is a piece; null: made here, rows are whole
};
// The sums of every chunk of a piece of a row, for the statistics or, of these and a weight, for the gradient.
struct LayerNormChunks {
  const void *x, *dy, *weight;  // dy, weight: null for the statistics
  int64_t n;
  const Statistics* found;
  ChunkSums* sums;
};
struct LayerNormKernels {
  ByDType<void (*)(const LayerNormRows&)> forward;
  ByDType<void (*)(const LayerNormBackwardRows&)> backward;
  ByDType<void (*)(const LayerNormChunks&)> moments, gradient;
  ByDType<Statistics (*)(const void* x, int64_t n, double eps, const ChunkSums*)> join_moments;
  ChunkSums (*join_gradient)(const ChunkSums*, int64_t chunks);
  bool beside;  // registers are enough
};
BARACUDA_ISA_TABLE_BF16(LayerNormKernels, layer_norm_kernels)

}  // namespace baracuda
