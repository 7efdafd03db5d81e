#pragma once
// Moving elements: cast to another dtype, strided copy, fill.
//
// Shapes: x and y have `shape`; any strides, also negative; zero for inputs. Cast and copy may be in place where the
// element size, data and strides are equal.
// Workspace: none. Guarantee: deterministic, batch invariant, the same bits everywhere.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// y = x in another dtype. Dtypes: bool, i8 to i64, u8 to u64, f16 bf16 f32 f64, f8_e4m3fn f8_e5m2 f8_e4m3fnuz f8_e5m2fnuz, each
// to each.
//   float to float      rounded once to nearest even; overflow gives infinity, or NaN in a float without infinities (f8 but
//                       e5m2); NaN stays NaN, its payload may not; -0 stays where there is one (not in fnuz)
//   float to integer    cut towards zero; beyond the range the nearest value of it, infinities too; NaN gives 0
//   integer to integer  the low bits (wraps), as in C and torch
//   integer to float    rounded once to nearest even
//   saturate            to f16, bf16 and 8-bit floats: beyond the largest finite value that value, infinities too; NaN stays
//   to bool             whether it is not zero (NaN is not); bool is 0 or 1 otherwise
// torch leaves float to integer beyond the range open; in the range the results are torch's. saturate is that of ONNX's Cast and
// of NVIDIA's saturating conversions.
struct CastDescriptor {
  DType dtype = DType::f32, to = DType::f32;
  Shape shape;
  bool saturate = false;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &CastDescriptor::dtype, "of x"), field("to", &CastDescriptor::to, "dtype of y"),
                      field("shape", &CastDescriptor::shape, "of both"),
                      field("saturate", &CastDescriptor::saturate, "overflow gives the largest finite value"));
  }
};
struct Cast {
  static constexpr std::string_view name = "cast", category = "copy", summary = "y = x in another dtype";
  using Descriptor = CastDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static DType aux_dtype(const Descriptor& d) { return d.to; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Cast>> kernels();
};
using CastPlan = Plan<Cast>;

// y = x scale in another dtype, and the largest |x| in the same pass: what 8-bit training casts with and back. The product is
// rounded to f32, that to y by the rules of Cast; saturate says nothing where y is f32. amax is of x as it was, 0 of an empty
// x, NaN where x has one; being of all rows it makes the plan deterministic only, not batch invariant. Dtypes of x and y: f16 bf16 f32 and the 8-bit floats; scale and amax are one f32 each.
struct CastScaledDescriptor {
  DType dtype = DType::f32, to = DType::f8_e4m3fn;
  Shape shape;
  bool saturate = true;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &CastScaledDescriptor::dtype, "of x"), field("to", &CastScaledDescriptor::to, "dtype of y"),
                      field("shape", &CastScaledDescriptor::shape, "of both"),
                      field("saturate", &CastScaledDescriptor::saturate, "overflow gives the largest finite value"));
  }
};
struct CastScaled {
  static constexpr std::string_view name = "cast_scaled", category = "copy", summary = "y = x scale in another dtype, and the largest |x|";
  using Descriptor = CastScaledDescriptor;
  struct Args {
    TensorView x, scale, y, amax;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("scale", &Args::scale, Role::in, "one f32"), arg("y", &Args::y, Role::out),
                        arg("amax", &Args::amax, Role::optional_out, "one f32"));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.to; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<CastScaled>> kernels();
};
using CastScaledPlan = Plan<CastScaled>;

// y = x for any strides: dtypes of 1, 2, 4, 8 and 16 bytes, bits unchanged.
struct CopyDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &CopyDescriptor::dtype, "of both"), field("shape", &CopyDescriptor::shape, "of both"));
  }
};
struct Copy {
  static constexpr std::string_view name = "copy", category = "copy", summary = "y = x for any strides";
  using Descriptor = CopyDescriptor;
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Copy>> kernels();
};
using CopyPlan = Plan<Copy>;

// y = value everywhere; the value is cast from f64 by the rules of Cast. Dtypes as for Cast.
struct Fill {
  static constexpr std::string_view name = "fill", category = "copy", summary = "y = value";
  using Descriptor = CopyDescriptor;
  struct Args {
    TensorView y;
    double value = 0;
    static constexpr auto args() { return std::tuple(arg("y", &Args::y, Role::out), arg("value", &Args::value, Role::value)); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Fill>> kernels();
};
using FillPlan = Plan<Fill>;

}  // namespace baracuda
