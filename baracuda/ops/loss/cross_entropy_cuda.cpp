#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/loss/cross_entropy.hpp"
#include "baracuda/ops/loss/loss_cuda_args.hpp"

namespace baracuda {
namespace {

using D = CrossEntropyDescriptor;
PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = d.reduction == Reduction::none};
}
template <class Args> LossCudaRows rows_of(const D& d, const Args& a, const LossCudaTokens& t) {
  LossCudaRows r{};
  r.t = t;
  r.x = a.logits.data, r.x_pitch = a.logits.row_stride();
  r.dx = a.dlogits.data, r.dx_pitch = a.dlogits.row_stride();
  r.rows = d.tokens, r.columns = d.classes;
  r.smoothing = d.label_smoothing, r.z = d.z_loss, r.softcap = d.softcap;
  return r;
}

// Sums of many tokens, of short rows, take less time by themselves than with what each leaf costs.
constexpr int64_t kMostInLeaves = 262144;
bool in_leaves(const D& d) { return d.reduction != Reduction::none && d.tokens <= kMostInLeaves; }
struct Scratch { double *factor, *loss, *z_part, *total, *leaves; };
Scratch carve(const D& d, bool forward, Carver& c) {
  Scratch s{c.take<double>("1 / denominator", 1 + kLossParts), nullptr, nullptr, nullptr, nullptr};
  if (forward) s.loss = c.take<double>("loss per row", d.tokens), s.z_part = c.take<double>("z part per row", d.tokens);
  if (forward && in_leaves(d)) s.leaves = c.take<double>("sums of loss, in leaves", 3 * ((d.tokens + kLossLeaf - 1) / kLossLeaf));
  if (forward && d.label_smoothing > 0) s.total = c.take<double>("sum per row", d.tokens);
  return s;
}
Status run_forward(const Launch<CrossEntropy>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const Scratch s = carve(d, true, c);
  const DType acc = accumulator(d.dtype);
  const LossCudaKernels& k = loss_cuda_kernels;
  const LossCudaTokens t = tokens_of(d, a, 1, s.factor);
  LossCudaRows rows = rows_of(d, a, t);
  rows.lse_out = DeviceVector::of(a.lse), rows.loss = s.loss, rows.z_part = s.z_part, rows.total = s.total, rows.leaves = s.leaves;
  const bool leaves = in_leaves(d), counted = leaves && !d.grad_logits && d.mean_over == MeanOver::tokens;
  return device::queue(l.stream, "cross_entropy.cuda.row", [&] {
    int e = counted ? 0 : k.denominator[acc](t, l.stream.handle);
    if (!e) e = k.rows[d.dtype](rows, l.stream.handle);
    if (!e && leaves) return k.total[acc]({t, s.leaves, DeviceVector::of(a.loss), DeviceVector::of(a.z_part), counted}, l.stream.handle);
    if (!e) e = k.sum[acc]({t, s.loss, DeviceVector::of(a.loss)}, l.stream.handle);
    if (!e && !a.z_part.absent()) e = k.sum[acc]({t, s.z_part, DeviceVector::of(a.z_part)}, l.stream.handle);
    return e;
  });
}
Status run_backward(const Launch<CrossEntropyBackward>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  if (d.tokens == 0) return {};
  Carver c = l.carver();
  const LossCudaTokens t = tokens_of(d, a, a.scale, carve(d, false, c).factor);
  LossCudaRows rows = rows_of(d, a, t);
  rows.lse_in = DeviceVector::of(a.lse);
  return device::queue(l.stream, "cross_entropy_backward.cuda.row", [&] {
    const int e = loss_cuda_kernels.denominator[accumulator(d.dtype)](t, l.stream.handle);
    return e ? e : loss_cuda_kernels.rows[d.dtype](rows, l.stream.handle);
  });
}

}  // namespace

template <> std::span<const Kernel<CrossEntropy>> cuda_kernels<CrossEntropy>() {
  static constexpr Kernel<CrossEntropy> list[] = {
      {.name = "cross_entropy.cuda.row", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<CrossEntropy>(Floating{}, run_forward),
       .guarantee = guarantee, .carve = [](const D& d, const void*, Carver& c) { (void)carve(d, true, c); }}};
  return list;
}
template <> std::span<const Kernel<CrossEntropyBackward>> cuda_kernels<CrossEntropyBackward>() {
  static constexpr Kernel<CrossEntropyBackward> list[] = {
      {.name = "cross_entropy_backward.cuda.row", .device = DeviceKind::cuda, .min_arch = 80,
       .launch = launch_all<CrossEntropyBackward>(Floating{}, run_backward), .guarantee = guarantee,
       .carve = [](const D& d, const void*, Carver& c) { (void)carve(d, false, c); }}};
  return list;
}

}  // namespace baracuda
