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
  int zero;
  __device__ __forceinline__ Scaled(const double* parameters, V s, V zero_point)
      : s(s), c(parameters, zero_point), steps(s, c.lo, c.hi), over(s), zero(int(c.z.v)) {}
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
