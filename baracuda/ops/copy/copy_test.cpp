#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/testing/plan_checks.hpp"
namespace baracuda { namespace {
using namespace testing;
TEST(Copy, Casts) {
  const Tensor x = Tensor::normal(DType::f32, {7, 301}, 1);
  Tensor y(DType::bf16, {7, 301}), z(DType::f32, {7,301}, Layout::transposed);
  ASSERT_OK(run_plan<Cast>({DType::f32, DType::bf16, {7, 301}}, {x, y}));
  ASSERT_OK(run_plan<Copy>({DType::f32, {7, 301}}, {x, z}));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), rounded(DType::bf16, x.at(i)));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(z.at(i), x.at(i));
  ASSERT_OK(run_plan<Copy>({DType::f32, {7, 301}}, {z, z}));
  ASSERT_OK(run_plan<Fill>({DType::bf16, {7, 301}}, {y, 1.5}));
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), 1.5);
}
} }
