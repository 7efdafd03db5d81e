#pragma once
// Ops that rearrange elements, and their gradients.
//
// Dtypes: all of whole bytes, bits unchanged; gradients that sum (pad, repeat, repeat_interleave) f16 bf16 f32 f64, added
// in f64 in the row-major order of dy and rounded once, so they do not depend on threads; one term keeps its bits. Any strides, also negative, zero
// for inputs. An axis may be negative: it counts from the end. Outputs share no memory with inputs unless an op says so.
// Workspace: none. Guarantee: deterministic, batch invariant.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct MoveArgs {
  TensorView x, y;
  static constexpr auto args() { return std::tuple(arg("x", &MoveArgs::x, Role::in), arg("y", &MoveArgs::y, Role::out)); }
};
struct MoveGradients {
  TensorView dy, dx;
  static constexpr auto args() { return std::tuple(arg("dy", &MoveGradients::dy, Role::in), arg("dx", &MoveGradients::dx, Role::out)); }
};

// Axis i of y is axis axes[i] of x, each once. Gradient: permute with the inverse order.
struct PermuteDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims axes;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &PermuteDescriptor::dtype, "of every tensor"), field("shape", &PermuteDescriptor::shape, "of x"),
                      field("axes", &PermuteDescriptor::axes, "axis of x that each axis of y is"));
  }
};
struct Permute {
  static constexpr std::string_view name = "permute", category = "shape", summary = "y = x with its axes in another order, copied";
  using Descriptor = PermuteDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Permute>> kernels();
};
using PermutePlan = Plan<Permute>;

using Tensors = std::span<const TensorView>;

// y = the tensors x[0], x[1], ... one behind another along an axis: their shapes are that of y but for their extents along
// the axis, which add up to y's; empty ones are allowed. Stacked tensors are pieces with an axis of extent 1, which a view gives them.
// The pieces may have any strides and may be one tensor several times. A list must live until run returns.
struct ConcatDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t axis = 0;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &ConcatDescriptor::dtype, "of every tensor"),
                      field("shape", &ConcatDescriptor::shape, "of the whole"),
                      field("axis", &ConcatDescriptor::axis, "that the pieces lie along"));
  }
};
struct ConcatArgs {
  Tensors x;
  TensorView y;
  static constexpr auto args() { return std::tuple(arg("x", &ConcatArgs::x, Role::in), arg("y", &ConcatArgs::y, Role::out)); }
};
struct Concat {
  static constexpr std::string_view name = "concat", category = "shape", summary = "y = tensors joined along an axis";
  using Descriptor = ConcatDescriptor;
  using Args = ConcatArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Concat>> kernels();
};
using ConcatPlan = Plan<Concat>;
// The gradient of concat, and an op of its own: y[0], y[1], ... = the pieces of x. concat is its gradient. An absent piece
// (no memory, with its shape) is left out.
struct SplitArgs {
  TensorView x;
  Tensors y;
  static constexpr auto args() { return std::tuple(arg("x", &SplitArgs::x, Role::in), arg("y", &SplitArgs::y, Role::out)); }
};
struct Split {
  static constexpr std::string_view name = "split", category = "shape", summary = "pieces of x along an axis";
  using Descriptor = ConcatDescriptor;
  using Args = SplitArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Split>> kernels();
};
using SplitPlan = Plan<Split>;

enum class PadMode : uint8_t {
  constant,   // args.value
  reflect,    // mirrored at the first and the last element: lo, hi < extent
  replicate,  // the first and the last element
  circular,   // from the other end: lo, hi <= extent
  symmetric,  // mirrored at the edges, which repeats the last element: lo, hi <= extent
};
constexpr std::array<std::string_view, 5> enum_names(PadMode) { return {"constant", "reflect", "replicate", "circular", "symmetric"}; }

// lo[i] elements before and hi[i] behind axis i (numpy's order; torch lists the last axis first, lo and hi in turn).
// Negative numbers cut away; circular pads what is left then, the other modes reach into x as it was. interior as lax.pad.
// value is cast from f64 as by Cast; dtypes that Cast lacks take 0 only.
struct PadDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  PadMode mode = PadMode::constant;
  Dims lo;
  Dims hi;
  Dims interior;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &PadDescriptor::dtype, "of every tensor"), field("shape", &PadDescriptor::shape, "of x"),
                      field("mode", &PadDescriptor::mode, "what is put around x"),
                      field("lo", &PadDescriptor::lo, "elements before, per axis; [] is 0"),
                      field("hi", &PadDescriptor::hi, "elements behind, per axis; [] is 0"),
                      field("interior", &PadDescriptor::interior, "constant: elements between neighbours; [] is 0"));
  }
};
struct PadArgs {
  TensorView x, y;
  double value = 0;
  static constexpr auto args() {
    return std::tuple(arg("x", &PadArgs::x, Role::in), arg("y", &PadArgs::y, Role::out), arg("value", &PadArgs::value, Role::value, "around x"));
  }
};
struct Pad {
  static constexpr std::string_view name = "pad", category = "shape", summary = "y = x with elements around it";
  using Descriptor = PadDescriptor;
  using Args = PadArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Pad>> kernels();
};
using PadPlan = Plan<Pad>;
struct PadBackward {
  static constexpr std::string_view name = "pad_backward", category = "shape", summary = "gradient of pad";
  using Descriptor = PadDescriptor;
  using Args = MoveGradients;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<PadBackward>> kernels();
};
using PadBackwardPlan = Plan<PadBackward>;

// y = x with axes reversed. Gradient: flip.
struct FlipDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims axes;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &FlipDescriptor::dtype, "of every tensor"), field("shape", &FlipDescriptor::shape, "of both"),
                      field("axes", &FlipDescriptor::axes, "that are reversed; [] is none"));
  }
};
struct Flip {
  static constexpr std::string_view name = "flip", category = "shape", summary = "y = x with axes reversed";
  using Descriptor = FlipDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Flip>> kernels();
};
using FlipPlan = Plan<Flip>;

// y[(i + shift) mod extent] = x[i]; shifts along one axis add up. Gradient: roll by -shifts.
struct RollDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims shifts;
  Dims axes;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RollDescriptor::dtype, "of every tensor"), field("shape", &RollDescriptor::shape, "of both"),
                      field("shifts", &RollDescriptor::shifts, "steps towards the end"),
                      field("axes", &RollDescriptor::axes, "one per shift; [] with one shift: x as one row"));
  }
};
struct Roll {
  static constexpr std::string_view name = "roll", category = "shape", summary = "y = x shifted along axes, round the end";
  using Descriptor = RollDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Roll>> kernels();
};
using RollPlan = Plan<Roll>;

// y = x, repeats[i] times along axis i (torch's repeat and tile). More repeats than axes: x gets leading axes of extent 1.
// Where the extent is 1 this is expand, and its gradient the sum over the expanded axes.
struct RepeatDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims repeats;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RepeatDescriptor::dtype, "of every tensor"), field("shape", &RepeatDescriptor::shape, "of x"),
                      field("repeats", &RepeatDescriptor::repeats, "times, per axis of y"));
  }
};
struct Repeat {
  static constexpr std::string_view name = "repeat", category = "shape", summary = "y = x again and again along its axes";
  using Descriptor = RepeatDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Repeat>> kernels();
};
using RepeatPlan = Plan<Repeat>;
struct RepeatBackward {
  static constexpr std::string_view name = "repeat_backward", category = "shape", summary = "gradient of repeat";
  using Descriptor = RepeatDescriptor;
  using Args = MoveGradients;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RepeatBackward>> kernels();
};
using RepeatBackwardPlan = Plan<RepeatBackward>;

// y = each element of x along an axis `repeats` times in a row (numpy's repeat).
struct RepeatInterleaveDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t repeats = 1;
  int64_t axis = 0;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RepeatInterleaveDescriptor::dtype, "of every tensor"),
                      field("shape", &RepeatInterleaveDescriptor::shape, "of x"),
                      field("repeats", &RepeatInterleaveDescriptor::repeats, "times each element"),
                      field("axis", &RepeatInterleaveDescriptor::axis, "along which they repeat"));
  }
};
struct RepeatInterleave {
  static constexpr std::string_view name = "repeat_interleave", category = "shape", summary = "y = every element of x several times in a row";
  using Descriptor = RepeatInterleaveDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RepeatInterleave>> kernels();
};
using RepeatInterleavePlan = Plan<RepeatInterleave>;
struct RepeatInterleaveBackward {
  static constexpr std::string_view name = "repeat_interleave_backward", category = "shape", summary = "gradient of repeat_interleave";
  using Descriptor = RepeatInterleaveDescriptor;
  using Args = MoveGradients;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RepeatInterleaveBackward>> kernels();
};
using RepeatInterleaveBackwardPlan = Plan<RepeatInterleaveBackward>;

// Elements start[i] + k step[i], k < size[i]; all must lie inside, nothing is clamped.
struct SliceDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims start;
  Dims size;
  Dims step;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &SliceDescriptor::dtype, "of every tensor"),
                      field("shape", &SliceDescriptor::shape, "of the whole"),
                      field("start", &SliceDescriptor::start, "first index per axis; [] is 0"),
                      field("size", &SliceDescriptor::size, "extents of the slice"),
                      field("step", &SliceDescriptor::step, "per axis, >= 1; [] is 1"));
  }
};
struct Slice {
  static constexpr std::string_view name = "slice", category = "shape", summary = "y = a slice of x";
  using Descriptor = SliceDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Slice>> kernels();
};
using SlicePlan = Plan<Slice>;
struct SliceBackward {
  static constexpr std::string_view name = "slice_backward", category = "shape", summary = "gradient of slice: dy in its place, zeros around it";
  using Descriptor = SliceDescriptor;
  using Args = MoveGradients;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<SliceBackward>> kernels();
};
using SliceBackwardPlan = Plan<SliceBackward>;
// y = x with a slice replaced. y may be x (equal strides): then only the slice is written.
struct UpdateSliceArgs {
  TensorView x, update, y;
  static constexpr auto args() {
    return std::tuple(arg("x", &UpdateSliceArgs::x, Role::in), arg("update", &UpdateSliceArgs::update, Role::in, "of the slice's shape"),
                      arg("y", &UpdateSliceArgs::y, Role::out));
  }
};
struct UpdateSlice {
  static constexpr std::string_view name = "update_slice", category = "shape", summary = "y = x with a slice replaced";
  using Descriptor = SliceDescriptor;
  using Args = UpdateSliceArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<UpdateSlice>> kernels();
};
using UpdateSlicePlan = Plan<UpdateSlice>;
// dx = dy with zeros in the slice (dx may be dy), dupdate = the slice of dy. Either output may be absent.
struct UpdateSliceGradients {
  TensorView dy, dx, dupdate;
  static constexpr auto args() {
    return std::tuple(arg("dy", &UpdateSliceGradients::dy, Role::in), arg("dx", &UpdateSliceGradients::dx, Role::optional_out),
                      arg("dupdate", &UpdateSliceGradients::dupdate, Role::optional_out));
  }
};
struct UpdateSliceBackward {
  static constexpr std::string_view name = "update_slice_backward", category = "shape", summary = "gradients of update_slice";
  using Descriptor = SliceDescriptor;
  using Args = UpdateSliceGradients;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<UpdateSliceBackward>> kernels();
};
using UpdateSliceBackwardPlan = Plan<UpdateSliceBackward>;

enum class TriangleKind : uint8_t { lower, upper };
constexpr std::array<std::string_view, 2> enum_names(TriangleKind) { return {"lower", "upper"}; }

// y = x where column - row <= diagonal (lower, tril) or >= diagonal (upper, triu) in the last two axes, 0 elsewhere.
// y may be x (equal strides). Gradient: triangle.
struct TriangleDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  TriangleKind kind = TriangleKind::lower;
  int64_t diagonal = 0;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &TriangleDescriptor::dtype, "of every tensor"),
                      field("shape", &TriangleDescriptor::shape, "of both, rank >= 2"),
                      field("kind", &TriangleDescriptor::kind, "what is kept"),
                      field("diagonal", &TriangleDescriptor::diagonal, "the last (lower) or first (upper) diagonal that is kept"));
  }
};
struct Triangle {
  static constexpr std::string_view name = "triangle", category = "shape", summary = "y = the lower or upper triangle of x";
  using Descriptor = TriangleDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Triangle>> kernels();
};
using TrianglePlan = Plan<Triangle>;

// The elements of a diagonal. Their tensor has the matrix's axes but the two, and the diagonal as its last.
struct DiagonalDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t offset = 0;
  int64_t axis1 = -2;
  int64_t axis2 = -1;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    return std::tuple(field("dtype", &DiagonalDescriptor::dtype, "of every tensor"),
                      field("shape", &DiagonalDescriptor::shape, "of the matrices"),
                      field("offset", &DiagonalDescriptor::offset, "column - row of the diagonal"),
                      field("axis1", &DiagonalDescriptor::axis1, "of the rows"),
                      field("axis2", &DiagonalDescriptor::axis2, "of the columns"));
  }
};
struct Diagonal {
  static constexpr std::string_view name = "diagonal", category = "shape", summary = "y = a diagonal of x";
  using Descriptor = DiagonalDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Diagonal>> kernels();
};
using DiagonalPlan = Plan<Diagonal>;
// y = matrices of the descriptor's shape with x on the diagonal, 0 elsewhere. diagonal and diagonal_embed are each other's
// gradient.
struct DiagonalEmbed {
  static constexpr std::string_view name = "diagonal_embed", category = "shape", summary = "y = x on a diagonal, zeros elsewhere";
  using Descriptor = DiagonalDescriptor;
  using Args = MoveArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<DiagonalEmbed>> kernels();
};
using DiagonalEmbedPlan = Plan<DiagonalEmbed>;

}  // namespace baracuda
