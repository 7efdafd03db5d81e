#pragma once
// Kinds of three operands.
#include "baracuda/ops/elementwise/binary_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

// y = a ? b : c with a bool a. Values move as they are, whatever they mean; the gradient of the other side is 0, never NaN.
template <> struct Ternary<TernaryKind::where> : Functor3<kNothing, kA, kA> {};
template <> struct Ternary<TernaryKind::clamp> : Functor3<kA | kB | kC, kA | kB | kC, kA | kB | kC> {  // min(max(a, b), c)
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b, V c) const { return min_nan(c, max_nan(b, a)); }
  template <class V> BARACUDA_HD Three<V> bwd(V dy, V a, V b, V c, V) const {
    const auto low = (a < b) & (b < c), high = (a > c) | (c < b);
    return {where(low | high, V(0), where(a < b, V(0), dy)), where(low, dy, V(0)), where(high, dy, V(0))};
  }
};
template <> struct Ternary<TernaryKind::lerp> : Functor3<kC, kC, kA | kB> {
  template <class V> BARACUDA_HD V fwd(V a, V b, V c) const { return interpolate(a, b, c); }
  template <class V> BARACUDA_HD Three<V> bwd(V dy, V a, V b, V c, V) const { return {(1 - c) * dy, c * dy, (b - a) * dy}; }
};
template <> struct Ternary<TernaryKind::addcmul> : Functor3<kNothing, kC, kB, 1> {  // a + alpha b c
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b, V c) const { return a + V(alpha) * b * c; }
  template <class V> BARACUDA_HD Three<V> bwd(V dy, V, V b, V c, V) const { return {dy, dy * alpha * c, dy * alpha * b}; }
};
template <> struct Ternary<TernaryKind::addcdiv> : Functor3<kNothing, kC, kB | kC, 1> {  // a + alpha b / c
  template <class V> BARACUDA_HD V fwd(V a, V b, V c) const { return a + V(alpha) * b / c; }
  template <class V> BARACUDA_HD Three<V> bwd(V dy, V, V b, V c, V) const { return {dy, dy * alpha / c, -dy * alpha * (b / c) / c}; }
};
template <> struct Ternary<TernaryKind::fma> : Functor3<kB, kA, kNothing> {  // a b + c, rounded once
  template <class V> BARACUDA_HD V fwd(V a, V b, V c) const { return fma(a, b, c); }
  template <class V> BARACUDA_HD Three<V> bwd(V dy, V a, V b, V, V) const { return {dy * b, dy * a, dy}; }
};

}  // namespace elementwise
}  // namespace baracuda
