#pragma once
// For benchmarks: the rate of the matrix product that select prefers, 2048 cubed, f32 sums, as the floor of plans that are
// bound by arithmetic.
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/testing/bench.hpp"

namespace baracuda::testing {

inline Floor gemm_floor(DType t) {
  constexpr int64_t kSide = 2048;
  struct Product {
    Buffer a, b, c;
    GemmPlan plan;
    ScratchArena arena;
    Workspace workspace;
  };
  const DType sums = accumulator(t);
  const GemmPlan plan = GemmPlan::select(Stream::cpu(), {.dtype = t, .out = sums, .m = kSide, .n = kSide, .k = kSide}).value();
  const std::shared_ptr<Product> p(new Product{{t, {kSide, kSide}}, {t, {kSide, kSide}}, {sums, {kSide, kSide}}, plan, ScratchArena(), {}});
  p->workspace = p->arena.get(plan.workspace_size()).value();
  return {"flop/s", "of_gemm", 2.0 * kSide * kSide * kSide, [p] { p->plan.run(Stream::cpu(), p->workspace, {p->a, p->b, p->c, {}}).value(); }};
}

}  // namespace baracuda::testing
