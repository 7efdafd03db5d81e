#include "baracuda/ops/quantize/quantize.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include "baracuda/host/past.hpp"
#include "baracuda/ops/quantize/quantize_cpu.hpp"
#include "baracuda/ops/quantize/quantize_detail.hpp"

namespace baracuda {
namespace quantize_detail {
namespace {

int channel_axis(const QuantizeDescriptor& d) { return int(d.axis < 0 ? d.axis + d.shape.rank : d.axis); }
int64_t type_least(const QuantizeDescriptor& d) { return d.qdtype == DType::i8 ? -128 : 0; }
int64_t type_greatest(const QuantizeDescriptor& d) { return d.qdtype == DType::i8 ? 127 : 255; }

}  // namespace

DType scale_dtype(const QuantizeDescriptor& d) { return accumulator(d.dtype); }
int64_t least_code(const QuantizeDescriptor& d) { return d.qmin.value_or(type_least(d)); }
int64_t greatest_code(const QuantizeDescriptor& d) { return d.qmax.value_or(type_greatest(d)); }

Status validate_layout(std::string_view op, const QuantizeDescriptor& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(expect_shape(op, "shape", d.shape));
  if (d.qdtype != DType::i8 && d.qdtype != DType::u8) return invalid(op, text("qdtype ", d.qdtype, " is not a type of codes; i8 and u8 are"));
  if (!valid_enum(d.by)) return invalid(op, text("by ", int(d.by), " is not a way to share scales"));
  const int rank = d.shape.rank;
  if (d.by == QuantizeBy::channel && (d.axis < -rank || d.axis >= rank))
    return invalid(op, text("axis ", d.axis, " is not in [", -rank, ", ", rank, "), shape is ", d.shape));
  if (d.by == QuantizeBy::token && rank == 0) return invalid(op, "by token needs a shape of rank at least 1");
  if (d.by == QuantizeBy::group) {
    if (rank == 0 || rank == kMaxRank) return invalid(op, text("by group needs a shape of rank 1 to ", kMaxRank - 1, ", shape is ", d.shape));
    if (d.group_size <= 0 || d.shape.last() % d.group_size)
      return invalid(op, text("group_size ", d.group_size, " must be positive and divide the last extent of ", d.shape));
  }
  const int64_t lo = least_code(d), hi = greatest_code(d);
  if (lo < type_least(d) || hi > type_greatest(d) || lo >= hi)
    return invalid(op, text("codes from qmin ", lo, " to qmax ", hi, " must be an interval in ", d.qdtype, "'s [", type_least(d), ", ", type_greatest(d), "]"));
  return {};
}
Shape scale_shape(const QuantizeDescriptor& d) {
  Shape s = d.shape;
  switch (d.by) {
    case QuantizeBy::channel: return {d.shape[channel_axis(d)]};
    case QuantizeBy::token: --s.rank, s.dim[s.rank] = 0; return s;
    case QuantizeBy::group: s[s.rank - 1] /= d.group_size; return s;
    default: return {};
  }
}
Status expect_scales(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const QuantizeDescriptor& d) {
  return v.absent() ? Status() : expect(op, arg, v, dtype, scale_shape(d));
}

Shape map_shape(const QuantizeDescriptor& d) {
  Shape s = d.shape;
  if (d.by == QuantizeBy::group) s[s.rank - 1] /= d.group_size, s.push_back(d.group_size);
  return s;
}
TensorView values_view(const QuantizeDescriptor& d, TensorView v) {
  if (d.by != QuantizeBy::group || v.absent()) return v;
  const int64_t step = v.strides[v.strides.rank - 1];
  v.strides[v.strides.rank - 1] *= d.group_size, v.strides.push_back(step);
  v.shape = map_shape(d);
  return v;
}
TensorView scales_view(const QuantizeDescriptor& d, const TensorView& v) {
  TensorView r = v;
  r.shape = map_shape(d), r.strides = {};
  for (int i = 0; i < r.shape.rank; ++i) {
    const bool own = d.by == QuantizeBy::channel ? i == channel_axis(d) : d.by != QuantizeBy::tensor && i < r.shape.rank - 1;
    if (!own) r.shape[i] = 1;
    r.strides.push_back(own ? v.strides[d.by == QuantizeBy::channel ? 0 : i] : 0);
  }
  return r;
}
Parameters parameters(const QuantizeDescriptor& d) { return {{double(least_code(d)), double(greatest_code(d)), double(d.qdtype == DType::i8)}}; }

MapOperand HostScale::scale(const QuantizeDescriptor& d, const TensorView& given) {
  const Shape shape = map_shape(d);
  if (!given.absent()) return broadcast_operand(scales_view(d, given), shape);
  const bool wide = scale_dtype(d) == DType::f64;
  return broadcast_operand(TensorView::dense(wide ? static_cast<void*>(&f64) : &f32, scale_dtype(d), {}), shape);
}
MapOperand HostScale::zero(const QuantizeDescriptor& d, const TensorView& given) {
  const Shape shape = map_shape(d);
  return given.absent() ? broadcast_operand(TensorView::dense(&zero_point, {}), shape) : broadcast_operand(scales_view(d, given), shape);
}

void run_loops(const Shape& shape, std::span<const MapOperand> in, const MapOperand& out, const QuantizeLoops& loops, const double* parameters,
               int threads) {
  constexpr int64_t kLeast = 16;  // elements of a row
  const int values = int(in.size()) - 2;
  MapWalk walk;
  walk.init(shape, in, {&out, 1});
  const auto& w = walk.w;
  bool rows = w.inner >= kLeast, in_place = false;
  for (int k = 0; k < walk.operands; ++k) {
    rows = rows && w.inner_stride(k) == (k == values || k == values + 1 ? 0 : 1);
    in_place |= k < values && in[size_t(k)].data == out.data;
  }
  if (!rows) return run_map(shape, in, {&out, 1}, loops.map, parameters, threads);
  // Units are pieces of one row or several rows of the last axis but one.
  const int along = w.rank - 2;
  const auto pitch = [&](int k) { return along < 0 ? 0 : w.stride[k][along]; };
  const int64_t extent = along < 0 ? 1 : w.extent[along], at_once = std::clamp<int64_t>(kPiece / w.inner, 1, std::max<int64_t>(extent, 1));
  const int64_t piece = std::min(w.inner, kPiece), pieces = (w.inner + piece - 1) / piece, blocks = (extent + at_once - 1) / at_once;
  if (walk.size() == 0) return;
  const bool past = walk.size() >= kPastCaches / out.bytes && !in_place;
  parallel_for(w.rows / extent * blocks * pieces, std::max<int64_t>(1, kPiece / (at_once * piece)), threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first = u % pieces * piece, row = u / pieces % blocks * at_once;
      int64_t at[kMapOperands];
      w.offsets(u / pieces / blocks * extent + row, at);
      QuantizeRows r{};
      for (int k = 0; k < values; ++k) r.in[k] = walk.data[k] + (at[k] + first) * walk.bytes[k], r.in_pitch[k] = pitch(k);
      r.scale = walk.data[values] + at[values] * walk.bytes[values], r.scale_pitch = pitch(values);
      r.zero_point = reinterpret_cast<const int32_t*>(walk.data[values + 1]) + at[values + 1], r.zero_pitch = pitch(values + 1);
      r.out = walk.data[values + 2] + (at[values + 2] + first) * out.bytes, r.out_pitch = pitch(values + 2);
      r.rows = std::min(at_once, extent - row), r.n = std::min(piece, w.inner - first), r.parameters = parameters, r.past = past;
      loops.rows(r);
    }
  });
}

}  // namespace quantize_detail

namespace {

using namespace quantize_detail;

Status validate_static(std::string_view op, const QuantizeDescriptor& d) {
  BARACUDA_TRY(validate_layout(op, d));
  const int64_t lo = least_code(d), hi = greatest_code(d);
  if (!std::isfinite(d.grad_factor)) return invalid(op, text("grad_factor ", d.grad_factor, " is not finite"));
  if (d.zero_point < lo || d.zero_point > hi) return invalid(op, text("zero_point ", d.zero_point, " is not a code in [", lo, ", ", hi, "]"));
  if (!d.scale) return {};
  if (d.by != QuantizeBy::tensor) return invalid(op, text("scale ", *d.scale, " is for by = tensor, not for ", enum_name(d.by)));
  const double s = scale_dtype(d) == DType::f64 ? *d.scale : double(float(*d.scale));
  if (!std::isfinite(s) || s <= 0) return invalid(op, text("scale ", *d.scale, " must be finite and positive in ", scale_dtype(d)));
  return {};
}
Status check_scales(std::string_view op, const QuantizeDescriptor& d, const TensorView& scale, const TensorView& zero_point) {
  if (scale.absent() != d.scale.has_value())
    return invalid(op, d.scale ? "scale is given twice, as an argument and in the descriptor" : "scale is missing; without it the descriptor must have one");
  if (!zero_point.absent() && d.zero_point != 0) return invalid(op, "zero_point is given twice, as an argument and in the descriptor");
  BARACUDA_TRY(expect_scales(op, "scale", scale, scale_dtype(d), d));
  return expect_scales(op, "zero_point", zero_point, DType::i32, d);
}
PrecisionGuarantee guarantee(const QuantizeDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true};
}
PrecisionGuarantee backward_guarantee(const QuantizeDescriptor& d) {
  PrecisionGuarantee g = guarantee(d);
  g.accumulator = DType::f64;
  return g;
}
MapOperand values(const QuantizeDescriptor& d, const TensorView& v, DType dtype) {
  if (v.absent()) return {nullptr, {}, int(byte_size(dtype))};
  return MapOperand::of(values_view(d, v));
}

template <class Op> Status check_forward(const QuantizeDescriptor& d, const typename Op::Args& a, DType x, DType y) {
  BARACUDA_TRY(expect(Op::name, "x", a.x, x, d.shape));
  BARACUDA_TRY(check_scales(Op::name, d, a.scale, a.zero_point));
  return expect(Op::name, "y", a.y, y, d.shape);
}
template <class Op> Status run_forward(const Launch<Op>& l, const ByDType<QuantizeLoops>& loops) {
  const QuantizeDescriptor& d = l.desc;
  HostScale host(d);
  const MapOperand in[] = {MapOperand::of(values_view(d, l.args.x)), host.scale(d, l.args.scale), host.zero(d, l.args.zero_point)};
  const MapOperand out = MapOperand::of(values_view(d, l.args.y));
  run_loops(map_shape(d), in, out, loops[d.dtype], parameters(d).of, l.threads);
  return {};
}
Status run_quantize(const Launch<Quantize>& l) { return run_forward(l, BARACUDA_ISA_PICK_BF16(quantize_kernels).quantize); }
Status run_dequantize(const Launch<Dequantize>& l) { return run_forward(l, BARACUDA_ISA_PICK_BF16(quantize_kernels).dequantize); }
Status run_fake(const Launch<FakeQuantize>& l) { return run_forward(l, BARACUDA_ISA_PICK_BF16(quantize_kernels).fake); }

// --- backward
template <class Op> Status check_backward(const QuantizeDescriptor& d, const typename Op::Args& a, DType x) {
  BARACUDA_TRY(expect(Op::name, "dy", a.dy, d.dtype, d.shape));
  if (!a.x.absent()) BARACUDA_TRY(expect(Op::name, "x", a.x, x, d.shape));
  BARACUDA_TRY(check_scales(Op::name, d, a.scale, a.zero_point));
  if (!a.dx.absent()) BARACUDA_TRY(expect(Op::name, "dx", a.dx, d.dtype, d.shape));
  BARACUDA_TRY(expect_scales(Op::name, "dscale", a.dscale, scale_dtype(d), d));
  return expect_scales(Op::name, "dzero_point", a.dzero_point, scale_dtype(d), d);
}
double* take_partial(const QuantizeDescriptor& d, Carver& c) {
  TensorView v;
  v.strides = scale_shape(d).contiguous();
  return c.take<double>("partial sums", broadcast_partials(map_shape(d), scales_view(d, v).shape));
}
void carve_backward(const QuantizeDescriptor& d, const void*, Carver& c) { take_partial(d, c); }
void multiply(const TensorView& v, double factor, int threads) {
  if (factor == 1) return;
  const Strided<1> w = walk_of<1>(v.shape, {&v.strides});
  const auto all = [&]<class A>(A* p) {
    for_each_piece(w, threads, [&](const int64_t (&at)[1], int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) p[at[0] + i * w.inner_stride(0)] *= A(factor);
    });
  };
  v.dtype == DType::f64 ? all(v.as<double>()) : all(v.as<float>());
}
template <class Op> Status run_backward(const Launch<Op>& l, const ByDType<QuantizeLoops>& loops, const ByDType<MapRun>& terms, DType x_dtype) {
  const QuantizeDescriptor& d = l.desc;
  const auto& a = l.args;
  Carver c = l.carver();
  double* partial = take_partial(d, c);
  HostScale host(d);
  const Parameters p = parameters(d);
  const MapOperand in[] = {MapOperand::of(values_view(d, a.dy)), values(d, a.x, x_dtype), host.scale(d, a.scale), host.zero(d, a.zero_point)};
  const TensorView* sums[] = {&a.dscale, &a.dzero_point};
  for (int k = 0; k < 2; ++k)  // before dx, which may be dy or x
    if (!sums[k]->absent()) {
      sum_broadcast(map_shape(d), in, k, 0, scales_view(d, *sums[k]), terms[d.dtype], p.of, partial, l.threads);
      multiply(*sums[k], d.grad_factor, l.threads);
    }
  if (a.dx.absent()) return {};
  const MapOperand out = MapOperand::of(values_view(d, a.dx));
  const MapOperand without_x[] = {in[0], in[2], in[3]};
  if constexpr (std::is_same_v<Op, DequantizeBackward>) run_loops(map_shape(d), without_x, out, loops[d.dtype], p.of, l.threads);
  else run_loops(map_shape(d), in, out, loops[d.dtype], p.of, l.threads);
  return {};
}
Status run_quantize_backward(const Launch<QuantizeBackward>& l) {
  const QuantizeKernels& k = BARACUDA_ISA_PICK_BF16(quantize_kernels);
  return run_backward(l, k.quantize_backward, k.quantize_terms, l.desc.dtype);
}
Status run_dequantize_backward(const Launch<DequantizeBackward>& l) {
  const QuantizeKernels& k = BARACUDA_ISA_PICK_BF16(quantize_kernels);
  return run_backward(l, k.dequantize_backward, k.dequantize_terms, l.desc.qdtype);
}
Status run_fake_backward(const Launch<FakeQuantizeBackward>& l) {
  const QuantizeKernels& k = BARACUDA_ISA_PICK_BF16(quantize_kernels);
  return run_backward(l, k.fake_backward, k.fake_terms, l.desc.dtype);
}

}  // namespace

Status Quantize::validate(const Descriptor& d) { return validate_static(name, d); }
Status Quantize::check(const Descriptor& d, const Args& a) { return check_forward<Quantize>(d, a, d.dtype, d.qdtype); }
std::span<const Kernel<Quantize>> Quantize::kernels() {
  static constexpr Kernel<Quantize> list[] = {
      {.name = "quantize.cpu.map", .launch = launch_all<Quantize>(Floating{}, run_quantize), .guarantee = guarantee}};
  return list;
}
Status Dequantize::validate(const Descriptor& d) { return validate_static(name, d); }
Status Dequantize::check(const Descriptor& d, const Args& a) { return check_forward<Dequantize>(d, a, d.qdtype, d.dtype); }
std::span<const Kernel<Dequantize>> Dequantize::kernels() {
  static constexpr Kernel<Dequantize> list[] = {
      {.name = "dequantize.cpu.map", .launch = launch_all<Dequantize>(Floating{}, run_dequantize), .guarantee = guarantee}};
  return list;
}
Status FakeQuantize::validate(const Descriptor& d) { return validate_static(name, d); }
Status FakeQuantize::check(const Descriptor& d, const Args& a) { return check_forward<FakeQuantize>(d, a, d.dtype, d.dtype); }
std::span<const Kernel<FakeQuantize>> FakeQuantize::kernels() {
  static constexpr Kernel<FakeQuantize> list[] = {
      {.name = "fake_quantize.cpu.map", .launch = launch_all<FakeQuantize>(Floating{}, run_fake), .guarantee = guarantee}};
  return list;
}

Status QuantizeBackward::validate(const Descriptor& d) { return validate_static(name, d); }
Status QuantizeBackward::check(const Descriptor& d, const Args& a) { return check_backward<QuantizeBackward>(d, a, d.dtype); }
std::span<const Kernel<QuantizeBackward>> QuantizeBackward::kernels() {
  static constexpr Kernel<QuantizeBackward> list[] = {{.name = "quantize_backward.cpu.map",
                                                       .launch = launch_all<QuantizeBackward>(Floating{}, run_quantize_backward),
                                                       .guarantee = backward_guarantee,
                                                       .carve = carve_backward}};
  return list;
}
Status DequantizeBackward::validate(const Descriptor& d) { return validate_static(name, d); }
Status DequantizeBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(check_backward<DequantizeBackward>(d, a, d.qdtype));
  return a.x.absent() && !a.dscale.absent() ? invalid(name, "dscale is given, but x, which it is made of, is missing") : Status();
}
std::span<const Kernel<DequantizeBackward>> DequantizeBackward::kernels() {
  static constexpr Kernel<DequantizeBackward> list[] = {{.name = "dequantize_backward.cpu.map",
                                                         .launch = launch_all<DequantizeBackward>(Floating{}, run_dequantize_backward),
                                                         .guarantee = backward_guarantee,
                                                         .carve = carve_backward}};
  return list;
}
Status FakeQuantizeBackward::validate(const Descriptor& d) { return validate_static(name, d); }
Status FakeQuantizeBackward::check(const Descriptor& d, const Args& a) { return check_backward<FakeQuantizeBackward>(d, a, d.dtype); }
std::span<const Kernel<FakeQuantizeBackward>> FakeQuantizeBackward::kernels() {
  static constexpr Kernel<FakeQuantizeBackward> list[] = {{.name = "fake_quantize_backward.cpu.map",
                                                           .launch = launch_all<FakeQuantizeBackward>(Floating{}, run_fake_backward),
                                                           .guarantee = backward_guarantee,
                                                           .carve = carve_backward}};
  return list;
}

}  // namespace baracuda
