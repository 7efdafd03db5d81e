#pragma once
// Gated activations that leave as 8-bit floats, without a way through memory in between: v = act(gate) up of gated.hpp, y = v / scale in f8_e4m3fn.
//
// gate, up, y have `shape`, rank >= 1; any strides, also zero for inputs. Dtypes of gate and up: f16 bf16 f32.
// Numerics: v in f32 to 2^-17 of what it is, infinite gates give the limits; v times 1 / scale, made once, is rounded once to y, to nearest even. Beyond
// 448 y saturates, infinities too; NaN stays. A scale that is not finite and positive counts as infinite.
// Workspace: none. Guarantee: deterministic, batch invariant.
#include "baracuda/ops/gated/gated.hpp"

namespace baracuda {

// scale: one f32 for the tensor.
struct GatedQuantize {
  static constexpr std::string_view name = "gated_quantize", category = "gated", summary = "y = act(gate) * up / scale in 8 bits";
  using Descriptor = GatedDescriptor;
  struct Args {
    TensorView gate, up, scale, y;
    static constexpr auto args() {
      return std::tuple(arg("gate", &Args::gate, Role::in), arg("up", &Args::up, Role::in), arg("scale", &Args::scale, Role::in, "one f32"),
                        arg("y", &Args::y, Role::out, "f8_e4m3fn"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<GatedQuantize>> kernels();
};
using GatedQuantizePlan = Plan<GatedQuantize>;

// scale: made of each row of the last axis, f32 of the shape without it: the largest finite |v| / 448, at least the smallest normal number, 1 where
// the row has none or only zeros.
struct GatedQuantizeDynamic {
  static constexpr std::string_view name = "gated_quantize_dynamic", category = "gated", summary = "gated_quantize with the scale of each row";
  using Descriptor = GatedDescriptor;
  struct Args {
    TensorView gate, up, y, scale;
    static constexpr auto args() {
      return std::tuple(arg("gate", &Args::gate, Role::in), arg("up", &Args::up, Role::in), arg("y", &Args::y, Role::out, "f8_e4m3fn"),
                        arg("scale", &Args::scale, Role::out, "of each row"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<GatedQuantizeDynamic>> kernels();
};
using GatedQuantizeDynamicPlan = Plan<GatedQuantizeDynamic>;

}  // namespace baracuda
