#pragma once
// What the kernel files of the family export to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/sum_shape.hpp"
#include "baracuda/ops/quantize/quantize_format.hpp"

namespace baracuda {

// Values (one or two), scale, zero point, output; by group `shape` has the last axis in two. Scale and zero point without data are these.
struct QuantizeMap {
  const Shape& shape;
  device::Operand operand[5];
  double parameters[2];  // the least and the greatest code
  double scale = 1, zero_point = 0;
};
using QuantizeLaunch = int (*)(const QuantizeMap&, void* stream);
struct QuantizeSum {
  device::SumOperands sum;  // dy, x or codes, scale, zero point
  double parameters[2], scale = 1, zero_point = 0;
};
struct QuantizeSumLaunch {
  int lanes = 1;
  int (*run)(const QuantizeSum&, void* stream) = nullptr;
};
// By the values' dtype; where codes are read by whether they are i8.
struct QuantizeCudaKernels {
  ByDType<QuantizeLaunch> quantize, dequantize[2], fake, quantize_backward, dequantize_backward, fake_backward;
};
struct QuantizeSumCudaKernels {
  ByDType<QuantizeSumLaunch> quantize, dequantize[2], fake;
  ByDType<int (*)(const Shape& shape, const device::Operand& v, double factor, void* stream)> multiply;  // v *= factor, of scales' dtypes
};
extern const QuantizeCudaKernels quantize_cuda_kernels;
extern const QuantizeSumCudaKernels quantize_sum_cuda_kernels;

// Gradients where what shares a scale is a dense row of n elements, of fake_quantize and dequantize.
struct QuantizeGradients {
  device::Walk<7> rows;  // dy, x or codes, scale, zero point, dx, dscale, dzero_point
  const void *dy, *x, *scale;
  const int32_t* zero_point;
  void *dx, *dscale, *dzero;  // null: not wanted
  int64_t n;
  double parameters[2], host_scale, host_zero, grad_factor;
  bool whole;
  int64_t parts;         // of a row; more than one: their sums are in partial, two each
  double* partial;
  int team;              // of threads, and units of a part: set at the launch
  int64_t part;
};
struct QuantizeGradientsCudaKernels { ByDType<int (*)(const QuantizeGradients&, void* stream)> fake, dequantize[2]; };
extern const QuantizeGradientsCudaKernels quantize_gradients_cuda_kernels;

// quantize_dynamic. `ranges`: two words of the computing type's size per scale, in the scales' row-major order.
struct QuantizeRanges {
  device::Walk<2> walk;   // x, and its scale's place
  int64_t period;         // units after which the places are the same again
  const void* x;
  void* ranges;
  int64_t scales;
  device::Walk<2> out;    // scale and zero point
  void* scale;
  int32_t* zero_point;    // null: not wanted
  double least, greatest, middle;
  bool symmetric;
};
// Rows that have a scale each and fit on chip: range, scale and codes in one kernel.
struct QuantizeDynamicRows {
  device::Walk<4> rows;   // x, y, scale, zero point
  const void* x;
  void *y, *scale;
  int32_t* zero_point;
  int64_t n;
  double least, greatest, middle;
  bool symmetric, whole;  // every chunk of x and y is one access
  int team;               // of threads, set at the launch
};
struct QuantizeDynamicCudaKernels {
  int64_t longest;        // of rows(), in elements
  int (*rows)(const QuantizeDynamicRows&, void* stream);
  int lanes;              // of a unit of ranges
  int (*ranges)(const QuantizeRanges&, void* stream);
};
extern const ByDType<QuantizeDynamicCudaKernels> quantize_dynamic_cuda_kernels;

// Blocks of the last axis.
struct QuantizePackedCuda {
  device::Walk<4> rows;       // values, codes, scale, zero point
  const void* values;         // x of quantize_packed, y of dequantize_packed
  const uint8_t* codes;
  const void* scale;
  const float* global_scale;  // null: 1
  const int32_t* zero_point;  // null: 8
  int64_t size, blocks;       // elements of a block, blocks of a row
  int64_t value_step, code_step, scale_step, zero_step;
  PackedFormat format;
  bool whole;                 // whole: eight values and their codes are one access each, and of one block
};
struct QuantizePackedCudaKernels { ByDType<int (*)(const QuantizePackedCuda&, void* stream)> quantize, dequantize; };
extern const QuantizePackedCudaKernels quantize_packed_cuda_kernels;

}  // namespace baracuda
