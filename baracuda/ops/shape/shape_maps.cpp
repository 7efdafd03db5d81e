// pad, flip, roll, repeat, repeat_interleave: an AxisMap per axis.
#include <algorithm>
#include <cstring>
#include "baracuda/ops/shape/shape_maps.hpp"

namespace baracuda {
namespace shape_detail {
namespace {

AxisMap pad_axis(PadMode mode, int64_t n, int64_t lo, int64_t hi, int64_t interior) {
  if (lo == 0 && hi == 0 && interior == 0) return AxisMap::same(n);
  AxisMap a{MapKind::spread, n, lo + hi + n + (n > 0 ? (n - 1) * interior : 0), lo, interior + 1, 0, 1};
  switch (mode) {
    case PadMode::constant: break;
    case PadMode::reflect: a.kind = MapKind::reflect; break;
    case PadMode::symmetric: a.kind = MapKind::symmetric; break;
    case PadMode::replicate: a.kind = MapKind::replicate; break;
    case PadMode::circular:  // what the negative numbers leave, periodically
      a.kind = MapKind::periodic, a.base = std::max<int64_t>(0, -lo), a.period = n - a.base - std::max<int64_t>(0, -hi);
      a.start = lo > 0 && a.period > 0 ? (a.period - lo % a.period) % a.period : 0;
      break;
  }
  return a;
}
AxisMap repeated_each(int64_t n, int64_t times) { return times == 1 ? AxisMap::same(n) : AxisMap{MapKind::repeated, n, n * times, 0, times, 0, 1}; }
Shape with_leading_ones(const Shape& x, int rank) {
  Shape s;
  for (int i = 0; i < rank; ++i) s.push_back(i < rank - x.rank ? 1 : x[i - (rank - x.rank)]);
  return s;
}

}  // namespace

IndexMap map_of(const PadDescriptor& d) {
  IndexMap map;
  map.rank = d.shape.rank;
  for (int i = 0; i < map.rank; ++i)
    map.axis[i] = pad_axis(d.mode, d.shape[i], at_or(d.lo, i, 0), at_or(d.hi, i, 0), at_or(d.interior, i, 0));
  return map;
}
IndexMap map_of(const FlipDescriptor& d) {
  IndexMap map = IndexMap::same(d.shape);
  for (int k = 0; k < d.axes.rank; ++k) {
    AxisMap& a = map.axis[axis_at(d.axes[k], map.rank)];
    a.start = a.n - 1, a.step = -1;
  }
  return map;
}
AxisMap rolled(int64_t n, int64_t shift) {
  AxisMap a = AxisMap::same(n);
  if (n == 0 || shift % n == 0) return a;
  a.kind = MapKind::periodic, a.period = n, a.start = ((-(shift % n)) % n + n) % n;
  return a;
}
IndexMap map_of(const RollDescriptor& d) {
  IndexMap map = IndexMap::same(d.shape);
  int64_t total[kMaxRank] = {};
  for (int k = 0; k < d.axes.rank; ++k) {
    const int i = axis_at(d.axes[k], map.rank);
    const int64_t n = std::max<int64_t>(1, d.shape[i]);
    total[i] = (total[i] % n + d.shifts[k] % n) % n;
  }
  for (int i = 0; i < map.rank; ++i) map.axis[i] = rolled(d.shape[i], total[i]);
  return map;
}
IndexMap map_of(const RepeatDescriptor& d) {
  const Shape x = with_leading_ones(d.shape, d.repeats.rank);
  IndexMap map = IndexMap::same(x);
  for (int i = 0; i < map.rank; ++i) {
    AxisMap& a = map.axis[i];
    if (a.n == 1) a = repeated_each(1, d.repeats[i]);
    else if (d.repeats[i] != 1) a.kind = MapKind::periodic, a.period = a.n, a.m = a.n * d.repeats[i];
  }
  return map;
}
IndexMap map_of(const RepeatInterleaveDescriptor& d) {
  IndexMap map = IndexMap::same(d.shape);
  const int i = axis_at(d.axis, map.rank);
  map.axis[i] = repeated_each(d.shape[i], d.repeats);
  return map;
}
TensorView reshaped_ones(TensorView v, int rank) {  // leading axes of extent 1
  const int more = rank - v.shape.rank;
  const Strides old = v.strides;
  v.shape = with_leading_ones(v.shape, rank), v.strides = {};
  for (int i = 0; i < rank; ++i) v.strides.push_back(i < more ? 0 : old[i - more]);
  return v;
}

bool gradient_map(const PadDescriptor& d, IndexMap& map) {
  map = map_of(d);
  if (d.mode != PadMode::constant || std::any_of(map.axis, map.axis + map.rank, [](const AxisMap& a) { return a.step != 1; })) return false;
  for (int i = 0; i < map.rank; ++i)
    if (!map.axis[i].identity()) std::swap(map.axis[i].n, map.axis[i].m), map.axis[i].start = -map.axis[i].start;
  return true;
}

}  // namespace shape_detail
namespace {

using namespace shape_detail;

template <class Op> Status run_gather(const Launch<Op>& l) {
  const IndexMap map = map_of(l.desc);
  gather(map, reshaped_ones(l.args.x, map.rank), l.args.y, {}, l.threads);
  return {};
}
template <class Op> Status run_sum_back(const Launch<Op>& l) {
  const IndexMap map = map_of(l.desc);
  sum_back(map, l.args.dy, reshaped_ones(l.args.dx, map.rank), l.threads);
  return {};
}
Status run_pad(const Launch<Pad>& l) {
  gather(map_of(l.desc), l.args.x, l.args.y, bits_of(l.desc.dtype, l.args.value), l.threads);
  return {};
}
Status run_pad_backward(const Launch<PadBackward>& l) {
  IndexMap map;
  if (!gradient_map(l.desc, map)) return run_sum_back(l);
  gather(map, l.args.dy, l.args.dx, {}, l.threads);
  return {};
}
// x as one row, element i to (i + shift) mod size. Strided tensors go through blocks on the stack.
Status run_roll(const Launch<Roll>& l) {
  const auto& d = l.desc;
  if (d.axes.rank > 0) return run_gather(l);
  const int64_t size = d.shape.numel();
  if (size == 0) return {};
  IndexMap map;
  map.rank = 1, map.axis[0] = rolled(size, d.shifts[0]);
  const TensorView &x = l.args.x, &y = l.args.y;
  if (x.contiguous() && y.contiguous()) {
    gather(map, TensorView::dense(x.data, x.dtype, {size}), TensorView::dense(y.data, y.dtype, {size}), {}, l.threads);
    return {};
  }
  MapWalk from, to;
  const MapOperand in = MapOperand::of(x), out = MapOperand::of(y);
  from.init(d.shape, {&in, 1}, {}, false), to.init(d.shape, {}, {&out, 1}, false);
  parallel_for(size, kPiece, l.threads, [&](int64_t begin, int64_t end, int) {
    alignas(16) char read[kMapBlock * 16], write[kMapBlock * 16];
    for (int64_t o = begin, n; o < end; o += n) {
      const AxisMap::Run r = map.axis[0].run(o);
      n = std::min({end - o, r.length, kMapBlock});
      void* place = to.fetch(0, o, n, write, false);
      std::memcpy(place, from.fetch(0, r.from, n, read, true), size_t(n) * byte_size(d.dtype));
      to.put(0, o, n, place);
    }
  });
  return {};
}
template <class Op> PrecisionGuarantee summed_in_double(const typename Op::Descriptor&) {
  return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true};
}

Status validate_pad(std::string_view op, const PadDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d));
  if (!valid_enum(d.mode)) return invalid(op, text("mode ", int(d.mode), " is not a mode"));
  BARACUDA_TRY(expect_per_axis(op, "lo", d.lo, d.shape.rank, true));
  BARACUDA_TRY(expect_per_axis(op, "hi", d.hi, d.shape.rank, true));
  BARACUDA_TRY(expect_per_axis(op, "interior", d.interior, d.shape.rank, true));
  for (int i = 0; i < d.shape.rank; ++i) {
    const int64_t n = d.shape[i], lo = at_or(d.lo, i, 0), hi = at_or(d.hi, i, 0), interior = at_or(d.interior, i, 0);
    if (interior < 0 || interior == INT64_MAX) return invalid(op, text("interior[", i, "] is ", interior, ", it must be >= 0"));
    // Also what the negative numbers leave must have a size, so that no index overflows.
    const __int128 spread = __int128(n) + (n > 0 ? __int128(n - 1) * interior : 0);
    BARACUDA_TRY(expect_extent(op, i, spread + (lo > 0 ? lo : 0) + (hi > 0 ? hi : 0)));
    BARACUDA_TRY(expect_extent(op, i, spread + lo + hi));
    if (d.mode == PadMode::constant || (lo == 0 && hi == 0 && interior == 0)) continue;
    if (interior != 0) return invalid(op, text("interior[", i, "] is ", interior, ", mode ", enum_name(d.mode), " takes 0"));
    const int64_t most = d.mode == PadMode::replicate ? INT64_MAX : d.mode == PadMode::reflect ? n - 1 : n;
    if (n == 0) return invalid(op, text("axis ", i, " is empty, mode ", enum_name(d.mode), " has nothing to take"));
    if (lo > most || hi > most)
      return invalid(op, text("lo ", lo, " and hi ", hi, " of axis ", i, " must be at most ", most, " for mode ", enum_name(d.mode),
                              " and extent ", n));
    if (d.mode == PadMode::circular && __int128(n) + std::min<int64_t>(lo, 0) + std::min<int64_t>(hi, 0) <= 0)
      return invalid(op, text("lo ", lo, " and hi ", hi, " of axis ", i, " leave nothing of extent ", n, " to go round"));
  }
  return expect_addressable(op, "the shape of y", d.dtype, d.y_shape());
}
Status validate_axes(std::string_view op, const Dims& axes, int rank, bool once) {
  if (!axes.rank_ok()) return invalid(op, text("axes has more than ", kMaxRank, " numbers"));
  for (int k = 0; k < axes.rank; ++k) {
    BARACUDA_TRY(expect_axis(op, text("axes[", k, "]"), axes[k], rank));
    for (int j = 0; once && j < k; ++j)
      if (axis_at(axes[k], rank) == axis_at(axes[j], rank)) return invalid(op, text("axes ", axes, " names axis ", axes[k], " twice"));
  }
  return {};
}
Status validate_repeat(std::string_view op, const RepeatDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d));
  if (!d.repeats.rank_ok() || d.repeats.rank < d.shape.rank)
    return invalid(op, text("repeats ", d.repeats, " has ", d.repeats.rank, " numbers, shape ", d.shape, " needs ", d.shape.rank, " to ", kMaxRank));
  for (int i = 0; i < d.repeats.rank; ++i) {
    if (d.repeats[i] < 0) return invalid(op, text("repeats[", i, "] is ", d.repeats[i], ", it must be >= 0"));
    const int k = i - (d.repeats.rank - d.shape.rank);
    BARACUDA_TRY(expect_extent(op, i, __int128(k < 0 ? 1 : d.shape[k]) * d.repeats[i]));
  }
  return expect_addressable(op, "the shape of y", d.dtype, d.y_shape());
}
Status validate_interleave(std::string_view op, const RepeatInterleaveDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d, 1));
  BARACUDA_TRY(expect_axis(op, "axis", d.axis, d.shape.rank));
  if (d.repeats < 0) return invalid(op, text("repeats is ", d.repeats, ", it must be >= 0"));
  const int i = axis_at(d.axis, d.shape.rank);
  BARACUDA_TRY(expect_extent(op, i, __int128(d.shape[i]) * d.repeats));
  return expect_addressable(op, "the shape of y", d.dtype, d.y_shape());
}

}  // namespace

Shape PadDescriptor::y_shape() const { return map_of(*this).y_shape(); }
Shape RepeatDescriptor::y_shape() const { return map_of(*this).y_shape(); }
Shape RepeatInterleaveDescriptor::y_shape() const { return map_of(*this).y_shape(); }

Status Pad::validate(const Descriptor& d) { return validate_pad(name, d); }
Status Pad::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY((check_pair<Pad>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape())));
  if (d.mode == PadMode::constant && a.value != 0 && !dtypes(CastableOrFloat8{}).has(d.dtype))
    return invalid(name, text("value ", a.value, " for ", d.dtype, ", which takes 0"));
  return {};
}
std::span<const Kernel<Pad>> Pad::kernels() {
  static constexpr Kernel<Pad> list[] = {{.name = "pad.cpu.runs", .launch = launch_whole_bytes<Pad>(run_pad), .guarantee = exact<Pad>}};
  return list;
}
Status PadBackward::validate(const Descriptor& d) { return validate_pad(name, d); }
Status PadBackward::check(const Descriptor& d, const Args& a) { return check_pair<PadBackward>(d.dtype, "dy", a.dy, d.y_shape(), "dx", a.dx, d.shape); }
std::span<const Kernel<PadBackward>> PadBackward::kernels() {
  static constexpr Kernel<PadBackward> list[] = {
      {.name = "pad_backward.cpu.rows", .launch = launch_all<PadBackward>(Floating{}, run_pad_backward), .guarantee = summed_in_double<PadBackward>}};
  return list;
}

Status Flip::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d));
  return validate_axes(name, d.axes, d.shape.rank, true);
}
Status Flip::check(const Descriptor& d, const Args& a) { return check_pair<Flip>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape); }
std::span<const Kernel<Flip>> Flip::kernels() {
  static constexpr Kernel<Flip> list[] = {{.name = "flip.cpu.runs", .launch = launch_whole_bytes<Flip>(run_gather<Flip>), .guarantee = exact<Flip>}};
  return list;
}

Status Roll::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d));
  BARACUDA_TRY(validate_axes(name, d.axes, d.shape.rank, false));
  if (!d.shifts.rank_ok() || d.shifts.rank != std::max(1, d.axes.rank))
    return invalid(name, text("shifts ", d.shifts, " has ", d.shifts.rank, " numbers for axes ", d.axes, ", expected ", std::max(1, d.axes.rank)));
  return {};
}
Status Roll::check(const Descriptor& d, const Args& a) { return check_pair<Roll>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape); }
std::span<const Kernel<Roll>> Roll::kernels() {
  static constexpr Kernel<Roll> list[] = {{.name = "roll.cpu.runs", .launch = launch_whole_bytes<Roll>(run_roll), .guarantee = exact<Roll>}};
  return list;
}

Status Repeat::validate(const Descriptor& d) { return validate_repeat(name, d); }
Status Repeat::check(const Descriptor& d, const Args& a) { return check_pair<Repeat>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape()); }
std::span<const Kernel<Repeat>> Repeat::kernels() {
  static constexpr Kernel<Repeat> list[] = {{.name = "repeat.cpu.runs", .launch = launch_whole_bytes<Repeat>(run_gather<Repeat>), .guarantee = exact<Repeat>}};
  return list;
}
Status RepeatBackward::validate(const Descriptor& d) { return validate_repeat(name, d); }
Status RepeatBackward::check(const Descriptor& d, const Args& a) {
  return check_pair<RepeatBackward>(d.dtype, "dy", a.dy, d.y_shape(), "dx", a.dx, d.shape);
}
std::span<const Kernel<RepeatBackward>> RepeatBackward::kernels() {
  static constexpr Kernel<RepeatBackward> list[] = {{.name = "repeat_backward.cpu.rows",
                                                     .launch = launch_all<RepeatBackward>(Floating{}, run_sum_back<RepeatBackward>),
                                                     .guarantee = summed_in_double<RepeatBackward>}};
  return list;
}

Status RepeatInterleave::validate(const Descriptor& d) { return validate_interleave(name, d); }
Status RepeatInterleave::check(const Descriptor& d, const Args& a) {
  return check_pair<RepeatInterleave>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape());
}
std::span<const Kernel<RepeatInterleave>> RepeatInterleave::kernels() {
  static constexpr Kernel<RepeatInterleave> list[] = {{.name = "repeat_interleave.cpu.runs",
                                                       .launch = launch_whole_bytes<RepeatInterleave>(run_gather<RepeatInterleave>),
                                                       .guarantee = exact<RepeatInterleave>}};
  return list;
}
Status RepeatInterleaveBackward::validate(const Descriptor& d) { return validate_interleave(name, d); }
Status RepeatInterleaveBackward::check(const Descriptor& d, const Args& a) {
  return check_pair<RepeatInterleaveBackward>(d.dtype, "dy", a.dy, d.y_shape(), "dx", a.dx, d.shape);
}
std::span<const Kernel<RepeatInterleaveBackward>> RepeatInterleaveBackward::kernels() {
  static constexpr Kernel<RepeatInterleaveBackward> list[] = {
      {.name = "repeat_interleave_backward.cpu.rows",
       .launch = launch_all<RepeatInterleaveBackward>(Floating{}, run_sum_back<RepeatInterleaveBackward>),
       .guarantee = summed_in_double<RepeatInterleaveBackward>}};
  return list;
}

}  // namespace baracuda
