#pragma once
// Ops that address elements by indices, and their gradients.
//
// Dtypes: moves take all of whole bytes, bits unchanged; sums, means and extrema those of Cast; gradients f16 bf16 f32 f64. Any
// strides, zero for inputs: indices that do not vary along an axis are a view with stride 0 there (so are one value for all of src, and
// torch's index_add, index_copy, index_fill, which are scatter with such indices). An axis may be negative. Outputs share no memory
// with inputs unless an op says so. Workspace: named by each op. Guarantee: deterministic, batch invariant; elements are combined in the
// row-major order of the indices, so threads do not show, and columns do not depend on each other.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// Indices are i32 or i64. What becomes of one outside [0, extent) ([-extent, extent) where `negative` counts them from the end):
enum class OutOfRange : uint8_t {
  refuse,  // run looks at all of them first, and refuses with the first one's place, itself and the extent; nothing is written. CUDA rows lack it
  fill,    // reads give NaN (integers the lowest value, unsigned ones the highest, bool true: as jax), writes and gradients leave it out
  clip,    // the nearest index; of an empty axis there is none, which is as fill
};
constexpr std::array<std::string_view, 3> enum_names(OutOfRange) { return {"refuse", "fill", "clip"}; }

// Arguments of the gradients of ops that read and of ops that write at indices: one tensor of them, or one per axis.
using IndexLists = std::span<const TensorView>;
template <class Indices> inline constexpr std::string_view kIndicesHelp = std::is_same_v<Indices, TensorView> ? "" : "one tensor per axis";
template <class Indices> struct ReadGradients {
  TensorView dy;
  Indices indices;
  TensorView dx;
  static constexpr auto args() {
    using A = ReadGradients;
    return std::tuple(arg("dy", &A::dy, Role::in), arg("indices", &A::indices, Role::in, kIndicesHelp<Indices>), arg("dx", &A::dx, Role::out));
  }
};
template <class Indices> struct WriteGradients {
  TensorView dy;
  Indices indices;
  TensorView x = {}, src = {}, y = {}, dx = {}, dsrc = {};
  static constexpr auto args() {
    using A = WriteGradients;
    return std::tuple(arg("dy", &A::dy, Role::in), arg("indices", &A::indices, Role::in, kIndicesHelp<Indices>),
                      arg("x", &A::x, Role::optional_in, "amax, amin"), arg("src", &A::src, Role::optional_in, "amax, amin"),
                      arg("y", &A::y, Role::optional_in, "amax, amin"), arg("dx", &A::dx, Role::optional_out), arg("dsrc", &A::dsrc, Role::optional_out));
  }
};

// y[i, j, k] = x[i, indices[i, j, k], k] for axis 1: torch's gather, take_along_axis. indices has the rank of x and along the other axes
// at most its extents; y has its shape. A tensor of rank 0 has one place, 0, along axis 0.
struct GatherDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t axis = 0;
  Shape indices;
  DType index_dtype = DType::i64;
  OutOfRange out_of_range = OutOfRange::refuse;
  bool negative = false;
  static constexpr auto fields() {
    using D = GatherDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of x"), field("axis", &D::axis, "that is indexed"),
                      field("indices", &D::indices, "shape of the indices"), field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("out_of_range", &D::out_of_range, "what becomes of indices that are none"),
                      field("negative", &D::negative, "negative indices count from the end"));
  }
};
struct Gather {
  static constexpr std::string_view name = "gather", category = "index", summary = "y = x at one index per element along an axis";
  using Descriptor = GatherDescriptor;
  struct Args {
    TensorView x, indices, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("indices", &Args::indices, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Gather>> kernels();
};
using GatherPlan = Plan<Gather>;
// dx = zeros, and each dy added at its index: scatter with reduce=add. Workspace: f32 sums of x's shape for f16 and bf16.
struct GatherBackward {
  static constexpr std::string_view name = "gather_backward", category = "index", summary = "gradient of gather, summed in order";
  using Descriptor = GatherDescriptor;
  using Args = ReadGradients<TensorView>;
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<GatherBackward>> kernels();
};
using GatherBackwardPlan = Plan<GatherBackward>;

// y = x[indices[0], indices[1], ...] along `axes`, which ascend: slices of x at the places that the tensors of indices name together.
// Each of them broadcasts to the shape `indices` (trailing axes as numpy). As in numpy the axes of `indices` stand in y where the
// indexed ones stood when those are neighbours, else in front. One axis: torch's index_select, take; the first axes: gather_nd;
// several: advanced indexing.
struct IndexDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims axes = {0};
  Shape indices;
  DType index_dtype = DType::i64;
  OutOfRange out_of_range = OutOfRange::refuse;
  bool negative = false;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    using D = IndexDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of x"), field("axes", &D::axes, "that are indexed, ascending"),
                      field("indices", &D::indices, "shape that the indices broadcast to"), field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("out_of_range", &D::out_of_range, "what becomes of indices that are none"),
                      field("negative", &D::negative, "negative indices count from the end"));
  }
};
struct Index {
  static constexpr std::string_view name = "index", category = "index", summary = "y = slices of x at indices along axes";
  using Descriptor = IndexDescriptor;
  struct Args {
    TensorView x;
    IndexLists indices;
    TensorView y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("indices", &Args::indices, Role::in, "one tensor per axis"), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Index>> kernels();
};
using IndexPlan = Plan<Index>;
// dx = zeros, and each slice of dy added at its place: index_put with reduce=add. Workspace as gather_backward.
struct IndexBackward {
  static constexpr std::string_view name = "index_backward", category = "index", summary = "gradient of index, summed in order";
  using Descriptor = IndexDescriptor;
  using Args = ReadGradients<IndexLists>;
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<IndexBackward>> kernels();
};
using IndexBackwardPlan = Plan<IndexBackward>;

// How the elements of src that fall on one place are combined there.
enum class ScatterKind : uint8_t {
  replace,  // the last one stays
  add,      // x + alpha src, one after another; integers keep their low bits, bool is "or"
  mean,     // of x and them; integers are rounded down
  amax,     // NaN stays
  amin,
};
constexpr std::array<std::string_view, 5> enum_names(ScatterKind) { return {"replace", "add", "mean", "amax", "amin"}; }

// y = x, and at y[i, indices[i, j, k], k] combined with src[i, j, k] for axis 1: torch's scatter, scatter_add, scatter_reduce,
// put_along_axis. src and indices have one shape, of the rank of x and along the other axes at most its extents. include_self
// = false: x is left out where anything falls (not replace). f16 and bf16 are summed in f32 and rounded once, f32 and f64 in themselves.
// y may be x. Workspace: sums of x's shape (f16 and bf16: add, mean), counts (mean).
struct ScatterDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t axis = 0;
  Shape indices;
  ScatterKind reduce = ScatterKind::replace;
  bool include_self = true;
  double alpha = 1;
  DType index_dtype = DType::i64;
  OutOfRange out_of_range = OutOfRange::refuse;
  bool negative = false;
  static constexpr auto fields() {
    using D = ScatterDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x, src and y"), field("shape", &D::shape, "of x and y"), field("axis", &D::axis, "that is indexed"),
                      field("indices", &D::indices, "shape of the indices and of src"), field("reduce", &D::reduce, "how elements are combined"),
                      field("include_self", &D::include_self, "x takes part"), field("alpha", &D::alpha, "add: factor of src, an integer for integers"),
                      field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("out_of_range", &D::out_of_range, "what becomes of indices that are none"),
                      field("negative", &D::negative, "negative indices count from the end"));
  }
};
struct Scatter {
  static constexpr std::string_view name = "scatter", category = "index", summary = "y = x with src put or combined at one index per element along an axis";
  using Descriptor = ScatterDescriptor;
  struct Args {
    TensorView x, indices, src, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("indices", &Args::indices, Role::in), arg("src", &Args::src, Role::in), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Scatter>> kernels();
};
using ScatterPlan = Plan<Scatter>;
// dx and dsrc, each on request. replace: the gradient goes to what stayed. mean: dy / count. amax and amin: dy is split evenly among
// the equals, as torch; x, src and y are read. Others read none of them. Workspace: 8 bytes per element of x but for add.
struct ScatterBackward {
  static constexpr std::string_view name = "scatter_backward", category = "index", summary = "gradients of scatter";
  using Descriptor = ScatterDescriptor;
  using Args = WriteGradients<TensorView>;
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<ScatterBackward>> kernels();
};
using ScatterBackwardPlan = Plan<ScatterBackward>;

// y = x, and slices of it along `axes` combined with those of src, which has the shape that index gives: torch's index_put, with
// accumulate as reduce=add. Everything else as scatter.
struct IndexPutDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims axes = {0};
  Shape indices;
  ScatterKind reduce = ScatterKind::replace;
  bool include_self = true;
  double alpha = 1;
  DType index_dtype = DType::i64;
  OutOfRange out_of_range = OutOfRange::refuse;
  bool negative = false;
  Shape src_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    using D = IndexPutDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x, src and y"), field("shape", &D::shape, "of x and y"), field("axes", &D::axes, "that are indexed, ascending"),
                      field("indices", &D::indices, "shape that the indices broadcast to"), field("reduce", &D::reduce, "how elements are combined"),
                      field("include_self", &D::include_self, "x takes part"), field("alpha", &D::alpha, "add: factor of src, an integer for integers"),
                      field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("out_of_range", &D::out_of_range, "what becomes of indices that are none"),
                      field("negative", &D::negative, "negative indices count from the end"));
  }
};
struct IndexPut {
  static constexpr std::string_view name = "index_put", category = "index", summary = "y = x with slices put or combined at indices along axes";
  using Descriptor = IndexPutDescriptor;
  struct Args {
    TensorView x;
    IndexLists indices;
    TensorView src, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("indices", &Args::indices, Role::in, "one tensor per axis"), arg("src", &Args::src, Role::in),
                        arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<IndexPut>> kernels();
};
using IndexPutPlan = Plan<IndexPut>;
// As scatter_backward.
struct IndexPutBackward {
  static constexpr std::string_view name = "index_put_backward", category = "index", summary = "gradients of index_put";
  using Descriptor = IndexPutDescriptor;
  using Args = WriteGradients<IndexLists>;
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<IndexPutBackward>> kernels();
};
using IndexPutBackwardPlan = Plan<IndexPutBackward>;

// y = 1 where the index along `axis` of y, which has `classes` places, is that of the indices, else 0: torch's and jax's one_hot. fill: an
// index that is none gives zeros (jax); clip: the nearest class. Dtypes of y: those of Cast.
struct OneHotDescriptor {
  DType dtype = DType::i64;
  Shape shape;
  int64_t classes = 1;
  int64_t axis = -1;
  DType index_dtype = DType::i64;
  OutOfRange out_of_range = OutOfRange::refuse;
  bool negative = false;
  Shape y_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    using D = OneHotDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of y"), field("shape", &D::shape, "of the indices"), field("classes", &D::classes, "extent of y along axis"),
                      field("axis", &D::axis, "of y, where the classes stand"), field("index_dtype", &D::index_dtype, "i32 or i64"),
                      field("out_of_range", &D::out_of_range, "what becomes of indices that are none"),
                      field("negative", &D::negative, "negative indices count from the end"));
  }
};
struct OneHot {
  static constexpr std::string_view name = "one_hot", category = "index", summary = "y = 1 at one index along an axis, else 0";
  using Descriptor = OneHotDescriptor;
  struct Args {
    TensorView indices, y;
    static constexpr auto args() { return std::tuple(arg("indices", &Args::indices, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static DType aux_dtype(const Descriptor& d) { return d.index_dtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<OneHot>> kernels();
};
using OneHotPlan = Plan<OneHot>;

}  // namespace baracuda
