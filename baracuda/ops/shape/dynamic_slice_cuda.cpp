#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/shape/device_moves.hpp"
#include "baracuda/ops/shape/dynamic_slice.hpp"
#include "baracuda/ops/shape/shape_cuda.hpp"
#include "baracuda/ops/shape/slice_places.hpp"

namespace baracuda {
namespace {

using namespace shape_detail;
using device::Operand;

enum Moved { kFromPlace = 1, kToPlace = 2 };
// The block of x to y, of the slice's shape; x without memory: zeros. `moved`: which of them is a place in the whole, whose strides it has.
int move_block(const DynamicSliceDescriptor& d, const TensorView& start, const TensorView& x, const TensorView& y, int moved, void* stream) {
  const int rank = d.shape.rank, size = int(byte_size(d.dtype));
  if (d.size.numel() == 0) return 0;
  Operand sides[] = {x.data ? Operand::of(x) : Operand{}, Operand::of(y)};
  // In words as wide as every place allows.
  const auto allows = [&](int n) {
    bool ok = rank > 0 && d.size[rank - 1] % n == 0;
    for (int k = 0; k < 2; ++k) {
      if (!sides[k].data) continue;
      ok = ok && uintptr_t(sides[k].data) % uintptr_t(n * size) == 0 && sides[k].strides[rank - 1] == 1;
      for (int a = 0; a < rank; ++a) {
        const bool steps = (moved >> k & 1) && d.size[a] != d.shape[a];
        ok = ok && ((a == rank - 1 && !steps) || (d.size[a] == 1 && !steps) || sides[k].strides[a] % n == 0);
      }
    }
    return ok;
  };
  int words = 16 / size;
  while (words > 1 && !allows(words)) words /= 2;
  BlockMove m{};
  m.x = x.data, m.y = y.data, m.start = start.data, m.i64 = d.index_dtype == DType::i64, m.negative = d.negative, m.rank = rank, m.start_stride = start.strides[0];
  Shape block = d.size;
  if (rank > 0) block[rank - 1] /= words;
  for (int a = 0; a < rank; ++a) {
    m.extent[a] = d.shape[a], m.most[a] = d.shape[a] - d.size[a];
    if (sides[0].data && (moved & kFromPlace)) m.x_stride[a] = sides[0].strides[a] / words;
    if (moved & kToPlace) m.y_stride[a] = sides[1].strides[a] / words;
  }
  for (Operand& o : sides) {
    o.bytes = size * words;
    for (int a = 0; a + 1 < rank && o.data; ++a) o.strides[a] /= words;
  }
  m.walk = device::walk<2>(block, sides, 1, 1);
  return shape_block_move_cuda[std::countr_zero(unsigned(size * words))](m, stream);
}
Status run_slice(const Launch<DynamicSlice>& l) {
  return device::queue(l.stream, DynamicSlice::name, [&] { return move_block(l.desc, l.args.start, l.args.x, l.args.y, kFromPlace, l.stream.handle); });
}
Status run_slice_backward(const Launch<DynamicSliceBackward>& l) {
  const auto& a = l.args;
  return device::queue(l.stream, DynamicSliceBackward::name, [&] {
    DeviceMoves m{l.stream.handle};
    if (!(a.dy.shape == a.dx.shape)) m.clear(a.dx);
    return m.error ? m.error : move_block(l.desc, a.start, a.dy, a.dx, kToPlace, l.stream.handle);
  });
}
Status run_update(const Launch<DynamicUpdateSlice>& l) {
  const auto& a = l.args;
  return device::queue(l.stream, DynamicUpdateSlice::name, [&] {
    DeviceMoves m{l.stream.handle};
    if (a.x.data != a.y.data && !(a.update.shape == a.y.shape)) m.copy(a.x, a.y);
    return m.error ? m.error : move_block(l.desc, a.start, a.update, a.y, kToPlace, l.stream.handle);
  });
}
Status run_update_backward(const Launch<DynamicUpdateSliceBackward>& l) {
  const auto& [dy, start, dx, dupdate] = l.args;
  return device::queue(l.stream, DynamicUpdateSliceBackward::name, [&, &dy = dy, &start = start, &dx = dx, &dupdate = dupdate] {
    DeviceMoves m{l.stream.handle};
    if (!dupdate.absent()) m.error = move_block(l.desc, start, dy, dupdate, kFromPlace, l.stream.handle);
    if (dx.absent() || m.error) return m.error;
    if (dx.data != dy.data && !(l.desc.size == l.desc.shape)) m.copy(dy, dx);
    return m.error ? m.error : move_block(l.desc, start, {}, dx, kToPlace, l.stream.handle);
  });
}
template <class Op> constexpr Kernel<Op> row(std::string_view name, Launcher<Op> run) {
  return {.name = name, .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<Op>(run), .guarantee = exact<Op>};
}

}  // namespace

template <> std::span<const Kernel<DynamicSlice>> cuda_kernels<DynamicSlice>() {
  static constexpr Kernel<DynamicSlice> list[] = {row<DynamicSlice>("dynamic_slice.cuda.block", run_slice)};
  return list;
}
template <> std::span<const Kernel<DynamicSliceBackward>> cuda_kernels<DynamicSliceBackward>() {
  static constexpr Kernel<DynamicSliceBackward> list[] = {row<DynamicSliceBackward>("dynamic_slice_backward.cuda.block", run_slice_backward)};
  return list;
}
template <> std::span<const Kernel<DynamicUpdateSlice>> cuda_kernels<DynamicUpdateSlice>() {
  static constexpr Kernel<DynamicUpdateSlice> list[] = {row<DynamicUpdateSlice>("dynamic_update_slice.cuda.block", run_update)};
  return list;
}
template <> std::span<const Kernel<DynamicUpdateSliceBackward>> cuda_kernels<DynamicUpdateSliceBackward>() {
  static constexpr Kernel<DynamicUpdateSliceBackward> list[] = {row<DynamicUpdateSliceBackward>("dynamic_update_slice_backward.cuda.block", run_update_backward)};
  return list;
}

}  // namespace baracuda
