#include "baracuda/ops/creation/creation.hpp"
#include <cmath>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kAll[] = {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

TEST(Creation, ArangeCountsAlongAnyAxis) {
  for (DType t : kAll)
    for (Layout layout : kLayouts)
      for (int64_t axis : {0, 1, -1}) {
        Tensor y(t, {3, 5, 4}, layout);
        y.poison();
        ASSERT_OK(run_plan<Arange>({t, {3, 5, 4}, axis, 2, 3}, {y}));
        EXPECT_TRUE(y.guards_intact());
        for (int64_t i = 0; i < 60; ++i) {
          const int64_t k = axis == 0 ? i / 20 : axis == 1 ? i / 4 % 5 : i % 4;
          ASSERT_EQ(y.at(i), t == DType::boolean ? 1 : double(2 + 3 * k)) << name(t) << " " << i;
        }
      }
}
TEST(Creation, ArangeRoundsOnce) {
  for (DType t : kFloats) {
    const int64_t n = 30011;
    Tensor y(t, {n});
    ASSERT_OK(run_plan<Arange>({t, {n}, 0, -1.7, 0.1}, {y}));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.at(i), rounded(t, std::fma(double(i), 0.1, -1.7))) << i;
  }
  Tensor wide(DType::i64, {3}), low(DType::u8, {3}), none(DType::f32, {0});  // exact beyond 2^53, low bits
  ASSERT_OK(run_plan<Arange>({DType::i64, {3}, 0, 0x1p62, 1}, {wide}));
  EXPECT_EQ(*(wide.view().as<int64_t>() + 1), (int64_t(1) << 62) + 1);
  ASSERT_OK(run_plan<Arange>({DType::u8, {3}, 0, 254, 1}, {low}));
  EXPECT_EQ(low.values(), (std::vector<double>{254, 255, 0}));
  ASSERT_OK(run_plan<Arange>({DType::f32, {0}}, {none}));
  EXPECT_EQ(*arange_size(0, 1, 0.1), 10);
  EXPECT_EQ(*arange_size(5, 0, -2), 3);
  EXPECT_EQ(*arange_size(2, 2, 1), 0);
}
TEST(Creation, LinspaceEndsAreExact) {
  for (DType t : kFloats)
    for (int64_t n : {0, 1, 2, 3, 10, 257, 5000})
      for (const auto& [a, b] : {std::pair<double, double>{0, 1}, {-2.5, 7.3}, {0.1, 0.1}, {7, -3}}) {
        Tensor y(t, {n}), back(t, {n}), open(t, {n});
        ASSERT_OK(run_plan<Linspace>({t, {n}, a, b}, {y}));
        ASSERT_OK(run_plan<Linspace>({t, {n}, b, a}, {back}));
        ASSERT_OK(run_plan<Linspace>({t, {n}, a, b, false}, {open}));
        std::vector<double> want, want_open, scale(size_t(n), std::max(std::fabs(a), std::fabs(b)));
        for (int64_t i = 0; i < n; ++i) {
          want.push_back(n == 1 ? a : double((long double)a + ((long double)b - a) * i / (n - 1)));
          want_open.push_back(double((long double)a + ((long double)b - a) * i / n));
        }
        EXPECT_CLOSE(y, want, {.dtype = t}, &scale);
        EXPECT_CLOSE(open, want_open, {.dtype = t}, &scale);
        if (n > 0) EXPECT_EQ(y.at(0), rounded(t, a));
        if (n > 1) EXPECT_EQ(y.at(n - 1), rounded(t, b));
        for (int64_t i = 0; n > 1 && 2 * i < n - 1; ++i) ASSERT_EQ(y.at(i), back.at(n - 1 - i)) << n << " " << i;
      }
  Tensor whole(DType::i32, {5}), far(DType::f64, {3}), powers(DType::f32, {4});
  ASSERT_OK(run_plan<Linspace>({DType::i32, {5}, -3, 3}, {whole}));
  EXPECT_EQ(whole.values(), (std::vector<double>{-3, -1, 0, 1, 3}));
  ASSERT_OK(run_plan<Linspace>({DType::f64, {3}, -1.7e308, 1.7e308}, {far}));  // the difference overflows, the values do not
  EXPECT_EQ(far.values(), (std::vector<double>{-1.7e308, 0, 1.7e308}));
  ASSERT_OK(run_plan<Linspace>({DType::f32, {4}, -1, 2, true, 10}, {powers}));
  EXPECT_CLOSE(powers, (std::vector<double>{0.1, 1, 10, 100}), {.dtype = DType::f32});
}
TEST(Creation, GeometricSpacing) {
  for (DType t : kFloats)
    for (int64_t n : {0, 1, 2, 3, 10, 257})
      for (const auto& [a, b] : {std::pair<double, double>{1, 1000}, {0.01, 0.5}, {-3, -7}, {40, 0.25}, {2, 2}})
        for (bool endpoint : {true, false}) {
          Tensor y(t, {n});
          ASSERT_OK(run_plan<Linspace>({t, {n}, a, b, endpoint, {}, true}, {y}));
          std::vector<double> want;
          const long double log_ratio = std::log((long double)b / a);
          for (int64_t i = 0; i < n; ++i) want.push_back(double(a * std::exp(log_ratio * i / (endpoint ? std::max<int64_t>(1, n - 1) : n))));
          EXPECT_CLOSE(y, want, {.dtype = t, .terms = std::fabs(double(log_ratio))});
          if (n > 0) EXPECT_EQ(y.at(0), rounded(t, a));
          if (n > 1 && endpoint) EXPECT_EQ(y.at(n - 1), rounded(t, b));
        }
  Tensor far(DType::f64, {3}), whole(DType::i32, {4});  // the ratio is beyond f64, the values are not
  ASSERT_OK(run_plan<Linspace>({DType::f64, {3}, 1e-300, 1e300, true, {}, true}, {far}));
  EXPECT_EQ(far.at(0), 1e-300);
  EXPECT_NEAR(far.at(1), 1, 1e-13);
  EXPECT_EQ(far.at(2), 1e300);
  ASSERT_OK(run_plan<Linspace>({DType::i32, {4}, 1.5, 1500, true, {}, true}, {whole}));
  EXPECT_EQ(whole.at(3), 1500);
  EXPECT_EQ(whole.at(0), 1);
}
TEST(Creation, TriangleIndices) {
  for (DType t : {DType::i32, DType::i64})
    for (EyeKind kind : {EyeKind::diagonal, EyeKind::lower, EyeKind::upper})
      for (int64_t rows : {0, 1, 5, 7, 300})
        for (int64_t columns : {0, 1, 4, 7, 211})
          for (int64_t k : {int64_t(0), int64_t(1), int64_t(3), int64_t(-1), int64_t(-4), int64_t(250), int64_t(-250), INT64_MIN, INT64_MAX}) {
            const TriangleIndicesDescriptor d{t, rows, columns, kind, k};
            std::vector<double> r, c;
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j)
                if (kind == EyeKind::diagonal ? j - i == k : kind == EyeKind::lower ? j - i <= k : j - i >= k) r.push_back(double(i)), c.push_back(double(j));
            ASSERT_EQ(d.y_shape(), (Shape{2, int64_t(r.size())})) << describe(d);
            Tensor y(t, d.y_shape(), rows % 2 ? Layout::transposed : Layout::dense);
            ASSERT_OK(run_plan<TriangleIndices>(d, {y}));
            r.insert(r.end(), c.begin(), c.end());
            ASSERT_EQ(y.values(), r) << describe(d);
            EXPECT_TRUE(y.guards_intact());
          }
  const TriangleIndicesDescriptor tall{DType::i64, int64_t(1) << 40, int64_t(1) << 40, EyeKind::diagonal, (int64_t(1) << 40) - 3};  // counted in closed form
  EXPECT_EQ(tall.y_shape(), (Shape{2, 3}));
  Tensor y(DType::i64, {2, 3});
  ASSERT_OK(run_plan<TriangleIndices>(tall, {y}));
  EXPECT_EQ(y.values(), (std::vector<double>{0, 1, 2, 0x1p40 - 3, 0x1p40 - 2, 0x1p40 - 1}));
}
TEST(Creation, Eye) {
  for (DType t : kAll)
    for (Layout layout : kLayouts)
      for (int64_t k : {int64_t(0), int64_t(2), int64_t(-1), INT64_MIN, INT64_MAX})
        for (EyeKind kind : {EyeKind::diagonal, EyeKind::lower, EyeKind::upper}) {
          Tensor y(t, {2, 5, 7}, layout);
          y.poison();
          ASSERT_OK(run_plan<Eye>({t, {2, 5, 7}, kind, k}, {y}));
          EXPECT_TRUE(y.guards_intact());
          for (int64_t i = 0; i < 70; ++i) {
            const int64_t off = i % 7 - i / 7 % 5;
            ASSERT_EQ(y.at(i), kind == EyeKind::diagonal ? off == k : kind == EyeKind::lower ? off <= k : off >= k) << name(t) << " " << i;
          }
        }
}
TEST(Creation, ContractAndRefusals) {
  Tensor y(DType::f32, {3, 400}), line(DType::bf16, {40000});
  check_contract<Arange>({DType::f32, {3, 400}, 1}, {y});
  check_contract<Eye>({DType::f32, {3, 400}}, {y});
  check_contract<Linspace>({DType::bf16, {40000}}, {line});
  Tensor places(DType::i64, {2, 45150});
  const TriangleIndicesDescriptor triangle{.rows = 300, .columns = 300};
  check_contract<TriangleIndices>(triangle, {places});
  check_repeat_bits<TriangleIndices>(triangle, {places}, {}, 1);
  check_repeat_bits<Linspace>({DType::bf16, {40000}, 1, 5}, {line}, {}, 1);
  check_repeat_bits<Arange>({DType::bf16, {40000}, 0, 1, 5}, {line}, {}, 1);
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(ArangePlan::select(s, {DType::f32, {3}, 1}).status(), bad, {"arange", "axis 1"});
  expect_refused(ArangePlan::select(s, {DType::i32, {3}, 0, 0.5}).status(), bad, {"start 0.5", "integers", "i32"});
  expect_refused(ArangePlan::select(s, {DType::f32, {3}, 0, INFINITY}).status(), bad, {"finite"});
  expect_refused(ArangePlan::select(s, {DType::f32, {}}).status(), bad, {"rank 0"});
  expect_refused(arange_size(0, 3, 0).status(), bad, {"step is 0"});
  expect_refused(arange_size(0, 3, -2).status(), bad, {"step -2", "end 3"});
  expect_refused(arange_size(3, 2, 10).status(), bad, {"step 10", "end 2"});  // though the quotient rounds to 0
  expect_refused(arange_size(0, INFINITY, 2).status(), bad, {"finite"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3, 2}}).status(), bad, {"rank 2"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {-1}}).status(), bad, {"[-1]"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3}, NAN}).status(), bad, {"finite"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3}, 0, 1, true, -2}).status(), bad, {"base -2"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3}, 0, 1, true, {}, true}).status(), bad, {"geometric", "start 0"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3}, -1, 1, true, {}, true}).status(), bad, {"geometric", "start -1", "end 1"});
  expect_refused(LinspacePlan::select(s, {DType::f32, {3}, 1, 2, true, 10, true}).status(), bad, {"geometric", "base", "10"});
  expect_refused(TriangleIndicesPlan::select(s, {DType::f32}).status(), bad, {"triangle_indices", "dtype f32", "i32 or i64"});
  expect_refused(TriangleIndicesPlan::select(s, {DType::i64, -1}).status(), bad, {"rows -1"});
  expect_refused(TriangleIndicesPlan::select(s, {DType::i32, int64_t(1) << 32, 1}).status(), bad, {"i32", "4294967296"});
  expect_refused(TriangleIndicesPlan::select(s, {DType::i64, int64_t(1) << 40, int64_t(1) << 40}).status(), bad, {"too many"});
  expect_refused(EyePlan::select(s, {DType::f32, {3}}).status(), bad, {"rank 1"});
  expect_refused(EyePlan::select(s, {DType::f32, {-7, 42}}).status(), bad, {"[-7, 42]"});
}

TEST(Creation, LargerThanTheCaches) {  // written past them, from 64 bytes on
  const int64_t n = (int64_t(24) << 18) + 1003, side = 2600;
  std::vector<float> memory(size_t(side * side + 16));
  float* const y = memory.data() + (0 - reinterpret_cast<uintptr_t>(memory.data())) % 64 / sizeof(float);
  ASSERT_OK(run_plan<Arange>({.dtype = DType::f32, .shape = {n}, .start = 5}, {TensorView::dense(y, DType::f32, {n})}));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], float(i + 5)) << i;
  ASSERT_OK(run_plan<Arange>({.dtype = DType::i32, .shape = {n}, .step = -3}, {TensorView::dense(y, DType::i32, {n})}));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(reinterpret_cast<int32_t*>(y)[i], -3 * i) << i;
  ASSERT_OK(run_plan<Linspace>({.dtype = DType::f32, .shape = {n}, .end = double(n - 1)}, {TensorView::dense(y, DType::f32, {n})}));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], float(i)) << i;
  ASSERT_OK(run_plan<Eye>({.dtype = DType::f32, .shape = {side, side}, .kind = EyeKind::lower}, {TensorView::dense(y, DType::f32, {side, side})}));
  for (int64_t i = 0; i < side * side; ++i) ASSERT_EQ(y[i], float(i % side <= i / side)) << i;
}

}  // namespace
}  // namespace baracuda
