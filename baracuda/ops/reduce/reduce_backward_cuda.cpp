#include "baracuda/ops/reduce/reduce_backward_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/reduce/reduce_backward_detail.hpp"
#include "baracuda/ops/reduce/reduce_cuda_detail.hpp"

namespace baracuda {
namespace {
using device::Operand;
using D = ReduceDescriptor;

struct Scratch { void *p, *q, *g; double *shift, *found; ReducePart* parts; };
Scratch carve_all(const D& d, Carver& c) {
  const unsigned mask = mask_of(d);
  const ReduceMapKind map = map_of(d);
  const int64_t rows = d.shape.numel() ? row_count(d.shape, mask) : 0;
  const bool product = d.kind == ReduceKind::prod;
  const uint64_t size = byte_size(product ? DType::f64 : accumulator(d.dtype));
  Scratch s{};
  s.g = c.take_bytes("factors", rows, size);
  if (product) {
    s.p = c.take_bytes("mantissas", rows, size), s.found = c.take<double>("products of rows", 2 * rows);
    if (rows) s.parts = reduce_cuda_carve(ReduceLoop::product, d.shape, mask, c);
    return s;
  }
  if (reads_x(map) && map != ReduceMapKind::numbers && map != ReduceMapKind::sign) s.p = c.take_bytes("numbers of rows", rows, size);
  if (has_mean(d.kind) || map == ReduceMapKind::power) s.q = c.take_bytes("second numbers of rows", rows, size);
  if (may_loop(plain_kind(d))) {
    s.shift = c.take<double>("extrema", rows), s.found = c.take<double>("found", rows);
    if (rows) s.parts = reduce_cuda_carve(loop_for(d), d.shape, mask, c);
  }
  return s;
}
void carve(const D& d, const void*, Carver& c) { (void)carve_all(d, c); }

Status run(const Launch<ReduceBackward>& l) {
  const D& d = l.desc;
  const auto& a = l.args;
  if (d.shape.numel() == 0) return {};
  Carver c = l.carver();
  const Scratch s = carve_all(d, c);
  const unsigned mask = mask_of(d);
  const ReduceKind kind = plain_kind(d);
  const bool ties = one_of_ties(d), last = ties && d.ties == ReduceTies::last;
  // x, backwards along the reduced axes where the last extremum is wanted: the first one there.
  TensorView x = a.x.absent() || !reduce_saved(d.kind).x ? a.dx : a.x;
  if (last)
    for (int i = 0; i < d.shape.rank; ++i)
      if (mask >> i & 1) x.data = x.as<char>() + (d.shape[i] - 1) * x.strides[i] * int64_t(byte_size(x.dtype)), x.strides[i] = -x.strides[i];
  const Strides dy = over_shape(d.shape, mask, a.dy), y = over_shape(d.shape, mask, a.y), mean = over_shape(d.shape, mask, a.mean);
  const ReduceWalk walk(d.shape, mask, x.strides, {&dy, &y, &mean});

  ReduceRowsCuda r{};
  Shape kept, reduced;
  const bool product = kind == ReduceKind::prod, reads = product || reads_x(map_of(d));
  const TensorView& read = reads ? a.x : a.dx;
  Operand of[5] = {Operand::of(a.dy), Operand::of(a.y), Operand::of(a.mean), Operand::of(a.dx), Operand::of(read)}, row[1] = {Operand::of(a.dx)};
  Operand both[2] = {of[3], of[4]};
  for (Operand& o : of) o.strides = {};
  for (Operand& o : both) o.strides = {};
  row[0].strides = {};
  int64_t number_stride[kMaxRank] = {}, number_step = 1;
  for (int i = 0; i < walk.kept_rank; ++i) {
    const int axis = walk.order[i];
    kept.push_back(d.shape[axis]);
    of[0].strides.push_back(dy[axis]), of[1].strides.push_back(y[axis]), of[2].strides.push_back(mean[axis]), of[3].strides.push_back(a.dx.strides[axis]), of[4].strides.push_back(read.strides[axis]);
  }
  for (int k = walk.kept_rank - 1; k >= 0; --k) number_stride[walk.order[k]] = number_step, number_step *= d.shape[walk.order[k]];
  for (int i = 0; i < d.shape.rank; ++i)
    if (mask >> i & 1) {
      reduced.push_back(d.shape[i]), row[0].strides.push_back(a.dx.strides[i]);
      both[0].strides.push_back(a.dx.strides[i]), both[1].strides.push_back(read.strides[i]);
    }
  r.kept = device::walk<5>(kept, of, -1, 1), r.row = device::walk<1>(reduced, row, -1, 1);
  r.dy = a.dy.data, r.y = a.y.data, r.mean = has_mean(d.kind) ? a.mean.data : nullptr, r.dx = a.dx.data;
  r.shift = s.shift, r.p = s.p, r.q = s.q, r.g = s.g;
  r.n = walk.n, r.rows = walk.outputs, r.kind = kind, r.one_of_ties = ties, r.last = last;
  r.correction = d.correction, r.power = d.p, r.dtype = d.dtype, r.y_dtype = y_dtype(d);

  ReduceMapCuda m{};
  Operand operand[3] = {Operand::of(a.dx), reads ? Operand::of(a.x) : Operand{}, {s.g, int(byte_size(product ? DType::f64 : accumulator(d.dtype))), {}}};
  for (int i = 0; i < d.shape.rank; ++i) operand[2].strides.push_back(number_stride[i]);
  m.walk = device::walk<3>(d.shape, operand, 0, reduce_backward_cuda_lanes(d.dtype));
  m.dx = a.dx.data, m.x = reads ? a.x.data : nullptr, m.p = s.p, m.q = s.q, m.g = s.g;

  // Lines of 16 bytes along rows, wherever these begin, or across columns.
  ReduceLinesCuda lines{};
  const device::Walk<2> along = device::walk<2>(reduced, both, -1, 1);
  const int line = reduce_backward_cuda_lanes(d.dtype), end = r.kept.rank - 1;
  const bool flat = along.rank == 1;
  bool in_rows = flat && walk.n >= 2 * line && along.stride[0][0] == 1 && along.stride[1][0] == 1;
  bool in_columns = flat && !in_rows && r.kept.stride[3][end] == 1 && r.kept.stride[4][end] == 1 && r.kept.extent[end] % line == 0;
  for (int k = 0; k < 2; ++k) {
    in_columns = in_columns && (reinterpret_cast<uintptr_t>(k ? read.data : a.dx.data)) % 16 == 0 && along.stride[k][0] % line == 0;
    for (int i = 0; i < end; ++i) in_columns = in_columns && r.kept.stride[3 + k][i] % line == 0;
    lines.step[k] = along.stride[k][0];
  }
  lines.whole = walk.n % line == 0;
  for (int k = 0; k < 2; ++k) {
    lines.whole = lines.whole && reinterpret_cast<uintptr_t>(k ? read.data : a.dx.data) % 16 == 0;
    for (int i = 0; i <= end; ++i) lines.whole = lines.whole && (r.kept.extent[i] == 1 || r.kept.stride[3 + k][i] % line == 0);
  }
  if (!reads && line == 8 && walk.n > kReduceShort) in_rows = false;  // halves that are written alone: a block's row is over before its number is there
  lines.x = m.x, lines.units = (walk.n + line - 1) / line + !lines.whole, lines.magnitude = map_of(d) == ReduceMapKind::equal_magnitude;

  const bool counts = kind == ReduceKind::nanmean || kind == ReduceKind::logsumexp || (is_extremum(kind) && !ties);
  const bool brief = lines.whole && walk.n <= kReduceShort;
  lines.counts = in_rows && counts && (brief || (kind != ReduceKind::logsumexp && lines.units <= kReduceCountedLines));
  const bool loops = !lines.counts && (product || counts || ties || (has_mean(kind) && a.mean.absent()));
  const ReduceBackwardCudaKernels& k = reduce_backward_cuda_kernels;
  return device::queue(l.stream, "reduce_backward.cuda.map", [&] {
    void* const stream = l.stream.handle;
    int e = 0;
    if (loops) {
      if (counts) e = k.shifts(r, stream);
      const TensorView none{};
      ReduceCuda p = reduce_cuda_problem(product ? ReduceLoop::product : loop_for(d), d.shape, mask, x, walk, {&none, &none, &none});
      p.result = ReduceResult::found, p.found = r.found = s.found, p.shift = counts ? s.shift : nullptr, p.parts = s.parts, p.kind = kind;
      p.only_infinite = kind == ReduceKind::logsumexp;
      if (!e) e = product ? reduce_cuda_others[d.dtype](p, stream) : reduce_cuda_run(p, stream);
    }
    lines.rows = r;
    if (!e && !in_rows) e = k.numbers(r, stream);
    if (!e) {
      const int map = int(map_of(d));
      if (in_rows) e = (product ? k.others_rows : k.map_rows[map])[d.dtype](lines, stream);
      else if (in_columns) e = (product ? k.others_columns : k.map_columns[map])[d.dtype](lines, stream);
      else e = (product ? k.others : k.map[map])[d.dtype](m, stream);
    }
    return !e && ties ? k.scatter(r, stream) : e;
  });
}
PrecisionGuarantee guarantee(const D& d) {
  PrecisionGuarantee g = reduce_guarantee(d);
  if (d.kind == ReduceKind::prod) g.batch_invariant = false;  // no test looks at it
  return g;
}
std::string refuse(const D& d, const PlanPreference&) {
  const bool counts = d.kind == ReduceKind::any || d.kind == ReduceKind::all || d.kind == ReduceKind::count_nonzero;
  return counts ? text("kind ", enum_name(d.kind), " has no gradient") : std::string();
}

}  // namespace

template <> std::span<const Kernel<ReduceBackward>> cuda_kernels<ReduceBackward>() {
  static constexpr Kernel<ReduceBackward> list[] = {{.name = "reduce_backward.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                     .launch = launch_all<ReduceBackward>(Floating{}, run), .guarantee = guarantee, .refuse = refuse,
                                                     .carve = carve}};
  return list;
}

}  // namespace baracuda
