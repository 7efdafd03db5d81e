#pragma once
// LayerNorm (Ba, Kiros, Hinton, "Layer Normalization", 2016) over the last `axes` axes, n elements:
//   xhat = (x - mean) rstd,   rstd = 1 / sqrt(mean((x - mean)^2) + eps),   y = xhat weight + bias
// Shapes: x, y, dy, dx `shape`, rank 1 to 8; weight, bias, dweight, dbias the last `axes` axes of it, each may be absent (1 and 0);
// mean and rstd the other axes, f32 (f64 for f64). Dtypes f16 bf16 f32 f64; weight, bias and their gradients of weight_dtype, which
// is dtype or f32, and dense. Strides: the normalised axes dense, the others any, also zero and negative. Empty shapes are served:
// without rows the gradients of weight and bias are 0. In place: y may be x, dx may be x or dy (same strides).
// Numerics: f32 (f64 for f64), sums of a chunk of 4096 elements in the tree of host/row_sum.hpp, chunks joined in f64. What the
// mean's rounding loses is summed again and
// taken off, so a large mean costs no accuracy; a variance out of range is made again in f64 (f64: scaled), so that it neither
// overflows nor vanishes. NaN or an infinity makes its row NaN.
// Workspace: weight and bias in the accumulator type; the backward adds partial sums, at most 2^18 (or n) each.
// Guarantee: deterministic, batch invariant (y, mean, rstd, dx of a row do not depend on other rows), the same bits for any
// instruction set. dweight and dbias sum fixed blocks of rows in order, then the blocks in order in f64.
#include "baracuda/ops/norm/standardized.hpp"

namespace baracuda {

struct LayerNormDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int axes = 1;
  double eps = 1e-5;
  std::optional<DType> weight_dtype;
  static constexpr auto fields() {
    using D = LayerNormDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of x"),
                      field("axes", &D::axes, "how many of the last axes are normalised together"),
                      field("eps", &D::eps, "added to the variance, finite and not negative"),
                      field("weight_dtype", &D::weight_dtype, "of weight, bias and their gradients: dtype (the default) or f32"));
  }
};

struct LayerNorm : Standardized<LayerNormDescriptor> {
  static constexpr std::string_view name = "layer_norm", summary = "y = (x - mean) / std * weight + bias";
  using Args = StandardizedArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<LayerNorm>> kernels();
};
using LayerNormPlan = Plan<LayerNorm>;

// With g = dy weight:  dx = rstd (g - mean(g) - xhat mean(g xhat)),  dweight = sum over rows of dy xhat,  dbias = sum of dy.
struct LayerNormBackward : Standardized<LayerNormDescriptor> {
  static constexpr std::string_view name = "layer_norm_backward", summary = "gradients of layer_norm";
  using Args = StandardizedBackwardArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<LayerNormBackward>> kernels();
};
using LayerNormBackwardPlan = Plan<LayerNormBackward>;

}  // namespace baracuda
