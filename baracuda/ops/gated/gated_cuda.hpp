#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct GatedMap {  // operands: gate up y, or dy gate up dgate dup
  const Shape& shape;
  device::Operand operand[5];
};
using GatedLaunch = int (*)(const GatedMap&, void* stream);
struct GatedCudaKernels { ByDType<GatedLaunch> forward[5], backward[5]; };
extern const GatedCudaKernels gated_cuda_kernels;

}  // namespace baracuda
