#pragma once
// The formulas of the losses for any V: SIMD pack, CUDA thread, dual number.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace loss {

template <class V> BARACUDA_HD V cap(V x, V c) { return c * tanh(x / c); }
// The derivative of cap, from its value.
template <class V> BARACUDA_HD V cap_slope(V capped, V c) {
  const V t = capped / c;
  return fma(-t, t, V(1));
}

// What a row's loss is made of, relative to any m that is subtracted from its logits: log_sum = log sum exp(x - m),
// target = x_target - m, sum = sum (x - m). A factor of 0 takes its term away, so that an infinite one does not count.
template <class V> BARACUDA_HD V cross_entropy(V log_sum, V target, V sum, double classes, double smoothing) {
  const V hard = smoothing == 1 ? V(0) : (1 - smoothing) * (log_sum - target);
  return smoothing == 0 ? hard : hard + smoothing * (log_sum - sum / V(classes));
}
template <class V> BARACUDA_HD V z_part(V lse, double z) { return z == 0 ? V(0) : V(z) * lse * lse; }

// The gradient of a row is per_exp * exp(x - m) - uniform, less `hit` at the target.
struct RowGradient { double per_exp, uniform, hit; };
BARACUDA_HD RowGradient row_gradient(double g, double sum_exp, double lse, double classes, double smoothing, double z) {
  return {z == 0 ? g / sum_exp : g * (1 + 2 * z * lse) / sum_exp, g * smoothing / classes, g * (1 - smoothing)};
}

}  // namespace loss
}  // namespace baracuda
