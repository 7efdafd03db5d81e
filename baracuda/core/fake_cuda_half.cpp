// A CUDA half of another build, for core_test.
#include "baracuda/core/cuda_half.hpp"
extern "C" __attribute__((visibility("default"))) const baracuda::CudaHalf* baracuda_cuda_half() {
  static const baracuda::CudaHalf half{.build_id = "another build"};
  return &half;
}
