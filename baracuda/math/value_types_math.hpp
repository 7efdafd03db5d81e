#pragma once
// The proof of the value type: one elementwise op and one scan recurrence as functors over V. math_test.cpp runs them on
// a SIMD pack, one lane, a dual number; value_types.cu compiles the same text for a GPU.
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

struct GeluProof {  // x Phi(x)
  template <class V> BARACUDA_HD V phi(V x) const { return 0.5 * (1 + erf(x * 0.70710678118654752440)); }
  template <class V> BARACUDA_HD V fwd(V x) const { return x * phi(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x) const {
    return dy * (phi(x) + x * 0.39894228040143267794 * exp(-0.5 * x * x));
  }
};
// The gradient of a cumulative product is the reverse recurrence S[k] = dy[k] + x[k + 1] S[k + 1], dx[k] = y[k - 1] S[k]:
// no division, so zeros need no branch.
struct CumprodBackwardProof {
  template <class V> BARACUDA_HD V step(V dy, V carry, V s) const { return fma(carry, s, dy); }
};

}  // namespace baracuda
