#include "baracuda/ops/gated/gated_quantize_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/gated/gated_quantize.hpp"

namespace baracuda {
namespace {

using device::Operand;
using Served = TypeList<f16, bf16, float>;

PrecisionGuarantee guarantee(const GatedDescriptor&) { return {.math_precision = DType::f32, .accumulator = DType::f32, .batch_invariant = true}; }
Status run_given(const Launch<GatedQuantize>& l) {
  const auto& a = l.args;
  const GatedQuantizeCuda g{l.desc.shape, {Operand::of(a.gate), Operand::of(a.up), Operand::of(a.y)}, a.scale.as<float>(), l.desc.alpha_or_default(), l.desc.limit_or_default()};
  return device::queue(l.stream, "gated_quantize.cuda.map", [&] { return gated_quantize_cuda_kernels.given[int(l.desc.kind)][l.desc.dtype](g, l.stream.handle); });
}
Status run_dynamic(const Launch<GatedQuantizeDynamic>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  const int last = d.shape.rank - 1;
  Shape outer = d.shape;
  outer.dim[last] = 0, outer.rank = last;
  Operand rows[] = {Operand::of(a.gate), Operand::of(a.up), Operand::of(a.y), Operand::of(a.scale)};
  GatedQuantizeRowsCuda p{};
  p.n = d.shape.last();
  for (int k = 0; k < 3; ++k) {
    p.step[k] = p.n == 1 ? 1 : rows[k].strides[last];
    rows[k].strides.dim[last] = 0, rows[k].strides.rank = last;
  }
  p.rows = device::walk<4>(outer, rows, -1, 1);
  if (p.rows.units == 0) return {};
  p.gate = a.gate.data, p.up = a.up.data, p.y = a.y.data, p.scale = a.scale.as<float>(), p.alpha = d.alpha_or_default(), p.limit = d.limit_or_default();
  return device::queue(l.stream, "gated_quantize_dynamic.cuda.rows", [&] { return gated_quantize_cuda_kernels.dynamic[int(d.kind)][d.dtype](p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<GatedQuantize>> cuda_kernels<GatedQuantize>() {
  static constexpr Kernel<GatedQuantize> list[] = {{.name = "gated_quantize.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                    .launch = launch_all<GatedQuantize>(Served{}, run_given), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<GatedQuantizeDynamic>> cuda_kernels<GatedQuantizeDynamic>() {
  static constexpr Kernel<GatedQuantizeDynamic> list[] = {{.name = "gated_quantize_dynamic.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                           .launch = launch_all<GatedQuantizeDynamic>(Served{}, run_dynamic), .guarantee = guarantee}};
  return list;
}

}  // namespace baracuda
