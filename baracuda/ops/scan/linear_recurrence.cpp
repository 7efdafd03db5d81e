#include "baracuda/ops/scan/linear_recurrence.hpp"
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {

using namespace scan_detail;

// The lanes of a recurrence are those of a scan; the kind picks the row of the kernels' table.
constexpr ScanKind kForward = ScanKind::cumsum, kGradient = ScanKind::cumprod, kWeighted = ScanKind::cummax;
ScanDescriptor lanes_of(const LinearRecurrenceDescriptor& d, ScanKind row) { return {row, d.dtype, d.shape, d.axis, d.reverse}; }
PrecisionGuarantee guarantee(const LinearRecurrenceDescriptor&) { return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true}; }
void carve(const LinearRecurrenceDescriptor& d, const void*, Carver& c) { carve_lanes(lanes_of(d, kForward), false, c); }

Status run(const Launch<LinearRecurrence>& l) {
  const ScanDescriptor d = lanes_of(l.desc, kForward);
  auto view = [&](const TensorView& v) { return along(v, d, d.reverse); };
  run_lanes(d, BARACUDA_ISA_PICK(linear_recurrence_kernels), {{view(l.args.x), view(l.args.a), {}}, view(l.args.y), {}, d.reverse}, l.carver(), l.threads);
  return {};
}
Status run_backward(const Launch<LinearRecurrenceBackward>& l) {
  const LinearRecurrenceBackward::Args& a = l.args;
  const ScanDescriptor d = lanes_of(l.desc, a.da.absent() ? kGradient : kWeighted);
  auto against = [&](const TensorView& v) { return along(v, d, !d.reverse); };
  Lanes lanes{{against(a.dy), against(a.a), a.da.absent() ? TensorView{} : against(a.y)}, against(a.dx), against(a.da), !d.reverse};
  if (a.dx.absent()) std::swap(lanes.out, lanes.out2);
  if (!lanes.out.absent()) run_lanes(d, BARACUDA_ISA_PICK(linear_recurrence_kernels), lanes, l.carver(), l.threads);
  return {};
}
Status validate(std::string_view name, const LinearRecurrenceDescriptor& d) {
  const Status s = Scan::validate(lanes_of(d, kForward));
  return s.ok() ? s : Status(s.code(), text(name, ": ", s.message()));
}

}  // namespace

Status LinearRecurrence::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status LinearRecurrence::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "a", a.a, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<LinearRecurrence>> LinearRecurrence::kernels() {
  static constexpr Kernel<LinearRecurrence> list[] = {
      {.name = "linear_recurrence.cpu.tile", .launch = launch_all<LinearRecurrence>(Floating{}, run), .guarantee = guarantee, .carve = carve}};
  return list;
}
Status LinearRecurrenceBackward::validate(const Descriptor& d) { return baracuda::validate(name, d); }
Status LinearRecurrenceBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "a", a.a, d.dtype, d.shape));
  if (!a.da.absent() && a.y.absent()) return unexpected(name, "y", d.dtype, d.shape, "is missing, the gradient of a reads it");
  if (!a.y.absent()) BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  if (!a.dx.absent()) BARACUDA_TRY(expect(name, "dx", a.dx, d.dtype, d.shape));
  return a.da.absent() ? Status() : expect(name, "da", a.da, d.dtype, d.shape);
}
std::span<const Kernel<LinearRecurrenceBackward>> LinearRecurrenceBackward::kernels() {
  static constexpr Kernel<LinearRecurrenceBackward> list[] = {
      {.name = "linear_recurrence_backward.cpu.tile", .launch = launch_all<LinearRecurrenceBackward>(Floating{}, run_backward), .guarantee = guarantee, .carve = carve}};
  return list;
}

}  // namespace baracuda
