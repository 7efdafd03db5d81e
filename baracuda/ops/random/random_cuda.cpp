#include "baracuda/ops/random/random_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/random/random_detail.hpp"

namespace baracuda {
namespace {

template <class Op> Status run(const Launch<Op>& l) {
  const RandomNumbers n = random_detail::numbers(l.desc, l.args);
  const device::Operand y[1] = {device::Operand::of(l.args.y)};
  const RandomCuda p{device::walk<1>(l.desc.shape, y, -1, 1), l.args.y.data, n.seed, n.first, n.base, n.factor, n.most};
  if (p.walk.units == 0) return {};
  const auto& k = random_cuda_kernels;
  const auto& kernel = std::is_same_v<Op, RandomUniform> ? k.uniform : std::is_same_v<Op, RandomNormal> ? k.normal : std::is_same_v<Op, RandomExponential> ? k.exponential : k.gumbel;
  return device::queue(l.stream, Op::name, [&] { return kernel[l.desc.dtype](p, l.stream.handle); });
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
template <class Op> constexpr Kernel<Op> row(std::string_view name) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Op>(Floating{}, run<Op>), .guarantee = guarantee<typename Op::Descriptor>};
}

}  // namespace

template <> std::span<const Kernel<RandomUniform>> cuda_kernels<RandomUniform>() {
  static constexpr Kernel<RandomUniform> list[] = {row<RandomUniform>("random_uniform.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomNormal>> cuda_kernels<RandomNormal>() {
  static constexpr Kernel<RandomNormal> list[] = {row<RandomNormal>("random_normal.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomExponential>> cuda_kernels<RandomExponential>() {
  static constexpr Kernel<RandomExponential> list[] = {row<RandomExponential>("random_exponential.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomGumbel>> cuda_kernels<RandomGumbel>() {
  static constexpr Kernel<RandomGumbel> list[] = {row<RandomGumbel>("random_gumbel.cuda.philox")};
  return list;
}

}  // namespace baracuda
