#pragma once
// Casts to codes that are no dtype, which lie in u8, and back: the powers of two that scale blocks, and values of four bits, two to a byte.
//
// Any strides, zero for inputs. Workspace: none. Guarantee: deterministic, batch invariant, the same bits everywhere.
#include <span>
#include "baracuda/core/plan.hpp"
#include "baracuda/ops/copy/cast_codes_format.hpp"

namespace baracuda {

// e8m0 (OCP Microscaling Formats v1.0, 2023): code c is 2^(c - 127), 255 is NaN; no sign, no zero. y = codes of x, rounded to
//   nearest  the nearest; a number in the middle, 1.5 2^k, to the larger: of one digit no neighbour is even (IEEE 754-2019, 4.3.1)
//   up       the least that is not below x
//   down     the largest that is not above x
// Below 2^-127, zeros too, 0; what is rounded beyond 2^127, and infinities, 255, with saturate 254. NaN and what is below 0 give 255.
// torch drops the sign instead, ml_dtypes makes zeros NaN. Dtypes of x: f16 bf16 f32 f64.
struct CastE8m0Descriptor {
  DType dtype = DType::f32;
  Shape shape;
  E8m0Rounding rounding = E8m0Rounding::nearest;
  bool saturate = false;
  static constexpr auto fields() {
    using D = CastE8m0Descriptor;
    return std::tuple(field("dtype", &D::dtype, "of x"), field("shape", &D::shape, "of both"), field("rounding", &D::rounding, "to a power of two"),
                      field("saturate", &D::saturate, "overflow gives 2^127"));
  }
};
struct CastE8m0 {
  static constexpr std::string_view name = "cast_e8m0", category = "copy", summary = "y = x as powers of two in eight bits";
  using Descriptor = CastE8m0Descriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out, "codes")); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<CastE8m0>> kernels();
};
using CastE8m0Plan = Plan<CastE8m0>;

// y = the powers of two of e8m0 codes x, then as Cast: f16 has 0 from 2^-25 down and infinity from 2^16 on. Dtypes of y: as above.
struct CastFromE8m0Descriptor {
  DType dtype = DType::f32;
  Shape shape;
  static constexpr auto fields() {
    using D = CastFromE8m0Descriptor;
    return std::tuple(field("dtype", &D::dtype, "of y"), field("shape", &D::shape, "of both"));
  }
};
struct CastFromE8m0 {
  static constexpr std::string_view name = "cast_from_e8m0", category = "copy", summary = "y = values of powers of two in eight bits";
  using Descriptor = CastFromE8m0Descriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in, "codes"), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<CastFromE8m0>> kernels();
};
using CastFromE8m0Plan = Plan<CastFromE8m0>;

// Four bits, two codes to a byte, the first of two in the low bits; values have `shape`, whose last extent is even, codes half of it.
//   e2m1   0 0.5 1 1.5 2 3 4 6 and the sign in bit 3; rounded once to nearest even; -0 stays, NaN is 0
//   int4   -8 to 7, two's complement; cut towards zero, NaN is 0
//   uint4  0 to 15; likewise
// Beyond its values each saturates, infinities too. Dtypes of values: f16 bf16 f32 f64 i8 u8. A scale per block: quantize_packed.
struct CastPackedDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  CodeFormat format = CodeFormat::e2m1;
  Shape codes_shape() const;  // of a valid descriptor
  static constexpr auto fields() {
    using D = CastPackedDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of values"), field("shape", &D::shape, "of values, rank >= 1"), field("format", &D::format, "of codes"));
  }
};
struct CastPacked {
  static constexpr std::string_view name = "cast_packed", category = "copy", summary = "y = x in four bits, two codes to a byte";
  using Descriptor = CastPackedDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out, "codes, two to a byte")); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<CastPacked>> kernels();
};
using CastPackedPlan = Plan<CastPacked>;

// y = the values of codes x, then as Cast: of i8 and u8 cut and saturated.
struct CastFromPacked {
  static constexpr std::string_view name = "cast_from_packed", category = "copy", summary = "y = values of four-bit codes";
  using Descriptor = CastPackedDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in, "codes, two to a byte"), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<CastFromPacked>> kernels();
};
using CastFromPackedPlan = Plan<CastFromPacked>;

}  // namespace baracuda
