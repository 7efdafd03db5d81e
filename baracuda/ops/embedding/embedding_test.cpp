#include "baracuda/ops/embedding/embedding.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
Shape with_width(Shape s, int64_t width) { s.push_back(width); return s; }

struct Case {
  EmbeddingBackwardDescriptor d;
  Layout layout = Layout::dense;
};
// Indices run from -2 to V + 1, so some are out of range.
void check_values(const Case& c) {
  const EmbeddingBackwardDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " layout ", int(c.layout)));
  const int64_t n = d.indices.numel(), width = d.width, v_count = d.vocabulary;
  const DType t = d.dtype, g = d.grad_dtype.value_or(t);
  const Tensor ids = Tensor::integers(d.index_dtype, d.indices, 1, -2, v_count + 2);
  const Tensor weight = Tensor::normal(t, {v_count, width}, 2, 0, 1, c.layout), dy = Tensor::normal(t, with_width(d.indices, width), 3, 0, 1, c.layout);
  Tensor y(t, with_width(d.indices, width), c.layout);
  ASSERT_OK(run_plan<Embedding>({t, v_count, width, d.indices, d.index_dtype}, {ids, weight, y}));
  for (int64_t i = 0; i < n * width; ++i) {
    const int64_t v = int64_t(ids.at(i / width));
    if (v < 0 || v >= v_count) ASSERT_TRUE(std::isnan(y.at(i)));
    else ASSERT_EQ(y.at(i), weight.at(v * width + i % width));
  }
  EXPECT_TRUE(y.guards_intact());

  Tensor dweight = d.accumulate ? Tensor::normal(g, {v_count, width}, 4, 0, 1, c.layout) : Tensor(g, {v_count, width}, c.layout);
  std::vector<double> want(size_t(v_count * width), 0), scale(size_t(v_count * width), 0);
  if (d.accumulate) want = dweight.values();
  for (size_t i = 0; i < want.size(); ++i) scale[i] = std::fabs(want[i]);
  for (int64_t i = 0; i < n * width; ++i) {
    const int64_t v = int64_t(ids.at(i / width));
    if (v < 0 || v >= v_count || v == d.padding_idx) continue;
    want[size_t(v * width + i % width)] += dy.at(i), scale[size_t(v * width + i % width)] += std::fabs(dy.at(i));
  }
  ASSERT_OK(run_plan<EmbeddingBackward>(d, {dy, ids, dweight}));
  EXPECT_CLOSE(dweight, want, {.ulps = 1, .terms = double(n) / double(v_count + 1)}, &scale);
  EXPECT_TRUE(dweight.guards_intact());
}

TEST(Embedding, ValuesForEveryDtypeAndMode) {
  for (DType t : kDTypesHere)
    for (DType index : {DType::i32, DType::i64})
      for (bool accumulate : {false, true})
        for (bool f32 : {false, true}) {
          EmbeddingBackwardDescriptor d{.dtype = t, .vocabulary = 11, .width = 70, .indices = {5, 9}, .index_dtype = index, .padding_idx = 3, .accumulate = accumulate};
          if (f32) d.grad_dtype = DType::f32;
          check_values({d});
        }
}

}  // namespace
}  // namespace baracuda
