#pragma once
// Softmax along one axis, its logarithm, and their gradients:
//   softmax        y = exp(x - m) / sum exp(x - m)            m the maximum along the axis
//   log_softmax    y = (x - m) - log sum exp(x - m)
//   softmin        softmax of -x
//   safe_softmax   softmax, but 0 along an axis whose elements are all -inf (torch's _safe_softmax)
// with scale x instead of x (scale: 1 / temperature), and -inf where a mask is given and false, whatever x is there.
//
// Shapes: all tensors have `shape`, rank 0 to 8 (rank 0 is an axis of one element); `axis` may be negative. Any strides, zero
// ones for inputs; empty shapes are served. Dtypes: x and dx f16 bf16 f32 f64; y and dy of out_dtype, which is dtype or a
// wider one of f32 and f64; then x is widened before anything is computed (torch's dtype=). mask: bool, of `shape`; strides of zero
// broadcast it. True takes part, as in torch.masked and JAX's where=; torch's _masked_softmax means the opposite.
// In place: y may be x, dx may be dy or y, where dtype and strides are equal.
// Extremes, along an axis: all -inf gives NaN (0 with safe_softmax), a +inf or a NaN gives NaN everywhere, as in torch; other
// -inf give 0 (log_softmax: -inf). Nothing overflows, and results below the normal range are kept.
// Numerics: f32 (f64 where out_dtype is f64), rounded once. Sums: host/row_sum.hpp's tree of 64 lanes and chunks of 4096 elements;
// every chunk has a maximum of its own, and chunks meet at the largest ("Online normalizer calculation for softmax", Milakov
// and Gimelshein, 2018).
// Workspace: at most 2 MiB for every thread (twice that for the gradient), and two numbers per 4096 elements of longer axes.
// Guarantee: deterministic, batch invariant; the same bits for any strides, instruction set and number of threads.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class SoftmaxKind : uint8_t { softmax, log_softmax, softmin, safe_softmax };
constexpr std::array<std::string_view, 4> enum_names(SoftmaxKind) { return {"softmax", "log_softmax", "softmin", "safe_softmax"}; }

struct SoftmaxDescriptor {
  SoftmaxKind kind = SoftmaxKind::softmax;
  DType dtype = DType::f32;
  Shape shape;
  int64_t axis = -1;
  std::optional<DType> out_dtype;
  double scale = 1;
  static constexpr auto fields() {
    using D = SoftmaxDescriptor;
    return std::tuple(field("kind", &D::kind), field("dtype", &D::dtype, "of x and dx"), field("shape", &D::shape, "of every tensor"),
                      field("axis", &D::axis, "that sums to one; negative counts from the end"),
                      field("out_dtype", &D::out_dtype, "of y and dy: dtype (the default), or a wider one of f32 and f64"),
                      field("scale", &D::scale, "of x, finite: 1 / temperature"));
  }
};

struct Softmax {
  static constexpr std::string_view name = "softmax", category = "softmax", summary = "y = exp(x) / sum exp(x) along an axis, or its logarithm";
  using Descriptor = SoftmaxDescriptor;
  struct Args {
    TensorView x, y, mask = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out), arg("mask", &Args::mask, Role::optional_in, "bool, true takes part"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.out_dtype.value_or(d.dtype); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return out == "y" && in == "x" && aux_dtype(d) == d.dtype; }
  static std::span<const Kernel<Softmax>> kernels();
};
using SoftmaxPlan = Plan<Softmax>;

// softmax, safe_softmax: dx = scale y (dy - sum dy y); softmin: the negative of it; log_softmax: dx = scale (dy - exp(y) sum dy). y is
// the output of the forward. With its mask, dy counts as 0 where that is false, and dx is 0 there.
struct SoftmaxBackward {
  static constexpr std::string_view name = "softmax_backward", category = "softmax", summary = "gradient of softmax";
  using Descriptor = SoftmaxDescriptor;
  struct Args {
    TensorView dy, y, dx, mask = {};
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("y", &Args::y, Role::in, "output of the forward"), arg("dx", &Args::dx, Role::out),
                        arg("mask", &Args::mask, Role::optional_in, "of the forward"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return Softmax::aux_dtype(d); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor& d, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "y") && aux_dtype(d) == d.dtype; }
  static std::span<const Kernel<SoftmaxBackward>> kernels();
};
using SoftmaxBackwardPlan = Plan<SoftmaxBackward>;

}  // namespace baracuda
