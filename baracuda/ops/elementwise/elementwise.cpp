#include "baracuda/ops/elementwise/elementwise.hpp"
#include <cmath>
#include <numeric>
#include "baracuda/host/gathers.hpp"
#include "baracuda/host/half_table.hpp"
#include "baracuda/ops/elementwise/broadcast_sum.hpp"
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_problem.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/half_cpu.hpp"

namespace baracuda {
namespace {

using namespace elementwise_detail;
using elementwise::kY;

// A loop of f32 for halves: `read` inputs are converted, outputs too unless they have `out_bytes` other than 2.
MapKernel through_f32(MapRun run, DType t, unsigned read, int inputs, int outputs, int out_bytes) {
  const HalfKernels& h = BARACUDA_ISA_PICK(half_kernels);
  MapKernel k(run);
  const DealtHalves& dealt = BARACUDA_ISA_PICK(dealt_halves);
  const bool all = out_bytes == 2 && (~read & ((1u << inputs) - 1)) == 0;
  k.widen = (all ? dealt.deal : h.widen)[t == DType::bf16], k.narrow = (all ? dealt.gather : h.narrow)[t == DType::bf16];
  k.widened = read, k.inputs = inputs, k.outputs = outputs, k.out_bytes = out_bytes;
  return k;
}

constexpr std::string_view kOperand[] = {"a", "b", "c"}, kGradient[] = {"da", "db", "dc"};
std::string_view operand_name(const Problem& p, int k) { return p.operands == 1 ? "x" : kOperand[k]; }
std::string_view gradient_name(const Problem& p, int k) { return p.operands == 1 ? "dx" : kGradient[k]; }

template <class D> Status validate(std::string_view op, const D& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  const ElementwiseEntry& e = entry(d.kind);
  constexpr std::string_view names[] = {"alpha", "beta", "gamma"};
  for (int k = 0; k < 3; ++k) {
    const auto v = parameter(d, k);
    if (!v) continue;
    if (k >= e.parameters && *v != 1) return invalid(op, text("kind ", enum_name(d.kind), " takes no ", names[k], ", got ", *v));
    if (std::isnan(*v)) return invalid(op, "alpha, beta and gamma must not be NaN");
  }
  const double alpha = parameter(d, 0).value_or(e.defaults[0]), beta = parameter(d, 1).value_or(e.defaults[1]);
  const auto refuse = [&](std::string_view rule) {
    return invalid(op, text("kind ", enum_name(d.kind), " takes ", rule, ", got ", alpha, e.parameters > 1 ? text(" and ", beta) : std::string()));
  };
  if (e.rule == elementwise::kAlphaPositive && !(alpha > 0 && alpha < HUGE_VAL)) return refuse("a finite alpha > 0");
  if (e.rule == elementwise::kAlphaNotNegative && !(alpha >= 0)) return refuse("alpha >= 0");
  if (e.rule == elementwise::kNotNegative && !(alpha >= 0 && beta >= 0)) return refuse("alpha and beta >= 0");
  if (e.rule == elementwise::kOrdered && !(alpha <= beta)) return refuse("alpha <= beta");
  if constexpr (std::is_same_v<D, UnaryDescriptor>) return expect_shape(op, "shape", d.shape);
  else {
    BARACUDA_TRY(expect_shape(op, "a", d.a));
    BARACUDA_TRY(expect_shape(op, "b", d.b));
    if constexpr (std::is_same_v<D, BinaryDescriptor>) return broadcast_shape(op, d.a, d.b).status();
    else {
      BARACUDA_TRY(expect_shape(op, "c", d.c));
      return broadcast_shape(op, d.a, d.b, d.c).status();
    }
  }
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
Status check_forward(std::string_view op, const Problem& p, const TensorView* const* in, const TensorView& y) {
  for (int k = 0; k < p.operands; ++k) BARACUDA_TRY(expect(op, operand_name(p, k), *in[k], p.operand_dtype[k], p.operand[k]));
  return expect(op, "y", y, p.result, p.shape);
}
// Roots and reciprocals take longer than a look-up, too.
bool looked_up(UnaryKind k, const ElementwiseEntry& e) { return e.looked_up || k == UnaryKind::sqrt || k == UnaryKind::rsqrt || k == UnaryKind::reciprocal; }
// What a plan of a large half tensor keeps: the results of all halves, or, for the gradient, the slopes in f32.
Result<PlanState> make_table(const UnaryDescriptor& d, bool gradient) {
  const Problem p = problem(d);
  if (!half(d.dtype) || d.shape.numel() < kTableFrom || !(gradient ? p.e->sloped : looked_up(d.kind, *p.e))) return PlanState();
  std::vector<uint64_t> key{gradient ? kUnaryBackwardState : kUnaryState, uint64_t(d.kind), uint64_t(d.dtype)};
  for (double v : p.parameters) key.push_back(__builtin_bit_cast(uint64_t, v));
  const auto all_halves = [] {
    std::vector<uint16_t> halves(kHalves);
    std::iota(halves.begin(), halves.end(), uint16_t(0));
    return halves;
  };
  if (!gradient) return PlanState(half_table<uint16_t>(key, [&](void* table) {
    const std::vector<uint16_t> halves = all_halves();
    const void* x[] = {halves.data(), nullptr};
    through_f32(p.e->forward[DType::f32], d.dtype, 1, 1, 1, 2)(p.parameters, x, &table, kHalves);
  }));
  return PlanState(half_table<float>(key, [&](void* table) {
    std::vector<float> x(kHalves), ones(kHalves, 1);
    BARACUDA_ISA_PICK(half_kernels).widen[d.dtype == DType::bf16](all_halves().data(), x.data(), kHalves);
    const void* in[] = {ones.data(), x.data(), x.data()};
    p.e->backward[0](p.parameters, in, &table, kHalves);
  }));
}
Status run_forward(const Problem& p, const TensorView* const* in, const TensorView& out, const void* table, int threads) {
  MapOperand x[3];
  for (int k = 0; k < p.operands; ++k) x[k] = broadcast_operand(*in[k], p.shape);
  const MapOperand y = MapOperand::of(out);
  const MapRun own = p.e->forward[p.dtype];
  MapKernel run = own ? MapKernel(own) : through_f32(p.e->forward[DType::f32], p.dtype, 7, p.operands, 1, p.e->predicate ? 1 : 2);
  if (table) run.table = table, run.look_up = BARACUDA_ISA_PICK_BF16(half_table_kernels).by[has_fast_gathers()].look_up;
  run_map(p.shape, {x, size_t(p.operands)}, {&y, 1}, run, p.parameters, threads);
  return {};
}

Status check_backward(std::string_view op, const Problem& p, const TensorView& dy, const TensorView* const* in, const TensorView& y,
                      const TensorView* const* out) {
  const int bits = reads(p, out);
  struct Read { std::string_view name; const TensorView& v; bool needed; DType dtype; const Shape& shape; };
  const auto operand = [&](int k) { return Read{operand_name(p, k), *in[k < p.operands ? k : 0], (bits >> k & 1) != 0, p.operand_dtype[k], p.operand[k]}; };
  const Read all[] = {{"dy", dy, true, p.result, p.shape}, operand(0), operand(1), operand(2), {"y", y, (bits & kY) != 0, p.result, p.shape}};
  for (const Read& r : all) {
    if (!r.needed) continue;
    if (r.v.absent()) return invalid(op, text(r.name, " is missing: the gradient of ", p.kind, " reads it"));
    BARACUDA_TRY(expect(op, r.name, r.v, r.dtype, r.shape));
  }
  for (int k = 0; k < p.operands; ++k) {
    const TensorView& d = *out[k];
    if (d.absent()) continue;
    if (p.operand_dtype[k] != p.dtype) return invalid(op, text(gradient_name(p, k), " must be absent: ", operand_name(p, k), " of ", p.kind, " is ", p.operand_dtype[k]));
    BARACUDA_TRY(expect(op, gradient_name(p, k), d, p.dtype, p.operand[k]));
  }
  return {};
}
// 1 or -1 where the gradient of operand k is dy or its negative. One that reads nothing is a multiple of dy: 1 shows which.
int sign_of_dy(const Problem& p, int k) {
  if (p.e->reads[k] || is_complex(p.dtype) || p.result != p.dtype) return 0;
  const double one = 1;
  double slope[3] = {};
  const void* in[] = {&one, &one, &one, &one, &one};
  void* out[] = {slope, slope + 1, slope + 2};
  p.e->backward[1](p.parameters, in, out, 1);
  return slope[k] == 1 ? 1 : slope[k] == -1 ? -1 : 0;
}
void carve_sums(const Problem& p, Carver& c, double* (&partial)[3]) {
  constexpr std::string_view names[] = {"da partial sums", "db partial sums", "dc partial sums"};
  for (int k = 0; k < p.operands; ++k)
    if (is_sum(p, k)) partial[k] = c.take<double>(names[k], broadcast_partials(p.shape, p.operand[k], p.operand_dtype[k]));
}
template <class D> void carve_backward(const D& d, const void*, Carver& c) {
  double* partial[3];
  carve_sums(problem(d), c, partial);
}
Status run_backward(const Problem& p, const TensorView& dy, const TensorView* const* in, const TensorView& y, const TensorView* const* out,
                    Carver carver, const void* table, int threads) {
  const int n = p.operands, bits = reads(p, out);
  // What is not read gets the place of dy: a dense operand costs nothing.
  MapOperand x[5] = {MapOperand::of(dy)}, maps[3];
  unsigned halves = 1u | 2u << n;
  for (int k = 0; k < n; ++k) {
    const bool read = bits >> k & 1;
    x[1 + k] = read ? broadcast_operand(*in[k], p.shape) : x[0];
    if (!read || p.operand_dtype[k] == p.dtype) halves |= 2u << k;
  }
  x[1 + n] = bits & kY ? MapOperand::of(y) : x[0];
  const MapRun run = p.e->backward[p.dtype == DType::f64 || p.dtype == DType::c128];
  const auto kernel = [&](int out_bytes) { return half(p.dtype) ? through_f32(run, p.dtype, halves, n + 2, n, out_bytes) : MapKernel(run); };
  const std::span<const MapOperand> inputs(x, size_t(n) + 2);
  double* partial[3];
  carve_sums(p, carver, partial);
  bool any_map = false;
  for (int k = 0; k < n; ++k) {
    if (out[k]->absent()) continue;
    if (is_sum(p, k)) sum_broadcast(p.shape, inputs, k, sign_of_dy(p, k), *out[k], kernel(4), p.parameters, partial[k], threads);
    else maps[k] = broadcast_operand(*out[k], p.shape), any_map = true;  // axes of extent 1 may be missing
  }
  for (int k = 0; k < n; ++k) maps[k].bytes = int(byte_size(p.dtype));
  MapKernel map = kernel(2);
  if (table) map.table = table, map.look_up_times = BARACUDA_ISA_PICK_BF16(half_table_kernels).by[has_fast_gathers()].look_up_times[p.dtype == DType::bf16];
  if (any_map) run_map(p.shape, inputs, {maps, size_t(n)}, map, p.parameters, threads);
  return {};
}

template <class Op> Status launch_forward(const Launch<Op>& l) {
  return run_forward(problem(l.desc), inputs(l.args).data(), l.args.y, l.state, l.threads);
}
template <class Op> Status launch_backward(const Launch<Op>& l) {
  return run_backward(problem(l.desc), l.args.dy, inputs(l.args).data(), saved_y(l.args), gradients(l.args).data(), l.carver(), l.state, l.threads);
}
template <class Op> Result<PlanState> prepare(const Stream&, const typename Op::Descriptor& d, const PlanPreference&) {
  if constexpr (std::is_same_v<typename Op::Descriptor, UnaryDescriptor>) return make_table(d, std::is_same_v<Op, UnaryBackward>);
  else return PlanState();
}
template <class Op> std::span<const Kernel<Op>> forward_list(std::string_view row) {
  static const Kernel<Op> list[] = {{.name = row,
                                     .launch = launch_where<Op>(takes, launch_forward<Op>),
                                     .guarantee = guarantee<typename Op::Descriptor>,
                                     .refuse = refuse_forward<typename Op::Descriptor>,
                                     .prepare = prepare<Op>}};
  return list;
}
template <class Op> std::span<const Kernel<Op>> backward_list(std::string_view row) {
  static const Kernel<Op> list[] = {{.name = row,
                                     .launch = launch_where<Op>(has_gradient, launch_backward<Op>),
                                     .guarantee = guarantee<typename Op::Descriptor>,
                                     .refuse = refuse_backward<typename Op::Descriptor>,
                                     .carve = carve_backward<typename Op::Descriptor>,
                                     .prepare = prepare<Op>}};
  return list;
}
template <class Op> Status check_forward(const typename Op::Descriptor& d, const typename Op::Args& a) {
  return check_forward(Op::name, problem(d), inputs(a).data(), a.y);
}
template <class Op> Status check_backward(const typename Op::Descriptor& d, const typename Op::Args& a) {
  return check_backward(Op::name, problem(d), a.dy, inputs(a).data(), saved_y(a), gradients(a).data());
}

}  // namespace

#define BARACUDA_QUERIES(Kind)                                                                             \
  bool takes(Kind k, DType t) { return takes(entry(k, t), t); }                                            \
  bool has_gradient(Kind k, DType t) { return has_gradient(entry(k, t), t); }
BARACUDA_QUERIES(UnaryKind)
BARACUDA_QUERIES(BinaryKind)
BARACUDA_QUERIES(TernaryKind)
#undef BARACUDA_QUERIES
DType result_dtype(UnaryKind k, DType t) { return result_of(entry(k, t), t); }
DType result_dtype(BinaryKind k, DType t) { return result_of(entry(k, t), t); }
SavedTensors saved_tensors(UnaryKind k, DType t) { const int r = entry(k, t).reads[0]; return {(r & 1) != 0, (r & kY) != 0}; }
SavedPair saved_for_da(BinaryKind k, DType t) { const int r = entry(k, t).reads[0]; return {(r & 1) != 0, (r & 2) != 0, (r & kY) != 0}; }
SavedPair saved_for_db(BinaryKind k, DType t) { const int r = entry(k, t).reads[1]; return {(r & 1) != 0, (r & 2) != 0, (r & kY) != 0}; }
SavedTriple saved_for(TernaryKind k, int operand) {
  const int r = entry(k).reads[operand];
  return {(r & 1) != 0, (r & 2) != 0, (r & 4) != 0, (r & kY) != 0};
}

Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  Shape y;
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank), ib = i - (rank - b.rank);
    const int64_t na = ia < 0 ? 1 : a[ia], nb = ib < 0 ? 1 : b[ib];
    if (na != nb && na != 1 && nb != 1) return invalid(op, text("a ", a, " and b ", b, " do not broadcast: ", na, " against ", nb));
    y.push_back(na == 1 ? nb : na);
  }
  if (!y.valid()) return invalid(op, text("a ", a, " and b ", b, " broadcast to more than 2^63 - 1 elements"));
  return y;
}
Result<Shape> broadcast_shape(std::string_view op, const Shape& a, const Shape& b, const Shape& c) {
  BARACUDA_TRY_ASSIGN(ab, broadcast_shape(op, a, b));
  Result<Shape> y = broadcast_shape(op, ab, c);
  if (!y.ok()) return invalid(op, text("a ", a, ", b ", b, " and c ", c, " do not broadcast"));
  return y;
}

Status Unary::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status Unary::check(const Descriptor& d, const Args& a) { return check_forward<Unary>(d, a); }
std::span<const Kernel<Unary>> Unary::kernels() { return forward_list<Unary>("unary.cpu.map"); }
Status UnaryBackward::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status UnaryBackward::check(const Descriptor& d, const Args& a) { return check_backward<UnaryBackward>(d, a); }
std::span<const Kernel<UnaryBackward>> UnaryBackward::kernels() { return backward_list<UnaryBackward>("unary_backward.cpu.map"); }

Status Binary::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status Binary::check(const Descriptor& d, const Args& a) { return check_forward<Binary>(d, a); }
std::span<const Kernel<Binary>> Binary::kernels() { return forward_list<Binary>("binary.cpu.map"); }
Status BinaryBackward::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status BinaryBackward::check(const Descriptor& d, const Args& a) { return check_backward<BinaryBackward>(d, a); }
std::span<const Kernel<BinaryBackward>> BinaryBackward::kernels() { return backward_list<BinaryBackward>("binary_backward.cpu.map"); }

Status Ternary::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status Ternary::check(const Descriptor& d, const Args& a) { return check_forward<Ternary>(d, a); }
std::span<const Kernel<Ternary>> Ternary::kernels() { return forward_list<Ternary>("ternary.cpu.map"); }
Status TernaryBackward::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status TernaryBackward::check(const Descriptor& d, const Args& a) { return check_backward<TernaryBackward>(d, a); }
std::span<const Kernel<TernaryBackward>> TernaryBackward::kernels() { return backward_list<TernaryBackward>("ternary_backward.cpu.map"); }

}  // namespace baracuda
