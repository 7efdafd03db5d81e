#include "baracuda/ops/random/dropout.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};
constexpr uint64_t kSeed = 0x123456789abcdef, kOffset = (uint64_t(3) << 40) + 5;

// The upper 24 bits of each element's word, times 2^-24, are random_uniform's f32 numbers, which random_test holds to the words
// of the cipher. So for p a multiple of 2^-24 they decide.
std::vector<double> uniforms(int64_t n, uint64_t seed, uint64_t offset) {
  Tensor u(DType::f32, {n});
  EXPECT_OK(run_plan<RandomUniform>({DType::f32, {n}}, {u, seed, offset}));
  return u.values();
}
TEST(Dropout, KeepsByTheWordAndScales) {
  const Shape shape{3, 7, 61};
  const std::vector<double> u = uniforms(shape.numel(), kSeed, kOffset);
  for (DType t : kFloats)
    for (double p : {0.0, 0.25, 0.5, 0.875, 1.0})
      for (Layout layout : kLayouts) {
        Tensor x = Tensor::normal(t, shape, 4, 0, 1, layout);
        x.set(5, NAN), x.set(6, INFINITY), x.set(7, -0.0);
        Tensor y(t, shape, layout), mask(DType::boolean, shape, layout), dx(t, shape, layout), plain(t, shape, layout);
        y.poison(), mask.poison();
        ASSERT_OK(run_plan<Dropout>({t, shape, p}, {x, y, kSeed, kOffset, mask}));
        ASSERT_OK(run_plan<Dropout>({t, shape, p}, {x, plain, kSeed, kOffset}));
        ASSERT_OK(run_plan<DropoutBackward>({t, shape, p}, {x, dx, kSeed, kOffset}));
        EXPECT_TRUE(y.guards_intact() && mask.guards_intact());
        EXPECT_TRUE(plain.same_bits(y) && dx.same_bits(y));  // the same numbers, the same formula
        for (int64_t i = 0; i < x.numel(); ++i) {
          const bool keep = u[size_t(i)] >= p;
          ASSERT_EQ(mask.at(i), keep) << i;
          const double factor = t == DType::f64 ? 1 / (1 - p) : double(float(1 / (1 - p)));
          const double want = !keep ? 0 : t == DType::f64 ? x.at(i) * factor : rounded(t, double(float(x.at(i)) * float(factor)));
          if (std::isnan(want)) ASSERT_TRUE(std::isnan(y.at(i)));
          else ASSERT_EQ(y.at(i), want) << name(t) << " " << p << " " << i;
        }
        ASSERT_OK(run_plan<Dropout>({t, shape, p}, {x, x, kSeed, kOffset}));
        EXPECT_TRUE(x.same_bits(y));
        if (p == 0) EXPECT_TRUE(mask.values() == std::vector<double>(size_t(shape.numel()), 1));
      }
}
TEST(Dropout, BernoulliDrawsOnes) {
  const Shape shape{5, 203};
  const std::vector<double> u = uniforms(shape.numel(), 1, 7);
  for (DType t : {DType::boolean, DType::i8, DType::u16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Layout layout : kLayouts) {
      Tensor y(t, shape, layout), p(DType::f32, shape, layout), by_tensor(t, shape, layout);
      for (int64_t i = 0; i < p.numel(); ++i) p.set(i, double(i % 5) / 4);
      p.set(0, NAN), p.set(1, -3), p.set(2, 7);
      ASSERT_OK(run_plan<Bernoulli>({t, shape, 0.375}, {y, 1, 7}));
      ASSERT_OK(run_plan<Bernoulli>({t, shape, 0.375}, {by_tensor, 1, 7, p}));
      EXPECT_TRUE(y.guards_intact() && by_tensor.guards_intact());
      for (int64_t i = 0; i < y.numel(); ++i) {
        ASSERT_EQ(y.at(i), u[size_t(i)] < 0.375);
        ASSERT_EQ(by_tensor.at(i), i == 0 || i == 1 ? 0 : i == 2 ? 1 : u[size_t(i)] < double(i % 5) / 4) << i;
      }
    }
  // p below 2^-24 is not lost, 0 and 1 are exact.
  const int64_t n = 1 << 20;
  for (double p : {0.0, 1.0, 0.001, 0x1p-26}) {
    Tensor y(DType::u8, {n});
    ASSERT_OK(run_plan<Bernoulli>({DType::u8, {n}, p}, {y, 3, 0}));
    double ones = 0;
    for (double v : y.values()) ones += v;
    EXPECT_LE(std::fabs(ones - p * double(n)), 5 * std::sqrt(double(n) * p * (1 - p)) + (p > 0 && p < 1e-6)) << p;
  }
}
TEST(Dropout, AnySplitThreadsAndInstructionSet) {
  const int64_t n = 20011;
  const Tensor x = Tensor::normal(DType::bf16, {n}, 1);
  Tensor whole(DType::bf16, {n}), mask(DType::boolean, {n});
  ASSERT_OK(run_plan<Dropout>({DType::bf16, {n}, 0.3}, {x, whole, 9, 7, mask}));
  for (int64_t first : {int64_t(0), int64_t(1), int64_t(2), int64_t(3), int64_t(62), int64_t(19000)}) {
    TensorView piece = x.view();
    piece.shape = {999}, piece.data = piece.as<bf16>() + first;
    Tensor y(DType::bf16, {999});
    ASSERT_OK(run_plan<Dropout>({DType::bf16, {999}, 0.3}, {piece, y, 9, 7 + uint64_t(first)}));
    for (int64_t i = 0; i < 999; ++i) ASSERT_EQ(y.at(i), whole.at(first + i)) << first << " " << i;
  }
  for (Isa set : {Isa::portable, Isa::avx2}) {
    limit_isa(set);
    Tensor y(DType::bf16, {n});
    EXPECT_OK(run_plan<Dropout>({DType::bf16, {n}, 0.3}, {x, y, 9, 7}));
    limit_isa(Isa::avx512bf16);
    EXPECT_TRUE(y.same_bits(whole)) << name(set);
  }
  check_repeat_bits<Dropout>({DType::bf16, {n}, 0.3}, {x, whole, 9, 7, mask}, {}, 1);
  check_repeat_bits<DropoutBackward>({DType::bf16, {n}, 0.3}, {x, whole, 9, 7}, {}, 1);
  check_repeat_bits<Bernoulli>({DType::boolean, {n}, 0.3}, {mask, 9, 7}, {}, 1);
  Tensor across(DType::f32, {200}), start(DType::f32, {190});  // offsets wrap
  ASSERT_OK(run_plan<Bernoulli>({DType::f32, {200}}, {across, 1, uint64_t(0) - 10}));
  ASSERT_OK(run_plan<Bernoulli>({DType::f32, {190}}, {start, 1, 0}));
  for (int64_t i = 0; i < 190; ++i) ASSERT_EQ(across.at(10 + i), start.at(i));
}
TEST(Dropout, ContractAndRefusals) {
  const Shape shape{3, 700};
  Tensor x = Tensor::normal(DType::f32, shape, 1), y(DType::f32, shape), mask(DType::boolean, shape), empty(DType::f32, {0});
  check_contract<Dropout>({DType::f32, shape}, {x, y, 1, 0, mask});
  check_contract<DropoutBackward>({DType::f32, shape}, {x, y, 1, 0});
  check_contract<Bernoulli>({DType::f32, shape}, {y, 1, 0, x});
  ASSERT_OK(run_plan<Dropout>({DType::f32, {0}}, {empty, empty, 1, 0}));
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  for (double p : {-0.1, 1.1, double(NAN)}) {
    expect_refused(DropoutPlan::select(s, {DType::f32, shape, p}).status(), bad, {"dropout", "p ", "[0, 1]"});
    expect_refused(BernoulliPlan::select(s, {DType::f32, shape, p}).status(), bad, {"bernoulli", "p ", "[0, 1]"});
  }
  expect_refused(DropoutPlan::select(s, {DType::i32, shape}).status(), Code::unsupported, {"no i32"});
  TensorView shifted = x.view();
  shifted.shape = {3, 100}, shifted.strides = {100, 1}, shifted.data = shifted.as<float>() + 1;
  expect_refused(run_plan<Dropout>({DType::f32, {3, 100}}, {TensorView::dense(x.view().data, DType::f32, {3, 100}), shifted, 1, 0}), bad, {"y overlaps"});
}

}  // namespace
}  // namespace baracuda
