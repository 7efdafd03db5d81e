#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/gated/gated.hpp"
#include "baracuda/ops/gated/gated_cuda.hpp"

namespace baracuda {
namespace {

PrecisionGuarantee guarantee(const GatedDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true,
          .same_on_cpu_and_cuda = accumulator(d.dtype) == d.dtype};
}
Status run_forward(const Launch<Gated>& l) {
  using device::Operand;
  const GatedMap map{l.desc.shape, {Operand::of(l.args.gate), Operand::of(l.args.up), Operand::of(l.args.y)}, l.desc.alpha_or_default(), l.desc.limit_or_default()};
  return device::queue(l.stream, "gated.cuda.map", [&] { return gated_cuda_kernels.forward[int(l.desc.kind)][l.desc.dtype](map, l.stream.handle); });
}
Status run_backward(const Launch<GatedBackward>& l) {
  using device::Operand;
  const auto& a = l.args;
  if (a.dgate.absent() && a.dup.absent()) return {};
  const GatedMap map{l.desc.shape, {Operand::of(a.dy), Operand::of(a.gate), Operand::of(a.up), Operand::of(a.dgate), Operand::of(a.dup)}, l.desc.alpha_or_default(), l.desc.limit_or_default()};
  return device::queue(l.stream, "gated_backward.cuda.map", [&] { return gated_cuda_kernels.backward[int(l.desc.kind)][l.desc.dtype](map, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<Gated>> cuda_kernels<Gated>() {
  static constexpr Kernel<Gated> list[] = {{.name = "gated.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Gated>(Floating{}, run_forward), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<GatedBackward>> cuda_kernels<GatedBackward>() {
  static constexpr Kernel<GatedBackward> list[] = {
      {.name = "gated_backward.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<GatedBackward>(Floating{}, run_backward), .guarantee = guarantee}};
  return list;
}

}  // namespace baracuda
