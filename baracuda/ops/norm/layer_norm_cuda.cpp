#include "baracuda/ops/norm/layer_norm_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/device/sm90a.hpp"
#include "baracuda/host/row_sum.hpp"
#include "baracuda/ops/norm/layer_norm_detail.hpp"
#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"
#include "baracuda/ops/norm/norm_spread_cuda_detail.hpp"

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

int size(const D& d) { return int(byte_size(d.dtype)); }
// Rows that a cluster of blocks holds in registers.
template <bool kBackward> std::string refuse_cluster(const D& d, const PlanPreference&) {
  return layer_norm_cuda_blocks_of_row(length(d), kBackward, size(d)) > 1 ? "" : "for rows that a cluster of blocks holds and one block does not";
}
void* carve_parts(const D& d, int64_t blocks, Carver& c) { return c.take_bytes("sums of chunks", blocks * sum_chunks(length(d)), 64); }
void carve_forward(const D& d, const void*, Carver& c) { carve_parts(d, layer_norm_cuda_blocks(rows_of(d)), c); }
template <bool kCluster> Status run_forward(const Launch<LayerNorm>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  if (rows_of(d) == 0) return {};
  Carver c = l.carver();
  const LayerNormCuda p{walk_rows<4>(d, {&a.x, &a.y, &a.mean, &a.rstd}, 1), a.x.data, a.weight.data, a.bias.data, a.y.data, a.mean.data, a.rstd.data,
                        kCluster ? nullptr : carve_parts(d, layer_norm_cuda_blocks(rows_of(d)), c), length(d), d.eps, !kCluster && l.state};
  const LayerNormCudaKernels& kernels = kCluster ? layer_norm_rows_cuda : layer_norm_cuda_kernels;
  return device::queue(l.stream, kCluster ? "layer_norm.cuda.cluster" : "layer_norm.cuda.row", [&] { return kernels.forward[f32_weight(d)][d.dtype](p, l.stream.handle); });
}

struct Scratch { void *dweight, *dbias, *parts; int64_t teams; };
template <bool kCluster> Scratch carve_all(const D& d, Carver& c) {
  const int64_t n = length(d), rows = n ? rows_of(d) : 0;
  const uint64_t bytes = byte_size(accumulator(d.dtype));
  Scratch s{};
  const bool held = kCluster || layer_norm_cuda_blocks_of_row(n, true, size(d)) == 1;
  s.teams = held ? layer_norm_cuda_row_parts(rows, n, size(d)) : layer_norm_cuda_teams(rows);
  s.dweight = c.take_bytes("dweight partial sums", s.teams * n, bytes), s.dbias = c.take_bytes("dbias partial sums", s.teams * n, bytes);
  if (!kCluster) s.parts = carve_parts(d, s.teams, c);
  return s;
}
template <bool kCluster> void carve_backward(const D& d, const void*, Carver& c) { (void)carve_all<kCluster>(d, c); }
template <bool kCluster> Status run_backward(const Launch<LayerNormBackward>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const Scratch s = carve_all<kCluster>(d, c);
  const int64_t n = length(d);
  const LayerNormCudaKernels& kernels = kCluster ? layer_norm_rows_cuda : layer_norm_cuda_kernels;
  return device::queue(l.stream, kCluster ? "layer_norm_backward.cuda.cluster" : "layer_norm_backward.cuda.row", [&] {
    int e = 0;
    if (s.teams) {
      const LayerNormBackwardCuda p{walk_rows<5>(d, {&a.dy, &a.x, &a.mean, &a.rstd, &a.dx}, 4), a.dy.data, a.x.data, a.weight.data, a.mean.data, a.rstd.data,
                                    a.dx.data, a.dweight.absent() ? nullptr : s.dweight, a.dbias.absent() ? nullptr : s.dbias, s.parts, n, s.teams, d.eps};
      e = kernels.backward[f32_weight(d)][d.dtype](p, l.stream.handle);
    }
    const auto& fold = d.dtype == DType::f64 ? norm_cuda_kernels.fold_f64 : norm_cuda_kernels.fold_f32;
    return e ? e : fold[weight_dtype(d)]({{{s.dweight, a.dweight.data, 1}, {s.dbias, a.dbias.data, 1}}, s.teams, n}, l.stream.handle);
  });
}
using Short = TypeList<f16, bf16, float>;

// Rows that neither holds.
template <bool kBackward> std::string refuse_long(const D& d, const PlanPreference&) {
  return length(d) == 0 || layer_norm_cuda_blocks_of_row(length(d), kBackward, size(d)) == 1 ? "for rows that one block does not hold" : "";
}
norm_long::Problem long_problem(const D& d) { return {d.dtype, outer(d), length(d), d.eps, false, false, false}; }
norm_long::Arguments arguments(const D& d, const LayerNorm::Args& a) {
  return {.x = a.x, .y = a.y, .weight = flat(d, a.weight), .bias = flat(d, a.bias), .mean = a.mean, .rstd = a.rstd};
}
norm_long::Arguments arguments(const D& d, const LayerNormBackward::Args& a) {
  return {.dy = a.dy, .x = a.x, .y = a.dx, .weight = flat(d, a.weight), .mean = a.mean, .rstd = a.rstd, .dweight = flat(d, a.dweight), .dbias = flat(d, a.dbias)};
}
template <bool kBackward> void carve_long(const D& d, const void*, Carver& c) { (void)norm_long::carve(long_problem(d), c, kBackward, kBackward); }
Status run_long_forward(const Launch<LayerNorm>& l) {
  const D& d = l.desc;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(d);
  const auto s = norm_long::carve(p, c, false, false);
  return device::queue(l.stream, "layer_norm.cuda.long", [&] { return norm_long::forward(p, s, arguments(d, l.args), l.stream.handle); });
}
Status run_long_backward(const Launch<LayerNormBackward>& l) {
  const D& d = l.desc;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(d);
  const auto s = norm_long::carve(p, c, true, true);
  return device::queue(l.stream, "layer_norm_backward.cuda.long", [&] { return norm_long::backward(p, s, arguments(d, l.args), l.stream.handle); });
}

// Rows that all blocks of the device hold together.
template <bool kBackward> std::string refuse_spread(const D& d, const PlanPreference&) {
  return norm_spread::refuse(long_problem(d), layer_norm_cuda_blocks_of_row(length(d), kBackward, size(d)));
}
template <bool kBackward> Result<PlanState> prepare_spread(const Stream& stream, const D& d, const PlanPreference&) {
  return norm_spread::prepare(stream, long_problem(d), kBackward);
}
template <bool kBackward> void carve_spread(const D& d, const void* state, Carver& c) { (void)norm_spread::carve(long_problem(d), state, c, kBackward, kBackward, kBackward); }
Status run_spread_forward(const Launch<LayerNorm>& l) {
  const D& d = l.desc;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(d);
  const auto s = norm_spread::carve(p, l.state, c, false, false, false);
  return device::queue(l.stream, "layer_norm.cuda.spread", [&] { return norm_spread::forward(p, l.state, s, arguments(d, l.args), l.stream.handle); });
}
Status run_spread_backward(const Launch<LayerNormBackward>& l) {
  const D& d = l.desc;
  Carver c = l.carver();
  const norm_long::Problem p = long_problem(d);
  const auto s = norm_spread::carve(p, l.state, c, true, true, true);
  return device::queue(l.stream, "layer_norm_backward.cuda.spread", [&] { return norm_spread::backward(p, l.state, s, arguments(d, l.args), l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<LayerNorm>> cuda_kernels<LayerNorm>() {
  static constexpr Kernel<LayerNorm> list[] = {
      {.name = "layer_norm.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<LayerNorm>(Short{}, run_spread_forward),
       .guarantee = guarantee, .refuse = refuse_spread<false>, .carve = carve_spread<false>, .prepare = prepare_spread<false>},
      {.name = "layer_norm.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<LayerNorm>(Short{}, run_forward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<false>},
      {.name = "layer_norm.cuda.long", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<LayerNorm>(Short{}, run_long_forward),
       .guarantee = guarantee, .refuse = refuse_long<false>, .carve = carve_long<false>},
      {.name = "layer_norm.cuda.row", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<LayerNorm>(Floating{}, run_forward<false>),
       .guarantee = guarantee, .carve = carve_forward, .prepare = device::find_sm90a}};
  return list;
}
template <> std::span<const Kernel<LayerNormBackward>> cuda_kernels<LayerNormBackward>() {
  static constexpr Kernel<LayerNormBackward> list[] = {
      {.name = "layer_norm_backward.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<LayerNormBackward>(Short{}, run_spread_backward),
       .guarantee = guarantee, .refuse = refuse_spread<true>, .carve = carve_spread<true>, .prepare = prepare_spread<true>},
      {.name = "layer_norm_backward.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<LayerNormBackward>(Short{}, run_backward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<true>, .carve = carve_backward<true>},
      {.name = "layer_norm_backward.cuda.long", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<LayerNormBackward>(Short{}, run_long_backward),
       .guarantee = guarantee, .refuse = refuse_long<true>, .carve = carve_long<true>},
      {.name = "layer_norm_backward.cuda.row", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<LayerNormBackward>(Floating{}, run_backward<false>),
       .guarantee = guarantee, .carve = carve_backward<false>}};
  return list;
}

}  // namespace baracuda
