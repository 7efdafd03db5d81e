#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/gated/gated.hpp"

namespace baracuda {

struct GatedMap {  // operands: gate up y, or dy gate up dgate dup
  const Shape& shape;
  device::Operand operand[5];
  double alpha, limit;  // of swiglu_clamped
};
using GatedLaunch = int (*)(const GatedMap&, void* stream);
struct GatedCudaKernels { ByDType<GatedLaunch> forward[enum_names(GatedKind{}).size()], backward[enum_names(GatedKind{}).size()]; };
extern const GatedCudaKernels gated_cuda_kernels;

}  // namespace baracuda
