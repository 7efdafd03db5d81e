#include "baracuda/ops/optim/optim.hpp"
#include "baracuda/testing/plan_checks.hpp"
namespace baracuda { namespace {
using namespace testing;
TEST(Optim, case_adamw_step) {
  Tensor p(DType::f32, {1}, {1}), g(DType::f32, {1}, {0.5}), m(DType::f32, {1}, {0}), v(DType::f32, {1}, {0}), norm(DType::f32, {});
  const TensorView ps[] = {p}, gs[] = {g}, ms[] = {m}, vs[] = {v};
  ASSERT_OK(run_plan<AdamW>({}, {.params = ps, .grads = gs, .m = ms, .v = vs, .lr = 0.1}));
  EXPECT_NEAR(p.at(0), 0.899000002, 6e-8);
  ASSERT_OK(run_plan<GlobalNorm>({}, {gs, norm}));
  EXPECT_EQ(norm.at(0), 0.5);
}
} }
