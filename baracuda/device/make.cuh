#pragma once
// y[i] = f.at<T>(i), i the row-major index: tensors made from numbers. sizeof(T) bytes per element; the floor is memory bandwidth.
// A thread makes an element, or, of a constant, 16 bytes: the code of longer formulas would be as many times as long.
#include "baracuda/device/map.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace device_make {

inline constexpr int kBlock = 256;
template <class F, class T> constexpr int lanes() {
  if constexpr (requires { F::constant; }) return F::constant ? 16 / int(sizeof(T)) : 1;
  else return 1;
}
template <class F> struct Make {
  F f;
  device::Walk<1> walk;
  void* y;
};
template <class F, class T> __global__ void __launch_bounds__(kBlock) make_kernel(const __grid_constant__ Make<F> m) {
  constexpr int V = lanes<F, T>();
  const int64_t all = m.walk.units + m.walk.rest;
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < all; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[1];
    m.walk.offsets(i, at);
    T* p = static_cast<T*>(m.y) + at[0];
    if (V > 1 && m.walk.lanes > 1 && i < m.walk.units) {
      device_map::Vector<T, V> e;
#pragma unroll
      for (int j = 0; j < V; ++j) e.lane[j] = m.f.template at<T>(i * V + j);
      *reinterpret_cast<device_map::Vector<T, V>*>(p) = e;
    } else {
      *p = m.f.template at<T>(i < m.walk.units ? i : m.walk.units * V + (i - m.walk.units));
    }
  }
}
template <class F, class T> int make(const F& f, const Shape& shape, const device::Operand& y, void* stream) {
  const device::Operand to[] = {y};
  const Make<F> m{f, device::walk<1>(shape, to, -1, lanes<F, T>()), const_cast<void*>(y.data)};
  if (m.walk.threads() == 0) return 0;
  return device::launch(make_kernel<F, T>, device::blocks_for(m.walk.threads(), kBlock), kBlock, 0, stream, m);
}

}  // namespace device_make
}  // namespace baracuda
