#include "baracuda/ops/random/random_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/random/random_detail.hpp"

namespace baracuda {
namespace {

using Draws = ByDType<RandomCudaFn> RandomCudaKernels::*;
template <class Op, Draws kDraws> Status run(const Launch<Op>& l) {
  const RandomNumbers n = random_detail::numbers(l.desc, l.args);
  const device::Operand y[1] = {device::Operand::of(l.args.y)};
  const RandomCuda p{device::walk<1>(l.desc.shape, y, -1, 1), l.args.y.data, n.seed, n.first, n.base, n.factor, n.most, n.low, n.span, n.least};
  if (p.walk.units == 0) return {};
  return device::queue(l.stream, Op::name, [&] { return (random_cuda_kernels.*kDraws)[l.desc.dtype](p, l.stream.handle); });
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
template <class Op, Draws kDraws> constexpr Kernel<Op> row(std::string_view name) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Op>(Floating{}, run<Op, kDraws>), .guarantee = guarantee<typename Op::Descriptor>};
}

}  // namespace

template <> std::span<const Kernel<RandomUniform>> cuda_kernels<RandomUniform>() {
  static constexpr Kernel<RandomUniform> list[] = {row<RandomUniform, &RandomCudaKernels::uniform>("random_uniform.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomNormal>> cuda_kernels<RandomNormal>() {
  static constexpr Kernel<RandomNormal> list[] = {row<RandomNormal, &RandomCudaKernels::normal>("random_normal.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomExponential>> cuda_kernels<RandomExponential>() {
  static constexpr Kernel<RandomExponential> list[] = {row<RandomExponential, &RandomCudaKernels::exponential>("random_exponential.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomGumbel>> cuda_kernels<RandomGumbel>() {
  static constexpr Kernel<RandomGumbel> list[] = {row<RandomGumbel, &RandomCudaKernels::gumbel>("random_gumbel.cuda.philox")};
  return list;
}

template <> std::span<const Kernel<RandomLaplace>> cuda_kernels<RandomLaplace>() {
  static constexpr Kernel<RandomLaplace> list[] = {row<RandomLaplace, &RandomCudaKernels::laplace>("random_laplace.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomCauchy>> cuda_kernels<RandomCauchy>() {
  static constexpr Kernel<RandomCauchy> list[] = {row<RandomCauchy, &RandomCudaKernels::cauchy>("random_cauchy.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomLogistic>> cuda_kernels<RandomLogistic>() {
  static constexpr Kernel<RandomLogistic> list[] = {row<RandomLogistic, &RandomCudaKernels::logistic>("random_logistic.cuda.philox")};
  return list;
}
template <> std::span<const Kernel<RandomTruncatedNormal>> cuda_kernels<RandomTruncatedNormal>() {
  static constexpr Kernel<RandomTruncatedNormal> list[] = {row<RandomTruncatedNormal, &RandomCudaKernels::truncated_normal>("random_truncated_normal.cuda.philox")};
  return list;
}

}  // namespace baracuda
