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
  const bool with_sign = x.dtype == DType::i8 || x.dtype == DType::i16 || x.dtype == DType::i32;
  p.sign = p.floating || (with_sign && loop != ReduceLoop::nonzero) ? uint64_t(1) << (8 * size - 1) : 0;
  p.flip = x.dtype == DType::u64 ? uint64_t(1) << 63 : 0, p.is_bool = x.dtype == DType::boolean;
  p.kept = device::walk<4>(kept, at, -1, 1), p.row = device::walk<1>(reduced, row, -1, 1);
  // Lines of 16 bytes: along rows as far as the innermost axis goes, or across columns.
  const int line = 16 / size, inner = p.row.rank - 1, last = p.kept.rank - 1;
  const auto whole = [&](const int64_t* stride, const int64_t* extent, int rank) {
    bool all = reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
    for (int a = 0; a < rank; ++a) all = all && (extent[a] == 1 || stride[a] % line == 0);
    return all;
  };
  const bool whole_row = p.row.extent[inner] % line == 0 && whole(p.row.stride[0], p.row.extent, inner);
  p.whole_lines = whole_row && whole(p.kept.stride[0], p.kept.extent, p.kept.rank);
  p.dense = !p.columns && (walk.n == 1 || p.row.stride[0][inner] == 1) && (p.row.rank == 1 || p.whole_lines);
  p.lines = p.columns && p.row.rank == 1 && p.kept.stride[0][last] == 1 && p.kept.extent[last] % line == 0 && whole(p.kept.stride[0], p.kept.extent, last) &&
            whole(p.row.stride[0], p.row.extent, p.row.rank);
  p.walked = p.row.rank > 1;
  return p;
}
int reduce_cuda_run(const ReduceCuda& p, void* stream) {
  return reduce_cuda_loop(p.loop, p.dtype)(p, stream);
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
PrecisionGuarantee exact(const auto& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true}; }
// The loop over x into y and `second`; set(p) says what becomes of the states.
template <class Op, class Set> Status run_loop(const Launch<Op>& l, std::string_view name, ReduceLoop loop, const Shape& shape, unsigned mask, const TensorView& y, const TensorView& second, Set set) {
  if (row_count(shape, mask) == 0) return {};
  const Strides y_strides = over_shape(shape, mask, y), second_strides = over_shape(shape, mask, second);
  const ReduceWalk walk(shape, mask, l.args.x.strides, {&y_strides, &second_strides, &second_strides});
  const TensorView none{};
  ReduceCuda p = reduce_cuda_problem(loop, shape, mask, l.args.x, walk, {&y, &second, &none});
  p.y = y.data, p.second = second.data;
  set(p);
  Carver c = l.carver();
  p.parts = reduce_cuda_carve(loop, shape, mask, c);
  return device::queue(l.stream, name, [&] { return walk.n == 0 ? reduce_cuda_fill(p, empty_state(loop, p.dtype), l.stream.handle) : reduce_cuda_run(p, l.stream.handle); });
}
void carve(const ReduceDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(loop_of(plain_kind(d)), d.shape, mask_of(d), c); }
Status run(const Launch<Reduce>& l) {
  const ReduceDescriptor& d = l.desc;
  return run_loop(l, "reduce.cuda.tree", loop_of(plain_kind(d)), d.shape, mask_of(d), l.args.y, l.args.mean, [&](ReduceCuda& p) {
    p.kind = plain_kind(d), p.result = ReduceResult::value, p.correction = d.correction, p.power = d.p;
    p.y_dtype = y_dtype(d), p.y_size = int(byte_size(p.y_dtype));
    p.counts = d.kind == ReduceKind::any || d.kind == ReduceKind::all || d.kind == ReduceKind::count_nonzero;
  });
}
void carve_arg(const ArgReduceDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(loop_of(d), d.shape, mask_of(d), c); }
Status run_arg(const Launch<ArgReduce>& l) {
  return run_loop(l, "arg_reduce.cuda.tree", loop_of(l.desc), l.desc.shape, mask_of(l.desc), l.args.indices, l.args.values, [](ReduceCuda& p) { p.result = ReduceResult::index; });
}
void carve_both(const AminmaxDescriptor& d, const void*, Carver& c) { reduce_cuda_carve(ReduceLoop::minmax, d.shape, mask_of(one_of(d)), c); }
Status run_both(const Launch<Aminmax>& l) {
  const ReduceDescriptor d = one_of(l.desc);
  return run_loop(l, "aminmax.cuda.tree", ReduceLoop::minmax, d.shape, mask_of(d), l.args.min, l.args.max, [](ReduceCuda& p) { p.result = ReduceResult::both; });
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
