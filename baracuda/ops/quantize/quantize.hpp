#pragma once
// Affine quantisation to 8-bit codes, its inverse, both at once, and their gradients ("Quantization and Training of Neural
// Networks for Efficient Integer-Arithmetic-Only Inference", Jacob et al., 2018; "Learned Step Size Quantization", Esser et al., 2020):
//   quantize        y = clamp(rint(x / scale) + zero_point, qmin, qmax)      half to even, a true division
//   dequantize      y = (x - zero_point) scale                               x a code
//   fake_quantize   dequantize(quantize(x)), in one pass and rounded once
//   quantize_dynamic   as quantize, with a scale (and a zero point) made from x and written out
//
// One scale for (`by`) the tensor: scale has shape []; a channel: [shape[axis]]; a token, that is a row of the last axis: shape without
// it; a group of group_size neighbours of the last axis: shape with it divided by group_size. scale is f32 (f64 for f64), zero_point
// is i32 of the same shape. Without a zero_point tensor it is the descriptor's. By tensor, the scale may be the descriptor's too.
// Shapes: x, y, dy, dx have `shape` (by group: rank at most 7). Any strides, zero ones for inputs. Dtypes: values f16 bf16 f32 f64; codes i8
// or u8. In place: fake_quantize's y may be x, a gradient's dx may be dy or x of the same dtype (same strides).
// Values: x / scale beyond the codes saturates, infinities too; NaN gives the zero point. A zero point beyond [qmin, qmax] counts as
// the nearest of these. A host scale that is not finite and positive is refused; a scale in a tensor that is not makes codes the zero
// point, values 0 and gradients 0. Codes and values are never NaN (values may overflow to infinity in dtype).
// Numerics: f32 (f64 for f64), rounded once. Workspace: partial sums of the gradients; partial ranges of quantize_dynamic.
// Guarantee: deterministic; batch invariant (codes and values; dscale and dzero_point apart) unless quantize_dynamic makes one scale
// for several rows; the same bits for any strides, instruction set and number of threads.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class QuantizeBy : uint8_t { tensor, channel, token, group };
constexpr std::array<std::string_view, 4> enum_names(QuantizeBy) { return {"tensor", "channel", "token", "group"}; }

struct QuantizeDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  DType qdtype = DType::i8;
  QuantizeBy by = QuantizeBy::tensor;
  int64_t axis = 0;
  int64_t group_size = 0;
  std::optional<double> scale;
  int64_t zero_point = 0;
  std::optional<int64_t> qmin, qmax;
  double grad_factor = 1;
  static constexpr auto fields() {
    using D = QuantizeDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of values and gradients"), field("shape", &D::shape, "of values and codes"),
                      field("qdtype", &D::qdtype, "of codes: i8 or u8"), field("by", &D::by, "what shares a scale"),
                      field("axis", &D::axis, "of channels; negative counts from the end"), field("group_size", &D::group_size, "by group; divides the last extent"),
                      field("scale", &D::scale, "by tensor: known now, instead of the argument"),
                      field("zero_point", &D::zero_point, "a code; for every scale, unless the argument is given"),
                      field("qmin", &D::qmin, "least code, that of qdtype unless given"), field("qmax", &D::qmax, "greatest code, likewise"),
                      field("grad_factor", &D::grad_factor, "of dscale and dzero_point"));
  }
};

struct Quantize {
  static constexpr std::string_view name = "quantize", category = "quantize", summary = "y = clamp(rint(x / scale) + zero_point)";
  using Descriptor = QuantizeDescriptor;
  struct Args {
    TensorView x, scale, zero_point, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("scale", &Args::scale, Role::optional_in, "unless the descriptor has it"),
                        arg("zero_point", &Args::zero_point, Role::optional_in), arg("y", &Args::y, Role::out, "codes"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Quantize>> kernels();
};
using QuantizePlan = Plan<Quantize>;

struct Dequantize {
  static constexpr std::string_view name = "dequantize", category = "quantize", summary = "y = (x - zero_point) * scale";
  using Descriptor = QuantizeDescriptor;
  struct Args {
    TensorView x, scale, zero_point, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in, "codes"), arg("scale", &Args::scale, Role::optional_in, "unless the descriptor has it"),
                        arg("zero_point", &Args::zero_point, Role::optional_in), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Dequantize>> kernels();
};
using DequantizePlan = Plan<Dequantize>;

struct FakeQuantize {
  static constexpr std::string_view name = "fake_quantize", category = "quantize", summary = "y = dequantize(quantize(x))";
  using Descriptor = QuantizeDescriptor;
  struct Args {
    TensorView x, scale, zero_point, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("scale", &Args::scale, Role::optional_in, "unless the descriptor has it"),
                        arg("zero_point", &Args::zero_point, Role::optional_in), arg("y", &Args::y, Role::out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<FakeQuantize>> kernels();
};
using FakeQuantizePlan = Plan<FakeQuantize>;

// Gradients. The rounding counts as the identity and the clamp as itself: r = rint(x / scale) + zero_point passes where
// qmin <= r <= qmax, both bounds included. dscale and dzero_point, each optional, are sums over what shares a scale, of scale's dtype
// and shape, added in f64 in a fixed order, rounded, and times grad_factor (1 / sqrt(elements qmax) makes a step size learn: Esser et al.), which is
// finite. A NaN in x counts as a constant.
//   quantize        dx = dy / scale, inside            dscale = sum -dy x / scale^2, inside         dzero_point = sum dy, inside
//   dequantize      dx = dy scale                      dscale = sum dy (x - zero_point)             dzero_point = sum -dy scale
//   fake_quantize   dx = dy, inside                    dscale = sum dy (r - zero_point - x / scale) inside, dy (qmin - zero_point) below,
//                                                      dy (qmax - zero_point) above;                dzero_point = sum -dy scale, outside
// By token, dequantize_backward is dx[n, d] = scale[n] dy[n, d].
struct QuantizeBackward {
  static constexpr std::string_view name = "quantize_backward", category = "quantize", summary = "gradients of quantize, straight through";
  using Descriptor = QuantizeDescriptor;
  struct Args {
    TensorView dy, x, scale, zero_point, dx, dscale, dzero_point;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in, "of dtype"), arg("x", &Args::x, Role::in), arg("scale", &Args::scale, Role::optional_in, "unless the descriptor has it"),
                        arg("zero_point", &Args::zero_point, Role::optional_in), arg("dx", &Args::dx, Role::optional_out),
                        arg("dscale", &Args::dscale, Role::optional_out), arg("dzero_point", &Args::dzero_point, Role::optional_out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<QuantizeBackward>> kernels();
};
using QuantizeBackwardPlan = Plan<QuantizeBackward>;

struct DequantizeBackward {
  static constexpr std::string_view name = "dequantize_backward", category = "quantize", summary = "gradients of dequantize";
  using Descriptor = QuantizeDescriptor;
  struct Args {
    TensorView dy, x, scale, zero_point, dx, dscale, dzero_point;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::optional_in, "codes; only dscale needs them"),
                        arg("scale", &Args::scale, Role::optional_in, "unless the descriptor has it"),
                        arg("zero_point", &Args::zero_point, Role::optional_in), arg("dx", &Args::dx, Role::optional_out, "of dtype"),
                        arg("dscale", &Args::dscale, Role::optional_out), arg("dzero_point", &Args::dzero_point, Role::optional_out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<DequantizeBackward>> kernels();
};
using DequantizeBackwardPlan = Plan<DequantizeBackward>;

struct FakeQuantizeBackward {
  static constexpr std::string_view name = "fake_quantize_backward", category = "quantize", summary = "gradients of fake_quantize, straight through";
  using Descriptor = QuantizeDescriptor;
  using Args = QuantizeBackward::Args;
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<FakeQuantizeBackward>> kernels();
};
using FakeQuantizeBackwardPlan = Plan<FakeQuantizeBackward>;

// quantize_dynamic: the range of what shares a scale, over its finite elements, makes the scale.
//   absmax   scale = max |x| / (qmax - z), zero_point z = ceil((qmin + qmax) / 2): 0 for i8, 128 for u8
//   minmax   scale = (hi - lo) / (qmax - qmin), zero_point = clamp(qmin - rint(lo / scale)), lo = min(0, min x), hi = max(0, max x)
// The scale is at least the smallest normal number; where the range is empty or [0, 0] it is 1.
enum class QuantizeRange : uint8_t { absmax, minmax };
constexpr std::array<std::string_view, 2> enum_names(QuantizeRange) { return {"absmax", "minmax"}; }

struct QuantizeDynamicDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  DType qdtype = DType::i8;
  QuantizeBy by = QuantizeBy::token;
  int64_t axis = 0;
  int64_t group_size = 0;
  QuantizeRange range = QuantizeRange::absmax;
  std::optional<int64_t> qmin, qmax;
  static constexpr auto fields() {
    using D = QuantizeDynamicDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of values"), field("shape", &D::shape, "of values and codes"),
                      field("qdtype", &D::qdtype, "of codes: i8 or u8"), field("by", &D::by, "what shares a scale"),
                      field("axis", &D::axis, "of channels; negative counts from the end"), field("group_size", &D::group_size, "by group; divides the last extent"),
                      field("range", &D::range, "symmetric (absmax) or with a zero point (minmax)"),
                      field("qmin", &D::qmin, "least code, that of qdtype unless given"), field("qmax", &D::qmax, "greatest code, likewise"));
  }
};
struct QuantizeDynamic {
  static constexpr std::string_view name = "quantize_dynamic", category = "quantize", summary = "quantize with the scale of the data";
  using Descriptor = QuantizeDynamicDescriptor;
  struct Args {
    TensorView x, y, scale, zero_point;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out, "codes"), arg("scale", &Args::scale, Role::out),
                        arg("zero_point", &Args::zero_point, Role::optional_out, "required with minmax"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.qdtype; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<QuantizeDynamic>> kernels();
};
using QuantizeDynamicPlan = Plan<QuantizeDynamic>;

}  // namespace baracuda
