#pragma once
// Elementwise ops of one and of two tensors, and their gradients. A kind is one functor in elementwise_math.hpp and one
// name in the lists below; loops, strides, broadcasting, dtypes and the gradient check are the same for all.
//
// Dtypes: f16 bf16 f32 f64, the same for every tensor. Strides: any, also negative; zero for inputs (broadcast views).
// Binary broadcasts its two shapes as numpy does; gradients of broadcast operands are sums over the broadcast axes.
// In place: an output may be one of the inputs where data and strides are equal (unary, and binary of equal shapes);
// any other overlap of dense tensors is refused.
// Numerics: computed in f32 (f64 for f64) and rounded once; error bounds per kind in elementwise.md. NaN in gives NaN
// out, also through relu, abs, maximum and minimum (pow: IEEE, pow(NaN, 0) = pow(1, NaN) = 1). Sums of broadcast
// gradients are kept in f64 and added in an order that depends on the shapes alone.
// Gradients at kinks: relu 0 at 0, abs 0 at 0; maximum and minimum give half to each of two equal values, and the whole
// to both where one is NaN; pow does not move with a where b = 0, nor with b where a = 0 and b >= 0.
// Workspace: none; for gradients of broadcast operands partial sums. Guarantee: deterministic, batch invariant (maps).
#include <span>
#include "baracuda/core/plan.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"

namespace baracuda {

// What a gradient reads besides dy. Tensors that it does not read may be absent.
struct SavedTensors { bool x, y; };
SavedTensors saved_tensors(UnaryKind);
struct SavedPair { bool a, b, y; };
SavedPair saved_for_da(BinaryKind);
SavedPair saved_for_db(BinaryKind);

// alpha and beta belong to the kinds that name them above; for the others they must stay 1.
struct UnaryDescriptor {
  UnaryKind kind = UnaryKind::neg;
  DType dtype = DType::f32;
  Shape shape;
  double alpha = 1, beta = 1;
  static constexpr auto fields() {
    return std::tuple(field("kind", &UnaryDescriptor::kind, "function"), field("dtype", &UnaryDescriptor::dtype, "of every tensor"),
                      field("shape", &UnaryDescriptor::shape, "of every tensor"),
                      field("alpha", &UnaryDescriptor::alpha, "first parameter of the kind"),
                      field("beta", &UnaryDescriptor::beta, "second parameter of the kind"));
  }
};
struct BinaryDescriptor {
  BinaryKind kind = BinaryKind::add;
  DType dtype = DType::f32;
  Shape a, b;
  double alpha = 1, beta = 1;
  static constexpr auto fields() {
    return std::tuple(field("kind", &BinaryDescriptor::kind, "function"), field("dtype", &BinaryDescriptor::dtype, "of every tensor"),
                      field("a", &BinaryDescriptor::a, "shape of the first operand"),
                      field("b", &BinaryDescriptor::b, "shape of the second operand; y has their broadcast shape"),
                      field("alpha", &BinaryDescriptor::alpha, "first parameter of the kind"),
                      field("beta", &BinaryDescriptor::beta, "second parameter of the kind"));
  }
};
// The shape that a and b broadcast to; invalid_problem where an axis has two extents, neither of them 1.
Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

struct Unary {
  static constexpr std::string_view name = "unary", category = "elementwise", summary = "y = f(x)";
  using Descriptor = UnaryDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Unary>> kernels();
};
using UnaryPlan = Plan<Unary>;

// dx = dy f'(x), from x or y as saved_tensors(kind) says.
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
  static std::span<const Kernel<BinaryBackward>> kernels();
};
using BinaryBackwardPlan = Plan<BinaryBackward>;

}  // namespace baracuda
