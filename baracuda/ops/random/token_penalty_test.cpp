#include "baracuda/ops/random/token_penalty.hpp"
#include <cmath>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(TokenPenalty, ByTheFormula) {
  const int64_t rows = 6, n = 50;
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::every_other})
      for (DType it : {DType::i32, DType::i64})
        for (bool tensors : {false, true})
          for (bool prompted : {false, true}) {
            TokenPenaltyDescriptor d{.dtype = t, .shape = {2, 3, n}, .length = 40, .prompt_length = 9, .index_dtype = it};
            if (!tensors) d.repetition = 1.25, d.frequency = 0.5, d.presence = -0.75;
            Tensor x = Tensor::normal(t, d.shape, 1, 0, 3, layout), y(t, d.shape, layout);
            x.set(3, NAN), x.set(4, -INFINITY), x.set(5, INFINITY), x.set(6, -0.0);
            const Tensor tokens = Tensor::integers(it, {2, 3, 40}, 2, -5, n), prompt = Tensor::integers(it, {2, 3, 9}, 3, -1, n);
            const Tensor rep = Tensor::uniform(DType::f32, {2, 3}, 4, 0.5, 2), freq = Tensor::uniform(DType::f32, {2, 3}, 5, -1, 1), pres = Tensor::uniform(DType::f32, {2, 3}, 6, -1, 1);
            const Tensor none;
            ASSERT_OK(run_plan<TokenPenalty>(d, {x, tokens, y, prompted ? prompt : none, tensors ? rep : none, tensors ? freq : none, tensors ? pres : none}));
            EXPECT_TRUE(y.guards_intact());
            for (int64_t r = 0; r < rows; ++r) {
              const double repetition = tensors ? rep.at(r) : d.repetition, frequency = tensors ? freq.at(r) : d.frequency, presence = tensors ? pres.at(r) : d.presence;
              for (int64_t k = 0; k < n; ++k) {
                double v = x.at(r * n + k), count = 0;
                bool there = false;
                for (int64_t j = 0; j < 40; ++j) count += tokens.at(r * 40 + j) == double(k);
                for (int64_t j = 0; prompted && j < 9; ++j) there |= prompt.at(r * 9 + j) == double(k);
                if (count > 0 || there) v = v > 0 ? v / repetition : v * repetition;
                if (count > 0) v = v - frequency * count - presence;
                const double got = y.at(r * n + k), want = rounded(t, v);
                ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << describe(d) << " row " << r << " token " << k << ": " << got << " for " << want;
              }
            }
            if (tensors) continue;
            ASSERT_OK(run_plan<TokenPenalty>(d, {x, tokens, x, prompted ? prompt : none, {}, {}, {}}));  // in place
            EXPECT_TRUE(x.same_bits(y));
          }
}
TEST(TokenPenalty, ContractAndRefusals) {
  const Tensor x = Tensor::normal(DType::f32, {40, 300}, 1), tokens = Tensor::integers(DType::i64, {40, 20}, 2, -1, 300), prompt = Tensor::integers(DType::i64, {40, 7}, 2, -1, 300);
  const Tensor factor = Tensor::uniform(DType::f32, {40}, 3, 1, 2);
  Tensor y(DType::f32, {40, 300}), empty(DType::i64, {40, 0});
  const TokenPenaltyDescriptor d{.shape = {40, 300}, .length = 20, .prompt_length = 7, .frequency = 0.1, .presence = 0.2};
  check_contract<TokenPenalty>(d, {x, tokens, y, prompt, factor});
  check_repeat_bits<TokenPenalty>(d, {x, tokens, y, prompt, factor}, {}, 1);
  ASSERT_OK(run_plan<TokenPenalty>({.shape = {40, 300}, .repetition = 2}, {x, empty, y}));
  EXPECT_TRUE(y.same_bits(x));
  const auto bad = Code::invalid_problem;
  const Stream s = Stream::cpu();
  Tensor beyond = tokens;
  beyond.set(25, 300);
  if (!on_cuda()) expect_refused(run_plan<TokenPenalty>(d, {x, beyond, y}), bad, {"token_penalty", "tokens has 300 in row 1", "extent 300"});
  expect_refused(run_plan<TokenPenalty>(d, {x, tokens, y, {}, {}, factor}), bad, {"frequency is given twice"});
  expect_refused(TokenPenaltyPlan::select(s, {.shape = {4}, .repetition = 0}).status(), bad, {"repetition 0"});
  expect_refused(TokenPenaltyPlan::select(s, {.shape = {4}, .presence = NAN}).status(), bad, {"presence nan"});
  expect_refused(TokenPenaltyPlan::select(s, {.shape = {4}, .length = -1}).status(), bad, {"length -1"});
  expect_refused(TokenPenaltyPlan::select(s, {.shape = {}}).status(), bad, {"rank 0"});
  expect_refused(TokenPenaltyPlan::select(s, {.shape = {4}, .index_dtype = DType::u8}).status(), bad, {"index_dtype u8"});
}

}  // namespace
}  // namespace baracuda
