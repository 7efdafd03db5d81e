#pragma once
// What the instruction-set units of GroupNorm's gradient export; forward is LayerNorm's. Weights, means and rstd are in the accumulator
// type A.
#include "baracuda/ops/norm/norm_cpu.hpp"

namespace baracuda {

// Rows as in LayerNormRows: the groups of one sample after another.
struct GroupNormBackwardRows {
  const void *dy, *x, *weight, *mean, *rstd;
  void* dx;
  double *dweight, *dbias;  // every row's n / span sums, one row's after another's
  int64_t dy_pitch, x_pitch, mean_pitch, rstd_pitch, dx_pitch, rows, n;
  double eps;
  bool past;
  int64_t first, span, groups;
  const RowLay *dy_lay, *x_lay, *dx_lay;
};
struct GroupNormKernels {
  ByDType<void (*)(const GroupNormBackwardRows&)> backward;
};
BARACUDA_ISA_TABLE_BF16(GroupNormKernels, group_norm_kernels)

}  // namespace baracuda
