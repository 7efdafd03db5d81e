#pragma once
// From random words to numbers, for any V. Constants that do not fit the word are exact powers of two.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/random/philox.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace random {

// Signed and unsigned 32-bit words as floats, rounded once.
template <int N> BARACUDA_HD Pack<float, N> from_signed(Words<N> w) {
  if constexpr (N == 1) return Pack<float, N>::of(float(int32_t(w)));
  else return Pack<float, N>::of(__builtin_convertvector(Raw<int32_t, N>(w), Raw<float, N>));
}
// (w + 1/2) 2^-32, in (0, 1]: high 24 bits and low 8 bits are exact, their sum is rounded once.
template <int N> BARACUDA_HD Pack<float, N> open_unit(Words<N> w) {
  using V = Pack<float, N>;
  return fma(from_signed<N>(w >> 8), V(0x1p-24), fma(from_signed<N>(w & 0xff), V(0x1p-32), V(0x1p-33)));
}
// w 2^-32 in [0, 1), cut to 24 bits so that 1 cannot appear.
template <int N> BARACUDA_HD Pack<float, N> unit(Words<N> w) { return from_signed<N>(w >> 8) * 0x1p-24; }

// -log u > 0 for u in (0, 1]: what rounds to 1 stands for the half of the last place below it.
template <class V> BARACUDA_HD V exponential(V u) {
  const V e = -log(u);
  return where(e > 0, e, V(V::kF32 ? 0x1p-26 : 0x1p-54));
}

template <class V> struct Pair { V cosine, sine; };
// r (cos, sin) of the angle quarter pi/2 + a; |a| <= pi/4.
template <class V> BARACUDA_HD Pair<V> box_muller(V u, V a, typename V::Bits quarter) {
  const V r = sqrt(-2 * log(u)), s = sin(a), c = cos(a);
  const auto odd = (quarter & 1) != 0;
  const V x = where(odd, s, c), y = where(odd, c, s);
  return {r * where(((quarter + 1) & 2) != 0, -x, x), r * where((quarter & 2) != 0, -y, y)};
}

}  // namespace random
}  // namespace baracuda
