#include "baracuda/ops/random/random_words_cuda.hpp"
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/random/dropout.hpp"
#include "baracuda/ops/random/random_detail.hpp"

namespace baracuda {
namespace {
using device::Operand;
using namespace random_detail;

int log_bytes(DType t) { return std::countr_zero(byte_size(t)); }
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
template <class D> PrecisionGuarantee exact_integers(const D& d) {
  return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
}

template <class Op>
Status drop(const Launch<Op>& l, std::string_view kernel, const TensorView& x, const TensorView& y, const TensorView& mask) {
  const DropoutDescriptor& d = l.desc;
  const Operand operands[] = {Operand::of(x), Operand::of(y), Operand::of(mask)};
  const DropoutCuda p{{l.args.seed, l.args.offset, d.shape.numel()}, device::walk<3>(d.shape, operands, -1, 1), x.data, y.data, mask.as<bool>(), threshold(d.p), kept_factor(d.p)};
  if (p.words.n == 0) return {};
  return device::queue(l.stream, kernel, [&] { return random_words_cuda_kernels.dropout[d.dtype](p, l.stream.handle); });
}
Status run_dropout(const Launch<Dropout>& l) { return drop(l, "dropout.cuda.philox", l.args.x, l.args.y, l.args.mask); }
Status run_dropout_backward(const Launch<DropoutBackward>& l) { return drop(l, "dropout_backward.cuda.philox", l.args.dy, l.args.dx, {}); }
Status run_bernoulli(const Launch<Bernoulli>& l) {
  const BernoulliDescriptor& d = l.desc;
  const Operand operands[] = {Operand::of(l.args.probabilities), Operand::of(l.args.y)};
  const BernoulliCuda p{{l.args.seed, l.args.offset, d.shape.numel()}, device::walk<2>(d.shape, operands, -1, 1), l.args.probabilities.as<float>(), l.args.y.data,
                        threshold(d.p), bits_of(d.dtype, 1).a};
  if (p.words.n == 0) return {};
  return device::queue(l.stream, "bernoulli.cuda.philox", [&] { return random_words_cuda_kernels.bernoulli[log_bytes(d.dtype)](p, l.stream.handle); });
}
template <class Op> IntegersCuda integers(const Launch<Op>& l) {
  const Operand y[] = {Operand::of(l.args.y)};
  return {{l.args.seed, l.args.offset, l.desc.shape.numel()}, device::walk<1>(l.desc.shape, y, -1, 1), l.args.y.data, 0, 0, 0};
}
Status run_randint(const Launch<Randint>& l) {
  IntegersCuda p = integers(l);
  const IntegerRange r = range_of(l.desc);
  p.low = r.low, p.range = r.range, p.least = r.least;
  if (p.words.n == 0) return {};
  return device::queue(l.stream, "randint.cuda.philox", [&] { return random_words_cuda_kernels.randint[l.desc.dtype](p, l.stream.handle); });
}
Status run_bits(const Launch<RandomBits>& l) {
  const IntegersCuda p = integers(l);
  if (p.words.n == 0) return {};
  return device::queue(l.stream, "random_bits.cuda.philox", [&] { return random_words_cuda_kernels.bits[log_bytes(l.desc.dtype)](p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<Dropout>> cuda_kernels<Dropout>() {
  static constexpr Kernel<Dropout> list[] = {{.name = "dropout.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                              .launch = launch_all<Dropout>(Floating{}, run_dropout), .guarantee = guarantee<DropoutDescriptor>}};
  return list;
}
template <> std::span<const Kernel<DropoutBackward>> cuda_kernels<DropoutBackward>() {
  static constexpr Kernel<DropoutBackward> list[] = {{.name = "dropout_backward.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                                      .launch = launch_all<DropoutBackward>(Floating{}, run_dropout_backward), .guarantee = guarantee<DropoutDescriptor>}};
  return list;
}
template <> std::span<const Kernel<Bernoulli>> cuda_kernels<Bernoulli>() {
  static constexpr Kernel<Bernoulli> list[] = {{.name = "bernoulli.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                                .launch = launch_all<Bernoulli>(Castable{}, run_bernoulli), .guarantee = guarantee<BernoulliDescriptor>}};
  return list;
}
template <> std::span<const Kernel<Randint>> cuda_kernels<Randint>() {
  static constexpr Kernel<Randint> list[] = {{.name = "randint.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                              .launch = launch_all<Randint>(Numbers{}, run_randint), .guarantee = exact_integers<RandintDescriptor>}};
  return list;
}
template <> std::span<const Kernel<RandomBits>> cuda_kernels<RandomBits>() {
  static constexpr Kernel<RandomBits> list[] = {{.name = "random_bits.cuda.philox", .device = DeviceKind::cuda, .min_arch = 80,
                                                 .launch = launch_all<RandomBits>(Integers{}, run_bits), .guarantee = exact_integers<RandomBitsDescriptor>}};
  return list;
}

}  // namespace baracuda
