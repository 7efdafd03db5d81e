#pragma once
// Tensors made from numbers; fill (of the copy family) makes constant ones.
//
// Dtypes: bool, i8 to i64, u8 to u64, f16 bf16 f32 f64. y has any strides. Every element is computed by itself, in f64 or, for
// integers, exactly; nothing accumulates. Workspace: none. Guarantee: deterministic, batch invariant, the same bits everywhere.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// y = start + step i, i the index along an axis; the other axes repeat it. With `shape` of rank 1 torch's and numpy's arange,
// with start 0 and step 1 lax.iota. Floats: one fma in f64, rounded once to the dtype. Integers: start and step must be
// integers below 2^63 in magnitude; results beyond the dtype keep their low bits. bool: not zero.
struct ArangeDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t axis = 0;
  double start = 0, step = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &ArangeDescriptor::dtype, "of y"), field("shape", &ArangeDescriptor::shape, "of y, rank >= 1"),
                      field("axis", &ArangeDescriptor::axis, "along which y counts"), field("start", &ArangeDescriptor::start, "first value"),
                      field("step", &ArangeDescriptor::step, "between neighbours"));
  }
};
struct Arange {
  static constexpr std::string_view name = "arange", category = "creation", summary = "y = start + step index along an axis";
  using Descriptor = ArangeDescriptor;
  struct Args {
    TensorView y;
    static constexpr auto args() { return std::tuple(arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Arange>> kernels();
};
using ArangePlan = Plan<Arange>;
// The number of values in [start, end): ceil((end - start) / step) in f64, as torch and numpy count them. Refused when step is
// 0 or leads away from end, or when a number is not finite.
Result<int64_t> arange_size(double start, double end, double step);

// y = n values from start to end, both exact (n = 1: start); endpoint = false: from start to one step before end, as numpy. base:
// y = base^value, torch's and numpy's logspace. Computed in f64 from the nearer end: start + i step in the first half,
// end - (n - 1 - i) step in the second, step = (end - start) / (n - 1), so the values of linspace(b, a) are those of
// linspace(a, b) backwards. Rounded once; integers are cut towards zero, as by Cast. geometric: a constant ratio between neighbours,
// numpy's geomspace; start and end, not 0 and of one sign, are exact, the others in f64 within (|log(end / start)| + 8) 2^-53 of themselves; no base.
struct LinspaceDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double start = 0, end = 1;
  bool endpoint = true;
  std::optional<double> base;
  bool geometric = false;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &LinspaceDescriptor::dtype, "of y"), field("shape", &LinspaceDescriptor::shape, "of y, rank 1"),
                      field("start", &LinspaceDescriptor::start, "first value"), field("end", &LinspaceDescriptor::end, "last value"),
                      field("endpoint", &LinspaceDescriptor::endpoint, "end is the last value; false: the one behind it"),
                      field("base", &LinspaceDescriptor::base, "> 0: base to the power of the values"),
                      field("geometric", &LinspaceDescriptor::geometric, "a constant ratio instead of a constant step"));
  }
};
struct Linspace {
  static constexpr std::string_view name = "linspace", category = "creation", summary = "y = evenly spaced values, or a power of them";
  using Descriptor = LinspaceDescriptor;
  using Args = Arange::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Linspace>> kernels();
};
using LinspacePlan = Plan<Linspace>;

// y = matrices (the last two axes) of ones and zeros: 1 where column - row = diagonal (eye), <= diagonal (lower, numpy's tri
// and the causal mask) or >= diagonal (upper).
enum class EyeKind : uint8_t { diagonal, lower, upper };
constexpr std::array<std::string_view, 3> enum_names(EyeKind) { return {"diagonal", "lower", "upper"}; }
struct EyeDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  EyeKind kind = EyeKind::diagonal;
  int64_t diagonal = 0;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &EyeDescriptor::dtype, "of y"), field("shape", &EyeDescriptor::shape, "of y, rank >= 2"),
                      field("kind", &EyeDescriptor::kind, "where the ones are"), field("diagonal", &EyeDescriptor::diagonal, "column - row"));
  }
};
struct Eye {
  static constexpr std::string_view name = "eye", category = "creation", summary = "y = ones on a diagonal or a triangle, zeros elsewhere";
  using Descriptor = EyeDescriptor;
  using Args = Arange::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Eye>> kernels();
};
using EyePlan = Plan<Eye>;

// y[0] and y[1] = the rows and the columns of the places of a matrix where eye has ones, in row-major order: torch's tril_indices and
// triu_indices, numpy's diag_indices. dtype i32 or i64, of which every index is one.
struct TriangleIndicesDescriptor {
  DType dtype = DType::i64;
  int64_t rows = 1, columns = 1;
  EyeKind kind = EyeKind::lower;
  int64_t diagonal = 0;
  Shape y_shape() const;  // of a valid descriptor: [2, places]
  static constexpr auto fields() {
    using D = TriangleIndicesDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of y: i32 or i64"), field("rows", &D::rows, "of the matrix"), field("columns", &D::columns, "of the matrix"),
                      field("kind", &D::kind, "which places"), field("diagonal", &D::diagonal, "column - row"));
  }
};
struct TriangleIndices {
  static constexpr std::string_view name = "triangle_indices", category = "creation", summary = "y = places of a diagonal or a triangle";
  using Descriptor = TriangleIndicesDescriptor;
  using Args = Arange::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<TriangleIndices>> kernels();
};
using TriangleIndicesPlan = Plan<TriangleIndices>;

}  // namespace baracuda
