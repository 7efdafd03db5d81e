// select_n and its gradient: an index and the one element that it names are read, y is written; of the gradient dy and the indices are read, every case
// is written. The floor is memory bandwidth. An element a thread; more than kSelectCases cases take several launches.
#include "baracuda/ops/shape/shape_cuda.hpp"
#include "baracuda/ops/shape/shape_words.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace shape_device;

constexpr int kThreads = 256;
template <class W> __device__ __forceinline__ int64_t which_at(const void* which, int64_t at, int64_t last) {
  const int64_t w = static_cast<const W*>(which)[at];
  return w < 0 ? 0 : w > last ? last : w;
}
template <class T, class W> __global__ void __launch_bounds__(kThreads) select_kernel(const __grid_constant__ SelectCuda s) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < s.walk.units; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[2 + kSelectCases];
    s.walk.offsets(i, at);
    const int64_t w = which_at<W>(s.which, at[0], s.last) - s.first;
    const T* from = nullptr;
#pragma unroll
    for (int k = 0; k < kSelectCases; ++k)
      if (k < s.cases && w == k) from = static_cast<const T*>(s.x[k]) + at[2 + k];
    if (from) static_cast<T*>(s.y)[at[1]] = *from;
  }
}
template <class T, class W> __global__ void __launch_bounds__(kThreads) backward_kernel(const __grid_constant__ SelectBackwardCuda s) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < s.walk.units; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[2 + kSelectCases];
    s.walk.offsets(i, at);
    const int64_t w = which_at<W>(s.which, at[0], s.last);
    const T dy = static_cast<const T*>(s.dy)[at[1]];
#pragma unroll
    for (int k = 0; k < kSelectCases; ++k)
      if (k < s.cases) static_cast<T*>(s.dx[k])[at[2 + k]] = w == s.place[k] ? dy : T{};
  }
}
template <int kLog> int select(const SelectCuda& s, WhichType t, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  const auto kernel = t == WhichType::boolean ? select_kernel<T, uint8_t> : t == WhichType::i32 ? select_kernel<T, int32_t> : select_kernel<T, int64_t>;
  return device::launch(kernel, device::blocks_for(s.walk.units, kThreads), kThreads, 0, stream, s);
}
template <int kLog> int backward(const SelectBackwardCuda& s, WhichType t, void* stream) {
  using T = typename BitsOf<kLog>::Type;
  const auto kernel = t == WhichType::boolean ? backward_kernel<T, uint8_t> : t == WhichType::i32 ? backward_kernel<T, int32_t> : backward_kernel<T, int64_t>;
  return device::launch(kernel, device::blocks_for(s.walk.units, kThreads), kThreads, 0, stream, s);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SelectCudaKernels select_n_cuda_kernels = {{select<0>, select<1>, select<2>, select<3>, select<4>}, {backward<0>, backward<1>, backward<2>, backward<3>, backward<4>}};

}  // namespace baracuda
