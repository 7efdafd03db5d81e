#pragma once
// The pieces of gelu_math.hpp and vmath.hpp from libm, so that the functors run on dual numbers. For tests.
#include <cmath>
#include "baracuda/math/dual.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda {

inline Dual scale(Dual x, int n) { return {std::ldexp(x.v, n), std::ldexp(x.d, n)}; }
inline Dual scale_down(Dual x, int n) { return scale(x, n); }
inline elementwise::ExpParts<Dual> exp_parts(Dual hi, Dual lo = 0) {
  const Dual y = exp(hi + lo);
  const int n = y.v > 0 && y.v < HUGE_VAL ? std::ilogb(y.v) : 0;
  return {scale(y, -n) - 1, n};
}
inline elementwise::ExpParts<Dual> tail_density(Dual z) { return exp_parts(-0.5 * z * z); }
inline Dual times_any(Dual w, elementwise::ExpParts<Dual> p) { return times(w, p); }
inline Dual normal_tail(Dual z) {
  const double tail = 0.5 * std::erfc(z.v * 0.70710678118654752440), density = 0.39894228040143267794 * std::exp(-0.5 * z.v * z.v);
  return z * Dual(tail, -density * z.d);
}
inline Dual mills(Dual z) { return double(0.5L * std::erfc(z.v * 0.70710678118654752440L) * std::exp(0.5L * z.v * z.v)); }  // its slope is not used
inline Dual tanh_one_word(Dual x) { return tanh(x); }
inline TwoWords<Dual> expm1_parts(Dual x, int&, Dual&) { return {expm1(x), 0}; }

}  // namespace baracuda
