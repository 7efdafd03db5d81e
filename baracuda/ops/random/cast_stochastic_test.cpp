#include "baracuda/ops/random/cast_stochastic.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/random/integers.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kNarrow[] = {DType::f16, DType::bf16, DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};
constexpr uint64_t kSeed = 0x123456789abcdef, kOffset = (uint64_t(3) << 40) + 5;

// The words of the elements; random_test holds them to the cipher.
std::vector<double> words(int64_t n, uint64_t seed, uint64_t offset) {
  Tensor w(DType::u32, {n});
  EXPECT_OK(run_plan<RandomBits>({DType::u32, {n}}, {w, seed, offset}));
  return w.values();
}
// The finite values of a dtype that are not negative, and behind them the one that would be next.
const std::vector<double>& ladder(DType t) {
  static std::map<DType, std::vector<double>> all;
  std::vector<double>& v = all[t];
  if (v.empty()) {
    for (unsigned c = 0; c < 1u << (bit_size(t) - 1); ++c) {
      uint8_t bytes[2] = {uint8_t(c), uint8_t(c >> 8)};
      if (const double x = read_element(t, bytes); std::isfinite(x)) v.push_back(x);
    }
    v.push_back(2 * v.back() - v[v.size() - 2]);
  }
  return v;
}
double stochastic(DType to, double x, double word, bool saturate) {
  if (std::isnan(x)) return x;
  const std::vector<double>& v = ladder(to);
  const double a = std::fabs(x), largest = v[v.size() - 2];
  double y = INFINITY;
  if (a < v.back()) {
    const auto above = std::upper_bound(v.begin(), v.end(), a);
    const long double low = *(above - 1), part = std::floor(((long double)a - low) / (*above - low) * 0x1p32L);
    y = word + part >= 0x1p32L ? *above : double(low);
  }
  if (y > largest) y = saturate ? largest : to == DType::f16 || to == DType::bf16 || to == DType::f8_e5m2 ? INFINITY : NAN;
  const bool signed_zero = to != DType::f8_e4m3fnuz && to != DType::f8_e5m2fnuz;
  return y == 0 && !signed_zero ? 0 : std::copysign(y, x);
}
void expect_same(double got, double want, const std::string& what) {
  if (std::isnan(want)) ASSERT_TRUE(std::isnan(got)) << what;
  else ASSERT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << what << ": " << got << " for " << want;
}
TEST(CastStochastic, NeighboursByTheWord) {
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (DType from : kFloats)
      for (DType to : kNarrow) {
        std::vector<double> v = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1e-30, 1e-45, 1e-300, 1e300, 1e38};
        const std::vector<double>& at = ladder(to);
        for (size_t k = 0; k < at.size(); k += at.size() > 1000 ? 97 : 1)
          for (double p : {0.0, 1e-12, 0.25, 0.5, 0.9999}) v.push_back(at[k] * (1 - p) + at[std::min(k + 1, at.size() - 1)] * p);
        for (size_t k = at.size() - 3; k < at.size(); ++k) v.push_back(at[k]), v.push_back(at[k] * 1.001), v.push_back(at[k] * 0.999);
        for (size_t k = 1; k < 40; ++k) v.push_back(std::ldexp(at[1], -int(k)) * 1.37), v.push_back(at[k % 9] * 1.01);
        for (size_t k = v.size(); k-- > 0;) v.push_back(-v[k]);
        const Shape shape{int64_t(v.size())};
        const Tensor x(from, shape, v);
        const std::vector<double> w = words(x.numel(), kSeed, kOffset);
        for (bool saturate : {false, true}) {
          Tensor y(to, shape);
          ASSERT_OK(run_plan<CastStochastic>({from, to, shape, saturate}, {x, y, kSeed, kOffset}));
          for (int64_t i = 0; i < x.numel(); ++i)
            expect_same(y.at(i), stochastic(to, x.at(i), w[size_t(i)], saturate), text(from, " ", x.at(i), " to ", to, " by ", w[size_t(i)]));
        }
      }
  }
  limit_isa(Isa::avx512bf16);
}
// What the narrow dtype holds stays, whatever the words: each code of 16 and 8 bits, as Cast makes it of the wider value.
TEST(CastStochastic, ExactValuesStay) {
  for (DType to : kNarrow)
    for (DType from : {DType::f32, DType::f64}) {
      const int64_t n = int64_t(1) << bit_size(to);
      const Shape shape{n};
      Tensor codes(to, shape), x(from, shape), y(to, shape), again(to, shape);
      for (int64_t i = 0; i < n; ++i) bit_size(to) == 8 ? void(static_cast<uint8_t*>(codes.view().data)[i] = uint8_t(i)) : void(static_cast<uint16_t*>(codes.view().data)[i] = uint16_t(i));
      ASSERT_OK(run_plan<Cast>({to, from, shape}, {codes, x}));
      ASSERT_OK(run_plan<Cast>({from, to, shape}, {x, again}));
      for (uint64_t seed : {1, 2}) {
        ASSERT_OK(run_plan<CastStochastic>({from, to, shape}, {x, y, seed, 0}));
        for (int64_t i = 0; i < n; ++i) expect_same(y.at(i), again.at(i), text(to, " code ", i));
      }
    }
}
// Of many draws of one number only its neighbours come, the larger as often as the number is near it: within five standard deviations.
TEST(CastStochastic, Unbiased) {
  const int64_t n = 1 << 16;
  for (DType to : kNarrow)
    for (DType from : {DType::f32, DType::f64})
      for (double part : {0.001, 0.25, 0.5, 0.7, 0.999})
        for (size_t place : {size_t(0), size_t(3), ladder(to).size() / 2}) {
          const double low = ladder(to)[place], high = ladder(to)[place + 1];
          const Tensor one(from, {}, {-(low + part * (high - low))});
          TensorView x = one.view();
          x.shape = {n}, x.strides = {0};
          Tensor y(to, {n});
          ASSERT_OK(run_plan<CastStochastic>({from, to, {n}}, {x, y, 7 + place, 11}));
          const double p = (-one.at(0) - low) / (high - low);
          double larger = 0;
          for (double v : y.values()) {
            ASSERT_TRUE(v == -low || v == -high) << v;
            larger += v == -high;
          }
          EXPECT_LE(std::fabs(larger - p * double(n)), 5 * std::sqrt(double(n) * p * (1 - p))) << name(from) << name(to) << " " << part << " " << place;
        }
}
TEST(CastStochastic, EveryLayoutAndInPlace) {
  int turn = 0;
  for (Layout in : kLayouts)
    for (Layout out : kLayouts)
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{257}, Shape{3, 5, 17}, Shape{2, 1, 256}, Shape{70, 9}}) {
        const DType from = kFloats[++turn % 4], to = kNarrow[turn % 6];
        const Tensor x = Tensor::normal(from, shape, 1, 0, 5, in);
        Tensor y(to, shape, out);
        const uint64_t offset = uint64_t(turn % 3 ? turn : 8 * turn);
        ASSERT_OK(run_plan<CastStochastic>({from, to, shape}, {x, y, kSeed, offset}));
        const std::vector<double> w = words(shape.numel(), kSeed, offset);
        for (int64_t i = 0; i < shape.numel(); ++i) expect_same(y.at(i), stochastic(to, x.at(i), w[size_t(i)], false), text(from, " to ", to, " ", int(in), int(out)));
        ASSERT_TRUE(y.guards_intact());
      }
  const Shape shape{300};
  Tensor x = Tensor::normal(DType::f16, shape, 1), y(DType::bf16, shape);
  ASSERT_OK(run_plan<CastStochastic>({DType::f16, DType::bf16, shape}, {x, y, 3, 0}));
  TensorView here = x.view();
  here.dtype = DType::bf16;
  ASSERT_OK(run_plan<CastStochastic>({DType::f16, DType::bf16, shape}, {x, here, 3, 0}));
  EXPECT_EQ(bytes_of(here), bytes_of(y));
}
TEST(CastStochastic, AnySplitAndNumbersThatStartOver) {
  const int64_t n = 20011;
  const Tensor x = Tensor::normal(DType::f32, {n}, 1);
  for (uint64_t offset : {uint64_t(9), uint64_t(0) - 5000}) {
    Tensor whole(DType::bf16, {n}), parts(DType::bf16, {n});
    ASSERT_OK(run_plan<CastStochastic>({DType::f32, DType::bf16, {n}}, {x, whole, 5, offset}));
    for (int64_t begin = 0, step = 1; begin < n; begin += step, step = step * 3 % 4001 + 1) {
      const int64_t m = std::min(step, n - begin);
      TensorView from = x.view(), to = parts.view();
      from.shape = to.shape = {m}, from.data = static_cast<float*>(from.data) + begin, to.data = static_cast<uint16_t*>(to.data) + begin;
      ASSERT_OK(run_plan<CastStochastic>({DType::f32, DType::bf16, {m}}, {from, to, 5, offset + uint64_t(begin)}));
    }
    EXPECT_TRUE(parts.same_bits(whole));
  }
}
TEST(CastStochastic, ContractAndRefusals) {
  const CastStochasticDescriptor d{DType::f32, DType::f8_e4m3fn, {300, 70}};
  const Tensor x = Tensor::normal(d.dtype, d.shape, 1, 0, 100);
  Tensor y(d.to, d.shape);
  check_contract<CastStochastic>(d, {x, y, 1, 2});
  check_repeat_bits<CastStochastic>(d, {x, y, 1, 2});
  const Stream s = Stream::cpu();
  expect_refused(CastStochasticPlan::select(s, {DType::f32, DType::f32, {2}}).status(), Code::unsupported, {"no cast to f32"});
  expect_refused(CastStochasticPlan::select(s, {DType::i32, DType::f16, {2}}).status(), Code::unsupported, {"no i32"});
  expect_refused(CastStochasticPlan::select(s, {DType::f32, DType::count, {2}}).status(), Code::invalid_problem, {"invalid dtype"});
}

}  // namespace
}  // namespace baracuda
