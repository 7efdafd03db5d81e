#pragma once
// The rows of the CUDA half. A family's F_cuda.cpp specialises cuda_kernels for its ops; baracuda_cuda() in its build file
// lists them, and rows() is generated from these lines.
#include <span>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/kernel.hpp"

namespace baracuda {

template <class Op> std::span<const Kernel<Op>> cuda_kernels();

namespace device {
std::span<const CudaRows> rows();
template <class Op> CudaRows rows_of() {
  const auto list = cuda_kernels<Op>();
  return {Op::name, list.data(), list.size()};
}
}  // namespace device

}  // namespace baracuda
