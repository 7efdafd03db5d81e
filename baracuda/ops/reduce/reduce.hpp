#pragma once
// Reductions over any set of axes, with gradients, and the indices of extrema.
//
//   sum  mean  max  min  prod  norm2 = sqrt(sum x^2)  logsumexp = log(sum exp x)
//   var = sum (x - mean)^2 / (n - correction)   std = sqrt(var)      with the mean on request
//   any  all  count_nonzero                                           NaN is not zero
//   norm1 = sum |x|   norm_inf = max |x|   norm_neg_inf = min |x|   norm0 = count of x != 0, in x's dtype
//   norm_p = (sum |x|^p)^(1/p)   with the field p; 0, 1, 2 and the infinities are the kinds above
//   nansum  nanmean                                                   of the elements that are not NaN
//
// Shapes: x has `shape`, rank 0 to 8. `axes` lists the reduced axes, negative ones count from the end, none twice; an empty list
// means all. y, mean and indices have the shape without these axes, or with extent 1 there (keepdim). n is the number of elements
// of a row, the reduced elements in row-major order of the reduced axes. Strides: any, also zero and negative ones for inputs.
// Dtypes: f16 bf16 f32 f64 for every kind; integers and bool for sum, prod, max, min, any, all, count_nonzero, argmax, argmin.
// y's dtype: x's for floating dtypes, max and min; i64 (u64 for u64) for sum and prod of integers and bool; bool for any and all;
// i64 for count_nonzero. out_dtype asks for another one: a floating one no wider than the accumulator, for integer sums, products
// and counts any integer one, which wraps.
// Empty rows: sums and norms 0, means NaN, prod 1, logsumexp -inf, var and std NaN, any false, all true, count 0; extrema (norm_inf,
// norm_neg_inf and norm_p of a negative p too) and the index are refused. No rows: nothing is done.
// NaN: any NaN in a row gives NaN; its index is that of the first NaN. Ties: the index is the first one. var and std are NaN for n <= correction. logsumexp of infinities: -inf if all are
// -inf, inf if one is inf. nansum and nanmean do not see NaN: 0 and NaN where there is nothing else. A zero that an extremum gives is
// 0, whatever its sign. Integer sums and products wrap modulo 2^64.
// Numerics: sums and means of f16, bf16, f32 in f32 (f64 for f64), squares, powers, moments and products in f64, one rounding at the end. A sum
// runs in the tree of host/row_sum.hpp (64 lanes, chunks of 4096), its chunks are joined in pairs in f64. norm2 and norm_p do not leave the
// range when their result does not, nor does prod. logsumexp: blocks of 512 elements against the largest so far. var takes distances from an origin among the data (Chan, Golub, LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979, joins chunks).
// In place: not allowed. Workspace: states of chunks for rows longer than 4096, lanes for reductions down columns.
// Guarantee: deterministic, batch invariant; a row's bits depend neither on strides, threads nor instruction set.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class ReduceKind : uint8_t {
  sum, mean, max, min, prod, norm2, logsumexp, var, std, any, all, count_nonzero, norm1, norm_inf, norm_neg_inf, norm_p, norm0, nansum, nanmean
};
constexpr std::array<std::string_view, 19> enum_names(ReduceKind) {
  return {"sum", "mean", "max", "min", "prod", "norm2", "logsumexp", "var", "std", "any", "all", "count_nonzero", "norm1", "norm_inf", "norm_neg_inf",
          "norm_p", "norm0", "nansum", "nanmean"};
}
// Who gets the gradient of a max or min that several elements attain: all, in equal parts, or one of them.
enum class ReduceTies : uint8_t { split, first, last };
constexpr std::array<std::string_view, 3> enum_names(ReduceTies) { return {"split", "first", "last"}; }

struct ReduceDescriptor {
  ReduceKind kind = ReduceKind::sum;
  DType dtype = DType::f32;
  Shape shape;
  Dims axes;
  bool keepdim = false;
  double correction = 1;
  std::optional<DType> out_dtype;
  ReduceTies ties = ReduceTies::split;
  double p = 2;
  static constexpr auto fields() {
    using D = ReduceDescriptor;
    return std::tuple(field("kind", &D::kind, "what a row becomes"), field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of x"),
                      field("axes", &D::axes, "reduced axes, negative ones from the end; empty: all"),
                      field("keepdim", &D::keepdim, "reduced axes stay, with extent 1"),
                      field("correction", &D::correction, "var, std: taken from n in the divisor"),
                      field("out_dtype", &D::out_dtype, "of y and dy"),
                      field("ties", &D::ties, "max, min: who gets the gradient"), field("p", &D::p, "norm_p: the power, not NaN"));
  }
};
// The shape of y and dy; meaningful for valid descriptors.
Shape dy_shape(const ReduceDescriptor& d);
DType y_dtype(const ReduceDescriptor& d);

struct Reduce {
  static constexpr std::string_view name = "reduce", category = "reduce", summary = "sum, mean, extrema, norm, variance and the like over axes";
  using Descriptor = ReduceDescriptor;
  struct Args {
    TensorView x, y, mean;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out),
                        arg("mean", &Args::mean, Role::optional_out, "var, std: the mean, in the accumulator's dtype"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return y_dtype(d); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Reduce>> kernels();
};
using ReducePlan = Plan<Reduce>;

// What the gradient of a kind reads beside dy.
struct ReduceSaved { bool x, y; };
constexpr ReduceSaved reduce_saved(ReduceKind kind, ReduceTies ties = ReduceTies::split) {
  const bool extremum = kind == ReduceKind::max || kind == ReduceKind::min;
  const bool norm = kind == ReduceKind::norm2 || kind == ReduceKind::norm_inf || kind == ReduceKind::norm_neg_inf || kind == ReduceKind::norm_p;
  return {kind != ReduceKind::sum && kind != ReduceKind::mean && kind != ReduceKind::norm0,
          (extremum && ties == ReduceTies::split) || norm || kind == ReduceKind::logsumexp || kind == ReduceKind::std};
}

// The gradient of reduce, for floating dtypes and every kind but any, all and count_nonzero. dx and x have `shape`, dy and y the shape and dtype of y.
//   sum dy      mean dy / n      max, min dy where x == y, shared (ties)      prod dy times the product of the other elements
//   norm2 dy x / y, 0 for y = 0              logsumexp dy exp(x - y), 0 for y = -inf, shared among the infinite for y = inf
//   norm1 dy sign(x)   norm_inf, norm_neg_inf dy sign(x) where |x| == y, in equal parts   norm0 0
//   norm_p dy sign(x) (|x| / y)^(p - 1), 0 for x = 0 and for y = 0   nansum dy, nanmean dy / (count of numbers); 0 at NaN
//   var dy 2 (x - mean) / (n - correction)   std dy (x - mean) / (y (n - correction)), 0 for y = 0; NaN for n <= correction
// NaN shares max and min as equals do. The product of the others: zeros are exact, and mantissas and exponents are kept apart in f64, so that
// only the result can leave the range; the CPU never divides, CUDA divides mantissas. Second derivatives are not offered. y as saved: a half keeps 8 or 11 bits of it; ask for
// out_dtype f32 where that matters. mean may be left out: it is computed again, in f64. Workspace: up to four numbers a row and what the
// forward needs; prod: states of chunks and, down columns, 32 rows of a chunk for each thread. Guarantee: as reduce.
struct ReduceBackward {
  static constexpr std::string_view name = "reduce_backward", category = "reduce", summary = "gradient of reduce";
  using Descriptor = ReduceDescriptor;
  struct Args {
    TensorView dy, x, y, mean, dx;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::optional_in, "not for sum, mean and norm0"),
                        arg("y", &Args::y, Role::optional_in, "norm2, norm_inf, norm_neg_inf, norm_p, logsumexp, std; max and min that split ties"),
                        arg("mean", &Args::mean, Role::optional_in, "var, std: from the forward"), arg("dx", &Args::dx, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return y_dtype(d); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<ReduceBackward>> kernels();
};
using ReduceBackwardPlan = Plan<ReduceBackward>;

enum class ArgReduceKind : uint8_t { argmax, argmin };
constexpr std::array<std::string_view, 2> enum_names(ArgReduceKind) { return {"argmax", "argmin"}; }

struct ArgReduceDescriptor {
  ArgReduceKind kind = ArgReduceKind::argmax;
  DType dtype = DType::f32;
  Shape shape;
  std::optional<int64_t> axis;
  bool keepdim = false;
  static constexpr auto fields() {
    using D = ArgReduceDescriptor;
    return std::tuple(field("kind", &D::kind, "of the index"), field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of x"),
                      field("axis", &D::axis, "the index counts along it; none: over all elements in row-major order"),
                      field("keepdim", &D::keepdim, "reduced axes stay, with extent 1"));
  }
};
struct ArgReduce {
  static constexpr std::string_view name = "arg_reduce", category = "reduce", summary = "index of the largest or smallest element";
  using Descriptor = ArgReduceDescriptor;
  struct Args {
    TensorView x, indices, values;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("indices", &Args::indices, Role::out, "i64"),
                        arg("values", &Args::values, Role::optional_out, "x at the indices"));
    }
  };
  static DType aux_dtype(const Descriptor&) { return DType::i64; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<ArgReduce>> kernels();
};
using ArgReducePlan = Plan<ArgReduce>;

// The smallest and the largest element of every row in one pass: min and max as reduce gives them, all dtypes, the rules for axes,
// shapes, NaN and empty rows of max and min. The gradient is that of both, reduce_backward of max and of min added.
struct AminmaxDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  Dims axes;
  bool keepdim = false;
  static constexpr auto fields() {
    using D = AminmaxDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x, min and max"), field("shape", &D::shape, "of x"),
                      field("axes", &D::axes, "reduced axes, negative ones from the end; empty: all"),
                      field("keepdim", &D::keepdim, "reduced axes stay, with extent 1"));
  }
};
struct Aminmax {
  static constexpr std::string_view name = "aminmax", category = "reduce", summary = "smallest and largest element in one pass";
  using Descriptor = AminmaxDescriptor;
  struct Args {
    TensorView x, min, max;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("min", &Args::min, Role::out), arg("max", &Args::max, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Aminmax>> kernels();
};
using AminmaxPlan = Plan<Aminmax>;

// y = the sum of a diagonal, x[.., i, .., i + offset, ..] over i, as reduce sums it: x has `shape`, y the shape without axis1 and axis2.
// An offset beyond the matrix leaves nothing: 0. Dtypes, y's among them, accumulators and guarantee: those of reduce of kind sum.
struct TraceDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t offset = 0;
  int64_t axis1 = 0, axis2 = 1;
  std::optional<DType> out_dtype;
  static constexpr auto fields() {
    using D = TraceDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of x, rank 2 or more"),
                      field("offset", &D::offset, "column - row of the diagonal"), field("axis1", &D::axis1, "the rows; negative from the end"),
                      field("axis2", &D::axis2, "the columns; negative from the end"), field("out_dtype", &D::out_dtype, "of y and dy"));
  }
};
struct Trace {
  static constexpr std::string_view name = "trace", category = "reduce", summary = "sum of a diagonal";
  using Descriptor = TraceDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static DType aux_dtype(const Descriptor&);
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Trace>> kernels();
};
using TracePlan = Plan<Trace>;

// dx = dy on the diagonal, 0 elsewhere; floating dtypes.
struct TraceBackward {
  static constexpr std::string_view name = "trace_backward", category = "reduce", summary = "gradient of trace";
  using Descriptor = TraceDescriptor;
  struct Args {
    TensorView dy, dx;
    static constexpr auto args() { return std::tuple(arg("dy", &Args::dy, Role::in), arg("dx", &Args::dx, Role::out)); }
  };
  static DType aux_dtype(const Descriptor&);
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<TraceBackward>> kernels();
};
using TraceBackwardPlan = Plan<TraceBackward>;

}  // namespace baracuda
