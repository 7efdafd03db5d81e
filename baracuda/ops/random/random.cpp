#include "baracuda/ops/random/random.hpp"
#include <cmath>
#include "baracuda/math/half.hpp"
#include "baracuda/ops/elementwise/map.hpp"
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
template <class Op> Status run(const Launch<Op>& l) {
  const RandomKernels& k = BARACUDA_ISA_PICK(random_kernels);
  const auto& kernel = std::is_same_v<Op, RandomUniform> ? k.uniform : std::is_same_v<Op, RandomNormal> ? k.normal : std::is_same_v<Op, RandomExponential> ? k.exponential : k.gumbel;
  run_numbers(l.desc.shape, l.args.y, kernel[l.desc.dtype], random_detail::numbers(l.desc, l.args), l.threads);
  return {};
}

}  // namespace

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
  static constexpr Kernel<RandomUniform> list[] = {{.name = "random_uniform.cpu.philox",
                                                    .launch = launch_all<RandomUniform>(Floating{}, run<RandomUniform>),
                                                    .guarantee = guarantee<Descriptor>}};
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
  static constexpr Kernel<RandomNormal> list[] = {{.name = "random_normal.cpu.philox",
                                                   .launch = launch_all<RandomNormal>(Floating{}, run<RandomNormal>),
                                                   .guarantee = guarantee<Descriptor>}};
  return list;
}

Status RandomExponential::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (!std::isfinite(d.rate) || !(d.rate > 0)) return invalid(name, text("rate ", d.rate, " is not finite and > 0"));
  return {};
}
Status RandomExponential::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomExponential>> RandomExponential::kernels() {
  static constexpr Kernel<RandomExponential> list[] = {
      {.name = "random_exponential.cpu.philox", .launch = launch_all<RandomExponential>(Floating{}, run<RandomExponential>), .guarantee = guarantee<Descriptor>}};
  return list;
}

Status RandomGumbel::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (!std::isfinite(d.loc)) return invalid(name, text("loc ", d.loc, " is not finite"));
  if (!std::isfinite(d.scale) || !(d.scale > 0)) return invalid(name, text("scale ", d.scale, " is not finite and > 0"));
  return {};
}
Status RandomGumbel::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomGumbel>> RandomGumbel::kernels() {
  static constexpr Kernel<RandomGumbel> list[] = {
      {.name = "random_gumbel.cpu.philox", .launch = launch_all<RandomGumbel>(Floating{}, run<RandomGumbel>), .guarantee = guarantee<Descriptor>}};
  return list;
}

}  // namespace baracuda
