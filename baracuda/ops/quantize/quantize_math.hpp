#pragma once
// The formulas of quantisation for any V. z: zero point, clamped to the codes; [lo, hi] the codes less z; v = x / s.
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
// The value of a code less z: 0 for NaN.
template <class V> BARACUDA_HD V steps(V x, V s, V lo, V hi) {
  const V v = x / s;
  return where(usable(s) & (v == v), rounded(v, lo, hi), V(0));
}
template <class V> BARACUDA_HD V dequantized(V steps, V s) { return where(usable(s), steps * s, V(0)); }

// Straight through: the rounding counts as the identity, the clamp as what it is, both bounds included. A NaN is a constant.
template <class V> struct Place {
  typename V::Mask inside, outside;
  V v, step;  // x / s; it rounded and clamped
};
template <class V> BARACUDA_HD Place<V> place(V x, V s, V lo, V hi) {
  const V v = x / s, r = rounded(v, lo - 1, hi + 1);
  const auto good = usable(s);
  const typename V::Mask inside = good & (r >= lo) & (r <= hi), outside = good & ((r < lo) | (r > hi));
  return {inside, outside, v, where(r < lo, lo, where(r > hi, hi, r))};
}
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

}  // namespace quantize
}  // namespace baracuda
