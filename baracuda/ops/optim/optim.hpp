#pragma once
// Optimiser steps over a whole list of tensors in one run.
//
// The tensors of a role are a span of views, one per parameter, in the same order for every role; all views are dense
// (row-major), any shape, empty ones allowed. A parameter's tensors have equal numbers of elements. Spans must live
// until run returns (CUDA: until it has been queued). A run's list may change from run to run.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

using Tensors = std::span<const TensorView>;

// One step of AdamW (Loshchilov and Hutter 2019; Kingma and Ba 2015), the values of torch.optim.AdamW:
//   g = grad_scale * grad        p = p (1 - lr weight_decay)
//   m = m + (1 - beta1)(g - m)   v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// decoupled = false is Adam: g = grad_scale * grad + weight_decay p instead of the decay of p.
// With v_max it is AMSGrad (Reddi, Kale and Kumar 2018): v_max = max(v_max, v), which stands for v in the last line.
// Dtypes: params f16 bf16 f32 f64; grads f16 bf16 f32 (f64 with f64 params); m, v, v_max and masters f32 (f64 for f64).
// Halves: with masters (f32) the step is taken on the masters and params are their rounded values; without, params are
// widened and rounded again. Computed in f32 (f64), the step's constants in f64.
// Step and lr: host values, or tensors of one element (step i64, lr f32) that the run reads; the step tensor holds the
// steps done so far and is raised by one. Host and tensor values give the same bits.
// grad_scale (f32, one element) multiplies every gradient: the result of clip_scale, or 1 / loss scale.
// found_inf (f32, one element): not 0 means skip: nothing is written, the step tensor included.
// NaN and infinity in a gradient reach m, v, v_max and p, and a NaN in v_max stays. Workspace: none. Guarantee: deterministic, batch invariant.
struct AdamWDescriptor {
  DType dtype = DType::f32, grad_dtype = DType::f32;
  bool decoupled = true;
  bool maximize = false;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &AdamWDescriptor::dtype, "of params"), field("grad_dtype", &AdamWDescriptor::grad_dtype, "of grads"),
                      field("decoupled", &AdamWDescriptor::decoupled, "AdamW; false: Adam with an L2 term"),
                      field("maximize", &AdamWDescriptor::maximize, "climb instead of descend"));
  }
};
struct AdamW {
  static constexpr std::string_view name = "adamw", category = "optim", summary = "one AdamW step over a list of tensors";
  using Descriptor = AdamWDescriptor;
  struct Args {
    Tensors params, grads, m, v;
    Tensors masters = {};               // for halves; empty: none
    int64_t step = 1;                   // number of this step, from 1; not read when step_tensor is given
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
    TensorView step_tensor = {}, lr_tensor = {}, grad_scale = {}, found_inf = {};
    Tensors v_max = {};                 // for AMSGrad; empty: none
    static constexpr auto args() {
      return std::tuple(arg("params", &Args::params, Role::inout), arg("grads", &Args::grads, Role::in), arg("m", &Args::m, Role::inout, "first moments"),
                        arg("v", &Args::v, Role::inout, "second moments"), arg("masters", &Args::masters, Role::optional_inout, "f32 weights behind half params"),
                        arg("step", &Args::step, Role::value, "from 1"), arg("lr", &Args::lr, Role::value), arg("beta1", &Args::beta1, Role::value),
                        arg("beta2", &Args::beta2, Role::value), arg("eps", &Args::eps, Role::value), arg("weight_decay", &Args::weight_decay, Role::value),
                        arg("step_tensor", &Args::step_tensor, Role::optional_inout, "steps done"), arg("lr_tensor", &Args::lr_tensor, Role::optional_in),
                        arg("grad_scale", &Args::grad_scale, Role::optional_in), arg("found_inf", &Args::found_inf, Role::optional_in),
                        arg("v_max", &Args::v_max, Role::optional_inout, "largest second moments so far: AMSGrad"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.grad_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<AdamW>> kernels();
};
using AdamWPlan = Plan<AdamW>;

// norm = 2-norm of all elements of all tensors (0 for none), f32 with one element (f64 for f64 tensors). f16, bf16 and
// f32 are squared and added in f64, halves by fours in f32 where that holds them; f64 in three accumulators by size (Blue 1978), so that it neither overflows nor
// vanishes when the norm does not. found_inf (f32, one element), when given, becomes 1 if any element is not finite and 0
// otherwise: what AdamW and a loss scaler read. The order of addition depends on the sizes of the tensors alone.
// Workspace: 256 partial sums. Guarantee: deterministic.
struct GlobalNormDescriptor {
  DType dtype = DType::f32;
  static constexpr auto fields() { return std::tuple(field("dtype", &GlobalNormDescriptor::dtype, "of the tensors")); }
};
struct GlobalNorm {
  static constexpr std::string_view name = "global_norm", category = "optim", summary = "2-norm of a list of tensors";
  using Descriptor = GlobalNormDescriptor;
  struct Args {
    Tensors x;
    TensorView norm;
    TensorView found_inf = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("norm", &Args::norm, Role::out), arg("found_inf", &Args::found_inf, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<GlobalNorm>> kernels();
};
using GlobalNormPlan = Plan<GlobalNorm>;

// scale = min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; a NaN norm gives NaN. norm and scale
// have one element of dtype f32 or f64. AdamW takes the scale as grad_scale, so that gradients are not written again.
struct ClipScaleDescriptor {
  DType dtype = DType::f32;
  double max_norm = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &ClipScaleDescriptor::dtype, "of norm and scale"), field("max_norm", &ClipScaleDescriptor::max_norm, "> 0"));
  }
};
struct ClipScale {
  static constexpr std::string_view name = "clip_scale", category = "optim", summary = "scale that clips gradients to a norm";
  using Descriptor = ClipScaleDescriptor;
  struct Args {
    TensorView norm, scale;
    static constexpr auto args() { return std::tuple(arg("norm", &Args::norm, Role::in), arg("scale", &Args::scale, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<ClipScale>> kernels();
};
using ClipScalePlan = Plan<ClipScale>;

}  // namespace baracuda
