#include "baracuda/ops/norm/batch_norm.hpp"
#include "baracuda/ops/norm/channels_cuda_detail.hpp"

namespace baracuda {
namespace {
using namespace channels_detail;
using namespace norm_detail;
using D = BatchNormDescriptor;

int64_t elements(const D& d) { return d.shape.numel() ? samples_of(d) * span_of(d) : 0; }  // of a channel
Scratch carve_for(const D& d, Carver& c, bool sums) { return carve(d.dtype, c, channels_of(d), sums ? channels_of(d) * list_chunks(elements(d)) : 0); }
template <bool kSums> void carve_row(const D& d, const void*, Carver& c) { (void)carve_for(d, c, kSums); }

struct Run {
  const D& d;
  void* stream;
  Scratch s;
  const TensorView none{};
  int64_t channels = channels_of(d), n = elements(d);

  // Sums of x, or of dy with what `kept` has.
  int sums(const TensorView& x, const TensorView& dy) const {
    const int64_t x_step = column_step(d, x), dy_step = dy.absent() ? x_step : column_step(d, dy);
    if (x_step && dy_step) return channel_column_sums_cuda[d.dtype]({x.data, dy.data, x_step, dy_step, channels, n, s.kept, s.sums}, stream);
    return channel_cuda_kernels.sums[d.dtype]({walk_lists(d, x, dy, true, n), x.data, dy.data, channels, n, 1, s.kept, s.sums}, stream);
  }
  ListJoinCuda join_of(const TensorView& x, const TensorView& mean, const TensorView& rstd, ListStatistics from) const {
    return {walk_lists(d, x, none, true, n), walk_found({channels}, mean, rstd), x.data, s.sums, s.kept, mean.data, rstd.data, channels, n, d.eps, 0, {}, {}, from,
            weight_dtype(d) == DType::f32};
  }
  int join(const ListJoinCuda& p) const { return channel_cuda_kernels.join[d.dtype](p, stream); }
  GradientJoinCuda gradient_of(const TensorView& weight, const TensorView& dweight, const TensorView& dbias, bool given) const {
    return {s.sums, s.kept, channels, 1, n, list_chunks(n), channels, vector_of(weight), vector_of(dweight), vector_of(dbias), nullptr, nullptr, given};
  }
  int join_gradient(const GradientJoinCuda& p) const { return channel_cuda_kernels.join_gradient[d.dtype](p, stream); }
  // One kernel, where channels are not neighbours and a block holds one; `e`: what came of it.
  bool held(const ListJoinCuda& join, const GradientJoinCuda& gradient, const TensorView& x, const TensorView& dy, const TensorView& y, const TensorView& weight, const TensorView& bias,
            int& e) const {
    HeldListsCuda p{join, gradient, x.data, dy.data, y.data, vector_of(weight), vector_of(bias), channels, n, 0};
    if ((column_step(d, x) && (dy.absent() || column_step(d, dy))) || !held_lists(d, x, dy, y, 0, p)) return false;
    e = channel_held_cuda[d.dtype](p, stream);
    return true;
  }
  int write(const TensorView& x, const TensorView& dy, const TensorView& y, const TensorView& weight, const TensorView& bias, ChannelWrite what) const {
    return channel_write_cuda[d.dtype](write_of(d, x, dy, y, weight, bias, s.kept, 0), what, stream);
  }
};
template <class Op> Run run_of(const Launch<Op>& l, bool sums) {
  Carver c = l.carver();
  return {l.desc, l.stream.handle, carve_for(l.desc, c, sums)};
}

Status run_forward(const Launch<BatchNorm>& l) {
  const auto& a = l.args;
  const Run r = run_of(l, true);
  return device::queue(l.stream, "batch_norm.cuda.channel", [&] {
    ListJoinCuda p = r.join_of(a.x, a.mean, a.rstd, ListStatistics::sums);
    p.momentum = a.momentum, p.running_mean = vector_of(a.running_mean), p.running_var = vector_of(a.running_var);
    int e = 0;
    if (r.held(p, {}, a.x, r.none, a.y, a.weight, a.bias, e)) return e;
    if (r.n) e = r.sums(a.x, r.none);
    if (!e) e = r.join(p);
    return e ? e : r.write(a.x, r.none, a.y, a.weight, a.bias, ChannelWrite::forward);
  });
}
Status run_backward(const Launch<BatchNormBackward>& l) {
  const auto& a = l.args;
  const Run r = run_of(l, true);
  return device::queue(l.stream, "batch_norm_backward.cuda.channel", [&] {
    const ListJoinCuda p = r.join_of(a.x, a.mean, a.rstd, a.rstd.absent() ? ListStatistics::sums : ListStatistics::saved);
    const GradientJoinCuda gradient = r.gradient_of(a.weight, a.dweight, a.dbias, false);
    int e = 0;
    if (r.held(p, gradient, a.x, a.dy, a.dx, a.weight, r.none, e)) return e;
    if (r.n && a.rstd.absent()) e = r.sums(a.x, r.none);
    if (!e) e = r.join(p);
    if (!e && r.n) e = r.sums(a.x, a.dy);
    if (!e) e = r.join_gradient(gradient);
    return e ? e : r.write(a.x, a.dy, a.dx, a.weight, r.none, ChannelWrite::backward);
  });
}
Status run_inference(const Launch<BatchNormInference>& l) {
  const auto& a = l.args;
  const Run r = run_of(l, false);
  return device::queue(l.stream, "batch_norm_inference.cuda.channel", [&] {
    const int e = r.join(r.join_of(a.x, a.mean, a.var, ListStatistics::given));
    return e ? e : r.write(a.x, r.none, a.y, a.weight, a.bias, ChannelWrite::forward);
  });
}
Status run_inference_backward(const Launch<BatchNormInferenceBackward>& l) {
  const auto& a = l.args;
  const Run r = run_of(l, true);
  const TensorView& x = a.dweight.absent() ? a.dy : a.x;  // dbias asks for dy alone
  return device::queue(l.stream, "batch_norm_inference_backward.cuda.channel", [&] {
    int e = r.join(r.join_of(x, a.mean, a.var, ListStatistics::given));
    if (!a.dweight.absent() || !a.dbias.absent()) {
      if (!e && r.n) e = r.sums(x, a.dy);
      if (!e) e = r.join_gradient(r.gradient_of(a.weight, a.dweight, a.dbias, true));
    }
    return e ? e : r.write(r.none, a.dy, a.dx, a.weight, r.none, ChannelWrite::scaled);
  });
}

template <class Op> constexpr Kernel<Op> row(std::string_view name, Status (*run)(const Launch<Op>&), PrecisionGuarantee (*promise)(const D&), void (*carve)(const D&, const void*, Carver&)) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Op>(Floating{}, run), .guarantee = promise, .carve = carve};
}

}  // namespace

template <> std::span<const Kernel<BatchNorm>> cuda_kernels<BatchNorm>() {
  static constexpr Kernel<BatchNorm> list[] = {row<BatchNorm>("batch_norm.cuda.channel", run_forward, guarantee_of_batch, carve_row<true>)};
  return list;
}
template <> std::span<const Kernel<BatchNormBackward>> cuda_kernels<BatchNormBackward>() {
  static constexpr Kernel<BatchNormBackward> list[] = {row<BatchNormBackward>("batch_norm_backward.cuda.channel", run_backward, guarantee_of_batch, carve_row<true>)};
  return list;
}
template <> std::span<const Kernel<BatchNormInference>> cuda_kernels<BatchNormInference>() {
  static constexpr Kernel<BatchNormInference> list[] = {row<BatchNormInference>("batch_norm_inference.cuda.channel", run_inference, guarantee, carve_row<false>)};
  return list;
}
template <> std::span<const Kernel<BatchNormInferenceBackward>> cuda_kernels<BatchNormInferenceBackward>() {
  static constexpr Kernel<BatchNormInferenceBackward> list[] = {
      row<BatchNormInferenceBackward>("batch_norm_inference_backward.cuda.channel", run_inference_backward, guarantee, carve_row<true>)};
  return list;
}

}  // namespace baracuda
