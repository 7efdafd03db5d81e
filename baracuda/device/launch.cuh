#pragma once
// Launches of kernels whose only parameter is one struct.
#include <cuda_runtime.h>
#include <cstdint>

namespace baracuda::device {

inline constexpr int64_t kMostBlocks = 0x7fffffff;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// As many blocks as `work` asks for; kernels stride over the grid, so that a cut grid is right too.
inline unsigned blocks_for(int64_t work, int64_t per_block) {
  const int64_t n = ceil_div(work, per_block);
  return unsigned(n < 1 ? 1 : n > kMostBlocks ? kMostBlocks : n);
}
template <class P> int launch(void (*kernel)(P), dim3 grid, dim3 block, size_t shared, void* stream, const P& p) {
  if (shared > 48 * 1024)
    if (const cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return int(e);
  kernel<<<grid, block, shared, static_cast<cudaStream_t>(stream)>>>(p);
  return int(cudaGetLastError());
}

}  // namespace baracuda::device
