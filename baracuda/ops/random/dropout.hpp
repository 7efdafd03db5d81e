#pragma once
// Ops that keep or drop elements by a random word. Element i in row-major order depends on (seed, offset + i) alone: its word
// w is word e mod 4 of Philox block e / 4, e = offset + i (mod 2^64), for every dtype. So a tensor may be made in pieces, by
// any number of threads. Any strides, zero for inputs. Workspace: none. Guarantee: deterministic, batch invariant.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// y = 1 with probability p, else 0: 1 where w < 2^32 p, so p = 0 and p = 1 are exact. Dtypes: those of fill. p in [0, 1];
// with a tensor of probabilities (f32, of the shape, any strides) p is that of each element: below 0 counts as 0, above 1
// as 1, NaN as 0, for data cannot be refused.
struct BernoulliDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double p = 0.5;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &BernoulliDescriptor::dtype, "of y"), field("shape", &BernoulliDescriptor::shape, "of y"),
                      field("p", &BernoulliDescriptor::p, "probability of 1 where there is no tensor of them"));
  }
};
struct Bernoulli {
  static constexpr std::string_view name = "bernoulli", category = "random", summary = "y = 1 with probability p, else 0";
  using Descriptor = BernoulliDescriptor;
  struct Args {
    TensorView y;
    uint64_t seed = 0, offset = 0;
    TensorView probabilities = {};
    static constexpr auto args() {
      return std::tuple(arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value), arg("offset", &Args::offset, Role::value),
                        arg("probabilities", &Args::probabilities, Role::optional_in, "of each element"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "probabilities"; }
  static std::span<const Kernel<Bernoulli>> kernels();
};
using BernoulliPlan = Plan<Bernoulli>;

// y = x / (1 - p) where the element is kept (w >= 2^32 p), 0 where it is dropped, whatever x is there. p in [0, 1]: 0 gives
// x, 1 gives zeros. The factor 1 / (1 - p) is rounded to f32 (f64 for f64), the product once more. mask, when given, is
// true where kept (bool). y may be x (equal strides). Dtypes f16 bf16 f32 f64.
struct DropoutDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double p = 0.5;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &DropoutDescriptor::dtype, "of every tensor but the mask"),
                      field("shape", &DropoutDescriptor::shape, "of every tensor"), field("p", &DropoutDescriptor::p, "probability of being dropped"));
  }
};
struct Dropout {
  static constexpr std::string_view name = "dropout", category = "random", summary = "y = x / (1 - p) or 0 with probability p";
  using Descriptor = DropoutDescriptor;
  struct Args {
    TensorView x, y;
    uint64_t seed = 0, offset = 0;
    TensorView mask = {};
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value),
                        arg("offset", &Args::offset, Role::value), arg("mask", &Args::mask, Role::optional_out, "true where kept"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Dropout>> kernels();
};
using DropoutPlan = Plan<Dropout>;

// dx = dy / (1 - p) where the element was kept, else 0: drawn again from the seed and offset of the forward run, so nothing
// was saved. dx may be dy (equal strides).
struct DropoutBackward {
  static constexpr std::string_view name = "dropout_backward", category = "random", summary = "gradient of dropout";
  using Descriptor = DropoutDescriptor;
  struct Args {
    TensorView dy, dx;
    uint64_t seed = 0, offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("dx", &Args::dx, Role::out), arg("seed", &Args::seed, Role::value),
                        arg("offset", &Args::offset, Role::value));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<DropoutBackward>> kernels();
};
using DropoutBackwardPlan = Plan<DropoutBackward>;

}  // namespace baracuda
