#pragma once
// What the instruction-set units of softmax share: elements between memory and the computing type, and how a line is finished.
#include "baracuda/math/bf16_instruction.hpp"
#include "baracuda/math/exp_of_halves.hpp"
#include "baracuda/ops/softmax/softmax_cpu.hpp"
#include "baracuda/ops/softmax/softmax_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace softmax {

template <class A> using Full = Pack<A, kLanes<A>>;
template <class A> BARACUDA_HD A* buffer_of(const SoftmaxBlock& b, int which, int line) {
  return static_cast<A*>(b.buffer[which]) + line * b.ld;
}
template <class A> BARACUDA_HD A at(const void* p, int64_t i) { return static_cast<const A*>(p)[i]; }

template <class A, class T> BARACUDA_HD A widened(T x) { return A(load<1>(&x).v); }
template <class A, int N> BARACUDA_HD Pack<A, N> get(const A* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <class U, class A, int N> BARACUDA_HD void put(U* p, Pack<A, N> v, int count, int64_t step) {
  if constexpr (std::is_same_v<Acc<U>, A>) {
    if (step == 1 && count == N) return store<U, N>(p, v);
    if (step == 1) return store_tail<U, N>(p, v, count & (N - 1));
    alignas(64) U buffer[N];
    store<U, N>(buffer, v);
    for (int k = 0; k < count; ++k) p[k * step] = buffer[k];
  } else {
    for (int k = 0; k < count; ++k) p[k * step] = from_double<U>(double(v.lane(k)));
  }
}
// Elements that are written together: of halves a line.
template <class U, int N> inline constexpr int kTogether = kIsHalf<U> ? 2 * N : N;
// The first elements of a row, up to where writes past the caches begin.
template <class U, int N> BARACUDA_HD int head_of(const U* p) { return int((0 - uintptr_t(p)) / sizeof(U) % kTogether<U, N>); }
template <class T, int N> BARACUDA_HD T top_lane(Pack<T, N> v) {
  if constexpr (N == 1) return v.v;
  else return top_lane(larger(v.half(0), v.half(1)));
}

// exp_up for results of T, all tensors being of one type. kNear: no d is below -86.
template <class T, bool kNear = false, class V> BARACUDA_HD V exp_up_for(V d) {
  if constexpr (kIsHalf<T>) return exp_up_for_half<kNear>(d);
  else return softmax::exp_up(d);
}
template <SoftmaxFinish F, bool kOnce, class V> BARACUDA_HD V finished(V a, V b, V max, V sum, V sign) {
  if constexpr (F == SoftmaxFinish::value) return kOnce ? a * sum : softmax::value(a, sum, max);
  else if constexpr (F == SoftmaxFinish::log_value) return softmax::log_value(a, max, sum);
  else if constexpr (F == SoftmaxFinish::slope) return softmax::slope(a, b, sum, sign);
  else if constexpr (F == SoftmaxFinish::log_slope) return softmax::log_slope(a, b, sum, sign);
  else return sign * fma(-exp_or_zero(b), sum, a);
}
template <SoftmaxFinish F> inline constexpr bool kBackward = F >= SoftmaxFinish::slope;
template <class T> inline constexpr SoftmaxFinish kLogSlope = kIsHalf<T> ? SoftmaxFinish::log_slope_of_halves : SoftmaxFinish::log_slope;

}  // namespace softmax
}  // namespace baracuda
