// What the driver chose of this build for the current device.
#include <cuda_runtime.h>
#include "baracuda/device/code.hpp"

namespace baracuda::device {
namespace {

constexpr int kOnly90 = 64;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BARACUDA_MOST_THREADS kOnly90
#else
#define BARACUDA_MOST_THREADS 32
#endif
// The bound says which code this is: attributes tell it, and not whether an architecture's own instructions are in it.
__global__ void __launch_bounds__(BARACUDA_MOST_THREADS) nothing() {}

}  // namespace
int find_code(CodeFacts& code) {
  cudaFuncAttributes a;
  const cudaError_t e = cudaFuncGetAttributes(&a, nothing);
  if (e == cudaSuccess) code = {a.ptxVersion, a.maxThreadsPerBlock == kOnly90};
  return int(e);
}
}  // namespace baracuda::device
