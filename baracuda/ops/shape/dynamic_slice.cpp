#include "baracuda/ops/shape/dynamic_slice.hpp"
#include <algorithm>
#include "baracuda/ops/shape/slice_places.hpp"

namespace baracuda {
namespace {

using namespace shape_detail;

// The slice of a view of x's shape.
TensorView place_in(TensorView v, const DynamicSliceDescriptor& d, const TensorView& start) {
  if (v.absent()) return v;
  for (int i = 0; i < d.shape.rank; ++i) {
    const int64_t at = i * start.strides[0];
    int64_t first = d.index_dtype == DType::i64 ? start.as<int64_t>()[at] : start.as<int32_t>()[at];
    if (d.negative && first < 0) first += d.shape[i];
    v = part(v, i, std::clamp<int64_t>(first, 0, d.shape[i] - d.size[i]), d.size[i]);
  }
  return v;
}
Status run_slice(const Launch<DynamicSlice>& l) {
  copy_elements(place_in(l.args.x, l.desc, l.args.start), l.args.y, l.threads);
  return {};
}
Status run_slice_backward(const Launch<DynamicSliceBackward>& l) {
  put_slice(l.args.dy, l.args.dx, place_in(l.args.dx, l.desc, l.args.start), HostMoves{l.threads});
  return {};
}
Status run_update(const Launch<DynamicUpdateSlice>& l) {
  const auto& a = l.args;
  replace_slice(a.x, a.update, a.y, place_in(a.y, l.desc, a.start), HostMoves{l.threads});
  return {};
}
Status run_update_backward(const Launch<DynamicUpdateSliceBackward>& l) {
  const auto& a = l.args;
  share_slice(a.dy, place_in(a.dy, l.desc, a.start), a.dx, place_in(a.dx, l.desc, a.start), a.dupdate, HostMoves{l.threads});
  return {};
}
Status validate_slice(std::string_view op, const DynamicSliceDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d));
  if (d.index_dtype != DType::i32 && d.index_dtype != DType::i64) return invalid(op, text("index_dtype ", d.index_dtype, " must be i32 or i64"));
  BARACUDA_TRY(expect_per_axis(op, "size", d.size, d.shape.rank, false));
  for (int i = 0; i < d.shape.rank; ++i)
    if (d.size[i] < 0 || d.size[i] > d.shape[i]) return invalid(op, text("size[", i, "] is ", d.size[i], ", axis ", i, " has extent ", d.shape[i]));
  return {};
}
Status check_start(std::string_view op, const DynamicSliceDescriptor& d, const TensorView& start) { return expect(op, "start", start, d.index_dtype, {d.shape.rank}); }

}  // namespace

Status DynamicSlice::validate(const Descriptor& d) { return validate_slice(name, d); }
Status DynamicSlice::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_start(name, d, a.start));
  return check_pair<DynamicSlice>(d.dtype, "x", a.x, d.shape, "y", a.y, d.size);
}
std::span<const Kernel<DynamicSlice>> DynamicSlice::kernels() {
  static constexpr Kernel<DynamicSlice> list[] = {
      {.name = "dynamic_slice.cpu.strided", .launch = launch_whole_bytes<DynamicSlice>(run_slice), .guarantee = exact<DynamicSlice>}};
  return list;
}
Status DynamicSliceBackward::validate(const Descriptor& d) { return validate_slice(name, d); }
Status DynamicSliceBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_start(name, d, a.start));
  return check_pair<DynamicSliceBackward>(d.dtype, "dy", a.dy, d.size, "dx", a.dx, d.shape);
}
std::span<const Kernel<DynamicSliceBackward>> DynamicSliceBackward::kernels() {
  static constexpr Kernel<DynamicSliceBackward> list[] = {{.name = "dynamic_slice_backward.cpu.strided",
                                                           .launch = launch_whole_bytes<DynamicSliceBackward>(run_slice_backward),
                                                           .guarantee = exact<DynamicSliceBackward>}};
  return list;
}
Status DynamicUpdateSlice::validate(const Descriptor& d) { return validate_slice(name, d); }
Status DynamicUpdateSlice::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_start(name, d, a.start));
  BARACUDA_TRY((check_pair<DynamicUpdateSlice>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape)));
  return expect(name, "update", a.update, d.dtype, d.size);
}
std::span<const Kernel<DynamicUpdateSlice>> DynamicUpdateSlice::kernels() {
  static constexpr Kernel<DynamicUpdateSlice> list[] = {
      {.name = "dynamic_update_slice.cpu.strided", .launch = launch_whole_bytes<DynamicUpdateSlice>(run_update), .guarantee = exact<DynamicUpdateSlice>}};
  return list;
}
Status DynamicUpdateSliceBackward::validate(const Descriptor& d) { return validate_slice(name, d); }
Status DynamicUpdateSliceBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_start(name, d, a.start));
  return check_update_gradients<DynamicUpdateSliceBackward>(d, a.dy, a.dx, a.dupdate, d.size);
}
std::span<const Kernel<DynamicUpdateSliceBackward>> DynamicUpdateSliceBackward::kernels() {
  static constexpr Kernel<DynamicUpdateSliceBackward> list[] = {{.name = "dynamic_update_slice_backward.cpu.strided",
                                                                 .launch = launch_whole_bytes<DynamicUpdateSliceBackward>(run_update_backward),
                                                                 .guarantee = exact<DynamicUpdateSliceBackward>}};
  return list;
}

}  // namespace baracuda
