#pragma once
// Turns as complex numbers, for any V.
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

}  // namespace rope
}  // namespace baracuda
