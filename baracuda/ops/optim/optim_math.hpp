#pragma once
// The formulas of the family. Constants of a step are made once, in f64.
#include "baracuda/math/pack.hpp"
#include "baracuda/ops/optim/optim_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace optim {

// Adam for any V; with v_max that of AMSGrad.
template <class V> BARACUDA_HD void adam(const AdamStep& s, V g, V& p, V& m, V& v, V* v_max) {
  g = s.grad_scale * g;
  if (s.l2 != 0) g = fma(V(s.l2), p, g);
  else p = p * s.keep;
  m = fma(V(s.one_minus_beta1), g - m, m);
  v = fma(V(s.one_minus_beta2) * g, g, s.beta2 * v);
  V w = v;
  if (v_max) w = *v_max = max_nan(v, *v_max);
  p = fma(V(-s.step_size), m / (sqrt(w) / V(s.root_correction2) + s.eps), p);
}

// b^n by squaring in two words: right to the last bit or nearly, and the same on every machine, which libm's pow is not.
BARACUDA_HD double power(double b, int64_t n) {
  double r = 1, r_low = 0, b_low = 0;
  for (; n > 0; n >>= 1) {
    auto times = [&](double& x, double& x_low) {  // x *= b
      const double p = x * b, p_low = __builtin_fma(x, b, -p) + (x * b_low + x_low * b);
      x = p + p_low, x_low = p_low - (x - p);
    };
    if (n & 1) times(r, r_low);
    double square = b, square_low = b_low;
    times(square, square_low);
    b = square, b_low = square_low;
  }
  return r;
}
BARACUDA_HD AdamStep adam_step(const AdamSettings& a, int64_t step, double lr, double grad_scale) {
  return {a.maximize ? -grad_scale : grad_scale,
          a.decoupled ? 1 - lr * a.weight_decay : 1,
          a.decoupled ? 0 : a.weight_decay,
          1 - a.beta1, a.beta2, 1 - a.beta2,
          lr / (1 - power(a.beta1, step)),
          sqrt(Pack<double, 1>::of(1 - power(a.beta2, step))).v,
          a.eps};
}

// Squares of four halves: each is exact in f32, the sum is not. Of bf16 where the largest is in [2^-40, 2^60): what vanishes beside it
// is below its last bit.
template <class V> BARACUDA_HD V four_squares(V a, V b, V c, V d) { return fma(d, d, fma(c, c, fma(b, b, a * a))); }
inline constexpr int kMostMagnitude = (127 + 60) << 7, kLeastMagnitude = (127 - 40) << 7;  // of the bits of a bf16
// f64: beyond 2^500 and below 2^-500 the squares leave the range; such numbers are scaled by 2^-600 and 2^600.
template <class V> BARACUDA_HD void add_square(V d, V& big, V& mid, V& small) {
  const V a = abs(d), b = where(a > 0x1p500, d * 0x1p-600, V(0)), s = where(a < 0x1p-500, d * 0x1p600, V(0));
  const V m = where(a > 0x1p500, V(0), where(a < 0x1p-500, V(0), d));
  big = fma(b, b, big), small = fma(s, s, small), mid = fma(m, m, mid);
}
BARACUDA_HD bool finite(const SquareSums& s) { return s.big - s.big == 0 && s.mid - s.mid == 0; }
BARACUDA_HD double norm_of(const SquareSums& s) {
  const auto root = [](double v) { return sqrt(Pack<double, 1>::of(v)).v; };
  if (!finite(s)) return s.big + s.mid;  // inf or NaN
  if (s.big > 0) return root(s.big + s.mid * 0x1p-600 * 0x1p-600) * 0x1p600;
  if (s.mid > 0) return root(s.mid + s.small * 0x1p-600 * 0x1p-600);
  return root(s.small) * 0x1p-600;
}
BARACUDA_HD double clip_scale(double norm, double max_norm) {
  const double c = max_norm / (norm + 1e-6);
  return c > 1 ? 1 : c;
}

}  // namespace optim
}  // namespace baracuda
