// select_n and its gradient: indices and the cases that a unit names are read, y is written; of the gradient dy and the indices are read, every case is
// written. The floor is memory bandwidth. Tensors that lie alike: a unit of 16 bytes a thread; others an element a thread, which makes the
// offsets of the one case that it takes. More than kSelectCases cases take several launches.
#include "baracuda/ops/shape/shape_cuda.hpp"
#include "baracuda/ops/shape/shape_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace shape_device;
using device_map::Vector;

constexpr int kThreads = 256;
__device__ __forceinline__ int64_t within(int64_t w, int64_t last) { return w < 0 ? 0 : w > last ? last : w; }
__device__ __forceinline__ int64_t which_at(const void* which, WhichType t, int64_t at, int64_t last) {
  return within(t == WhichType::boolean ? static_cast<const uint8_t*>(which)[at] : t == WhichType::i32 ? static_cast<const int32_t*>(which)[at] : static_cast<const int64_t*>(which)[at], last);
}
// f(axis, place on it) for element i.
template <int K, class F> __device__ __forceinline__ void each_axis(const device::Walk<K>& w, int64_t i, F f) {
#pragma unroll 1
  for (int a = w.rank - 1; a >= 0; --a) {
    const int64_t q = w.narrow ? int64_t(w.by[a].quotient(uint32_t(i))) : i / w.extent[a];
    f(a, i - q * w.extent[a]);
    i = q;
  }
}
template <class T, class W> __global__ void __launch_bounds__(kThreads) select_flat_kernel(const __grid_constant__ SelectCuda s) {
  constexpr int V = select_lanes(int(sizeof(T)));
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < s.walk.units + s.walk.rest; u += int64_t(gridDim.x) * kThreads) {
    const int64_t first = u < s.walk.units ? u * V : s.walk.units * V + (u - s.walk.units);
    const W* const which = static_cast<const W*>(s.which) + first;
    T* const y = static_cast<T*>(s.y) + first;
    if (u >= s.walk.units) {
      const int64_t w = within(*which, s.last) - s.first;
      if (w >= 0 && w < s.cases) *y = static_cast<const T*>(s.x[w])[first];
      continue;
    }
    const Vector<W, V> index = *reinterpret_cast<const Vector<W, V>*>(which);
    int w[V];
    uint32_t wanted = 0;
    Vector<T, V> out{};
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int64_t k = within(index.lane[j], s.last) - s.first;
      w[j] = k >= 0 && k < s.cases ? int(k) : kSelectCases;
      wanted |= 1u << w[j];
    }
    if (wanted >> kSelectCases) out = *reinterpret_cast<const Vector<T, V>*>(y);  // lanes of other launches
#pragma unroll
    for (int k = 0; k < kSelectCases; ++k) {
      if (!(wanted >> k & 1)) continue;
      const Vector<T, V> x = *reinterpret_cast<const Vector<T, V>*>(static_cast<const T*>(s.x[k]) + first);
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (w[j] == k) out.lane[j] = x.lane[j];
    }
    *reinterpret_cast<Vector<T, V>*>(y) = out;
  }
}
template <class T> __global__ void __launch_bounds__(kThreads) select_kernel(const __grid_constant__ SelectCuda s) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < s.walk.units; i += int64_t(gridDim.x) * kThreads) {
    int64_t which = 0, y = 0, x = 0;
    each_axis(s.walk, i, [&](int a, int64_t r) { which += r * s.walk.stride[0][a], y += r * s.walk.stride[1][a]; });
    const int64_t w = which_at(s.which, s.type, which, s.last) - s.first;
    if (w < 0 || w >= s.cases) continue;
    each_axis(s.walk, i, [&](int a, int64_t r) { x += r * s.walk.stride[2 + w][a]; });
    static_cast<T*>(s.y)[y] = static_cast<const T*>(s.x[w])[x];
  }
}
template <class T, class W> __global__ void __launch_bounds__(kThreads) backward_flat_kernel(const __grid_constant__ SelectBackwardCuda s) {
  constexpr int V = select_lanes(int(sizeof(T)));
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < s.walk.units + s.walk.rest; u += int64_t(gridDim.x) * kThreads) {
    const int64_t first = u < s.walk.units ? u * V : s.walk.units * V + (u - s.walk.units);
    const W* const which = static_cast<const W*>(s.which) + first;
    const T* const dy = static_cast<const T*>(s.dy) + first;
    if (u >= s.walk.units) {
      const int64_t w = within(*which, s.last);
      for (int k = 0; k < s.cases; ++k) static_cast<T*>(s.dx[k])[first] = w == s.place[k] ? *dy : T{};
      continue;
    }
    const Vector<W, V> index = *reinterpret_cast<const Vector<W, V>*>(which);
    const Vector<T, V> x = *reinterpret_cast<const Vector<T, V>*>(dy);
#pragma unroll 1
    for (int k = 0; k < s.cases; ++k) {
      Vector<T, V> out{};
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (within(index.lane[j], s.last) == s.place[k]) out.lane[j] = x.lane[j];
      *reinterpret_cast<Vector<T, V>*>(static_cast<T*>(s.dx[k]) + first) = out;
    }
  }
}
template <class T> __global__ void __launch_bounds__(kThreads) backward_kernel(const __grid_constant__ SelectBackwardCuda s) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < s.walk.units; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[2 + kSelectCases];
    s.walk.offsets(i, at);
    const int64_t w = which_at(s.which, s.type, at[0], s.last);
    const T dy = static_cast<const T*>(s.dy)[at[1]];
#pragma unroll
    for (int k = 0; k < kSelectCases; ++k)
      if (k < s.cases) static_cast<T*>(s.dx[k])[at[2 + k]] = w == s.place[k] ? dy : T{};
  }
}
template <class S> int launch_units(void (*flat)(S), void (*any)(S), const S& s, void* stream) {
  return device::launch(s.walk.flat ? flat : any, device::blocks_for(s.walk.threads(), kThreads), kThreads, 0, stream, s);
}
template <int kLog> int select(const SelectCuda& s, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  if constexpr (kLog == 4) return launch_units(select_kernel<T>, select_kernel<T>, s, stream);
  else {
    const auto flat = s.type == WhichType::boolean ? select_flat_kernel<T, uint8_t> : s.type == WhichType::i32 ? select_flat_kernel<T, int32_t> : select_flat_kernel<T, int64_t>;
    return launch_units(flat, select_kernel<T>, s, stream);
  }
}
template <int kLog> int backward(const SelectBackwardCuda& s, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  if constexpr (kLog == 4) return launch_units(backward_kernel<T>, backward_kernel<T>, s, stream);
  else {
    const auto flat = s.type == WhichType::boolean ? backward_flat_kernel<T, uint8_t> : s.type == WhichType::i32 ? backward_flat_kernel<T, int32_t> : backward_flat_kernel<T, int64_t>;
    return launch_units(flat, backward_kernel<T>, s, stream);
  }
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SelectCudaKernels select_n_cuda_kernels = {{select<0>, select<1>, select<2>, select<3>, select<4>}, {backward<0>, backward<1>, backward<2>, backward<3>, backward<4>}};

}  // namespace baracuda
