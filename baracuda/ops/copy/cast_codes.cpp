#include "baracuda/ops/copy/cast_codes.hpp"
#include "baracuda/ops/copy/cast_codes_detail.hpp"
#include "baracuda/ops/copy/cast_cpu.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

using namespace cast_codes_detail;

Status run_cast_e8m0(const Launch<CastE8m0>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  const CastKernels& k = BARACUDA_ISA_PICK(cast_kernels);
  const double how[] = {double(l.desc.rounding), double(l.desc.saturate)};
  run_map(l.desc.shape, {&x, 1}, {&y, 1}, k.to_e8m0[l.desc.dtype], how, l.threads);
  return {};
}
Status run_cast_from_e8m0(const Launch<CastFromE8m0>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  run_map(l.desc.shape, {&x, 1}, {&y, 1}, BARACUDA_ISA_PICK(cast_kernels).from_e8m0[l.desc.dtype], nullptr, l.threads);
  return {};
}
// The values as one operand of pairs, or as two: the first and the second of each.
struct PairOperands {
  MapOperand each[2];
  size_t count;
  explicit PairOperands(const TensorView& v) {
    const Pairs p(v);
    const int bytes = int(byte_size(v.dtype));
    each[0] = {v.data, p.strides, p.joined ? 2 * bytes : bytes}, each[1] = each[0];
    each[1].data = static_cast<char*>(v.data) + p.step * bytes;
    count = p.joined ? 1 : 2;
  }
};
Status run_cast_packed(const Launch<CastPacked>& l) {
  const auto& d = l.desc;
  const PairOperands x(l.args.x);
  const MapOperand y = MapOperand::of(l.args.y);
  const double apart = double(x.count - 1);
  run_map(d.codes_shape(), {x.each, x.count}, {&y, 1}, BARACUDA_ISA_PICK(cast_kernels).to_packed[int(d.format)][d.dtype], &apart, l.threads);
  return {};
}
Status run_cast_from_packed(const Launch<CastFromPacked>& l) {
  const auto& d = l.desc;
  const PairOperands y(l.args.y);
  const MapOperand x = MapOperand::of(l.args.x);
  const double apart = double(y.count - 1);
  run_map(d.codes_shape(), {&x, 1}, {y.each, y.count}, BARACUDA_ISA_PICK(cast_kernels).from_packed[int(d.format)][d.dtype], &apart, l.threads);
  return {};
}
Status validate_packed(std::string_view op, const CastPackedDescriptor& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (!valid_enum(d.format)) return invalid(op, text("format ", int(d.format), " is not a format"));
  if (d.shape.last() % 2) return invalid(op, text("shape ", d.shape, " has an odd last extent, codes lie two to a byte"));
  return {};
}
template <class D> PrecisionGuarantee guarantee(const D& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true}; }

}  // namespace

Status CastE8m0::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  if (!valid_enum(d.rounding)) return invalid(name, text("rounding ", int(d.rounding), " is not a rounding"));
  return expect_shape(name, "shape", d.shape);
}
Status CastE8m0::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, DType::u8, d.shape);
}
std::span<const Kernel<CastE8m0>> CastE8m0::kernels() {
  static constexpr Kernel<CastE8m0> list[] = {
      {.name = "cast_e8m0.cpu.map", .launch = launch_all<CastE8m0>(Floating{}, run_cast_e8m0), .guarantee = guarantee<Descriptor>}};
  return list;
}
Status CastFromE8m0::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status CastFromE8m0::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, DType::u8, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<CastFromE8m0>> CastFromE8m0::kernels() {
  static constexpr Kernel<CastFromE8m0> list[] = {
      {.name = "cast_from_e8m0.cpu.map", .launch = launch_all<CastFromE8m0>(Floating{}, run_cast_from_e8m0), .guarantee = guarantee<Descriptor>}};
  return list;
}
Shape CastPackedDescriptor::codes_shape() const {
  Shape s = shape;
  s[s.rank - 1] /= 2;
  return s;
}
Status CastPacked::validate(const Descriptor& d) { return validate_packed(name, d); }
Status CastPacked::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, DType::u8, d.codes_shape());
}
std::span<const Kernel<CastPacked>> CastPacked::kernels() {
  static constexpr Kernel<CastPacked> list[] = {
      {.name = "cast_packed.cpu.map", .launch = launch_all<CastPacked>(PackedValues{}, run_cast_packed), .guarantee = guarantee<Descriptor>}};
  return list;
}
Status CastFromPacked::validate(const Descriptor& d) { return validate_packed(name, d); }
Status CastFromPacked::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, DType::u8, d.codes_shape()));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<CastFromPacked>> CastFromPacked::kernels() {
  static constexpr Kernel<CastFromPacked> list[] = {
      {.name = "cast_from_packed.cpu.map", .launch = launch_all<CastFromPacked>(PackedValues{}, run_cast_from_packed), .guarantee = guarantee<Descriptor>}};
  return list;
}

}  // namespace baracuda
