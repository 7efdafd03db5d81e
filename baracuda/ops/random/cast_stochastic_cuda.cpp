#include "baracuda/ops/random/cast_stochastic_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/random/cast_stochastic.hpp"

namespace baracuda {
namespace {

using device::Operand;

Status run_cast(const Launch<CastStochastic>& l) {
  const auto& d = l.desc;
  const Operand operands[] = {Operand::of(l.args.x), Operand::of(l.args.y)};
  const CastStochasticCuda p{{l.args.seed, l.args.offset, d.shape.numel()}, device::walk<2>(d.shape, operands, -1, 1), l.args.x.data, l.args.y.data, d.saturate};
  if (p.words.n == 0) return {};
  return device::queue(l.stream, "cast_stochastic.cuda.philox", [&] { return cast_stochastic_cuda[d.dtype][d.to](p, l.stream.handle); });
}
PrecisionGuarantee guarantee(const CastStochasticDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
}

}  // namespace

template <> std::span<const Kernel<CastStochastic>> cuda_kernels<CastStochastic>() {
  static constexpr Kernel<CastStochastic> list[] = {{.name = "cast_stochastic.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                                     .launch = launch_all<CastStochastic>(Floating{}, run_cast), .guarantee = guarantee,
                                                     .refuse = CastStochastic::refusal}};
  return list;
}

}  // namespace baracuda
