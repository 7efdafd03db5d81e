// Four-bit codes. dequantize reads n / 2 bytes and writes n values by a table of 16 that a block's scale makes; quantize reads its block
// twice, the second time from the caches.
#include "baracuda/ops/quantize/quantize_packed.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/quantize/quantize_packed_math.hpp"

namespace baracuda {
namespace {

using namespace quantize_packed;

struct FormatFacts {
  int64_t block;
  bool fixed;
  DType scale;
};
constexpr FormatFacts kFormats[] = {{64, false, DType::f32}, {32, true, DType::u8}, {16, true, DType::f8_e4m3fn}, {128, false, DType::f32}};
const FormatFacts& facts(const QuantizePackedDescriptor& d) { return kFormats[int(d.format)]; }

// --- scales
float scale_of(const QuantizePackedDescriptor& d, const TensorView& scale, int64_t at) {
  switch (d.format) {
    case PackedFormat::mxfp4: return power_of(scale.as<uint8_t>()[at]);
    case PackedFormat::nvfp4: return to_float(scale.as<f8_e4m3fn>()[at]);
    default: return scale.as<float>()[at];
  }
}
double make_scale(const QuantizePackedDescriptor& d, double most, double global, const TensorView& scale, int64_t at) {
  const auto keep = [&]<class S>(const BlockScale<S>& s) { return scale.as<S>()[at] = s.stored, s.value; };
  return d.format == PackedFormat::mxfp4 ? keep(power_scale(most)) : d.format == PackedFormat::nvfp4 ? keep(e4m3_scale(most, global)) : keep(float_scale(d.format, most));
}

// f(row offsets, first element, its block) for the blocks of all rows.
template <int K, class F> void each_block(const QuantizePackedDescriptor& d, const RowWalk<K>& walk, int threads, F f) {
  const int64_t size = d.block(), blocks = d.shape.last() / size;
  if (blocks == 0) return;
  parallel_for(walk.rows * blocks, std::max<int64_t>(1, kPiece / size), threads, [&](int64_t begin, int64_t end, int) {
    int64_t at[K], row = -1;
    for (int64_t u = begin; u < end; ++u) {
      if (u / blocks != row) walk.offsets(row = u / blocks, at);
      f(at, u % blocks);
    }
  });
}
int64_t step_of(const TensorView& v) { return v.strides[v.shape.rank - 1]; }

Status run_quantize(const Launch<QuantizePacked>& l) {
  const auto& d = l.desc;
  const TensorView &x = l.args.x, &y = l.args.y, &scale = l.args.scale;
  const int64_t size = d.block(), x_step = step_of(x), y_step = step_of(y), scale_step = step_of(scale);
  const double global = l.args.global_scale.absent() ? 1 : double(*l.args.global_scale.as<float>());
  const bool high_first = d.high_first();
  const RowWalk<3> walk(outer_axes(d.shape), {&x, &y, &scale});
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    each_block(d, walk, l.threads, [&](const int64_t (&at)[3], int64_t block) {
      const T* from = x.as<T>() + at[0] + block * size * x_step;
      double most = 0;
      for (int64_t j = 0; j < size; ++j) {
        const double a = std::fabs(to_double(from[j * x_step]));
        most = a > most && a <= std::numeric_limits<double>::max() ? a : most;
      }
      const double s = make_scale(d, most, global, scale, at[2] + block * scale_step);
      const auto code = [&](int64_t j) { return code_of(d.format, to_double(from[j * x_step]), s); };
      uint8_t* to = y.as<uint8_t>() + at[1] + block * size / 2 * y_step;
      for (int64_t j = 0; j < size / 2; ++j) {
        const int a = code(2 * j), b = code(2 * j + 1);
        to[j * y_step] = uint8_t(high_first ? a << 4 | b : b << 4 | a);
      }
    });
    return 0;
  });
  return {};
}
Status run_dequantize(const Launch<DequantizePacked>& l) {
  const auto& d = l.desc;
  const TensorView &x = l.args.x, &y = l.args.y, &scale = l.args.scale, &zero = l.args.zero_point;
  const int64_t size = d.block(), x_step = step_of(x), y_step = step_of(y), scale_step = step_of(scale), zero_step = zero.absent() ? 0 : step_of(zero);
  const float global = l.args.global_scale.absent() ? 1 : *l.args.global_scale.as<float>();
  const int shift = d.high_first() ? 4 : 0;  // of a byte's first code
  const RowWalk<4> walk(outer_axes(d.shape), {&x, &y, &scale, &zero});
  visit_dtype(Floating{}, d.dtype, 0, [&]<class T>() {
    each_block(d, walk, l.threads, [&](const int64_t (&at)[4], int64_t block) {
      const float s = scale_of(d, scale, at[2] + block * scale_step);
      const int32_t z = zero.absent() ? kIntZero : zero.as<int32_t>()[at[3] + block * zero_step];
      T table[16];
      for (int k = 0; k < 16; ++k) table[k] = from_double<T>(code_value(d.format, k, z) * s * global);
      const uint8_t* from = x.as<uint8_t>() + at[0] + block * size / 2 * x_step;
      T* to = y.as<T>() + at[1] + block * size * y_step;
      for (int64_t j = 0; j < size / 2; ++j) {
        const int b = from[j * x_step];
        to[2 * j * y_step] = table[b >> shift & 15], to[(2 * j + 1) * y_step] = table[b >> (4 - shift) & 15];
      }
    });
    return 0;
  });
  return {};
}
Status validate_packed(std::string_view op, const QuantizePackedDescriptor& d) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  BARACUDA_TRY(expect_shape(op, "shape", d.shape, 1));
  if (!valid_enum(d.format)) return invalid(op, text("format ", int(d.format), " is not a format"));
  if (d.block_size < 0 || d.block() % 2 || (facts(d).fixed && d.block() != facts(d).block))
    return invalid(op, text("block_size ", d.block_size, facts(d).fixed ? text(" is not that of ", enum_name(d.format), ", ", facts(d).block) : std::string(" must be even and positive")));
  if (d.shape.last() % d.block()) return invalid(op, text("block_size ", d.block(), " does not divide the last extent of ", d.shape));
  return {};
}
template <class Op> Status check_packed(const QuantizePackedDescriptor& d, std::string_view values_name, const TensorView& values, std::string_view codes_name,
                                        const TensorView& codes, const TensorView& scale, const TensorView& global) {
  BARACUDA_TRY(expect(Op::name, values_name, values, d.dtype, d.shape));
  BARACUDA_TRY(expect(Op::name, codes_name, codes, DType::u8, d.codes_shape()));
  BARACUDA_TRY(expect(Op::name, "scale", scale, d.scale_dtype(), d.scale_shape()));
  if (global.absent()) return {};
  if (d.format != PackedFormat::nvfp4) return invalid(Op::name, text("global_scale is given, format ", enum_name(d.format), " has none"));
  return expect(Op::name, "global_scale", global, DType::f32, {});
}
PrecisionGuarantee quantize_guarantee(const QuantizePackedDescriptor&) { return {.math_precision = DType::f64, .accumulator = DType::f64, .batch_invariant = true}; }
PrecisionGuarantee dequantize_guarantee(const QuantizePackedDescriptor&) { return {.math_precision = DType::f32, .accumulator = DType::f32, .batch_invariant = true}; }

}  // namespace

int64_t QuantizePackedDescriptor::block() const { return block_size ? block_size : facts(*this).block; }
DType QuantizePackedDescriptor::scale_dtype() const { return facts(*this).scale; }
bool QuantizePackedDescriptor::high_first() const { return baracuda::high_first(format); }
Shape QuantizePackedDescriptor::codes_shape() const {
  Shape s = shape;
  s[s.rank - 1] /= 2;
  return s;
}
Shape QuantizePackedDescriptor::scale_shape() const {
  Shape s = shape;
  s[s.rank - 1] /= block();
  return s;
}
Status QuantizePacked::validate(const Descriptor& d) { return validate_packed(name, d); }
Status QuantizePacked::check(const Descriptor& d, const Args& a) {
  return check_packed<QuantizePacked>(d, "x", a.x, "y", a.y, a.scale, a.global_scale);
}
std::span<const Kernel<QuantizePacked>> QuantizePacked::kernels() {
  static constexpr Kernel<QuantizePacked> list[] = {
      {.name = "quantize_packed.cpu.blocks", .launch = launch_all<QuantizePacked>(Floating{}, run_quantize), .guarantee = quantize_guarantee}};
  return list;
}
Status DequantizePacked::validate(const Descriptor& d) { return validate_packed(name, d); }
Status DequantizePacked::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY((check_packed<DequantizePacked>(d, "y", a.y, "x", a.x, a.scale, a.global_scale)));
  if (a.zero_point.absent()) return {};
  if (d.format != PackedFormat::int4) return invalid(name, text("zero_point is given, format ", enum_name(d.format), " has none"));
  return expect(name, "zero_point", a.zero_point, DType::i32, d.scale_shape());
}
std::span<const Kernel<DequantizePacked>> DequantizePacked::kernels() {
  static constexpr Kernel<DequantizePacked> list[] = {
      {.name = "dequantize_packed.cpu.table", .launch = launch_all<DequantizePacked>(Floating{}, run_dequantize), .guarantee = dequantize_guarantee}};
  return list;
}

}  // namespace baracuda
