#include "baracuda/ops/quantize/quantize_packed.hpp"
#include <cmath>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

using Values = std::vector<double>;
constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr PackedFormat kFormats[] = {PackedFormat::nf4, PackedFormat::mxfp4, PackedFormat::nvfp4, PackedFormat::int4};

// The values of the codes and of the scales, as the formats' papers list them.
Values values_of(PackedFormat f) {
  if (f == PackedFormat::int4) return {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  if (f == PackedFormat::nf4)
    return {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0,
            0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1};
  return {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
}
double e4m3(int b) {
  if ((b & 127) == 127) return NAN;
  const double m = (b >> 3 & 15) ? std::pow(2, (b >> 3 & 15) - 7) * (1 + (b & 7) / 8.0) : std::pow(2, -6) * ((b & 7) / 8.0);
  return b & 128 ? -m : m;
}
double scale_value(PackedFormat f, const Tensor& scale, int64_t i) {
  if (f == PackedFormat::mxfp4) return scale.at(i) == 255 ? NAN : std::pow(2, scale.at(i) - 127);
  return f == PackedFormat::nvfp4 ? e4m3(int(scale.at(i))) : scale.at(i);
}
// The nearest of a list; of two as near the one whose place in magnitude is even, or for nf4 the lower one.
int nearest(PackedFormat f, double v) {
  const Values all = values_of(f);
  if (std::isnan(v)) return f == PackedFormat::nf4 ? 7 : f == PackedFormat::int4 ? 8 : 0;
  int best = -1;
  for (int k = 0; k < 16; ++k) {
    if (f != PackedFormat::nf4 && f != PackedFormat::int4 && std::signbit(all[size_t(k)]) != std::signbit(v)) continue;
    const double d = std::fabs(all[size_t(k)] - std::clamp(v, -8.0, 7.0)), b = best < 0 ? INFINITY : std::fabs(all[size_t(best)] - std::clamp(v, -8.0, 7.0));
    if (d < b || (d == b && f != PackedFormat::nf4 && k % 2 == 0)) best = k;
  }
  return best;
}
int code_at(const QuantizePackedDescriptor& d, const Tensor& codes, int64_t i) {
  const int byte = int(codes.at(i / 2));
  return (d.format == PackedFormat::nf4) == (i % 2 == 0) ? byte >> 4 : byte & 15;
}
// The scale of a block whose largest magnitude is `most`, as its tensor holds it.
double scale_for(PackedFormat f, double most, double global) {
  if (f == PackedFormat::mxfp4) return most == 0 ? std::pow(2, -127) : std::pow(2, std::floor(std::log2(most)) - 2);
  if (f != PackedFormat::nvfp4) return f == PackedFormat::nf4 ? float(most) : float(most / 7);
  int best = 0;  // the nearest of the codes that are not negative, the even one of two
  for (int k = 0; k < 127; ++k) {
    const double now = std::fabs(e4m3(k) - most / 6 / global), before = std::fabs(e4m3(best) - most / 6 / global);
    if (now < before || (now == before && k % 2 == 0)) best = k;
  }
  return e4m3(best);
}
TensorView as_scale(const QuantizePackedDescriptor& d, const Tensor& bytes) {
  TensorView v = bytes;
  v.dtype = d.scale_dtype();
  return v;
}
Tensor scale_tensor(const QuantizePackedDescriptor& d, Layout layout = Layout::dense) {
  return Tensor(d.scale_dtype() == DType::f32 ? DType::f32 : DType::u8, d.scale_shape(), layout);
}

TEST(QuantizePacked, CodesAndScales) {
  for (PackedFormat f : kFormats)
    for (DType t : kFloats)
      for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::every_other})
        for (double size : {1.0, 1e-3, 300.0}) {
          const QuantizePackedDescriptor d{t, {3, 5, 256}, f};
          Tensor x = Tensor::normal(t, d.shape, 3, 0, size, layout);
          for (int64_t i = 0; i < d.block(); ++i) x.set(i, i % 2 ? 0.0 : -0.0);
          x.set(300, NAN), x.set(301, INFINITY), x.set(302, -INFINITY);
          const Tensor global(DType::f32, {}, {0.37});
          const bool two = f == PackedFormat::nvfp4 && size != 1;
          Tensor y(DType::u8, d.codes_shape(), layout), scale = scale_tensor(d, layout);
          ASSERT_OK(run_plan<QuantizePacked>(d, {x, y, as_scale(d, scale), two ? global.view() : TensorView()}));
          EXPECT_TRUE(y.guards_intact() && scale.guards_intact());
          const double g = two ? global.at(0) : 1;
          for (int64_t b = 0; b < scale.numel(); ++b) {
            double most = 0;
            for (int64_t j = 0; j < d.block(); ++j)
              if (std::isfinite(x.at(b * d.block() + j))) most = std::max(most, std::fabs(x.at(b * d.block() + j)));
            const double s = scale_value(f, scale, b);
            ASSERT_EQ(s, scale_for(f, most, g)) << describe(d) << " block " << b;
            for (int64_t j = 0; j < d.block(); ++j) {
              const double v = x.at(b * d.block() + j), q = s * g > 0 ? v / (s * g) : std::isnan(v) ? v : std::copysign(0.0, v);
              ASSERT_EQ(code_at(d, y, b * d.block() + j), nearest(f, q)) << describe(d) << " " << v << " over " << s;
            }
          }
        }
}
TEST(QuantizePacked, ValuesOfCodes) {
  for (PackedFormat f : kFormats)
    for (DType t : kFloats)
      for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::every_other}) {
        const QuantizePackedDescriptor d{t, {4, 3, 256}, f};
        const Tensor codes = Tensor::integers(DType::u8, d.codes_shape(), 2, 0, 256), global(DType::f32, {}, {0.37});
        Tensor scale = scale_tensor(d), y(t, d.shape, layout);
        for (int64_t i = 0; i < scale.numel(); ++i) scale.set(i, f == PackedFormat::mxfp4 ? 100 + i % 40 : f == PackedFormat::nvfp4 ? i % 256 : 0.01 * double(i + 1));
        if (f == PackedFormat::mxfp4) scale.set(5, 255), scale.set(6, 0);
        const Tensor zero = f == PackedFormat::int4 ? Tensor::integers(DType::i32, d.scale_shape(), 4, 0, 16) : Tensor();
        ASSERT_OK(run_plan<DequantizePacked>(d, {codes, as_scale(d, scale), y, f == PackedFormat::nvfp4 ? global.view() : TensorView(), zero}));
        EXPECT_TRUE(y.guards_intact());
        for (int64_t i = 0; i < y.numel(); ++i) {
          const int64_t b = i / d.block();
          const int code = code_at(d, codes, i);
          const double v = f == PackedFormat::int4 ? code - zero.at(b) : values_of(f)[size_t(code)];
          const double want = rounded(t, double(float(double(float(v)) * scale_value(f, scale, b) * (f == PackedFormat::nvfp4 ? global.at(0) : 1))));
          const double got = y.at(i);
          ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << describe(d) << " " << i << ": " << got << " for " << want;
        }
      }
}
TEST(QuantizePacked, TiesAndBlocks) {
  // Every tie between neighbours of e2m1 under scale 1: 6 makes floor(log2 6) - 2 = 0.
  Values v = {6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, -0.0};
  v.resize(32, 0.0);
  const Tensor x(DType::f32, {32}, v);
  Tensor codes(DType::u8, {16}), scale(DType::u8, {1});
  ASSERT_OK(run_plan<QuantizePacked>({DType::f32, {32}, PackedFormat::mxfp4}, {x, codes, scale}));
  EXPECT_EQ(scale.at(0), 127);
  const int want[] = {7, 0, 2, 2, 4, 4, 6, 6, 8, 10, 10, 12, 12, 14, 14, 8};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(int(codes.at(i / 2)) >> (i % 2 * 4) & 15, want[i]) << v[size_t(i)];
  for (int64_t size : {2, 6, 96}) {  // blocks of other sizes, down to a pair
    const QuantizePackedDescriptor d{DType::f32, {2, 96}, PackedFormat::int4, size};
    const Tensor a = Tensor::normal(DType::f32, d.shape, 1);
    Tensor q(DType::u8, d.codes_shape()), s(DType::f32, d.scale_shape()), back(DType::f32, d.shape);
    ASSERT_OK(run_plan<QuantizePacked>(d, {a, q, s}));
    ASSERT_OK(run_plan<DequantizePacked>(d, {q, s, back}));
    for (int64_t i = 0; i < a.numel(); ++i) EXPECT_LE(std::fabs(back.at(i) - a.at(i)), s.at(i / size) * 0.50001);
  }
  Tensor empty(DType::f32, {0, 64}), none(DType::u8, {0, 32}), scales(DType::f32, {0, 1}), nothing(DType::f32, {3, 0}), no_codes(DType::u8, {3, 0}), no_scales(DType::f32, {3, 0});
  EXPECT_OK(run_plan<QuantizePacked>({DType::f32, {0, 64}}, {empty, none, scales}));
  EXPECT_OK(run_plan<DequantizePacked>({DType::f32, {3, 0}}, {no_codes, no_scales, nothing}));
}
// A plan's scales and codes of x.
void expect_nearest(const QuantizePackedDescriptor& d, const Tensor& x, double global, Tensor& scale) {
  const Tensor g(DType::f32, {}, {global});
  Tensor y(DType::u8, d.codes_shape());
  ASSERT_OK(run_plan<QuantizePacked>(d, {x, y, as_scale(d, scale), global != 1 ? g.view() : TensorView()}));
  for (int64_t b = 0; b < scale.numel(); ++b) {
    double most = 0;
    for (int64_t j = b * d.block(); j < (b + 1) * d.block(); ++j)
      if (std::isfinite(x.at(j))) most = std::max(most, std::fabs(x.at(j)));
    ASSERT_EQ(scale_value(d.format, scale, b), scale_for(d.format, most, g.at(0))) << describe(d) << " of " << most;
  }
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double s = scale_value(d.format, scale, i / d.block()) * g.at(0), v = x.at(i), q = s > 0 ? v / s : std::isnan(v) ? v : std::copysign(0.0, v);
    ASSERT_EQ(code_at(d, y, i), nearest(d.format, q)) << describe(d) << " " << v << " over " << s << ", " << i;
  }
}
// Halves have few significands: each as the largest of a block (of f16 some), with all numbers below it.
TEST(QuantizePacked, EveryQuotientOfHalves) {
  for (DType t : {DType::bf16, DType::f16})
    for (PackedFormat f : kFormats)
      for (double global : {1.0, 1.125, 0.37}) {
        if (global != 1 && f != PackedFormat::nvfp4) continue;
        QuantizePackedDescriptor d{t, {1}, f};
        const int ones = t == DType::bf16 ? 128 : 1024, step = t == DType::bf16 ? 1 : 31;
        const size_t size = size_t(d.block());
        Values v;
        for (int most = ones; most < 2 * ones; most += step) {
          for (int binade = 0; binade < 7; ++binade)
            for (int k = ones; k < 2 * ones; ++k)
              for (int sign : {1, -1}) {
                if (v.size() % size == 0) v.push_back(most);
                if (binade > 0 || k <= most) v.push_back(sign * std::ldexp(k, -binade));
              }
          while (v.size() % size) v.push_back(0);
        }
        d.shape = {int64_t(v.size())};
        Tensor scale = scale_tensor(d);
        expect_nearest(d, Tensor(t, d.shape, v), global, scale);
      }
}
// Numbers of e2m1 at the cuts and beside them, zeros of both signs, blocks that are not finite, and scales of 0 and beyond what e4m3 holds.
TEST(QuantizePacked, CutsOfE2m1) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (PackedFormat f : {PackedFormat::mxfp4, PackedFormat::nvfp4})
      for (double global : {1.0, 0.75, 0.37, 1e-4})
        for (int64_t blocks : {1, 3, 37, 515}) {
          if (global != 1 && f == PackedFormat::mxfp4) continue;
          QuantizePackedDescriptor d{t, {3, 1}, f};
          const int64_t size = d.block();
          d.shape.dim[1] = blocks * size;
          Tensor x = Tensor::uniform(t, d.shape, 5, 0.01, 3), scale = scale_tensor(d);
          expect_nearest(d, x, global, scale);
          const double cuts[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}, ulp = t == DType::f32 ? 0x1p-24 : t == DType::f16 ? 0x1p-11 : 0x1p-8;
          for (int64_t b = 0; b < scale.numel(); ++b) {
            const double s = scale_value(f, scale, b) * double(float(global));
            double most = 0;
            for (int64_t j = 0; j < size; ++j) most = std::max(most, x.at(b * size + j));
            x.set(b * size, most);
            for (int64_t j = 1; j < size; ++j) x.set(b * size + j, (j % 2 ? -1 : 1) * cuts[(b + j) % 7] * s * (1 + double((b + j) % 5 - 2) * ulp));
            if (b % 9 == 5) x.set(b * size + 3, -0.0), x.set(b * size + 4, 0.0);
            if (b % 11 == 7) x.set(b * size + 5, NAN), x.set(b * size + 6, -INFINITY);
            if (b % 13 == 9)
              for (int64_t j = 0; j < size; ++j) x.set(b * size + j, j % 3 ? 0.0 : -0.0);
            if (b % 13 == 10)
              for (int64_t j = 0; j < size; ++j) x.set(b * size + j, x.at(b * size + j) * (t == DType::f16 ? 0x1p-12 : 0x1p-30));
            if (b % 13 == 11)
              for (int64_t j = 0; j < size; ++j) x.set(b * size + j, x.at(b * size + j) * (t == DType::f16 ? 0x1p13 : 0x1p100));
          }
          expect_nearest(d, x, global, scale);
        }
}
// Blocks of any power of two, of numbers of any size, zeros alone, and near the cuts.
TEST(QuantizePacked, BlocksOfEverySize) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (PackedFormat f : {PackedFormat::nf4, PackedFormat::int4})
      for (int64_t size : {8, 16, 32, 64, 256, 1024, 2048}) {
        const QuantizePackedDescriptor d{t, {3, 3 * size}, f, size};
        for (double scale : {1.0, 1e-7, 1e-40}) {
          Tensor x = Tensor::normal(t, d.shape, 1, 0, scale);
          for (int64_t i = 0; i < size; ++i) x.set(size + i, i % 3 ? -0.0 : 0.0), x.set(2 * size + i, std::fabs(x.at(2 * size)) * double(i % 29 - 14) / 14);
          Tensor y(DType::u8, d.codes_shape()), s(DType::f32, d.scale_shape());
          ASSERT_OK(run_plan<QuantizePacked>(d, {x, y, s}));
          for (int64_t i = 0; i < x.numel(); ++i) {
            const double by = s.at(i / size), q = by > 0 ? x.at(i) / by : std::copysign(0.0, x.at(i));
            ASSERT_EQ(code_at(d, y, i), nearest(f, q)) << describe(d) << " " << x.at(i) << " over " << by;
          }
        }
      }
}
TEST(QuantizePacked, ContractAndRefusals) {
  for (PackedFormat f : {PackedFormat::nf4, PackedFormat::mxfp4}) {
    const QuantizePackedDescriptor d{DType::bf16, {300, 256}, f};
    const Tensor x = Tensor::normal(d.dtype, d.shape, 1), codes = Tensor::integers(DType::u8, d.codes_shape(), 2, 0, 256);
    Tensor y(DType::u8, d.codes_shape()), scale = scale_tensor(d), back(d.dtype, d.shape);
    check_contract<QuantizePacked>(d, {x, y, scale});
    check_repeat_bits<QuantizePacked>(d, {x, y, scale}, {}, 1);
    const Tensor made = f == PackedFormat::nf4 ? Tensor::uniform(DType::f32, d.scale_shape(), 3, 0.1, 1) : Tensor::integers(DType::u8, d.scale_shape(), 3, 100, 130);
    check_contract<DequantizePacked>(d, {codes, made, back});
    check_repeat_bits<DequantizePacked>(d, {codes, made, back}, {}, 1);
  }
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(QuantizePackedPlan::select(s, {DType::f32, {70}}).status(), bad, {"quantize_packed", "block_size 64", "[70]"});
  expect_refused(QuantizePackedPlan::select(s, {DType::f32, {64}, PackedFormat::mxfp4, 64}).status(), bad, {"block_size 64", "mxfp4", "32"});
  expect_refused(QuantizePackedPlan::select(s, {DType::f32, {64}, PackedFormat::nf4, 3}).status(), bad, {"block_size 3", "even"});
  expect_refused(QuantizePackedPlan::select(s, {DType::f32, {64}, PackedFormat::nf4, -2}).status(), bad, {"block_size -2"});
  expect_refused(DequantizePackedPlan::select(s, {DType::f32, {}}).status(), bad, {"rank 0"});
  expect_refused(DequantizePackedPlan::select(s, {DType::i32, {64}}).status(), Code::unsupported, {"no i32"});
  const Tensor codes(DType::u8, {32}, Values(32, 0)), scale(DType::f32, {1}, {1}), one(DType::f32, {}, {1}), zero(DType::i32, {1}, {0});
  Tensor y(DType::f32, {64});
  expect_refused(run_plan<DequantizePacked>({DType::f32, {64}}, {codes, scale, y, one}), bad, {"global_scale", "nf4"});
  expect_refused(run_plan<DequantizePacked>({DType::f32, {64}}, {codes, scale, y, {}, zero}), bad, {"zero_point", "nf4"});
}

}  // namespace
}  // namespace baracuda
