#pragma once
// Gated activations: y = act(gate) * up, elementwise, and their gradients (Shazeer, "GLU Variants Improve Transformer",
// 2020). A packed [.., 2 n] tensor is served by two views of it. torch's glu(x) is gate = second half, up = first half.
// swiglu_clamped is gpt-oss' (2025): g = min(gate, limit), u = clamp(up, -limit, limit), y = g sigmoid(alpha g) (u + 1).
//
// Shapes: gate, up, y and their gradients all have `shape`; any strides, also zero for inputs. Dtypes: f16 bf16 f32 f64.
// In place: y may be gate or up, dgate and dup may be gate and up, where the strides are equal.
// Extremes: silu and sigmoid neither overflow nor lose the tail (exp(-|x|)); NaN in either input gives NaN.
// Numerics: computed in f32 (f64 for f64), rounded once. Workspace: none. Guarantee: deterministic, batch invariant.
#include <optional>
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class GatedKind : uint8_t {
  swiglu,      // silu(gate) * up
  geglu,       // gelu(gate) * up, gelu(x) = x Phi(x)
  geglu_tanh,  // the tanh approximation of gelu
  reglu,       // relu(gate) * up; the gradient at 0 is 0
  glu,         // sigmoid(gate) * up
  swiglu_clamped,  // of alpha and limit; gradients pass at the limit and stop beyond
};
constexpr std::array<std::string_view, 6> enum_names(GatedKind) { return {"swiglu", "geglu", "geglu_tanh", "reglu", "glu", "swiglu_clamped"}; }

struct GatedDescriptor {
  GatedKind kind = GatedKind::swiglu;
  DType dtype = DType::f32;
  Shape shape;
  std::optional<double> alpha, limit;  // of swiglu_clamped: finite, by default 1.702; > 0, by default 7, may be infinite
  double alpha_or_default() const { return alpha.value_or(1.702); }
  double limit_or_default() const { return limit.value_or(7); }
  static constexpr auto fields() {
    return std::tuple(field("kind", &GatedDescriptor::kind, "activation of the gate"),
                      field("dtype", &GatedDescriptor::dtype, "of every tensor but 8-bit codes and scales"),
                      field("shape", &GatedDescriptor::shape, "of every tensor"),
                      field("alpha", &GatedDescriptor::alpha, "factor within the sigmoid of swiglu_clamped, by default 1.702"),
                      field("limit", &GatedDescriptor::limit, "bound of gate and up in swiglu_clamped, by default 7"));
  }
};

// Of any op of the family.
Status validate_gated(std::string_view op, const GatedDescriptor&);

struct Gated {
  static constexpr std::string_view name = "gated", category = "gated", summary = "y = act(gate) * up";
  using Descriptor = GatedDescriptor;
  struct Args {
    TensorView gate, up, y;
    static constexpr auto args() {
      return std::tuple(arg("gate", &Args::gate, Role::in), arg("up", &Args::up, Role::in), arg("y", &Args::y, Role::out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && (in == "gate" || in == "up"); }
  static std::span<const Kernel<Gated>> kernels();
};
using GatedPlan = Plan<Gated>;

// dgate = dy * up * act'(gate), dup = dy * act(gate). Either output may be absent.
struct GatedBackward {
  static constexpr std::string_view name = "gated_backward", category = "gated", summary = "gradients of gated";
  using Descriptor = GatedDescriptor;
  struct Args {
    TensorView dy, gate, up, dgate, dup;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("gate", &Args::gate, Role::in), arg("up", &Args::up, Role::in),
                        arg("dgate", &Args::dgate, Role::optional_out), arg("dup", &Args::dup, Role::optional_out));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return in != "dy" && (out == "dgate" || out == "dup"); }
  static std::span<const Kernel<GatedBackward>> kernels();
};
using GatedBackwardPlan = Plan<GatedBackward>;

}  // namespace baracuda
