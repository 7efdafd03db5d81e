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
  Operand of[4] = {Operand::of(a.dy), Operand::of(a.y), Operand::of(a.mean), Operand::of(a.dx)}, row[1] = {Operand::of(a.dx)};
  for (Operand& o : of) o.strides = {};
  row[0].strides = {};
  int64_t number_stride[kMaxRank] = {}, number_step = 1;
  for (int i = 0; i < walk.kept_rank; ++i) {
    const int axis = walk.order[i];
    kept.push_back(d.shape[axis]);
    of[0].strides.push_back(dy[axis]), of[1].strides.push_back(y[axis]), of[2].strides.push_back(mean[axis]), of[3].strides.push_back(a.dx.strides[axis]);
  }
  for (int k = walk.kept_rank - 1; k >= 0; --k) number_stride[walk.order[k]] = number_step, number_step *= d.shape[walk.order[k]];
  for (int i = 0; i < d.shape.rank; ++i)
    if (mask >> i & 1) reduced.push_back(d.shape[i]), row[0].strides.push_back(a.dx.strides[i]);
  r.kept = device::walk<4>(kept, of, -1, 1), r.row = device::walk<1>(reduced, row, -1, 1);
  r.dy = a.dy.data, r.y = a.y.data, r.mean = has_mean(d.kind) ? a.mean.data : nullptr, r.dx = a.dx.data;
  r.shift = s.shift, r.p = s.p, r.q = s.q, r.g = s.g;
  r.n = walk.n, r.rows = walk.outputs, r.kind = kind, r.one_of_ties = ties, r.last = last;
  r.correction = d.correction, r.power = d.p, r.dtype = d.dtype, r.y_dtype = y_dtype(d);

  ReduceMapCuda m{};
  const bool product = kind == ReduceKind::prod, reads = product || reads_x(map_of(d));
  Operand operand[3] = {Operand::of(a.dx), reads ? Operand::of(a.x) : Operand{}, {s.g, int(byte_size(product ? DType::f64 : accumulator(d.dtype))), {}}};
  for (int i = 0; i < d.shape.rank; ++i) operand[2].strides.push_back(number_stride[i]);
  m.walk = device::walk<3>(d.shape, operand, 0, reduce_backward_cuda_lanes(d.dtype));
  m.dx = a.dx.data, m.x = reads ? a.x.data : nullptr, m.p = s.p, m.q = s.q, m.g = s.g;

  const bool counts = kind == ReduceKind::nanmean || kind == ReduceKind::logsumexp || (is_extremum(kind) && !ties);
  const bool loops = product || counts || ties || (has_mean(kind) && a.mean.absent());
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
    if (!e) e = k.numbers(r, stream);
    if (!e) e = (product ? k.others : k.map[int(map_of(d))])[d.dtype](m, stream);
    return !e && ties ? k.scatter(r, stream) : e;
  });
}
PrecisionGuarantee guarantee(const D& d) {
  PrecisionGuarantee g = reduce_guarantee(d);
  if (d.kind == ReduceKind::prod) g.batch_invariant = false;  // a thread multiplies its lanes, of which it has more in rows than in columns
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
