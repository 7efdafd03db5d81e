#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {
namespace {

Status run_cast(const Launch<Cast>& l) {
  const MapOperand x = MapOperand::of(l.args.x), y = MapOperand::of(l.args.y);
  const CastKernels& kernels = BARACUDA_ISA_PICK(cast_kernels);
  run_map(l.desc.shape, {&x, 1}, {&y, 1}, (l.desc.saturate ? kernels.saturated : kernels.from)[l.desc.dtype][l.desc.to], nullptr, l.threads);
  return {};
}

Status run_copy(const Launch<Copy>& l) {
  copy_elements(l.args.x, l.args.y, l.threads);
  return {};
}
Status run_fill(const Launch<Fill>& l) {
  fill_elements(l.args.y, l.args.value, l.threads);
  return {};
}

}  // namespace

Status Cast::validate(const Descriptor& d) {
  if (!valid(d.dtype) || !valid(d.to)) return invalid(name, "invalid dtype");
  if (d.saturate && !dtypes(Saturable{}).has(d.to))
    return invalid(name, text("saturate is for casts to ", to_string(dtypes(Saturable{})), ", to is ", d.to));
  return expect_shape(name, "shape", d.shape);
}
Status Cast::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.to, d.shape);
}
std::span<const Kernel<Cast>> Cast::kernels() {
  static constexpr Kernel<Cast> list[] = {{.name = "cast.cpu.map",
                                           .launch = launch_all<Cast>(CastableOrFloat8{}, run_cast),
                                           .guarantee = exact<Cast>,
                                           .refuse = [](const CastDescriptor& d, const PlanPreference&) {
                                             return dtypes(CastableOrFloat8{}).has(d.to) ? std::string() : text("no cast to ", d.to);
                                           }}};
  return list;
}

Status Copy::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Copy::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return expect(name, "y", a.y, d.dtype, d.shape);
}
std::span<const Kernel<Copy>> Copy::kernels() {
  static constexpr Kernel<Copy> list[] = {{.name = "copy.cpu.strided", .launch = launch_whole_bytes<Copy>(run_copy), .guarantee = exact<Copy>}};
  return list;
}

Status Fill::validate(const Descriptor& d) {
  if (!valid(d.dtype)) return invalid(name, "invalid dtype");
  return expect_shape(name, "shape", d.shape);
}
Status Fill::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Fill>> Fill::kernels() {
  static constexpr Kernel<Fill> list[] = {{.name = "fill.cpu.map", .launch = launch_all<Fill>(CastableOrFloat8{}, run_fill), .guarantee = exact<Fill>}};
  return list;
}

}  // namespace baracuda
