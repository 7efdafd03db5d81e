#include "baracuda/ops/creation/creation_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"

namespace baracuda {
namespace {

using device::Operand;
template <class Op> PrecisionGuarantee same_bits(const typename Op::Descriptor& d) {
  PrecisionGuarantee g = exact<Op>(d);
  g.same_on_cpu_and_cuda = true;
  return g;
}
Status run_arange(const Launch<Arange>& l) {
  return device::queue(l.stream, "arange.cuda.map", [&] { return creation_cuda_kernels.arange[l.desc.dtype](l.desc, Operand::of(l.args.y), l.stream.handle); });
}
Status run_linspace(const Launch<Linspace>& l) {
  return device::queue(l.stream, "linspace.cuda.map", [&] { return creation_cuda_kernels.linspace[l.desc.dtype](l.desc, Operand::of(l.args.y), l.stream.handle); });
}
Status run_eye(const Launch<Eye>& l) {
  return device::queue(l.stream, "eye.cuda.map", [&] { return creation_cuda_kernels.eye(l.desc, bits_of(l.desc.dtype, 1).a, Operand::of(l.args.y), l.stream.handle); });
}
Status run_triangle_indices(const Launch<TriangleIndices>& l) {
  return device::queue(l.stream, "triangle_indices.cuda.search", [&] {
    return creation_cuda_kernels.triangle_indices[l.desc.dtype](l.desc, l.args.y.shape[1], Operand::of(l.args.y), l.stream.handle);
  });
}

}  // namespace

template <> std::span<const Kernel<Arange>> cuda_kernels<Arange>() {
  static constexpr Kernel<Arange> list[] = {{.name = "arange.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Arange>(Castable{}, run_arange), .guarantee = same_bits<Arange>}};
  return list;
}
template <> std::span<const Kernel<Linspace>> cuda_kernels<Linspace>() {
  static constexpr Kernel<Linspace> list[] = {
      {.name = "linspace.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Linspace>(Castable{}, run_linspace), .guarantee = same_bits<Linspace>}};
  return list;
}
template <> std::span<const Kernel<Eye>> cuda_kernels<Eye>() {
  static constexpr Kernel<Eye> list[] = {{.name = "eye.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Eye>(Castable{}, run_eye), .guarantee = same_bits<Eye>}};
  return list;
}
template <> std::span<const Kernel<TriangleIndices>> cuda_kernels<TriangleIndices>() {
  static constexpr Kernel<TriangleIndices> list[] = {{.name = "triangle_indices.cuda.search",
                                                      .device = DeviceKind::cuda,
                                                      .min_arch = 80,
                                                      .launch = launch_all<TriangleIndices>(TypeList<int32_t, int64_t>{}, run_triangle_indices),
                                                      .guarantee = same_bits<TriangleIndices>}};
  return list;
}

}  // namespace baracuda
