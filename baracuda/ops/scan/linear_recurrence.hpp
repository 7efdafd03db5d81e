#pragma once
// Linear recurrences along one axis, and their gradients.
//   y_t = a_t y_(t-1) + x_t, nothing before the first
// in order of the axis, or with `reverse` from its end: decays of state-space models (RG-LRU, minGRU), running averages (a constant:
// zero strides). A state h before the first goes in as x_0 + a_0 h.
//
// Shapes: a, x and y have `shape`, rank 0 to 8; any strides, zero and negative ones for inputs too. Empty shapes are served.
// Dtypes: f16 bf16 f32 f64. NaN and infinities stay from where they appear on, except that a_t = 0 makes nothing of an
// infinite y_(t-1): what has overflowed counts as 0 beside a 0.
// In place: y may be x or a where the strides are equal.
// Numerics: kept in f64, rounded once. The order is a tree of the axis' length alone: runs of 8, 8 runs to a step, joined as maps
// r -> a r + b by Sklansky's network, steps of a block of 1024 in order, blocks in order. Products of a over 64 neighbours, and of
// blocks where lanes are split, have to stay in f64: |a| <= 1 always does. Workspace: only where there are fewer lanes than
// 1024 per thread; carries of blocks. Guarantee: deterministic, batch invariant, same bits for any instruction set. On
// CUDA the order is that of scan.md, with rows and columns of their own: deterministic, not batch invariant.
#include "baracuda/ops/scan/scan.hpp"

namespace baracuda {

struct LinearRecurrenceDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int axis = -1;
  bool reverse = false;
  static constexpr auto fields() {
    using D = LinearRecurrenceDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of every tensor"), field("shape", &D::shape, "of every tensor"),
                      field("axis", &D::axis, "the axis of the recurrence; negative counts from the end"),
                      field("reverse", &D::reverse, "from the end of the axis to its beginning"));
  }
};

struct LinearRecurrence {
  static constexpr std::string_view name = "linear_recurrence", category = "scan", summary = "y_t = a_t y_(t-1) + x_t along an axis";
  using Descriptor = LinearRecurrenceDescriptor;
  struct Args {
    TensorView a, x, y;
    static constexpr auto args() { return std::tuple(arg("a", &Args::a, Role::in), arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static DType aux_dtype(const Descriptor& d) { return d.dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view, std::string_view) { return true; }
  static std::span<const Kernel<LinearRecurrence>> kernels();
};
using LinearRecurrencePlan = Plan<LinearRecurrence>;

// dx_t = dy_t + a_(t+1) dx_(t+1), da_t = dx_t y_(t-1), each where it is given, in one pass; y of the forward is read for da only.
// In place: dx may be dy where the strides are equal.
struct LinearRecurrenceBackward {
  static constexpr std::string_view name = "linear_recurrence_backward", category = "scan", summary = "gradients of linear_recurrence";
  using Descriptor = LinearRecurrenceDescriptor;
  struct Args {
    TensorView dy, a, y, dx, da;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("a", &Args::a, Role::in), arg("y", &Args::y, Role::optional_in, "of the forward; read for da"),
                        arg("dx", &Args::dx, Role::optional_out), arg("da", &Args::da, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<LinearRecurrenceBackward>> kernels();
};
using LinearRecurrenceBackwardPlan = Plan<LinearRecurrenceBackward>;

}  // namespace baracuda
