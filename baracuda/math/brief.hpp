#pragma once
// The functions of vmath over Pack<brief, N>, for results that are rounded to f16 or bf16: the same names, a third of the operations.
// They stand on 2^x, log2 x and 1 / x, which are instructions on a GPU; on a CPU a shorter polynomial, and vmath's. What has no
// overload here is vmath's.
// Relative error for arguments that are halves, where the result is normal: 2^-17, beyond |x| = 16 that of the product x log2(e) besides,
// 2^-24 |x|. NaN, infinities, signed zeros and subnormal results as in vmath. A CPU gives the same bits on every instruction
// set; those of a GPU differ in the last places of the f32. Kernels of the CPU look results of halves up instead (look_up.hpp), which is faster.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <int N> using Brief = Pack<brief, N>;
inline constexpr double kLog2E = 0x1.71547652b82fep0, kLn2Brief = 0x1.62e42fefa39efp-1;

template <int N> BARACUDA_HD Brief<N> power_of_two(Brief<N> x, double c = 1) {  // 2^(c x), c > 0
  using V = Brief<N>;
#if defined(__CUDA_ARCH__)
  const V y = x * c;
  return V::of(BARACUDA_INSTRUCTION(y.v, "ex2.approx.f32 %0, %1;", "f"(y.v)));
#else
  const V u = clamp(x, -151 / c, 129 / c), t = fma(u, V(c), V(kMagic<V>)), f = fma(u, V(c), kMagic<V> - t);
  return scale(poly(f, 1, 0x1.62e12cp-1, 0x1.ec0374p-3, 0x1.c9fc74p-5, 0x1.3a03c8p-7), bits(t) - bits(V(kMagic<V>)));
#endif
}
// The same for c x <= 0: on a GPU a factor brings subnormal results into the range of the shorter instruction.
template <int N> BARACUDA_HD Brief<N> falling_power_of_two(Brief<N> x, double c = 1) {
#if defined(__CUDA_ARCH__)
  using V = Brief<N>;
  const V y = fma(x, V(c), V(24));
  return 0x1p-24 * V::of(BARACUDA_INSTRUCTION(y.v, "ex2.approx.ftz.f32 %0, %1;", "f"(y.v)));
#else
  return c < 0 ? power_of_two(-x, -c) : power_of_two(x, c);
#endif
}
template <int N> BARACUDA_HD Brief<N> falling_exp(Brief<N> x) { return falling_power_of_two(x, kLog2E); }
template <int N> BARACUDA_HD Brief<N> inverse(Brief<N> x) {  // 0 where it is subnormal
  return Brief<N>::of(BARACUDA_INSTRUCTION((1 / x).v, "rcp.approx.ftz.f32 %0, %1;", "f"(x.v)));
}
template <int N> BARACUDA_HD Brief<N> octaves(Brief<N> x) {  // log2 x, an absolute error of 2^-22 near 1
  return Brief<N>::of(BARACUDA_INSTRUCTION(log2(Pack<float, N>::of(x.v)).v, "lg2.approx.f32 %0, %1;", "f"(x.v)));
}
template <int N> BARACUDA_HD Brief<N> octaves_of_normal(Brief<N> x) {
  return Brief<N>::of(BARACUDA_INSTRUCTION(log2(Pack<float, N>::of(x.v)).v, "lg2.approx.ftz.f32 %0, %1;", "f"(x.v)));
}

template <int N> BARACUDA_HD Brief<N> exp(Brief<N> x) { return power_of_two(x, kLog2E); }
template <int N> BARACUDA_HD Brief<N> exp2(Brief<N> x) { return power_of_two(x); }
template <int N> BARACUDA_HD Brief<N> expm1(Brief<N> x) {
  const Brief<N> near = x * poly(x, 0x1.000002p0, 0x1.fffff6p-2, 0x1.55517ep-3, 0x1.5558e4p-5, 0x1.138bbp-7, 0x1.6c6112p-10);
  return where(abs(x) < 0.5, near, exp(x) - 1);
}
template <int N> BARACUDA_HD Brief<N> log1p_near(Brief<N> x) {  // |x| < 1/8
  return x * poly(x, 1, -0x1.fffc9cp-2, 0x1.555176p-2, -0x1.036022p-2, 0x1.9ff754p-3);
}
template <int N> BARACUDA_HD Brief<N> log1p(Brief<N> x) { return where(abs(x) < 0.125, log1p_near(x), octaves_of_normal(1 + x) * kLn2Brief); }
template <int N> BARACUDA_HD Brief<N> log_based(Brief<N> x, double per_octave, double per_unit) {
  const Brief<N> f = x - 1;
  return where(abs(f) < 0.125, log1p_near(f) * per_unit, octaves(x) * per_octave);
}
template <int N> BARACUDA_HD Brief<N> log(Brief<N> x) { return log_based(x, kLn2Brief, 1); }
template <int N> BARACUDA_HD Brief<N> log2(Brief<N> x) { return log_based(x, 1, kLog2E); }
template <int N> BARACUDA_HD Brief<N> log10(Brief<N> x) { return log_based(x, 0x1.34413509f79ffp-2, 0x1.bcb7b1526e50ep-2); }
template <int N> BARACUDA_HD Brief<N> sigmoid(Brief<N> x) {
  const Brief<N> t = falling_exp(-abs(x));
  return where(x < 0, t, Brief<N>(1)) * inverse(1 + t);
}
template <int N> BARACUDA_HD Brief<N> tanh(Brief<N> x) {
  const Brief<N> a = abs(x), s = a * a, t = falling_power_of_two(a, -2 * kLog2E), far = (1 - t) * inverse(1 + t);
  return copysign(where(a < 0.5, a * poly(s, 1, -0x1.5554d2p-2, 0x1.10e94cp-3, -0x1.b27b2ap-5, 0x1.1a386cp-6), far), x);
}
template <int N> BARACUDA_HD Brief<N> erf(Brief<N> x) {  // 1 - 2^(-a Q(a)) from 0.9 on
  const Brief<N> a = smaller(4, abs(x)), s = a * a;
  const Brief<N> near = x * poly(s, 0x1.20dd6ep0, -0x1.81200ep-2, 0x1.cd0e34p-4, -0x1.a83552p-6, 0x1.ee2b1ap-9);
  const Brief<N> q = poly(a, 0x1.a0373ap0, 0x1.d915a8p-1, 0x1.26cba2p-3, -0x1.d52e82p-6, 0x1.c681e2p-9, -0x1.898dbcp-13);
  return where(a < 0.9, near, copysign(1 - falling_power_of_two(-a * q), x));
}
template <int N> BARACUDA_HD Brief<N> half_exp(Brief<N> x) { return power_of_two(fma(x, Brief<N>(kLog2E), Brief<N>(-1))); }
template <int N> BARACUDA_HD Brief<N> sinh(Brief<N> x) {
  const Brief<N> a = abs(x), h = half_exp(a), near = x * poly(a * a, 1, 0x1.555598p-3, 0x1.10f768p-7, 0x1.ab3fcep-13);
  return where(a < 1, near, copysign(h - 0.25 * inverse(h), x));
}
template <int N> BARACUDA_HD Brief<N> cosh(Brief<N> x) {
  const Brief<N> h = half_exp(abs(x));
  return h + 0.25 * inverse(h);
}

}  // namespace baracuda
