#pragma once
// Elementwise ops of one, two and three tensors, and their gradients. A kind is one functor in the _math.hpp of its group and
// one name in elementwise_kinds.hpp; loops, strides, broadcasting, dtypes and the gradient check are the same for all.
//
// Dtypes: the descriptor's dtype is that of the operands, and of the result unless result_dtype says otherwise; `where` has a
// bool a and takes any dtype, and gradients exist for f16 bf16 f32 f64 c64 c128. f16 bf16 f32 f64 for every kind
// that is not bitwise; i8 to u64 for kinds that are exact on integers, bool for logic, comparisons, where, add (or), mul
// (and), maximum, minimum; c64 and c128 for the kinds of complex.md. select refuses the rest by name, and the gradient of a kind
// without one.
// Integers wrap. Division by zero does not trap: quotient -1 (all ones), remainder the dividend; min / -1 = min. Shifts by the
// width or more, or by a negative count, give 0 (-1 for a negative number to the right, 0 in shift_right_logical). pow with a
// negative exponent is cut to 0 unless |a| = 1.
// Strides: any, also negative; zero for inputs (broadcast views). Shapes broadcast as numpy does; gradients of broadcast
// operands are sums over the broadcast axes. In place: an output may be one of the inputs where data, strides and the size of
// an element are equal; a gradient only where no operand is broadcast, since sums take several passes.
// Numerics: computed in f32 (f64 for f64) and rounded once; error bounds per kind in elementwise.md. NaN in gives NaN out, also
// through relu, abs, clamp, sign, maximum and minimum (pow: IEEE, pow(NaN, 0) = pow(1, NaN) = 1; hypot(inf, NaN) = inf; step
// gives 0, nan_to_num alpha; fmax and fmin return the other operand; comparisons are false, ne true). Sums of broadcast
// gradients are kept in f64 and added in an order that depends on the shapes alone.
// Gradients at kinks: relu and abs 0 at 0; hardtanh, relu6, hardsigmoid 0 at their bounds, clamp and clamp_min pass there;
// maximum and minimum give half to each of two equal values, fmax and fmin the whole to the first; where one operand of
// maximum is NaN both get it; atan2, hypot and complex abs, angle and sgn 0 at the origin; pow does not move with a where b = 0, nor with b where a = 0
// and b >= 0; steps (floor, sign, div_trunc ...) 0.
// Workspace: none; for gradients of broadcast operands partial sums. Guarantee: deterministic, batch invariant (maps).
#include <optional>
#include <span>
#include "baracuda/core/plan.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"

namespace baracuda {

// What a gradient reads besides dy. Tensors that it does not read may be absent.
struct SavedTensors { bool x, y; };
SavedTensors saved_tensors(UnaryKind, DType = DType::f32);
struct SavedPair { bool a, b, y; };
SavedPair saved_for_da(BinaryKind, DType = DType::f32);
SavedPair saved_for_db(BinaryKind, DType = DType::f32);
struct SavedTriple { bool a, b, c, y; };
SavedTriple saved_for(TernaryKind, int operand);
// The dtype of y: bool for predicates, the real dtype for abs, angle, real and imag of complex numbers, the complex one for
// `complex` and `polar`, else the operands'.
DType result_dtype(UnaryKind, DType);
DType result_dtype(BinaryKind, DType);
// Whether the kind takes the dtype, and whether it has a gradient in it.
bool takes(UnaryKind, DType);
bool takes(BinaryKind, DType);
bool takes(TernaryKind, DType);
bool has_gradient(UnaryKind, DType);
bool has_gradient(BinaryKind, DType);
bool has_gradient(TernaryKind, DType);

// alpha, beta and gamma belong to the kinds that the page names them for; absent, they have the page's default; for other
// kinds they must be absent (or 1).
struct UnaryDescriptor {
  UnaryKind kind = UnaryKind::neg;
  DType dtype = DType::f32;
  Shape shape;
  std::optional<double> alpha, beta, gamma;
  static constexpr auto fields() {
    return std::tuple(field("kind", &UnaryDescriptor::kind, "function"), field("dtype", &UnaryDescriptor::dtype, "of x and dx"),
                      field("shape", &UnaryDescriptor::shape, "of every tensor"),
                      field("alpha", &UnaryDescriptor::alpha, "first parameter of the kind"),
                      field("beta", &UnaryDescriptor::beta, "second parameter of the kind"),
                      field("gamma", &UnaryDescriptor::gamma, "third parameter of the kind"));
  }
};
struct BinaryDescriptor {
  BinaryKind kind = BinaryKind::add;
  DType dtype = DType::f32;
  Shape a, b;
  std::optional<double> alpha, beta, gamma;
  static constexpr auto fields() {
    return std::tuple(field("kind", &BinaryDescriptor::kind, "function"), field("dtype", &BinaryDescriptor::dtype, "of the operands"),
                      field("a", &BinaryDescriptor::a, "shape of the first operand"),
                      field("b", &BinaryDescriptor::b, "shape of the second operand; y has their broadcast shape"),
                      field("alpha", &BinaryDescriptor::alpha, "first parameter of the kind"),
                      field("beta", &BinaryDescriptor::beta, "second parameter of the kind"),
                      field("gamma", &BinaryDescriptor::gamma, "third parameter of the kind"));
  }
};
struct TernaryDescriptor {
  TernaryKind kind = TernaryKind::where;
  DType dtype = DType::f32;
  Shape a, b, c;
  std::optional<double> alpha;
  static constexpr auto fields() {
    return std::tuple(field("kind", &TernaryDescriptor::kind, "function"),
                      field("dtype", &TernaryDescriptor::dtype, "of the operands; a of where is bool"),
                      field("a", &TernaryDescriptor::a, "shape of the first operand"),
                      field("b", &TernaryDescriptor::b, "shape of the second operand"),
                      field("c", &TernaryDescriptor::c, "shape of the third operand; y has their broadcast shape"),
                      field("alpha", &TernaryDescriptor::alpha, "factor of addcmul and addcdiv"));
  }
};
// The shape that a and b broadcast to; invalid_problem where an axis has two extents, neither of them 1.
Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b);
Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b, const Shape& c);

struct Unary {
  static constexpr std::string_view name = "unary", category = "elementwise", summary = "y = f(x)";
  using Descriptor = UnaryDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view, std::string_view) { return true; }
  static std::span<const Kernel<Unary>> kernels();
};
using UnaryPlan = Plan<Unary>;

// dx = dy f'(x), from x or y as saved_tensors(kind) says; of complex numbers dy conj(f'(x)), PyTorch's convention.
struct UnaryBackward {
  static constexpr std::string_view name = "unary_backward", category = "elementwise", summary = "gradient of unary";
  using Descriptor = UnaryDescriptor;
  struct Args {
    TensorView dy, x, y, dx;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::optional_in, "where the kind reads it"),
                        arg("y", &Args::y, Role::optional_in, "where the kind reads it"), arg("dx", &Args::dx, Role::out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view, std::string_view) { return true; }
  static std::span<const Kernel<UnaryBackward>> kernels();
};
using UnaryBackwardPlan = Plan<UnaryBackward>;

struct Binary {
  static constexpr std::string_view name = "binary", category = "elementwise", summary = "y = f(a, b)";
  using Descriptor = BinaryDescriptor;
  struct Args {
    TensorView a, b, y;
    static constexpr auto args() {
      return std::tuple(arg("a", &Args::a, Role::in), arg("b", &Args::b, Role::in), arg("y", &Args::y, Role::out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view, std::string_view) { return true; }
  static std::span<const Kernel<Binary>> kernels();
};
using BinaryPlan = Plan<Binary>;

// da = sum over the axes along which a was broadcast of dy df/da, and db likewise. Either may be absent.
struct BinaryBackward {
  static constexpr std::string_view name = "binary_backward", category = "elementwise", summary = "gradients of binary";
  using Descriptor = BinaryDescriptor;
  struct Args {
    TensorView dy, a, b, y, da, db;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("a", &Args::a, Role::optional_in, "where the kind reads it"),
                        arg("b", &Args::b, Role::optional_in, "where the kind reads it"),
                        arg("y", &Args::y, Role::optional_in, "where the kind reads it"), arg("da", &Args::da, Role::optional_out),
                        arg("db", &Args::db, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view, std::string_view) { return d.a == d.b; }
  static std::span<const Kernel<BinaryBackward>> kernels();
};
using BinaryBackwardPlan = Plan<BinaryBackward>;

struct Ternary {
  static constexpr std::string_view name = "ternary", category = "elementwise", summary = "y = f(a, b, c)";
  using Descriptor = TernaryDescriptor;
  struct Args {
    TensorView a, b, c, y;
    static constexpr auto args() {
      return std::tuple(arg("a", &Args::a, Role::in), arg("b", &Args::b, Role::in), arg("c", &Args::c, Role::in), arg("y", &Args::y, Role::out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view, std::string_view) { return true; }
  static std::span<const Kernel<Ternary>> kernels();
};
using TernaryPlan = Plan<Ternary>;

// The gradients of a, b and c, summed over the axes along which they were broadcast. Any may be absent; da of where must be.
struct TernaryBackward {
  static constexpr std::string_view name = "ternary_backward", category = "elementwise", summary = "gradients of ternary";
  using Descriptor = TernaryDescriptor;
  struct Args {
    TensorView dy, a, b, c, da, db, dc;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("a", &Args::a, Role::optional_in, "where the kind reads it"),
                        arg("b", &Args::b, Role::optional_in, "where the kind reads it"),
                        arg("c", &Args::c, Role::optional_in, "where the kind reads it"), arg("da", &Args::da, Role::optional_out),
                        arg("db", &Args::db, Role::optional_out), arg("dc", &Args::dc, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view, std::string_view) { return d.a == d.b && d.b == d.c; }
  static std::span<const Kernel<TernaryBackward>> kernels();
};
using TernaryBackwardPlan = Plan<TernaryBackward>;

}  // namespace baracuda
