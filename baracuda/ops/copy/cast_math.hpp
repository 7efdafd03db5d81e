#pragma once
// What a saturating cast does beyond the largest finite value of To, for any V of floats.
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

// That value, for infinities too. NaN stays.
template <class To, class V> BARACUDA_HD V saturated(V v) {
  const V most = kIsF16<To> ? V(65504) : kIsFloat8<To> ? V(to_float(To{uint8_t(kFloat8<To>.largest)})) : V(0x1.fep127);
  return where(v > most, most, where(v < -most, -most, v));
}

}  // namespace baracuda
