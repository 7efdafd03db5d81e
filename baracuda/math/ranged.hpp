#pragma once
// 1 / b and a / b for b in [2^-60, 2^60]. In f32 a GPU needs no branch for other arguments then, and the lanes of a thread go side by side: three
// and eight instructions, the same bits. a: 0, a NaN, or a number whose quotient is at least 2^-100 or rounds nothing away; no infinity.
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class V> BARACUDA_HD V ranged_inverse(V b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<V, Pack<float, 1>>) {  // the processor's, which is an ulp off at most, and one step of Newton's
    const V r = V::of(BARACUDA_INSTRUCTION(1 / b.v, "rcp.approx.ftz.f32 %0, %1;", "f"(b.v)));
    return fma(r, fma(-b, r, V(1)), r);
  }
#endif
  return 1 / b;
}
template <class V> BARACUDA_HD V ranged_quotient(V a, V b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<V, Pack<float, 1>>) {  // the rest with the other sign: so a quotient of 0 keeps its own
    const V r = ranged_inverse(b), q = a * r, near = fma(-r, fma(b, q, -a), q);
    return fma(-r, fma(b, near, -a), near);
  }
#endif
  return a / b;
}

}  // namespace baracuda
