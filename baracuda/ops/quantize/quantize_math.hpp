#pragma once
// The formulas of quantisation for any V. z: zero point, clamped to the codes; [lo, hi] the codes less z; v = x / s.
#include <limits>
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize {

// A scale that is not finite and positive gives 0 steps, 0 values and 0 gradients.
template <class V> BARACUDA_HD auto usable(V s) { return (s > 0) & (s < kInf); }
// lo and hi are integers, so clamping before the rounding (half to even) changes nothing, and |v| is small enough to round by an addition.
template <class V> BARACUDA_HD V rounded(V v, V lo, V hi) {
  const V c = larger(lo, smaller(hi, v));  // NaN stays
  return (c + kMagic<V>) - kMagic<V>;
}
// parameters: the least and the greatest code.
template <class V> struct Codes {
  V z, lo, hi;
  BARACUDA_HD Codes(const double* parameters, V zero_point) {
    z = clamp(zero_point, parameters[0], parameters[1]);
    lo = V(parameters[0]) - z, hi = V(parameters[1]) - z;
  }
};
// An integer in the last bits, the lowest byte of which is the code's.
template <class V> BARACUDA_HD auto code_bits(V code) { return bits(code + kMagic<V>); }
// The value of a code less z: 0 for NaN.
template <class V> BARACUDA_HD V steps_at(V v, V s, V lo, V hi) { return where(usable(s) & (v == v), rounded(v, lo, hi), V(0)); }
template <class V> BARACUDA_HD V steps(V x, V s, V lo, V hi) { return steps_at(x / s, s, lo, hi); }
// x / s by 1 / s, a product and two remainders (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor",
// 1990), so that one division serves all that share a scale: bit for bit x / s from 2^-10 to 2^20, and beyond these something that rounds to
// the same code. A power of two keeps s away from the ends of the range. s is usable().
template <class V> struct Divider {
  V up, s, r;
  BARACUDA_HD explicit Divider(V scale) {
    constexpr double small = V::kF32 ? 0x1p-80 : 0x1p-900, factor = V::kF32 ? 0x1p100 : 0x1p600;
    up = where(scale < V(small), V(factor), where(scale > V(1 / small), V(1 / factor), V(1)));
    s = scale * up, r = 1 / s;
  }
  BARACUDA_HD V refined(V a, V q) const {
    const V near = fma(fma(-q, s, a), r, q);
    return fma(fma(-near, s, a), r, near);
  }
  BARACUDA_HD V operator()(V x) const {
    const V a = x * up, q = a * r;
    return where(abs(q) < V(0x1p20), refined(a, q), q);
  }
};
// a / s, about a r, rounded to a code and on top of `magic`: of f32, one remainder rounds to the code of the quotient for every s: all ties were tried.
template <class V> BARACUDA_HD V raised_quotient(V a, V s, V r, V magic) {
  const V q = a * r;
  return fma(fma(-q, s, a), r, q) + magic;
}
// Between lo and hi; NaN is lo.
template <class V> BARACUDA_HD V bounded(V v, V lo, V hi) {
#if defined(__CUDA_ARCH__)
  if constexpr (V::kF32) return V::of(fminf(fmaxf(v.v, lo.v), hi.v));
#endif
  return smaller(larger(v, lo), hi);
}
// steps() for all that share a scale: x is cut to a quarter of a step beyond the codes, which leaves nothing to cut behind the rounding.
template <class V> struct Stepper {
  Divider<V> by;
  V lo, hi;
  BARACUDA_HD Stepper(V s, V least, V greatest) : by(where(usable(s), s, V(1))) {
    constexpr double most = std::numeric_limits<typename V::Scalar>::max();
    lo = where(usable(s), larger(V(-most), (least - 0.25) * by.s), V(0)), hi = where(usable(s), smaller(V(most), (greatest + 0.25) * by.s), V(0));
  }
  // With the magic number on top: the integer stands in the last bits. NaN is anything.
  BARACUDA_HD V raised(V x) const {
    const V a = bounded(x * by.up, lo, hi);
    if constexpr (V::kF32) return raised_quotient(a, by.s, by.r, V(kMagic<V>));
    else return by.refined(a, a * by.r) + kMagic<V>;
  }
  // NaN is 0.
  BARACUDA_HD V operator()(V x) const { return raised(where(x == x, x, V(0))) - kMagic<V>; }
};

template <class V> BARACUDA_HD V dequantized(V steps, V s) { return fma(steps, where(usable(s), s, V(0)), V(0)); }  // the sum: not -0

// Straight through: the rounding counts as the identity, the clamp as what it is, both bounds included. A NaN is a constant.
template <class V> struct Place {
  typename V::Mask inside, outside;
  V v, step;  // x / s; it rounded and clamped
};
template <class V> BARACUDA_HD Place<V> place_at(V v, V s, V lo, V hi) {
  const V r = rounded(v, lo - 1, hi + 1);
  const auto good = usable(s);
  const typename V::Mask inside = good & (r >= lo) & (r <= hi), outside = good & ((r < lo) | (r > hi));
  return {inside, outside, v, where(r < lo, lo, where(r > hi, hi, r))};
}
template <class V> BARACUDA_HD Place<V> place(V x, V s, V lo, V hi) { return place_at(x / s, s, lo, hi); }
template <class V> BARACUDA_HD V quantize_dx(V dy, V s, const Place<V>& p) { return where(p.inside, dy / s, V(0)); }
template <class V> BARACUDA_HD V quantize_dscale(V dy, V s, const Place<V>& p) { return where(p.inside, -dy * p.v / s, V(0)); }
template <class V> BARACUDA_HD V quantize_dzero(V dy, const Place<V>& p) { return where(p.inside, dy, V(0)); }
template <class V> BARACUDA_HD V fake_dx(V dy, const Place<V>& p) { return where(p.inside, dy, V(0)); }
template <class V> BARACUDA_HD V fake_dscale(V dy, const Place<V>& p) {
  return where(p.inside, dy * (p.step - p.v), where(p.outside, dy * p.step, V(0)));
}
template <class V> BARACUDA_HD V fake_dzero(V dy, V s, const Place<V>& p) { return where(p.outside, -dy * s, V(0)); }
template <class V> BARACUDA_HD V dequantize_dx(V dy, V s) { return where(usable(s), dy * s, V(0)); }
template <class V> BARACUDA_HD V dequantize_dscale(V dy, V steps, V s) { return where(usable(s), dy * steps, V(0)); }

// The scale and the zero point of a range; lo > hi: no finite element. symmetric: about `middle`, else from least to greatest.
template <class A> BARACUDA_HD void make_scale(bool symmetric, double least, double greatest, double middle, A lo, A hi, A& scale, int32_t& zero_point) {
  using D = Pack<double, 1>;
  const auto at_least_normal = [](A s) { return s > std::numeric_limits<A>::min() ? s : std::numeric_limits<A>::min(); };
  const A low = lo <= hi && lo < 0 ? lo : A(0), high = lo <= hi && hi > 0 ? hi : A(0);
  if (symmetric) {  // the quotient of one element is as well made in A: rounded twice it is the same
    const A extent = -low > high ? -low : high;
    scale = extent == 0 ? A(1) : at_least_normal(extent / A(greatest - middle));
    zero_point = int32_t(middle);
    return;
  }
  const double extent = double(high) - double(low), divisor = greatest - least;
  scale = extent == 0 ? A(1) : at_least_normal(A(extent == kInf ? double(high) / divisor - double(low) / divisor : extent / divisor));  // high - low may be beyond f64
  zero_point = int32_t(least - rounded(D(double(low) / double(scale)), D(least - greatest), D(0)).v);
}

}  // namespace quantize
}  // namespace baracuda
