// flop/s of each row over shapes of a transformer's linear layers (n k = 192 ... 768, vocabulary 32000, one decoded token)
// and small squares, with 1 and 2 threads. `max` over the repetitions is the figure to compare where a machine is shared:
//   gemm_bench --benchmark_repetitions=7 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

struct BenchShape { const char* what; int64_t m, n, k; bool trans_a, trans_b; };
constexpr BenchShape kShapes[] = {
    {"y=xW^T", 2048, 768, 768, false, true},   {"dx=dyW", 2048, 768, 768, false, false},     {"dW=dy^Tx", 768, 768, 2048, true, false},
    {"y=xW^T", 4096, 192, 192, false, true},   {"dW=dy^Tx", 192, 192, 4096, true, false},    {"y=xW^T", 4096, 512, 192, false, true},
    {"logits", 1024, 32000, 512, false, true}, {"dx=dlogitsW", 1024, 512, 32000, false, false}, {"dW=dlogits^Tx", 32000, 512, 1024, true, false},
    {"token", 1, 2048, 768, false, true},      {"tokens", 8, 768, 768, false, true},         {"square", 512, 512, 512, false, false},
    {"square", 128, 128, 128, false, false},   {"square", 64, 64, 64, false, false}};
struct BenchTypes { const char* name; DType in, out; };
constexpr BenchTypes kTypes[] = {{"f32", DType::f32, DType::f32}, {"bf16>f32", DType::bf16, DType::f32}, {"bf16", DType::bf16, DType::bf16}};

void product(benchmark::State& state, const BenchShape& s, const BenchTypes& t, std::string_view row, int team) {
  const GemmDescriptor d{.dtype = t.in, .out = t.out, .m = s.m, .n = s.n, .k = s.k, .trans_a = s.trans_a, .trans_b = s.trans_b};
  Buffer a(t.in, s.trans_a ? Shape{s.k, s.m} : Shape{s.m, s.k}), b(t.in, s.trans_b ? Shape{s.n, s.k} : Shape{s.k, s.n}), c(t.out, {s.m, s.n});
  set_threads(team);
  bench_plan<Gemm>(state, d, {a, b, c, {}}, 0, 2.0 * double(s.m) * double(s.n) * double(s.k), {.require_kernel = row});
  set_threads(0);
}
[[maybe_unused]] const bool registered = [] {
  for (const BenchShape& s : kShapes)
    for (const BenchTypes& t : kTypes)
      for (int team : {1, 2})
        for (const Kernel<Gemm>& row : Gemm::kernels()) {
          if (!row.launch[t.in]) continue;
          auto* b = benchmark::RegisterBenchmark(
              text("gemm/", t.name, "/", s.what, "/", s.m, "x", s.n, "x", s.k, "/", row.name, "/threads:", team).c_str(),
              [=](benchmark::State& state) { product(state, s, t, row.name, team); });
          // One thread: its own processor time, which a neighbour on the machine does not stretch.
          if (team > 1) b->UseRealTime();
          b->MinTime(0.02)->Unit(benchmark::kMicrosecond)->ComputeStatistics("max", [](const std::vector<double>& v) {
            return *std::max_element(v.begin(), v.end());
          });
        }
  return true;
}();
}  // namespace
