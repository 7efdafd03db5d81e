#pragma once
// BatchNorm (Ioffe, Szegedy, "Batch Normalization", 2015): x is [N, C, *], any number of further axes. A channel is normalised over all
// samples and further axes, n elements:
//   xhat = (x - mean) rstd,   rstd = 1 / sqrt(var + eps),   y = xhat weight + bias
// BatchNorm (training): mean and var = mean((x - mean)^2) of the batch. Running statistics, where given, become
//   running = (1 - momentum) running + momentum batch,   the batch's variance times n / (n - 1), as PyTorch has it;
// momentum = 1 / k in the k-th batch makes them averages over all batches. BatchNormInference: mean and var are given.
// Shapes: x, y, dy, dx `shape`, rank 2 to 8; all others [C]. weight, bias, dweight, dbias may be absent (1 and 0). Dtypes f16 bf16 f32 f64;
// weight, bias, their gradients and the running statistics of weight_dtype, which is dtype or f32; mean and rstd f32 (f64 for f64).
// Strides: any, zero ones for inputs; fastest where * lies dense or the channels lie next to one another. Training refuses n = 1, which has
// no variance. Empty shapes are served: mean and rstd NaN, running statistics as they were, dweight and dbias 0. In place: y may be
// x, dx may be x or dy (same strides).
// Numerics: f32 (f64 for f64); sums of 1024 elements in the tree of host/row_sum.hpp, joined in f64. As exact for a large mean and for
// a variance out of range as LayerNorm. NaN or an infinity makes its channel NaN, with its running statistics; inference: its elements.
// Workspace: vectors of channels, and three f64 sums for every 1024 elements of a channel.
// Guarantee: deterministic, the same bits for any strides, instruction set and number of threads; the inference also batch invariant.
#include "baracuda/ops/norm/standardized.hpp"

namespace baracuda {

struct BatchNormDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double eps = 1e-5;
  std::optional<DType> weight_dtype;
  static constexpr auto fields() {
    using D = BatchNormDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "of x: samples, channels, and any further axes"),
                      field("eps", &D::eps, "added to the variance, finite and not negative"),
                      field("weight_dtype", &D::weight_dtype, "of weight, bias, their gradients and the running statistics: dtype (the default) or f32"));
  }
};

struct BatchNorm : Standardized<BatchNormDescriptor> {
  static constexpr std::string_view name = "batch_norm", summary = "y = (x - mean) / std * weight + bias over a batch";
  struct Args {
    TensorView x, weight, bias, running_mean, running_var, y, mean, rstd;
    double momentum = 0.1;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("weight", &Args::weight, Role::optional_in), arg("bias", &Args::bias, Role::optional_in),
                        arg("running_mean", &Args::running_mean, Role::optional_inout), arg("running_var", &Args::running_var, Role::optional_inout),
                        arg("y", &Args::y, Role::out), arg("mean", &Args::mean, Role::optional_out, "for the backward"),
                        arg("rstd", &Args::rstd, Role::optional_out, "for the backward"),
                        arg("momentum", &Args::momentum, Role::value, "weight of this batch in the running statistics, finite"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<BatchNorm>> kernels();
};
using BatchNormPlan = Plan<BatchNorm>;

// With g = dy weight:  dx = rstd (g - mean(g) - xhat mean(g xhat)),  means over the channel;  dweight = sum of dy xhat, dbias = sum of dy.
struct BatchNormBackward : Standardized<BatchNormDescriptor> {
  static constexpr std::string_view name = "batch_norm_backward", summary = "gradients of batch_norm";
  using Args = StandardizedBackwardArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<BatchNormBackward>> kernels();
};
using BatchNormBackwardPlan = Plan<BatchNormBackward>;

struct BatchNormInference : Standardized<BatchNormDescriptor> {
  static constexpr std::string_view name = "batch_norm_inference", summary = "y = (x - mean) / sqrt(var + eps) * weight + bias";
  struct Args {
    TensorView x, weight, bias, mean, var, y;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("weight", &Args::weight, Role::optional_in), arg("bias", &Args::bias, Role::optional_in),
                        arg("mean", &Args::mean, Role::in, "running_mean"), arg("var", &Args::var, Role::in, "running_var"),
                        arg("y", &Args::y, Role::out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<BatchNormInference>> kernels();
};
using BatchNormInferencePlan = Plan<BatchNormInference>;

// dx = dy weight rstd;  dweight = sum of dy xhat, dbias = sum of dy. mean and var are constants.
struct BatchNormInferenceBackward : Standardized<BatchNormDescriptor> {
  static constexpr std::string_view name = "batch_norm_inference_backward", summary = "gradients of batch_norm_inference";
  struct Args {
    TensorView dy, x, weight, mean, var, dx, dweight, dbias;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::optional_in, "for dweight"),
                        arg("weight", &Args::weight, Role::optional_in), arg("mean", &Args::mean, Role::in), arg("var", &Args::var, Role::in),
                        arg("dx", &Args::dx, Role::out), arg("dweight", &Args::dweight, Role::optional_out),
                        arg("dbias", &Args::dbias, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x"); }
  static std::span<const Kernel<BatchNormInferenceBackward>> kernels();
};
using BatchNormInferenceBackwardPlan = Plan<BatchNormInferenceBackward>;

}  // namespace baracuda
