#include "baracuda/ops/random/cast_stochastic.hpp"
#include "baracuda/ops/random/cast_stochastic_cpu.hpp"
#include "baracuda/ops/random/random_words.hpp"

namespace baracuda {
namespace {

Status run_cast(const Launch<CastStochastic>& l) {
  const auto& d = l.desc;
  const auto cast = BARACUDA_ISA_PICK(cast_stochastic_kernels).cast[d.dtype][d.to];
  random_detail::for_words(d.shape, {MapOperand::of(l.args.x)}, {MapOperand::of(l.args.y)}, l.args.seed, l.args.offset, l.threads,
                           [&](void* const* at, const uint32_t* w, int64_t n, int64_t) { cast(at[0], w, at[1], n, d.saturate); });
  return {};
}
PrecisionGuarantee guarantee(const CastStochasticDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

}  // namespace

Status CastStochastic::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.to)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status CastStochastic::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.to, d.shape);
}
std::string CastStochastic::refusal(const Descriptor& d, const PlanPreference&) {
  return dtypes(StochasticTo{}).has(d.to) ? std::string() : text("no cast to ", d.to);
}
std::span<const Kernel<CastStochastic>> CastStochastic::kernels() {
  static constexpr Kernel<CastStochastic> list[] = {
      {.name = "cast_stochastic.cpu.philox", .launch = launch_all<CastStochastic>(Floating{}, run_cast), .guarantee = guarantee, .refuse = refusal}};
  return list;
}

}  // namespace baracuda
