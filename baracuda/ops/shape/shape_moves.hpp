#pragma once
// Ops that are copies of views and fills with zeros, for any M that has copy(from, to) and clear(view): the CPU's and CUDA's rows.
#include "baracuda/ops/shape/slice_places.hpp"

namespace baracuda::shape_detail {

TensorView permuted(const TensorView& v, const Dims& axes);
TensorView diagonal_of(const TensorView& v, const DiagonalDescriptor& d);  // the diagonal of the matrices, as the last axis

// Calls f(piece, its place in the whole).
template <class F> void for_pieces(const ConcatDescriptor& d, const TensorView& whole, Tensors pieces, F f) {
  const int axis = axis_at(d.axis, d.shape.rank);
  int64_t at = 0;
  for (const TensorView& p : pieces) {
    if (p.data && p.numel() > 0) f(p, part(whole, axis, at, p.shape[axis]));
    at += p.shape[axis];
  }
}
template <class M> void move(const Launch<Permute>& l, M&& m) { m.copy(permuted(l.args.x, l.desc.axes), l.args.y); }
template <class M> void move(const Launch<Concat>& l, M&& m) {
  for_pieces(l.desc, l.args.y, l.args.x, [&](const TensorView& x, const TensorView& y) { m.copy(x, y); });
}
template <class M> void move(const Launch<Split>& l, M&& m) {
  for_pieces(l.desc, l.args.x, l.args.y, [&](const TensorView& y, const TensorView& x) { m.copy(x, y); });
}
template <class M> void move(const Launch<Slice>& l, M&& m) { m.copy(slice_of(l.args.x, l.desc), l.args.y); }
template <class M> void move(const Launch<SliceBackward>& l, M&& m) { put_slice(l.args.dy, l.args.dx, slice_of(l.args.dx, l.desc), m); }
template <class M> void move(const Launch<UpdateSlice>& l, M&& m) { replace_slice(l.args.x, l.args.update, l.args.y, slice_of(l.args.y, l.desc), m); }
template <class M> void move(const Launch<UpdateSliceBackward>& l, M&& m) {
  const auto& a = l.args;
  share_slice(a.dy, slice_of(a.dy, l.desc), a.dx, slice_of(a.dx, l.desc), a.dupdate, m);
}
template <class M> void move(const Launch<Diagonal>& l, M&& m) { m.copy(diagonal_of(l.args.x, l.desc), l.args.y); }
template <class M> void move(const Launch<DiagonalEmbed>& l, M&& m) {
  m.clear(l.args.y);
  m.copy(l.args.x, diagonal_of(l.args.y, l.desc));
}

}  // namespace baracuda::shape_detail
