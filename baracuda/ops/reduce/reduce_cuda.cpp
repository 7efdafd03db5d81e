#include "baracuda/ops/reduce/reduce_cuda.hpp"
#include <cmath>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/reduce/reduce_cuda_detail.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {

const ReduceLaunch& reduce_cuda_loop(ReduceLoop loop, DType t) {
  const ReduceCudaTable& table = !is_floating(t) || loop == ReduceLoop::nonzero ? reduce_cuda_integers
                                 : loop >= ReduceLoop::max ? reduce_cuda_order
                                 : loop == ReduceLoop::exps || loop == ReduceLoop::powers ? reduce_cuda_exps
                                 : reduce_cuda_sums;
  return table.of[int(loop)][t];
}
ReduceCuda reduce_cuda_problem(ReduceLoop loop, const Shape& shape, unsigned mask, const TensorView& x, const ReduceWalk& walk, const TensorView* const (&others)[3]) {
  using device::Operand;
  ReduceCuda p{};
  p.loop = loop, p.dtype = x.dtype, p.x = x.data;
  p.n = walk.n, p.chunks = sum_chunks(walk.n), p.rows = walk.outputs;
  p.magnitude = of_magnitudes(loop), p.floating = is_floating(x.dtype), p.order = uint8_t(reduce_math::order_of(x.dtype));
  const int size = p.size = int(byte_size(x.dtype));
  Shape reduced, kept;
  Operand row[1] = {{x.data, size, {}}}, at[4] = {{x.data, size, {}}, {}, {}, {}};
  for (int i = 0; i < shape.rank; ++i)
    if (mask >> i & 1) reduced.push_back(shape[i]), row[0].strides.push_back(x.strides[i]);
  for (int k = 0; k < 3; ++k)
    if (!others[k]->absent()) at[k + 1] = {others[k]->data, int(byte_size(others[k]->dtype)), {}};
  for (int i = 0; i < walk.kept_rank; ++i) {
    const int axis = walk.order[i];
    kept.push_back(shape[axis]), at[0].strides.push_back(x.strides[axis]);
    for (int k = 0; k < 3; ++k) at[k + 1].strides.push_back(over_shape(shape, mask, *others[k])[axis]);
  }
  p.columns = walk.mode == ReduceWalk::Mode::columns;
  const bool whole = !is_floating(x.dtype) || loop == ReduceLoop::nonzero;
  const int lanes = reduce_cuda_lanes(size, whole);
  p.kept = device::walk<4>(kept, at, -1, 1);
  p.row = device::walk<1>(reduced, row, -1, p.columns ? 1 : lanes);
  bool vector = !p.columns && p.row.lanes == lanes && lanes > 1 && !p.row.spread[0];
  for (int a = 0; a < p.kept.rank; ++a) vector = vector && (p.kept.extent[a] == 1 || p.kept.stride[0][a] % lanes == 0);
  if (p.row.lanes > 1 && !vector) p.row = device::walk<1>(reduced, row, -1, 1);
  p.vector = vector;
  return p;
}
int reduce_cuda_run(const ReduceCuda& p, void* stream) {
  const int e = reduce_cuda_loop(p.loop, p.dtype)(p, stream);
  return !e && reduce_cuda_parts(p) ? reduce_cuda_join(p, stream) : e;
}
ReducePart* reduce_cuda_carve(ReduceLoop, const Shape& shape, unsigned mask, Carver& c) {
  const int64_t rows = row_count(shape, mask), chunks = rows ? sum_chunks(row_length(shape, mask)) : 0;
  return c.take<ReducePart>("chunks", chunks > 1 ? rows * chunks : 0);
}

namespace {

PrecisionGuarantee guarantee(const ReduceDescriptor& d) {
  PrecisionGuarantee g = reduce_guarantee(d);
  const ReduceLoop loop = loop_of(plain_kind(d));
  g.same_on_cpu_and_cuda = loop != ReduceLoop::exps && loop != ReduceLoop::powers;
  return g;
}
void carve(const ReduceDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(loop_of(plain_kind(d)), d.shape, mask_of(d), c); }
Status run(const Launch<Reduce>& l) {
  const ReduceDescriptor& d = l.desc;
  const auto& a = l.args;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides y = over_shape(d.shape, mask, a.y), mean = over_shape(d.shape, mask, a.mean);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&y, &mean, &mean});
  const ReduceLoop loop = loop_of(plain_kind(d));
  const TensorView none{};
  ReduceCuda p = reduce_cuda_problem(loop, d.shape, mask, a.x, walk, {&a.y, &a.mean, &none});
  p.kind = plain_kind(d), p.result = ReduceResult::value, p.correction = d.correction, p.power = d.p;
  p.y = a.y.data, p.y_dtype = y_dtype(d), p.y_size = int(byte_size(p.y_dtype)), p.second = a.mean.data;
  p.counts = d.kind == ReduceKind::any || d.kind == ReduceKind::all || d.kind == ReduceKind::count_nonzero;
  Carver c = l.carver();
  p.parts = reduce_cuda_carve(loop, d.shape, mask, c);
  return device::queue(l.stream, "reduce.cuda.tree", [&] { return walk.n == 0 ? reduce_cuda_fill(p, empty_state(loop, d.dtype), l.stream.handle) : reduce_cuda_run(p, l.stream.handle); });
}

PrecisionGuarantee exact(const auto& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true}; }
void carve_arg(const ArgReduceDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(loop_of(d), d.shape, mask_of(d), c); }
Status run_arg(const Launch<ArgReduce>& l) {
  const ArgReduceDescriptor& d = l.desc;
  const auto& a = l.args;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides indices = over_shape(d.shape, mask, a.indices), values = over_shape(d.shape, mask, a.values);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&indices, &values, &values});
  const TensorView none{};
  ReduceCuda p = reduce_cuda_problem(loop_of(d), d.shape, mask, a.x, walk, {&a.indices, &a.values, &none});
  p.result = ReduceResult::index, p.y = a.indices.data, p.second = a.values.data;
  Carver c = l.carver();
  p.parts = reduce_cuda_carve(p.loop, d.shape, mask, c);
  return device::queue(l.stream, "arg_reduce.cuda.tree", [&] { return reduce_cuda_run(p, l.stream.handle); });
}
void carve_both(const AminmaxDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(ReduceLoop::minmax, d.shape, mask_of(one_of(d)), c); }
Status run_both(const Launch<Aminmax>& l) {
  const ReduceDescriptor d = one_of(l.desc);
  const auto& a = l.args;
  const unsigned mask = mask_of(d);
  if (row_count(d.shape, mask) == 0) return {};
  const Strides min = over_shape(d.shape, mask, a.min), max = over_shape(d.shape, mask, a.max);
  const ReduceWalk walk(d.shape, mask, a.x.strides, {&min, &max, &max});
  const TensorView none{};
  ReduceCuda p = reduce_cuda_problem(ReduceLoop::minmax, d.shape, mask, a.x, walk, {&a.min, &a.max, &none});
  p.result = ReduceResult::both, p.y = a.min.data, p.second = a.max.data;
  Carver c = l.carver();
  p.parts = reduce_cuda_carve(p.loop, d.shape, mask, c);
  return device::queue(l.stream, "aminmax.cuda.tree", [&] { return reduce_cuda_run(p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<Reduce>> cuda_kernels<Reduce>() {
  static constexpr Kernel<Reduce> list[] = {{.name = "reduce.cuda.tree", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Reduce>(kReduceDTypes, run),
                                             .guarantee = guarantee, .carve = carve}};
  return list;
}
template <> std::span<const Kernel<ArgReduce>> cuda_kernels<ArgReduce>() {
  static constexpr Kernel<ArgReduce> list[] = {{.name = "arg_reduce.cuda.tree", .device = DeviceKind::cuda, .min_arch = 80,
                                                .launch = launch_all<ArgReduce>(kReduceDTypes, run_arg), .guarantee = exact, .carve = carve_arg}};
  return list;
}
template <> std::span<const Kernel<Aminmax>> cuda_kernels<Aminmax>() {
  static constexpr Kernel<Aminmax> list[] = {{.name = "aminmax.cuda.tree", .device = DeviceKind::cuda, .min_arch = 80,
                                              .launch = launch_all<Aminmax>(kReduceDTypes, run_both), .guarantee = exact, .carve = carve_both}};
  return list;
}

}  // namespace baracuda
