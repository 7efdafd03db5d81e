// What a plan costs on the host: select of a row of ours without and with the cache, run of a tiny plan.
#include <benchmark/benchmark.h>
#include "baracuda/ops/gated/gated.hpp"

namespace {
using namespace baracuda;

void select_uncached(benchmark::State& state) {  // a preference by name is never cached
  for (auto _ : state) {
    auto plan = GatedPlan::select(Stream::cpu(), {.shape = {4, 8}}, {.require_kernel = "gated.cpu.map"});
    benchmark::DoNotOptimize(plan);
  }
}
void select_cached(benchmark::State& state) {
  for (auto _ : state) {
    auto plan = GatedPlan::select(Stream::cpu(), {.shape = {4, 8}});
    benchmark::DoNotOptimize(plan);
  }
}
void run_tiny(benchmark::State& state) {
  float gate[8] = {1, 2, 3}, up[8] = {1, 1, 1}, y[8];
  const auto plan = GatedPlan::select(Stream::cpu(), {.kind = GatedKind::reglu, .shape = {8}}).value();
  const Gated::Args args{TensorView::dense(gate, {8}), TensorView::dense(up, {8}), TensorView::dense(y, {8})};
  for (auto _ : state) {
    Status s = plan.run(Stream::cpu(), Workspace::none(), args);
    benchmark::DoNotOptimize(s);
  }
}
BENCHMARK(select_uncached)->UseRealTime();
BENCHMARK(select_cached)->UseRealTime();
BENCHMARK(run_tiny)->UseRealTime();
}  // namespace
