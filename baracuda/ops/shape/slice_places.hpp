#pragma once
// What slices do, given their place in the whole: shared by those whose start is known and those whose start is data.
#include "baracuda/ops/shape/shape_detail.hpp"

namespace baracuda::shape_detail {

// `extent` indices of an axis from `first` on, `step` apart.
inline TensorView part(TensorView v, int axis, int64_t first, int64_t extent, int64_t step = 1) {
  if (extent > 0) v.data = v.as<char>() + first * v.strides[axis] * int64_t(byte_size(v.dtype));
  v.shape[axis] = extent, v.strides[axis] *= step;
  return v;
}
inline TensorView slice_of(TensorView v, const SliceDescriptor& d) {  // nothing of an absent view
  if (v.absent()) return v;
  for (int i = 0; i < v.shape.rank; ++i) v = part(v, i, at_or(d.start, i, 0), d.size[i], at_or(d.step, i, 1));
  return v;
}
// How the CPU moves.
struct HostMoves {
  int threads;
  void copy(const TensorView& x, const TensorView& y) const { copy_elements(x, y, threads); }
  void clear(const TensorView& y) const { fill_bits(y, {}, threads); }
};
// whole = zeros but for the place.
template <class M> void put_slice(const TensorView& slice, const TensorView& whole, const TensorView& place, M&& m) {
  if (!(slice.shape == whole.shape)) m.clear(whole);
  m.copy(slice, place);
}
// y = x but for the place; y may be x.
template <class M> void replace_slice(const TensorView& x, const TensorView& update, const TensorView& y, const TensorView& place, M&& m) {
  if (x.data != y.data && !(update.shape == y.shape)) m.copy(x, y);
  m.copy(update, place);
}
// dupdate = the place in dy, dx = dy with zeros there; dx may be dy, either may be absent.
template <class M> void share_slice(const TensorView& dy, const TensorView& dy_place, const TensorView& dx, const TensorView& dx_place, const TensorView& dupdate, M&& m) {
  if (!dupdate.absent()) m.copy(dy_place, dupdate);
  if (dx.absent()) return;
  if (dx.data != dy.data && !(dx_place.shape == dx.shape)) m.copy(dy, dx);
  m.clear(dx_place);
}
template <class Op> Status check_update_gradients(const typename Op::Descriptor& d, const TensorView& dy, const TensorView& dx, const TensorView& dupdate,
                                                  const Shape& slice) {
  BARACUDA_TRY(expect(Op::name, "dy", dy, d.dtype, d.shape));
  if (!dx.absent()) BARACUDA_TRY(expect(Op::name, "dx", dx, d.dtype, d.shape));
  return dupdate.absent() ? Status() : expect(Op::name, "dupdate", dupdate, d.dtype, slice);
}

}  // namespace baracuda::shape_detail
