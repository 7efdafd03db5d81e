#pragma once
// What the instruction-set units of gated_quantize export. Values are f32, in blocks that start at 64 bytes and have room for a multiple of 64; of bf16
// the even and the odd ones of each two registers stand apart: `dtype` is that of what they were made of.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"

namespace baracuda {

struct GatedQuantizeKernels {
  ByDType<void (*)(const void* gate, const void* up, float* v, int64_t n, double alpha, double limit)> values[kGatedKinds];
  // The largest finite |v|.
  float (*largest)(const float* v, int64_t n);
  // y = v factor in f8_e4m3fn. past: past the caches, where y starts at a line.
  ByDType<void (*)(const float* v, float factor, void* y, int64_t n, bool past)> codes;
};
BARACUDA_ISA_TABLE(GatedQuantizeKernels, gated_quantize_kernels)

}  // namespace baracuda
