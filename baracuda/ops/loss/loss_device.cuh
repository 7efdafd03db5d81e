#pragma once
// What the kernels of the losses share: what they read of a token, and the exp of a row's elements.
#include "baracuda/device/half.cuh"
#include "baracuda/device/rows.cuh"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/loss/loss_cuda.hpp"
#include "baracuda/ops/loss/loss_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace loss_device {

constexpr int64_t kIgnored = -1, kInvalid = -2;
__device__ __forceinline__ int64_t target_of(const LossCudaTokens& t, int64_t token) {
  const int64_t at = t.target.at(token);
  const int64_t v = t.target_i32 ? int64_t(static_cast<const int32_t*>(t.target.data)[at]) : static_cast<const int64_t*>(t.target.data)[at];
  if (v == t.ignore_index) return kIgnored;
  if (v >= 0 && v < t.classes) return v;
  return t.invalid_is_zero ? kIgnored : kInvalid;
}
// Rows that are there of `most` from `first` on, and with those of zeros.
struct RowsLeft {
  int64_t some, all;
  __device__ __forceinline__ RowsLeft(const LossKept& k, int64_t first, int64_t most) : some(most), all(most) {
    if (!k.of) return;
    const int64_t left = *k.count - first;
    some = left < 0 ? 0 : left < most ? left : most;
    const int64_t up = (some + kKeptRows - 1) / kKeptRows * kKeptRows;
    all = up < most ? up : most;
  }
};
__device__ __forceinline__ int64_t token_of(const LossKept& k, int64_t i) { return k.of ? k.of[i] : i; }
template <class A> __device__ double read(const DeviceVector& v, int64_t i, double absent) {
  return v.data ? double(static_cast<const A*>(v.data)[v.at(i)]) : absent;
}

// 2^x by the processor, within 2^-22; a subnormal result is 0.
__device__ __forceinline__ float power_of_two_flushed(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return __builtin_exp2f(x);
#endif
}
inline constexpr float kLog2EOfRow = 0x1.715476p0f;
// exp(d), d = x - max of a sum that has a 1: f32 within 2^-22 + 2^-24 |d|, which is what the rounding of d costs, and what is lost
// below 2^-126 does not show. f64: times 2^54, which kTermDown undoes.
template <class A> inline constexpr double kTermDown = sizeof(A) == 8 ? kDown<Pack<A, 1>> : 1;
template <class A> __device__ __forceinline__ A term(A d) {
  if constexpr (sizeof(A) == 8) return exp_up(Pack<A, 1>::of(d)).v;
  else return power_of_two_flushed(d * kLog2EOfRow);
}
// factor exp(d) + uniform, a gradient that is stored as U: as short as the rounding to U allows.
template <class U, class A> struct RowSlope {
  using V = Pack<A, 1>;
  A factor, uniform;
  RowSlope() = default;
  __device__ __forceinline__ RowSlope(double per_exp, double minus) : factor(A(per_exp * (kIsHalf<U> ? kDown<V> : 1))), uniform(A(-minus)) {}
  __device__ __forceinline__ A operator()(A d) const {
    if constexpr (kIsHalf<U>) return __builtin_fmaf(factor, power_of_two_flushed(__builtin_fmaf(d, kLog2EOfRow, float(kUp<V>))), uniform);
    else return fma(V::of(factor), exp_up(V::of(d)) * kDown<V>, V::of(uniform)).v;
  }
};


// A cap in short: c tanh(x / c) = c - 2 c / (1 + exp(2 x / c)), within 2^-21 of c, and its derivative from its value.
struct Cap {
  float c, twice, per;
  __device__ __forceinline__ explicit Cap(double cap) : c(float(cap)), twice(float(-2 * cap)), per(cap > 0 ? float(1 / cap) : 0) {}
  __device__ __forceinline__ float operator()(float x) const {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + power_of_two_flushed(x * (2 * kLog2EOfRow * per))));
    return __builtin_fmaf(twice, r, c);
  }
  __device__ __forceinline__ float slope(float capped) const { return __builtin_fmaf(-(capped * per), capped * per, 1.f); }
};

// What is known of a row before its gradient: the gradient that arrives at its loss, weight included, and what follows with the sum of exp(x - most).
__device__ __forceinline__ double upstream(const LossCudaTokens& t, int64_t token) {
  return read<float>(t.weights, token, 1) * (read<float>(t.dloss, t.per_token ? token : 0, 1) * t.scale) * *t.factor;
}
__device__ __forceinline__ loss::RowGradient gradient_of(const LossCudaTokens& t, double g, double exps, float most, double smoothing, double z) {
  const double lse = z == 0 ? 0 : double(most) + log(Pack<double, 1>(exps)).v;
  return loss::row_gradient(g, exps, lse, double(t.classes), smoothing, z);
}
// At the target.
__device__ __forceinline__ double at_target_of(const loss::RowGradient& k, float x, float most) {
  return k.per_exp * double(exp(Pack<float, 1>::of(x) - Pack<float, 1>::of(most)).v) - k.uniform - k.hit;
}
// The loss of a row, and its part of the z term, both weighted. total: of x - most.
struct RowLoss { double loss, z, lse; };
__device__ __forceinline__ RowLoss loss_of(const LossCudaTokens& t, int64_t token, double exps, float most, float at_target, double total, double smoothing, double z) {
  using Double = Pack<double, 1>;
  const double m = double(most), w = read<float>(t.weights, token, 1);
  const Double log_sum = log(Double(exps));
  const double lse = m + log_sum.v, part = w * loss::z_part(Double(lse), z).v;
  return {w * loss::cross_entropy(log_sum, Double(double(at_target) - m), Double(total), double(t.classes), smoothing).v + part, part, lse};
}

}  // namespace loss_device
}  // namespace baracuda
