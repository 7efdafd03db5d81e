#pragma once
// What gated values are quantised by, for any V of one word, and on a CPU the activations themselves: brief values (math/brief.hpp) in fewer operations
// than their general functions take, the same bits on every instruction set.
#include <limits>
#include "baracuda/ops/copy/cast_math.hpp"
#include "baracuda/ops/elementwise/elementwise_brief.hpp"
#include "baracuda/ops/gated/gated_math.hpp"
#include "baracuda/ops/quantize/quantize_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

// 1 / scale, finite; 0 where the scale is not to be used.
BARACUDA_HD float factor_of(float scale) {
  using V = Pack<float, 1>;
  const V s = V::of(scale);
  return where(quantize::usable(s), smaller(V(std::numeric_limits<float>::max()), 1 / s), V(0)).v;
}
// Of a row whose largest finite |v| is `most`.
BARACUDA_HD float row_scale(float most) {
  float scale;
  int32_t zero;
  quantize::make_scale<float>(true, -448, 448, 0, -most, most, scale, zero);
  return scale;
}

#if !defined(__CUDACC__)
// 2^(c x) as e, and 1 / (1 + e), for x <= 0.
template <class V> struct Falling {
  V e, inverse;
  BARACUDA_HD Falling(V x, double c) {
    const V t = fma(x, V(c), V(kMagic<V>)), k = t - kMagic<V>, f = fma(x, V(c), -k), p = poly(f, 1, 0x1.62e12cp-1, 0x1.ec0374p-3, 0x1.c9fc74p-5, 0x1.3a03c8p-7);
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (V::kVector) e = V::of(decltype(x.v)(_mm512_scalef_ps(__m512(p.v), __m512(k.v))));
    else
#endif
      e = scale(p, bits(t) - bits(V(kMagic<V>)));
    const V d = 1 + e, r = poly(e, 0x1.ff1cd6p-1, -0x1.e2b7aep-1, 0x1.54bde4p-1, -0x1.c65286p-3);  // to 1/577, which a step squares
    inverse = r * fma(-d, r, V(2));
  }
};
template <class V> BARACUDA_HD V fallen(V x) { return larger(V(-104), V::from_bits(bits(x) | V::kSign)); }  // -|x|, cut where its exp is 0; NaN stays
template <class V> BARACUDA_HD V brief_sigmoid(V x) {
  const Falling<V> w(fallen(x), kLog2E);
  return where(x < 0, w.e, V(1)) * w.inverse;
}
// The activations in brief values.
template <class A> struct Briefly : A {
  template <class V> BARACUDA_HD V act(V x) const {
    if constexpr (std::is_same_v<A, Silu>) {
      const V z = fallen(x);
      const Falling<V> w(z, kLog2E);
      return where(x < 0, z * w.e, x) * w.inverse;
    } else if constexpr (std::is_same_v<A, GeluTanh>) {
      const V z = larger(V(-11), fallen(x));
      const Falling<V> w(z * fma(0x1.6e4e26p-5 * z, z, V(1)), 0x1.988454p0 * kLog2E);
      return where(x < 0, z * w.e, x) * w.inverse;
    } else if constexpr (std::is_same_v<A, Sigmoid>) return brief_sigmoid(x);
    else if constexpr (std::is_same_v<A, SwigluClamped>) {
      const V g = this->clamped(x), s = brief_sigmoid(V(this->alpha) * g);
      return where(s == 0, V(0), g * s);
    } else return A::act(x);
  }
};
#endif

}  // namespace gated
}  // namespace baracuda
