#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/testing/plan_checks.hpp"
namespace baracuda { namespace {
using namespace testing;
TEST(Elementwise, Add) {
  const Tensor a = Tensor::normal(DType::f32, {7, 301}, 1), b = Tensor::normal(DType::f32, {301}, 2);
  Tensor y(DType::f32, {7, 301});
  ASSERT_OK(run_plan<Binary>({BinaryKind::add, DType::f32, {7, 301}, {301}}, {a, b, y}));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), double(float(a.at(i)) + float(b.at(i % 301))));
  Tensor da(DType::f32, {7, 301}), db(DType::f32, {301});
  ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, DType::f32, {7, 301}, {301}}, {y, a, b, {}, da, db}));
  for (int64_t j = 0; j < 301; ++j) {
    double s = 0;
    for (int64_t i = 0; i < 7; ++i) s += double(float(y.at(i * 301 + j)) * float(a.at(i * 301 + j)));
    ASSERT_NEAR(db.at(j), s, 1e-6 * (1 + std::fabs(s)));
  }
}
} }
