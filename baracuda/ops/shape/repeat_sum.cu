// Gradients of repeat and repeat_interleave: sums over the axes that the repeats are of dy. Few terms, or many elements: a thread adds the terms of 16
// bytes of dx, in order, in f64; else device/map_sum.cuh. dy is read and dx written once: the floor is memory bandwidth.
#include "baracuda/device/map_sum.cuh"
#include "baracuda/ops/shape/shape_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace shape_device {
template <class T> struct Terms {
  static constexpr int in = 1, out = 1;
  static constexpr bool wide_sum = true;
  static constexpr bool needs(int) { return true; }
  using V = Pack<Acc<T>, 1>;
  __device__ __forceinline__ void operator()(const V* x, V* y) const { y[0] = x[0]; }
};
}  // namespace shape_device
namespace {
using device_map::Vector;
using shape_device::Terms;

constexpr int kThreads = 256, kAhead = 4;
template <class T, int V> __global__ void __launch_bounds__(kThreads) terms_kernel(const __grid_constant__ RepeatTerms r) {
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < r.kept.units; u += int64_t(gridDim.x) * kThreads) {
    int64_t at[2];
    r.kept.offsets(u, at);
    const T* from = static_cast<const T*>(r.dy) + at[1];
    double sum[V];
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] = -0.0;
    for (int64_t t = 0; t < r.terms.units; t += kAhead) {
      Vector<T, V> x[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (t + k >= r.terms.units) break;
        int64_t step[1];
        r.terms.offsets(t + k, step);
        x[k] = *reinterpret_cast<const Vector<T, V>*>(from + step[0]);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (t + k >= r.terms.units) break;
#pragma unroll
        for (int j = 0; j < V; ++j) sum[j] = sum[j] + double(value(x[k].lane[j]).v);
      }
    }
    Vector<T, V> y;
#pragma unroll
    for (int j = 0; j < V; ++j) y.lane[j] = from_double<T>(sum[j]);
    *reinterpret_cast<Vector<T, V>*>(static_cast<T*>(r.dx) + at[0]) = y;
  }
}
template <class T> int terms(const RepeatTerms& r, void* stream) {
  return device::launch(r.kept.lanes > 1 ? terms_kernel<T, 16 / int(sizeof(T))> : terms_kernel<T, 1>, device::blocks_for(r.kept.units, kThreads), kThreads, 0, stream, r);
}
template <class T> int sum(const device::SumOperands& s, void* stream) { return device_map::map_sum<Terms<T>, T>(Terms<T>{}, s, stream); }
template <class T> constexpr RepeatSumCuda entry() { return {device_map::sum_lanes<Terms<T>, T, T>(), terms<T>, sum<T>}; }

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<RepeatSumCuda> repeat_sum_cuda = device::floating<RepeatSumCuda>(entry<f16>(), entry<bf16>(), entry<float>(), entry<double>());

}  // namespace baracuda
