#include "baracuda/ops/random/dropout.hpp"
#include <bit>
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/random/random_detail.hpp"
#include "baracuda/ops/random/random_words.hpp"

namespace baracuda {
namespace {

using random_detail::for_words;
using random_detail::threshold;

template <class D> Status validate_p(std::string_view op, const D& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  if (!(d.p >= 0 && d.p <= 1)) return invalid(op, text("p ", d.p, " is not in [0, 1]"));
  return expect_shape(op, "shape", d.shape);
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

void run_drop(const DropoutDescriptor& d, const TensorView& x, const TensorView& y, const TensorView& mask, uint64_t seed, uint64_t offset, int threads) {
  const auto drop = BARACUDA_ISA_PICK(random_kernels).drop[d.dtype];
  const auto run = [&](void* const* at, const uint32_t* w, int64_t n, bool* kept) {
    drop({at[0], at[1], kept, w, n, threshold(d.p), random_detail::kept_factor(d.p)});
  };
  const MapOperand in = MapOperand::of(x), out = MapOperand::of(y);
  if (mask.absent()) for_words(d.shape, {in}, {out}, seed, offset, threads, [&](void* const* at, const uint32_t* w, int64_t n, int64_t) { run(at, w, n, nullptr); });
  else for_words(d.shape, {in}, {out, MapOperand::of(mask)}, seed, offset, threads,
                 [&](void* const* at, const uint32_t* w, int64_t n, int64_t) { run(at, w, n, static_cast<bool*>(at[2])); });
}
Status run_dropout(const Launch<Dropout>& l) {
  run_drop(l.desc, l.args.x, l.args.y, l.args.mask, l.args.seed, l.args.offset, l.threads);
  return {};
}
Status run_dropout_backward(const Launch<DropoutBackward>& l) {
  run_drop(l.desc, l.args.dy, l.args.dx, {}, l.args.seed, l.args.offset, l.threads);
  return {};
}
Status run_bernoulli(const Launch<Bernoulli>& l) {
  const auto& d = l.desc;
  const Bytes16 one = bits_of(d.dtype, 1);
  const auto chance = BARACUDA_ISA_PICK(random_kernels).chance[std::countr_zero(byte_size(d.dtype))];
  const MapOperand out = MapOperand::of(l.args.y);
  if (l.args.probabilities.absent())
    for_words(d.shape, {}, {out}, l.args.seed, l.args.offset, l.threads,
              [&](void* const* at, const uint32_t* w, int64_t n, int64_t) { chance({nullptr, at[0], w, n, threshold(d.p), one.a}); });
  else
    for_words(d.shape, {MapOperand::of(l.args.probabilities)}, {out}, l.args.seed, l.args.offset, l.threads,
              [&](void* const* at, const uint32_t* w, int64_t n, int64_t) { chance({static_cast<const float*>(at[0]), at[1], w, n, 0, one.a}); });
  return {};
}

}  // namespace

Status Bernoulli::validate(const Descriptor& d) { return validate_p(name, d); }
Status Bernoulli::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return a.probabilities.absent() ? Status() : expect(name, "probabilities", a.probabilities, DType::f32, d.shape);
}
std::span<const Kernel<Bernoulli>> Bernoulli::kernels() {
  static constexpr Kernel<Bernoulli> list[] = {
      {.name = "bernoulli.cpu.philox", .launch = launch_all<Bernoulli>(Castable{}, run_bernoulli), .guarantee = guarantee<Descriptor>}};
  return list;
}
Status Dropout::validate(const Descriptor& d) { return validate_p(name, d); }
Status Dropout::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return a.mask.absent() ? Status() : expect(name, "mask", a.mask, DType::boolean, d.shape);
}
std::span<const Kernel<Dropout>> Dropout::kernels() {
  static constexpr Kernel<Dropout> list[] = {
      {.name = "dropout.cpu.philox", .launch = launch_all<Dropout>(Floating{}, run_dropout), .guarantee = guarantee<Descriptor>}};
  return list;
}
Status DropoutBackward::validate(const Descriptor& d) { return validate_p(name, d); }
Status DropoutBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<DropoutBackward>> DropoutBackward::kernels() {
  static constexpr Kernel<DropoutBackward> list[] = {{.name = "dropout_backward.cpu.philox",
                                                      .launch = launch_all<DropoutBackward>(Floating{}, run_dropout_backward),
                                                      .guarantee = guarantee<Descriptor>}};
  return list;
}

}  // namespace baracuda
