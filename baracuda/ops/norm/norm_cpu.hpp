#pragma once
// What the instruction-set units of the family export.
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/shape.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// How the elements of a row lie that are not dense: axes in order, strides in elements. rank is at least 1.
struct RowLay {
  int rank;
  int64_t extent[kMaxRank], stride[kMaxRank];
};

// A run of rows of n elements, one pitch per tensor; null pointers where an argument is absent. Weights and rstd are in
// the accumulator type A (float, double for f64).
struct RmsNormRows {
  const void *x, *residual;
  void *y, *residual_out, *rstd;
  const void* weight;
  int64_t x_pitch, residual_pitch, y_pitch, residual_out_pitch, rstd_pitch;
  int64_t rows, n;
  double eps;
  bool cast_first;
  bool past;  // write y (dx) past the caches
};
struct RmsNormBackwardRows {
  const void *dy, *x, *dresidual_out, *rstd;
  void *dx, *dweight;  // dweight: n sums in A, added to
  const void* weight;
  int64_t dy_pitch, x_pitch, dresidual_out_pitch, rstd_pitch, dx_pitch;
  int64_t rows, n;
  double eps;
  bool cast_first;
  bool past;  // write y (dx) past the caches
};
// out[i * out_stride] = sum over k < count, in order and in f64, of partial[k * n + i], for begin <= i < end.
struct NormFold {
  const void* partial;
  int64_t count, n, begin, end;
  void* out;
  int64_t out_stride;
};
struct NormKernels {
  ByDType<void (*)(const RmsNormRows&)> forward;
  ByDType<void (*)(const RmsNormBackwardRows&)> backward;
  // By the dtype of out. Partial sums are f64 for f64 norms, whose weights may be f32, and f32 for the others.
  ByDType<void (*)(const NormFold&)> fold_f32, fold_f64;
};
BARACUDA_ISA_TABLE_BF16(NormKernels, norm_kernels)

}  // namespace baracuda
