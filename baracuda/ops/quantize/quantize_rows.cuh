#pragma once
// Dense rows with one scale each: what is known of a row's scale, and units of N neighbours.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/quantize/quantize_values.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize {
using device_map::Vector;

template <class T> using V = Pack<Acc<T>, 1>;
// What is unused of it is not made.
template <class V> struct Scaled {
  V s;
  Codes<V> c;
  Stepper<V> steps;  // to be rounded
  Divider<V> over;
  __device__ __forceinline__ Scaled(const double* parameters, V s, V zero_point) : s(s), c(parameters, zero_point), steps(s, c.lo, c.hi), over(s) {}
  // The code of a number, in the last byte. A sum of integers that f32 holds.
  __device__ __forceinline__ uint8_t code(V x) const { return uint8_t(bits(steps.raised(x) + c.z)); }
};
// Codes become numbers in f32 by one operation: put behind the exponent of 2^23, the least of them as 0.
template <class C, class E> inline constexpr C kBias = sizeof(E) == 1 && std::is_same_v<C, float> ? C(std::is_signed_v<E> ? 8388608 + 128 : 8388608) : C(0);
// The lanes of a unit as numbers, codes kBias above what they are.
template <class C, int N> struct Lanes {
  Pack<C, 1> v[N];
  template <class E> __device__ __forceinline__ explicit Lanes(const Vector<E, N>& e) {
    if constexpr (kBias<C, E> != 0 && N % 4 == 0) {
      device_map::Words<E, N> w = __builtin_bit_cast(device_map::Words<E, N>, e);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (j % 4 == 0 && std::is_signed_v<E>) w.word[j / 4] ^= 0x80808080u;
        v[j] = Pack<C, 1>::of(__uint_as_float(__byte_perm(w.word[j / 4], 0x4b000000u, 0x7440u + unsigned(j % 4))));
      }
    } else if constexpr (kIsHalf<E> && N % 2 == 0) {
      const auto p = __builtin_bit_cast(row_team::Packed<E, N>, e);
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = p[j];
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = number<C>(e.lane[j]);
    }
  }
  // NaN counts as 0 where there is to be a code. Seldom there is one: a sum of products with 0 tells.
  __device__ __forceinline__ void without_nan() {
    Pack<C, 1> sum = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) sum = fma(v[j], Pack<C, 1>(0), sum);
    if (sum.v == sum.v) return;
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = where(v[j] == v[j], v[j], Pack<C, 1>(0));
  }
};
// kWhole: every unit of every row is one aligned access.
template <bool kWhole, int N, class E> __device__ __forceinline__ Vector<E, N> load_unit(const E* p, int64_t count) {
  if constexpr (kWhole) return *reinterpret_cast<const Vector<E, N>*>(p);
  else {
    Vector<E, N> e;
#pragma unroll
    for (int j = 0; j < N; ++j) e.lane[j] = j < count ? p[j] : E{};
    return e;
  }
}
template <bool kWhole, int N, class E> __device__ __forceinline__ void store_unit(E* p, const Vector<E, N>& e, int64_t count) {
  if constexpr (kWhole) *reinterpret_cast<Vector<E, N>*>(p) = e;
  else {
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (j < count) p[j] = e.lane[j];
  }
}
// N results of f(j): numbers of T, two halves by one instruction, or codes.
template <class Out, int N, class F> __device__ __forceinline__ Vector<Out, N> unit_of(F f) {
  if constexpr (kIsHalf<Out>) return __builtin_bit_cast(Vector<Out, N>, row_team::Packed<Out, N>::rounded(f));
  else {
    Vector<Out, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j)
      if constexpr (std::is_integral_v<Out>) y.lane[j] = f(j);
      else y.lane[j] = element<Out>(f(j));
    return y;
  }
}

}  // namespace quantize
}  // namespace baracuda
