// Sums in GB/s read, against a plain sum that may reorder freely, and what a job of the team costs.
#include <benchmark/benchmark.h>

#include <atomic>
#include <vector>

#include "baracuda/host/row_sum.hpp"
#include "baracuda/host/thread_team.hpp"

namespace {
using namespace baracuda;

std::vector<float> ramp(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 1000) * 0.25f - 100;
  return x;
}
void rows(benchmark::State& state) {  // rows x length, threads over rows
  const int64_t count = state.range(0), n = state.range(1);
  const int team = int(state.range(2));
  const auto x = ramp(count * n);
  std::vector<float> y(static_cast<size_t>(count));
  for (auto _ : state) {
    parallel_for(count, 16, team, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) y[size_t(r)] = row_sum<float>(SumOf::values, x.data() + r * n, nullptr, n);
    });
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * count * n * 4);
}
void one_row(benchmark::State& state) {
  const int64_t n = state.range(0);
  const int team = int(state.range(1));
  const auto x = ramp(n);
  std::vector<float> scratch(size_t(sum_chunks(n)));
  for (auto _ : state) benchmark::DoNotOptimize(row_sum<float>(SumOf::values, x.data(), nullptr, n, scratch.data(), team));
  state.SetBytesProcessed(state.iterations() * n * 4);
}
void columns(benchmark::State& state) {
  const int64_t count = state.range(0), n = state.range(1);
  const int team = int(state.range(2));
  const auto x = ramp(count * n);
  std::vector<float> y(static_cast<size_t>(n)), scratch(size_t(column_sum_scratch(count, n)));
  for (auto _ : state) {
    column_sums<float>(SumOf::values, x.data(), n, nullptr, 0, count, n, y.data(), scratch.data(), team);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * count * n * 4);
}
void free_order(benchmark::State& state) {  // the yardstick: eight independent sums
  const auto x = ramp(state.range(0));
  for (auto _ : state) {
    typedef float V __attribute__((vector_size(32), aligned(4), may_alias));
    V s[4] = {};
    for (size_t i = 0; i + 32 <= x.size(); i += 32)
      for (int k = 0; k < 4; ++k) s[k] += *reinterpret_cast<const V*>(x.data() + i + 8 * k);
    benchmark::DoNotOptimize(s);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
void empty_job(benchmark::State& state) {
  set_threads(2);
  for (auto _ : state) parallel_for(2, 1, 2, [](int64_t, int64_t, int) {});
  set_threads(0);
}
void meeting_job(benchmark::State& state) {  // both threads must have begun: there and back
  set_threads(2);
  for (auto _ : state) {
    std::atomic<int> arrived{0};
    parallel_for(2, 1, 2, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < 2) {}
    });
  }
  set_threads(0);
}
BENCHMARK(rows)->Args({4096, 4096, 1})->Args({4096, 4096, 2})->Args({1, 4096, 1})->Args({1, 768, 1})->UseRealTime();
BENCHMARK(one_row)->Args({16 << 20, 1})->Args({16 << 20, 2})->UseRealTime();
BENCHMARK(columns)->Args({4096, 4096, 1})->Args({4096, 4096, 2})->Args({16384, 1024, 1})->Args({2048, 768, 1})->UseRealTime();
BENCHMARK(free_order)->Arg(16 << 20)->Arg(4096)->UseRealTime();
BENCHMARK(empty_job)->UseRealTime();
BENCHMARK(meeting_job)->UseRealTime();

}  // namespace
