#include "baracuda/ops/copy/cast_codes_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/cast_codes.hpp"
#include "baracuda/ops/copy/cast_codes_detail.hpp"

namespace baracuda {
namespace {

using device::Operand;
using namespace cast_codes_detail;

template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
Status run_cast_e8m0(const Launch<CastE8m0>& l) {
  const auto& d = l.desc;
  const E8m0Cuda c{d.shape, Operand::of(l.args.x), Operand::of(l.args.y), d.rounding, d.saturate};
  return device::queue(l.stream, "cast_e8m0.cuda.map", [&] { return cast_codes_cuda_kernels.to_e8m0[d.dtype](c, l.stream.handle); });
}
Status run_cast_from_e8m0(const Launch<CastFromE8m0>& l) {
  const auto& d = l.desc;
  const E8m0Cuda c{d.shape, Operand::of(l.args.x), Operand::of(l.args.y), {}, false};
  return device::queue(l.stream, "cast_from_e8m0.cuda.map", [&] { return cast_codes_cuda_kernels.from_e8m0[d.dtype](c, l.stream.handle); });
}
template <class Kernels> Status packed(const Stream& stream, std::string_view kernel, const CastPackedDescriptor& d, const TensorView& values, const TensorView& codes, const Kernels& kernels) {
  const Pairs pairs(values);
  const Shape shape = d.codes_shape();
  const PackedCastCuda c{shape, {values.data, int(byte_size(d.dtype)) * (pairs.joined ? 2 : 1), pairs.strides}, Operand::of(codes), pairs.joined, pairs.step};
  return device::queue(stream, kernel, [&] { return kernels[int(d.format)][d.dtype](c, stream.handle); });
}
Status run_cast_packed(const Launch<CastPacked>& l) {
  return packed(l.stream, "cast_packed.cuda.map", l.desc, l.args.x, l.args.y, cast_codes_cuda_kernels.to_packed);
}
Status run_cast_from_packed(const Launch<CastFromPacked>& l) {
  return packed(l.stream, "cast_from_packed.cuda.map", l.desc, l.args.y, l.args.x, cast_codes_cuda_kernels.from_packed);
}

}  // namespace

template <> std::span<const Kernel<CastE8m0>> cuda_kernels<CastE8m0>() {
  static constexpr Kernel<CastE8m0> list[] = {{.name = "cast_e8m0.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                               .launch = launch_all<CastE8m0>(Floating{}, run_cast_e8m0), .guarantee = guarantee<CastE8m0Descriptor>}};
  return list;
}
template <> std::span<const Kernel<CastFromE8m0>> cuda_kernels<CastFromE8m0>() {
  static constexpr Kernel<CastFromE8m0> list[] = {{.name = "cast_from_e8m0.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                   .launch = launch_all<CastFromE8m0>(Floating{}, run_cast_from_e8m0), .guarantee = guarantee<CastFromE8m0Descriptor>}};
  return list;
}
template <> std::span<const Kernel<CastPacked>> cuda_kernels<CastPacked>() {
  static constexpr Kernel<CastPacked> list[] = {{.name = "cast_packed.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                 .launch = launch_all<CastPacked>(PackedValues{}, run_cast_packed), .guarantee = guarantee<CastPackedDescriptor>}};
  return list;
}
template <> std::span<const Kernel<CastFromPacked>> cuda_kernels<CastFromPacked>() {
  static constexpr Kernel<CastFromPacked> list[] = {{.name = "cast_from_packed.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                     .launch = launch_all<CastFromPacked>(PackedValues{}, run_cast_from_packed), .guarantee = guarantee<CastPackedDescriptor>}};
  return list;
}

}  // namespace baracuda
