#pragma once
// What a score goes through between q.k and the softmax, and which keys a query sees: host and device, one lane or many.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

// Keys [lo, hi) that query i sees.
template <class Int> struct KeyRangeOf { Int lo, hi; };
template <class Int> struct MaskOf {
  Int shift;        // position of query 0
  Int left, right;  // -1: unbounded
  Int k_len;
  BARACUDA_HD KeyRangeOf<Int> of(Int i) const {
    const Int p = i + shift;
    Int lo = left < 0 ? 0 : p - left, hi = right < 0 ? k_len : p + right + 1;
    lo = lo < 0 ? 0 : lo > k_len ? k_len : lo;
    hi = hi > k_len ? k_len : hi < lo ? lo : hi;
    return {lo, hi};
  }
};
using KeyRange = KeyRangeOf<int64_t>;
using Mask = MaskOf<int64_t>;

// Three steps that AVX has one instruction for each, with the same results elsewhere.
#if BARACUDA_VECTOR_BYTES
#define BARACUDA_NATIVE(V, name, ...) \
  if constexpr (V::kVector && V::kF32) return V::of(decltype(V::v)(BARACUDA_VECTOR_OP(name##_ps)(__VA_ARGS__)));
#else
#define BARACUDA_NATIVE(V, name, ...)
#endif
// The larger of two, b where one is NaN.
template <class V> BARACUDA_HD V larger(V a, V b) {
  BARACUDA_NATIVE(V, max, a.v, b.v)
  return where(a > b, a, b);
}
#if BARACUDA_VECTOR_BYTES != 64
#undef BARACUDA_NATIVE
#define BARACUDA_NATIVE(V, name, ...)
#endif
// Nearest integer, for |x| < 2^22.
template <class V> BARACUDA_HD V nearest(V x) {
  BARACUDA_NATIVE(V, roundscale, x.v, 0)
  return (x + kMagic<V>) - kMagic<V>;
}
// x 2^k for an integer k from kLeastExponent, where it is 0, to 128 and x near 1.
inline constexpr double kLeastExponent = -127;
template <class V> BARACUDA_HD V times_pow2(V x, V k) {
  return x * V::from_bits((bits(k + kMagic<V>) << 23) + (127 << 23));  // the low bits of the sum are k, the others leave by the shift
}
#undef BARACUDA_NATIVE

template <int terms, class V> BARACUDA_HD V part_pow2(V r) {  // 2^r, |r| <= 1/2
  if constexpr (terms == 4) return poly(r, 1, 0x1.62e0dep-1, 0x1.ec00d6p-3, 0x1.ca13dcp-5, 0x1.3ac75ep-7);
  else return poly(r, 1, 0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af78p-5, 0x1.3b30bp-7, 0x1.5f0a66p-10, 0x1.3f9068p-13);
}

// The exponential of the softmax, in the base that is cheapest: 2^t in f32 (kExpUnit = log2 e turns natural logarithms
// into t), e^t in f64 (kExpUnit = 1). Exactly 1 at t = 0, 0 for t = -inf; in f32 what is below 2^-126
// may be 0. NaN stays. For t up to 128. Relative error 2^-24 (terms = 6), or 2^-18.3 (terms = 4), which is enough for weights that
// are rounded to 16 bits, or whose values are.
template <class V> inline constexpr double kExpUnit = V::kF32 ? 0x1.71547652b82fep0 : 1;
template <int terms, class V> BARACUDA_HD V exp_weight(V t) {
  if constexpr (!V::kF32) return exp(t);
  else {
#ifdef __CUDA_ARCH__
    if constexpr (terms == 4) {
      float y;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(t.v));
      return V::of(y);
    }
#endif
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (V::kVector) {  // the instruction takes hundreds of cycles for what is not a normal number: such lanes are left out
      const V k = nearest(t);
      return V::of(decltype(V::v)(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t.v, _mm512_set1_ps(-126), _CMP_NLT_UQ), part_pow2<terms>(t - k).v, k.v)));
    }
#endif
    const V c = larger(V(kLeastExponent), t), k = nearest(c);
    return times_pow2(part_pow2<terms>(c - k), k);
  }
}

// c tanh(s / c) and, in `slope`, its derivative.
template <class V> BARACUDA_HD V softcap(V s, V c, V inverse, V& slope) {
  const V t = tanh(s * inverse);
  slope = fma(-t, t, V(1));
  return c * t;
}
// tanh(x) from e^(2 x) by the device's short exponential and reciprocal, absolute error 2^-22: `twice` is x in units in which exp_weight gives e^(2 x).
template <class V> BARACUDA_HD V quick_tanh(V twice) {
  const V y = exp_weight<4>(twice) + V(1);
#ifdef __CUDA_ARCH__
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y.v));
  return fma(V(-2), V::of(r), V(1));
#else
  return fma(V(-2), V(1) / y, V(1));
#endif
}
// A bias of -inf hides the key, whatever the score is.
template <class V> BARACUDA_HD V biased(V s, V b) { return where(b == V(-kInf), b, s + b); }
template <class V> BARACUDA_HD V alibi(V s, V slope, V distance) { return fma(-slope, abs(distance), s); }

}  // namespace attention
}  // namespace baracuda
