// trace: reduce over a view of the diagonal.
#include <algorithm>
#include <cstring>
#include "baracuda/math/half.hpp"
#include "baracuda/ops/reduce/trace_detail.hpp"

namespace baracuda {
namespace {

struct Axes { int row, column; };
Axes axes_of(const TraceDescriptor& d) {
  auto axis = [&](int64_t a) { return int(a < 0 ? a + d.shape.rank : a); };
  return {axis(d.axis1), axis(d.axis2)};
}
int64_t diagonal_length(const TraceDescriptor& d) {
  const Axes a = axes_of(d);
  const int64_t rows = d.shape[a.row], columns = d.shape[a.column];
  if (d.offset >= columns || d.offset <= -rows) return 0;
  return d.offset >= 0 ? std::min(rows, columns - d.offset) : std::min(rows + d.offset, columns);
}
PrecisionGuarantee guarantee(const TraceDescriptor& d) { return reduce_guarantee({.dtype = d.dtype}); }
Result<PlanState> prepare(const Stream& stream, const TraceDescriptor& d, const PlanPreference&) {
  BARACUDA_TRY_ASSIGN(plan, ReducePlan::select(stream, trace_sum(d)));
  return PlanState(std::make_shared<ReducePlan>(plan));
}
const ReducePlan& plan_of(const void* state) { return *static_cast<const ReducePlan*>(state); }
void carve(const TraceDescriptor&, const void* state, Carver& c) { c.take<char>("sum", int64_t(plan_of(state).workspace_size())); }
Status run(const Launch<Trace>& l) { return plan_of(l.state).run(l.stream, l.workspace, {trace_diagonal(l.desc, l.args.x), l.args.y, {}}); }

Status run_backward(const Launch<TraceBackward>& l) {
  const TraceDescriptor& d = l.desc;
  const TensorView &dy = l.args.dy, &dx = l.args.dx;
  const int64_t size = int64_t(byte_size(d.dtype));
  const Strided<1> all = walk_of<1>(d.shape, {&dx.strides});
  for_each_piece(all, l.threads, [&](const int64_t (&at)[1], int64_t, int64_t count) {
    const int64_t step = all.inner_stride(0);
    char* const to = dx.as<char>() + at[0] * size;
    if (step == 1) std::memset(to, 0, size_t(count * size));
    else
      for (int64_t i = 0; i < count; ++i) std::memset(to + i * step * size, 0, size_t(size));
  });
  const TensorView diagonal = trace_diagonal(d, dx);
  Strides from = dy.strides;
  from.push_back(0);
  const Strided<2> walk = walk_of<2>(diagonal.shape, {&diagonal.strides, &from});
  for_each_piece(walk, l.threads, [&](const int64_t (&at)[2], int64_t, int64_t count) {
    visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
      for (int64_t i = 0; i < count; ++i)
        visit_dtype(Floating{}, dy.dtype, 0, [&]<class G>() {
          diagonal.as<T>()[at[0] + i * walk.inner_stride(0)] = from_double<T>(to_double(dy.as<G>()[at[1] + i * walk.inner_stride(1)]));
          return 0;
        });
      return 0;
    });
  });
  return {};
}

Status validate_trace(std::string_view op, const TraceDescriptor& d) {
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 2));
  const int rank = d.shape.rank;
  for (auto [field, axis] : {std::pair{"axis1", d.axis1}, {"axis2", d.axis2}})
    if (axis < -rank || axis >= rank) return invalid(op, text(field, " ", axis, " is not an axis of shape ", d.shape, ", whose rank is ", rank));
  const Axes a = axes_of(d);
  if (a.row == a.column) return invalid(op, text("axis1 ", d.axis1, " and axis2 ", d.axis2, " are the same axis of shape ", d.shape));
  if (d.offset <= -(int64_t(1) << 62) || d.offset >= int64_t(1) << 62) return invalid(op, text("offset ", d.offset, " must be within 2^62"));
  return validate_reduce(op, trace_sum(d));
}

}  // namespace

TensorView trace_diagonal(const TraceDescriptor& d, const TensorView& x) {
  const Axes a = axes_of(d);
  TensorView v = x;
  v.shape = {}, v.strides = {};
  for (int i = 0; i < d.shape.rank; ++i)
    if (i != a.row && i != a.column) v.shape.push_back(d.shape[i]), v.strides.push_back(x.strides[i]);
  v.shape.push_back(diagonal_length(d)), v.strides.push_back(x.strides[a.row] + x.strides[a.column]);
  const int64_t start = d.offset >= 0 ? d.offset * x.strides[a.column] : -d.offset * x.strides[a.row];
  if (diagonal_length(d) > 0) v.data = x.as<char>() + start * int64_t(byte_size(x.dtype));
  return v;
}
ReduceDescriptor trace_sum(const TraceDescriptor& d) {
  const TensorView none{nullptr, d.dtype, {}, d.shape, d.shape.contiguous()};
  return {.dtype = d.dtype, .shape = trace_diagonal(d, none).shape, .axes = {-1}, .out_dtype = d.out_dtype};
}

DType Trace::aux_dtype(const Descriptor& d) { return y_dtype(trace_sum(d)); }
Status Trace::validate(const Descriptor& d) { return validate_trace(name, d); }
Status Trace::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, y_dtype(trace_sum(d)), dy_shape(trace_sum(d)));
}
std::span<const Kernel<Trace>> Trace::kernels() {
  static constexpr Kernel<Trace> list[] = {
      {.name = "trace.cpu.sum", .launch = launch_all<Trace>(kReduceDTypes, run), .guarantee = guarantee, .carve = carve, .prepare = prepare}};
  return list;
}
DType TraceBackward::aux_dtype(const Descriptor& d) { return y_dtype(trace_sum(d)); }
Status TraceBackward::validate(const Descriptor& d) { return validate_trace(name, d); }
Status TraceBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, y_dtype(trace_sum(d)), dy_shape(trace_sum(d))));
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<TraceBackward>> TraceBackward::kernels() {
  static constexpr Kernel<TraceBackward> list[] = {
      {.name = "trace_backward.cpu.map", .launch = launch_all<TraceBackward>(Floating{}, run_backward), .guarantee = guarantee}};
  return list;
}

}  // namespace baracuda
