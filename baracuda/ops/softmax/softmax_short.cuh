#pragma once
// exp for lines of softmax in registers. f32 takes exp_up; halves the processor's exp2, whose error of 2^-22 their
// rounding hides; below 2^-126 it is 0.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/softmax/softmax_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace softmax_short {

using V = Pack<float, 1>;
inline constexpr double kLog2E = 0x1.71547652b82fep0;
__device__ __forceinline__ V exp2_of(V x) {
  V y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y.v) : "f"(x.v));
  return y;
}
// The larger; a NaN is passed over: it comes back with the sum.
__device__ __forceinline__ V greater(V a, V b) { return V::of(__builtin_fmaxf(a.v, b.v)); }
// exp(x - base of `max`), times kScale.
template <class T> struct Exp {
  static constexpr double kScale = kIsHalf<T> ? 1 : 1 / kDown<V>;
  V max, point;
  __device__ explicit Exp(V max) : max(max), point(softmax::base(max)) {}
  __device__ __forceinline__ V operator()(V x) const {
    if constexpr (kIsHalf<T>) return exp2_of((x - point) * V(kLog2E));
    else return exp_up(x - point);
  }
  // What a sum of these counts for where `line` is taken instead.
  __device__ V weight(const Exp& line) const {
    if constexpr (kIsHalf<T>) return exp2_of((max - line.point) * V(kLog2E));
    else return softmax::weight(max, line.point) * V(kDown<V>);
  }
  // The logarithm of their sum.
  __device__ V log_of(V sum) const {
    if constexpr (kIsHalf<T>) return where(max == -kInf, V(kNaN), log(sum));
    else return softmax::log_sum(max, sum);
  }
};
// What elements of a line are made with, from its maximum and the sum of its exps.
template <class T> struct Line {
  V top, first, second;  // first: of log_softmax the logarithm of the sum
  __device__ static Line of(V top, V sum, bool log, bool safe) {
    const Exp<T> exp(top);
    Line l{top, 0, 1};
    if (log) l.first = exp.log_of(sum);
    else if constexpr (kIsHalf<T>) l.first = where(top == -kInf, safe ? where(is_nan(sum), sum, V(0)) : V(kNaN), V(1) / sum);
    else softmax::factor(top, softmax::weight(top, exp.point), sum, safe, l.first, l.second);
    return l;
  }
  // From exp(x - base), of log_softmax from x.
  __device__ __forceinline__ V made(V v, bool log) const {
    if (log) return softmax::log_value(v, top, first);
    if constexpr (kIsHalf<T>) return v * first;
    else return softmax::value(v, first, second);
  }
};
// dx of an element.
template <class T> __device__ __forceinline__ V slope_of(bool log, V dy, V y, V dot, V sign) {
  if (!log) return softmax::slope(dy, y, dot, sign);
  if constexpr (kIsHalf<T>) return sign * fma(-exp2_of(y * V(kLog2E)), dot, dy);
  else return softmax::log_slope(dy, y, dot, sign);
}

}  // namespace softmax_short
}  // namespace baracuda
