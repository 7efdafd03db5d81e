#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/device/sm90a.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"
#include "baracuda/ops/norm/norm_spread_cuda_detail.hpp"

namespace baracuda {
namespace {
using device::Operand;
using norm_detail::guarantee;

device::Walk<5> walk_rows(const RmsNormDescriptor& d, const TensorView* const (&v)[5], int order) {
  Operand operand[5];
  for (int k = 0; k < 5; ++k) operand[k] = Operand::of(*v[k]);
  return device::walk<5>(outer_axes(d.shape), operand, order, 1);
}
bool f32_weight(const RmsNormDescriptor& d) { return d.weight != NormWeight::none && norm_detail::weight_dtype(d) == DType::f32; }
int64_t weight_stride(const TensorView& weight) { return weight.absent() ? 0 : weight.strides[0]; }

int size(const RmsNormDescriptor& d) { return int(byte_size(d.dtype)); }
// Rows that a cluster of blocks holds in registers.
template <bool kBackward> std::string refuse_cluster(const RmsNormDescriptor& d, const PlanPreference&) {
  return rms_norm_cuda_blocks_of_row(d.shape.last(), kBackward, size(d)) > 1 ? "" : "for rows that a cluster of blocks holds and one block does not";
}
template <bool kCluster> Status run_forward(const Launch<RmsNorm>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNorm::Args& a = l.args;
  const RmsNormCuda p{walk_rows(d, {&a.x, &a.residual, &a.y, &a.residual_out, &a.rstd}, 2), a.x.data, a.residual.data, a.weight.data, a.y.data,
                      a.residual_out.data, a.rstd.data, weight_stride(a.weight), d.shape.last(), d.eps, d.weight == NormWeight::one_plus,
                      d.cast == NormCast::before_weight, !kCluster && l.state};
  if (p.rows.units == 0) return {};
  const auto kernel = (kCluster ? rms_norm_rows_cuda.forward : norm_cuda_kernels.rms_norm)[f32_weight(d)][d.dtype];
  return device::queue(l.stream, kCluster ? "rms_norm.cuda.cluster" : "rms_norm.cuda.row", [&] { return kernel(p, l.stream.handle); });
}

template <bool kCluster> int64_t teams(const RmsNormDescriptor& d) {
  if (d.shape.numel() == 0) return 0;
  return kCluster ? rms_norm_cuda_row_parts(d.shape.rows(), d.shape.last(), size(d)) : norm_cuda_teams(d.shape.rows(), d.shape.last(), d.dtype);
}
template <bool kCluster> void* carve_partials(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("dweight partial sums", d.weight == NormWeight::none ? 0 : teams<kCluster>(d) * d.shape.last(), byte_size(accumulator(d.dtype)));
}
template <bool kCluster> void carve_backward(const RmsNormDescriptor& d, const void*, Carver& c) { carve_partials<kCluster>(d, c); }
template <bool kCluster> Status run_backward(const Launch<RmsNormBackward>& l) {
  constexpr std::string_view kName = kCluster ? "rms_norm_backward.cuda.cluster" : "rms_norm_backward.cuda.row";
  const RmsNormDescriptor& d = l.desc;
  const RmsNormBackward::Args& a = l.args;
  const bool wanted = !a.dweight.absent();
  Carver c = l.carver();
  void* partial = wanted ? carve_partials<kCluster>(d, c) : nullptr;
  if (const int64_t parts = teams<kCluster>(d)) {
    const RmsNormBackwardCuda p{walk_rows(d, {&a.dy, &a.x, &a.dresidual_out, &a.rstd, &a.dx}, 4), a.dy.data, a.x.data, a.dresidual_out.data, a.rstd.data,
                                a.weight.data, a.dx.data, partial, weight_stride(a.weight), d.shape.last(), parts, d.eps,
                                d.weight == NormWeight::one_plus, d.cast == NormCast::before_weight};
    const auto kernel = (kCluster ? rms_norm_rows_cuda.backward : norm_cuda_kernels.rms_norm_backward)[f32_weight(d)][d.dtype];
    BARACUDA_TRY(device::queue(l.stream, kName, [&] { return kernel(p, l.stream.handle); }));
  }
  if (!wanted || d.shape.last() == 0) return {};
  const NormFoldCuda f{{{partial, a.dweight.data, a.dweight.strides[0]}, {}}, teams<kCluster>(d), d.shape.last()};
  const auto& fold = d.dtype == DType::f64 ? norm_cuda_kernels.fold_f64 : norm_cuda_kernels.fold_f32;
  return device::queue(l.stream, kName, [&] { return fold[a.dweight.dtype](f, l.stream.handle); });
}

using Short = TypeList<f16, bf16, float>;

// Rows that neither holds. A forward with a residual goes the way of all.
template <bool kBackward> std::string refuse_long(const RmsNormDescriptor& d, const PlanPreference&) {
  const int64_t n = d.shape.last();
  return n == 0 || rms_norm_cuda_blocks_of_row(n, kBackward, size(d)) == 1 ? "for rows that one block does not hold" : "";
}
norm_long::Problem long_problem(const RmsNormDescriptor& d) {
  return {d.dtype, outer_axes(d.shape), d.shape.last(), d.eps, true, d.weight == NormWeight::one_plus, d.cast == NormCast::before_weight};
}
template <bool kBackward> void carve_long(const RmsNormDescriptor& d, const void*, Carver& c) {
  (void)norm_long::carve(long_problem(d), c, kBackward && d.weight != NormWeight::none, false);
}
norm_long::Arguments arguments(const RmsNorm::Args& a) { return {.x = a.x, .y = a.y, .weight = a.weight, .rstd = a.rstd}; }
norm_long::Arguments arguments(const RmsNormBackward::Args& a) {
  return {.dy = a.dy, .x = a.x, .dh = a.dresidual_out, .y = a.dx, .weight = a.weight, .rstd = a.rstd, .dweight = a.dweight};
}
Status run_long_forward(const Launch<RmsNorm>& l) {
  const auto& a = l.args;
  if (!a.residual.absent()) return run_forward<false>(l);
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(l.desc);
  const auto s = norm_long::carve(p, c, false, false);
  return device::queue(l.stream, "rms_norm.cuda.long", [&] { return norm_long::forward(p, s, arguments(a), l.stream.handle); });
}
Status run_long_backward(const Launch<RmsNormBackward>& l) {
  const auto& a = l.args;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(l.desc);
  const auto s = norm_long::carve(p, c, l.desc.weight != NormWeight::none, false);
  return device::queue(l.stream, "rms_norm_backward.cuda.long", [&] { return norm_long::backward(p, s, arguments(a), l.stream.handle); });
}

// Rows that all blocks of the device hold together. A forward with a residual goes the way of all.
template <bool kBackward> std::string refuse_spread(const RmsNormDescriptor& d, const PlanPreference&) {
  return norm_spread::refuse(long_problem(d), rms_norm_cuda_blocks_of_row(d.shape.last(), kBackward, size(d)));
}
template <bool kBackward> Result<PlanState> prepare_spread(const Stream& stream, const RmsNormDescriptor& d, const PlanPreference&) {
  return norm_spread::prepare(stream, long_problem(d), kBackward);
}
template <bool kBackward> void carve_spread(const RmsNormDescriptor& d, const void* state, Carver& c) {
  (void)norm_spread::carve(long_problem(d), state, c, kBackward, kBackward && d.weight != NormWeight::none, false);
}
Status run_spread_forward(const Launch<RmsNorm>& l) {
  const auto& a = l.args;
  if (!a.residual.absent()) return run_forward<false>(l);
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(l.desc);
  const auto s = norm_spread::carve(p, l.state, c, false, false, false);
  return device::queue(l.stream, "rms_norm.cuda.spread", [&] { return norm_spread::forward(p, l.state, s, arguments(a), l.stream.handle); });
}
Status run_spread_backward(const Launch<RmsNormBackward>& l) {
  const auto& a = l.args;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(l.desc);
  const auto s = norm_spread::carve(p, l.state, c, true, l.desc.weight != NormWeight::none, false);
  return device::queue(l.stream, "rms_norm_backward.cuda.spread", [&] { return norm_spread::backward(p, l.state, s, arguments(a), l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<RmsNorm>> cuda_kernels<RmsNorm>() {
  static constexpr Kernel<RmsNorm> list[] = {
      {.name = "rms_norm.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<RmsNorm>(Short{}, run_spread_forward),
       .guarantee = guarantee, .refuse = refuse_spread<false>, .carve = carve_spread<false>, .prepare = prepare_spread<false>},
      {.name = "rms_norm.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<RmsNorm>(Short{}, run_forward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<false>},
      {.name = "rms_norm.cuda.long", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<RmsNorm>(Short{}, run_long_forward),
       .guarantee = guarantee, .refuse = refuse_long<false>, .carve = carve_long<false>},
      {.name = "rms_norm.cuda.row", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<RmsNorm>(Floating{}, run_forward<false>),
       .guarantee = guarantee, .prepare = device::find_sm90a}};
  return list;
}
template <> std::span<const Kernel<RmsNormBackward>> cuda_kernels<RmsNormBackward>() {
  static constexpr Kernel<RmsNormBackward> list[] = {
      {.name = "rms_norm_backward.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<RmsNormBackward>(Short{}, run_spread_backward),
       .guarantee = guarantee, .refuse = refuse_spread<true>, .carve = carve_spread<true>, .prepare = prepare_spread<true>},
      {.name = "rms_norm_backward.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<RmsNormBackward>(Short{}, run_backward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<true>, .carve = carve_backward<true>},
      {.name = "rms_norm_backward.cuda.long", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<RmsNormBackward>(Short{}, run_long_backward),
       .guarantee = guarantee, .refuse = refuse_long<true>, .carve = carve_long<true>},
      {.name = "rms_norm_backward.cuda.row", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<RmsNormBackward>(Floating{}, run_backward<false>),
       .guarantee = guarantee, .carve = carve_backward<false>}};
  return list;
}

}  // namespace baracuda
