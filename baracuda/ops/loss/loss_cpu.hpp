#pragma once
// What the instruction-set units of the losses export. One call is one row, or one run of elements.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct LossRow {
  const void* x;         // n logits
  void* dx;              // n gradients; null: none. May be x.
  void* scratch;         // n values of the accumulator's type, for logits with bias and softcap; may be x or dx; null: none
  const void* bias;      // n values of the accumulator's type, or null
  int64_t n, target;     // 0 <= target < n
  double g;              // gradient of the row's loss
  double smoothing, z, softcap;
  bool lse_known;        // then lse is given and nothing but dx is computed
  double loss, z_part, lse;
};
// A row is summed up by chunks of so many classes: exps = sum exp(x - top), plain = sum (x - top) where it is asked for.
inline constexpr int64_t kLossChunk = 1024;
struct LossPart { double top, exps, plain; };
// The same chunk of several rows; bias of its first class on. With bias or softcap x is overwritten by what they make of it.
struct LossChunk {
  void* x;
  int64_t pitch, rows, n;
  const void* bias;
  double softcap;
  bool plain;
  LossPart* parts;
  int64_t parts_pitch;
};
struct LossKernels {
  ByDType<void (*)(LossRow&)> row;                         // dx has the dtype of x
  void (*row_to_bf16)(LossRow&);                           // x is f32, dx is bf16
  ByDType<void (*)(const LossChunk&)> chunk;               // f32, f64
  void (*join)(LossRow&, const LossPart* parts, double at_target);  // the loss alone, from the parts of a row and its target's logit
  // sums[j] += x[i][j] for `rows` rows in order, j < n
  ByDType<void (*)(const void* x, int64_t pitch, int64_t rows, int64_t n, double* sums)> add_columns;
  ByDType<void (*)(const void* x, void* acc, int64_t n)> to_acc;                       // accumulator type, exact
  ByDType<void (*)(const void* acc, void* x, int64_t n, bool add)> from_acc;           // x = acc (+ x), rounded once
  ByDType<void (*)(const double* sums, void* x, int64_t n, bool add)> from_double;     // likewise
  ByDType<void (*)(void* x, int64_t n, double s)> scale;
};
BARACUDA_ISA_TABLE(LossKernels, loss_kernels)

}  // namespace baracuda
