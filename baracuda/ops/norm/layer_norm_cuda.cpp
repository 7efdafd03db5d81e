#include "baracuda/ops/norm/layer_norm_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/host/row_sum.hpp"
#include "baracuda/ops/norm/layer_norm_detail.hpp"
#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"

namespace baracuda {
namespace {
using namespace layer_norm_detail;
using norm_detail::guarantee, norm_detail::weight_dtype;
using D = LayerNormDescriptor;

template <int K> device::Walk<K> walk_rows(const D& d, const TensorView* const (&v)[K], int order) {
  device::Operand operand[K];
  for (int k = 0; k < K; ++k) operand[k] = device::Operand::of(*v[k]);
  return device::walk<K>(outer(d), operand, order, 1);
}
bool f32_weight(const D& d) { return weight_dtype(d) == DType::f32; }

void* carve_parts(const D& d, int64_t blocks, Carver& c) { return c.take_bytes("sums of chunks", blocks * sum_chunks(length(d)), 64); }
void carve_forward(const D& d, const void*, Carver& c) { carve_parts(d, layer_norm_cuda_blocks(rows_of(d)), c); }
Status run_forward(const Launch<LayerNorm>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  if (rows_of(d) == 0) return {};
  Carver c = l.carver();
  const LayerNormCuda p{walk_rows<4>(d, {&a.x, &a.y, &a.mean, &a.rstd}, 1), a.x.data, a.weight.data, a.bias.data, a.y.data, a.mean.data, a.rstd.data,
                        carve_parts(d, layer_norm_cuda_blocks(rows_of(d)), c), length(d), d.eps};
  return device::queue(l.stream, "layer_norm.cuda.row", [&] { return layer_norm_cuda_kernels.forward[f32_weight(d)][d.dtype](p, l.stream.handle); });
}

struct Scratch { void *dweight, *dbias, *parts; int64_t teams; };
Scratch carve_all(const D& d, Carver& c) {
  const int64_t n = length(d), rows = n ? rows_of(d) : 0, teams = layer_norm_cuda_teams(rows, n, d.dtype == DType::f64);
  const uint64_t bytes = byte_size(accumulator(d.dtype));
  Scratch s{};
  s.teams = teams;
  s.dweight = c.take_bytes("dweight partial sums", teams * n, bytes), s.dbias = c.take_bytes("dbias partial sums", teams * n, bytes);
  s.parts = carve_parts(d, teams, c);
  return s;
}
void carve_backward(const D& d, const void*, Carver& c) { (void)carve_all(d, c); }
Status run_backward(const Launch<LayerNormBackward>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const Scratch s = carve_all(d, c);
  const int64_t n = length(d);
  return device::queue(l.stream, "layer_norm_backward.cuda.row", [&] {
    int e = 0;
    if (s.teams) {
      const LayerNormBackwardCuda p{walk_rows<5>(d, {&a.dy, &a.x, &a.mean, &a.rstd, &a.dx}, 4), a.dy.data, a.x.data, a.weight.data, a.mean.data, a.rstd.data,
                                    a.dx.data, a.dweight.absent() ? nullptr : s.dweight, a.dbias.absent() ? nullptr : s.dbias, s.parts, n, s.teams, d.eps};
      e = layer_norm_cuda_kernels.backward[f32_weight(d)][d.dtype](p, l.stream.handle);
    }
    const auto& fold = d.dtype == DType::f64 ? norm_cuda_kernels.fold_f64 : norm_cuda_kernels.fold_f32;
    if (!e && n && !a.dweight.absent()) e = fold[a.dweight.dtype]({s.dweight, a.dweight.data, s.teams, n, 1}, l.stream.handle);
    if (!e && n && !a.dbias.absent()) e = fold[a.dbias.dtype]({s.dbias, a.dbias.data, s.teams, n, 1}, l.stream.handle);
    return e;
  });
}

}  // namespace

template <> std::span<const Kernel<LayerNorm>> cuda_kernels<LayerNorm>() {
  static constexpr Kernel<LayerNorm> list[] = {{.name = "layer_norm.cuda.row", .device = DeviceKind::cuda, .min_arch = 80,
                                                .launch = launch_all<LayerNorm>(Floating{}, run_forward), .guarantee = guarantee, .carve = carve_forward}};
  return list;
}
template <> std::span<const Kernel<LayerNormBackward>> cuda_kernels<LayerNormBackward>() {
  static constexpr Kernel<LayerNormBackward> list[] = {{.name = "layer_norm_backward.cuda.row", .device = DeviceKind::cuda, .min_arch = 80,
                                                        .launch = launch_all<LayerNormBackward>(Floating{}, run_backward), .guarantee = guarantee,
                                                        .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
