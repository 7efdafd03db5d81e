#include "baracuda/ops/random/token_penalty_cuda.hpp"
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/random/integers.hpp"
#include "baracuda/ops/random/token_penalty.hpp"

namespace baracuda {
namespace {
using device::Operand;

uint32_t* carve_counts(const TokenPenaltyDescriptor& d, Carver& c) { return c.take<uint32_t>("counts", d.shape.numel()); }
Status run_penalty(const Launch<TokenPenalty>& l) {
  const auto& d = l.desc;
  const auto& a = l.args;
  if (a.y.numel() == 0) return {};
  Carver c = l.carver();
  TokenPenaltyCuda p{};
  p.counts = carve_counts(d, c);
  const int last = d.shape.rank - 1;
  Strides rows = d.shape.contiguous();
  rows[last] = 0;  // all entries of a row have its first count
  const TensorView* lists[] = {&a.tokens, &a.prompt};
  for (int k = 0; k < 2; ++k) {
    if (lists[k]->absent()) continue;
    const Operand operands[] = {Operand::of(*lists[k]), {p.counts, 4, rows}};
    p.list[k] = {device::walk<2>(lists[k]->shape, operands, -1, 1), lists[k]->data};
  }
  const TensorView* factors[] = {&a.repetition, &a.frequency, &a.presence};
  Operand operands[5] = {Operand::of(a.x), Operand::of(a.y)};
  for (int k = 0; k < 3; ++k) {
    p.factor[k] = factors[k]->absent() ? nullptr : factors[k]->as<float>();
    operands[2 + k] = Operand::of(*factors[k]);
    if (p.factor[k]) operands[2 + k].strides.push_back(0);
  }
  p.otherwise[0] = d.repetition, p.otherwise[1] = d.frequency, p.otherwise[2] = d.presence;
  p.walk = device::walk<5>(d.shape, operands, -1, 1);
  p.i64 = d.index_dtype == DType::i64, p.x = a.x.data, p.y = a.y.data, p.vocabulary = d.shape.last(), p.in_place = a.x.data == a.y.data;
  return device::queue(l.stream, "token_penalty.cuda.counts", [&] { return token_penalty_cuda[d.dtype](p, l.stream.handle); });
}

// One sort for all rows: their elements and, with the row's number, the rows have 32 bits.
std::string refuse_randperm(const RandpermDescriptor& d, const PlanPreference&) {
  return d.shape.numel() > INT32_MAX ? text("sorts 32-bit numbers: at most ", INT32_MAX, " elements in all rows") : std::string();
}
device::SortedRows carve_randperm(const RandpermDescriptor& d, Carver& c) { return device::carve_sort(c, d.shape.numel(), 4); }
Status run_randperm(const Launch<Randperm>& l) {
  const auto& d = l.desc;
  if (d.shape.numel() == 0) return {};
  Carver c = l.carver();
  const Operand y[] = {Operand::of(l.args.y)};
  const RandpermCuda p{carve_randperm(d, c), device::walk<1>(d.shape, y, -1, 1), l.args.y.data, l.args.seed, l.args.offset, d.shape.last(), d.shape.numel() / d.shape.last()};
  return device::queue(l.stream, "randperm.cuda.sorted", [&] { return randperm_cuda[std::countr_zero(byte_size(d.dtype))](p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<TokenPenalty>> cuda_kernels<TokenPenalty>() {
  static constexpr Kernel<TokenPenalty> list[] = {{.name = "token_penalty.cuda.counts", .device = DeviceKind::cuda, .min_arch = 80,
                                                   .launch = launch_all<TokenPenalty>(Floating{}, run_penalty),
                                                   .guarantee = [](const TokenPenaltyDescriptor&) -> PrecisionGuarantee {
                                                     return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
                                                   },
                                                   .carve = [](const TokenPenaltyDescriptor& d, const void*, Carver& c) { (void)carve_counts(d, c); }}};
  return list;
}
template <> std::span<const Kernel<Randperm>> cuda_kernels<Randperm>() {
  static constexpr Kernel<Randperm> list[] = {{.name = "randperm.cuda.sorted", .device = DeviceKind::cuda, .min_arch = 80,
                                               .launch = launch_all<Randperm>(Integers{}, run_randperm),
                                               .guarantee = [](const RandpermDescriptor& d) -> PrecisionGuarantee {
                                                 return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
                                               },
                                               .refuse = refuse_randperm,
                                               .carve = [](const RandpermDescriptor& d, const void*, Carver& c) { (void)carve_randperm(d, c); }}};
  return list;
}

}  // namespace baracuda
