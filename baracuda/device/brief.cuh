#pragma once
// A value for results that are rounded to f16 or bf16: f32 with the processor's short functions (ex2, rcp, within 2^-22) where Pack
// has polynomials that are right to an ulp of f32. Formulas over V take it as it is. Error of the functions here, relative: exp
// 2^-22 + 2^-25 |x|, sigmoid 2^-20 + 2^-25 |x|, tanh 2^-20, quotients 2^-22: far below the last bit of either dtype, so that most
// results have the bits of Pack. The same bits on every architecture are not promised.
#include "baracuda/device/map.cuh"
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

// An instruction of the device; on the host, where these functions never run, an expression.
#if defined(__CUDA_ARCH__)
#define BARACUDA_SHORT(expression, instruction, ...) [&] { float r_; asm(instruction : "=f"(r_) : __VA_ARGS__); return r_; }()
#else
#define BARACUDA_SHORT(expression, instruction, ...) (expression)
#endif

struct Brief {
  using Scalar = float;
  using Int = int32_t;
  using Bits = int32_t;
  using Mask = bool;
  using Exact = Pack<float, 1>;
  static constexpr int kWidth = 1, kMantissa = 23, kBias = 127;
  static constexpr bool kF32 = true, kVector = false, kWide = false;
  static constexpr Int kSign = Exact::kSign;
  float v;

  Brief() = default;
  BARACUDA_HD Brief(double c) : v(float(c)) {}
  BARACUDA_HD static Brief of(float raw) { Brief b; b.v = raw; return b; }
  BARACUDA_HD static Brief of(Exact e) { return of(e.v); }
  BARACUDA_HD static Brief from_bits(Bits b) { return of(__builtin_bit_cast(float, b)); }
  BARACUDA_HD Exact exact() const { return Exact::of(v); }
  BARACUDA_HD friend Bits bits(Brief a) { return __builtin_bit_cast(int32_t, a.v); }
  BARACUDA_HD float lane(int) const { return v; }

  BARACUDA_HD friend Brief operator+(Brief a, Brief b) { return of(a.v + b.v); }
  BARACUDA_HD friend Brief operator-(Brief a, Brief b) { return of(a.v - b.v); }
  BARACUDA_HD friend Brief operator*(Brief a, Brief b) { return of(a.v * b.v); }
  BARACUDA_HD friend Brief operator/(Brief a, Brief b) {
    return of(BARACUDA_SHORT(a.v / b.v, "div.full.f32 %0, %1, %2;", "f"(a.v), "f"(b.v)));
  }
  BARACUDA_HD friend Brief operator-(Brief a) { return of(-a.v); }
  BARACUDA_HD friend bool operator<(Brief a, Brief b) { return a.v < b.v; }
  BARACUDA_HD friend bool operator>(Brief a, Brief b) { return a.v > b.v; }
  BARACUDA_HD friend bool operator<=(Brief a, Brief b) { return a.v <= b.v; }
  BARACUDA_HD friend bool operator>=(Brief a, Brief b) { return a.v >= b.v; }
  BARACUDA_HD friend bool operator==(Brief a, Brief b) { return a.v == b.v; }
  BARACUDA_HD friend bool operator!=(Brief a, Brief b) { return a.v != b.v; }
  BARACUDA_HD friend Brief where(bool m, Brief a, Brief b) { return of(m ? a.v : b.v); }
  BARACUDA_HD friend Brief larger(Brief a, Brief b) { return of(larger(a.exact(), b.exact())); }
  BARACUDA_HD friend Brief smaller(Brief a, Brief b) { return of(smaller(a.exact(), b.exact())); }
  BARACUDA_HD friend Brief max_nan(Brief a, Brief b) { return of(max_nan(a.exact(), b.exact())); }
  BARACUDA_HD friend Brief min_nan(Brief a, Brief b) { return of(min_nan(a.exact(), b.exact())); }
  BARACUDA_HD friend Brief abs(Brief a) { return of(__builtin_fabsf(a.v)); }
  BARACUDA_HD friend Brief copysign(Brief a, Brief s) { return of(__builtin_copysignf(a.v, s.v)); }
  BARACUDA_HD friend bool is_nan(Brief a) { return a.v != a.v; }
  BARACUDA_HD friend bool sign_bit(Brief a) { return bits(a) < 0; }
  BARACUDA_HD friend Brief fma(Brief a, Brief b, Brief c) { return of(__builtin_fmaf(a.v, b.v, c.v)); }
  BARACUDA_HD friend Brief sqrt(Brief a) { return of(__builtin_sqrtf(a.v)); }
};

// 2^x; subnormal results too.
BARACUDA_HD Brief power_of_two(Brief x) {
  return Brief::of(BARACUDA_SHORT(__builtin_exp2f(x.v), "ex2.approx.f32 %0, %1;", "f"(x.v)));
}
// 1 / x for a normal x below 2^126.
BARACUDA_HD Brief inverse(Brief x) {
  return Brief::of(BARACUDA_SHORT(1 / x.v, "rcp.approx.ftz.f32 %0, %1;", "f"(x.v)));
}
inline constexpr double kLog2E = 0x1.71547652b82fep0;
BARACUDA_HD Brief exp(Brief x) { return power_of_two(x * kLog2E); }
BARACUDA_HD Brief exp2(Brief x) { return power_of_two(x); }
BARACUDA_HD Brief exp_up(Brief d) { return power_of_two(fma(larger(-104, d), kLog2E, kUp<Brief>)); }
BARACUDA_HD Brief sigmoid(Brief x) {
  const Brief t = exp(-abs(x));
  return where(x < 0, t, Brief(1)) * inverse(1 + t);
}
BARACUDA_HD Brief tanh(Brief x) {
  const Brief a = abs(x), s = a * a, far = 1 - 2 * inverse(1 + exp(2 * smaller(40, a)));  // NaN stays
  const Brief near = fma(a, s * poly(s, -0x1.5547c6p-2, 0x1.0e724ap-3, -0x1.6e9b3ap-5), a);
  return copysign(where(a < 0.5, near, far), x);
}
#undef BARACUDA_SHORT

namespace device_map {
template <> struct Lane<Brief> {
  using Exact = Lane<Brief::Exact>;
  static __device__ __forceinline__ Brief zero() { return 0; }
  template <class E> static __device__ __forceinline__ Brief of(E e) { return Brief::of(Exact::of(e)); }
  template <class E> static __device__ __forceinline__ E as(Brief a) { return Exact::template as<E>(a.exact()); }
};
// The values of functions whose results are stored as T.
template <class T> using Short = std::conditional_t<kIsHalf<T>, Brief, Pack<Acc<T>, 1>>;
}  // namespace device_map

}  // namespace baracuda
