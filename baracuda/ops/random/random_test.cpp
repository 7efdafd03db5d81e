#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/plan_checks.hpp"
namespace baracuda { namespace {
using namespace testing;
TEST(Random, Normal) {
  for (DType t : {DType::f32, DType::f64, DType::bf16}) {
  Tensor y(t, {1000, 101});
  ASSERT_OK(run_plan<RandomNormal>({t, {1000, 101}, 1, 2}, {y, 7, 3}));
  double s = 0, q = 0;
  for (int64_t i = 0; i < y.numel(); ++i) s += y.at(i), q += (y.at(i) - 1) * (y.at(i) - 1);
  EXPECT_NEAR(s / y.numel(), 1, 0.03); EXPECT_NEAR(q / y.numel(), 4, 0.1);
  }
}
} }
