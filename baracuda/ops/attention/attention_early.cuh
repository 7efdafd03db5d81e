#pragma once
// Kernels that may begin under the end of the kernel before them (9.0 and newer): small problems are done in the time that a launch takes.
#include <cuda_runtime.h>
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

// The kernel after this one may begin, where it is launched so; from here on all that was queued before this one is done and seen. Every block calls it before
// it touches memory and before it ends, so that whoever waits for this kernel has waited for those before it.
__device__ __forceinline__ void begin_early() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}
// early: such a kernel. cluster: of so many blocks.
template <class P> int launch_early(void (*kernel)(P), dim3 grid, dim3 block, size_t shared, void* stream, const P& p, bool early = true, unsigned cluster = 1) {
  if (shared > 48 * 1024)
    if (const cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return int(e);
  cudaLaunchAttribute attributes[2];
  unsigned n = 0;
  if (early) attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization, attributes[n++].val.programmaticStreamSerializationAllowed = 1;
  if (cluster > 1) attributes[n].id = cudaLaunchAttributeClusterDimension, attributes[n++].val.clusterDim = {cluster, 1, 1};
  const cudaLaunchConfig_t config{grid, block, shared, static_cast<cudaStream_t>(stream), attributes, n};
  return int(cudaLaunchKernelEx(&config, kernel, p));
}

}  // namespace attention
}  // namespace baracuda
