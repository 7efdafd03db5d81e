#include "baracuda/ops/norm/group_norm.hpp"
#include "baracuda/ops/norm/channels_cuda_detail.hpp"
#include "baracuda/ops/norm/norm_cuda.hpp"

namespace baracuda {
namespace {
using namespace channels_detail;
using namespace norm_detail;
using D = GroupNormDescriptor;

int64_t lists(const D& d) { return samples_of(d) * d.groups; }
int64_t each(const D& d) { return channels_of(d) / d.groups; }  // channels of a group
int64_t elements(const D& d) { return d.shape.numel() ? each(d) * span_of(d) : 0; }

struct All : Scratch { double *dweight, *dbias; };
All carve_all(const D& d, Carver& c, bool backward) {
  const int64_t cells = backward && d.shape.numel() ? samples_of(d) * channels_of(d) : 0;
  All s{};
  static_cast<Scratch&>(s) = carve(d.dtype, c, lists(d), std::max(lists(d) * list_chunks(elements(d)), cells ? cells * list_chunks(span_of(d)) : 0));
  s.dweight = static_cast<double*>(c.take_bytes("dweight of samples", cells, sizeof(double)));
  s.dbias = static_cast<double*>(c.take_bytes("dbias of samples", cells, sizeof(double)));
  return s;
}
template <bool kBackward> void carve_row(const D& d, const void*, Carver& c) { (void)carve_all(d, c, kBackward); }

ListJoinCuda join_of(const D& d, const All& s, const TensorView& x, const TensorView& mean, const TensorView& rstd, ListStatistics from) {
  const int64_t n = elements(d);
  return {walk_lists(d, x, {}, false, n), walk_found({samples_of(d), d.groups}, mean, rstd), x.data, s.sums, s.kept, mean.data, rstd.data, lists(d), n, d.eps, 0, {}, {}, from, false};
}
// The statistics of all groups of x, into what is kept and mean and rstd.
int find(const D& d, const ListJoinCuda& p, void* stream) {
  int e = 0;
  if (p.n && p.from == ListStatistics::sums) e = channel_cuda_kernels.sums[d.dtype]({p.walk, p.x, nullptr, p.lists, p.n, 1, p.kept, const_cast<void*>(p.sums)}, stream);
  return e ? e : channel_cuda_kernels.join[d.dtype](p, stream);
}
Status run_forward(const Launch<GroupNorm>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const All s = carve_all(d, c, false);
  return device::queue(l.stream, "group_norm.cuda.group", [&] {
    HeldListsCuda held{join_of(d, s, a.x, a.mean, a.rstd, ListStatistics::sums), {}, a.x.data, nullptr, a.y.data, vector_of(a.weight), vector_of(a.bias), channels_of(d), span_of(d), each(d)};
    if (held_lists(d, a.x, {}, a.y, d.groups, held)) return channel_held_cuda[d.dtype](held, l.stream.handle);
    const int e = find(d, held.join, l.stream.handle);
    if (e || d.shape.numel() == 0) return e;
    return channel_write_cuda[d.dtype](write_of(d, a.x, {}, a.y, a.weight, a.bias, s.kept, each(d)), ChannelWrite::forward, l.stream.handle);
  });
}
Status run_backward(const Launch<GroupNormBackward>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  const All s = carve_all(d, c, true);
  void* const stream = l.stream.handle;
  const bool some = d.shape.numel() > 0;
  return device::queue(l.stream, "group_norm_backward.cuda.group", [&] {
    int e = 0;
    if (some) {
      const int64_t span = span_of(d);
      e = find(d, join_of(d, s, a.x, a.mean, a.rstd, a.rstd.absent() ? ListStatistics::sums : ListStatistics::saved), stream);
      if (!e) e = channel_cuda_kernels.sums[d.dtype]({walk_lists(d, a.x, a.dy, false, span), a.x.data, a.dy.data, samples_of(d) * channels_of(d), span, each(d), s.kept, s.sums}, stream);
      if (!e) e = channel_cuda_kernels.join_gradient[d.dtype]({s.sums, s.kept, lists(d), each(d), elements(d), list_chunks(span), channels_of(d), vector_of(a.weight), {}, {},
                                                               s.dweight, s.dbias, false}, stream);
      if (!e) e = channel_write_cuda[d.dtype](write_of(d, a.x, a.dy, a.dx, a.weight, {}, s.kept, each(d)), ChannelWrite::backward, stream);
    }
    const int64_t samples = some ? samples_of(d) : 0, channels = channels_of(d);
    const auto stride = [](const TensorView& v) { return v.absent() ? 0 : v.strides[0]; };
    return e ? e : norm_cuda_kernels.fold_f64[weight_dtype(d)]({{{s.dweight, a.dweight.data, stride(a.dweight)}, {s.dbias, a.dbias.data, stride(a.dbias)}}, samples, channels}, stream);
  });
}

}  // namespace

template <> std::span<const Kernel<GroupNorm>> cuda_kernels<GroupNorm>() {
  static constexpr Kernel<GroupNorm> list[] = {{.name = "group_norm.cuda.group", .device = DeviceKind::cuda, .min_arch = 80,
                                                .launch = launch_all<GroupNorm>(Floating{}, run_forward), .guarantee = guarantee, .carve = carve_row<false>}};
  return list;
}
template <> std::span<const Kernel<GroupNormBackward>> cuda_kernels<GroupNormBackward>() {
  static constexpr Kernel<GroupNormBackward> list[] = {{.name = "group_norm_backward.cuda.group", .device = DeviceKind::cuda, .min_arch = 80,
                                                        .launch = launch_all<GroupNormBackward>(Floating{}, run_backward), .guarantee = guarantee,
                                                        .carve = carve_row<true>}};
  return list;
}

}  // namespace baracuda
