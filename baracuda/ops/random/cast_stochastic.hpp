#pragma once
// y = x in a narrower float, rounded up or down by chance, so that what is lost is right on average. Element i in row-major order
// depends on x_i and (seed, offset + i) alone: its word w is word e mod 4 of Philox block e / 4, e = offset + i (mod 2^64), as in
// dropout.hpp. So a tensor may be cast in pieces, by any number of threads. Any strides, zero for x. Workspace: none. Guarantee:
// deterministic, batch invariant, the same bits everywhere.
//
// |x| lies the part f of the way from a value of `to` to the next larger one: y is that one where w >= 2^32 (1 - f), with the sign of x.
// f is cut to 32 bits, so that P(larger) = f and E(y) = x for f16, bf16 and f32 but below 2^-9 of the least value above 0; of f64, and there, P is
// less than 2^-32 short. What `to` holds stays, -0 too where there is one; NaN stays NaN. The value beyond the largest finite one is what Cast
// makes of an overflow, as far away as another value would be; with `saturate` it is the largest, for infinities too.
// Dtypes: f16 bf16 f32 f64 to f16 bf16 and the 8-bit floats. Source: Gupta et al., "Deep Learning with Limited Numerical Precision", 2015.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct CastStochasticDescriptor {
  DType dtype = DType::f32, to = DType::bf16;
  Shape shape;
  bool saturate = false;
  static constexpr auto fields() {
    using D = CastStochasticDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x"), field("to", &D::to, "dtype of y"), field("shape", &D::shape, "of both"),
                      field("saturate", &D::saturate, "overflow gives the largest finite value"));
  }
};
struct CastStochastic {
  static constexpr std::string_view name = "cast_stochastic", category = "random", summary = "y = x in a narrower float, rounded by chance";
  using Descriptor = CastStochasticDescriptor;
  struct Args {
    TensorView x, y;
    uint64_t seed = 0, offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value), arg("offset", &Args::offset, Role::value));
    }
  };
  static DType aux_dtype(const Descriptor& d) { return d.to; }
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::string refusal(const Descriptor&, const PlanPreference&);  // of every row
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<CastStochastic>> kernels();
};
using CastStochasticPlan = Plan<CastStochastic>;

}  // namespace baracuda
