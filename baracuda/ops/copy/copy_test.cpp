#include "baracuda/ops/copy/copy.hpp"
#include <bit>
#include <cmath>
#include <limits>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kAll[] = {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32,
                          DType::i64, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64,
                          DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// The rules of the header, in 128-bit integers and long double.
struct Value { bool floating; long double f; __int128 i; };
Value read(DType t, const void* p) {
  switch (t) {
    case DType::boolean: case DType::u8: return {false, 0, *static_cast<const uint8_t*>(p)};
    case DType::i8: return {false, 0, *static_cast<const int8_t*>(p)};
    case DType::i16: return {false, 0, *static_cast<const int16_t*>(p)};
    case DType::u16: return {false, 0, *static_cast<const uint16_t*>(p)};
    case DType::i32: return {false, 0, *static_cast<const int32_t*>(p)};
    case DType::u32: return {false, 0, *static_cast<const uint32_t*>(p)};
    case DType::i64: return {false, 0, *static_cast<const int64_t*>(p)};
    case DType::u64: return {false, 0, *static_cast<const uint64_t*>(p)};
    default: return {true, read_element(t, p), 0};
  }
}
bool is_signed(DType t) { return kDTypeFacts[size_t(t)].is_signed; }
// What a float dtype can hold: bits of precision, exponent of the smallest normal number, largest value.
struct Format { int precision, least; long double largest; bool infinite = true, signed_zero = true; };
Format format_of(DType t) {
  switch (t) {
    case DType::f64: return {53, -1022, 0x1.fffffffffffffp1023L};
    case DType::f32: return {24, -126, 0x1.fffffep127L};
    case DType::f16: return {11, -14, 65504};
    case DType::bf16: return {8, -126, 0x1.fep127L};
    case DType::f8_e4m3fn: return {4, -6, 448, false};
    case DType::f8_e5m2: return {3, -14, 57344};
    case DType::f8_e4m3fnuz: return {4, -7, 240, false, false};
    default: return {3, -15, 57344, false, false};
  }
}
// v rounded once to the float dtype: by its precision and range.
long double round_to(DType t, long double v, bool saturate) {
  const Format f = format_of(t);
  if (std::isnan(v)) return v;
  long double r = v;
  if (!std::isinf(v) && v != 0) {
    int e = 0;
    std::frexp(v, &e);
    const int unit = std::max(e, f.least + 1) - f.precision;
    r = std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
  }
  if (std::fabs(r) > f.largest) r = saturate ? std::copysign(f.largest, r) : f.infinite ? std::copysign(std::numeric_limits<long double>::infinity(), r) : std::nanl("");
  return r == 0 && !f.signed_zero ? 0 : r;
}
void expect_cast(DType from, const void* x, DType to, const void* y, bool saturate = false) {
  const Value v = read(from, x), got = read(to, y);
  const std::string what = text(from, " ", v.floating ? double(v.f) : double(int64_t(v.i)), " to ", to);
  if (to == DType::boolean) EXPECT_EQ(int64_t(got.i), v.floating ? v.f != 0 : v.i != 0) << what;
  else if (got.floating) {
    const long double want = round_to(to, v.floating ? v.f : (long double)(v.i), saturate);
    if (std::isnan(want)) EXPECT_TRUE(std::isnan(got.f)) << what;
    else EXPECT_TRUE(got.f == want && std::signbit(got.f) == std::signbit(want)) << what << ": " << double(got.f) << ", want " << double(want);
  } else {
    const int bits = bit_size(to);
    __int128 want = v.i;
    if (v.floating) {
      const __int128 low = is_signed(to) ? -((__int128)1 << (bits - 1)) : 0, high = ((__int128)1 << (is_signed(to) ? bits - 1 : bits)) - 1;
      want = std::isnan(v.f) ? 0 : v.f <= (long double)low ? low : v.f >= (long double)high ? high : (__int128)v.f;
    } else {
      want &= ((__int128)1 << bits) - 1;
      if (is_signed(to) && want >> (bits - 1)) want -= (__int128)1 << bits;
    }
    EXPECT_TRUE(got.i == want) << what << ": " << int64_t(got.i) << ", want " << int64_t(want);
  }
}
// Values of every kind: small, at the bounds of each integer type and beyond, at ties, special.
std::vector<uint8_t> interesting(DType t, int64_t& n) {
  const size_t size = byte_size(t);
  std::vector<uint8_t> bytes;
  auto add_bits = [&](uint64_t b) { for (size_t k = 0; k < size; ++k) bytes.push_back(uint8_t(b >> (8 * k))); };
  if (t == DType::boolean) for (int i = 0; i < 70; ++i) add_bits(uint64_t(i % 3 == 0));
  else if (is_float8(t)) for (unsigned code = 0; code < 256; ++code) add_bits(code);
  else if (!is_floating(t)) {
    for (int s = 0; s < int(8 * size); ++s) for (int d = -2; d <= 2; ++d) add_bits((uint64_t(1) << s) + uint64_t(d)), add_bits(0 - (uint64_t(1) << s) + uint64_t(d));
    add_bits(0x4000004000000001), add_bits(0x4000004000000000), add_bits(0x400000c000000000), add_bits(0x8000008000000001);  // ties of f32
  } else {
    auto add = [&](double v) { uint64_t b = 0; write_element(t, &b, v); add_bits(b); };
    for (double v : {0.0, -0.0, 0.4, -0.4, 0.5, 0.9, -0.9, 1.0, 1.5, -1.5, 2.5, 3.7, -3.7, 1e-8, 6e-8, 1e-41, 1e-300, 65504.0, 65519.0, 65520.0, 3e38, 3.5e38, 1e300, double(INFINITY), -double(INFINITY), double(NAN)}) add(v);
    for (int s = 0; s <= 64; ++s) for (double d : {-1.0, -0.5, 0.0, 0.5, 1.0}) add(std::ldexp(1.0, s) + d), add(-std::ldexp(1.0, s) + d);
    if (t == DType::f64) for (double v : {1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11 - 0x1p-40, 1 + 0x1p-24, 1 + 3 * 0x1p-24}) add(v), add(-v);  // twice-rounded traps
  }
  n = int64_t(bytes.size() / size);
  return bytes;
}
bool saturable(DType t) { return bit_size(t) <= 16 && is_floating(t); }
TEST(Copy, CastsOfEveryPair) {
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (DType from : kAll)
      for (DType to : kAll) {
        int64_t n = 0;
        std::vector<uint8_t> x = interesting(from, n);
        std::vector<uint8_t> y(size_t(n) * byte_size(to), 0xcc);
        ASSERT_OK(run_plan<Cast>({from, to, {n}}, {TensorView::dense(x.data(), from, {n}), TensorView::dense(y.data(), to, {n})}));
        for (int64_t i = 0; i < n; ++i) expect_cast(from, &x[size_t(i) * byte_size(from)], to, &y[size_t(i) * byte_size(to)]);
        if (!saturable(to)) continue;
        ASSERT_OK(run_plan<Cast>({from, to, {n}, true}, {TensorView::dense(x.data(), from, {n}), TensorView::dense(y.data(), to, {n})}));
        for (int64_t i = 0; i < n; ++i) expect_cast(from, &x[size_t(i) * byte_size(from)], to, &y[size_t(i) * byte_size(to)], true);
      }
  }
  limit_isa(Isa::avx512bf16);
}
// All 65536 halves, floats of every exponent, and each tie between two codes with the values beside it.
TEST(Copy, CastsToFloat8) {
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (DType to : {DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz})
      for (DType from : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        std::vector<uint8_t> x;
        auto add = [&](auto v) { x.insert(x.end(), reinterpret_cast<uint8_t*>(&v), reinterpret_cast<uint8_t*>(&v) + sizeof v); };
        if (bit_size(from) == 16) for (unsigned i = 0; i < 65536; ++i) add(uint16_t(i));
        else if (from == DType::f32) for (uint64_t i = 0; i < uint64_t(1) << 32; i += 40009) add(uint32_t(i));
        for (unsigned c = 0; bit_size(from) > 16 && c < 256; ++c) {
          const uint8_t codes[] = {uint8_t(c), uint8_t(c + 1)};
          const double tie = (read_element(to, codes) + read_element(to, codes + 1)) / 2;
          for (double v : {tie, std::nextafter(tie, 1e9), std::nextafter(tie, -1e9)}) from == DType::f64 ? add(v) : add(float(v));
          if (from == DType::f32) for (float limit : {1e9f, -1e9f}) add(std::nextafterf(float(tie), limit));
        }
        const int64_t n = int64_t(x.size() / byte_size(from));
        std::vector<uint8_t> y(size_t(n), 0xcc);
        for (bool saturate : {false, true}) {
          ASSERT_OK(run_plan<Cast>({from, to, {n}, saturate}, {TensorView::dense(x.data(), from, {n}), TensorView::dense(y.data(), to, {n})}));
          for (int64_t i = 0; i < n; ++i) expect_cast(from, &x[size_t(i) * byte_size(from)], to, &y[size_t(i)], saturate);
        }
      }
  }
  limit_isa(Isa::avx512bf16);
}
TEST(Copy, Float8CodesOfSpecialValues) {  // what PyTorch and ml_dtypes give
  const float x[] = {NAN, INFINITY, -INFINITY, 464, 465, -1e9f, -0.0f, 0x1p-10f, 0x1.02p-10f, 61440, 61439, 57344, 248, 249, -1e-30f};
  const struct { DType t; bool saturate; std::vector<uint8_t> want; } cases[] = {
      {DType::f8_e4m3fn, false, {0x7f, 0x7f, 0xff, 0x7e, 0x7f, 0xff, 0x80, 0x00, 0x01, 0x7f, 0x7f, 0x7f, 0x78, 0x78, 0x80}},
      {DType::f8_e4m3fn, true, {0x7f, 0x7e, 0xfe, 0x7e, 0x7e, 0xfe, 0x80, 0x00, 0x01, 0x7e, 0x7e, 0x7e, 0x78, 0x78, 0x80}},
      {DType::f8_e5m2, false, {0x7f, 0x7c, 0xfc, 0x5f, 0x5f, 0xfc, 0x80, 0x14, 0x14, 0x7c, 0x7b, 0x7b, 0x5c, 0x5c, 0x80}},
      {DType::f8_e5m2, true, {0x7f, 0x7b, 0xfb, 0x5f, 0x5f, 0xfb, 0x80, 0x14, 0x14, 0x7b, 0x7b, 0x7b, 0x5c, 0x5c, 0x80}},
      {DType::f8_e4m3fnuz, false, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01, 0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}},
      {DType::f8_e5m2fnuz, false, {0x80, 0x80, 0x80, 0x63, 0x63, 0x80, 0x00, 0x18, 0x18, 0x80, 0x7f, 0x7f, 0x60, 0x60, 0x00}}};
  const int64_t n = std::size(x);
  for (const auto& c : cases) {
    std::vector<uint8_t> y(size_t(n), 0xcc);
    ASSERT_OK(run_plan<Cast>({DType::f32, c.t, {n}, c.saturate}, {TensorView::dense(x, {n}), TensorView::dense(y.data(), c.t, {n})}));
    EXPECT_EQ(y, c.want) << name(c.t) << c.saturate;
  }
}
// The product rounded to f32, then as cast; the largest magnitude beside it.
TEST(Copy, ScaledCasts) {
  constexpr DType kHere[] = {DType::f16, DType::bf16, DType::f32, DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz};
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    int turn = 0;
    for (DType from : kHere)
      for (DType to : kHere)
        for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{37, 29}, Shape{3, 1030}}) {
          const Layout layout = kLayouts[++turn % 6];
          const bool saturate = turn % 3 != 0;
          const float scale = turn % 2 ? 0.37f : 300.0f;
          const Tensor x = Tensor::normal(from, shape, uint64_t(turn), 0, 5, layout), factor(DType::f32, {1}, {scale});
          Tensor y(to, shape, kLayouts[turn % 5]), amax(DType::f32, Shape{});
          ASSERT_OK(run_plan<CastScaled>({from, to, shape, saturate}, {x, factor, y, amax}));
          double most = 0;
          for (int64_t i = 0; i < shape.numel(); ++i) {
            if (!std::isnan(x.at(i))) most = std::max(most, std::fabs(x.at(i)));
            const float product = float(x.at(i)) * scale;
            alignas(8) uint8_t got[8];
            write_element(to, got, y.at(i));
            expect_cast(DType::f32, &product, to, got, saturate && saturable(to));
          }
          EXPECT_EQ(amax.at(0), most) << name(from) << " " << name(to);
          EXPECT_TRUE(y.guards_intact() && amax.guards_intact());
        }
  }
  limit_isa(Isa::avx512bf16);
  Tensor x(DType::f32, {100000}, std::vector<double>(100000, -2)), factor(DType::f32, {1}, {0.5}), y(DType::f8_e4m3fn, {100000}), amax(DType::f32, {1});
  const CastScaledDescriptor d{.shape = {100000}};
  x.set(99999, -INFINITY);
  ASSERT_OK(run_plan<CastScaled>(d, {x, factor, y, amax}));
  EXPECT_TRUE(amax.at(0) == INFINITY && y.at(0) == -1 && y.at(99999) == -448);
  x.set(5, NAN);
  ASSERT_OK(run_plan<CastScaled>(d, {x, factor, y, amax}));
  EXPECT_TRUE(std::isnan(amax.at(0)) && std::isnan(y.at(5)));
  ASSERT_OK(run_plan<CastScaled>(d, {x, factor, y, {}}));
  check_repeat_bits<CastScaled>(d, {x, factor, y, amax});
  check_contract<CastScaled>(d, {x, factor, y, amax}, {"scale", "amax"});
  expect_refused(CastScaledPlan::select(Stream::cpu(), {DType::f64, DType::f8_e5m2, {2}}).status(), Code::unsupported, {"no f64"});
  expect_refused(CastScaledPlan::select(Stream::cpu(), {DType::f32, DType::i8, {2}}).status(), Code::unsupported, {"no cast to i8"});
  expect_refused(run_plan<CastScaled>(d, {x, factor, y, factor}), Code::invalid_problem, {"amax overlaps"});
  expect_refused(run_plan<CastScaled>(d, {x, x, y, amax}), Code::invalid_problem, {"scale has shape [100000]", "1 element"});
}
TEST(Copy, CastShapesAndStrides) {
  for (Layout in : kLayouts)
    for (Layout out : kLayouts)
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{15}, Shape{257}, Shape{3, 5, 17}, Shape{2, 1, 255}, Shape{300, 2}, Shape{70, 90}}) {
        const Tensor x = Tensor::normal(DType::f32, shape, 1, 0, 5, in);
        Tensor y(DType::bf16, shape, out), z(DType::f32, shape, out), w(DType::f64, shape, out);
        ASSERT_OK(run_plan<Cast>({DType::f32, DType::bf16, shape}, {x, y}));
        ASSERT_OK(run_plan<Copy>({DType::f32, shape}, {x, z}));
        ASSERT_OK(run_plan<Cast>({DType::f32, DType::f64, shape}, {x, w}));
        for (int64_t i = 0; i < shape.numel(); ++i) {
          ASSERT_EQ(y.at(i), rounded(DType::bf16, x.at(i))) << shape.rank << " " << i;
          ASSERT_EQ(z.at(i), x.at(i)) << int(in) << int(out) << " " << i;
          ASSERT_EQ(w.at(i), x.at(i));
        }
        ASSERT_TRUE(y.guards_intact() && z.guards_intact() && w.guards_intact());
      }
}
// Element (i, j, k) of a permuted tensor holds its own number: every axis order, every element size.
TEST(Copy, AxisOrders) {
  const int64_t extent[3] = {33, 5, 67};
  const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (DType t : {DType::u8, DType::bf16, DType::i32, DType::f64, DType::c128})
    for (const auto& o : orders) {
      const size_t size = byte_size(t);
      const Shape shape{extent[0], extent[1], extent[2]};
      std::vector<uint8_t> x(size_t(shape.numel()) * size), y(x.size() + 16, 0xee);
      Strides strides;
      strides.rank = 3;
      int64_t step = 1;
      for (int a = 2; a >= 0; --a) strides[o[a]] = step, step *= extent[o[a]];
      for (size_t i = 0; i < x.size(); ++i) x[i] = uint8_t(i * 2654435761u >> 13);
      ASSERT_OK(run_plan<Copy>({t, shape}, {TensorView{x.data(), t, {}, shape, strides}, TensorView::dense(y.data(), t, shape)}));
      const std::vector<uint8_t> want = bytes_of(TensorView{x.data(), t, {}, shape, strides});
      EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin())) << name(t) << " " << o[0] << o[1] << o[2];
      EXPECT_EQ(y[want.size()], 0xee);
      // and back into that order
      std::vector<uint8_t> back(x.size(), 0xee);
      ASSERT_OK(run_plan<Copy>({t, shape}, {TensorView::dense(y.data(), t, shape), TensorView{back.data(), t, {}, shape, strides}}));
      EXPECT_TRUE(back == x) << name(t) << " back " << o[0] << o[1] << o[2];
    }
}
TEST(Copy, HalvesByTiles) {
  for (const Shape& shape : {Shape{8, 12}, Shape{128, 128}, Shape{132, 260}, Shape{3, 124, 516}, Shape{2, 400, 64}, Shape{66, 130}, Shape{132, 65}, Shape{2052, 2180}}) {
    const int64_t rows = shape[shape.rank - 2], columns = shape.last();
    std::vector<uint16_t> x(size_t(shape.numel())), y(x.size() + 8, 0xeeee);
    for (size_t i = 0; i < x.size(); ++i) x[i] = uint16_t(i * 2654435761u >> 13);
    Strides strides = shape.contiguous();
    strides[shape.rank - 2] = 1, strides[shape.rank - 1] = rows;
    ASSERT_OK(run_plan<Copy>({DType::bf16, shape}, {TensorView{x.data(), DType::bf16, {}, shape, strides}, TensorView::dense(y.data(), DType::bf16, shape)}));
    for (int64_t i = 0; i < shape.numel(); ++i) {
      const int64_t b = i / (rows * columns), r = i / columns % rows, c = i % columns;
      ASSERT_EQ(y[size_t(i)], x[size_t(b * rows * columns + c * rows + r)]) << to_string(shape) << " " << i;
    }
    EXPECT_EQ(y[x.size()], 0xeeee);
  }
}
TEST(Copy, EmptyInAnyOrder) {
  for (const Shape& shape : {Shape{0, 9}, Shape{9, 0}, Shape{2, 0, 3}}) {
    Tensor x(DType::f32, shape, Layout::transposed), y(DType::f32, shape);
    TensorView turned = x.view();
    for (int i = 0; i < shape.rank; ++i) turned.strides[i] = i == 0 ? 1 : 100 * i;
    ASSERT_OK(run_plan<Copy>({DType::f32, shape}, {turned, y}));
  }
}
TEST(Copy, case_dlpack_negative_stride) {  // arange(12) as (3, 4) with columns reversed
  std::vector<double> v(12);
  for (int i = 0; i < 12; ++i) v[size_t(i)] = i;
  const Tensor x(DType::f64, {3, 4}, v);
  TensorView flipped = x;
  flipped.data = x.view().as<double>() + 3, flipped.strides = {4, -1};
  Tensor y(DType::f64, {3, 4});
  ASSERT_OK(run_plan<Copy>({DType::f64, {3, 4}}, {flipped, y}));
  EXPECT_EQ(y.values(), (std::vector<double>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}));
}
TEST(Copy, BroadcastAndInPlace) {
  const Tensor row = Tensor::normal(DType::f16, {33}, 1);
  TensorView wide = row;
  wide.shape = {5, 33}, wide.strides = {0, 1};
  Tensor y(DType::f16, {5, 33});
  ASSERT_OK(run_plan<Copy>({DType::f16, {5, 33}}, {wide, y}));
  for (int64_t i = 0; i < 165; ++i) EXPECT_EQ(y.at(i), row.at(i % 33));
  const Tensor x = Tensor::normal(DType::f32, {1000}, 2);
  Tensor z(DType::i32, {1000});
  ASSERT_OK(run_plan<Copy>({DType::f32, {1000}}, {x, TensorView::dense(z.view().data, DType::f32, {1000})}));
  ASSERT_OK(run_plan<Cast>({DType::f32, DType::i32, {1000}}, {TensorView::dense(z.view().data, DType::f32, {1000}), z}));
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(z.at(i), std::trunc(x.at(i)));
}
TEST(Copy, Fills) {
  const struct { DType t; double value, want; } cases[] = {{DType::f32, 0.1, double(0.1f)}, {DType::bf16, 257, 256}, {DType::f16, 1e6, INFINITY},
      {DType::f64, -0.0, -0.0}, {DType::i8, 300, 127}, {DType::i8, -1.9, -1}, {DType::u16, -5, 0}, {DType::boolean, 0.5, 1}, {DType::i64, 9007199254740992, 9007199254740992},
      {DType::f8_e4m3fn, 17, 16}, {DType::f8_e5m2, 1e9, INFINITY}};
  for (const auto& c : cases)
    for (Layout layout : kLayouts) {
      Tensor y(c.t, {7, 300}, layout);
      ASSERT_OK(run_plan<Fill>({c.t, {7, 300}}, {y, c.value}));
      for (int64_t i = 0; i < y.numel(); ++i) ASSERT_TRUE(y.at(i) == c.want && std::signbit(y.at(i)) == std::signbit(c.want)) << name(c.t) << " " << y.at(i);
      EXPECT_TRUE(y.guards_intact());
    }
  Tensor empty(DType::f32, {0}), scalar(DType::f32, {});
  ASSERT_OK(run_plan<Fill>({DType::f32, {0}}, {empty, 1}));
  ASSERT_OK(run_plan<Fill>({DType::f32, {}}, {scalar, NAN}));
  EXPECT_TRUE(std::isnan(scalar.at(0)));
}
TEST(Copy, ContractAndBits) {
  const Tensor x = Tensor::normal(DType::f32, {3, 20000}, 1), turned = Tensor::normal(DType::f32, {300, 200}, 1, 0, 1, Layout::transposed);
  Tensor y(DType::bf16, {3, 20000}), z(DType::f32, {3, 20000}), w(DType::f32, {300, 200});
  check_repeat_bits<Cast>({DType::f32, DType::bf16, {3, 20000}}, {x, y});
  check_repeat_bits<Copy>({DType::f32, {3, 20000}}, {x, z});
  check_repeat_bits<Copy>({DType::f32, {300, 200}}, {turned, w});
  check_repeat_bits<Fill>({DType::f32, {3, 20000}}, {z, 3});
  check_contract<Cast>({DType::f32, DType::bf16, {3, 20000}}, {x, y});
  Tensor small(DType::f8_e5m2, {3, 20000});
  check_repeat_bits<Cast>({DType::f32, DType::f8_e5m2, {3, 20000}, true}, {x, small});
  check_contract<Cast>({DType::f32, DType::f8_e5m2, {3, 20000}}, {x, small});
  check_contract<Copy>({DType::f32, {3, 20000}}, {x, z});
  check_contract<Fill>({DType::f32, {3, 20000}}, {z, 3});
}
TEST(Copy, Refusals) {
  const Stream s = Stream::cpu();
  expect_refused(CastPlan::select(s, {DType::c64, DType::f32, {2}}).status(), Code::unsupported, {"cast.cpu.map", "no c64"});
  expect_refused(CastPlan::select(s, {DType::f32, DType::c64, {2}}).status(), Code::unsupported, {"no cast to c64"});
  expect_refused(CastPlan::select(s, {DType::f32, DType::i8, {2}, true}).status(), Code::invalid_problem, {"cast", "saturate", "f8_e4m3fn", "to is i8"});
  expect_refused(CastPlan::select(s, {DType::f64, DType::f32, {2}, true}).status(), Code::invalid_problem, {"saturate", "to is f32"});
  expect_refused(CopyPlan::select(s, {DType::i4, {2}}).status(), Code::unsupported, {"no i4"});
  expect_refused(FillPlan::select(s, {DType::c64, {2}}).status(), Code::unsupported, {"no c64"});
  expect_refused(CopyPlan::select(s, {DType::f32, {2, -3}}).status(), Code::invalid_problem, {"copy", "shape", "[2, -3]"});
  expect_refused(CastPlan::select(s, {DType::count, DType::f32, {2}}).status(), Code::invalid_problem, {"cast", "invalid dtype"});
  Tensor x = Tensor::normal(DType::f32, {9}, 1);
  TensorView head = x, tail = x, back = x;
  head.shape = tail.shape = {8}, tail.data = x.view().as<float>() + 1;
  expect_refused(run_plan<Copy>({DType::f32, {8}}, {head, tail}), Code::invalid_problem, {"y overlaps x"});
  back.shape = {4}, head.shape = {4}, back.strides = {2};
  expect_refused(run_plan<Copy>({DType::f32, {4}}, {head, back}), Code::invalid_problem, {"y overlaps x"});
  expect_refused(run_plan<Cast>({DType::f32, DType::f64, {4}}, {head, TensorView::dense(x.view().data, DType::f64, {4})}), Code::invalid_problem, {"y overlaps x"});
}

TEST(Copy, LargerThanTheCaches) {
  const Shape shape{2, 1733, 4096};
  for (DType t : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const Shape s = t == DType::u8 ? Shape{4, 1733, 4096} : t == DType::f64 ? Shape{1, 1733, 4096} : shape;
    Large x(t, s), dense(t, s), off(t, s, 1), turned(t, {s[0], 4096, 1733}), back(t, s);
    ASSERT_EQ(past_caches(dense, x.view().data), s.numel() * int64_t(byte_size(t)) >= kPastCaches);
    std::memset(dense.view().data, 0xff, size_t(s.numel()) * byte_size(t));
    std::memset(back.view().data, 0xff, size_t(s.numel()) * byte_size(t));
    ASSERT_OK(run_plan<Copy>({t, s}, {x, dense}));
    EXPECT_TRUE(dense.same_bits(x)) << name(t);
    ASSERT_OK(run_plan<Fill>({t, s}, {dense, 3}));
    ASSERT_OK(run_plan<Fill>({t, s}, {off, 3}));
    EXPECT_TRUE(dense.same_bits(off)) << name(t);
    for (int64_t i : {int64_t(0), s.numel() / 3, s.numel() - 1}) EXPECT_EQ(read_element(t, dense.view().as<char>() + size_t(i) * byte_size(t)), 3);
    ASSERT_OK(run_plan<Copy>({t, s}, {x, off}));
    EXPECT_TRUE(off.same_bits(x)) << name(t);
    TensorView from = x, to = turned;  // turned and turned back; a few elements by hand
    from.shape = turned.view().shape, from.strides = {1733 * 4096, 1, 4096};
    ASSERT_OK(run_plan<Copy>({t, from.shape}, {from, turned}));
    const size_t size = byte_size(t);
    for (int64_t i = 0; i < s.numel(); i += 7919) {
      const int64_t b = i / (1733 * 4096), r = i / 4096 % 1733, c = i % 4096;
      ASSERT_EQ(std::memcmp(x.view().as<char>() + size_t(i) * size, turned.view().as<char>() + size_t((b * 4096 + c) * 1733 + r) * size, size), 0) << name(t) << " " << i;
    }
    to.shape = s, to.strides = {1733 * 4096, 1, 1733};
    ASSERT_OK(run_plan<Copy>({t, s}, {to, back}));
    EXPECT_TRUE(back.same_bits(x)) << name(t);
  }
}

TEST(Copy, Float8LargerThanTheCaches) {
  const Shape s{kPastCaches / 2 + 1013};
  for (DType t : {DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz}) {
    Large x(DType::u8, s);
    for (int64_t i = 0; i < s[0]; ++i) x.view().as<uint8_t>()[i] = uint8_t(i * 37 + (i >> 8));  // every code in every lane
    TensorView codes = x;
    codes.dtype = t;
    for (DType to : {DType::f16, DType::bf16, DType::f32}) {
      if (t != DType::f8_e4m3fn && to != DType::bf16) continue;
      Large past(to, s), off(to, s, 1);
      ASSERT_TRUE(past_caches(past, x.view().data));
      std::memset(past.view().data, 0xff, size_t(s[0]) * byte_size(to));
      ASSERT_OK(run_plan<Cast>({t, to, s}, {codes, past}));
      ASSERT_OK(run_plan<Cast>({t, to, s}, {codes, off}));
      EXPECT_TRUE(past.same_bits(off)) << name(t) << " to " << name(to);
    }
  }
  const Shape longer{kPastCaches + 1013};
  for (DType from : {DType::bf16, DType::f32}) {
    Large x(from, longer), past(DType::u8, longer), off(DType::u8, longer, 1);
    ASSERT_TRUE(past_caches(past, x.view().data));
    TensorView there = past, elsewhere = off;
    there.dtype = elsewhere.dtype = DType::f8_e4m3fn;
    std::memset(there.data, 0xff, size_t(longer[0]));
    ASSERT_OK(run_plan<Cast>({from, DType::f8_e4m3fn, longer}, {x, there}));
    ASSERT_OK(run_plan<Cast>({from, DType::f8_e4m3fn, longer}, {x, elsewhere}));
    EXPECT_TRUE(past.same_bits(off)) << name(from);
  }
}

TEST(Copy, EmptyWhereAnOuterAxisIsDense) {  // tiles of no rows divide by nothing
  float memory[4] = {};
  const TensorView x{memory, DType::f32, {}, {0, 3}, {1, 2}}, y = TensorView::dense(memory + 2, {0, 3});
  const auto plan = CopyPlan::select(Stream::cpu(), {.shape = {0, 3}});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->run(Stream::cpu(), Workspace::none(), {x, y}).ok());
}

}  // namespace
}  // namespace baracuda
