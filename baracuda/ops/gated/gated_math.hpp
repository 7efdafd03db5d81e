#pragma once
// The formulas of gated activations, for any V: SIMD pack, CUDA thread, dual number. An activation is act(x) and
// slope(x) = act'(x), those of the elementwise kinds; the gate is the same for all. What becomes of up before is the kind's too.
#include "baracuda/ops/elementwise/activation_math.hpp"
#include "baracuda/ops/elementwise/arithmetic_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

struct PlainUp {
  template <class V> BARACUDA_HD static V up(V x) { return x; }
  template <class V> BARACUDA_HD static V up_gradient(V dup, V) { return dup; }
};
template <UnaryKind K> struct Activation : PlainUp {
  template <class V> BARACUDA_HD static V act(V x) { return elementwise::Unary<K>{}.fwd(x); }
  template <class V> BARACUDA_HD static V slope(V x) { return elementwise::Unary<K>{}.slope(x); }
};
using Silu = Activation<UnaryKind::silu>;
using Gelu = Activation<UnaryKind::gelu>;
using GeluTanh = Activation<UnaryKind::gelu_tanh>;
struct Relu : PlainUp {
  template <class V> BARACUDA_HD static V act(V x) { return elementwise::Unary<UnaryKind::relu>{}.fwd(x); }
  template <class V> BARACUDA_HD static V slope(V x) { return where(x <= 0, V(0), where(x > 0, V(1), x)); }  // NaN passes
};
struct Sigmoid : PlainUp {
  template <class V> BARACUDA_HD static V act(V x) { return sigmoid(x); }
  template <class V> BARACUDA_HD static V slope(V x) {
    const V s = sigmoid(-abs(x));  // even, and 1 - s would lose the tail
    return s * (1 - s);
  }
};

struct SwigluClamped {
  double alpha, limit;
  template <class V> BARACUDA_HD V clamped(V x) const { return where(x > limit, V(limit), x); }  // NaN passes
  template <class V> BARACUDA_HD V act(V x) const {
    const V g = clamped(x), s = sigmoid(V(alpha) * g);
    return where(s == 0, V(0), g * s);  // also at -inf
  }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V g = clamped(x), z = V(alpha) * g, s = sigmoid(z), r = sigmoid(-z), w = where((s == 0) | (r == 0), V(0), z * r);
    return where(x > limit, V(0), s * (1 + w));
  }
  template <class V> BARACUDA_HD V up(V x) const { return where(x < -limit, V(-limit), clamped(x)) + 1; }
  template <class V> BARACUDA_HD V up_gradient(V dup, V x) const { return where((x > limit) | (x < -limit), V(0), dup); }
};
template <class Act> BARACUDA_HD Act made(double alpha, double limit) {
  if constexpr (requires(Act a) { a.limit; }) return {alpha, limit};
  else return {};
}

// The gate, from act(gate) and slope(gate).
template <class V> BARACUDA_HD V gate(V act, V up) { return act * up; }
template <class V> BARACUDA_HD void gate_gradient(V dy, V up, V act, V slope, V& dgate, V& dup) { dgate = dy * up * slope, dup = dy * act; }
// In the order of GatedKind.
template <class... A> struct Acts { static constexpr int count = sizeof...(A); };
using GatedActs = Acts<Silu, Gelu, GeluTanh, Relu, Sigmoid, SwigluClamped>;

}  // namespace gated
}  // namespace baracuda
