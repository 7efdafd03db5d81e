#pragma once
// What LayerNorm, GroupNorm and BatchNorm have in common: their arguments.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

template <class D> struct Standardized {
  static constexpr std::string_view category = "norm";
  using Descriptor = D;
  static DType aux_dtype(const D& d) { return d.weight_dtype.value_or(d.dtype); }
};

struct StandardizedArgs {
  TensorView x, weight, bias, y, mean, rstd;
  static constexpr auto args() {
    using A = StandardizedArgs;
    return std::tuple(arg("x", &A::x, Role::in), arg("weight", &A::weight, Role::optional_in), arg("bias", &A::bias, Role::optional_in),
                      arg("y", &A::y, Role::out), arg("mean", &A::mean, Role::optional_out, "for the backward"),
                      arg("rstd", &A::rstd, Role::optional_out, "for the backward"));
  }
};
struct StandardizedBackwardArgs {
  TensorView dy, x, weight, mean, rstd, dx, dweight, dbias;
  static constexpr auto args() {
    using A = StandardizedBackwardArgs;
    return std::tuple(arg("dy", &A::dy, Role::in), arg("x", &A::x, Role::in), arg("weight", &A::weight, Role::optional_in),
                      arg("mean", &A::mean, Role::optional_in, "of the forward, with rstd; computed again when absent"),
                      arg("rstd", &A::rstd, Role::optional_in, "of the forward, with mean"), arg("dx", &A::dx, Role::out),
                      arg("dweight", &A::dweight, Role::optional_out), arg("dbias", &A::dbias, Role::optional_out));
  }
};

}  // namespace baracuda
