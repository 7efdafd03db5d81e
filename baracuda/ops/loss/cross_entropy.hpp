#pragma once
// Cross entropy of given logits, its gradient in the forward (one pass less) or by a backward plan of its own. Formulas,
// ignored and invalid targets: loss.hpp.
//
// Shapes: logits and dlogits [tokens, classes], last axis dense, any row pitch (negative too); target, weights, lse, and
// for reduction none also loss, z_part and dloss: any shape of `tokens` elements in row-major order, any strides, 0 too for inputs;
// for mean and sum loss, z_part and dloss have one element. Dtypes: logits f16 bf16 f32 f64; target i64 i32; the rest
// f32, f64 for f64. Halves are computed in f32, so they give the loss of the same values in f32.
// In place: dlogits may be logits itself only with in_place; any other overlap is refused, and logits are never changed
// otherwise. Errors: invalid_problem.
// Numerics: exp and products in f32 (f64), sums of 1024 in f32 in 64 lanes, their total, the loss and the reduction over
// rows in f64, in a fixed order: deterministic; with reduction none a row's bits do not depend on other rows.
#include "baracuda/ops/loss/loss.hpp"

namespace baracuda {

struct CrossEntropyDescriptor {
  DType dtype = DType::f32;
  int64_t tokens = 0, classes = 1;
  DType target_dtype = DType::i64;
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, softcap = 0;
  InvalidTarget invalid_target = InvalidTarget::nan;
  MeanOver mean_over = MeanOver::tokens;
  bool grad_logits = false;
  bool in_place = false;
  static constexpr auto fields() {
    using D = CrossEntropyDescriptor;
    return std::tuple_cat(std::tuple(field("dtype", &D::dtype, "of logits and dlogits"), field("tokens", &D::tokens, "rows"),
                                     field("classes", &D::classes, "columns")),
                          loss_fields<D>(),
                          std::tuple(field("grad_logits", &D::grad_logits, "the forward writes dlogits too"),
                                     field("in_place", &D::in_place, "dlogits may be logits")));
  }
};

// Workspace: two f64 per token; with softcap on halves a row in f32 per thread, in the backward too.
struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy", category = "loss",
                                    summary = "cross entropy of logits, with gradient on request";
  using Descriptor = CrossEntropyDescriptor;
  struct Args {
    TensorView logits, target, weights, dloss, loss, z_part, lse, dlogits;
    static constexpr auto args() {
      return std::tuple(arg("logits", &Args::logits, Role::in), arg("target", &Args::target, Role::in),
                        arg("weights", &Args::weights, Role::optional_in, "per token; absent: 1"),
                        arg("dloss", &Args::dloss, Role::optional_in, "gradient of loss, for dlogits; absent: 1"),
                        arg("loss", &Args::loss, Role::out), arg("z_part", &Args::z_part, Role::optional_out, "the z term within loss"),
                        arg("lse", &Args::lse, Role::optional_out, "for the backward; 0 in ignored rows"),
                        arg("dlogits", &Args::dlogits, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return d.in_place && out == "dlogits" && in == "logits"; }
  static std::span<const Kernel<CrossEntropy>> kernels();
  static DType aux_dtype(const Descriptor& d) { return d.target_dtype; }
  static std::string_view epilogue(const Descriptor& d) { return enum_name(d.reduction); }
};
using CrossEntropyPlan = Plan<CrossEntropy>;

// dlogits from logits, recomputing the softmax: one pass with the forward's lse, three without. The gradient of the loss
// is dloss * scale. grad_logits is not read.
struct CrossEntropyBackward {
  static constexpr std::string_view name = "cross_entropy_backward", category = "loss", summary = "gradient of cross_entropy";
  using Descriptor = CrossEntropyDescriptor;
  struct Args {
    TensorView logits, target, weights, lse, dloss, dlogits;
    double scale = 1;
    static constexpr auto args() {
      return std::tuple(arg("logits", &Args::logits, Role::in), arg("target", &Args::target, Role::in),
                        arg("weights", &Args::weights, Role::optional_in, "per token; absent: 1"),
                        arg("lse", &Args::lse, Role::optional_in, "as the forward wrote it"),
                        arg("dloss", &Args::dloss, Role::optional_in, "gradient of loss; absent: 1"),
                        arg("dlogits", &Args::dlogits, Role::out), arg("scale", &Args::scale, Role::value, "another factor"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return d.in_place && out == "dlogits" && in == "logits"; }
  static std::span<const Kernel<CrossEntropyBackward>> kernels();
  static DType aux_dtype(const Descriptor& d) { return d.target_dtype; }
  static std::string_view epilogue(const Descriptor& d) { return enum_name(d.reduction); }
};
using CrossEntropyBackwardPlan = Plan<CrossEntropyBackward>;

}  // namespace baracuda
