#pragma once
// What the kernel file of LayerNorm exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// Chunks of rows that stay in no registers have 64 bytes each of every block in `parts`. weight, bias: dense, or null.
struct LayerNormCuda {
  device::Walk<4> rows;  // x y mean rstd
  const void *x, *weight, *bias;
  void *y, *mean, *rstd, *parts;
  int64_t n;
  double eps;
  bool sm90a = false;  // the code that runs
  int team = 1;        // set at the launch of rows
};
struct LayerNormBackwardCuda {
  device::Walk<5> rows;  // dy x mean rstd dx
  const void *dy, *x, *weight, *mean, *rstd;
  void *dx, *dweight, *dbias, *parts;  // dweight, dbias: [teams, n] in the accumulator type, null where not wanted
  int64_t n, teams;
  double eps;
  int team = 1;  // set at the launch of rows
};
// By the dtype of x and the dtype of the weight: [0] that of x, [1] f32.
struct LayerNormCudaKernels {
  ByDType<int (*)(const LayerNormCuda&, void* stream)> forward[2];
  ByDType<int (*)(const LayerNormBackwardCuda&, void* stream)> backward[2];
};
extern const LayerNormCudaKernels layer_norm_cuda_kernels, layer_norm_rows_cuda;  // of any rows; of those that registers hold
int layer_norm_cuda_blocks_of_row(int64_t n, bool backward, int size);  // 0: registers do not hold them; more than 1: a cluster does; size: of an element
int64_t layer_norm_cuda_row_parts(int64_t rows, int64_t n, int size);   // of dweight and dbias; by the shape alone
int64_t layer_norm_cuda_blocks(int64_t rows);  // at most, where `parts` are in use
int64_t layer_norm_cuda_teams(int64_t rows);                            // likewise, where `parts` are in use

}  // namespace baracuda
