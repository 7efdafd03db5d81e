#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/creation/creation.hpp"

namespace baracuda {

struct CreationCudaKernels {
  ByDType<int (*)(const ArangeDescriptor&, const device::Operand& y, void* stream)> arange;
  ByDType<int (*)(const LinspaceDescriptor&, const device::Operand& y, void* stream)> linspace;
  int (*eye)(const EyeDescriptor&, uint64_t one, const device::Operand& y, void* stream);  // one: the bits of 1
  ByDType<int (*)(const TriangleIndicesDescriptor&, int64_t places, const device::Operand& y, void* stream)> triangle_indices;
};
extern const CreationCudaKernels creation_cuda_kernels;

}  // namespace baracuda
