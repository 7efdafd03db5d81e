#pragma once
// What the kernel file of gated_quantize exports to its rows.
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/gated/gated.hpp"

namespace baracuda {

struct GatedQuantizeCuda {
  const Shape& shape;
  device::Operand operand[3];  // gate up y
  const float* scale;
  double alpha, limit;         // of swiglu_clamped
};
struct GatedQuantizeRowsCuda {
  device::Walk<4> rows;        // gate up y scale: where each begins
  int64_t n, step[3];          // elements of a row, and between those of gate, up, y
  const void *gate, *up;
  void* y;
  float* scale;
  double alpha, limit;
  int team;
};
struct GatedQuantizeCudaKernels {
  ByDType<int (*)(const GatedQuantizeCuda&, void* stream)> given[enum_names(GatedKind{}).size()];
  ByDType<int (*)(const GatedQuantizeRowsCuda&, void* stream)> dynamic[enum_names(GatedKind{}).size()];
};
extern const GatedQuantizeCudaKernels gated_quantize_cuda_kernels;

}  // namespace baracuda
