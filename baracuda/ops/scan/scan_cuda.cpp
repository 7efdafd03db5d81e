#include "baracuda/ops/scan/scan_cuda.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/device/rows.hpp"
#include "baracuda/device/sm90a.hpp"
#include "baracuda/ops/scan/linear_recurrence.hpp"
#include "baracuda/ops/scan/scan_fast.hpp"
#include "baracuda/ops/scan/scan_lanes.hpp"

namespace baracuda {
namespace {
using namespace scan_detail;
using device::Operand;

const ScanLaunch& launch_of(const ScanDescriptor& d, bool gradient) {
  const ScanCudaKernels& k = gradient                                                ? scan_cuda_gradients
                             : d.kind == ScanKind::logcumsumexp                      ? scan_cuda_exps
                             : !is_floating(d.dtype) || d.kind == ScanKind::cummax || d.kind == ScanKind::cummin ? scan_cuda_order
                                                                                     : scan_cuda_sums;
  return k.of[int(d.kind)][d.dtype];
}
constexpr int64_t kLeastFlow = 8192, kLeastTickets = 4 * 132;  // bytes of a line; lines that blocks take as they come
int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

const ScanFast* fast_of(const ScanDescriptor& d, bool gradient) {
  if (!is_floating(d.dtype)) return nullptr;
  const bool fold = d.kind == ScanKind::cumsum || d.kind == ScanKind::cumprod, logs = d.kind == ScanKind::logcumsumexp;
  if (fold) return gradient ? nullptr : &scan_cuda_fast.of[int(d.kind)][d.dtype];
  if (d.dtype == DType::f64 || length(d) > INT32_MAX) return nullptr;
  if (!gradient) return &(logs ? scan_cuda_fast_exps : scan_cuda_fast_extrema)[d.dtype];
  return d.exclusive ? nullptr : &(logs ? scan_cuda_fast_log_grads : scan_cuda_fast_extremum_grads)[d.dtype];
}
struct Scratch { ScanCudaState* totals; double* products; };
// Whether a line goes as a row or as a column is not known before its strides are.
Scratch carve_all(const ScanDescriptor& d, const ScanLaunch& l, const ScanFast* fast, bool products, Carver& c) {
  const int64_t n = length(d), lines = d.shape.numel() ? d.shape.numel() / n : 0;
  const int64_t tiles = parts(n, fast && fast->tile ? std::min(fast->tile, l.row_tile) : l.row_tile), chained = tiles > 1 ? lines * tiles : 0, groups = tiles > 1 ? lines * parts(tiles, kScanGroup) : 0;
  const int64_t segments = n > kScanWhole ? lines * parts(n, kScanSegment) : 0;
  const bool ticket = fast && n * int64_t(byte_size(d.dtype)) >= kLeastFlow && lines > kLeastTickets;
  Scratch s{};
  if (chained || segments || ticket) s.totals = c.take<ScanCudaState>("totals of tiles", 1 + std::max(chained + groups, segments));
  if (products) s.products = c.take<double>("products of tiles", lines * parts(n, l.column_tile));
  return s;
}
bool products(const ScanDescriptor& d, bool gradient) { return gradient && d.kind == ScanKind::cumprod; }
void carve_scan(const ScanDescriptor& d, bool gradient, Carver& c) { (void)carve_all(d, launch_of(d, gradient), fast_of(d, gradient), products(d, gradient), c); }
void carve(const ScanDescriptor& d, const void*, Carver& c) { carve_scan(d, false, c); }

// Columns side by side whose rows are whole pieces of 16 bytes.
bool in_pieces(const ScanCuda& p, int64_t size) {
  const int last = p.lines.rank - 1;
  bool in = p.lines.extent[last] * size % 16 == 0 && p.lines.extent[last] * size >= 256;
  const auto check = [&](int k, const void* data, int64_t size) {
    in = in && p.lines.stride[k][last] == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0 && p.step[k] * size % 16 == 0;
    for (int a = 0; a < last; ++a) in = in && p.lines.stride[k][a] * size % 16 == 0;
  };
  check(0, p.in[0], size), check(3, p.out, size);
  if (p.indices) check(4, p.indices, byte_size(DType::i64));
  return in;
}

// in and out lie `along` the scan's direction. late: some inputs are.
struct Lines {
  std::string_view name;
  const ScanDescriptor& d;
  const ScanLaunch& launch;
  bool products, late, falling;
  const ScanFast* fast;  // or null
  const void* sm90a;     // null where the code that runs is another's
};
Status run_lines(const Stream& stream, const Lines& l, const TensorView (&in)[3], const TensorView& out, const TensorView& indices, Carver c) {
  const ScanDescriptor& d = l.d;
  if (d.shape.numel() == 0) return {};
  const ScanLaunch& launch = l.launch;
  ScanCuda p{};
  const TensorView* const views[5] = {&in[0], &in[1], &in[2], &out, &indices};
  Operand operand[5];
  const Shape outer = outer_axes(out.shape);
  p.n = length(d);
  for (int k = 0; k < 5; ++k) {
    operand[k] = Operand::of(*views[k]);
    operand[k].strides = {};
    p.step[k] = step(*views[k]);
    for (int i = 0; i < outer.rank; ++i) operand[k].strides.push_back(views[k]->absent() ? 0 : views[k]->strides[i]);
  }
  p.lines = device::walk<5>(outer, operand, 3, 1);
  for (int k = 0; k < 3; ++k) p.in[k] = in[k].data;
  p.out = out.data, p.indices = indices.data;
  p.empty = scan_empty(d);
  p.dtype = d.dtype, p.y_dtype = out.dtype;
  p.exclusive = d.exclusive, p.falling = l.falling, p.first = d.ties == ScanTies::first, p.max = d.kind == ScanKind::cummax;
  const int last = p.lines.rank - 1;
  bool dense = true, across = false, same = true, whole[5];
  for (int k = 0; k < 5; ++k) {
    const TensorView& v = *views[k];
    const bool neighbours = p.step[k] == 1 || p.step[k] == -1;
    whole[k] = true;
    if (v.absent()) continue;
    same &= p.step[k] == p.step[3];
    if (k < 4) dense &= p.n == 1 || neighbours, across |= p.lines.stride[k][last] == 1;
    const int64_t size = byte_size(v.dtype);
    whole[k] = neighbours && p.n % launch.chunk == 0 && (reinterpret_cast<uintptr_t>(v.data) - uintptr_t(p.step[k] < 0 ? (launch.chunk - 1) * size : 0)) % 16 == 0;
    for (int a = 0; a < p.lines.rank; ++a) whole[k] &= p.lines.extent[a] == 1 || p.lines.stride[k][a] * size % 16 == 0;
  }
  p.whole = is_floating(d.dtype) && !l.late && whole[0] && whole[1] && whole[2] && whole[3] && (indices.dtype != d.dtype || whole[4]), p.whole_places = whole[4];
  p.columns = !dense && across && p.lines.extent[last] >= 8;
  p.tile = p.columns ? launch.column_tile : launch.row_tile, p.tiles = parts(p.n, p.tile);
  if (!p.columns && p.tiles > 1 && launch.segment) p.tile = parts(parts(p.n, p.tiles), launch.segment) * launch.segment, p.tiles = parts(p.n, p.tile);
  p.neighbours = dense && p.n > 1;
  const bool flow = l.fast && l.sm90a && !p.columns && p.neighbours && same && (p.whole || !l.fast->whole) && p.n * byte_size(d.dtype) >= kLeastFlow;
  const bool short_rows = l.fast && l.fast->short_rows && !p.columns && p.whole && p.whole_places && p.n <= 32 * launch.chunk;
  const bool strips = l.fast && l.fast->strips && p.columns && p.n <= kScanWhole && in_pieces(p, byte_size(d.dtype));
  const Scratch s = carve_all(d, launch, l.fast, l.products, c);
  p.totals = s.totals, p.products = s.products;
  return device::queue(stream, l.name, [&] {
    void* const handle = stream.handle;
    int e = 0;
    if (flow) return l.fast->flow(p, handle);
    if (short_rows) return l.fast->short_rows(p, handle);
    if (strips) return l.fast->strips(p, handle);
    const auto phase = [&](ScanPhase stage) {
      p.stage = stage;
      if (!e) e = launch.scan(p, handle);
    };
    if (p.products && (p.columns || p.tiles > 1)) {
      phase(ScanPhase::products);
      if (!e) e = scan_cuda_spread(p, handle);
    }
    if (!p.columns || p.n <= kScanWhole) return phase(ScanPhase::tiles), e;
    phase(ScanPhase::totals);
    if (!e) e = launch.carries(p, handle);
    return phase(ScanPhase::segments), e;
  });
}
Status run(const Launch<Scan>& l) {
  const ScanDescriptor& d = l.desc;
  const auto& a = l.args;
  return run_lines(l.stream, {"scan.cuda.tile", d, launch_of(d, false), false, false, d.reverse, fast_of(d, false), l.state}, {along(a.x, d, d.reverse), {}, {}}, along(a.y, d, d.reverse), along(a.indices, d, d.reverse), l.carver());
}
// Rows and columns are summed in another order, and which of them a line is depends on the lines around it.
PrecisionGuarantee guarantee(const ScanDescriptor& d) {
  PrecisionGuarantee g = scan_guarantee(d);
  g.batch_invariant = d.kind == ScanKind::cummax || d.kind == ScanKind::cummin || !is_floating(d.dtype);
  return g;
}
PrecisionGuarantee guarantee_backward(const ScanDescriptor& d) {
  if (d.kind == ScanKind::cumsum) return guarantee(d);
  return {.math_precision = d.kind == ScanKind::logcumsumexp ? accumulator(d.dtype) : DType::f64, .accumulator = DType::f64, .batch_invariant = false};
}
// The gradient of a sum is the sum from the other end.
bool sums(const ScanDescriptor& d) { return d.kind == ScanKind::cumsum; }
void carve_backward(const ScanDescriptor& d, const void*, Carver& c) { carve_scan(d, !sums(d), c); }
Status run_backward(const Launch<ScanBackward>& l) {
  const ScanDescriptor& d = l.desc;
  const auto& a = l.args;
  const auto reads = ScanBackward::reads(d.kind);
  const auto against = [&](const TensorView& v) { return along(v, d, !d.reverse); };
  const bool gradient = !sums(d);
  return run_lines(l.stream, {"scan_backward.cuda.tile", d, launch_of(d, gradient), products(d, gradient), gradient && d.exclusive, !d.reverse, fast_of(d, gradient), l.state},
                   {against(a.dy), reads.x ? against(a.x) : reads.indices ? against(a.indices) : TensorView{}, reads.y ? against(a.y) : TensorView{}}, against(a.dx), {}, l.carver());
}

// --- recurrences
ScanDescriptor lanes_of(const LinearRecurrenceDescriptor& d) { return {.dtype = d.dtype, .shape = d.shape, .axis = d.axis, .reverse = d.reverse}; }
PrecisionGuarantee guarantee_recurrence(const LinearRecurrenceDescriptor&) { return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = false}; }
void carve_forward(const LinearRecurrenceDescriptor& d, const void*, Carver& c) { (void)carve_all(lanes_of(d), linear_recurrence_cuda.forward[d.dtype], nullptr, false, c); }
void carve_gradient(const LinearRecurrenceDescriptor& d, const void*, Carver& c) { (void)carve_all(lanes_of(d), linear_recurrence_cuda.gradient[d.dtype], nullptr, false, c); }
Status run_forward(const Launch<LinearRecurrence>& l) {
  const ScanDescriptor d = lanes_of(l.desc);
  const auto view = [&](const TensorView& v) { return along(v, d, d.reverse); };
  return run_lines(l.stream, {"linear_recurrence.cuda.tile", d, linear_recurrence_cuda.forward[d.dtype], false, false, d.reverse, nullptr, nullptr},
                   {view(l.args.x), view(l.args.a), {}}, view(l.args.y), {}, l.carver());
}
Status run_gradient(const Launch<LinearRecurrenceBackward>& l) {
  const auto& a = l.args;
  if (a.dx.absent() && a.da.absent()) return {};
  const ScanDescriptor d = lanes_of(l.desc);
  const auto against = [&](const TensorView& v) { return along(v, d, !d.reverse); };
  const bool weighted = !a.da.absent(), both = weighted && !a.dx.absent();
  return run_lines(l.stream, {"linear_recurrence_backward.cuda.tile", d, (weighted ? linear_recurrence_cuda.weighted : linear_recurrence_cuda.gradient)[d.dtype], false, false, !d.reverse, nullptr, nullptr},
                   {against(a.dy), against(a.a), weighted ? against(a.y) : TensorView{}}, against(a.dx.absent() ? a.da : a.dx), both ? against(a.da) : TensorView{}, l.carver());
}

}  // namespace

template <> std::span<const Kernel<Scan>> cuda_kernels<Scan>() {
  static constexpr Kernel<Scan> list[] = {{.name = "scan.cuda.tile", .device = DeviceKind::cuda, .min_arch = 80, .launch = launch_all<Scan>(Scanned{}, run),
                                           .guarantee = guarantee, .refuse = scan_refuse, .carve = carve, .prepare = device::find_sm90a}};
  return list;
}
template <> std::span<const Kernel<ScanBackward>> cuda_kernels<ScanBackward>() {
  static constexpr Kernel<ScanBackward> list[] = {{.name = "scan_backward.cuda.tile", .device = DeviceKind::cuda, .min_arch = 80,
                                                   .launch = launch_all<ScanBackward>(Floating{}, run_backward), .guarantee = guarantee_backward, .carve = carve_backward, .prepare = device::find_sm90a}};
  return list;
}
template <> std::span<const Kernel<LinearRecurrence>> cuda_kernels<LinearRecurrence>() {
  static constexpr Kernel<LinearRecurrence> list[] = {{.name = "linear_recurrence.cuda.tile", .device = DeviceKind::cuda, .min_arch = 80,
                                                       .launch = launch_all<LinearRecurrence>(Floating{}, run_forward), .guarantee = guarantee_recurrence, .carve = carve_forward}};
  return list;
}
template <> std::span<const Kernel<LinearRecurrenceBackward>> cuda_kernels<LinearRecurrenceBackward>() {
  static constexpr Kernel<LinearRecurrenceBackward> list[] = {{.name = "linear_recurrence_backward.cuda.tile", .device = DeviceKind::cuda, .min_arch = 80,
                                                               .launch = launch_all<LinearRecurrenceBackward>(Floating{}, run_gradient), .guarantee = guarantee_recurrence,
                                                               .carve = carve_gradient}};
  return list;
}

}  // namespace baracuda
