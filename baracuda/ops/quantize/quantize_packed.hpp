#pragma once
// Four-bit codes, two to a byte, in blocks of the last axis that have a scale each, and their inverse: weights of language models.
//
// x and y of values have `shape`, codes are u8 with half its last extent, scale has the last extent divided by the block. Any strides.
//   format  a code's value v                         block           scale            first of two codes  Source
//   nf4     the 16 quantiles of a normal number      64              f32: max |x|     high four bits      Dettmers et al., "QLoRA", 2023
//   mxfp4   e2m1: 0 0.5 1 1.5 2 3 4 6 and a sign     32              u8: 2^(s - 127)  low four bits       OCP Microscaling Formats, v1.0, 2023
//   nvfp4   e2m1                                     16              f8_e4m3fn, times g  low four bits       NVIDIA, "Pretraining LLMs with NVFP4", 2025
//   int4    code - zero point (8 unless given)       128             f32              low four bits
// block_size, where 0 is the one above; mxfp4 and nvfp4 have only that. It is even and divides the last extent. g: global_scale, one f32, 1 unless
// given. zero_point: i32 like scale, for dequantize_packed and int4.
// dequantize_packed: y = v scale (v scale g), in f32, rounded once to the dtype. A scale of NaN (mxfp4: 255) gives NaN.
// quantize_packed makes the scale from m, the largest magnitude of the block's finite elements: nf4 m; mxfp4 2^(floor(log2 m) - 2); nvfp4
// m / 6 / g, rounded to e4m3; int4 m / 7. Then the code is the nearest value to x / scale: nf4 the lower one of two, the others the even code;
// beyond the values it saturates. A block of zeros has scale 0 (mxfp4 2^-127) and codes of 0. NaN gives the code of 0, -0 keeps its sign in e2m1.
// The arithmetic is in f64. Dtypes of values f16 bf16 f32 f64. Workspace: none. Guarantee: deterministic, batch invariant, the same bits everywhere.
#include <span>
#include "baracuda/core/plan.hpp"
#include "baracuda/ops/quantize/quantize_format.hpp"

namespace baracuda {

struct QuantizePackedDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  PackedFormat format = PackedFormat::nf4;
  int64_t block_size = 0;
  int64_t block() const;        // elements that share a scale
  DType scale_dtype() const;
  bool high_first() const;      // the first of two codes is the byte's high four bits
  Shape codes_shape() const;    // of a valid descriptor, as the next
  Shape scale_shape() const;
  static constexpr auto fields() {
    using D = QuantizePackedDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of values"), field("shape", &D::shape, "of values, rank >= 1"), field("format", &D::format, "of codes and scales"),
                      field("block_size", &D::block_size, "that share a scale; 0: the format's"));
  }
};
struct QuantizePacked {
  static constexpr std::string_view name = "quantize_packed", category = "quantize", summary = "y = four-bit codes and a scale per block";
  using Descriptor = QuantizePackedDescriptor;
  struct Args {
    TensorView x, y, scale;
    TensorView global_scale = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out, "codes, two to a byte"), arg("scale", &Args::scale, Role::out),
                        arg("global_scale", &Args::global_scale, Role::optional_in, "nvfp4"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<QuantizePacked>> kernels();
};
using QuantizePackedPlan = Plan<QuantizePacked>;
struct DequantizePacked {
  static constexpr std::string_view name = "dequantize_packed", category = "quantize", summary = "y = values of four-bit codes times their block's scale";
  using Descriptor = QuantizePackedDescriptor;
  struct Args {
    TensorView x, scale, y;
    TensorView global_scale = {}, zero_point = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in, "codes, two to a byte"), arg("scale", &Args::scale, Role::in), arg("y", &Args::y, Role::out),
                        arg("global_scale", &Args::global_scale, Role::optional_in, "nvfp4"), arg("zero_point", &Args::zero_point, Role::optional_in, "int4"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<DequantizePacked>> kernels();
};
using DequantizePackedPlan = Plan<DequantizePacked>;

}  // namespace baracuda
