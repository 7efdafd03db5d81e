#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/device/sm90a.hpp"
#include "baracuda/device/spread.hpp"
#include "baracuda/host/row_sum.hpp"
#include "baracuda/ops/softmax/softmax_detail.hpp"
#include "baracuda/ops/softmax/softmax_spread_cuda.hpp"
#include "baracuda/ops/softmax/softmax_words_cuda.hpp"

namespace baracuda {
namespace {
using device::Operand;
using namespace softmax_detail;

// Of an element, where registers serve: one dtype, not f64; else 8.
int size(const SoftmaxDescriptor& d) { return out_dtype(d) == d.dtype ? int(byte_size(d.dtype)) : 8; }
// Whether registers, or for columns the shared memory of a block, hold lines of the shape.
bool held(const SoftmaxDescriptor& d, bool columns, bool backward) {
  return (columns ? softmax_cuda_blocks_of_column(extent_of(d), backward) : softmax_cuda_blocks_of_row(extent_of(d), size(d))) == 1;
}
int64_t columns_of(const SoftmaxDescriptor& d) { return d.shape.rank ? d.shape.product(axis_of(d) + 1, d.shape.rank) : 1; }
// Of a row, where all blocks of a device hold rows together.
int64_t pieces(const SoftmaxDescriptor& d, bool backward) { return spread::pieces_of(extent_of(d), backward ? 2 : 1, size(d)); }
uint64_t long_bytes(const SoftmaxDescriptor& d, bool backward) {
  const int64_t n = extent_of(d), lines = n ? d.shape.numel() / n : 0, columns = columns_of(d);
  uint64_t bytes = 0;
  if (lines == 0 || size(d) == 8) return 0;
  if (!held(d, false, backward)) bytes = std::max(softmax_long_bytes(lines, n, 0, size(d), backward), uint64_t(lines * pieces(d, backward)) * 8);
  if (columns > 1 && !held(d, true, backward)) bytes = std::max(bytes, softmax_long_bytes(lines, n, columns, size(d), backward));
  return bytes;
}
struct Scratch { void *max, *sum, *chunks; uint64_t chunk_bytes; };
Scratch carve(const SoftmaxDescriptor& d, bool backward, Carver& c) {
  const int64_t n = extent_of(d), count = n > kSumChunk ? sum_chunks(n) * (d.shape.numel() / n) : 0;
  const uint64_t bytes = byte_size(computing(d)), more = long_bytes(d, backward);
  return {c.take_bytes("maxima of chunks", backward ? 0 : count, bytes), c.take_bytes("sums of chunks", count, bytes), c.take_bytes("chunks of long lines", more, 1), more};
}
// x, none, mask, y; or dy, y, mask, dx
SoftmaxCuda problem_of(const SoftmaxDescriptor& d, const TensorView* const (&v)[4]) {
  SoftmaxCuda p{};
  const int axis = axis_of(d);
  Shape outer;
  Operand operand[4];
  for (int k = 0; k < 4; ++k) {
    operand[k] = Operand::of(*v[k]);
    p.step[k] = operand[k].data && d.shape.rank ? v[k]->strides[axis] : 1;
    operand[k].strides = {};
  }
  for (int i = 0; i < d.shape.rank; ++i) {
    if (i == axis) continue;
    outer.push_back(d.shape[i]);
    for (int k = 0; k < 4; ++k) operand[k].strides.push_back(operand[k].data ? v[k]->strides[i] : 0);
  }
  p.lines = device::walk<4>(outer, operand, 3, 1);
  p.in = v[0]->data, p.second = v[1]->data, p.mask = v[2]->data, p.out = v[3]->data;
  p.n = extent_of(d);
  p.negate = d.kind == SoftmaxKind::softmin, p.log = d.kind == SoftmaxKind::log_softmax, p.safe = d.kind == SoftmaxKind::safe_softmax;
  p.scale = d.scale, p.sign = p.negate ? -d.scale : d.scale;
  // Neighbouring lines lie side by side and elements of a line do not.
  const int last = p.lines.rank - 1;
  bool dense_lines = true, dense_across = false;
  for (int k = 0; k < 4; ++k)
    if (k != 2 && operand[k].data) dense_lines &= p.n == 1 || p.step[k] == 1, dense_across |= p.lines.stride[k][last] == 1;
  p.columns = !dense_lines && dense_across && p.lines.extent[last] >= 8;
  return p;
}
// Columns that a cluster of blocks holds and one does not.
template <bool kBackward> std::string refuse_cluster(const SoftmaxDescriptor& d, const PlanPreference&) {
  return size(d) < 8 && columns_of(d) > 1 && softmax_cuda_blocks_of_column(extent_of(d), kBackward) > 1 ? "" : "for columns of one dtype that a cluster of blocks holds and one block does not";
}
// Rows that all blocks of a device hold together.
int64_t blocks_of(const Stream& stream) { return int64_t(device::facts(stream.device.index).multiprocessors) * spread::kBlocks; }
template <bool kBackward> std::string refuse_spread(const SoftmaxDescriptor& d, const PlanPreference&) {
  return size(d) < 8 && columns_of(d) == 1 && softmax_cuda_blocks_of_row(extent_of(d), size(d)) != 1 && d.shape.numel() > 0 && extent_of(d) % (16 / size(d)) == 0 ? "" : "for rows of one dtype, of whole pieces of 16 bytes, that no block holds";
}
template <bool kBackward> Result<PlanState> prepare_spread(const Stream& stream, const SoftmaxDescriptor& d, const PlanPreference&) {
  BARACUDA_TRY(device::only_sm90a(stream));
  if (spread::fits(d.shape.numel() / extent_of(d), pieces(d, kBackward), blocks_of(stream))) return PlanState{};
  return Status(Code::unsupported, "for rows that the blocks of the device hold together");
}
// Neighbouring lines are neighbours, or one, in every tensor.
bool even(const SoftmaxCuda& p) {
  const int last = p.lines.rank - 1;
  const auto near = [&](int k) { return p.lines.stride[k][last] == 1 || p.lines.stride[k][last] == 0; };
  return near(0) && (!p.second || near(1)) && p.lines.stride[3][last] == 1;
}
Status run(const Stream& stream, std::string_view name, const SoftmaxDescriptor& d, SoftmaxCuda p, bool backward, const Scratch& s, const void* sm90a, bool cluster = false) {
  const auto launch = (backward ? softmax_cuda_kernels.backward : softmax_cuda_kernels.forward)[d.dtype][out_dtype(d)];
  const int tuned = size(d) < 8 ? size(d) : 0;
  return device::queue(stream, name, [&] {
    if (tuned && softmax_cuda_plain(p) && (!p.columns || even(p))) {
      const bool fits = held(d, p.columns, backward) || (cluster && p.columns);
      const int64_t columns = p.columns ? p.lines.extent[p.lines.rank - 1] : 0;
      if (fits && p.columns) return (backward ? softmax_columns_cuda.backward : softmax_columns_cuda.forward)[d.dtype](p, stream.handle);
      if (fits && sm90a && softmax_cuda_row(p, tuned) && softmax_cuda_by_runs(p, tuned)) return (backward ? softmax_runs_cuda.backward : softmax_runs_cuda.forward)[d.dtype](p, stream.handle);
      if (fits && backward && softmax_cuda_row(p, tuned) && softmax_cuda_by_tiles(p, tuned)) return softmax_tiles_cuda.backward[d.dtype](p, stream.handle);
      if (fits && softmax_cuda_row(p, tuned) && softmax_cuda_by_words(p.n, tuned, backward)) return (backward ? softmax_words_cuda.backward : softmax_words_cuda.forward)[d.dtype](p, stream.handle);
      const uint64_t bytes = fits ? 0 : softmax_long_bytes(p.lines.units, p.n, columns, tuned, backward);
      if (bytes && bytes <= s.chunk_bytes) {
        p.chunk_memory = s.chunks;
        return (backward ? softmax_long_cuda.backward : softmax_long_cuda.forward)[d.dtype](p, stream.handle);
      }
    }
    if (softmax_cuda_whole(p, tuned)) return launch(p, stream.handle);
    p.max = s.max, p.sum = s.sum, p.stage = SoftmaxStage::chunks;
    int e = launch(p, stream.handle);
    if (!e) e = softmax_cuda_kernels.join[computing(d)]({s.max, s.sum, p.lines.units, sum_chunks(p.n), p.log, p.safe, backward}, stream.handle);
    p.stage = SoftmaxStage::finish;
    return e ? e : launch(p, stream.handle);
  });
}
template <bool kBackward> Status run_spread(const Stream& stream, std::string_view name, const SoftmaxDescriptor& d, SoftmaxCuda p, const Scratch& s) {
  int e = kSoftmaxNotSpread;
  if (softmax_cuda_plain(p) && !p.columns) {
    p.chunk_memory = s.chunks;
    BARACUDA_TRY(device::queue(stream, name, [&] {
      e = (kBackward ? softmax_spread_cuda.backward : softmax_spread_cuda.forward)[d.dtype](p, blocks_of(stream), stream.handle);
      return e == kSoftmaxNotSpread ? 0 : e;
    }));
  }
  return e == kSoftmaxNotSpread ? run(stream, name, d, p, kBackward, s, nullptr) : Status();
}
template <bool kCluster> Status run_forward(const Launch<Softmax>& l) {
  const TensorView none{};
  const auto& a = l.args;
  if (l.desc.shape.numel() == 0) return {};
  Carver c = l.carver();
  const SoftmaxCuda p = problem_of(l.desc, {&a.x, &none, &a.mask, &a.y});
  return run(l.stream, kCluster ? "softmax.cuda.cluster" : "softmax.cuda.lines", l.desc, p, false, carve(l.desc, false, c), l.state, kCluster);
}
template <bool kCluster> Status run_backward(const Launch<SoftmaxBackward>& l) {
  const auto& a = l.args;
  if (l.desc.shape.numel() == 0) return {};
  Carver c = l.carver();
  SoftmaxCuda p = problem_of(l.desc, {&a.dy, &a.y, &a.mask, &a.dx});
  p.scale = 1;  // it is in sign
  return run(l.stream, kCluster ? "softmax_backward.cuda.cluster" : "softmax_backward.cuda.lines", l.desc, p, true, carve(l.desc, true, c), l.state, kCluster);
}
Status run_spread_forward(const Launch<Softmax>& l) {
  const TensorView none{};
  Carver c = l.carver();
  return run_spread<false>(l.stream, "softmax.cuda.spread", l.desc, problem_of(l.desc, {&l.args.x, &none, &l.args.mask, &l.args.y}), carve(l.desc, false, c));
}
Status run_spread_backward(const Launch<SoftmaxBackward>& l) {
  Carver c = l.carver();
  SoftmaxCuda p = problem_of(l.desc, {&l.args.dy, &l.args.y, &l.args.mask, &l.args.dx});
  p.scale = 1;
  return run_spread<true>(l.stream, "softmax_backward.cuda.spread", l.desc, p, carve(l.desc, true, c));
}
using Short = TypeList<f16, bf16, float>;
template <bool kBackward> void carve_row(const SoftmaxDescriptor& d, const void*, Carver& c) { (void)carve(d, kBackward, c); }

}  // namespace

template <> std::span<const Kernel<Softmax>> cuda_kernels<Softmax>() {
  static constexpr Kernel<Softmax> list[] = {
      {.name = "softmax.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<Softmax>(Short{}, run_forward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<false>, .carve = carve_row<false>},
      {.name = "softmax.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<Softmax>(Short{}, run_spread_forward),
       .guarantee = guarantee, .refuse = refuse_spread<false>, .carve = carve_row<false>, .prepare = prepare_spread<false>},
      {.name = "softmax.cuda.lines", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Softmax>(Floating{}, run_forward<false>),
       .guarantee = guarantee, .carve = carve_row<false>, .prepare = device::find_sm90a}};
  return list;
}
template <> std::span<const Kernel<SoftmaxBackward>> cuda_kernels<SoftmaxBackward>() {
  static constexpr Kernel<SoftmaxBackward> list[] = {
      {.name = "softmax_backward.cuda.cluster", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<SoftmaxBackward>(Short{}, run_backward<true>),
       .guarantee = guarantee, .refuse = refuse_cluster<true>, .carve = carve_row<true>},
      {.name = "softmax_backward.cuda.spread", .device = DeviceKind::cuda, .min_arch = 90, .launch = launch_all<SoftmaxBackward>(Short{}, run_spread_backward),
       .guarantee = guarantee, .refuse = refuse_spread<true>, .carve = carve_row<true>, .prepare = prepare_spread<true>},
      {.name = "softmax_backward.cuda.lines", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<SoftmaxBackward>(Floating{}, run_backward<false>),
       .guarantee = guarantee, .carve = carve_row<true>, .prepare = device::find_sm90a}};
  return list;
}

}  // namespace baracuda
