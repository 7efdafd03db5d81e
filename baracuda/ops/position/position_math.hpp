#pragma once
// Turns as complex numbers, for any V.
#include <cstdint>
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace rope {

template <class V> struct Turn { V cosine, sine; };
// By the angle p f, f and the product in two words.
template <class V> BARACUDA_HD Turn<V> turn_of(V p, V f_high, V f_low) {
  const V angle = p * f_high, low = fma(p, f_high, -angle) + p * f_low;
  const V c = cos(angle), s = sin(angle);
  return {c - low * s, s + low * c};
}
// The product: two turns in one, or the pair of elements a turned by b.
template <class V> BARACUDA_HD Turn<V> product(Turn<V> a, Turn<V> b) {
  return {fma(a.cosine, b.cosine, -(a.sine * b.sine)), fma(a.sine, b.cosine, a.cosine * b.sine)};
}

// The digits of a position, 64 a + 16 b + c.
BARACUDA_HD constexpr int64_t coarse_of(int64_t position) { return position & ~int64_t(63); }
BARACUDA_HD constexpr int middle_of(int64_t position) { return int(position >> 4 & 3); }
BARACUDA_HD constexpr int fine_of(int64_t position) { return int(position & 15); }
// The turn of digit c is the product of those of c - c % 4 and c % 4.
BARACUDA_HD constexpr bool is_product(int c) { return c > 4 && c % 4 != 0; }

}  // namespace rope
}  // namespace baracuda
