#pragma once
// What the instruction-set units of the family export: the last step of a block, from sums to c.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kGemmEpilogues = 5;
// c[i][j] = act(alpha sums[i][j] + beta c[i][j] + bias[i][j]). Null sums count as zero; c is not read when beta is 0.
// sums may be c itself (same strides, beta 0). Strides in elements; sums has unit column stride.
struct GemmFinish {
  const void* sums;
  int64_t sums_row;
  void* c;
  int64_t c_row, c_col;
  const void* bias;  // null: none
  int64_t bias_row, bias_col;
  double alpha, beta;
  int64_t m, n;
};
using GemmFinishRun = void (*)(const GemmFinish&);
struct GemmKernels {
  // By the dtype of a, b and bias, whether c has the accumulator's type instead of that dtype, and epilogue.
  ByDType<GemmFinishRun> finish[2][kGemmEpilogues];
};
BARACUDA_ISA_TABLE(GemmKernels, gemm_kernels)

}  // namespace baracuda
