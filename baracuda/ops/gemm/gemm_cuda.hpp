#pragma once
// What the kernel file of gemm exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// c[i][j] = act(alpha sum a[i][k] b[k][j] + beta c[i][j] + bias[j]) for every matrix of the batch; strides in elements, any.
struct GemmCudaSide { const void* p; int64_t outer, k; };  // outer: over rows of op(a), columns of op(b)
struct GemmCudaTile {
  int64_t m, n, k;  // k > 0
  GemmCudaSide a, b;
  void* c;
  int64_t c_row, c_col;
  const void* bias;  // null: none
  int64_t bias_col;
  double alpha, beta;
  int epilogue;
  device::Walk<3> batch;  // offsets of a, b and c
};
// The same from sums that are there, c's own elements perhaps, or without a product.
struct GemmCudaFinish {
  device::Walk<3> walk;  // of sums, c and bias
  const void* sums;      // of the accumulator's type; null: none
  void* c;
  const void* bias;      // null: none
  double alpha, beta;
  int epilogue;
};
constexpr int gemm_finish_lanes(DType t) { return byte_size(t) == 2 ? 8 : 4; }  // of the walk, by the dtype of a, b and bias
struct GemmCudaKernels {
  // By whether c has the accumulator's type instead of the dtype, and the dtype of a, b and bias.
  ByDType<int (*)(const GemmCudaTile&, void* stream)> tile[2];
  ByDType<int (*)(const GemmCudaFinish&, void* stream)> finish[2];
};
extern const GemmCudaKernels gemm_cuda_kernels;

}  // namespace baracuda
