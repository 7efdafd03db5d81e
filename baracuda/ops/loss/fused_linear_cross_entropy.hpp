#pragma once
// Cross entropy of x w^T + bias without the logits ever being whole: chunks of rows go through product, loss and
// gradient one after another, and with gradients asked for nothing is left to recompute (Liger kernel, Hsu et al. 2024).
// Formulas, ignored and invalid targets: loss.hpp. NaN in the x of rows that are ignored or invalid reaches no gradient; the CPU
// skips them, so that they cost nothing, and so does CUDA's row kept (bf16 on sm_90); the others there clear them.
//
// Shapes: x, dx [tokens, hidden]; w, dw [classes, hidden]; bias, dbias [classes], dense; matrices have dense rows of any
// pitch; target, weights, dloss, loss, z_part as for cross_entropy. Dtypes: x f16 bf16 f32 f64; w and bias the same, or
// f32 with f16 and bf16 x; dw and dbias that of w, or f32; dx that of x; target i64 i32; the rest f32, f64 for f64.
// Other pairs of x and w are refused by select, which names both. Outputs must not overlap inputs.
// Every output is written, also for no tokens and when all are ignored (0); dw and dbias are added to with accumulate.
//
// Numerics: logits in f32 (f64 for f64), never rounded to a half but by CUDA's rows kept and chunked_bf16, which bf16 x and w with gradients
// take unasked: they round them to bf16 once, as they are where they are whole (the row chunked, by PlanPreference::require_kernel, does not);
// the loss as in cross_entropy; dw and dbias summed in
// f32 and f64 over all chunks and rounded once, whatever their dtype; so the chunk shows only in the last bits. With
// bf16 x and w the gradient of the logits is rounded to bf16 for the products with w and x, once, as it is where logits
// are whole; with f16 x, or f32 w, these two products are computed in f32. Deterministic for any number of threads.
//
// The loss alone, on the CPU, is made without storing logits where no chunk is given and x, in the dtype of w, has 96 rows or more; its bits are
// those beside gradients. Else:
// Workspace: chunk x classes logits, chunk x hidden rows, two f64 and one i64 per token, an f32 dw where dw is a half,
// one f64 per class with dbias, what the matrix products take. The chunk, where it is not given: fused_loss_chunk_rule,
// raised up to 1024 rows while their logits fit 128 MiB, and halved until PlanPreference::max_workspace is met. CUDA: chunks of one size
// and up to 16384 rows, as few as fit max_workspace with logits of at most 1 GiB; where chunks of 512 rows do not fit, chunked_bf16 has no
// f32 dw and computes the logits twice. A chunk that is given is kept. chunk_rows() tells it. CUDA: TF32 for products of f32 operands by a
// row of its own.
#include <bit>
#include "baracuda/ops/loss/loss.hpp"

namespace baracuda {

struct FusedLinearCrossEntropyDescriptor {
  DType dtype = DType::f32;
  int64_t tokens = 0, hidden = 1, classes = 1;
  std::optional<DType> w_dtype, dw_dtype;
  DType target_dtype = DType::i64;
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, softcap = 0;
  InvalidTarget invalid_target = InvalidTarget::nan;
  MeanOver mean_over = MeanOver::tokens;
  bool bias = false;
  bool grad_x = false, grad_w = false, grad_bias = false;
  bool accumulate = false;
  int64_t chunk = 0;
  constexpr DType weight() const { return w_dtype ? *w_dtype : dtype; }
  constexpr DType weight_gradient() const { return dw_dtype ? *dw_dtype : weight(); }
  static constexpr auto fields() {
    using D = FusedLinearCrossEntropyDescriptor;
    return std::tuple_cat(
        std::tuple(field("dtype", &D::dtype, "of x and dx"), field("tokens", &D::tokens, "rows of x"), field("hidden", &D::hidden, "columns of x and w"),
                   field("classes", &D::classes, "rows of w"), field("w_dtype", &D::w_dtype, "of w and bias; none: dtype"),
                   field("dw_dtype", &D::dw_dtype, "of dw and dbias; none: that of w")),
        loss_fields<D>(),
        std::tuple(field("bias", &D::bias, "the logits have one"), field("grad_x", &D::grad_x, "write dx"), field("grad_w", &D::grad_w, "write dw"),
                   field("grad_bias", &D::grad_bias, "write dbias"), field("accumulate", &D::accumulate, "add to dw and dbias instead"),
                   field("chunk", &D::chunk, "rows of logits at a time; 0: chosen")));
  }
};

struct FusedLinearCrossEntropy {
  static constexpr std::string_view name = "fused_linear_cross_entropy", category = "loss",
                                    summary = "cross entropy of x w^T + bias in chunks, with gradients on request";
  using Descriptor = FusedLinearCrossEntropyDescriptor;
  struct Args {
    TensorView x, w, bias, target, weights, dloss, loss, z_part, dx, dw, dbias;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("w", &Args::w, Role::in), arg("bias", &Args::bias, Role::optional_in),
                        arg("target", &Args::target, Role::in), arg("weights", &Args::weights, Role::optional_in, "per token; absent: 1"),
                        arg("dloss", &Args::dloss, Role::optional_in, "gradient of loss, for the gradients; absent: 1"),
                        arg("loss", &Args::loss, Role::out), arg("z_part", &Args::z_part, Role::optional_out, "the z term within loss"),
                        arg("dx", &Args::dx, Role::optional_out), arg("dw", &Args::dw, Role::optional_inout, "read only with accumulate"),
                        arg("dbias", &Args::dbias, Role::optional_inout, "read only with accumulate"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<FusedLinearCrossEntropy>> kernels();
  static DType aux_dtype(const Descriptor& d) { return d.weight(); }
  static std::string_view epilogue(const Descriptor& d) { return enum_name(d.reduction); }
};
using FusedLinearCrossEntropyPlan = Plan<FusedLinearCrossEntropy>;

// next_pow2(ceil(tokens / ceil(classes / hidden))), at most 2048: the logits of a chunk are then about as large as x.
constexpr int64_t fused_loss_chunk_rule(int64_t tokens, int64_t hidden, int64_t classes) {
  if (tokens <= 0 || hidden <= 0 || classes <= 0) return 1;
  const int64_t parts = (classes - 1) / hidden + 1, rows = (tokens - 1) / parts + 1;
  return rows >= 2048 ? 2048 : int64_t(std::bit_ceil(uint64_t(rows)));
}
// What the state of every row of this op begins with.
struct FusedLossChunk { int64_t rows; };
// The chunk that a plan uses.
inline int64_t chunk_rows(const FusedLinearCrossEntropyPlan& plan) { return static_cast<const FusedLossChunk*>(plan.state())->rows; }

// dx, dw and dbias of the forward times scale * dloss, where the gradient of the loss becomes known only later; whatever
// is given is scaled, in place, with one more rounding. A factor of 1 launches nothing. Refused: reduction none (the
// rows of dw cannot be told apart afterwards: give dloss to the forward), and a factor other than 1 with accumulate; on CUDA, where
// the factor is not known before a kernel reads it, any dloss with accumulate.
struct FusedLinearCrossEntropyBackward {
  static constexpr std::string_view name = "fused_linear_cross_entropy_backward", category = "loss",
                                    summary = "gradients of fused_linear_cross_entropy times the gradient of its loss";
  using Descriptor = FusedLinearCrossEntropyDescriptor;
  struct Args {
    TensorView dloss, dx, dw, dbias;
    double scale = 1;
    static constexpr auto args() {
      return std::tuple(arg("dloss", &Args::dloss, Role::optional_in, "one element; absent: 1"), arg("dx", &Args::dx, Role::optional_inout),
                        arg("dw", &Args::dw, Role::optional_inout), arg("dbias", &Args::dbias, Role::optional_inout),
                        arg("scale", &Args::scale, Role::value, "another factor"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<FusedLinearCrossEntropyBackward>> kernels();
  static DType aux_dtype(const Descriptor& d) { return d.weight(); }
};
using FusedLinearCrossEntropyBackwardPlan = Plan<FusedLinearCrossEntropyBackward>;

}  // namespace baracuda
