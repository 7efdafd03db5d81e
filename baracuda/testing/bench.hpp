#pragma once
// Benchmarks report time, bytes per second, and the fraction of the copy bandwidth measured in the same process with the
// same threads, so that a figure says how far from the floor it is.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <chrono>
#include <cstring>
#include "baracuda/core/plan.hpp"
#include "baracuda/testing/tensor.hpp"

namespace baracuda::testing {

// Tensor memory on huge pages where the system gives them; values are normal, the same every time.
class Buffer {
 public:
  Buffer(DType t, const Shape& shape, double std = 1) {
    bytes_ = uint64_t(shape.numel()) * byte_size(t);
    const size_t page = size_t(2) << 20, rounded = (bytes_ + page - 1) / page * page;
    void* p = std::aligned_alloc(page, rounded ? rounded : page);
    madvise(p, rounded, MADV_HUGEPAGE);
    view_ = TensorView::dense(p, t, shape);
    Source source(7);
    double pool[1024];
    for (double& e : pool) e = std * source.normal();
    const size_t size = byte_size(t);
    for (int64_t i = 0; i < shape.numel() && i < 1024; ++i) write_element(t, static_cast<char*>(p) + size_t(i) * size, pool[i]);
    for (uint64_t done = 1024 * size; done < bytes_; done *= 2)
      std::memcpy(static_cast<char*>(p) + done, p, std::min<uint64_t>(done, bytes_ - done));
  }
  ~Buffer() { std::free(view_.data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator const TensorView&() const { return view_; }
  const TensorView& view() const { return view_; }
  uint64_t bytes() const { return bytes_; }

 private:
  TensorView view_;
  uint64_t bytes_;
};

// Read plus write bytes per second of a parallel memcpy of 64 MiB pieces, best of 5; measured once.
inline double copy_bandwidth() {
  static const double best = [] {
    constexpr int64_t n = int64_t(64) << 20;
    Buffer a(DType::u8, {n}), b(DType::u8, {n});
    double most = 0;
    for (int r = 0; r < 5; ++r) {
      const auto t0 = std::chrono::steady_clock::now();
      parallel_for(n >> 18, 1, threads(), [&](int64_t begin, int64_t end, int) {
        std::memcpy(b.view().as<char>() + (begin << 18), a.view().as<char>() + (begin << 18), size_t(end - begin) << 18);
      });
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
      most = std::max(most, 2.0 * n / s);
    }
    return most;
  }();
  return best;
}

// Times plan.run and reports bytes/s, the fraction of the copy bandwidth, and flop/s where given.
template <class Op>
void bench_plan(benchmark::State& state, const typename Op::Descriptor& desc, const typename Op::Args& args, uint64_t bytes, double flops = 0,
                const PlanPreference& preference = {}) {
  auto plan = Plan<Op>::select(Stream::cpu(), desc, preference);
  if (!plan.ok()) return state.SkipWithError(plan.status().to_string().c_str());
  ScratchArena arena;
  auto workspace = arena.get(plan->workspace_size());
  if (!workspace.ok()) return state.SkipWithError(workspace.status().to_string().c_str());
  for (auto _ : state)
    if (Status s = plan->run(Stream::cpu(), *workspace, args); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  using benchmark::Counter;
  if (bytes) {
    state.counters["bytes/s"] = Counter(double(bytes), Counter::kIsIterationInvariantRate);
    state.counters["of_copy"] = Counter(double(bytes) / copy_bandwidth(), Counter::kIsIterationInvariantRate);
  }
  if (flops) state.counters["flop/s"] = Counter(flops, Counter::kIsIterationInvariantRate);
  state.SetLabel(std::string(plan->kernel_name()));
}

inline void bench_copy(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(copy_bandwidth());
  state.counters["bytes/s"] = copy_bandwidth();
}

}  // namespace baracuda::testing

// Registers the copy itself as a row of the report.
#define BARACUDA_BENCH_COPY() BENCHMARK(::baracuda::testing::bench_copy)->Iterations(1)->Name("copy");
