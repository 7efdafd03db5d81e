#include <cuda_runtime.h>
#include "bench/bare_launch.hpp"

namespace baracuda::bench {
namespace {

struct Parameters { char bytes[512]; };
__global__ void empty() {}
__global__ void empty_of_struct(const __grid_constant__ Parameters) {}
__global__ void empty_shared() {}

}  // namespace

int bare_kernel(void* stream) {
  empty<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return int(cudaGetLastError());
}
int bare_kernel_of_struct(void* stream) {
  empty_of_struct<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(Parameters{});
  return int(cudaGetLastError());
}
int bare_cluster(void* stream) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = 2, config.blockDim = 32, config.stream = static_cast<cudaStream_t>(stream), config.attrs = &cluster, config.numAttrs = 1;
  return int(cudaLaunchKernelEx(&config, empty));
}
int bare_fill(void* stream, void* to) { return int(cudaMemsetAsync(to, 0, 4, static_cast<cudaStream_t>(stream))); }
int bare_copy(void* stream, void* to, const void* from) { return int(cudaMemcpyAsync(to, from, 4, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream))); }
int get_device() {
  int device;
  return int(cudaGetDevice(&device));
}
int set_shared_bytes() { return int(cudaFuncSetAttribute(empty_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024)); }

}  // namespace baracuda::bench
