#pragma once
// select_n: y = the element of x[0], x[1], ... that an index names, at each place; and its gradient.
//
// Shapes: every case and y have `shape`; which has it too, or none ([]): one index for all. Any strides, zero ones for inputs;
// the cases may be one tensor several times. Dtypes: all of whole bytes, bits unchanged; which is bool (at most two cases), i32
// or i64. An index below 0 names the first case, one beyond the last the last, as XLA's Select does. No output may overlap
// an input or another output. Values of cases that are not chosen never show, NaN included.
// Workspace: none. Guarantee: deterministic, batch invariant, the same bits everywhere.
#include "baracuda/ops/shape/shape.hpp"

namespace baracuda {

struct SelectNDescriptor {
  DType dtype = DType::f32, which_dtype = DType::i32;
  Shape shape, which;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &SelectNDescriptor::dtype, "of the cases and y"), field("which_dtype", &SelectNDescriptor::which_dtype, "bool, i32 or i64"),
                      field("shape", &SelectNDescriptor::shape, "of the cases and y"),
                      field("which", &SelectNDescriptor::which, "shape of the indices: that of y, or none"));
  }
};
struct SelectN {
  static constexpr std::string_view name = "select_n", category = "shape", summary = "y = one of several tensors by an index per element";
  using Descriptor = SelectNDescriptor;
  struct Args {
    TensorView which;
    Tensors x;
    TensorView y;
    static constexpr auto args() {
      return std::tuple(arg("which", &Args::which, Role::in), arg("x", &Args::x, Role::in, "the cases"), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.which_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<SelectN>> kernels();
};
using SelectNPlan = Plan<SelectN>;

// dx[k] = dy where which names case k, else 0. An absent dx[k] (no memory, with its shape) is left out.
struct SelectNBackward {
  static constexpr std::string_view name = "select_n_backward", category = "shape", summary = "gradients of select_n";
  using Descriptor = SelectNDescriptor;
  struct Args {
    TensorView dy, which;
    Tensors dx;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("which", &Args::which, Role::in), arg("dx", &Args::dx, Role::out, "of each case"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.which_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<SelectNBackward>> kernels();
};
using SelectNBackwardPlan = Plan<SelectNBackward>;

}  // namespace baracuda
