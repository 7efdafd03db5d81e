#pragma once
// Checks that the ops of the family share.
#include <algorithm>
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/shape/shape.hpp"

namespace baracuda::shape_detail {

// The axis as an index, or -1 when there is no such axis.
inline int axis_at(int64_t axis, int rank) { return axis < -rank || axis >= rank ? -1 : int(axis < 0 ? axis + rank : axis); }
inline Status expect_axis(std::string_view op, std::string_view field, int64_t axis, int rank) {
  if (axis_at(axis, rank) >= 0) return {};
  return invalid(op, text(field, " ", axis, " is not an axis of rank ", rank));
}
// A list with one number per axis, or an empty one where that has a meaning.
inline Status expect_per_axis(std::string_view op, std::string_view field, const Dims& d, int rank, bool optional) {
  if (d.rank == rank || (optional && d.rank == 0)) return {};
  return invalid(op, text(field, " ", d, " has ", d.rank, " numbers for ", rank, " axes"));
}
inline int64_t at_or(const Dims& d, int i, int64_t otherwise) { return d.rank ? d[i] : otherwise; }
// A shape of at most 2^56 bytes: more than any address space, and all sums of offsets stay far below 2^63.
inline Status expect_addressable(std::string_view op, std::string_view field, DType t, const Shape& shape, int min_rank = 0) {
  BARACUDA_TRY(expect_shape(op, field, shape, min_rank));
  if (shape.numel() > (int64_t(1) << 56) / int64_t(std::max<size_t>(1, byte_size(t))))
    return invalid(op, text(field, " ", shape, " has more than 2^56 bytes"));
  return {};
}
template <class D> Status validate_base(std::string_view op, const D& d, int min_rank = 0) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  return expect_addressable(op, "shape", d.dtype, d.shape, min_rank);
}
inline Status expect_extent(std::string_view op, int axis, __int128 extent) {
  if (extent >= 0 && extent <= INT64_MAX) return {};
  return invalid(op, text("axis ", axis, " of y would have ", extent < 0 ? "a negative extent" : "more than 2^63 - 1 elements"));
}
template <class Op> Status check_pair(DType t, std::string_view x_name, const TensorView& x, const Shape& xs, std::string_view y_name,
                                      const TensorView& y, const Shape& ys) {
  BARACUDA_TRY(expect(Op::name, x_name, x, t, xs));
  return expect(Op::name, y_name, y, t, ys);
}

}  // namespace baracuda::shape_detail
