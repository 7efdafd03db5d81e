#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include <algorithm>
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cuda.hpp"
#include "baracuda/ops/quantize/quantize_detail.hpp"

namespace baracuda {
namespace {

using namespace quantize_detail;
using device::Operand;

// Codes, and gradients that are no sums, have the CPU's bits.
PrecisionGuarantee guarantee(const QuantizeDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
PrecisionGuarantee backward_guarantee(const QuantizeDescriptor& d) {
  PrecisionGuarantee g = guarantee(d);
  g.accumulator = DType::f64;
  return g;
}
Operand values(const QuantizeDescriptor& d, const TensorView& v) { return Operand::of(values_view(d, v)); }
Operand scales(const QuantizeDescriptor& d, const TensorView& v) {
  if (v.absent()) return {};
  const MapOperand o = broadcast_operand(scales_view(d, v), map_shape(d));
  return {o.data, o.bytes, o.strides};
}
// What `m` has beside its operands.
template <class M> void set_parameters(const QuantizeDescriptor& d, M& m) {
  const Parameters p = parameters(d);
  m.parameters[0] = p.of[0], m.parameters[1] = p.of[1], m.scale = d.scale.value_or(1), m.zero_point = double(d.zero_point);
}
int queue_map(const QuantizeDescriptor& d, const QuantizeLaunch& f, std::initializer_list<Operand> operands, void* stream) {
  const Shape shape = map_shape(d);
  QuantizeMap m{shape, {}, {}};
  std::copy(operands.begin(), operands.end(), m.operand);
  set_parameters(d, m);
  return f(m, stream);
}
bool signed_codes(const QuantizeDescriptor& d) { return d.qdtype == DType::i8; }

template <class Op> Status run_forward(const Launch<Op>& l, const ByDType<QuantizeLaunch>& f) {
  const auto& d = l.desc;
  const auto& a = l.args;
  return device::queue(l.stream, Op::name, [&] {
    return queue_map(d, f[d.dtype], {values(d, a.x), scales(d, a.scale), scales(d, a.zero_point), values(d, a.y)}, l.stream.handle);
  });
}
Status run_quantize(const Launch<Quantize>& l) { return run_forward(l, quantize_cuda_kernels.quantize); }
Status run_dequantize(const Launch<Dequantize>& l) { return run_forward(l, quantize_cuda_kernels.dequantize[signed_codes(l.desc)]); }
Status run_fake(const Launch<FakeQuantize>& l) { return run_forward(l, quantize_cuda_kernels.fake); }

template <class Op> const QuantizeSumLaunch& sums_of(const QuantizeDescriptor& d) {
  const QuantizeSumCudaKernels& k = quantize_sum_cuda_kernels;
  if constexpr (std::is_same_v<Op, QuantizeBackward>) return k.quantize[d.dtype];
  else if constexpr (std::is_same_v<Op, DequantizeBackward>) return k.dequantize[signed_codes(d)][d.dtype];
  else return k.fake[d.dtype];
}
template <class Op> auto gradients_of(const QuantizeDescriptor& d) {
  const QuantizeGradientsCudaKernels& k = quantize_gradients_cuda_kernels;
  return std::is_same_v<Op, DequantizeBackward> ? k.dequantize[signed_codes(d)][d.dtype] : k.fake[d.dtype];
}
// Elements that share a scale, and the parts that they are cut in where they are one row.
int64_t sharers(const QuantizeDescriptor& d) {
  const int64_t scales = scale_shape(d).numel();
  return scales ? d.shape.numel() / scales : 0;
}
int64_t parts_of(int64_t n) { return std::clamp<int64_t>(n / 32768, 1, 1024); }
// One sum after the other, or both in parts.
template <class Op> double* take_partial(const QuantizeDescriptor& d, Carver& c) {
  TensorView scale;
  scale.strides = scale_shape(d).contiguous();
  const int64_t of_rows = parts_of(sharers(d)) > 1 ? 2 * parts_of(sharers(d)) * scale_shape(d).numel() : 0;
  return c.take<double>("partial sums", std::max(of_rows, broadcast_partials_cuda(map_shape(d), scales_view(d, scale).shape, sums_of<Op>(d).lanes, 1)));
}
// The gradients as rows; false where they do not lie so.
bool gradient_rows(const QuantizeDescriptor& d, const Operand (&in)[4], const QuantizeBackward::Args& a, QuantizeGradients& g) {
  const Operand all[] = {in[0], in[1], in[2], in[3], values(d, a.dx), scales(d, a.dscale), scales(d, a.dzero_point)};
  const device::Walk<7> w = device::walk<7>(map_shape(d), all, 0, 1);
  const int last = w.rank - 1, lanes = 16 / int(byte_size(d.dtype));
  g.n = w.extent[last];
  if (w.units == 0 || g.n != sharers(d)) return false;
  g.whole = g.n % lanes == 0;
  Operand rows[7];
  for (int k = 0; k < 7; ++k) {
    const bool elements = k < 2 || k == 4;
    if (all[k].data && w.stride[k][last] != elements) return false;
    rows[k] = {all[k].data, all[k].bytes, {}};
    for (int i = 0; i < last; ++i) rows[k].strides.push_back(w.stride[k][i]), g.whole = g.whole && (!elements || w.stride[k][i] % lanes == 0);
    g.whole = g.whole && (!elements || uintptr_t(all[k].data) % uintptr_t(lanes * all[k].bytes) == 0);
  }
  Shape outer;
  for (int i = 0; i < last; ++i) outer.push_back(w.extent[i]);
  g.rows = device::walk<7>(outer, rows, -1, 1);
  return true;
}
template <class Op> void carve_backward(const QuantizeDescriptor& d, const void*, Carver& c) { take_partial<Op>(d, c); }
template <class Op> Status run_backward(const Launch<Op>& l, const ByDType<QuantizeLaunch>& dx) {
  const auto& d = l.desc;
  const auto& a = l.args;
  Carver carver = l.carver();
  double* partial = take_partial<Op>(d, carver);
  const Operand in[] = {values(d, a.dy), values(d, a.x), scales(d, a.scale), scales(d, a.zero_point)};
  const TensorView* sums[] = {&a.dscale, &a.dzero_point};
  QuantizeGradients g{};
  if (!std::is_same_v<Op, QuantizeBackward> && !(a.dscale.absent() && a.dzero_point.absent()) && !a.x.absent() && gradient_rows(d, in, {a.dy, a.x, a.scale, a.zero_point, a.dx, a.dscale, a.dzero_point}, g)) {
    QuantizeSum host{{}, {}};
    set_parameters(d, host);
    g.dy = a.dy.data, g.x = a.x.data, g.scale = a.scale.data, g.zero_point = static_cast<const int32_t*>(a.zero_point.data);
    g.dx = a.dx.data, g.dscale = a.dscale.data, g.dzero = a.dzero_point.data, g.parts = parts_of(g.n), g.partial = partial;
    g.parameters[0] = host.parameters[0], g.parameters[1] = host.parameters[1], g.host_scale = host.scale, g.host_zero = host.zero_point, g.grad_factor = d.grad_factor;
    return device::queue(l.stream, Op::name, [&] { return gradients_of<Op>(d)(g, l.stream.handle); });
  }
  return device::queue(l.stream, Op::name, [&] {
    for (int k = 0; k < 2; ++k) {  // before dx, which may be dy or x
      if (sums[k]->absent()) continue;
      const BroadcastSumCuda<4> b(map_shape(d), in, k, scales_view(d, *sums[k]), partial);
      QuantizeSum sum{b.sum, {}};
      set_parameters(d, sum);
      if (const int error = sums_of<Op>(d).run(sum, l.stream.handle)) return error;
      if (d.grad_factor == 1) continue;
      if (const int error = quantize_sum_cuda_kernels.multiply[scale_dtype(d)](sums[k]->shape, Operand::of(*sums[k]), d.grad_factor, l.stream.handle)) return error;
    }
    if (a.dx.absent()) return 0;
    if constexpr (std::is_same_v<Op, DequantizeBackward>) return queue_map(d, dx[d.dtype], {in[0], in[2], in[3], values(d, a.dx)}, l.stream.handle);
    else return queue_map(d, dx[d.dtype], {in[0], in[1], in[2], in[3], values(d, a.dx)}, l.stream.handle);
  });
}
Status run_quantize_backward(const Launch<QuantizeBackward>& l) { return run_backward(l, quantize_cuda_kernels.quantize_backward); }
Status run_dequantize_backward(const Launch<DequantizeBackward>& l) { return run_backward(l, quantize_cuda_kernels.dequantize_backward); }
Status run_fake_backward(const Launch<FakeQuantizeBackward>& l) { return run_backward(l, quantize_cuda_kernels.fake_backward); }

// --- quantize_dynamic
bool has_rows(const QuantizeDynamicDescriptor& d) { return d.by == QuantizeBy::token || d.by == QuantizeBy::group; }
TensorView contiguous_scales(const QuantizeDescriptor& d) {
  TensorView v;
  v.shape = scale_shape(d), v.strides = v.shape.contiguous();
  return v;
}
void* take_ranges(const QuantizeDescriptor& d, Carver& c) { return c.take_bytes("ranges", 2 * scale_shape(d).numel(), byte_size(scale_dtype(d))); }
void carve_dynamic(const QuantizeDynamicDescriptor& d, const void*, Carver& c) { take_ranges(as_static(d), c); }
// Rows of x with one scale each, side by side; false where they do not lie so or are too long.
bool as_rows(const QuantizeDescriptor& d, const QuantizeDynamic::Args& a, QuantizeDynamicRows& r) {
  const auto& kernels = quantize_dynamic_cuda_kernels[d.dtype];
  const Operand all[] = {values(d, a.x), values(d, a.y), scales(d, a.scale), scales(d, a.zero_point), {&r, 1, scales_view(d, contiguous_scales(d)).strides}};
  Shape shape = map_shape(d);
  Operand places = all[4];
  for (int i = 0; i < shape.rank; ++i)
    if (shape[i] == 1) places.strides[i] = 0;
  const Operand five[] = {all[0], all[1], all[2], all[3], places};
  const device::Walk<5> w = device::walk<5>(shape, five, -1, 1);
  const int last = w.rank - 1;
  if (w.units == 0 || w.stride[4][last] != 0 || w.extent[last] > kernels.longest || w.stride[0][last] != 1 || w.stride[1][last] != 1) return false;
  if (w.units / w.extent[last] != scale_shape(d).numel()) return false;  // a scale is for several rows
  r.n = w.extent[last];
  Shape outer;
  Operand rows[4];
  const int lanes = 16 / int(byte_size(d.dtype));
  r.whole = r.n % lanes == 0;
  for (int a = 0; a < last; ++a) outer.push_back(w.extent[a]);
  for (int k = 0; k < 4; ++k) {
    rows[k] = {five[k].data, five[k].bytes, {}};
    for (int a = 0; a < last; ++a) rows[k].strides.push_back(w.stride[k][a]), r.whole = r.whole && (k > 1 || w.stride[k][a] % lanes == 0);
    if (k < 2) r.whole = r.whole && uintptr_t(five[k].data) % uintptr_t(lanes * five[k].bytes) == 0;
  }
  r.rows = device::walk<4>(outer, rows, -1, 1);
  return true;
}
QuantizeRanges ranges_of(const QuantizeDescriptor& d, const QuantizeDynamic::Args& a, void* ranges) {
  QuantizeRanges r{};
  const Shape shape = map_shape(d), scale = scale_shape(d);
  const Operand x[] = {values(d, a.x), {ranges, 1, scales_view(d, contiguous_scales(d)).strides}}, out[] = {Operand::of(a.scale), Operand::of(a.zero_point)};
  // The place has no memory of its own: only its offset counts, and V of them may lie side by side.
  r.walk = device::walk<2>(shape, x, -1, quantize_dynamic_cuda_kernels[d.dtype].lanes);
  if (r.walk.rest) r.walk = device::walk<2>(shape, x, -1, 1);
  r.period = 1;
  for (int k = r.walk.rank - 1; k >= 0; --k) {  // from the last axis to the first that has places
    int first = 0;
    while (first < r.walk.rank && r.walk.stride[1][first] == 0) ++first;
    if (k >= first) r.period *= r.walk.extent[k];
  }
  r.x = a.x.data, r.ranges = ranges, r.scales = scale.numel(), r.out = device::walk<2>(scale, out, -1, 1);
  r.scale = a.scale.data, r.zero_point = a.zero_point.absent() ? nullptr : a.zero_point.as<int32_t>();
  return r;
}
Status run_dynamic(const Launch<QuantizeDynamic>& l) {
  QuantizeDescriptor d = as_static(l.desc);
  d.zero_point = middle_code(d);
  const auto& a = l.args;
  const auto& kernels = quantize_dynamic_cuda_kernels[d.dtype];
  const auto set = [&](auto& r) {
    r.least = double(least_code(d)), r.greatest = double(greatest_code(d)), r.middle = double(middle_code(d)), r.symmetric = l.desc.range == QuantizeRange::absmax;
  };
  Carver carver = l.carver();
  void* const ranges = take_ranges(d, carver);
  return device::queue(l.stream, "quantize_dynamic.cuda.range", [&] {
    if (a.scale.numel() == 0) return 0;
    QuantizeDynamicRows rows{};
    if (as_rows(d, a, rows)) {
      rows.x = a.x.data, rows.y = a.y.data, rows.scale = a.scale.data, rows.zero_point = a.zero_point.absent() ? nullptr : a.zero_point.as<int32_t>();
      set(rows);
      return kernels.rows(rows, l.stream.handle);
    }
    QuantizeRanges r = ranges_of(d, a, ranges);
    set(r);
    if (const int error = kernels.ranges(r, l.stream.handle)) return error;
    return queue_map(d, quantize_cuda_kernels.quantize[d.dtype], {values(d, a.x), scales(d, a.scale), scales(d, a.zero_point), values(d, a.y)}, l.stream.handle);
  });
}
PrecisionGuarantee dynamic_guarantee(const QuantizeDynamicDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = has_rows(d)};
}

}  // namespace

template <> std::span<const Kernel<Quantize>> cuda_kernels<Quantize>() {
  static constexpr Kernel<Quantize> list[] = {{.name = "quantize.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                               .launch = launch_all<Quantize>(Floating{}, run_quantize), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<Dequantize>> cuda_kernels<Dequantize>() {
  static constexpr Kernel<Dequantize> list[] = {{.name = "dequantize.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                 .launch = launch_all<Dequantize>(Floating{}, run_dequantize), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<FakeQuantize>> cuda_kernels<FakeQuantize>() {
  static constexpr Kernel<FakeQuantize> list[] = {{.name = "fake_quantize.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                   .launch = launch_all<FakeQuantize>(Floating{}, run_fake), .guarantee = guarantee}};
  return list;
}
template <> std::span<const Kernel<QuantizeBackward>> cuda_kernels<QuantizeBackward>() {
  static constexpr Kernel<QuantizeBackward> list[] = {{.name = "quantize_backward.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                       .launch = launch_all<QuantizeBackward>(Floating{}, run_quantize_backward), .guarantee = backward_guarantee,
                                                       .carve = carve_backward<QuantizeBackward>}};
  return list;
}
template <> std::span<const Kernel<DequantizeBackward>> cuda_kernels<DequantizeBackward>() {
  static constexpr Kernel<DequantizeBackward> list[] = {{.name = "dequantize_backward.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                         .launch = launch_all<DequantizeBackward>(Floating{}, run_dequantize_backward), .guarantee = backward_guarantee,
                                                         .carve = carve_backward<DequantizeBackward>}};
  return list;
}
template <> std::span<const Kernel<FakeQuantizeBackward>> cuda_kernels<FakeQuantizeBackward>() {
  static constexpr Kernel<FakeQuantizeBackward> list[] = {{.name = "fake_quantize_backward.cuda.rows", .device = DeviceKind::cuda, .min_arch = 80,
                                                           .launch = launch_all<FakeQuantizeBackward>(Floating{}, run_fake_backward), .guarantee = backward_guarantee,
                                                           .carve = carve_backward<FakeQuantizeBackward>}};
  return list;
}
template <> std::span<const Kernel<QuantizeDynamic>> cuda_kernels<QuantizeDynamic>() {
  static constexpr Kernel<QuantizeDynamic> list[] = {{.name = "quantize_dynamic.cuda.range", .device = DeviceKind::cuda, .min_arch = 80,
                                                      .launch = launch_all<QuantizeDynamic>(Floating{}, run_dynamic), .guarantee = dynamic_guarantee, .carve = carve_dynamic}};
  return list;
}

}  // namespace baracuda
