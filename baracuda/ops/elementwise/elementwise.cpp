#include "baracuda/ops/elementwise/elementwise.hpp"
#include <cmath>
#include "baracuda/ops/elementwise/broadcast_sum.hpp"
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"

namespace baracuda {
namespace {

const ElementwiseEntry& entry(UnaryKind k) { return BARACUDA_ISA_PICK(unary_kernels).kind[int(k)]; }
const ElementwiseEntry& entry(BinaryKind k) { return BARACUDA_ISA_PICK(binary_kernels).kind[int(k)]; }

template <class D> Status validate_kind(std::string_view op, const D& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  if (!valid_enum(d.kind)) return invalid(op, text("kind ", int(d.kind), " is not a kind"));
  const int takes = entry(d.kind).parameters;
  if (takes < 1 && d.alpha != 1) return invalid(op, text("kind ", enum_name(d.kind), " takes no alpha, got ", d.alpha));
  if (takes < 2 && d.beta != 1) return invalid(op, text("kind ", enum_name(d.kind), " takes no beta, got ", d.beta));
  if (std::isnan(d.alpha) || std::isnan(d.beta)) return invalid(op, "alpha and beta must not be NaN");
  return {};
}
Status validate_unary(std::string_view op, const UnaryDescriptor& d) {
  BARACUDA_TRY(validate_kind(op, d));
  return expect_shape(op, "shape", d.shape);
}
Status validate_binary(std::string_view op, const BinaryDescriptor& d) {
  BARACUDA_TRY(validate_kind(op, d));
  BARACUDA_TRY(expect_shape(op, "a", d.a));
  BARACUDA_TRY(expect_shape(op, "b", d.b));
  return broadcast_shape(op, d.a, d.b).status();
}
Status expect_apart(std::string_view op, std::string_view out, const TensorView& y, std::string_view in, const TensorView& x) {
  if (!overlaps(y, x)) return {};
  return invalid(op, text(out, " overlaps ", in, " without being the same tensor"));
}
Status expect_read(std::string_view op, std::string_view arg, const TensorView& v, bool needed, std::string_view kind, DType t, const Shape& shape) {
  if (!needed) return {};
  if (v.absent()) return invalid(op, text(arg, " is missing: the gradient of ", kind, " reads it"));
  return expect(op, arg, v, t, shape);
}
template <class D> PrecisionGuarantee guarantee(const D& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}

Status run_unary(const Launch<Unary>& l) {
  const UnaryDescriptor& d = l.desc;
  const double parameters[] = {d.alpha, d.beta};
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  run_map(d.shape, {&x, 1}, {&y, 1}, entry(d.kind).forward[d.dtype], parameters, l.threads);
  return {};
}
Status run_unary_backward(const Launch<UnaryBackward>& l) {
  const UnaryDescriptor& d = l.desc;
  const ElementwiseEntry& e = entry(d.kind);
  const double parameters[] = {d.alpha, d.beta};
  const SavedTensors saved = saved_tensors(d.kind);
  // What is not read gets the place of dy: a dense operand costs nothing.
  const MapOperand in[] = {MapOperand::of(l.args.dy), MapOperand::of(saved.x ? l.args.x : l.args.dy), MapOperand::of(saved.y ? l.args.y : l.args.dy)};
  const MapOperand dx = MapOperand::of(l.args.dx);
  run_map(d.shape, in, {&dx, 1}, e.backward[d.dtype], parameters, l.threads);
  return {};
}

Status run_binary(const Launch<Binary>& l) {
  const BinaryDescriptor& d = l.desc;
  const Shape shape = *broadcast_shape(Binary::name, d.a, d.b);
  const double parameters[] = {d.alpha, d.beta};
  const MapOperand in[] = {broadcast_operand(l.args.a, shape), broadcast_operand(l.args.b, shape)};
  const MapOperand y = MapOperand::of(l.args.y);
  run_map(shape, in, {&y, 1}, entry(d.kind).forward[d.dtype], parameters, l.threads);
  return {};
}
// Which operands were broadcast, so that their gradients are sums.
bool is_sum(const Shape& operand, const Shape& shape) { return operand.numel() != shape.numel(); }

Status run_binary_backward(const Launch<BinaryBackward>& l) {
  const BinaryDescriptor& d = l.desc;
  const auto& a = l.args;
  const ElementwiseEntry& e = entry(d.kind);
  const Shape shape = *broadcast_shape(BinaryBackward::name, d.a, d.b);
  const double parameters[] = {d.alpha, d.beta};
  const SavedPair for_a = saved_for_da(d.kind), for_b = saved_for_db(d.kind);
  const bool da = !a.da.absent(), db = !a.db.absent();
  const MapOperand dy = MapOperand::of(a.dy);
  auto input = [&](const TensorView& v, bool by_a, bool by_b) {
    return (da && by_a) || (db && by_b) ? broadcast_operand(v, shape) : dy;
  };
  const MapOperand in[] = {dy, input(a.a, for_a.a, for_b.a), input(a.b, for_a.b, for_b.b), input(a.y, for_a.y, for_b.y)};
  const bool sum_a = da && is_sum(d.a, shape), sum_b = db && is_sum(d.b, shape);
  Carver c = l.carver();
  for (int k = 0; k < 2; ++k)
    if (k == 0 ? is_sum(d.a, shape) : is_sum(d.b, shape)) {
      double* partial = c.take<double>(k == 0 ? "da partial sums" : "db partial sums", broadcast_partials(shape, k == 0 ? d.a : d.b));
      if (k == 0 ? sum_a : sum_b) sum_broadcast(shape, in, k, k == 0 ? a.da : a.db, e.backward_wide[d.dtype], parameters, partial, l.threads);
    }
  if ((da && !sum_a) || (db && !sum_b)) {
    const MapOperand out[] = {da && !sum_a ? MapOperand{a.da.data, broadcast_operand(a.da, shape).strides, dy.bytes} : MapOperand{nullptr, {}, dy.bytes},
                              db && !sum_b ? MapOperand{a.db.data, broadcast_operand(a.db, shape).strides, dy.bytes} : MapOperand{nullptr, {}, dy.bytes}};
    run_map(shape, in, out, e.backward[d.dtype], parameters, l.threads);
  }
  return {};
}
void carve_binary_backward(const BinaryDescriptor& d, const void*, Carver& c) {
  const Shape shape = *broadcast_shape(BinaryBackward::name, d.a, d.b);
  if (is_sum(d.a, shape)) c.take<double>("da partial sums", broadcast_partials(shape, d.a));
  if (is_sum(d.b, shape)) c.take<double>("db partial sums", broadcast_partials(shape, d.b));
}

}  // namespace

SavedTensors saved_tensors(UnaryKind k) { const int r = entry(k).reads; return {(r & 1) != 0, (r & 4) != 0}; }
SavedPair saved_for_da(BinaryKind k) { const int r = entry(k).reads; return {(r & 1) != 0, (r & 2) != 0, (r & 4) != 0}; }
SavedPair saved_for_db(BinaryKind k) { const int r = entry(k).reads_b; return {(r & 1) != 0, (r & 2) != 0, (r & 4) != 0}; }

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

Status Unary::validate(const Descriptor& d) { return validate_unary(name, d); }
Status Unary::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return expect_apart(name, "y", a.y, "x", a.x);
}
std::span<const Kernel<Unary>> Unary::kernels() {
  static constexpr Kernel<Unary> list[] = {
      {.name = "unary.cpu.map", .launch = launch_all<Unary>(Floating{}, run_unary), .guarantee = guarantee<Descriptor>}};
  return list;
}

Status UnaryBackward::validate(const Descriptor& d) { return validate_unary(name, d); }
Status UnaryBackward::check(const Descriptor& d, const Args& a) {
  const SavedTensors saved = saved_tensors(d.kind);
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  BARACUDA_TRY(expect_read(name, "x", a.x, saved.x, enum_name(d.kind), d.dtype, d.shape));
  BARACUDA_TRY(expect_read(name, "y", a.y, saved.y, enum_name(d.kind), d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "dx", a.dx, d.dtype, d.shape));
  BARACUDA_TRY(expect_apart(name, "dx", a.dx, "dy", a.dy));
  if (saved.x) BARACUDA_TRY(expect_apart(name, "dx", a.dx, "x", a.x));
  if (saved.y) BARACUDA_TRY(expect_apart(name, "dx", a.dx, "y", a.y));
  return {};
}
std::span<const Kernel<UnaryBackward>> UnaryBackward::kernels() {
  static constexpr Kernel<UnaryBackward> list[] = {{.name = "unary_backward.cpu.map",
                                                    .launch = launch_all<UnaryBackward>(Floating{}, run_unary_backward),
                                                    .guarantee = guarantee<Descriptor>}};
  return list;
}

Status Binary::validate(const Descriptor& d) { return validate_binary(name, d); }
Status Binary::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "a", a.a, d.dtype, d.a));
  BARACUDA_TRY(expect(name, "b", a.b, d.dtype, d.b));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, *broadcast_shape(name, d.a, d.b)));
  BARACUDA_TRY(expect_apart(name, "y", a.y, "a", a.a));
  return expect_apart(name, "y", a.y, "b", a.b);
}
std::span<const Kernel<Binary>> Binary::kernels() {
  static constexpr Kernel<Binary> list[] = {
      {.name = "binary.cpu.map", .launch = launch_all<Binary>(Floating{}, run_binary), .guarantee = guarantee<Descriptor>}};
  return list;
}

Status BinaryBackward::validate(const Descriptor& d) { return validate_binary(name, d); }
Status BinaryBackward::check(const Descriptor& d, const Args& a) {
  const Shape shape = *broadcast_shape(name, d.a, d.b);
  const SavedPair da = saved_for_da(d.kind), db = saved_for_db(d.kind);
  const bool by_a = !a.da.absent(), by_b = !a.db.absent();
  const std::string_view kind = enum_name(d.kind);
  struct Read { std::string_view name; const TensorView& v; bool needed; const Shape& shape; };
  const Read reads[] = {{"dy", a.dy, true, shape},
                        {"a", a.a, (by_a && da.a) || (by_b && db.a), d.a},
                        {"b", a.b, (by_a && da.b) || (by_b && db.b), d.b},
                        {"y", a.y, (by_a && da.y) || (by_b && db.y), shape}};
  for (const Read& r : reads) BARACUDA_TRY(expect_read(name, r.name, r.v, r.needed, kind, d.dtype, r.shape));
  if (by_a) BARACUDA_TRY(expect(name, "da", a.da, d.dtype, d.a));
  if (by_b) BARACUDA_TRY(expect(name, "db", a.db, d.dtype, d.b));
  // Sums take several passes over the inputs, so that nothing may be written in place there.
  const bool sums = is_sum(d.a, shape) || is_sum(d.b, shape);
  for (const Read& r : reads)
    if (r.needed) {
      BARACUDA_TRY(expect_apart(name, "da", a.da, r.name, r.v));
      BARACUDA_TRY(expect_apart(name, "db", a.db, r.name, r.v));
      if (sums && r.v.data && r.v.numel() > 0 && (r.v.data == a.da.data || r.v.data == a.db.data))
        return invalid(name, text(r.name, " is also an output: that is allowed only where a and b have the shape of y"));
    }
  if (by_a && by_b && a.da.data && a.da.data == a.db.data) return invalid(name, "da and db are the same memory");
  return expect_apart(name, "da", a.da, "db", a.db);
}
std::span<const Kernel<BinaryBackward>> BinaryBackward::kernels() {
  static constexpr Kernel<BinaryBackward> list[] = {{.name = "binary_backward.cpu.map",
                                                     .launch = launch_all<BinaryBackward>(Floating{}, run_binary_backward),
                                                     .guarantee = guarantee<Descriptor>,
                                                     .carve = carve_binary_backward}};
  return list;
}

}  // namespace baracuda
