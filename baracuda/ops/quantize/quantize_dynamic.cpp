#include <algorithm>
#include <limits>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/quantize/quantize_cpu.hpp"
#include "baracuda/ops/quantize/quantize_detail.hpp"
#include "baracuda/ops/quantize/quantize_math.hpp"

namespace baracuda {
namespace {

using namespace quantize_detail;

bool has_rows(const QuantizeDynamicDescriptor& d) { return d.by == QuantizeBy::token || d.by == QuantizeBy::group; }
// How many scales a range in progress holds: channels share rows.
int64_t ranges_at_once(const QuantizeDescriptor& d) { return d.by == QuantizeBy::channel ? scale_shape(d)[0] : 1; }

template <class A> struct Dynamic {
  const Launch<QuantizeDynamic>& l;
  const QuantizeKernels& k;
  const QuantizeDescriptor d;
  const QuantizeRange range;
  A *lo, *hi;  // of every worker
  const double least = double(least_code(d)), greatest = double(greatest_code(d)), middle = double(middle_code(d));

  void set(const TensorView& scale, int64_t scale_at, const TensorView& zero, int64_t zero_at, A low, A high) const {
    int32_t z;
    quantize::make_scale(range == QuantizeRange::absmax, least, greatest, middle, low, high, scale.as<A>()[scale_at], z);
    if (!zero.absent()) zero.as<int32_t>()[zero_at] = z;
  }
  void codes(const Shape& shape, const MapOperand& x, const MapOperand& scale, const MapOperand& zero, const MapOperand& y) const {
    const MapOperand in[] = {x, scale, zero};
    run_loops(shape, in, y, k.quantize[d.dtype], parameters(d).of, l.threads);
  }
  // Ranges of everything in `shape`, by all workers: `count` of them, index steps from one to the next. Results are in lo, hi.
  void shared_ranges(const Shape& shape, const MapOperand& x, const Strides& index, int64_t count) const {
    std::fill(lo, lo + count * l.threads, std::numeric_limits<A>::infinity());
    std::fill(hi, hi + count * l.threads, -std::numeric_limits<A>::infinity());
    const MapOperand in[] = {x, {x.data, index, x.bytes}};
    MapWalk walk;
    walk.init(shape, in, {});
    const auto& w = walk.w;
    if (walk.size() == 0) return;
    const int64_t pieces = (w.inner + kPiece - 1) / kPiece, grain = w.inner < kPiece ? kPiece / w.inner : 1;
    parallel_for(w.rows * pieces, grain, l.threads, [&](int64_t begin, int64_t end, int worker) {
      A *low = lo + worker * count, *high = hi + worker * count;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kPiece, n = std::min(w.inner - first, kPiece);
        int64_t at[kMapOperands];
        w.offsets(i / pieces, at);
        const char* from = walk.data[0] + (at[0] + first * w.inner_stride(0)) * x.bytes;
        const int64_t slot = at[1] + first * w.inner_stride(1);
        if (w.inner_stride(1) == 0) k.range[d.dtype](from, w.inner_stride(0), 0, n, 1, low + slot, high + slot);
        else k.ranges[d.dtype](from, w.inner_stride(0), n, low + slot, high + slot, w.inner_stride(1));
      }
    });
    for (int t = 1; t < l.threads; ++t)
      for (int64_t i = 0; i < count; ++i) lo[i] = std::min(lo[i], lo[t * count + i]), hi[i] = std::max(hi[i], hi[t * count + i]);
  }
  void shared() const {
    const auto& a = l.args;
    const Shape shape = map_shape(d);
    const int64_t count = ranges_at_once(d);
    TensorView slots;  // slot i is for channel i
    slots.strides = scale_shape(d).contiguous();
    const MapOperand x = MapOperand::of(a.x);
    shared_ranges(shape, x, scales_view(d, slots).strides, count);
    const auto stride = [](const TensorView& v) { return v.strides.rank ? v.strides[0] : 0; };
    for (int64_t i = 0; i < count; ++i) set(a.scale, i * stride(a.scale), a.zero_point, i * stride(a.zero_point), lo[i], hi[i]);
    HostScale host(d);
    codes(shape, x, host.scale(d, a.scale), host.zero(d, a.zero_point), MapOperand::of(a.y));
  }
  void rows() const {
    const auto& a = l.args;
    const TensorView x = values_view(d, a.x), y = values_view(d, a.y);
    const int64_t n = map_shape(d).last();
    const int last = x.shape.rank - 1, x_bytes = int(byte_size(d.dtype));
    const RowWalk<4> walk(outer_axes(map_shape(d)), {&x, &y, &a.scale, &a.zero_point});
    HostScale host(d);
    // Rows of a run from their offsets on; with one row all workers take part.
    const auto run = [&](const int64_t (&at)[4], int64_t count, bool shared) {
      const MapOperand from{x.as<char>() + at[0] * x_bytes, {walk.pitch(0), x.strides[last]}, x_bytes};
      constexpr int64_t kRows = 256;
      for (int64_t r = 0; r < count; r += kRows) {
        const int64_t m = std::min(kRows, count - r);
        A low[kRows], high[kRows];
        std::fill(low, low + m, std::numeric_limits<A>::infinity()), std::fill(high, high + m, -std::numeric_limits<A>::infinity());
        char* first = static_cast<char*>(from.data) + r * walk.pitch(0) * x_bytes;
        if (shared) {
          shared_ranges({n}, {first, {x.strides[last]}, x_bytes}, {0}, 1);
          low[0] = lo[0], high[0] = hi[0];
        } else k.range[d.dtype](first, x.strides[last], walk.pitch(0), n, m, low, high);
        for (int64_t i = 0; i < m; ++i) set(a.scale, at[2] + (r + i) * walk.pitch(2), a.zero_point, at[3] + (r + i) * walk.pitch(3), low[i], high[i]);
      }
      if (n == 0) return;
      const MapOperand scale{a.scale.as<A>() + at[2], {walk.pitch(2), 0}, sizeof(A)};
      const MapOperand zero = a.zero_point.absent() ? MapOperand{&host.zero_point, {0, 0}, 4} : MapOperand{a.zero_point.as<int32_t>() + at[3], {walk.pitch(3), 0}, 4};
      codes({count, n}, from, scale, zero, {y.as<char>() + at[1], {walk.pitch(1), y.strides[last]}, 1});
    };
    if (n > kShared && walk.rows < 4 * l.threads)
      for (int64_t r = 0; r < walk.rows; ++r) {
        int64_t at[4];
        walk.offsets(r, at);
        run(at, 1, true);
      }
    else
      parallel_for(walk.rows, std::max<int64_t>(1, kShared / std::max<int64_t>(n, 1)), l.threads, [&](int64_t begin, int64_t end, int) {
        walk.runs(begin, end, [&](const int64_t (&at)[4], int64_t, int64_t count) { run(at, count, false); });
      });
  }
  static constexpr int64_t kShared = 32 << 10;  // elements: a block's second reading comes from the second-level cache
};

template <class A> Dynamic<A> take(const Launch<QuantizeDynamic>& l) {
  Carver c = l.carver();
  QuantizeDescriptor d = as_static(l.desc);
  d.zero_point = middle_code(d);
  const int64_t count = ranges_at_once(d) * l.threads;
  A* lo = c.take<A>("least elements", count);
  A* hi = c.take<A>("greatest elements", count);
  return {l, BARACUDA_ISA_PICK_BF16(quantize_kernels), d, l.desc.range, lo, hi};
}
void carve(const QuantizeDynamicDescriptor& dynamic, const void*, Carver& c) {
  const QuantizeDescriptor d = as_static(dynamic);
  const int64_t count = ranges_at_once(d) * c.threads();
  c.take_bytes("least elements", count, byte_size(scale_dtype(d)));
  c.take_bytes("greatest elements", count, byte_size(scale_dtype(d)));
}
template <class A> void work(const Launch<QuantizeDynamic>& l) {
  const Dynamic<A> dynamic = take<A>(l);
  has_rows(l.desc) ? dynamic.rows() : dynamic.shared();
}
Status run_dynamic(const Launch<QuantizeDynamic>& l) {
  l.desc.dtype == DType::f64 ? work<double>(l) : work<float>(l);
  return {};
}

}  // namespace

Status QuantizeDynamic::validate(const Descriptor& d) {
  const QuantizeDescriptor s = as_static(d);
  BARACUDA_TRY(validate_layout(name, s));
  if (!valid_enum(d.range)) return invalid(name, text("range ", int(d.range), " is not a kind of range"));
  if (d.range == QuantizeRange::absmax && greatest_code(s) <= middle_code(s))
    return invalid(name, text("absmax needs a code above the middle one, [", least_code(s), ", ", greatest_code(s), "] has none"));
  return {};
}
Status QuantizeDynamic::check(const Descriptor& d, const Args& a) {
  const QuantizeDescriptor s = as_static(d);
  BARACUDA_TRY(expect(name, "x", a.x, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "y", a.y, d.qdtype, d.shape));
  BARACUDA_TRY(expect_scales(name, "scale", a.scale, scale_dtype(s), s));
  if (d.range == QuantizeRange::minmax && a.zero_point.absent()) return invalid(name, "zero_point is missing; range = minmax makes one");
  return expect_scales(name, "zero_point", a.zero_point, DType::i32, s);
}
std::span<const Kernel<QuantizeDynamic>> QuantizeDynamic::kernels() {
  static constexpr Kernel<QuantizeDynamic> list[] = {
      {.name = "quantize_dynamic.cpu.range",
       .launch = launch_all<QuantizeDynamic>(Floating{}, run_dynamic),
       .guarantee = [](const QuantizeDynamicDescriptor& d) {
         return PrecisionGuarantee{.math_precision = accumulator(d.dtype), .accumulator = accumulator(d.dtype), .batch_invariant = has_rows(d)};
       },
       .carve = carve}};
  return list;
}

}  // namespace baracuda
