#include "baracuda/ops/shape/shape_cuda.hpp"
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cuda.hpp"
#include "baracuda/ops/shape/device_moves.hpp"
#include "baracuda/ops/shape/shape_maps.hpp"
#include "baracuda/ops/shape/shape_moves.hpp"

namespace baracuda {
namespace {

using namespace shape_detail;
using device::Operand;

template <class Op> Status run_moves(const Launch<Op>& l) {
  return device::queue(l.stream, Op::name, [&] {
    DeviceMoves m{l.stream.handle};
    move(l, m);
    return m.error;
  });
}

// Several pieces that are dense, as the whole is, by one launch for kMostPieces; false where they are not, or no whole words.
bool dense_pieces(const TensorView& whole, int axis, Tensors pieces, bool join, void* stream, int& error) {
  constexpr int64_t kUnit = 16, kLeast = 3;
  int64_t inner = int64_t(byte_size(whole.dtype)), at = 0;
  for (int a = axis + 1; a < whole.shape.rank; ++a) inner *= whole.shape[a];
  bool units = int64_t(pieces.size()) >= kLeast && whole.contiguous() && uintptr_t(whole.data) % kUnit == 0;
  for (const TensorView& p : pieces) units = units && p.contiguous() && uintptr_t(p.data) % kUnit == 0 && p.shape[axis] * inner % kUnit == 0;
  if (!units || whole.numel() == 0) return units;
  PiecesCuda q{};
  q.whole = whole.data, q.join = join, q.pitch = whole.shape[axis] * inner / kUnit, q.rows = whole.numel() * int64_t(byte_size(whole.dtype)) / (q.pitch * kUnit);
  for (const TensorView& p : pieces) {
    const int64_t width = p.shape[axis] * inner / kUnit;
    if (p.data && width > 0) {
      q.piece[q.count] = p.data, q.column[q.count] = at, q.start[q.count + 1] = q.start[q.count] + width;
      if (++q.count == kMostPieces) error = error ? error : shape_pieces_cuda(q, stream), q.count = 0;
    }
    at += width;
  }
  if (q.count && !error) error = shape_pieces_cuda(q, stream);
  return true;
}
template <class Op> Status run_pieces(const Launch<Op>& l, const TensorView& whole, Tensors pieces, bool join) {
  return device::queue(l.stream, Op::name, [&] {
    DeviceMoves m{l.stream.handle};
    if (!dense_pieces(whole, axis_at(l.desc.axis, l.desc.shape.rank), pieces, join, m.stream, m.error)) move(l, m);
    return m.error;
  });
}
Status run_concat(const Launch<Concat>& l) { return run_pieces(l, l.args.y, l.args.x, true); }
Status run_split(const Launch<Split>& l) { return run_pieces(l, l.args.x, l.args.y, false); }

// The axes of a map with the strides of both tensors: those of extent 1 left out, neighbours that stay as they are made one.
template <class To> void set_axes(const IndexMap& map, const TensorView& x, const TensorView& y, To& to) {
  to.rank = 0;
  for (int a = 0; a < map.rank; ++a) {
    const AxisMap& m = map.axis[a];
    if (m.identity() && m.n == 1) continue;
    ShapeAxis* before = to.rank > 0 ? &to.axis[to.rank - 1] : nullptr;
    if (before && before->map.identity() && m.identity() && before->x_stride == x.strides[a] * m.n && before->y_stride == y.strides[a] * m.n)
      *before = {AxisMap::same(before->map.n * m.n), x.strides[a], y.strides[a]};
    else to.axis[to.rank++] = {m, x.strides[a], y.strides[a]};
  }
  if (to.rank == 0) to.axis[to.rank++] = {AxisMap::same(1), 1, 1};
}
int gather_units(const IndexMap& map, const TensorView& x, const TensorView& y, Bytes16 fill, void* stream) {
  GatherAxes g{};
  set_axes(map, x, y, g);
  g.x = x.data, g.y = y.data, g.fill[0] = fill.a, g.fill[1] = fill.b;
  return shape_gather_cuda[std::countr_zero(byte_size(y.dtype))](g, stream);
}
int queue_gather(const IndexMap& map, const TensorView& x, const TensorView& y, Bytes16 fill, void* stream) {
  if (y.numel() == 0) return 0;
  bool moved = false;
  for (int a = 0; a < map.rank; ++a) moved = moved || !map.axis[a].identity();
  return moved ? gather_units(map, x, y, fill, stream) : move_on_device(x, y, stream);
}
template <class Op> Status run_gather(const Launch<Op>& l) {
  const IndexMap map = map_of(l.desc);
  return device::queue(l.stream, Op::name, [&] { return queue_gather(map, reshaped_ones(l.args.x, map.rank), l.args.y, {}, l.stream.handle); });
}
template <class Op> Status run_sum_back(const Launch<Op>& l) {
  const IndexMap map = map_of(l.desc);
  SumBackAxes s{};
  set_axes(map, reshaped_ones(l.args.dx, map.rank), l.args.dy, s);
  s.dy = l.args.dy.data, s.dx = l.args.dx.data;
  return device::queue(l.stream, Op::name, [&] { return shape_sum_back_cuda[l.desc.dtype](s, l.stream.handle); });
}
// dy's axes taken apart into those of x and those that the repeats are; false where there are too many, or where nothing falls on an element.
struct RepeatAxes {
  Shape shape, kept;  // kept: 1 where an axis is summed
  int axis[kMaxRank]; // of the map, and how many of its indices a step is
  int64_t step[kMaxRank];

  bool of(const IndexMap& map) {
    for (int a = 0; a < map.rank; ++a) {
      const AxisMap& m = map.axis[a];
      if (m.m == 0 || m.n == 0) return false;
      const int64_t times = m.m / m.n;
      const bool inner = m.kind == MapKind::repeated;  // the repeats stand side by side
      for (int k = 0; k < 2; ++k) {
        const bool repeats = (k == 1) == inner;
        const int64_t extent = repeats ? times : m.n;
        if (extent == 1) continue;
        if (shape.rank == kMaxRank) return false;
        axis[shape.rank] = a, step[shape.rank] = k == 1 ? 1 : inner ? times : m.n;
        shape.push_back(extent), kept.push_back(repeats ? 1 : extent);
      }
    }
    return true;
  }
};
constexpr int64_t kFewTerms = 64, kManyUnits = 1 << 18;
template <class Op> double* carve_repeat_sum(const typename Op::Descriptor& d, Carver& c) {
  RepeatAxes r;
  if (!r.of(map_of(d))) return nullptr;
  return c.take<double>("partial sums", broadcast_partials_cuda(r.shape, r.kept, repeat_sum_cuda[d.dtype].lanes, 1));
}
template <class Op> Status run_repeat_backward(const Launch<Op>& l) {
  const auto& d = l.desc;
  const IndexMap map = map_of(d);
  RepeatAxes r;
  if (!r.of(map)) return run_sum_back(l);
  Carver c = l.carver();
  double* const partial = carve_repeat_sum<Op>(d, c);
  const TensorView &dy = l.args.dy, dx = reshaped_ones(l.args.dx, map.rank);
  Operand from{dy.data, int(byte_size(d.dtype)), {}};
  TensorView to = dx;
  to.shape = r.kept, to.strides = {};
  for (int a = 0; a < r.shape.rank; ++a) from.strides.push_back(dy.strides[r.axis[a]] * r.step[a]), to.strides.push_back(r.kept[a] == 1 ? 0 : dx.strides[r.axis[a]]);
  const auto& kernels = repeat_sum_cuda[d.dtype];
  return device::queue(l.stream, Op::name, [&] {
    const int64_t elements = r.kept.numel(), terms = r.shape.numel() / elements;
    if (terms <= kFewTerms || elements >= kManyUnits) {
      RepeatTerms t{};
      Shape kept, summed;
      Operand sides[] = {{to.data, from.bytes, {}}, {from.data, from.bytes, {}}}, steps[] = {{from.data, from.bytes, {}}};
      for (int a = 0; a < r.shape.rank; ++a) {
        if (r.kept[a] == 1) summed.push_back(r.shape[a]), steps[0].strides.push_back(from.strides[a]);
        else kept.push_back(r.shape[a]), sides[0].strides.push_back(to.strides[a]), sides[1].strides.push_back(from.strides[a]);
      }
      const int lanes = 16 / from.bytes;
      bool whole = true;
      for (int a = 0; a < summed.rank; ++a) whole = whole && steps[0].strides[a] % lanes == 0;
      t.kept = device::walk<2>(kept, sides, 0, whole ? lanes : 1), t.terms = device::walk<1>(summed, steps, -1, 1);
      if (t.kept.rest) t.kept = device::walk<2>(kept, sides, 0, 1);
      t.dy = dy.data, t.dx = dx.data;
      return kernels.terms(t, l.stream.handle);
    }
    const BroadcastSumCuda<1> b(r.shape, &from, 0, to, partial);
    return kernels.sum(b.sum, l.stream.handle);
  });
}
Status run_pad(const Launch<Pad>& l) {
  return device::queue(l.stream, Pad::name, [&] { return queue_gather(map_of(l.desc), l.args.x, l.args.y, bits_of(l.desc.dtype, l.args.value), l.stream.handle); });
}
Status run_pad_backward(const Launch<PadBackward>& l) {
  IndexMap map;
  if (!gradient_map(l.desc, map)) return run_sum_back(l);
  return device::queue(l.stream, PadBackward::name, [&] { return queue_gather(map, l.args.dy, l.args.dx, {}, l.stream.handle); });
}
Status run_roll(const Launch<Roll>& l) {
  const auto& d = l.desc;
  if (d.axes.rank > 0) return run_gather(l);
  const TensorView &x = l.args.x, &y = l.args.y;
  const int64_t size = d.shape.numel();
  if (size == 0) return {};
  IndexMap map;
  map.rank = 1, map.axis[0] = rolled(size, d.shifts[0]);
  return device::queue(l.stream, Roll::name, [&] {
    if (x.contiguous() && y.contiguous())
      return queue_gather(map, TensorView::dense(x.data, x.dtype, {size}), TensorView::dense(y.data, y.dtype, {size}), {}, l.stream.handle);
    const Operand from[] = {Operand::of(x)}, to[] = {Operand::of(y)};
    return shape_roll_flat_cuda[std::countr_zero(byte_size(d.dtype))]({device::walk<1>(d.shape, from, -1, 1), device::walk<1>(d.shape, to, -1, 1), map.axis[0], x.data, y.data}, l.stream.handle);
  });
}
Status run_triangle(const Launch<Triangle>& l) {
  const auto& d = l.desc;
  const TensorView &x = l.args.x, &y = l.args.y;
  if (y.numel() == 0) return {};
  const int last = d.shape.rank - 1;
  Shape outer = d.shape;
  outer.dim[last] = 0, outer.rank = last;
  Operand rows[] = {Operand::of(x), Operand::of(y)};
  for (Operand& o : rows) o.strides.dim[last] = 0, o.strides.rank = last;
  const TriangleCuda t{device::walk<2>(outer, rows, -1, 1), d.shape[last - 1], d.shape[last], d.diagonal, x.strides[last], y.strides[last],
                       d.kind == TriangleKind::lower, x.data == y.data ? nullptr : x.data, y.data};
  return device::queue(l.stream, "triangle.cuda.rows", [&] { return shape_triangle_cuda[std::countr_zero(byte_size(d.dtype))](t, l.stream.handle); });
}
template <class Op> PrecisionGuarantee summed_in_double(const typename Op::Descriptor&) {
  return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
}
template <class Op> constexpr Kernel<Op> bits_row(std::string_view name, Launcher<Op> run) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<Op>(run), .guarantee = exact<Op>};
}
template <class Op> constexpr Kernel<Op> sum_row(std::string_view name, Launcher<Op> run) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Op>(Floating{}, run), .guarantee = summed_in_double<Op>};
}
template <class Op> constexpr Kernel<Op> repeat_row(std::string_view name) {
  Kernel<Op> row = sum_row<Op>(name, run_repeat_backward<Op>);
  row.carve = [](const typename Op::Descriptor& d, const void*, Carver& c) { (void)carve_repeat_sum<Op>(d, c); };
  return row;
}

}  // namespace

int shape_detail::move_on_device(const TensorView& x, const TensorView& y, void* stream) {
  constexpr int64_t kLeastRow = 256;  // bytes
  const int last = y.shape.rank - 1, size = int(byte_size(y.dtype)), lanes = 16 / size;
  if (last > 0 && y.shape[last] * size >= kLeastRow && x.strides[last] == 1 && y.contiguous() && uintptr_t(y.data) % 16 == 0 && !x.contiguous()) {
    bool words = uintptr_t(x.data) % 16 == 0 && y.shape[last] % lanes == 0;
    for (int a = 0; a < last; ++a) words = words && (y.shape[a] == 1 || x.strides[a] % lanes == 0);
    if (!words) return gather_units(IndexMap::same(y.shape), x, y, {}, stream);
  }
  return copy_on_device(y.shape, Operand::of(x), Operand::of(y), stream);
}

#define BARACUDA_SHAPE_ROW(OP, MADE)                                  \
  template <> std::span<const Kernel<OP>> cuda_kernels<OP>() {        \
    static constexpr Kernel<OP> list[] = {MADE};                      \
    return list;                                                      \
  }
BARACUDA_SHAPE_ROW(Permute, bits_row<Permute>("permute.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(Concat, bits_row<Concat>("concat.cuda.strided", run_concat))
BARACUDA_SHAPE_ROW(Split, bits_row<Split>("split.cuda.strided", run_split))
BARACUDA_SHAPE_ROW(Pad, bits_row<Pad>("pad.cuda.units", run_pad))
BARACUDA_SHAPE_ROW(PadBackward, sum_row<PadBackward>("pad_backward.cuda.units", run_pad_backward))
BARACUDA_SHAPE_ROW(Flip, bits_row<Flip>("flip.cuda.units", run_gather))
BARACUDA_SHAPE_ROW(Roll, bits_row<Roll>("roll.cuda.units", run_roll))
BARACUDA_SHAPE_ROW(Repeat, bits_row<Repeat>("repeat.cuda.units", run_gather))
BARACUDA_SHAPE_ROW(RepeatBackward, repeat_row<RepeatBackward>("repeat_backward.cuda.sums"))
BARACUDA_SHAPE_ROW(RepeatInterleave, bits_row<RepeatInterleave>("repeat_interleave.cuda.units", run_gather))
BARACUDA_SHAPE_ROW(RepeatInterleaveBackward, repeat_row<RepeatInterleaveBackward>("repeat_interleave_backward.cuda.sums"))
BARACUDA_SHAPE_ROW(Slice, bits_row<Slice>("slice.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(SliceBackward, bits_row<SliceBackward>("slice_backward.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(UpdateSlice, bits_row<UpdateSlice>("update_slice.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(UpdateSliceBackward, bits_row<UpdateSliceBackward>("update_slice_backward.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(Triangle, bits_row<Triangle>("triangle.cuda.rows", run_triangle))
BARACUDA_SHAPE_ROW(Diagonal, bits_row<Diagonal>("diagonal.cuda.strided", run_moves))
BARACUDA_SHAPE_ROW(DiagonalEmbed, bits_row<DiagonalEmbed>("diagonal_embed.cuda.strided", run_moves))
#undef BARACUDA_SHAPE_ROW

}  // namespace baracuda
