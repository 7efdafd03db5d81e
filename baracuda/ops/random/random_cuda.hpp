#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct RandomCuda {
  device::Walk<1> walk;       // of y, in row-major order, one element per unit
  void* y;
  uint64_t seed, offset;
  double base, factor, most, low, span, least;  // as RandomNumbers has them
};
using RandomCudaFn = int (*)(const RandomCuda&, void* stream);
struct RandomCudaKernels { ByDType<RandomCudaFn> uniform, normal, exponential, gumbel, laplace, cauchy, logistic, truncated_normal; };
extern const RandomCudaKernels random_cuda_kernels;

}  // namespace baracuda
