#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_packed.hpp"

namespace baracuda {
namespace {

using device::Operand;

QuantizePackedCuda problem(const QuantizePackedDescriptor& d, const TensorView& values, const TensorView& codes, const TensorView& scale, const TensorView& global,
                           const TensorView& zero) {
  constexpr int kUnit = 8;
  const int last = d.shape.rank - 1;
  QuantizePackedCuda p{};
  Shape outer = d.shape;
  outer.dim[last] = 0, outer.rank = last;
  Operand rows[] = {Operand::of(values), Operand::of(codes), Operand::of(scale), Operand::of(zero)};
  int64_t* const steps[] = {&p.value_step, &p.code_step, &p.scale_step, &p.zero_step};
  p.size = d.block(), p.blocks = d.shape.last() / p.size;
  p.whole = p.size % kUnit == 0;
  for (int k = 0; k < 4; ++k) {
    if (!rows[k].data) continue;
    *steps[k] = rows[k].strides[last], rows[k].strides.dim[last] = 0, rows[k].strides.rank = last;
    if (k > 1) continue;
    const int unit = k == 0 ? kUnit : kUnit / 2;
    p.whole = p.whole && *steps[k] == 1 && uintptr_t(rows[k].data) % uintptr_t(unit * rows[k].bytes) == 0;
    for (int a = 0; a < last; ++a) p.whole = p.whole && (outer[a] == 1 || rows[k].strides[a] % unit == 0);
  }
  p.rows = device::walk<4>(outer, rows, -1, 1);
  p.values = values.data, p.codes = static_cast<const uint8_t*>(codes.data), p.scale = scale.data;
  p.global_scale = global.absent() ? nullptr : global.as<float>(), p.zero_point = zero.absent() ? nullptr : zero.as<int32_t>();
  p.format = d.format;
  return p;
}
Status run_quantize(const Launch<QuantizePacked>& l) {
  const auto& a = l.args;
  if (a.x.numel() == 0) return {};
  return device::queue(l.stream, "quantize_packed.cuda.blocks", [&] {
    return quantize_packed_cuda_kernels.quantize[l.desc.dtype](problem(l.desc, a.x, a.y, a.scale, a.global_scale, {}), l.stream.handle);
  });
}
Status run_dequantize(const Launch<DequantizePacked>& l) {
  const auto& a = l.args;
  if (a.y.numel() == 0) return {};
  return device::queue(l.stream, "dequantize_packed.cuda.table", [&] {
    return quantize_packed_cuda_kernels.dequantize[l.desc.dtype](problem(l.desc, a.y, a.x, a.scale, a.global_scale, a.zero_point), l.stream.handle);
  });
}
template <DType kMath> PrecisionGuarantee guarantee(const QuantizePackedDescriptor&) { return {.math_precision = kMath, .accumulator = kMath, .batch_invariant = true}; }

}  // namespace

template <> std::span<const Kernel<QuantizePacked>> cuda_kernels<QuantizePacked>() {
  static constexpr Kernel<QuantizePacked> list[] = {{.name = "quantize_packed.cuda.blocks", .device = DeviceKind::cuda, .min_arch = 80,
                                                     .launch = launch_all<QuantizePacked>(Floating{}, run_quantize), .guarantee = guarantee<DType::f64>}};
  return list;
}
template <> std::span<const Kernel<DequantizePacked>> cuda_kernels<DequantizePacked>() {
  static constexpr Kernel<DequantizePacked> list[] = {{.name = "dequantize_packed.cuda.table", .device = DeviceKind::cuda, .min_arch = 80,
                                                       .launch = launch_all<DequantizePacked>(Floating{}, run_dequantize), .guarantee = guarantee<DType::f32>}};
  return list;
}

}  // namespace baracuda
