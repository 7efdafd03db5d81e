#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {

using namespace scan_detail;

// The gradient of a sum is the sum from the other end.
ScanDescriptor turned(ScanDescriptor d) {
  d.reverse = !d.reverse;
  return d;
}
PrecisionGuarantee guarantee(const ScanDescriptor& d) {
  if (d.kind == ScanKind::cumsum) return scan_guarantee(d);
  const DType kept = d.kind == ScanKind::logcumsumexp ? accumulator(d.dtype) : DType::f64;
  return {.math_precision = kept, .accumulator = kept, .batch_invariant = true};
}
void carve(const ScanDescriptor& d, const void*, Carver& c) { carve_lanes(d, d.kind == ScanKind::cumprod, c); }
Status run(const Launch<ScanBackward>& l) {
  const ScanDescriptor& d = l.desc;
  const ScanBackward::Args& a = l.args;
  if (d.kind == ScanKind::cumsum) {
    run_scan(turned(d), a.dy, a.dx, {}, l.carver(), l.threads);
    return {};
  }
  const auto reads = ScanBackward::reads(d.kind);
  auto against = [&](const TensorView& v) { return along(v, d, !d.reverse); };
  const Lanes lanes{{against(a.dy), against(reads.x ? a.x : a.indices), against(reads.y ? a.y : TensorView{})}, against(a.dx), {}, !d.reverse};
  run_lanes(d, BARACUDA_ISA_PICK(scan_grad_kernels), lanes, l.carver(), l.threads);
  return {};
}

}  // namespace

Status ScanBackward::validate(const Descriptor& d) {
  const Status s = Scan::validate(d);
  return s.ok() ? s : Status(s.code(), text("scan_backward: ", s.message()));
}
Status ScanBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  const Reads r = reads(d.kind);
  auto saved = [&](std::string_view arg, const TensorView& v, bool read, DType dtype) -> Status {
    if (v.absent() && !read) return {};
    if (v.absent()) return unexpected(name, arg, dtype, d.shape, text("is missing, the gradient of ", enum_name(d.kind), " reads it"));
    return expect(name, arg, v, dtype, d.shape);
  };
  BARACUDA_TRY(saved("x", a.x, r.x, d.dtype));
  BARACUDA_TRY(saved("y", a.y, r.y, d.dtype));
  BARACUDA_TRY(saved("indices", a.indices, r.indices, DType::i64));
  return expect(name, "dx", a.dx, d.dtype, d.shape);
}
std::span<const Kernel<ScanBackward>> ScanBackward::kernels() {
  static constexpr Kernel<ScanBackward> list[] = {
      {.name = "scan_backward.cpu.tile", .launch = launch_all<ScanBackward>(Floating{}, run), .guarantee = guarantee, .carve = carve}};
  return list;
}

}  // namespace baracuda
