#pragma once
// Dense rows with one scale each: what is known of a row's scale, and units of N neighbours.
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/quantize/quantize_values.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize {
using device_map::Vector;

template <class T> using V = Pack<Acc<T>, 1>;
template <class V> struct Scaled {
  V s;
  Divider<V> over;
  Codes<V> c;
  __device__ __forceinline__ Scaled(const double* parameters, V s, V zero_point) : s(s), over(s), c(parameters, zero_point) {}
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

}  // namespace quantize
}  // namespace baracuda
