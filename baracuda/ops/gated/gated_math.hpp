#pragma once
// The formulas of gated activations, for any V: SIMD pack, CUDA thread, dual number. An activation is act(x) and
// slope(x) = act'(x), those of the elementwise kinds; the gate is the same for all.
#include "baracuda/ops/elementwise/activation_math.hpp"
#include "baracuda/ops/elementwise/arithmetic_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

template <UnaryKind K> struct Activation {
  template <class V> BARACUDA_HD static V act(V x) { return elementwise::Unary<K>{}.fwd(x); }
  template <class V> BARACUDA_HD static V slope(V x) { return elementwise::Unary<K>{}.slope(x); }
};
using Silu = Activation<UnaryKind::silu>;
using Gelu = Activation<UnaryKind::gelu>;
using GeluTanh = Activation<UnaryKind::gelu_tanh>;
struct Relu {
  template <class V> BARACUDA_HD static V act(V x) { return elementwise::Unary<UnaryKind::relu>{}.fwd(x); }
  template <class V> BARACUDA_HD static V slope(V x) { return where(x <= 0, V(0), where(x > 0, V(1), x)); }  // NaN passes
};
struct Sigmoid {
  template <class V> BARACUDA_HD static V act(V x) { return sigmoid(x); }
  template <class V> BARACUDA_HD static V slope(V x) {
    const V s = sigmoid(-abs(x));  // even, and 1 - s would lose the tail
    return s * (1 - s);
  }
};

// The gate, from act(gate) and slope(gate).
template <class V> BARACUDA_HD V gate(V act, V up) { return act * up; }
template <class V> BARACUDA_HD void gate_gradient(V dy, V up, V act, V slope, V& dgate, V& dup) { dgate = dy * up * slope, dup = dy * act; }
// In the order of GatedKind.
template <class... A> struct Acts { static constexpr int count = sizeof...(A); };
using GatedActs = Acts<Silu, Gelu, GeluTanh, Relu, Sigmoid>;

}  // namespace gated
}  // namespace baracuda
