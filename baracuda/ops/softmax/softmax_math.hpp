#pragma once
// The formulas of softmax for any V: SIMD pack, CUDA thread.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace softmax {

using baracuda::exp_up, baracuda::kDown;

// What is subtracted in a chunk whose maximum is `max`: without a finite element, exp(-inf) is 0 and not NaN.
template <class V> BARACUDA_HD V base(V max) { return where(max == -kInf, V(0), max); }

// e is exp_up(x - base of the chunk); factor is exp_up(that base - base of the axis) / sum of exp_up, in two parts: times
// kDown where that is a normal number, else kDown is applied last. The second part is 1 nearly always.
template <class V> BARACUDA_HD void split_factor(V factor, V& first, V& second) {
  const auto small = factor < (V::kF32 ? 0x1p-102 : 0x1p-968);
  first = where(small, factor, factor * kDown<V>), second = where(small, V(kDown<V>), V(1));
}
// How chunks of a line meet. max: of the chunk, base: what is subtracted on the line, all: the sum of the line's chunks, each times its
// weight and kDown; top: the maximum of the line. A chunk of -inf weighs nothing.
template <class V> BARACUDA_HD V weight(V max, V base) { return exp_up(max - base); }
template <class V> BARACUDA_HD void factor(V top, V weight, V all, bool safe, V& first, V& second) {
  const V empty = safe ? where(is_nan(all), all, V(0)) : V(kNaN);
  split_factor(where(top == -kInf, empty, weight / all), first, second);
}
template <class V> BARACUDA_HD V log_sum(V top, V all) { return where(top == -kInf, V(kNaN), log(all * kDown<V>)); }
template <class V> BARACUDA_HD V value(V e, V first, V second) { return e * first * second; }
template <class V> BARACUDA_HD V log_value(V x, V max, V log_sum) { return (x - max) - log_sum; }

template <class V> BARACUDA_HD V slope(V dy, V y, V dot, V sign) { return y * sign * (dy - dot); }
template <class V> BARACUDA_HD V log_slope(V dy, V y, V sum, V sign) { return sign * fma(-exp(y), sum, dy); }

}  // namespace softmax
}  // namespace baracuda
