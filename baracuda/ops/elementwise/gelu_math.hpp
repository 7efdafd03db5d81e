#pragma once
// The normal distribution's tail and exp of a two-word argument, which the gelu kinds are made of: the plain formulas
// lose all digits of the tail in 1 + erf, or scale an argument's rounding by its size.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

// exp(hi + lo) as m a b with powers of two a, b: the rounding of hi does not reach the result, and a product with it
// is rounded in the subnormal range only once, when a and b come last. hi <= 0, |lo| far below |hi|.
template <class V> struct ExpParts { V m, a, b; };
template <class V> BARACUDA_HD ExpParts<V> exp_parts(V hi, V lo) {
  const double least = V::kF32 ? -160 : -1400;  // further than exp_reduce goes: factors may lift the result from 0
  const V x = where(hi < least, V(least), hi), t = fma(x, V(0x1.71547652b82fep0), V(kMagic<V>)), k = t - kMagic<V>;
  const auto n = bits(t) - bits(V(kMagic<V>));
  const V r = fma(k, V(V::kF32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56), fma(k, V(V::kF32 ? -0x1.62e43p-1 : -0x1.62e42fefa39efp-1), x));
  return {1 + expm1_reduced(r + where(hi < least, V(0), lo)), pow2<V>(n >> 1), pow2<V>(n - (n >> 1))};
}

// Phi(-z) = exp(-z^2 / 2) p / d, z >= 0: d = z + k, and p is a polynomial in (z - k) / d (Sollya fpminimax), which is
// smooth for all z. The square is in two words.
template <class V> struct NormalTail { ExpParts<V> density; V p, d; };
template <class V> BARACUDA_HD NormalTail<V> normal_tail(V z) {
  const V s = z * z, s_low = fma(z, z, -s);
  const double k = V::kF32 ? 3.375 : 4;
  const V d = z + k, t = (z - k) / d;
  V p;
  if constexpr (V::kF32)
    p = poly(t, 0x1.7b6eep-1, -0x1.1b21ccp-1, 0x1.2e77p-2, -0x1.92fb58p-4, 0x1.1dbbe2p-7, 0x1.005f22p-7, -0x1.275e78p-9,
             -0x1.bbfb26p-11, 0x1.4863p-12, 0x1.160242p-13, -0x1.5ae8d2p-19);
  else
    p = poly(t, 0x1.82b4bb8c94dcep-1, -0x1.373e3a893c28ap-1, 0x1.8c6dbf2cfc2c5p-2, -0x1.7dff2bff6842fp-3,
             0x1.eec4cc3e48142p-5, -0x1.ee2761044a3efp-8, -0x1.c81719cca078ep-9, 0x1.ab825fb349ad9p-10,
             0x1.17a4a7839ae5fp-13, -0x1.e4a4221a17965p-13, -0x1.0012c8932948dp-19, 0x1.26d06683ec859p-15,
             0x1.7fede811cc214p-21, -0x1.8d48f49d5ef2cp-18, -0x1.4fd09664c394ap-21, 0x1.124ac20b3dcaep-20,
             0x1.1bf9e9361a5edp-22, -0x1.501bec16e4621p-23, -0x1.4c889c30be86cp-24, 0x1.12dd2fc6a1c73p-26,
             0x1.f8a009fa6bbf3p-27, -0x1.5a4e6e62b1f8ep-32, -0x1.4a1298265b267p-30);
  return {exp_parts(-0.5 * s, -0.5 * s_low), p, d};
}

// exp(-2 u), x >= 0, with u = sqrt(2 / pi) (x + 0.044715 x^3), the argument of gelu_tanh, in two words.
template <class V> BARACUDA_HD ExpParts<V> exp_minus_gelu_argument(V x) {
  const double c = V::kF32 ? 0x1.6e4e26p-5 : 0x1.6e4e26d4801f7p-5, c_low = V::kF32 ? 0x1.a9003ep-30 : 0x1.441355475a31ap-59;
  const double k = V::kF32 ? 0x1.988454p0 : 0x1.9884533d43651p0, k_low = V::kF32 ? -0x1.857936p-25 : -0x1.cbc0d30ebfd15p-54;
  const V s = x * x, s_low = fma(x, x, -s);
  const V p = c * s, p_low = fma(s, V(c), -p) + (c * s_low + c_low * s);
  const V w = 1 + p, big = where(p < 1, V(1), p), small = where(p < 1, p, V(1)), w_low = ((big - w) + small) + p_low;
  const V v = x * w, v_low = fma(x, w, -v) + x * w_low;
  const V a = v * k, a_low = fma(v, V(k), -a) + (v_low * k + v * k_low);
  return exp_parts(-a, -a_low);
}

}  // namespace elementwise
}  // namespace baracuda
