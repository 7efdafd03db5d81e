#include "baracuda/ops/random/categorical_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/random/categorical_detail.hpp"

namespace baracuda {
namespace {
using device::Operand;

constexpr int64_t kPart = 4096;  // elements of a race that a block takes

int64_t parts(const CategoricalDescriptor& d) { return (d.shape.last() + kPart - 1) / kPart; }
// One sample is the first place, whether it is put back or not.
bool sorted(const CategoricalDescriptor& d) { return !d.replacement && d.samples > 1; }
// What both ops need, and pieces of scratch that are empty where they are not.
CategoricalCuda carve_all(const CategoricalDescriptor& d, bool drawn, Carver& c) {
  CategoricalCuda p{};
  if (d.shape.numel() == 0) return p;
  p.n = d.shape.last(), p.row_count = d.shape.rows(), p.part = kPart, p.parts = parts(d);
  p.row = c.take<CategoricalRow>("rows", p.row_count);
  if (!drawn) return p;
  if (sorted(d)) {
    p.keys = c.take<uint64_t>("values of elements", d.shape.numel());
    p.s = device::carve_sort(c, d.shape.numel(), 4);
  } else if (p.parts > 1) p.winners = c.take<CategoricalWinner>("winners of parts", Shape{p.row_count, d.samples, p.parts}.numel());
  return p;
}
CategoricalCuda problem(const CategoricalDescriptor& d, bool drawn, const TensorView& x, const TensorView& y, Carver c) {
  CategoricalCuda p = carve_all(d, drawn, c);
  const int last = d.shape.rank - 1;
  Operand operands[] = {Operand::of(x), Operand::of(y)};
  for (Operand& o : operands) {
    Strides outer;
    for (int a = 0; a < last; ++a) outer.push_back(o.strides[a]);
    o.strides = outer;
  }
  p.rows = device::walk<2>(outer_axes(d.shape), operands, -1, 1);
  p.x = x.data, p.y = y.data, p.x_step = x.strides[last], p.y_step = y.strides[last];
  p.probabilities = d.kind == WeightKind::probabilities;
  p.temperature = d.temperature, p.top_p = d.top_p, p.min_p = d.min_p, p.top_k = d.top_k < p.n ? d.top_k : 0;
  p.samples = d.samples, p.need = d.replacement ? 1 : d.samples;
  return p;
}
template <class D> PrecisionGuarantee guarantee(const D&) {
  return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
Status run_categorical(const Launch<Categorical>& l) {
  const auto& a = l.args;
  if (a.y.numel() == 0) return {};
  CategoricalCuda p = problem(l.desc, true, a.x, a.y, l.carver());
  p.seed = a.seed, p.offset = a.offset;
  return device::queue(l.stream, "categorical.cuda.race", [&] { return categorical_cuda.categorical[l.desc.dtype](p, l.stream.handle); });
}
Status run_filter(const Launch<SamplingFilter>& l) {
  const auto& a = l.args;
  if (a.y.numel() == 0) return {};
  CategoricalCuda p = problem(as_categorical(l.desc), false, a.x, a.y, l.carver());
  p.shares = p.probabilities;
  return device::queue(l.stream, "sampling_filter.cuda.select", [&] { return categorical_cuda.filter[l.desc.dtype](p, l.stream.handle); });
}
std::string refuse(const CategoricalDescriptor& d, const PlanPreference&) {
  return sorted(d) && d.shape.numel() > INT32_MAX ? text("without replacement sorts 32-bit numbers: at most ", INT32_MAX, " elements in all rows") : std::string();
}

}  // namespace

template <> std::span<const Kernel<Categorical>> cuda_kernels<Categorical>() {
  static constexpr Kernel<Categorical> list[] = {{.name = "categorical.cuda.race", .device = DeviceKind::cuda, .min_arch = 80,
                                                  .launch = launch_all<Categorical>(Floating{}, run_categorical), .guarantee = guarantee<CategoricalDescriptor>, .refuse = refuse,
                                                  .carve = [](const CategoricalDescriptor& d, const void*, Carver& c) { (void)carve_all(d, true, c); }}};
  return list;
}
template <> std::span<const Kernel<SamplingFilter>> cuda_kernels<SamplingFilter>() {
  static constexpr Kernel<SamplingFilter> list[] = {{.name = "sampling_filter.cuda.select", .device = DeviceKind::cuda, .min_arch = 80,
                                                     .launch = launch_all<SamplingFilter>(Floating{}, run_filter), .guarantee = guarantee<SamplingFilterDescriptor>,
                                                     .carve = [](const SamplingFilterDescriptor& d, const void*, Carver& c) { (void)carve_all(as_categorical(d), false, c); }}};
  return list;
}

}  // namespace baracuda
