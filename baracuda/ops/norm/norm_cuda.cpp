#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"

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

Status run_forward(const Launch<RmsNorm>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNorm::Args& a = l.args;
  const RmsNormCuda p{walk_rows(d, {&a.x, &a.residual, &a.y, &a.residual_out, &a.rstd}, 2), a.x.data, a.residual.data, a.weight.data, a.y.data,
                      a.residual_out.data, a.rstd.data, weight_stride(a.weight), d.shape.last(), d.eps, d.weight == NormWeight::one_plus,
                      d.cast == NormCast::before_weight};
  if (p.rows.units == 0) return {};
  return device::queue(l.stream, "rms_norm.cuda.row", [&] { return norm_cuda_kernels.rms_norm[f32_weight(d)][d.dtype](p, l.stream.handle); });
}

int64_t teams(const RmsNormDescriptor& d) { return d.shape.numel() ? norm_cuda_teams(d.shape.rows(), d.shape.last(), d.dtype) : 0; }
void* carve_partials(const RmsNormDescriptor& d, Carver& c) {
  return c.take_bytes("dweight partial sums", d.weight == NormWeight::none ? 0 : teams(d) * d.shape.last(), byte_size(accumulator(d.dtype)));
}
void carve_backward(const RmsNormDescriptor& d, const void*, Carver& c) { carve_partials(d, c); }
Status run_backward(const Launch<RmsNormBackward>& l) {
  const RmsNormDescriptor& d = l.desc;
  const RmsNormBackward::Args& a = l.args;
  const bool wanted = !a.dweight.absent();
  Carver c = l.carver();
  void* partial = wanted ? carve_partials(d, c) : nullptr;
  if (teams(d)) {
    const RmsNormBackwardCuda p{walk_rows(d, {&a.dy, &a.x, &a.dresidual_out, &a.rstd, &a.dx}, 4), a.dy.data, a.x.data, a.dresidual_out.data, a.rstd.data,
                                a.weight.data, a.dx.data, partial, weight_stride(a.weight), d.shape.last(), teams(d), d.eps,
                                d.weight == NormWeight::one_plus, d.cast == NormCast::before_weight};
    BARACUDA_TRY(device::queue(l.stream, "rms_norm_backward.cuda.row",
                               [&] { return norm_cuda_kernels.rms_norm_backward[f32_weight(d)][d.dtype](p, l.stream.handle); }));
  }
  if (!wanted || d.shape.last() == 0) return {};
  const NormFoldCuda f{partial, a.dweight.data, teams(d), d.shape.last(), a.dweight.strides[0]};
  const auto& fold = d.dtype == DType::f64 ? norm_cuda_kernels.fold_f64 : norm_cuda_kernels.fold_f32;
  return device::queue(l.stream, "rms_norm_backward.cuda.row", [&] { return fold[a.dweight.dtype](f, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<RmsNorm>> cuda_kernels<RmsNorm>() {
  static constexpr Kernel<RmsNorm> list[] = {{.name = "rms_norm.cuda.row", .device = DeviceKind::cuda, .min_arch = 80,
                                              .launch = launch_all<RmsNorm>(Floating{}, run_forward), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<RmsNormBackward>> cuda_kernels<RmsNormBackward>() {
  static constexpr Kernel<RmsNormBackward> list[] = {{.name = "rms_norm_backward.cuda.row", .device = DeviceKind::cuda, .min_arch = 80,
                                                      .launch = launch_all<RmsNormBackward>(Floating{}, run_backward), .guarantee = guarantee,
                                                      .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
