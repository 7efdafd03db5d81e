#pragma once
// What the ops of the family share: the shapes of scales, and tensors as operands of one map.
#include "baracuda/ops/elementwise/broadcast_sum.hpp"
#include "baracuda/ops/quantize/quantize.hpp"
#include "baracuda/ops/quantize/quantize_cpu.hpp"

namespace baracuda::quantize_detail {

// Fields that quantize and quantize_dynamic have in common.
Status validate_layout(std::string_view op, const QuantizeDescriptor& d);
DType scale_dtype(const QuantizeDescriptor& d);
Shape scale_shape(const QuantizeDescriptor& d);
int64_t least_code(const QuantizeDescriptor& d);
int64_t greatest_code(const QuantizeDescriptor& d);
// Zero point of absmax: the middle code, the upper one of two.
inline int64_t middle_code(const QuantizeDescriptor& d) { return (least_code(d) + greatest_code(d) + 1) >> 1; }
inline QuantizeDescriptor as_static(const QuantizeDynamicDescriptor& d) {
  return {d.dtype, d.shape, d.qdtype, d.by, d.axis, d.group_size, {}, 0, d.qmin, d.qmax};
}
Status expect_scales(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const QuantizeDescriptor& d);

// The shape that everything is a map over: by group, the last axis is split in two. Views become views of that rank; scales
// have extent 1 along what shares one.
Shape map_shape(const QuantizeDescriptor& d);
TensorView values_view(const QuantizeDescriptor& d, TensorView v);
TensorView scales_view(const QuantizeDescriptor& d, const TensorView& v);

struct Parameters { double of[3]; };  // of the maps
Parameters parameters(const QuantizeDescriptor& d);
// The scale and zero point of the descriptor as operands, where the arguments are absent.
struct HostScale {
  double f64 = 1;
  float f32 = 1;
  int32_t zero_point = 0;
  explicit HostScale(const QuantizeDescriptor& d) : f64(d.scale.value_or(1)), f32(float(f64)), zero_point(int32_t(d.zero_point)) {}
  MapOperand scale(const QuantizeDescriptor& d, const TensorView& given);
  MapOperand zero(const QuantizeDescriptor& d, const TensorView& given);
};

// in: values, scale, zero_point. Rows with one scale each are worked off as they lie, anything else as a map.
void run_loops(const Shape& shape, std::span<const MapOperand> in, const MapOperand& out, const QuantizeLoops& loops, const double* parameters,
               int threads);

}  // namespace baracuda::quantize_detail
