#pragma once
// What the instruction-set units of LayerNorm export. Weights, means and rstd are in the accumulator type A.
#include "baracuda/ops/norm/norm_cpu.hpp"

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
};
struct LayerNormBackwardRows {
  const void *dy, *x, *weight, *mean, *rstd;
  void *dx, *dweight, *dbias;  // dweight, dbias: n sums in A, added to
  int64_t dy_pitch, x_pitch, mean_pitch, rstd_pitch, dx_pitch, rows, n;
  double eps;
  bool past;
};
struct LayerNormKernels {
  ByDType<void (*)(const LayerNormRows&)> forward;
  ByDType<void (*)(const LayerNormBackwardRows&)> backward;
};
BARACUDA_ISA_TABLE_BF16(LayerNormKernels, layer_norm_kernels)

}  // namespace baracuda
