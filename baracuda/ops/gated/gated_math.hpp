#pragma once
// The formulas of gated activations, for any V: SIMD pack, CUDA thread, dual number. An activation is act(x) and
// slope(x) = act'(x); the gate is the same for all.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

inline constexpr double kSqrt1_2 = 0.70710678118654752440, kSqrt2_Pi = 0.79788456080286535588, kSqrt1_2Pi = 0.39894228040143267794;
inline constexpr double kCubic = 0.044715;

// A factor that has underflowed to 0 beats an infinite x: the limits are 0, not NaN. NaN passes.
template <class V> BARACUDA_HD V damp(V x, V factor) { return where(factor == 0, V(-0.0), x * factor); }
struct Silu {
  template <class V> BARACUDA_HD static V act(V x) { return damp(x, sigmoid(x)); }
  template <class V> BARACUDA_HD static V slope(V x) {
    const V s = sigmoid(x);
    return s + damp(x, s * (1 - s));
  }
};
struct Gelu {
  template <class V> BARACUDA_HD static V phi(V x) { return 0.5 * (1 + erf(x * kSqrt1_2)); }
  template <class V> BARACUDA_HD static V act(V x) { return damp(x, phi(x)); }
  template <class V> BARACUDA_HD static V slope(V x) { return phi(x) + damp(x, kSqrt1_2Pi * exp(-0.5 * x * x)); }
};
struct GeluTanh {  // (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its relative precision where tanh is near -1
  static constexpr double kTwice = 2 * kSqrt2_Pi;
  template <class V> BARACUDA_HD static V inner(V x) { return kTwice * (x + kCubic * x * x * x); }
  template <class V> BARACUDA_HD static V act(V x) { return damp(x, sigmoid(inner(x))); }
  template <class V> BARACUDA_HD static V slope(V x) {
    const V u = inner(x), s = sigmoid(u);
    return s + damp(x * kTwice * (1 + 3 * kCubic * x * x), s * sigmoid(-u));
  }
};
struct Relu {
  template <class V> BARACUDA_HD static V act(V x) { return where(x <= 0, V(0), x); }
  template <class V> BARACUDA_HD static V slope(V x) { return where(x <= 0, V(0), where(x > 0, V(1), x)); }
};
struct Sigmoid {
  template <class V> BARACUDA_HD static V act(V x) { return sigmoid(x); }
  template <class V> BARACUDA_HD static V slope(V x) {
    const V s = sigmoid(-abs(x));  // even, and 1 - s would lose the tail
    return s * (1 - s);
  }
};

template <class Act> struct Gate {
  template <class V> BARACUDA_HD static V fwd(V gate, V up) { return Act::act(gate) * up; }
  template <class V> BARACUDA_HD static void bwd(V dy, V gate, V up, V& dgate, V& dup) {
    dgate = dy * up * Act::slope(gate);
    dup = dy * Act::act(gate);
  }
};
// In the order of GatedKind.
template <class... A> struct Acts { static constexpr int count = sizeof...(A); };
using GatedActs = Acts<Silu, Gelu, GeluTanh, Relu, Sigmoid>;

}  // namespace gated
}  // namespace baracuda
