#include "baracuda/ops/random/random.hpp"
#include <cmath>
#include "baracuda/math/half.hpp"
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/elementwise/normal_math.hpp"
#include "baracuda/ops/random/random_detail.hpp"

namespace baracuda {
namespace {

template <class D> Status validate_tensor(std::string_view op, const D& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  return expect_shape(op, "shape", d.shape);
}
// v as the dtype has it.
double in_dtype(DType t, double v) {
  static constexpr auto round = by_dtype<double (*)(double)>(Floating{}, []<class T>() { return +[](double x) { return to_double(from_double<T>(x)); }; });
  return round[t] ? round[t](v) : v;
}
// The largest value of the dtype below v, which is one of its values.
template <class T> double half_below(double v) {
  const uint16_t bits = from_double<T>(v).bits;
  return to_double(v == 0 ? T{0x8001} : T{uint16_t(v > 0 ? bits - 1 : bits + 1)});
}
double below(DType t, double v) {
  if (t == DType::f64) return std::nextafter(v, -INFINITY);
  if (t == DType::f32) return std::nextafter(float(v), -INFINITY);
  return t == DType::f16 ? half_below<f16>(v) : half_below<bf16>(v);
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
void run_numbers(const Shape& shape, const TensorView& y, void (*kernel)(const RandomNumbers&), RandomNumbers p, int threads) {
  MapWalk walk;
  const MapOperand out = MapOperand::of(y);
  walk.init(shape, {}, {&out, 1}, false);  // elements are numbered in row-major order, whatever the strides
  const bool direct = walk.direct();
  const uint64_t offset = p.first;
  parallel_for(walk.size(), 4096, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) char block[kMapBlock * 8];
    RandomNumbers piece = p;
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, direct ? end - i : end - i < kMapBlock ? end - i : kMapBlock);
      piece.first = offset + uint64_t(i), piece.n = n;
      piece.y = walk.fetch(0, i, n, block, false);
      kernel(piece);
      walk.put(0, i, n, piece.y);
    }
  });
}
using Draws = ByDType<void (*)(const RandomNumbers&)> RandomKernels::*;
template <class Op, Draws kDraws> Status run(const Launch<Op>& l) {
  run_numbers(l.desc.shape, l.args.y, (BARACUDA_ISA_PICK(random_kernels).*kDraws)[l.desc.dtype], random_detail::numbers(l.desc, l.args), l.threads);
  return {};
}
template <class Op, Draws kDraws> constexpr Kernel<Op> row(std::string_view name) {
  return {.name = name, .launch = launch_all<Op>(Floating{}, run<Op, kDraws>), .guarantee = guarantee<typename Op::Descriptor>};
}
Status validate_location_scale(std::string_view op, const LocationScaleDescriptor& d) {
  BARACUDA_TRY(validate_tensor(op, d));
  if (!std::isfinite(d.loc)) return invalid(op, text("loc ", d.loc, " is not finite"));
  if (!std::isfinite(d.scale) || !(d.scale > 0)) return invalid(op, text("scale ", d.scale, " is not finite and > 0"));
  return {};
}
// The interval of (y - mean) / std, on the side of the lower tail, and the sign that takes it there.
struct Cut { double least, most, low, span, sign; };
Cut cut_of(const RandomTruncatedNormalDescriptor& d) {
  const double a = (d.lo - d.mean) / d.std, b = (d.hi - d.mean) / d.std;
  Cut c{a, b, 0, 0, 1};
  if (a > 0) c = {-b, -a, 0, 0, -1};
  const auto below = [](double z) { return elementwise::ndtr(Pack<double, 1>(z)).v; };
  c.low = below(c.least), c.span = below(c.most) - c.low;
  return c;
}

}  // namespace

RandomNumbers random_detail::numbers(const RandomTruncatedNormalDescriptor& d, const RandomUniform::Args& a) {
  const Cut c = cut_of(d);
  return {a.seed, a.offset, d.mean, c.sign * d.std, c.most, nullptr, 0, c.low, c.span, c.least};
}
RandomNumbers random_detail::numbers(const RandomUniformDescriptor& d, const RandomUniform::Args& a) {
  const double lo = in_dtype(d.dtype, d.lo), hi = in_dtype(d.dtype, d.hi);
  return {a.seed, a.offset, lo, hi - lo, hi > lo ? below(d.dtype, hi) : lo, nullptr, 0};
}

Status RandomUniform::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  const double lo = in_dtype(d.dtype, d.lo), hi = in_dtype(d.dtype, d.hi);
  if (!std::isfinite(lo) || !std::isfinite(hi)) return invalid(name, text("lo ", d.lo, " and hi ", d.hi, " must be finite in ", d.dtype));
  if (d.lo > d.hi) return invalid(name, text("lo ", d.lo, " is above hi ", d.hi));
  if (!std::isfinite(d.dtype == DType::f64 ? hi - lo : double(float(hi - lo))))
    return invalid(name, text("hi - lo overflows: lo ", d.lo, ", hi ", d.hi));
  return {};
}
Status RandomUniform::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomUniform>> RandomUniform::kernels() {
  static constexpr Kernel<RandomUniform> list[] = {row<RandomUniform, &RandomKernels::uniform>("random_uniform.cpu.philox")};
  return list;
}

Status RandomNormal::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (!std::isfinite(d.mean)) return invalid(name, text("mean ", d.mean, " is not finite"));
  if (!std::isfinite(d.std) || d.std < 0) return invalid(name, text("std ", d.std, " is not finite and >= 0"));
  return {};
}
Status RandomNormal::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomNormal>> RandomNormal::kernels() {
  static constexpr Kernel<RandomNormal> list[] = {row<RandomNormal, &RandomKernels::normal>("random_normal.cpu.philox")};
  return list;
}

Status RandomExponential::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (!std::isfinite(d.rate) || !(d.rate > 0)) return invalid(name, text("rate ", d.rate, " is not finite and > 0"));
  return {};
}
Status RandomExponential::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomExponential>> RandomExponential::kernels() {
  static constexpr Kernel<RandomExponential> list[] = {row<RandomExponential, &RandomKernels::exponential>("random_exponential.cpu.philox")};
  return list;
}

Status RandomGumbel::validate(const Descriptor& d) { return validate_location_scale(name, d); }
Status RandomGumbel::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomGumbel>> RandomGumbel::kernels() {
  static constexpr Kernel<RandomGumbel> list[] = {row<RandomGumbel, &RandomKernels::gumbel>("random_gumbel.cpu.philox")};
  return list;
}

Status RandomLaplace::validate(const Descriptor& d) { return validate_location_scale(name, d); }
Status RandomLaplace::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomLaplace>> RandomLaplace::kernels() {
  static constexpr Kernel<RandomLaplace> list[] = {row<RandomLaplace, &RandomKernels::laplace>("random_laplace.cpu.philox")};
  return list;
}

Status RandomCauchy::validate(const Descriptor& d) { return validate_location_scale(name, d); }
Status RandomCauchy::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomCauchy>> RandomCauchy::kernels() {
  static constexpr Kernel<RandomCauchy> list[] = {row<RandomCauchy, &RandomKernels::cauchy>("random_cauchy.cpu.philox")};
  return list;
}

Status RandomLogistic::validate(const Descriptor& d) { return validate_location_scale(name, d); }
Status RandomLogistic::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomLogistic>> RandomLogistic::kernels() {
  static constexpr Kernel<RandomLogistic> list[] = {row<RandomLogistic, &RandomKernels::logistic>("random_logistic.cpu.philox")};
  return list;
}

Status RandomTruncatedNormal::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (!std::isfinite(d.mean)) return invalid(name, text("mean ", d.mean, " is not finite"));
  if (!std::isfinite(d.std) || !(d.std > 0)) return invalid(name, text("std ", d.std, " is not finite and > 0"));
  if (!(d.lo < d.hi)) return invalid(name, text("lo ", d.lo, " is not below hi ", d.hi));
  const double span = cut_of(d).span, least = d.dtype == DType::f64 ? 0x1p-1022 : 0x1p-126;
  if (!(span >= least)) return invalid(name, text("the interval from lo ", d.lo, " to hi ", d.hi, " has the probability ", span, ", it must be at least ", least));
  return {};
}
Status RandomTruncatedNormal::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomTruncatedNormal>> RandomTruncatedNormal::kernels() {
  static constexpr Kernel<RandomTruncatedNormal> list[] = {row<RandomTruncatedNormal, &RandomKernels::truncated_normal>("random_truncated_normal.cpu.philox")};
  return list;
}

}  // namespace baracuda
