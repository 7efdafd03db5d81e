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

// Two halves that lie together.
template <class T> __device__ __forceinline__ void unpack_two(uint32_t part, float& a, float& b) {
  if constexpr (kIsF16<T>) asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(a), "=f"(b) : "r"(part));
  else a = __uint_as_float(part << 16), b = __uint_as_float(part & 0xffff0000u);
}
template <class U> __device__ __forceinline__ uint32_t packed(float a, float b) {
  uint32_t both;
  if constexpr (kIsF16<U>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  return both;
}
// The larger of two parts, half by half; a NaN only where both are: the sum will show it.
template <class T> __device__ __forceinline__ uint32_t larger_part(uint32_t a, uint32_t b) {
  if constexpr (sizeof(T) == 4) return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  uint32_t c;
  if constexpr (kIsF16<T>) asm("max.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  else asm("max.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}
template <class T> inline constexpr uint32_t kLeastPart = sizeof(T) == 4 ? 0xff800000u : kIsF16<T> ? 0xfc00fc00u : 0xff80ff80u;
template <class T> __device__ __forceinline__ float largest_of(uint32_t part) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(part);
  float a, b;
  unpack_two<T>(part, a, b);
  return fmaxf(a, b);
}

// exp(x - base), base the largest of a row's or a part of them.
template <class T, bool = kIsHalf<T>> struct RowPowers {
  float base;
  __device__ __forceinline__ explicit RowPowers(float base) : base(base) {}
  __device__ __forceinline__ float operator()(float x) const { return term(x - base); }
  __device__ __forceinline__ double left() const { return 1; }
};
// Of halves as 2^(x a - c) and a factor that is `left`, so that one sum of products does: base log2 e is rounded to c. Bases of 2^14 and more, which are 64 and more
// apart from any other, take log2 e in so few digits that c is exact, and 1 where c would leave the range.
template <class T> struct RowPowers<T, true> {
  float a, c, base;
  __device__ __forceinline__ explicit RowPowers(float base) : a(step(base)), c(base * a), base(base) {}
  static __device__ __forceinline__ bool far(float base) { return !kIsF16<T> && fabsf(base) >= 0x1p14f; }
  static __device__ __forceinline__ float step(float base) { return !far(base) ? kLog2EOfRow : fabsf(base) < 0x1p126f ? 0x1.7154p0f : 1.f; }
  __device__ __forceinline__ float operator()(float x) const { return power_of_two_flushed(__builtin_fmaf(x, a, -c)); }
  __device__ __forceinline__ double left() const { return less(double(__builtin_fmaf(base, a, -c))); }
  // 2^-bits of little, within 2^-30.
  static __device__ __forceinline__ double less(double bits) {
    const double y = bits * -0x1.62e42fefa39efp-1;
    return __builtin_fma(y, __builtin_fma(y, .5, 1.), 1.);
  }
};
// factor exp(x - base) + uniform, a gradient of T that is stored as U.
template <class T, class U, bool = kIsHalf<T>> struct RowGradients {
  RowSlope<U, float> slope;
  float base;
  RowGradients() = default;
  __device__ __forceinline__ RowGradients(double per_exp, double minus, float base) : slope(per_exp, minus), base(base) {}
  __device__ __forceinline__ float operator()(float x) const { return slope(x - base); }
};
template <class T, class U> struct RowGradients<T, U, true> {
  using Powers = RowPowers<T>;
  float a, up, factor, uniform;
  RowGradients() = default;
  __device__ __forceinline__ RowGradients(double per_exp, double minus, float base) : a(Powers::step(base)), up(-base * a), factor(float(per_exp)), uniform(float(-minus)) {
    if (Powers::far(base)) return;
    constexpr float kBits = float(kUp<Pack<float, 1>>);
    up = __builtin_fmaf(base, -a, kBits);
    factor = float(per_exp * kDown<Pack<float, 1>> * Powers::less(__builtin_fma(double(base), double(a), double(up) - double(kBits))));
  }
  __device__ __forceinline__ float operator()(float x) const { return __builtin_fmaf(factor, power_of_two_flushed(__builtin_fmaf(x, a, up)), uniform); }
};

// A cap in short: c tanh(x / c), within 2^-21 of c, and its derivative from its value. Up to 3 / 4 c by x p(x^2), beyond as c - 2 c / (1 + exp(2 x / c)).
struct Cap {
  float c, twice, per, inner, terms[5];
  BARACUDA_HD explicit Cap(double cap) : c(float(cap)), twice(float(-2 * cap)), per(cap > 0 ? float(1 / cap) : 0), inner(.75f * c) {
    double scale = 1;
    for (int i = 0; i < 5; ++i, scale = scale * (double(per) * double(per))) {
      constexpr double kTerms[5] = {0x1.ffffa2p-1, -0x1.553a72p-2, 0x1.0eded0p-3, -0x1.93b49ap-5, 0x1.93a9e4p-7};  // of tanh(u) / u in u^2: 2^-22.2 of c
      terms[i] = float(kTerms[i] * scale);
    }
  }
  __device__ __forceinline__ float of_inner(float x) const {
    const float z = x * x;
    return x * __builtin_fmaf(__builtin_fmaf(__builtin_fmaf(__builtin_fmaf(terms[4], z, terms[3]), z, terms[2]), z, terms[1]), z, terms[0]);
  }
  __device__ __forceinline__ float operator()(float x) const {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + power_of_two_flushed(x * (2 * kLog2EOfRow * per))));
    const float outer = __builtin_fmaf(twice, r, c);
    return fabsf(x) > inner ? outer : of_inner(x);
  }
  __device__ __forceinline__ float slope(float capped) const { return __builtin_fmaf(-(capped * per), capped * per, 1.f); }
};

__device__ __forceinline__ double factor_of(const LossCudaTokens& t) { return t.mean ? *t.factor : 1; }
// A leaf, by a block of kLossLeaf threads, each with a token or zeros.
__device__ __forceinline__ void put_leaf(double* leaf, double loss, double z, bool counts, double* shared) {
  const double sums[3] = {device_rows::team_sum(loss, shared), device_rows::team_sum(z, shared), device_rows::team_sum(counts ? 1 : 0, shared)};
  if (threadIdx.x == 0) leaf[0] = sums[0], leaf[1] = sums[1], leaf[2] = sums[2];
}
// What is known of a row before its gradient: the gradient that arrives at its loss, weight included, and what follows with the sum of exp(x - most).
__device__ __forceinline__ double upstream(const LossCudaTokens& t, int64_t token) {
  return read<float>(t.weights, token, 1) * (read<float>(t.dloss, t.per_token ? token : 0, 1) * t.scale) * factor_of(t);
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
