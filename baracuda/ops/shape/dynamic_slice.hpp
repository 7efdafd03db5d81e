#pragma once
// Slices whose start is data: read and write a block of a tensor wherever the run says, as lax.dynamic_slice and dynamic_update_slice.
//
// start is a tensor of one i32 or i64 per axis of x. A negative one counts from the end where `negative` (as jax.lax, but not its primitive); then
// it is moved so that the block fits: into [0, extent - size]. So nothing is out of range, and a wrong start goes unseen: slice and
// update_slice, whose start the descriptor has, refuse one. Dtypes: all of whole bytes, bits unchanged. Any strides, zero for inputs. Outputs
// share no memory with inputs unless an op says so. Workspace: none. Guarantee: deterministic, batch invariant.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct DynamicSliceDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Shape size;
  DType index_dtype = DType::i64;
  bool negative = true;
  static constexpr auto fields() {
    using D = DynamicSliceDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of every tensor but start"), field("shape", &D::shape, "of the whole"),
                      field("size", &D::size, "extents of the slice"), field("index_dtype", &D::index_dtype, "i32 or i64, of start"),
                      field("negative", &D::negative, "negative starts count from the end"));
  }
};
struct DynamicSlice {
  static constexpr std::string_view name = "dynamic_slice", category = "shape", summary = "y = a slice of x that begins where a tensor says";
  using Descriptor = DynamicSliceDescriptor;
  struct Args {
    TensorView x, start, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("start", &Args::start, Role::in, "first index per axis"), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<DynamicSlice>> kernels();
};
using DynamicSlicePlan = Plan<DynamicSlice>;
struct DynamicSliceBackward {
  static constexpr std::string_view name = "dynamic_slice_backward", category = "shape", summary = "gradient of dynamic_slice: dy in its place, zeros around it";
  using Descriptor = DynamicSliceDescriptor;
  struct Args {
    TensorView dy, start, dx;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("start", &Args::start, Role::in, "first index per axis"), arg("dx", &Args::dx, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<DynamicSliceBackward>> kernels();
};
using DynamicSliceBackwardPlan = Plan<DynamicSliceBackward>;

// y = x with a slice replaced. y may be x (equal strides): then only the slice is written.
struct DynamicUpdateSlice {
  static constexpr std::string_view name = "dynamic_update_slice", category = "shape", summary = "y = x with a slice replaced that begins where a tensor says";
  using Descriptor = DynamicSliceDescriptor;
  struct Args {
    TensorView x, update, start, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("update", &Args::update, Role::in, "of the slice's shape"),
                        arg("start", &Args::start, Role::in, "first index per axis"), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<DynamicUpdateSlice>> kernels();
};
using DynamicUpdateSlicePlan = Plan<DynamicUpdateSlice>;
// dx = dy with zeros in the slice (dx may be dy), dupdate = the slice of dy. Either output may be absent.
struct DynamicUpdateSliceBackward {
  static constexpr std::string_view name = "dynamic_update_slice_backward", category = "shape", summary = "gradients of dynamic_update_slice";
  using Descriptor = DynamicSliceDescriptor;
  struct Args {
    TensorView dy, start, dx, dupdate;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("start", &Args::start, Role::in, "first index per axis"),
                        arg("dx", &Args::dx, Role::optional_out), arg("dupdate", &Args::dupdate, Role::optional_out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<DynamicUpdateSliceBackward>> kernels();
};
using DynamicUpdateSliceBackwardPlan = Plan<DynamicUpdateSliceBackward>;

}  // namespace baracuda
