#pragma once
// GroupNorm (Wu, He, "Group Normalization", 2018): x is [N, C, *], any number of further axes. The C channels are cut into `groups`
// neighbours, and every group of every sample, n = C / groups channels of it with all of *, is normalised by itself:
//   xhat = (x - mean) rstd,   rstd = 1 / sqrt(mean((x - mean)^2) + eps),   y = xhat weight + bias     weight and bias by channel
// InstanceNorm is groups = C, LayerNorm over all but the first axis (with a weight per channel) groups = 1.
// Shapes: x, y, dy, dx `shape`, rank 2 to 8; weight, bias, dweight, dbias [C], each may be absent (1 and 0); mean and rstd [N, groups], f32
// (f64 for f64). Dtypes f16 bf16 f32 f64; weight, bias and their gradients of weight_dtype, which is dtype or f32. Strides: any, zero
// ones for inputs; fastest where the elements of a group lie dense. Empty shapes are served: without samples or without elements
// the gradients of weight and bias are 0. In place: y may be x, dx may be x or dy (same strides).
// Numerics: f32 (f64 for f64); the sums of a chunk of 4096 elements in the tree of host/row_sum.hpp, chunks joined in f64. As exact
// for a large mean and for a variance out of range as LayerNorm. NaN or an infinity makes its group NaN.
// Workspace: weight and bias in the accumulator type; the backward adds two f64 numbers for every sample and channel.
// Guarantee: deterministic, batch invariant (y, mean, rstd, dx of a sample do not depend on other samples), the same bits for any
// strides, instruction set and number of threads. dweight and dbias sum the samples in order in f64.
#include "baracuda/ops/norm/standardized.hpp"

namespace baracuda {

struct GroupNormDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  int64_t groups = 1;
  double eps = 1e-5;
  std::optional<DType> weight_dtype;
  static constexpr auto fields() {
    using D = GroupNormDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of x: samples, channels, and any further axes"),
                      field("groups", &D::groups, "that the channels are cut into; must divide them"),
                      field("eps", &D::eps, "added to the variance, finite and not negative"),
                      field("weight_dtype", &D::weight_dtype, "of weight, bias and their gradients: dtype (the default) or f32"));
  }
};

struct GroupNorm : Standardized<GroupNormDescriptor> {
  static constexpr std::string_view name = "group_norm", summary = "y = (x - mean) / std * weight + bias over groups of channels";
  using Args = StandardizedArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<GroupNorm>> kernels();
};
using GroupNormPlan = Plan<GroupNorm>;

// With g = dy weight:  dx = rstd (g - mean(g) - xhat mean(g xhat)),  means over the group;  dweight = sum of dy xhat, dbias = sum of
// dy, over the samples and all elements of a channel.
struct GroupNormBackward : Standardized<GroupNormDescriptor> {
  static constexpr std::string_view name = "group_norm_backward", summary = "gradients of group_norm";
  using Args = StandardizedBackwardArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<GroupNormBackward>> kernels();
};
using GroupNormBackwardPlan = Plan<GroupNormBackward>;

}  // namespace baracuda
