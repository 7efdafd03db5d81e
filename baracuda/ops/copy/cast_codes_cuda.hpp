#pragma once
// What the kernel file of the codes exports to its rows.
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/copy/cast_codes_format.hpp"

namespace baracuda {

struct E8m0Cuda {
  const Shape& shape;
  device::Operand x, y;
  E8m0Rounding rounding;
  bool saturate;
};
// values: of pairs, or of elements, the second of two `step` behind the first; with the shape of the codes.
struct PackedCastCuda {
  const Shape& shape;
  device::Operand values, codes;
  bool joined;
  int64_t step;
};
struct CastCodesCudaKernels {
  ByDType<int (*)(const E8m0Cuda&, void* stream)> to_e8m0, from_e8m0;
  ByDType<int (*)(const PackedCastCuda&, void* stream)> to_packed[3], from_packed[3];  // by the format
};
extern const CastCodesCudaKernels cast_codes_cuda_kernels;

}  // namespace baracuda
