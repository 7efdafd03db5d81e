// Special values, and faults that are known from other libraries.
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/ops/reduce/reduce_others_math.hpp"
#include "baracuda/ops/reduce/reduce_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr double kInfinity = INFINITY;
constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// y of one row, and its gradient for dy = 1.
double reduce(ReduceDescriptor d, const std::vector<double>& x) {
  d.shape = {int64_t(x.size())};
  Tensor y(y_dtype(d), dy_shape(d));
  EXPECT_OK(run_plan<Reduce>(d, {Tensor(d.dtype, d.shape, x), y, {}}));
  return y.at(0);
}
std::vector<double> gradient(ReduceDescriptor d, const std::vector<double>& values) {
  d.shape = {int64_t(values.size())};
  const Tensor x(d.dtype, d.shape, values), dy(d.dtype, {}, {1});
  Tensor y(d.dtype, {}), dx(d.dtype, d.shape);
  EXPECT_OK(run_plan<Reduce>(d, {x, y, {}}));
  EXPECT_OK(run_plan<ReduceBackward>(d, {dy, x, y, {}, dx}));
  return dx.values();
}
void expect_near(const std::vector<double>& got, const std::vector<double>& want, double relative) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], relative * std::fabs(want[i])) << i;
}
using Values = std::vector<double>;

TEST(ReduceCases, case_prod_bwd_one_zero) {
  for (DType t : kFloats) {
    EXPECT_EQ(gradient({.kind = ReduceKind::prod, .dtype = t}, {2, 0, 3, 4}), (Values{0, 24, 0, 0}));
    EXPECT_EQ(gradient({.kind = ReduceKind::prod, .dtype = t}, {2, 0, 3, 0}), (Values{0, 0, 0, 0}));
    EXPECT_EQ(gradient({.kind = ReduceKind::prod, .dtype = t}, {0.25, 0, 0.125, -0.5, 0.5}), (Values{0, -0.0078125, 0, 0, 0}));
  }
}
// What CUDA computes it with, on the host: one element taken out of a product of all, with a zero among small factors.
TEST(ReduceCases, case_prod_bwd_one_zero_by_division) {
  using namespace reduce_others;
  for (const Values& x : {Values{0.25, 0, 0.125, -0.5, 0.5}, Values{1e-3, -1e-5, 0, 1e-7}, Values{1e-300, 1e-300, 1e300}, Values{4, 0, 8, 0}}) {
    Total all{1, 0};
    for (double v : x) {
      const bool finite = plain(v);
      double m = finite ? v : sign_of(v);
      const int64_t e = split(m);
      all = joined(all, {m, e * 64 + (finite ? 0 : unit_of(v))});
    }
    for (size_t i = 0; i < x.size(); ++i) {
      long double others = 1;
      for (size_t k = 0; k < x.size(); ++k) others *= k == i ? 1 : x[k];
      EXPECT_NEAR(without(all, x[i]), double(others), 1e-14 * std::fabs(double(others))) << i;
    }
  }
}
TEST(ReduceCases, case_prod_bwd_range) {
  expect_near(gradient({.kind = ReduceKind::prod}, {1e-30, 1e-30, 1e30, 1e30, 2}), {2e30, 2e30, 2e-30, 2e-30, 1}, 1e-6);
  Values far;  // only the whole product is in range, in either order
  for (int i = 0; i < 5000; ++i) far.push_back(i < 2500 ? 1e30 : 1e-30);
  EXPECT_NEAR(reduce({.kind = ReduceKind::prod}, far), 1, 1e-3);
  const Values g = gradient({.kind = ReduceKind::prod}, far);
  EXPECT_NEAR(g[0] / 1e-30, 1, 1e-3);
  EXPECT_NEAR(g[4999] / 1e30, 1, 1e-3);
  EXPECT_NEAR(reduce({.kind = ReduceKind::prod, .dtype = DType::f64}, {1e300, 1e300, 1e-310, 1e-290}), 1, 1e-6);
  EXPECT_EQ(reduce({.kind = ReduceKind::prod}, {kInfinity, -2}), -kInfinity);
  EXPECT_TRUE(std::isnan(reduce({.kind = ReduceKind::prod}, {kInfinity, 0})));
  EXPECT_EQ(reduce({.kind = ReduceKind::prod}, Values(200, -1)), 1);
}
TEST(ReduceCases, case_prod_second_derivative) {  // not offered: there is no op to ask for it
  EXPECT_EQ(gradient({.kind = ReduceKind::prod, .dtype = DType::f64}, {2, 3, 0, 0}), (Values{0, 0, 0, 0}));
}
TEST(ReduceCases, case_max_bwd_ties) {
  for (DType t : kFloats) {
    EXPECT_EQ(gradient({.kind = ReduceKind::max, .dtype = t}, {0.6, 0.6, 0.3}), (Values{0.5, 0.5, 0}));
    EXPECT_EQ(gradient({.kind = ReduceKind::max, .dtype = t}, {1, 1}), (Values{0.5, 0.5}));
    EXPECT_EQ(gradient({.kind = ReduceKind::min, .dtype = t, .ties = ReduceTies::first}, {1, 1}), (Values{1, 0}));
    EXPECT_EQ(gradient({.kind = ReduceKind::max, .dtype = t, .ties = ReduceTies::last}, {1, 1}), (Values{0, 1}));
    EXPECT_EQ(gradient({.kind = ReduceKind::max, .dtype = t}, {1, NAN, 3, NAN}), (Values{0, 0.5, 0, 0.5}));
    EXPECT_EQ(gradient({.kind = ReduceKind::max, .dtype = t}, {-0.0, 0, -1}), (Values{0.5, 0.5, 0}));
  }
}
TEST(ReduceCases, case_std_bwd_constant) {
  EXPECT_EQ(gradient({.kind = ReduceKind::std}, {1, 1, 1, 1}), Values(4, 0));
  const ReduceDescriptor d{.kind = ReduceKind::std, .shape = {16, 3}, .axes = {0}};
  const Tensor x(DType::f32, d.shape, Values(48, 0)), dy(DType::f32, {3}, {1, 1, 1});
  Tensor y(DType::f32, {3}), dx(DType::f32, d.shape);
  ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
  ASSERT_OK(run_plan<ReduceBackward>(d, {dy, x, y, {}, dx}));
  EXPECT_EQ(y.values(), Values(3, 0));
  EXPECT_EQ(dx.values(), Values(48, 0));
}
TEST(ReduceCases, case_norm2_overflow) {
  EXPECT_EQ(reduce({.kind = ReduceKind::norm2}, {1e20, 1, 1}), rounded(DType::f32, 1e20));
  expect_near(gradient({.kind = ReduceKind::norm2}, {1e20, 1, 1}), {1, 1e-20, 1e-20}, 1e-6);
  for (double scale : {1e-40, 1e-20, 1e18, 1e37}) EXPECT_NEAR(reduce({.kind = ReduceKind::norm2}, {3 * scale, 4 * scale}) / scale, 5, scale < 1e-37 ? 1e-4 : 1e-6) << scale;
  for (double scale : {1e-310, 1e-200, 1e-160, 1e150, 1e200, 1e307}) {
    EXPECT_NEAR(reduce({.kind = ReduceKind::norm2, .dtype = DType::f64}, {3 * scale, 4 * scale}) / scale, 5, 1e-12) << scale;
    Values row(9000, 0);
    row[3] = 3 * scale, row[8000] = 4 * scale;  // in two chunks
    EXPECT_NEAR(reduce({.kind = ReduceKind::norm2, .dtype = DType::f64}, row) / scale, 5, 1e-12) << scale;
  }
  EXPECT_EQ(reduce({.kind = ReduceKind::norm2, .dtype = DType::f64}, {1e200, kInfinity}), kInfinity);
  EXPECT_TRUE(std::isnan(reduce({.kind = ReduceKind::norm2, .dtype = DType::f64}, {1e200, NAN, kInfinity})));
  EXPECT_EQ(gradient({.kind = ReduceKind::norm2}, {0, 0}), Values(2, 0));
}
TEST(ReduceCases, case_var_one_element) {
  for (ReduceKind kind : {ReduceKind::var, ReduceKind::std}) {
    EXPECT_TRUE(std::isnan(reduce({.kind = kind}, {5})));
    EXPECT_EQ(reduce({.kind = kind, .correction = 0}, {5}), 0);
    EXPECT_TRUE(std::isnan(reduce({.kind = kind, .correction = 3}, {1, 3})));
    for (double g : gradient({.kind = kind, .correction = 3}, {1, 3})) EXPECT_TRUE(std::isnan(g));
    EXPECT_EQ(gradient({.kind = kind, .correction = 0}, {5}), Values{0});
  }
}
TEST(ReduceCases, case_var_cancellation) {
  EXPECT_LE(reduce({.kind = ReduceKind::std}, Values(100, 0.2345)), 1e-7);
  Values far(50, 1e12 - 1);
  far.insert(far.end(), 50, 1e12 + 1);
  EXPECT_EQ(reduce({.kind = ReduceKind::std, .dtype = DType::f64, .correction = 0}, far), 1);
  for (DType t : {DType::f32, DType::f64})
    for (double outlier : {0.0, 1e6}) {  // also where the first element is far from the rest
      const ReduceDescriptor d{.kind = ReduceKind::var, .dtype = t, .shape = {10000}};
      Tensor x = Tensor::normal(t, d.shape, 3, 1e4, 1), y(t, {});
      if (outlier) x.set(0, outlier);
      ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
      const Reduced want = oracle_row(d, x.values());
      EXPECT_CLOSE(y, Values{want.y}, (Tolerance{.dtype = t, .ulps = 1, .terms = 10000}));
    }
  EXPECT_NEAR(reduce({.kind = ReduceKind::std}, {1e30, -1e30, 1e30, -1e30}) / 1e30, std::sqrt(4 / 3.0), 1e-6);
}
TEST(ReduceCases, case_sum_f16_stall) {
  EXPECT_EQ(reduce({.dtype = DType::f16}, Values(4096, 1)), 4096);
  EXPECT_EQ(reduce({.kind = ReduceKind::mean, .dtype = DType::f16}, Values(4096, 1)), 1);
}
TEST(ReduceCases, case_mean_f16_overflow) {
  EXPECT_EQ(reduce({.kind = ReduceKind::mean, .dtype = DType::f16}, Values(70000, 1)), 1);
  EXPECT_EQ(reduce({.kind = ReduceKind::mean, .dtype = DType::f16}, Values(2048, 60000)), 60000);
  EXPECT_EQ(reduce({.dtype = DType::f16}, Values(70000, 1)), kInfinity);
}
TEST(ReduceCases, case_max_nan) {
  for (ReduceKind kind : {ReduceKind::max, ReduceKind::min, ReduceKind::sum, ReduceKind::logsumexp, ReduceKind::var, ReduceKind::norm2, ReduceKind::prod}) {
    EXPECT_TRUE(std::isnan(reduce({.kind = kind}, {4, NAN, 7})));
    const Shape shape{1025, 1025};  // NaN at every position, along rows and down columns
    Tensor x(DType::f32, shape, Values(1025 * 1025, 2)), y(DType::f32, {1025});
    for (int64_t i = 0; i < 1025; ++i) x.set(i * 1026, i % 2 ? NAN : -NAN);
    for (int axis : {0, 1}) {
      ASSERT_OK(run_plan<Reduce>({.kind = kind, .shape = shape, .axes = {axis}}, {x, y, {}}));
      for (int64_t i = 0; i < 1025; ++i) ASSERT_TRUE(std::isnan(y.at(i))) << enum_name(kind) << ' ' << i;
    }
  }
}
TEST(ReduceCases, case_min_all_nan) {
  for (DType t : kFloats) {
    for (ReduceKind kind : {ReduceKind::min, ReduceKind::max}) EXPECT_TRUE(std::isnan(reduce({.kind = kind, .dtype = t}, {NAN, NAN})));
    EXPECT_TRUE(std::isnan(reduce({.kind = ReduceKind::max, .dtype = t}, {-kInfinity, NAN})));
    EXPECT_EQ(reduce({.kind = ReduceKind::max, .dtype = t}, {-kInfinity, -kInfinity}), -kInfinity);
  }
}
TEST(ReduceCases, case_reduce_empty_axis) {
  const Shape shape{36, 0};
  const Tensor x(DType::f32, shape);
  for (auto [kind, want] : {std::pair{ReduceKind::sum, 0.0}, {ReduceKind::prod, 1.0}, {ReduceKind::mean, NAN}, {ReduceKind::logsumexp, -kInfinity},
                            {ReduceKind::norm2, 0.0}, {ReduceKind::var, NAN}, {ReduceKind::std, NAN}}) {
    Tensor y(DType::f32, {36}), none(DType::f32, {0}), dx(DType::f32, shape);
    ASSERT_OK(run_plan<Reduce>({.kind = kind, .shape = shape, .axes = {1}}, {x, y, {}}));
    for (int64_t i = 0; i < 36; ++i) EXPECT_TRUE(y.at(i) == want || (std::isnan(want) && std::isnan(y.at(i)))) << enum_name(kind);
    EXPECT_OK(run_plan<Reduce>({.kind = kind, .shape = shape, .axes = {0}}, {x, none, {}}));
    EXPECT_OK(run_plan<ReduceBackward>({.kind = kind, .shape = shape, .axes = {1}}, {y, x, y, {}, dx}));
  }
  for (ReduceKind kind : {ReduceKind::max, ReduceKind::min}) {
    Tensor none(DType::f32, {0});
    expect_refused(ReducePlan::select(Stream::cpu(), {.kind = kind, .shape = shape, .axes = {1}}).status(), Code::invalid_problem, {enum_name(kind), "[36, 0]", "without elements"});
    EXPECT_OK(run_plan<Reduce>({.kind = kind, .shape = shape, .axes = {0}}, {x, none, {}}));
  }
  Tensor any(DType::boolean, {36});
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::any, .shape = shape, .axes = {1}}, {x, any, {}}));
  EXPECT_EQ(any.values(), Values(36, 0));
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::all, .shape = shape, .axes = {1}}, {x, any, {}}));
  EXPECT_EQ(any.values(), Values(36, 1));
}
TEST(ReduceCases, case_logsumexp_all_neginf) {
  EXPECT_EQ(reduce({.kind = ReduceKind::logsumexp}, {-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_EQ(gradient({.kind = ReduceKind::logsumexp}, {-kInfinity, -kInfinity}), Values(2, 0));
  const ReduceDescriptor d{.kind = ReduceKind::logsumexp, .shape = {2, 2}, .axes = {1}};
  const Tensor x(DType::f32, d.shape, {-kInfinity, -kInfinity, 0, 0}), dy(DType::f32, {2}, {1, 1});
  Tensor y(DType::f32, {2}), dx(DType::f32, d.shape);
  ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
  ASSERT_OK(run_plan<ReduceBackward>(d, {dy, x, y, {}, dx}));
  expect_near(dx.values(), {0, 0, 0.5, 0.5}, 1e-6);
  EXPECT_EQ(dx.at(0), 0);
}
TEST(ReduceCases, case_logsumexp_posinf) {
  for (DType t : kFloats) {
    EXPECT_EQ(reduce({.kind = ReduceKind::logsumexp, .dtype = t}, {kInfinity, 1}), kInfinity);
    EXPECT_EQ(reduce({.kind = ReduceKind::logsumexp, .dtype = t}, {kInfinity, kInfinity}), kInfinity);
    EXPECT_TRUE(std::isnan(reduce({.kind = ReduceKind::logsumexp, .dtype = t}, {NAN, 1})));
    EXPECT_EQ(gradient({.kind = ReduceKind::logsumexp, .dtype = t}, {kInfinity, 1, kInfinity, -kInfinity}), (Values{0.5, 0, 0.5, 0}));
  }
  Values row(9000, 1);
  row[7000] = kInfinity;
  EXPECT_EQ(reduce({.kind = ReduceKind::logsumexp}, row), kInfinity);
  EXPECT_NEAR(reduce({.kind = ReduceKind::logsumexp}, Values(9000, 1000)), 1000 + std::log(9000.0), 1e-4);
}
TEST(ReduceCases, case_softmax_bf16_512) {
  EXPECT_EQ(reduce({.kind = ReduceKind::logsumexp, .dtype = DType::bf16}, Values(512, 0)), 6.25);
}
TEST(ReduceCases, case_sum_int32_widen) {
  EXPECT_EQ(reduce({.dtype = DType::i32}, {2147483647, 2147483647}), 4294967294.0);
  EXPECT_EQ(reduce({.dtype = DType::u8}, Values(300, 1)), 300);
  EXPECT_EQ(reduce({.dtype = DType::u8, .out_dtype = DType::u8}, Values(300, 1)), 44);  // asked for: it wraps
}
TEST(ReduceCases, case_dlpack_negative_stride) {
  double memory[12];
  for (int i = 0; i < 12; ++i) memory[i] = i;
  const Shape shape{3, 4};
  TensorView flipped = TensorView::dense(memory + 3, shape);
  flipped.strides = {4, -1};
  Tensor y(DType::f64, {3});
  ASSERT_OK(run_plan<Reduce>({.dtype = DType::f64, .shape = shape, .axes = {1}}, {flipped, y, {}}));
  EXPECT_EQ(y.values(), (Values{6, 22, 38}));
}
// 2^31 and more elements behind few bytes: strides of 0.
TEST(ReduceCases, case_reduce_2g_elements) {
  int8_t one = 1;
  int64_t y[2] = {};
  TensorView x = TensorView::dense(&one, {1});
  x.shape = {2, 1200000000}, x.strides = {0, 0};
  const Shape two{2}, none{};
  ASSERT_OK(run_plan<Reduce>({.dtype = DType::i8, .shape = x.shape, .axes = {1}}, {x, TensorView::dense(y, two), {}}));
  EXPECT_TRUE(y[0] == 1200000000 && y[1] == 1200000000);
}

}  // namespace
}  // namespace baracuda
