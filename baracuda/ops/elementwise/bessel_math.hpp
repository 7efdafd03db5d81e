#pragma once
// The modified Bessel functions I0 and I1 and exp(-|x|) times them: a polynomial in x^2 up to 8, beyond it exp(|x|) / sqrt(|x|) times
// one in 16 / |x| - 1. Largest error in ulp, f32 / f64: i0 2.45/2.5, i0e 2/2.15, i1 2.05/2.2, i1e 1.8/1.85.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

// I0(a) (1 + rest) and I1(a) (1 + rest), 0 <= a <= 8: rest is what the square rounds away times an estimate of the logarithmic
// derivative.
template <class V> BARACUDA_HD TwoWords<V> sum_of_product(V a, V b, V c) {
  const V p = a * b;
  const TwoWords<V> s = two_sum(p, c);
  return {s.hi, s.lo + fma(a, b, -p)};
}
template <class V> struct BesselNear { TwoWords<V> value; V rest; };
template <class V> BARACUDA_HD BesselNear<V> i0_near(V a) {
  const V z = a * a;
  V h;
  if constexpr (V::kF32) h = poly(z, 0x1p-2, 0x1p-6, 0x1.c71c6ap-12, 0x1.c71d32p-18, 0x1.233e52p-24,
      0x1.032ccp-31, 0x1.4f3a22p-39, 0x1.6537f4p-47, 0x1.87bcccp-56, 0x1.3531a6p-63);
  else h = poly(z, 0x1p-2, 0x1.ffffffffffffcp-7, 0x1.c71c71c71c7b9p-12, 0x1.c71c71c71b4bp-18, 0x1.23456789be2abp-24,
      0x1.02e85c07350b9p-31, 0x1.522a44199a6e5p-39, 0x1.522a418fc644fp-47, 0x1.0b31500bb73f3p-55, 0x1.55ff8144842dfp-64,
      0x1.69e43346474d8p-73, 0x1.40b27ed9dad32p-82, 0x1.f235d0700c068p-92, 0x1.11a22f288a815p-101, 0x1.1b711aa128216p-110);
  const TwoWords<V> p = sum_of_product(z, h, V(1));
  return {p, fma(a, a, -z) / fma(a, V(2), V(1.2))};
}
template <class V> BARACUDA_HD BesselNear<V> i1_near(V a) {
  const V z = a * a;
  V h;
  if constexpr (V::kF32) h = poly(z, 0x1p-4, 0x1.55554ap-9, 0x1.c71dbap-15, 0x1.6c0916p-21, 0x1.84ede8p-28, 0x1.2484d6p-35,
      0x1.697ea6p-43, 0x1.a12cb8p-52, 0x1.8f8ffcp-59);
  else h = poly(z, 0x1p-4, 0x1.5555555555554p-9, 0x1.c71c71c71c773p-15, 0x1.6c16c16c1634fp-21, 0x1.845c8a0cf4952p-28,
      0x1.27e4fb767a366p-35, 0x1.522a440f18105p-43, 0x1.2c9757499a026p-51, 0x1.ab820eab2c1adp-60, 0x1.f1743c9eccd8bp-69,
      0x1.e27fd36fa4f5ep-78, 0x1.8adb094e9d244p-87, 0x1.1c06bb4264cc4p-96, 0x1.275361636181ap-106, 0x1.1771bdb79183dp-115);
  const TwoWords<V> p = sum_of_product(z, h, V(0.5));
  const V y = a * p.hi;
  return {{y, fma(a, p.hi, -y) + a * p.lo}, fma(a, a, -z) / fma(a, V(2), V(3.8))};
}
template <class V> BARACUDA_HD TwoWords<V> over_root(V p, V a) {  // p / sqrt(a)
  const TwoWords<V> s = sqrt_two(TwoWords<V>{a, V(0)}), q = quotient(p, s);
  return {q.hi, where(a < kInf, q.lo, V(0))};
}
template <class V> BARACUDA_HD TwoWords<V> i0_far(V a) {  // exp(-a) I0(a), a > 8
  const V t = 16 / a - 1;
  V p;
  if constexpr (V::kF32) p = poly(t, 0x1.9bd428p-2, 0x1.b87986p-9, 0x1.1da718p-13, 0x1.74eadcp-17, 0x1.ac7318p-20, 0x1.840124p-22);
  else p = poly(t, 0x1.9bd428ad249a5p-2, 0x1.b87969bb93b84p-9, 0x1.1daa72b5c2a61p-13, 0x1.75e5ee71a134p-17, 0x1.8e513cdcfa705p-20,
      0x1.3f49a7aa15b27p-22, 0x1.7d0c8aca2be44p-24, 0x1.51ce825005dd4p-25, 0x1.728ee8e920357p-26, 0x1.0392087db6cc9p-27,
      -0x1.d78b47cc31473p-28, -0x1.ccb2fb98e73dep-27, -0x1.57f6c79e0b691p-28, 0x1.036e9bc5114c7p-27, 0x1.bef2e5bf1d5afp-28,
      -0x1.e15b644b7d112p-29, -0x1.361d7b8780cbfp-28, 0x1.a0b8228367e76p-30, 0x1.27e226347d0ebp-29, -0x1.38a96751572cdp-31,
      -0x1.62fb1c5aca3dap-31, 0x1.4d7a9f52e2ep-33, 0x1.8e670894b1c48p-34, -0x1.60ed87a6a3bffp-36);
  return over_root(p, a);
}
template <class V> BARACUDA_HD TwoWords<V> i1_far(V a) {
  const V t = 16 / a - 1;
  V p;
  if constexpr (V::kF32) p = poly(t, 0x1.8ebe78p-2, -0x1.3f796cp-7, -0x1.cba1d2p-13, -0x1.f75d4ap-17, -0x1.0d9464p-19, -0x1.c636ccp-22);
  else p = poly(t, 0x1.8ebe783a8403p-2, -0x1.3f796198ee62fp-7, -0x1.cbc54df1e0504p-13, -0x1.f89c2305dbcf5p-17, -0x1.ec8e11b468f13p-20,
      -0x1.7613803a4e909p-22, -0x1.ad8b9d56a59b4p-24, -0x1.7279c7ac4f92cp-25, -0x1.91d685c8b8814p-26, -0x1.219b0b573707ap-27,
      0x1.d55d1ed6fecdp-28, 0x1.e255b63583314p-27, 0x1.822b8fe8a022cp-28, -0x1.06e93de64c3abp-27, -0x1.e3017361b0707p-28,
      0x1.d91a184702635p-29, 0x1.4e0614153e479p-28, -0x1.90696941461b8p-30, -0x1.40874b6340641p-29, 0x1.2a12ed0610f87p-31,
      0x1.83ffeba046a59p-31, -0x1.3f3f20ffb21fcp-33, -0x1.b7aadf8eb9114p-34, 0x1.553955a6454dfp-36);
  return over_root(p, a);
}
template <class V> BARACUDA_HD V plain(BesselNear<V> b) { return b.value.hi + fma(b.value.hi, b.rest, b.value.lo); }
template <class V> BARACUDA_HD V shrunk(BesselNear<V> b, V a) {  // times exp(-a)
  const ExpParts<V> e = exp_parts(-clamp(a, 0, 9), b.rest);
  return scale(b.value.hi + fma(b.value.hi, e.e, b.value.lo), e.n);
}
template <class V> inline constexpr double kBesselMost = V::kF32 ? 92 : 714.5;  // from here on I0 and I1 overflow
template <class V> BARACUDA_HD V grown(TwoWords<V> w, V a) {  // times exp(a)
  const ExpParts<V> e = exp_parts(clamp(a, 0, kBesselMost<V>), V(0));
  return where(a < kBesselMost<V>, scale(w.hi + fma(w.hi, e.e, w.lo), e.n), a * kInf);
}
template <class V> BARACUDA_HD V sum(TwoWords<V> w) { return w.hi + w.lo; }
template <class V> BARACUDA_HD V i0(V x) {
  const V a = abs(x);
  return where(a > 8, grown(i0_far(a), a), plain(i0_near(a)));
}
template <class V> BARACUDA_HD V i0e(V x) {
  const V a = abs(x);
  return where(a > 8, sum(i0_far(a)), shrunk(i0_near(a), a));
}
template <class V> BARACUDA_HD V i1(V x) {
  const V a = abs(x);
  return copysign(where(a > 8, grown(i1_far(a), a), plain(i1_near(a))), x);
}
template <class V> BARACUDA_HD V i1e(V x) {
  const V a = abs(x);
  return copysign(where(a > 8, sum(i1_far(a)), shrunk(i1_near(a), a)), x);
}

}  // namespace elementwise
}  // namespace baracuda
