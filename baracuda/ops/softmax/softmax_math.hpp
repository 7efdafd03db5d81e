#pragma once
// The formulas of softmax for any V: SIMD pack, CUDA thread.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace softmax {

// exp(d) is kept times 2^24 (2^54 for f64): a normal number for every d <= 0, however small, with one multiplication less
// than exp takes. kDown undoes it, when the sum has divided. f32: 2^(d log2 e) with a polynomial of relative error 2^-23.3,
// exact at 0, 1.4 ulp and 1.3e-8 |d| in all; the rounding of d = x - max is larger.
template <class V> inline constexpr int kUp = V::kF32 ? 24 : 54;
template <class V> inline constexpr double kDown = V::kF32 ? 0x1p-24 : 0x1p-54;
template <class V> BARACUDA_HD V exp_up(V d) {
  const V c = larger(V(V::kF32 ? -104 : -746), d);  // exp of these is below half of the least subnormal; NaN stays
  typename V::Bits n;
  if constexpr (V::kF32) {
    const V log2e = 0x1.715476p0, t = fma(c, log2e, V(kMagic<V>)), k = t - kMagic<V>, f = fma(c, log2e, -k);
    n = bits(t) - bits(V(kMagic<V>));
    return poly(f, 1, 0x1.62e42ap-1, 0x1.ebf9bap-3, 0x1.c6b69cp-5, 0x1.3ceb06p-7, 0x1.5bfc72p-10) * pow2<V>(n + kUp<V>);
  } else {
    const V r = exp_reduce_in_range(c, n);
    return (1 + expm1_reduced(r)) * pow2<V>(n + kUp<V>);
  }
}
// What is subtracted in a chunk whose maximum is `max`: without a finite element, exp(-inf) is 0 and not NaN.
template <class V> BARACUDA_HD V base(V max) { return where(max == -kInf, V(0), max); }

// e is exp_up(x - base of the chunk); factor is exp_up(that base - base of the axis) / sum of exp_up, in two parts: times
// kDown where that is a normal number, else kDown is applied last. The second part is 1 nearly always.
template <class V> BARACUDA_HD void split_factor(V factor, V& first, V& second) {
  const auto small = factor < (V::kF32 ? 0x1p-102 : 0x1p-968);
  first = where(small, factor, factor * kDown<V>), second = where(small, V(kDown<V>), V(1));
}
template <class V> BARACUDA_HD V value(V e, V first, V second) { return e * first * second; }
template <class V> BARACUDA_HD V log_value(V x, V max, V log_sum) { return (x - max) - log_sum; }

template <class V> BARACUDA_HD V slope(V dy, V y, V dot, V sign) { return y * sign * (dy - dot); }
template <class V> BARACUDA_HD V log_slope(V dy, V y, V sum) { return fma(-exp(y), sum, dy); }

}  // namespace softmax
}  // namespace baracuda
