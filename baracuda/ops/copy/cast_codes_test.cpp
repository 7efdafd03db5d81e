#include "baracuda/ops/copy/cast_codes.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kValues[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8};
constexpr E8m0Rounding kRoundings[] = {E8m0Rounding::nearest, E8m0Rounding::up, E8m0Rounding::down};
constexpr CodeFormat kFormats[] = {CodeFormat::e2m1, CodeFormat::int4, CodeFormat::uint4};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// Every code of a dtype of at most 16 bits; of wider ones numbers of every exponent, and the given values with their neighbours.
Tensor inputs(DType t, const std::vector<double>& near) {
  std::vector<uint8_t> bytes;
  const size_t size = byte_size(t);
  auto add_bits = [&](uint64_t b) { for (size_t k = 0; k < size; ++k) bytes.push_back(uint8_t(b >> (8 * k))); };
  if (size <= 2) for (unsigned i = 0; i < 1u << (8 * size); ++i) add_bits(i);
  else {
    const int places = size == 4 ? 23 : 52;
    for (uint64_t high = 0; high < uint64_t(1) << (size == 4 ? 9 : 12); ++high)
      for (uint64_t low : {uint64_t(0), uint64_t(1), uint64_t(0x12345), (uint64_t(1) << (places - 1)) - 1, uint64_t(1) << (places - 1), (uint64_t(1) << (places - 1)) + 1, (uint64_t(1) << places) - 1})
        add_bits(high << places | low);
    for (double v : near)
      for (double s : {v, -v}) {
        uint64_t b = 0;
        write_element(t, &b, s);
        add_bits(b), add_bits(b + 1), add_bits(b ? b - 1 : b);
      }
  }
  if (bytes.size() / size % 2) add_bits(0);
  Tensor x(t, {int64_t(bytes.size() / size)});
  std::memcpy(x.view().data, bytes.data(), bytes.size());
  return x;
}
// By the list of the 255 values.
int power_code(double v, E8m0Rounding r, bool saturate) {
  if (std::isnan(v) || v < 0) return 255;
  int above = 0;  // of the values, behind which all are 255
  while (above < 255 && std::ldexp(1.0, above - 127) < v) ++above;
  int code = above;
  if (above > 0 && above < 255 && std::ldexp(1.0, above - 127) != v) {
    const double low = std::ldexp(1.0, above - 1 - 127), high = std::ldexp(1.0, above - 127);
    code = r == E8m0Rounding::up ? above : r == E8m0Rounding::down || v - low < high - v ? above - 1 : above;
  } else if (above == 255 && !std::isinf(v)) code = r == E8m0Rounding::down || (r == E8m0Rounding::nearest && v < std::ldexp(1.5, 127)) ? 254 : 255;
  return code == 255 && saturate ? 254 : code;
}
TEST(CastCodes, PowersOfTwo) {
  std::vector<double> near = {0, 1e-60, 1e60};
  for (int k = -152; k < 130; ++k) near.push_back(std::ldexp(1.0, k)), near.push_back(std::ldexp(1.5, k));
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (DType t : kFloats) {
      const Tensor x = inputs(t, near);
      for (E8m0Rounding r : kRoundings)
        for (bool saturate : {false, true}) {
          Tensor y(DType::u8, x.shape());
          ASSERT_OK(run_plan<CastE8m0>({t, x.shape(), r, saturate}, {x, y}));
          for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(y.at(i), power_code(x.at(i), r, saturate)) << name(t) << " " << x.at(i) << " " << int(r) << saturate;
        }
    }
  }
  limit_isa(Isa::avx512bf16);
}
TEST(CastCodes, ValuesOfPowers) {
  Tensor x(DType::u8, {256});
  for (int k = 0; k < 256; ++k) x.set(k, k);
  for (DType t : kFloats) {
    Tensor y(t, {256});
    ASSERT_OK(run_plan<CastFromE8m0>({t, {256}}, {x, y}));
    for (int k = 0; k < 255; ++k) ASSERT_EQ(y.at(k), rounded(t, std::ldexp(1.0, k - 127))) << name(t) << " " << k;
    EXPECT_TRUE(std::isnan(y.at(255)));
    if (t == DType::f16) continue;
    for (E8m0Rounding r : kRoundings) {  // the way back is exact
      Tensor back(DType::u8, {256});
      ASSERT_OK(run_plan<CastE8m0>({t, {256}, r}, {y, back}));
      EXPECT_TRUE(back.same_bits(x)) << name(t) << int(r);
    }
  }
}
TEST(CastCodes, PowersKnownFromOthers) {
  // ml_dtypes float8_e8m0fnu and torch.float8_e8m0fnu, which agree on these
  const std::vector<double> v = {1, 1.5, 3, 2.9, 6, 1.4, 0x1p127, 0x1.7fp127, 0x1.8p127, 0x1p-127, 0x1p-128, INFINITY, NAN};
  const std::vector<double> want = {127, 128, 129, 128, 130, 127, 254, 254, 255, 0, 0, 255, 255};
  const Shape shape{int64_t(v.size())};
  Tensor y(DType::u8, shape);
  ASSERT_OK(run_plan<CastE8m0>({DType::f32, shape}, {Tensor(DType::f32, shape, v), y}));
  EXPECT_EQ(y.values(), want);
}
TEST(CastCodes, PowersOfEveryLayout) {
  for (DType t : kFloats)
    for (Layout in : kLayouts)
      for (Layout out : kLayouts)
        for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{33}, Shape{3, 5, 17}, Shape{2, 1, 130}}) {
          const Tensor x = Tensor::uniform(t, shape, 3, 0, 40, in);
          Tensor y(DType::u8, shape, out), back(t, shape, in);
          ASSERT_OK(run_plan<CastE8m0>({t, shape, E8m0Rounding::up}, {x, y}));
          ASSERT_OK(run_plan<CastFromE8m0>({t, shape}, {y, back}));
          for (int64_t i = 0; i < x.numel(); ++i) {
            ASSERT_EQ(y.at(i), power_code(x.at(i), E8m0Rounding::up, false));
            ASSERT_EQ(back.at(i), rounded(t, std::ldexp(1.0, int(y.at(i)) - 127)));
          }
          ASSERT_TRUE(y.guards_intact() && back.guards_intact());
        }
}

const std::vector<double>& values_of(CodeFormat f) {
  static const std::vector<double> e2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6}, int4 = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1},
                                   uint4 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return f == CodeFormat::e2m1 ? e2m1 : f == CodeFormat::int4 ? int4 : uint4;
}
// e2m1: the nearest of the list with x's sign, of two the even code. Integers: the part before the point, held to the range.
int packed_code(CodeFormat f, double v) {
  if (std::isnan(v)) return 0;
  if (f != CodeFormat::e2m1) return int(std::clamp(std::trunc(v), f == CodeFormat::int4 ? -8.0 : 0.0, f == CodeFormat::int4 ? 7.0 : 15.0)) & 15;
  const double a = std::min(std::fabs(v), 6.0);
  int best = 0;
  for (int k = 1; k < 8; ++k) {
    const double now = std::fabs(values_of(f)[size_t(k)] - a), before = std::fabs(values_of(f)[size_t(best)] - a);
    if (now < before || (now == before && k % 2 == 0)) best = k;
  }
  return best | (std::signbit(v) ? 8 : 0);
}
int code_at(const Tensor& codes, int64_t i) { return int(codes.at(i / 2)) >> (i % 2 * 4) & 15; }
TEST(CastCodes, FourBits) {
  std::vector<double> near = {0, 1e-60, 1e60, 2147483648.0, 4294967296.0};
  for (int k = 0; k < 72; ++k) near.push_back(k / 4.0);
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (DType t : kValues) {
      const Tensor x = inputs(t, near);
      for (CodeFormat f : kFormats) {
        const CastPackedDescriptor d{t, x.shape(), f};
        Tensor y(DType::u8, d.codes_shape());
        ASSERT_OK(run_plan<CastPacked>(d, {x, y}));
        for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(code_at(y, i), packed_code(f, x.at(i))) << describe(d) << " " << x.at(i);
      }
    }
  }
  limit_isa(Isa::avx512bf16);
}
TEST(CastCodes, EveryByteOfFourBits) {
  Tensor x(DType::u8, {256});
  for (int k = 0; k < 256; ++k) x.set(k, k);
  for (DType t : kValues)
    for (CodeFormat f : kFormats) {
      const CastPackedDescriptor d{t, {512}, f};
      Tensor y(t, d.shape), back(DType::u8, {256});
      ASSERT_OK(run_plan<CastFromPacked>(d, {x, y}));
      for (int64_t i = 0; i < y.numel(); ++i) {
        double want = values_of(f)[size_t(code_at(x, i))];
        if (!is_floating(t)) want = t == DType::u8 ? std::max(std::trunc(want), 0.0) : std::trunc(want);
        ASSERT_TRUE(y.at(i) == want && (!is_floating(t) || std::signbit(y.at(i)) == std::signbit(want))) << describe(d) << " " << i << ": " << y.at(i) << " for " << want;
      }
      if (!is_floating(t)) continue;
      ASSERT_OK(run_plan<CastPacked>(d, {y, back}));
      EXPECT_TRUE(back.same_bits(x)) << describe(d);
    }
}
TEST(CastCodes, FourBitsOfEveryLayout) {
  for (DType t : kValues)
    for (Layout in : kLayouts)
      for (Layout out : kLayouts)
        for (const Shape& shape : {Shape{2}, Shape{0, 4}, Shape{3, 0}, Shape{66}, Shape{1030}, Shape{3, 5, 34}, Shape{4, 1, 128}, Shape{40, 2}}) {
          const CodeFormat f = kFormats[(int(t) + int(in) + int(out)) % 3];
          const CastPackedDescriptor d{t, shape, f};
          const Tensor x = Tensor::uniform(t, shape, 3, is_floating(t) ? -9 : 0, 18, in);
          Tensor y(DType::u8, d.codes_shape(), out), back(t, shape, in);
          ASSERT_OK(run_plan<CastPacked>(d, {x, y}));
          ASSERT_OK(run_plan<CastFromPacked>(d, {y, back}));
          for (int64_t i = 0; i < x.numel(); ++i) {
            ASSERT_EQ(code_at(y, i), packed_code(f, x.at(i))) << describe(d) << " " << int(in) << int(out) << " " << i;
            const double v = values_of(f)[size_t(code_at(y, i))];
            ASSERT_EQ(back.at(i), is_floating(t) ? v : t == DType::u8 ? std::max(std::trunc(v), 0.0) : std::trunc(v));
          }
          ASSERT_TRUE(y.guards_intact() && back.guards_intact());
        }
}
TEST(CastCodes, FourBitsSpreadAndUnaligned) {
  const std::vector<double> v = {1, 2, 3, 4, 5, 6, -1, -2, 7, 0.5, 0, 1};
  const Tensor some(DType::f32, {12}, v);
  TensorView x = some.view();
  Tensor y(DType::u8, {40, 1});
  x.shape = {40, 2}, x.strides = {0, 1};  // the same pair forty times
  ASSERT_OK(run_plan<CastPacked>({DType::f32, x.shape, CodeFormat::int4}, {x, y}));
  for (int i = 0; i < 40; ++i) ASSERT_EQ(y.at(i), 0x21);
  x.strides = {1, 0};
  x.shape = {10, 2};
  Tensor few(DType::u8, {10, 1}), values(DType::f32, {10, 64});
  ASSERT_OK(run_plan<CastPacked>({DType::f32, x.shape, CodeFormat::int4}, {x, few}));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(few.at(i), packed_code(CodeFormat::int4, v[size_t(i)]) * 0x11);
  TensorView codes = few.view();
  codes.shape = {10, 32}, codes.strides = {1, 0};  // a byte for 64 values
  ASSERT_OK(run_plan<CastFromPacked>({DType::f32, {10, 64}, CodeFormat::int4}, {codes, values}));
  for (int i = 0; i < 640; ++i) ASSERT_EQ(values.at(i), values_of(CodeFormat::int4)[size_t(code_at(few, i / 64 * 2))]);
  x.data = static_cast<float*>(x.data) + 1, x.shape = {10}, x.strides = {1};  // pairs across the alignment of two
  Tensor five(DType::u8, {5});
  ASSERT_OK(run_plan<CastPacked>({DType::f32, {10}}, {x, five}));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(code_at(five, i), packed_code(CodeFormat::e2m1, v[size_t(i + 1)]));
}
TEST(CastCodes, ContractAndRefusals) {
  const Shape shape{300, 256};
  const Tensor x = Tensor::normal(DType::bf16, shape, 1, 0, 3), bytes = Tensor::integers(DType::u8, shape, 2, 0, 256), half = Tensor::integers(DType::u8, {300, 128}, 2, 0, 256);
  Tensor codes(DType::u8, shape), packed(DType::u8, {300, 128}), y(DType::bf16, shape);
  check_contract<CastE8m0>({DType::bf16, shape}, {x, codes});
  check_repeat_bits<CastE8m0>({DType::bf16, shape}, {x, codes}, {}, 1);
  check_contract<CastFromE8m0>({DType::bf16, shape}, {bytes, y});
  check_repeat_bits<CastFromE8m0>({DType::bf16, shape}, {bytes, y}, {}, 1);
  check_contract<CastPacked>({DType::bf16, shape}, {x, packed});
  check_repeat_bits<CastPacked>({DType::bf16, shape}, {x, packed}, {}, 1);
  check_contract<CastFromPacked>({DType::bf16, shape}, {half, y});
  check_repeat_bits<CastFromPacked>({DType::bf16, shape}, {half, y}, {}, 1);
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(CastE8m0Plan::select(s, {DType::i32, {2}}).status(), Code::unsupported, {"no i32"});
  expect_refused(CastE8m0Plan::select(s, {DType::f32, {2}, E8m0Rounding(7)}).status(), bad, {"rounding 7"});
  expect_refused(CastFromE8m0Plan::select(s, {DType::f8_e5m2, {2}}).status(), Code::unsupported, {"no f8_e5m2"});
  expect_refused(CastPackedPlan::select(s, {DType::f32, {3}}).status(), bad, {"cast_packed", "[3]", "odd"});
  expect_refused(CastPackedPlan::select(s, {DType::f32, {}}).status(), bad, {"rank 0"});
  expect_refused(CastPackedPlan::select(s, {DType::i32, {2}}).status(), Code::unsupported, {"no i32"});
  expect_refused(CastFromPackedPlan::select(s, {DType::f32, {2}, CodeFormat(3)}).status(), bad, {"format 3"});
}

}  // namespace
}  // namespace baracuda
