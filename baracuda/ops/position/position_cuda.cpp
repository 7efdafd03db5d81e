#include "baracuda/ops/position/position_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/ops/position/position_detail.hpp"

namespace baracuda {
namespace {
using device::Operand;
using namespace position_detail;

PrecisionGuarantee guarantee(const RopeDescriptor& d) {
  return {.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = true, .same_on_cpu_and_cuda = true};
}
// So few that four factors of each, all at once, take less time than a launch before: on an H200 up to 16384 sines, as often as heads are shared out.
constexpr int64_t kFewSines = 1 << 14;
bool few_sines(const RopeDescriptor& d) {
  const int64_t half = rotary_dim(d) / 2, parts = (d.shape[1] + kRopeHeads - 1) / kRopeHeads;
  return half <= kRopePairs && d.shape[0] * d.shape[2] * half * parts <= kFewSines;
}
double* carve_digits(const RopeDescriptor& d, Carver& c) { return few_sines(d) ? nullptr : c.take<double>("sines of digits", kRopeDigits * rotary_dim(d)); }
template <class Op>
Status turn(const Launch<Op>& l, std::string_view kernel, const TensorView& x, const TensorView& positions, int64_t offset, const TensorView& y, bool inverse) {
  const RopeDescriptor& d = l.desc;
  if (d.shape.numel() == 0) return {};
  const RopeFrequencies f = frequencies(l.state);
  RopeCuda p{x.data, positions.data, y.data, {}, {}, {}, offset, d.shape[0], d.shape[1], d.shape[2], d.shape[3], f.half, 0, 0,
             positions.dtype == DType::i64, inverse, x.data != y.data, {}, {}, nullptr};
  Carver c = l.carver();
  p.digits = carve_digits(d, c);
  for (int a = 0; a < 3; ++a) p.x_stride[a] = x.strides[a], p.y_stride[a] = y.strides[a];
  if (!positions.absent()) {
    const int s = positions.shape.rank - 1;
    p.position_stride[0] = s ? positions.strides[0] : 0, p.position_stride[1] = positions.strides[s];
  }
  const auto& kernels = d.pairing == RopePairing::interleaved ? position_cuda_kernels.interleaved : position_cuda_kernels.half_split;
  return device::queue(l.stream, kernel, [&] {
    int e = 0;
    do {
      p.count = int(std::min<int64_t>(kRopePairs, p.half - p.first));
      std::copy_n(f.high + p.first, p.count, p.high);
      std::copy_n(f.low + p.first, p.count, p.low);
      if (p.count && p.digits) e = position_cuda_kernels.digits(p, l.stream.handle);
      if (!e) e = kernels[d.dtype](p, l.stream.handle);
      p.first += p.count, p.copy_rest = false;
    } while (!e && p.first < p.half);
    return e;
  });
}
Status run_forward(const Launch<Rope>& l) { return turn(l, "rope.cuda.token", l.args.x, l.args.positions, l.args.offset, l.args.y, false); }
Status run_backward(const Launch<RopeBackward>& l) { return turn(l, "rope_backward.cuda.token", l.args.dy, l.args.positions, l.args.offset, l.args.dx, true); }

Status run_slopes(const Launch<AlibiSlopes>& l) {
  const TensorView& out = l.args.slopes;
  return device::queue(l.stream, "alibi_slopes.cuda.table", [&] {
    int e = 0;
    for (int64_t h = 0; h < l.desc.heads && !e; h += kSlopes) {
      SlopesCuda p{out.as<float>() + h * out.strides[0], out.strides[0], int(std::min<int64_t>(kSlopes, l.desc.heads - h)), {}};
      for (int i = 0; i < p.count; ++i) p.slope[i] = slope(l.desc, h + i);
      e = position_cuda_kernels.slopes(p, l.stream.handle);
    }
    return e;
  });
}

Status run_append(const Launch<KvCacheAppend>& l) {
  const KvCacheAppendDescriptor& d = l.desc;
  const KvCacheAppend::Args& a = l.args;
  AppendCuda p{};
  p.lengths = a.lengths.data, p.lengths_i64 = a.lengths.dtype == DType::i64, p.offset = a.offset, p.room = d.capacity - d.tokens;
  const TensorView *from[] = {&a.k, &a.v}, *to[] = {&a.k_cache, &a.v_cache};
  Operand lengths = Operand::of(a.lengths);
  if (lengths.data) lengths.strides = {a.lengths.strides[0], 0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    p.from[i] = from[i]->data, p.to[i] = to[i]->data, p.place_stride[i] = to[i]->strides[2];
    const int lanes = position_cuda_kernels.append_lanes[d.dtype];
    const Operand operands[] = {Operand::of(*from[i]), Operand::of(*to[i]), lengths};
    const bool whole = from[i]->shape[3] % lanes == 0 && p.place_stride[i] % lanes == 0;
    p.walk[i] = device::walk<3>(from[i]->shape, operands, 1, whole ? lanes : 1);
  }
  return device::queue(l.stream, "kv_cache_append.cuda.map", [&] { return position_cuda_kernels.append[d.dtype](p, l.stream.handle); });
}

}  // namespace

template <> std::span<const Kernel<Rope>> cuda_kernels<Rope>() {
  static constexpr Kernel<Rope> list[] = {{.name = "rope.cuda.token", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Rope>(Floating{}, run_forward),
                                           .guarantee = guarantee, .carve = [](const RopeDescriptor& d, const void*, Carver& c) { carve_digits(d, c); }, .prepare = prepare_rope}};
  return list;
}
template <> std::span<const Kernel<RopeBackward>> cuda_kernels<RopeBackward>() {
  static constexpr Kernel<RopeBackward> list[] = {{.name = "rope_backward.cuda.token", .device = DeviceKind::cuda, .min_arch = 80,
                                                   .launch = launch_all<RopeBackward>(Floating{}, run_backward), .guarantee = guarantee, .carve = [](const RopeDescriptor& d, const void*, Carver& c) { carve_digits(d, c); }, .prepare = prepare_rope}};
  return list;
}
template <> std::span<const Kernel<AlibiSlopes>> cuda_kernels<AlibiSlopes>() {
  static constexpr Kernel<AlibiSlopes> list[] = {
      {.name = "alibi_slopes.cuda.table", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<AlibiSlopes>(TypeList<float>{}, run_slopes),
       .guarantee = [](const AlibiSlopesDescriptor&) { return PrecisionGuarantee{.math_precision = DType::f64, .same_on_cpu_and_cuda = true}; }}};
  return list;
}
template <> std::span<const Kernel<KvCacheAppend>> cuda_kernels<KvCacheAppend>() {
  static constexpr Kernel<KvCacheAppend> list[] = {
      {.name = "kv_cache_append.cuda.map", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<KvCacheAppend>(Floating{}, run_append),
       .guarantee = [](const KvCacheAppendDescriptor& d) {
         return PrecisionGuarantee{.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true, .same_on_cpu_and_cuda = true};
       }}};
  return list;
}

}  // namespace baracuda
