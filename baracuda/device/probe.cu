// Whether this build has code for the current device.
#include <cuda_runtime.h>

namespace baracuda::device {
namespace {
__global__ void nothing() {}
}  // namespace
int probe();
int probe() {
  cudaFuncAttributes attributes;
  return int(cudaFuncGetAttributes(&attributes, nothing));
}
}  // namespace baracuda::device
