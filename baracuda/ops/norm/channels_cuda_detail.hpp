#pragma once
// What the CUDA rows of BatchNorm and GroupNorm share: how tensors of [samples, channels, any further axes] are walked.
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/norm/channels_cuda.hpp"
#include "baracuda/ops/norm/norm_detail.hpp"

namespace baracuda::channels_detail {

inline ChannelVector vector_of(const TensorView& v) { return v.absent() ? ChannelVector{} : ChannelVector{v.data, v.strides[0], v.dtype == DType::f32}; }

// The axes of `shape` in the order `axis`; 16 bytes at a time where `whole` elements are a multiple of that and the memory allows it.
template <int K> device::Walk<K> walk_axes(const Shape& shape, std::span<const int> axis, const TensorView* const (&v)[K], int64_t whole) {
  Shape order;
  device::Operand operand[K];
  for (int a : axis) order.push_back(shape[a]);
  int lanes = 1;
  for (int k = 0; k < K; ++k) {
    operand[k] = device::Operand::of(*v[k]);
    if (!operand[k].data) continue;
    lanes = 16 / operand[k].bytes;
    operand[k].strides = {};
    for (int a : axis) operand[k].strides.push_back(v[k]->strides[a]);
  }
  auto w = device::walk<K>(order, operand, -1, whole % lanes == 0 ? lanes : 1);
  bool spread = false;
  for (int k = 0; k < K; ++k) spread = spread || (operand[k].data && w.spread[k]);
  return spread && w.lanes > 1 ? device::walk<K>(order, operand, -1, 1) : w;
}
struct Axes {
  int axis[kMaxRank], count = 0;
  void add(int a) { axis[count++] = a; }
  void add(int begin, int end) { for (int a = begin; a < end; ++a) add(a); }
  std::span<const int> all() const { return {axis, size_t(count)}; }
};
// [lists, elements of a list]: the channels first, or as they stand.
template <class D> device::Walk<2> walk_lists(const D& d, const TensorView& x, const TensorView& dy, bool channels_first, int64_t n) {
  Axes axes;
  if (channels_first) axes.add(1), axes.add(0);
  else axes.add(0, 2);
  axes.add(2, d.shape.rank);
  return walk_axes<2>(d.shape, axes.all(), {&x, &dy}, n);
}
// Whether a block holds the lists of p, channels or `groups` of each sample's, and where they lie.
template <class D> bool held_lists(const D& d, const TensorView& x, const TensorView& dy, const TensorView& y, int64_t groups, HeldListsCuda& p) {
  using norm_detail::channels_of, norm_detail::span_of;
  const int64_t span = span_of(d), n = p.join.n, lanes = 16 / int64_t(byte_size(d.dtype));
  if (n <= 16 /* more lists than a block keeps */ || n > kHeldChunks * kListChunk || span % lanes || p.join.lists >= int64_t(1) << 31 || !channel_held_cuda[d.dtype]) return false;
  const auto place = [&](const TensorView& v, HeldTensorCuda& to) {
    if (v.absent()) return true;
    int64_t step = 1;
    for (int a = d.shape.rank - 1; a >= 2; step *= d.shape[a--])
      if (d.shape[a] > 1 && v.strides[a] != step) return false;
    if (groups && p.each > 1 && v.strides[1] != span) return false;
    to = groups ? HeldTensorCuda{v.strides[0], p.each * v.strides[1], 0} : HeldTensorCuda{v.strides[1], 0, v.strides[0]};
    return uintptr_t(v.data) % 16 == 0 && to.major % lanes == 0 && to.minor % lanes == 0 && to.outer % lanes == 0;
  };
  p.per = device::Divisor::of(uint32_t(groups ? groups : 1)), p.run = device::Divisor::of(uint32_t(groups ? n : span));
  return place(x, p.at_x) && place(dy, p.at_dy) && place(y, p.at_y);
}
// y or dx; `each`: channels of a list's group, 0 where a list is a channel.
template <class D> ChannelWriteCuda write_of(const D& d, const TensorView& x, const TensorView& dy, const TensorView& y, const TensorView& weight, const TensorView& bias,
                                             const void* kept, int64_t each) {
  using norm_detail::channels_of, norm_detail::span_of;
  ChannelWriteCuda p{};
  const int64_t channels = channels_of(d), span = span_of(d);
  p.last = channels > 1 && (span == 1 || y.strides[1] == 1);
  Axes axes;
  axes.add(0);
  if (!p.last) axes.add(1);
  axes.add(2, d.shape.rank);
  if (p.last) axes.add(1);
  p.walk = walk_axes<3>(d.shape, axes.all(), {&x, &dy, &y}, p.last ? channels : span);
  p.x = x.data, p.dy = dy.data, p.y = y.data, p.kept = kept;
  p.channels = channels, p.span = span, p.each = each;
  p.weight = vector_of(weight), p.bias = vector_of(bias);
  if (d.shape.numel() < int64_t(1) << 31) {
    const auto by = [](int64_t n) { return device::Divisor::of(uint32_t(std::max<int64_t>(n, 1))); };
    p.by_span = by(span), p.by_channels = by(channels), p.by_each = by(each), p.by_sample = by(channels * span);
  }
  return p;
}
// The step from one element of a channel to the next where ColumnSumsCuda takes them; 0: it does not.
template <class D> int64_t column_step(const D& d, const TensorView& v) {
  const int64_t size = int64_t(byte_size(d.dtype)), lanes = 16 / size;
  int64_t step = 0, n = 1;
  for (int a = d.shape.rank - 1; a >= 0; --a) {
    if (a == 1 || d.shape[a] == 1) continue;
    if (n == 1) step = v.strides[a];
    else if (v.strides[a] != step * n) return 0;
    n *= d.shape[a];
  }
  const bool even = norm_detail::channels_of(d) % lanes == 0 && step % lanes == 0 && uintptr_t(v.data) % 16 == 0;
  return v.strides[1] == 1 && even && size < 8 ? step : 0;
}
inline device::Walk<2> walk_found(const Shape& lists, const TensorView& mean, const TensorView& rstd) {
  const device::Operand operand[] = {device::Operand::of(mean), device::Operand::of(rstd)};
  return device::walk<2>(lists, operand, -1, 1);
}

// Memory of `lists` lists: what they keep, and the sums of chunks.
struct Scratch { void *kept, *sums; };
inline Scratch carve(DType dtype, Carver& c, int64_t lists, int64_t chunk_sums) {
  const uint64_t size = byte_size(accumulator(dtype));
  Scratch s;
  s.kept = c.take_bytes("what lists keep", lists, sizeof(ListKept<char>) * size);
  s.sums = c.take_bytes("sums of chunks", chunk_sums, kSumNumbers * size);
  return s;
}

}  // namespace baracuda::channels_detail
