#pragma once
// The loop of every elementwise kernel: y... = f(x...) over tensors of one shape. A thread takes a unit of the walk, 16 bytes
// of the narrowest operand where vectors are possible. Bytes per element: those of the operands, once; the floor is memory
// bandwidth. The lanes of a unit go through the same one-lane formula, so that a vector changes no bit.
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_map {

inline constexpr int kBlock = 256;
template <class T, int N> struct alignas(sizeof(T) * N) Vector { T lane[N]; };

template <class F> struct Map {
  F f;
  device::Walk<F::in + F::out> walk;
  const void* x[F::in];
  void* y[F::out];  // null: not wanted
};

template <int V, class F, class T, class O> __device__ __forceinline__ void unit(const Map<F>& m, const int64_t (&at)[F::in + F::out]) {
  using A = Pack<Acc<T>, 1>;
  Vector<T, V> in[F::in];
#pragma unroll
  for (int k = 0; k < F::in; ++k) {
    if (!F::needs(k) || !m.x[k]) continue;
    const T* p = static_cast<const T*>(m.x[k]) + at[k];
    if (V > 1 && m.walk.spread[k]) {
      const T one = *p;
#pragma unroll
      for (int j = 0; j < V; ++j) in[k].lane[j] = one;
    } else in[k] = *reinterpret_cast<const Vector<T, V>*>(p);
  }
  Vector<O, V> out[F::out];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    A v[F::in], r[F::out];
#pragma unroll
    for (int k = 0; k < F::in; ++k) v[k] = F::needs(k) && m.x[k] ? load<1>(&in[k].lane[j]) : A(0);
    if constexpr (std::is_same_v<O, bool>) out[0].lane[j] = m.f.value(v);
    else {
      m.f(v, r);
#pragma unroll
      for (int k = 0; k < F::out; ++k) store<O, 1>(&out[k].lane[j], r[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < F::out; ++k)
    if (m.y[k]) *reinterpret_cast<Vector<O, V>*>(static_cast<O*>(m.y[k]) + at[F::in + k]) = out[k];
}
template <int V, class F, class T, class O> __global__ void __launch_bounds__(kBlock) map_kernel(const __grid_constant__ Map<F> m) {
  const int64_t all = m.walk.units + m.walk.rest;
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < all; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[F::in + F::out];
    m.walk.offsets(i, at);
    if (V == 1 || i < m.walk.units) unit<V, F, T, O>(m, at);
    else unit<1, F, T, O>(m, at);
  }
}
template <class T, class O> inline constexpr int kVector = 16 / int(sizeof(T) < sizeof(O) ? sizeof(T) : sizeof(O)) > 8 ? 8 : 16 / int(sizeof(T) < sizeof(O) ? sizeof(T) : sizeof(O));

// Queues the map; walk.lanes is 1 or kVector<T, O>.
template <class F, class T, class O> int map(const Map<F>& m, void* stream) {
  if (m.walk.threads() == 0) return 0;
  const unsigned blocks = device::blocks_for(m.walk.threads(), kBlock);
  if (m.walk.lanes == 1) return device::launch(map_kernel<1, F, T, O>, blocks, kBlock, 0, stream, m);
  return device::launch(map_kernel<kVector<T, O>, F, T, O>, blocks, kBlock, 0, stream, m);
}

}  // namespace device_map
}  // namespace baracuda
