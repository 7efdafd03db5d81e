#pragma once
// Normalisation of rows. RmsNorm (Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019), with an optional
// residual added first:
//   h = x + residual                                   (rounded to dtype; h = x without a residual)
//   y = h rstd w',   rstd = 1 / sqrt(mean(h^2) + eps)   over the last axis, n elements
// w' is w, 1 + w (Gemma) or 1. `cast` says where halves are rounded: `end` keeps f32 throughout and rounds y once;
// `before_weight` rounds h rstd to dtype first and the product again (Llama).
//
// Shapes: x, residual, residual_out, y, dy, dx and so on have `shape`, rank 1 to 8; weight and dweight [n]; rstd the
// shape without its last axis, f32 (f64 for f64). Dtypes f16 bf16 f32 f64; weight and dweight are of weight_dtype, which
// is dtype or f32. Strides: the last axis dense, the others any, also zero and negative; weight any. Empty shapes are
// served; with no rows dweight is 0.
// In place: y may be x or residual, residual_out may be x or residual, dx may be any of the backward's inputs of that
// shape (same strides); y and residual_out must differ.
// Numerics: f32 throughout (f64 for f64). A row's sums add eight products in f32 per lane, fold the lanes, and go on in f64,
// so length costs no accuracy; a sum of squares out of f32's range is made again in f64 (out of f64's: scaled), so it neither
// overflows nor vanishes. rstd is infinite only with eps = 0 and an rms below 2^-128 (2^-1024 for f64). NaN in a row makes
// that row NaN; beside an infinity, which becomes NaN, finite elements give 0, as the formula says; a zero row with eps = 0 is NaN.
// Workspace: w' in the accumulator type; the backward adds partial sums of dweight, at most 2^18 of them (or n).
// Guarantee: deterministic, batch invariant (y, rstd, dx of a row do not depend on other rows), same bits for any
// instruction set. dweight sums fixed blocks of rows in order, then the blocks in order in f64.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class NormWeight : uint8_t { none, plain, one_plus };
constexpr std::array<std::string_view, 3> enum_names(NormWeight) { return {"none", "plain", "one_plus"}; }
enum class NormCast : uint8_t { end, before_weight };
constexpr std::array<std::string_view, 2> enum_names(NormCast) { return {"end", "before_weight"}; }

struct RmsNormDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double eps = 1e-6;
  NormWeight weight = NormWeight::plain;
  std::optional<DType> weight_dtype;
  NormCast cast = NormCast::end;
  static constexpr auto fields() {
    using D = RmsNormDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x, residual and y"), field("shape", &D::shape, "of x; the last axis is normalised"),
                      field("eps", &D::eps, "added to the mean of squares, finite and not negative"),
                      field("weight", &D::weight, "none, w, or 1 + w"), field("weight_dtype", &D::weight_dtype, "of weight and dweight: dtype (the default) or f32"),
                      field("cast", &D::cast, "where a half is rounded: at the end, or also before the weight"));
  }
};

struct RmsNorm {
  static constexpr std::string_view name = "rms_norm", category = "norm", summary = "y = (x + residual) / rms(x + residual) * weight";
  using Descriptor = RmsNormDescriptor;
  struct Args {
    TensorView x, weight, residual, y, residual_out, rstd;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("weight", &Args::weight, Role::optional_in, "absent exactly when weight = none"),
                        arg("residual", &Args::residual, Role::optional_in), arg("y", &Args::y, Role::out),
                        arg("residual_out", &Args::residual_out, Role::optional_out, "h; only with a residual"),
                        arg("rstd", &Args::rstd, Role::optional_out, "for the backward"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.weight == NormWeight::none ? d.dtype : d.weight_dtype.value_or(d.dtype); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return (out == "y" || out == "residual_out") && (in == "x" || in == "residual"); }
  static std::span<const Kernel<RmsNorm>> kernels();
};
using RmsNormPlan = Plan<RmsNorm>;

// With g = dy w' and xhat = x rstd:  dx = rstd (g - xhat mean(g xhat)) + dresidual_out,  dweight = sum over rows of dy xhat.
// x is what was normalised: after a fused add that is residual_out, and dx is the gradient of both summands. Roundings
// count as the identity, except that with cast = before_weight dweight uses the rounded xhat that the weight met.
struct RmsNormBackward {
  static constexpr std::string_view name = "rms_norm_backward", category = "norm", summary = "gradients of rms_norm";
  using Descriptor = RmsNormDescriptor;
  struct Args {
    TensorView dy, x, weight, rstd, dresidual_out, dx, dweight;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("x", &Args::x, Role::in),
                        arg("weight", &Args::weight, Role::optional_in, "absent exactly when weight = none"),
                        arg("rstd", &Args::rstd, Role::optional_in, "of the forward; computed again when absent"),
                        arg("dresidual_out", &Args::dresidual_out, Role::optional_in, "incoming gradient of residual_out"),
                        arg("dx", &Args::dx, Role::out), arg("dweight", &Args::dweight, Role::optional_out));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return RmsNorm::aux_dtype(d); }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && (in == "dy" || in == "x" || in == "dresidual_out"); }
  static std::span<const Kernel<RmsNormBackward>> kernels();
};
using RmsNormBackwardPlan = Plan<RmsNormBackward>;

}  // namespace baracuda
