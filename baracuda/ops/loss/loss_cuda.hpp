#pragma once
// What the kernel file of the losses exports to its rows. Three launches make a loss: the denominator, the rows, the sum of rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

inline constexpr int kLossParts = 128, kLossLeaf = 256;
struct DeviceVector {  // elements in row-major order of any shape; null data: absent
  device::Walk<1> walk;
  void* data = nullptr;
  static DeviceVector of(const TensorView& v) {
    const device::Operand o[1] = {device::Operand::of(v)};
    return {device::walk<1>(v.shape, o, -1, 1), v.data};
  }
  BARACUDA_HD int64_t at(int64_t i) const {
    int64_t offset[1];
    walk.offsets(i, offset);
    return offset[0];
  }
};
// What every kernel of a loss knows of its tokens.
struct LossCudaTokens {
  DeviceVector target, weights, dloss;
  int64_t tokens, classes, ignore_index;
  bool target_i32, per_token, mean, over_weights, invalid_is_zero;
  double scale;
  double* factor;  // of a mean: 1 / denominator, 0 for the mean of nothing; behind it kLossParts numbers for sums in parts
};
// Tokens that count, *count of them in all, whose rows lie together: row r is token of[first + r]. Where rows end before a multiple of kKeptRows there are rows of zeros.
struct LossKept { const int64_t *of = nullptr, *count = nullptr; };
inline constexpr int64_t kKeptRows = 64;
// A stretch of rows of logits: row r is token first + r, or that kept, and has `columns` classes from first_column on, all of them without lse_in.
struct LossCudaRows {
  LossCudaTokens t;
  const void *x, *bias;      // bias: `columns` values of the accumulator's type, or null
  void* dx;                  // null: no gradient; x itself (rows_to_bf16: each row the second half of x's), or apart from it
  int64_t x_pitch, dx_pitch, first, rows, first_column, columns;
  double smoothing, z, softcap;
  bool capped;               // x has its bias and cap
  DeviceVector lse_in, lse_out;  // known: dx alone is computed; wanted
  double *loss, *z_part;     // per token, weighted; null: not wanted
  double* total;             // per token, with smoothing and loss: scratch
  LossKept kept;
  double* leaves;            // of kLossLeaf tokens each: the sums of loss and z_part, and how many tokens count; null: not wanted
};
struct LossCudaKeep { LossCudaTokens t; int64_t *of, *count; double *loss, *z_part; int* target; };  // finds them in order, and their targets (null: not wanted); of the others, the loss
// From leaves to both results, where the loss is one number; the denominator of a mean is their count, or known already (counted: false).
struct LossCudaTotal { LossCudaTokens t; const double* leaves; DeviceVector loss, z_part; bool counted; };
struct LossCudaSum { LossCudaTokens t; const double* per_token; DeviceVector out; int parts = 0; };
struct LossCudaKernels {
  ByDType<int (*)(const LossCudaTokens&, void* stream)> denominator;   // by the accumulator's type
  ByDType<int (*)(const LossCudaRows&, void* stream)> rows;            // dx has the dtype of x
  int (*rows_to_bf16)(const LossCudaRows&, void* stream);              // x is f32, dx is bf16
  ByDType<int (*)(const LossCudaSum&, void* stream)> sum;              // by the accumulator's type
  ByDType<int (*)(const LossCudaTotal&, void* stream)> total;          // likewise
  int (*keep)(const LossCudaKeep&, void* stream);
};
extern const LossCudaKernels loss_cuda_kernels;
// Rows that fit on the chip, without lse_in, and bias and softcap unless they have them; kLossNotHeld where this one is none. f64: null.
inline constexpr int kLossNotHeld = -1;
struct LossHeldKernels {
  ByDType<int (*)(const LossCudaRows&, void* stream)> rows;
  int (*rows_to_bf16)(const LossCudaRows&, void* stream);
};
extern const LossHeldKernels loss_held_kernels;
// Rows of few classes, without bias, softcap and lse_in, likewise. f64: null.
extern const ByDType<int (*)(const LossCudaRows&, void* stream)> loss_short_rows;

}  // namespace baracuda
