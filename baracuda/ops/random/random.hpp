#pragma once
// Random numbers from Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// y has `shape`, any strides; dtypes f16 bf16 f32 f64. Element i in row-major order depends on (seed, offset + i) alone,
// so a tensor may be made in pieces, by any number of threads, and the halves are the rounded f32 values. seed and
// offset are arguments of the run; a caller who wants fresh numbers moves offset on by the number of elements.
// The counter is offset + i (mod 2^64) divided by the elements per block, the key is the seed: a block of four words
// makes four elements of f32, f16 or bf16, or two of f64. Bits are those of our own log, sqrt, sin and cos, the same
// for every instruction set. Workspace: none. Guarantee: deterministic, batch invariant.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

// Uniform in [lo, hi): lo and hi are rounded to the dtype first; hi itself is never drawn (hi = lo draws lo).
// 24 random bits per element, 53 for f64. lo and hi finite, lo <= hi, hi - lo finite in f32 (f64 for f64).
struct RandomUniformDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double lo = 0, hi = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandomUniformDescriptor::dtype, "of y"), field("shape", &RandomUniformDescriptor::shape, "of y"),
                      field("lo", &RandomUniformDescriptor::lo, "lowest value"),
                      field("hi", &RandomUniformDescriptor::hi, "upper bound, not drawn"));
  }
};
struct RandomUniform {
  static constexpr std::string_view name = "random_uniform", category = "random", summary = "y uniform in [lo, hi)";
  using Descriptor = RandomUniformDescriptor;
  struct Args {
    TensorView y;
    uint64_t seed = 0, offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value), arg("offset", &Args::offset, Role::value));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomUniform>> kernels();
};
using RandomUniformPlan = Plan<RandomUniform>;

// Normal with mean and std (finite, std >= 0) by Box and Muller (1958): two words make r = sqrt(-2 log u1) and an angle,
// elements 2k and 2k + 1 are r cos and r sin. |y - mean| <= 6.8 std, 8.6 std for f64.
struct RandomNormalDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double mean = 0, std = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandomNormalDescriptor::dtype, "of y"), field("shape", &RandomNormalDescriptor::shape, "of y"),
                      field("mean", &RandomNormalDescriptor::mean), field("std", &RandomNormalDescriptor::std, "standard deviation"));
  }
};
struct RandomNormal {
  static constexpr std::string_view name = "random_normal", category = "random", summary = "y normal with mean and std";
  using Descriptor = RandomNormalDescriptor;
  struct Args {
    TensorView y;
    uint64_t seed = 0, offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("y", &Args::y, Role::out), arg("seed", &Args::seed, Role::value), arg("offset", &Args::offset, Role::value));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomNormal>> kernels();
};
using RandomNormalPlan = Plan<RandomNormal>;

// -log(u) / rate, u in (0, 1] of 32 bits, 53 for f64; 0 is not drawn (below the subnormals y may round to it). rate finite, > 0.
struct RandomExponentialDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double rate = 1;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandomExponentialDescriptor::dtype, "of y"), field("shape", &RandomExponentialDescriptor::shape, "of y"), field("rate", &RandomExponentialDescriptor::rate, "> 0, of events"));
  }
};
struct RandomExponential {
  static constexpr std::string_view name = "random_exponential", category = "random", summary = "y exponential with rate";
  using Descriptor = RandomExponentialDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomExponential>> kernels();
};
using RandomExponentialPlan = Plan<RandomExponential>;

// loc - scale log(-log(u)), the same u: the noise whose largest sum with logits draws from their softmax. Always finite: -log(-log(u)) lies
// in [-3.2, 18.1], [-3.7, 37.5] for f64. loc finite, scale finite and > 0.
struct LocationScaleDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double loc = 0, scale = 1;
  static constexpr auto fields() {
    using D = LocationScaleDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of y"), field("shape", &D::shape, "of y"), field("loc", &D::loc, "mode"), field("scale", &D::scale, "> 0"));
  }
};
struct RandomGumbel {
  static constexpr std::string_view name = "random_gumbel", category = "random", summary = "y Gumbel with location and scale";
  using Descriptor = LocationScaleDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomGumbel>> kernels();
};
using RandomGumbelPlan = Plan<RandomGumbel>;

// loc + scale log(2 t) for u up to 1/2, else loc - scale log(2 t), t the distance of the same u to the nearer of 0 and 1. |y - loc| <= 18.1 scale, 37.5 for f64.
struct RandomLaplace {
  static constexpr std::string_view name = "random_laplace", category = "random", summary = "y Laplace with location and scale";
  using Descriptor = LocationScaleDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomLaplace>> kernels();
};
using RandomLaplacePlan = Plan<RandomLaplace>;
// loc - scale cot(pi t) for u up to 1/2, else loc + scale cot(pi t), t as for random_laplace. Halves may be infinite.
struct RandomCauchy {
  static constexpr std::string_view name = "random_cauchy", category = "random", summary = "y Cauchy with location and scale";
  using Descriptor = LocationScaleDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomCauchy>> kernels();
};
using RandomCauchyPlan = Plan<RandomCauchy>;
// loc - scale log((1 - t) / t) for u up to 1/2, else loc + scale log((1 - t) / t), t as for random_laplace.
struct RandomLogistic {
  static constexpr std::string_view name = "random_logistic", category = "random", summary = "y logistic with location and scale";
  using Descriptor = LocationScaleDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomLogistic>> kernels();
};
using RandomLogisticPlan = Plan<RandomLogistic>;

// Normal with mean and std (> 0) given that it lies in [lo, hi], both included: mean + std Phi^-1(Phi(a) + (Phi(b) - Phi(a)) u), a = (lo - mean) /
// std, b = (hi - mean) / std, of the same u; where a > 0 by way of [-b, -a], so that either tail is drawn with full precision. lo and hi may be
// infinite; lo < hi. Refused where the interval's probability is below the normal numbers of f32 (f64 for f64). y, rounded to the
// dtype, may lie beyond lo or hi by that rounding.
struct RandomTruncatedNormalDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  double mean = 0, std = 1, lo = -2, hi = 2;
  static constexpr auto fields() {
    using D = RandomTruncatedNormalDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of y"), field("shape", &D::shape, "of y"), field("mean", &D::mean, "before it is cut"),
                      field("std", &D::std, "> 0, before it is cut"), field("lo", &D::lo, "lower bound of y"), field("hi", &D::hi, "upper bound of y"));
  }
};
struct RandomTruncatedNormal {
  static constexpr std::string_view name = "random_truncated_normal", category = "random", summary = "y normal, cut to an interval";
  using Descriptor = RandomTruncatedNormalDescriptor;
  using Args = RandomUniform::Args;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomTruncatedNormal>> kernels();
};
using RandomTruncatedNormalPlan = Plan<RandomTruncatedNormal>;

}  // namespace baracuda
