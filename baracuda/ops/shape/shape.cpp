// permute, concat, split, slice, update_slice, triangle, diagonal: strided copies of views.
#include <algorithm>
#include <cstring>
#include "baracuda/ops/shape/shape_moves.hpp"

namespace baracuda {
namespace shape_detail {
namespace {

TensorView without_axis(TensorView v, int axis) {
  for (int i = axis; i + 1 < v.shape.rank; ++i) v.shape[i] = v.shape[i + 1], v.strides[i] = v.strides[i + 1];
  v.shape[--v.shape.rank] = 0, v.strides[--v.strides.rank] = 0;
  return v;
}
// The diagonal of the matrices, as the last axis.
struct DiagonalPlace { int a, b; int64_t row, column, length; };
DiagonalPlace place_of(const DiagonalDescriptor& d) {
  DiagonalPlace p{axis_at(d.axis1, d.shape.rank), axis_at(d.axis2, d.shape.rank), std::max<int64_t>(0, -d.offset), std::max<int64_t>(0, d.offset), 0};
  p.length = std::max<int64_t>(0, std::min(d.shape[p.a] - p.row, d.shape[p.b] - p.column));
  return p;
}

}  // namespace

TensorView permuted(const TensorView& v, const Dims& axes) {
  TensorView p = v;
  for (int i = 0; i < v.shape.rank; ++i) {
    const int from = axis_at(axes[i], v.shape.rank);
    p.shape[i] = v.shape[from], p.strides[i] = v.strides[from];
  }
  return p;
}
TensorView diagonal_of(const TensorView& v, const DiagonalDescriptor& d) {
  const DiagonalPlace p = place_of(d);
  TensorView w = part(part(v, p.a, p.length ? p.row : 0, p.length), p.b, p.length ? p.column : 0, p.length);
  const int64_t stride = w.strides[p.a] + w.strides[p.b];
  w = without_axis(without_axis(w, std::max(p.a, p.b)), std::min(p.a, p.b));
  w.shape.push_back(p.length), w.strides.push_back(stride);
  return w;
}

}  // namespace shape_detail
namespace {

using namespace shape_detail;

template <class Op> Status run_moves(const Launch<Op>& l) {
  move(l, HostMoves{l.threads});
  return {};
}
template <class T> void triangle(const TriangleDescriptor& d, const TensorView& x, const TensorView& y, int threads) {
  const int rank = d.shape.rank;
  const int64_t rows = d.shape[rank - 2], columns = d.shape[rank - 1], x_step = x.strides[rank - 1], y_step = y.strides[rank - 1];
  const bool in_place = x.data == y.data;
  Shape matrices = d.shape;
  matrices.rank = rank - 2;
  const int64_t all = matrices.numel() * rows;
  if (all * columns == 0) return;
  parallel_for(all, std::max<int64_t>(1, kPiece / columns), threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t row = u % rows;
      int64_t rest = u / rows, x_at = row * x.strides[rank - 2], y_at = row * y.strides[rank - 2];
      for (int i = rank - 3; i >= 0; --i) {
        const int64_t k = rest % d.shape[i];
        rest /= d.shape[i], x_at += k * x.strides[i], y_at += k * y.strides[i];
      }
      const T* from = x.as<T>() + x_at;
      T* to = y.as<T>() + y_at;
      // Columns below cut are lower's to keep and upper's to clear.
      const bool lower = d.kind == TriangleKind::lower;
      const int64_t cut = int64_t(std::clamp<__int128>(__int128(row) + d.diagonal + lower, 0, columns));
      const int64_t keep = lower ? 0 : cut, keep_end = lower ? cut : columns, zero = lower ? cut : 0, zero_end = lower ? columns : cut;
      if (!in_place) {
        if (x_step == 1 && y_step == 1) std::memcpy(to + keep, from + keep, size_t(keep_end - keep) * sizeof(T));
        else for (int64_t c = keep; c < keep_end; ++c) to[c * y_step] = from[c * x_step];
      }
      if (y_step == 1) std::memset(static_cast<void*>(to + zero), 0, size_t(zero_end - zero) * sizeof(T));
      else for (int64_t c = zero; c < zero_end; ++c) to[c * y_step] = T{};
    }
  });
}
Status run_triangle(const Launch<Triangle>& l) {
  with_element(l.desc.dtype, [&]<class T>(T) { triangle<T>(l.desc, l.args.x, l.args.y, l.threads); });
  return {};
}
Status validate_concat(std::string_view op, const ConcatDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d, 1));
  return expect_axis(op, "axis", d.axis, d.shape.rank);
}
Status check_pieces(std::string_view op, std::string_view role, const ConcatDescriptor& d, const TensorView& whole, Tensors pieces, bool pieces_written) {
  const int axis = axis_at(d.axis, d.shape.rank);
  __int128 sum = 0;
  for (size_t k = 0; k < pieces.size(); ++k) {
    const TensorView& p = pieces[k];
    const std::string who = text(role, "[", k, "]");
    const bool left_out = pieces_written && !p.data;
    if (!left_out) BARACUDA_TRY(check_argument(op, who, p, pieces_written ? Role::out : Role::in, whole.device));
    if (!left_out && p.dtype != d.dtype) return unexpected(op, who, d.dtype, d.shape, text("has dtype ", p.dtype, ", expected ", d.dtype));
    bool fits = p.shape.rank == d.shape.rank;
    for (int i = 0; i < d.shape.rank; ++i) fits = fits && (i == axis ? p.shape[i] >= 0 : p.shape[i] == d.shape[i]);
    if (!fits) return unexpected(op, who, d.dtype, d.shape, text("has shape ", p.shape, ", expected ", d.shape, " but for axis ", axis));
    sum += p.shape[axis];
  }
  if (sum != d.shape[axis])
    return unexpected(op, role, d.dtype, d.shape, text("has ", pieces.size(), " tensors with ", int64_t(sum), " indices along axis ", axis, ", expected ", d.shape[axis]));
  return {};
}
Status validate_slice(std::string_view op, const SliceDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d));
  const int rank = d.shape.rank;
  BARACUDA_TRY(expect_per_axis(op, "start", d.start, rank, true));
  BARACUDA_TRY(expect_per_axis(op, "size", d.size, rank, false));
  BARACUDA_TRY(expect_per_axis(op, "step", d.step, rank, true));
  for (int i = 0; i < rank; ++i) {
    const int64_t n = d.shape[i], start = at_or(d.start, i, 0), size = d.size[i], step = at_or(d.step, i, 1);
    if (step < 1) return invalid(op, text("step[", i, "] is ", step, ", it must be >= 1"));
    if (start < 0 || size < 0 || start > n || (size > 0 && __int128(start) + __int128(size - 1) * step >= n))
      return invalid(op, text("start ", start, ", size ", size, ", step ", step, " of axis ", i, " do not lie in its extent ", n));
  }
  return {};
}
Status validate_diagonal(std::string_view op, const DiagonalDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d, 2));
  BARACUDA_TRY(expect_axis(op, "axis1", d.axis1, d.shape.rank));
  BARACUDA_TRY(expect_axis(op, "axis2", d.axis2, d.shape.rank));
  if (axis_at(d.axis1, d.shape.rank) == axis_at(d.axis2, d.shape.rank))
    return invalid(op, text("axis1 ", d.axis1, " and axis2 ", d.axis2, " are the same axis of rank ", d.shape.rank));
  if (d.offset == INT64_MIN) return invalid(op, text("offset ", d.offset, " is out of range"));
  return {};
}

}  // namespace

Shape PermuteDescriptor::y_shape() const {
  Shape s;
  for (int i = 0; i < shape.rank; ++i) s.push_back(shape[axis_at(axes[i], shape.rank)]);
  return s;
}
Shape SliceDescriptor::y_shape() const {
  Shape s;
  for (int i = 0; i < size.rank; ++i) s.push_back(size[i]);
  return s;
}
Shape DiagonalDescriptor::y_shape() const {
  const DiagonalPlace p = place_of(*this);
  Shape s;
  for (int i = 0; i < shape.rank; ++i)
    if (i != p.a && i != p.b) s.push_back(shape[i]);
  s.push_back(p.length);
  return s;
}

Status Permute::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d));
  BARACUDA_TRY(expect_per_axis(name, "axes", d.axes, d.shape.rank, false));
  bool seen[kMaxRank] = {};
  for (int i = 0; i < d.axes.rank; ++i) {
    BARACUDA_TRY(expect_axis(name, text("axes[", i, "]"), d.axes[i], d.shape.rank));
    bool& once = seen[axis_at(d.axes[i], d.shape.rank)];
    if (once) return invalid(name, text("axes ", d.axes, " names axis ", d.axes[i], " twice"));
    once = true;
  }
  return {};
}
Status Permute::check(const Descriptor& d, const Args& a) { return check_pair<Permute>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape()); }
std::span<const Kernel<Permute>> Permute::kernels() {
  static constexpr Kernel<Permute> list[] = {{.name = "permute.cpu.strided", .launch = launch_whole_bytes<Permute>(run_moves<Permute>), .guarantee = exact<Permute>}};
  return list;
}

Status Concat::validate(const Descriptor& d) { return validate_concat(name, d); }
Status Concat::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return check_pieces(name, "x", d, a.y, a.x, false);
}
std::span<const Kernel<Concat>> Concat::kernels() {
  static constexpr Kernel<Concat> list[] = {{.name = "concat.cpu.strided", .launch = launch_whole_bytes<Concat>(run_moves<Concat>), .guarantee = exact<Concat>}};
  return list;
}
Status Split::validate(const Descriptor& d) { return validate_concat(name, d); }
Status Split::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  return check_pieces(name, "y", d, a.x, a.y, true);
}
std::span<const Kernel<Split>> Split::kernels() {
  static constexpr Kernel<Split> list[] = {{.name = "split.cpu.strided", .launch = launch_whole_bytes<Split>(run_moves<Split>), .guarantee = exact<Split>}};
  return list;
}

Status Slice::validate(const Descriptor& d) { return validate_slice(name, d); }
Status Slice::check(const Descriptor& d, const Args& a) { return check_pair<Slice>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape()); }
std::span<const Kernel<Slice>> Slice::kernels() {
  static constexpr Kernel<Slice> list[] = {{.name = "slice.cpu.strided", .launch = launch_whole_bytes<Slice>(run_moves<Slice>), .guarantee = exact<Slice>}};
  return list;
}
Status SliceBackward::validate(const Descriptor& d) { return validate_slice(name, d); }
Status SliceBackward::check(const Descriptor& d, const Args& a) {
  return check_pair<SliceBackward>(d.dtype, "dy", a.dy, d.y_shape(), "dx", a.dx, d.shape);
}
std::span<const Kernel<SliceBackward>> SliceBackward::kernels() {
  static constexpr Kernel<SliceBackward> list[] = {
      {.name = "slice_backward.cpu.strided", .launch = launch_whole_bytes<SliceBackward>(run_moves<SliceBackward>), .guarantee = exact<SliceBackward>}};
  return list;
}
Status UpdateSlice::validate(const Descriptor& d) { return validate_slice(name, d); }
Status UpdateSlice::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY((check_pair<UpdateSlice>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape)));
  return expect(name, "update", a.update, d.dtype, d.y_shape());
}
std::span<const Kernel<UpdateSlice>> UpdateSlice::kernels() {
  static constexpr Kernel<UpdateSlice> list[] = {
      {.name = "update_slice.cpu.strided", .launch = launch_whole_bytes<UpdateSlice>(run_moves<UpdateSlice>), .guarantee = exact<UpdateSlice>}};
  return list;
}
Status UpdateSliceBackward::validate(const Descriptor& d) { return validate_slice(name, d); }
Status UpdateSliceBackward::check(const Descriptor& d, const Args& a) {
  return check_update_gradients<UpdateSliceBackward>(d, a.dy, a.dx, a.dupdate, d.y_shape());
}
std::span<const Kernel<UpdateSliceBackward>> UpdateSliceBackward::kernels() {
  static constexpr Kernel<UpdateSliceBackward> list[] = {{.name = "update_slice_backward.cpu.strided",
                                                          .launch = launch_whole_bytes<UpdateSliceBackward>(run_moves<UpdateSliceBackward>),
                                                          .guarantee = exact<UpdateSliceBackward>}};
  return list;
}

Status Triangle::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_base(name, d, 2));
  if (!valid_enum(d.kind)) return invalid(name, text("kind ", int(d.kind), " is not a kind"));
  return {};
}
Status Triangle::check(const Descriptor& d, const Args& a) { return check_pair<Triangle>(d.dtype, "x", a.x, d.shape, "y", a.y, d.shape); }
std::span<const Kernel<Triangle>> Triangle::kernels() {
  static constexpr Kernel<Triangle> list[] = {{.name = "triangle.cpu.rows", .launch = launch_whole_bytes<Triangle>(run_triangle), .guarantee = exact<Triangle>}};
  return list;
}

Status Diagonal::validate(const Descriptor& d) { return validate_diagonal(name, d); }
Status Diagonal::check(const Descriptor& d, const Args& a) { return check_pair<Diagonal>(d.dtype, "x", a.x, d.shape, "y", a.y, d.y_shape()); }
std::span<const Kernel<Diagonal>> Diagonal::kernels() {
  static constexpr Kernel<Diagonal> list[] = {{.name = "diagonal.cpu.strided", .launch = launch_whole_bytes<Diagonal>(run_moves<Diagonal>), .guarantee = exact<Diagonal>}};
  return list;
}
Status DiagonalEmbed::validate(const Descriptor& d) { return validate_diagonal(name, d); }
Status DiagonalEmbed::check(const Descriptor& d, const Args& a) { return check_pair<DiagonalEmbed>(d.dtype, "x", a.x, d.y_shape(), "y", a.y, d.shape); }
std::span<const Kernel<DiagonalEmbed>> DiagonalEmbed::kernels() {
  static constexpr Kernel<DiagonalEmbed> list[] = {
      {.name = "diagonal_embed.cpu.strided", .launch = launch_whole_bytes<DiagonalEmbed>(run_moves<DiagonalEmbed>), .guarantee = exact<DiagonalEmbed>}};
  return list;
}

}  // namespace baracuda
