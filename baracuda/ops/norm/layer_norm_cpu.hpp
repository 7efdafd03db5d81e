#pragma once
// What the instruction-set units of LayerNorm export. Weights, means and rstd are in the accumulator type A.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct LayerNormRows {
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;
  int64_t x_pitch, y_pitch, mean_pitch, rstd_pitch, rows, n;
  double eps;
  bool past;  // write y past the caches
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
BARACUDA_ISA_TABLE(LayerNormKernels, layer_norm_kernels)

}  // namespace baracuda
