#pragma once
// What the instruction-set units of the family export. Maps take scale in the computing type and zero_point in i32 for every element.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

// Parameters of the maps: the least and the greatest code, 1 where codes are i8.
struct QuantizeKernels {
  ByDType<MapRun> quantize;             // x, scale, zero_point -> code
  ByDType<MapRun> dequantize;           // code, scale, zero_point -> y
  ByDType<MapRun> fake;                 // x, scale, zero_point -> y
  ByDType<MapRun> quantize_backward;    // dy, x, scale, zero_point -> dx
  ByDType<MapRun> dequantize_backward;  // dy, code, scale, zero_point -> dx
  ByDType<MapRun> fake_backward;        // dy, x, scale, zero_point -> dx
  // As the three above, -> the terms of dscale and dzero_point, in the computing type.
  ByDType<MapRun> quantize_terms, dequantize_terms, fake_terms;
  // The least and the greatest of the finite elements, n of them `step` apart; lo and hi are in the computing type and widened.
  ByDType<void (*)(const void* x, int64_t step, int64_t n, void* lo, void* hi)> range;
  // The same for n elements that have a range each.
  ByDType<void (*)(const void* x, int64_t step, int64_t n, void* lo, void* hi, int64_t range_step)> ranges;
};
BARACUDA_ISA_TABLE(QuantizeKernels, quantize_kernels)

}  // namespace baracuda
