#include <algorithm>
#include <bit>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/copy/copy_elements.hpp"
#include "baracuda/ops/shape/select_n.hpp"
#include "baracuda/ops/shape/shape_cuda.hpp"

namespace baracuda {
namespace {

using device::Operand;

WhichType which_type(DType t) { return t == DType::boolean ? WhichType::boolean : t == DType::i32 ? WhichType::i32 : WhichType::i64; }
// Units where tensors lie alike, else elements.
template <class S> void set_walk(const Shape& shape, const Operand (&all)[2 + kSelectCases], int order, int bytes, S& s) {
  s.walk = device::walk<2 + kSelectCases>(shape, all, order, select_lanes(bytes));
  if (!s.walk.flat) s.walk = device::walk<2 + kSelectCases>(shape, all, order, 1);
}
// One index for all is a broadcast one.
Operand which_operand(const SelectNDescriptor& d, const TensorView& which) {
  Operand o = Operand::of(which);
  if (d.which.rank == 0)
    for (int i = 0; i < d.shape.rank; ++i) o.strides.push_back(0);
  return o;
}
Status run_select(const Launch<SelectN>& l) {
  const auto& d = l.desc;
  const TensorView &which = l.args.which, &y = l.args.y;
  const Tensors x = l.args.x;
  if (y.numel() == 0) return {};
  const int64_t cases = int64_t(x.size());
  return device::queue(l.stream, SelectN::name, [&] {
    int error = 0;
    for (int64_t first = 0; first < cases && !error; first += kSelectCases) {
      SelectCuda s{};
      Operand all[2 + kSelectCases] = {which_operand(d, which), Operand::of(y)};
      s.cases = int(std::min<int64_t>(kSelectCases, cases - first));
      for (int k = 0; k < s.cases; ++k) all[2 + k] = Operand::of(x[size_t(first + k)]), s.x[k] = x[size_t(first + k)].data;
      set_walk(d.shape, all, 1, int(byte_size(d.dtype)), s);
      s.which = which.data, s.y = y.data, s.first = first, s.last = cases - 1, s.type = which_type(d.which_dtype);
      error = select_n_cuda_kernels.select[std::countr_zero(byte_size(d.dtype))](s, l.stream.handle);
    }
    return error;
  });
}
Status run_backward(const Launch<SelectNBackward>& l) {
  const auto& d = l.desc;
  const TensorView &dy = l.args.dy, &which = l.args.which;
  const Tensors dx = l.args.dx;
  if (dy.numel() == 0) return {};
  const int64_t cases = int64_t(dx.size());
  return device::queue(l.stream, SelectNBackward::name, [&] {
    int error = 0;
    for (int64_t next = 0; next < cases && !error;) {
      SelectBackwardCuda s{};
      Operand all[2 + kSelectCases] = {which_operand(d, which), Operand::of(dy)};
      for (; next < cases && s.cases < kSelectCases; ++next) {
        const TensorView& v = dx[size_t(next)];
        if (v.data) all[2 + s.cases] = Operand::of(v), s.dx[s.cases] = v.data, s.place[s.cases++] = next;
      }
      if (s.cases == 0) break;
      set_walk(d.shape, all, 2, int(byte_size(d.dtype)), s);
      s.which = which.data, s.dy = dy.data, s.last = cases - 1, s.type = which_type(d.which_dtype);
      error = select_n_cuda_kernels.backward[std::countr_zero(byte_size(d.dtype))](s, l.stream.handle);
    }
    return error;
  });
}

}  // namespace

template <> std::span<const Kernel<SelectN>> cuda_kernels<SelectN>() {
  static constexpr Kernel<SelectN> list[] = {
      {.name = "select_n.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_whole_bytes<SelectN>(run_select), .guarantee = exact<SelectN>}};
  return list;
}
template <> std::span<const Kernel<SelectNBackward>> cuda_kernels<SelectNBackward>() {
  static constexpr Kernel<SelectNBackward> list[] = {{.name = "select_n_backward.cuda.map", .device = DeviceKind::cuda, .min_arch = 80,
                                                      .launch = launch_whole_bytes<SelectNBackward>(run_backward), .guarantee = exact<SelectNBackward>}};
  return list;
}

}  // namespace baracuda
