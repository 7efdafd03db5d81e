#include "baracuda/ops/copy/copy_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"

namespace baracuda {
namespace {

using device::Operand;
template <class Op> PrecisionGuarantee same_bits(const typename Op::Descriptor& d) {
  PrecisionGuarantee g = exact<Op>(d);
  g.same_on_cpu_and_cuda = true;
  return g;
}
Status run_cast(const Launch<Cast>& l) {
  const auto& d = l.desc;
  const CastLaunch f = (d.saturate ? cast_saturated_cuda : is_floating(d.dtype) ? cast_floats_cuda : cast_integers_cuda)[d.dtype][d.to];
  return device::queue(l.stream, "cast.cuda.map", [&] { return f(d.shape, Operand::of(l.args.x), Operand::of(l.args.y), l.stream.handle); });
}
Status run_cast_scaled(const Launch<CastScaled>& l) {
  const auto& [x, scale, y, amax] = l.args;
  const ScaledCast cast{l.desc.shape, Operand::of(x), Operand::of(y), scale.as<float>(), amax.absent() ? nullptr : static_cast<uint32_t*>(amax.data)};
  return device::queue(l.stream, "cast_scaled.cuda.map", [&] { return cast_scaled_cuda[l.desc.saturate][x.dtype][y.dtype](cast, l.stream.handle); });
}
Status run_copy(const Launch<Copy>& l) {
  return device::queue(l.stream, "copy.cuda.strided", [&] { return copy_on_device(l.desc.shape, Operand::of(l.args.x), Operand::of(l.args.y), l.stream.handle); });
}
Status run_fill(const Launch<Fill>& l) {
  const Bytes16 bits = bits_of(l.desc.dtype, l.args.value);
  return device::queue(l.stream, "fill.cuda.map", [&] { return fill_on_device(l.desc.shape, Operand::of(l.args.y), bits.a, bits.b, l.stream.handle); });
}
PrecisionGuarantee guarantee_scaled(const CastScaledDescriptor&) {
  return {.math_precision = DType::f32, .accumulator = DType::f32};  // amax is of all rows
}
using Scalable = decltype(join(TypeList<f16, bf16, float>{}, Float8{}));

}  // namespace

template <> std::span<const Kernel<Cast>> cuda_kernels<Cast>() {
  static constexpr Kernel<Cast> list[] = {{.name = "cast.cuda.map",
                                           .device = DeviceKind::cuda,
                                           .min_arch = 80,
                                           .launch = launch_all<Cast>(CastableOrFloat8{}, run_cast),
                                           .guarantee = same_bits<Cast>,
                                           .refuse = [](const CastDescriptor& d, const PlanPreference&) {
                                             return dtypes(CastableOrFloat8{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                           }}};
  return list;
}
template <> std::span<const Kernel<CastScaled>> cuda_kernels<CastScaled>() {
  static constexpr Kernel<CastScaled> list[] = {{.name = "cast_scaled.cuda.map",
                                                 .device = DeviceKind::cuda,
                                                 .min_arch = 80,
                                                 .launch = launch_all<CastScaled>(Scalable{}, run_cast_scaled),
                                                 .guarantee = guarantee_scaled,
                                                 .refuse = [](const CastScaledDescriptor& d, const PlanPreference&) {
                                                   return dtypes(Scalable{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                                 }}};
  return list;
}
template <> std::span<const Kernel<Copy>> cuda_kernels<Copy>() {
  static constexpr Kernel<Copy> list[] = {
      {.name = "copy.cuda.strided", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<Copy>(run_copy), .guarantee = same_bits<Copy>}};
  return list;
}
template <> std::span<const Kernel<Fill>> cuda_kernels<Fill>() {
  static constexpr Kernel<Fill> list[] = {
      {.name = "fill.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Fill>(CastableOrFloat8{}, run_fill), .guarantee = same_bits<Fill>}};
  return list;
}

}  // namespace baracuda
