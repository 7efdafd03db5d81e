#pragma once
// What the instruction-set units of the family export. Maps take scale in the computing type and zero_point in i32 for every element.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

// Rows of n dense elements that have one scale each.
struct QuantizeRows {
  const void *in[2], *scale;  // in: as of the map, without scale and zero_point
  const int32_t* zero_point;
  void* out;
  int64_t in_pitch[2], scale_pitch, zero_pitch, out_pitch, rows, n;
  const double* parameters;
  bool past;                  // out is too large for the caches
};
// The same arithmetic over any elements and over rows. Parameters: the least and the greatest code, 1 where codes are i8.
struct QuantizeLoops {
  MapRun map;
  void (*rows)(const QuantizeRows&);
};
struct QuantizeKernels {
  ByDType<QuantizeLoops> quantize;             // x, scale, zero_point -> code
  ByDType<QuantizeLoops> dequantize;           // code, scale, zero_point -> y
  ByDType<QuantizeLoops> fake;                 // x, scale, zero_point -> y
  ByDType<QuantizeLoops> quantize_backward;    // dy, x, scale, zero_point -> dx
  ByDType<QuantizeLoops> dequantize_backward;  // dy, scale, zero_point -> dx
  ByDType<QuantizeLoops> fake_backward;        // dy, x, scale, zero_point -> dx
  // dy, x or code, scale, zero_point -> the terms of dscale and dzero_point, in the computing type.
  ByDType<MapRun> quantize_terms, dequantize_terms, fake_terms;
  // The least and the greatest of the finite elements of rows: n elements `step` apart, lo and hi in the computing type and widened.
  ByDType<void (*)(const void* x, int64_t step, int64_t pitch, int64_t n, int64_t rows, void* lo, void* hi)> range;
  // The same for n elements that have a range each.
  ByDType<void (*)(const void* x, int64_t step, int64_t n, void* lo, void* hi, int64_t range_step)> ranges;
};
BARACUDA_ISA_TABLE_BF16(QuantizeKernels, quantize_kernels)

}  // namespace baracuda
