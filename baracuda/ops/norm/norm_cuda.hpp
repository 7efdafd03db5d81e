#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct RmsNormCuda {
  device::Walk<5> rows;      // x residual y residual_out rstd
  const void *x, *residual, *weight;
  void *y, *residual_out, *rstd;
  int64_t weight_stride, n;
  double eps;
  bool one_plus, cast_first;
  bool sm90a = false;        // the code that runs
  int team = 1;              // set at the launch of rows
};
struct RmsNormBackwardCuda {
  device::Walk<5> rows;      // dy x dresidual_out rstd dx
  const void *dy, *x, *dresidual_out, *rstd, *weight;
  void *dx, *partial;        // partial: [teams, n] in the accumulator type, null where dweight is not wanted
  int64_t weight_stride, n, teams;
  double eps;
  bool one_plus, cast_first;
  int team = 1;
};
// Sums of [blocks, n] over blocks: one or two, of one dtype; out null: not wanted.
struct NormFoldCuda {
  struct { const void* partial; void* out; int64_t stride; } of[2];
  int64_t blocks, n;
};
// By the dtype of x and the dtype of the weight: [0] that of x, [1] f32.
struct NormCudaKernels {
  ByDType<int (*)(const RmsNormCuda&, void* stream)> rms_norm[2];
  ByDType<int (*)(const RmsNormBackwardCuda&, void* stream)> rms_norm_backward[2];
  ByDType<int (*)(const NormFoldCuda&, void* stream)> fold_f32, fold_f64;  // by the dtype of out
};
extern const NormCudaKernels norm_cuda_kernels;
// Parts of dweight; by shape and dtype alone.
int64_t norm_cuda_teams(int64_t rows, int64_t n, DType dtype);

// Rows that registers hold.
struct RmsNormRowsCuda {
  ByDType<int (*)(const RmsNormCuda&, void* stream)> forward[2];
  ByDType<int (*)(const RmsNormBackwardCuda&, void* stream)> backward[2];
};
extern const RmsNormRowsCuda rms_norm_rows_cuda;
int rms_norm_cuda_blocks_of_row(int64_t n, bool backward, int size);  // 0: registers do not hold them; more than 1: a cluster does; size: of an element
int64_t rms_norm_cuda_row_parts(int64_t rows, int64_t n, int size);

}  // namespace baracuda
