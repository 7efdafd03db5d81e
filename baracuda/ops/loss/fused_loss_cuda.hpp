#pragma once
// What the kernel file of fused linear cross entropy exports to its rows: everything beside products and losses.
#include "baracuda/ops/loss/loss_cuda.hpp"

namespace baracuda {

// Rows of a matrix to another one, converted with one rounding; row r is token first + r, or that kept, whose row is taken, or with scatter written.
struct FusedLossCopy {
  LossCudaTokens t;
  int64_t first;
  bool clear;        // rows of tokens that do not count become zeros instead
  bool add;          // to what is there
  const void* from;  // null: zeros, with clear to those rows alone
  void* to;
  int64_t from_pitch, to_pitch, rows, n;
  LossKept kept;
  bool scatter = false;
};
// sums[j] = (sums[j] +) sum of x[.][j], the rows in slices that are joined in order. Of rows that are kept the last ones come first: they replace what is there.
struct FusedLossColumns { const void* x; int64_t pitch, rows, n; double* sums; bool add; int64_t first; LossKept kept; };
struct FusedLossScale { void* x; int64_t pitch, rows, n; double scale; const void* dloss; };   // x *= scale * dloss[0]; dloss null: 1
using FusedLossCopyRun = int (*)(const FusedLossCopy&, void* stream);
struct FusedLossCudaKernels {
  ByDType<FusedLossCopyRun> same, widen, narrow, from_double;  // T to T, T to its accumulator's type and back, f64 to T
  ByDType<int (*)(const FusedLossColumns&, void* stream)> columns;
  ByDType<int (*)(const FusedLossScale&, void* stream)> scale;
};
extern const FusedLossCudaKernels fused_loss_cuda_kernels;

}  // namespace baracuda
