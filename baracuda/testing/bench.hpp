#pragma once
// Benchmarks by wall time. Beside each run of a plan stands a run of its floor, in the same process with the same threads:
// a copy of as many bytes where memory is the limit (a read where nearly nothing is written), a matrix product where arithmetic is. Counters of a benchmark:
//   bytes/s, flop/s    by the median run
//   of_copy, of_read, of_gemm   the plan's rate over that of the floor that ran just before it, median over the runs
//   best_ms, floor_ms  the best run; the time that the plan's bytes or flops take at the floor's best rate
// Names are op/dtype/extents[/words], as in rms_norm/f32/4096x4096/residual.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstring>
#include <functional>
#include "baracuda/core/plan.hpp"
#include "baracuda/host/timing.hpp"
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

// What a plan is held against: `run` does `work` bytes or flops. Without `run` there is none.
struct Floor {
  const char *rate, *quotient;  // the counters: "bytes/s" and "of_copy"
  double work = 0;
  std::function<void()> run;
};

// A copy that moves `bytes`, half of them read and half written past the caches.
inline Floor copy_floor(double bytes) {
  const int64_t n = std::max<int64_t>(64, int64_t(bytes / 2) / 64 * 64);
  const auto from = std::make_shared<Buffer>(DType::u8, Shape{n}), to = std::make_shared<Buffer>(DType::u8, Shape{n});
  return {"bytes/s", "of_copy", 2.0 * double(n), [from, to, n] { copy_past_caches(from->view().data, to->view().data, n); }};
}

// A read of `bytes`: the sum of 64-bit words, in pieces of 256 KiB, with eight sums side by side: memory is the limit.
inline Floor read_floor(double bytes) {
  constexpr int64_t kWords = 32768;
  const int64_t n = std::max<int64_t>(8, int64_t(bytes) / 8);
  const auto from = std::make_shared<Buffer>(DType::u8, Shape{n * 8});
  return {"bytes/s", "of_read", 8.0 * double(n), [from, n] {
    parallel_for((n + kWords - 1) / kWords, 1, threads(), [&](int64_t begin, int64_t end, int) {
      const uint64_t* x = reinterpret_cast<const uint64_t*>(from->view().as<char>());
      uint64_t sum[8] = {};
      for (int64_t i = begin * kWords; i + 8 <= std::min(end * kWords, n); i += 8)
        for (int k = 0; k < 8; ++k) sum[k] += x[i + k];
      for (uint64_t s : sum) benchmark::DoNotOptimize(s);
    });
  }};
}

// Times `run`, which does `work`, in turn with the floor; after three runs the floor rests while it has taken more time.
template <class F> void bench_against(benchmark::State& state, double work, const Floor& floor, F&& run) {
  std::vector<double> own, floors, quotients;
  double own_total = 0, floor_total = 0;
  auto run_floor = [&] { floors.push_back(seconds(floor.run)), floor_total += floors.back(); };
  for (int i = 0; floor.run && i < 2; ++i) run_floor();
  for (auto _ : state) {
    if (floor.run && floor_total <= own_total) run_floor();
    const double s = seconds(run);
    own.push_back(s), own_total += s;
    if (floor.run) quotients.push_back(work / s / (floor.work / floors.back()));
    state.SetIterationTime(s);
  }
  if (own.empty()) return;
  state.counters["best_ms"] = 1e3 * *std::min_element(own.begin(), own.end());
  state.counters[floor.rate] = work / median(own);
  if (!floor.run) return;
  state.counters["floor_ms"] = 1e3 * work / floor.work * *std::min_element(floors.begin(), floors.end());
  state.counters[floor.quotient] = median(quotients);
}
template <class Op>
void bench_plan(benchmark::State& state, const typename Op::Descriptor& desc, const typename Op::Args& args, double work, const Floor& floor,
                const PlanPreference& preference = {}) {
  auto plan = Plan<Op>::select(Stream::cpu(), desc, preference);
  if (!plan.ok()) return state.SkipWithError(plan.status().to_string().c_str());
  ScratchArena arena;
  auto workspace = arena.get(plan->workspace_size());
  if (!workspace.ok()) return state.SkipWithError(workspace.status().to_string().c_str());
  if (Status s = plan->run(Stream::cpu(), *workspace, args); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  bench_against(state, work, floor, [&] { (void)plan->run(Stream::cpu(), *workspace, args); });
  state.SetLabel(std::string(plan->kernel_name()));
}
// Against a copy of the bytes that the plan reads and writes at least.
template <class Op>
void bench_plan(benchmark::State& state, const typename Op::Descriptor& desc, const typename Op::Args& args, uint64_t bytes) {
  bench_plan<Op>(state, desc, args, double(bytes), copy_floor(double(bytes)));
}

inline std::string extents(const Shape& shape) {
  std::string s;
  for (int i = 0; i < shape.rank; ++i) s += text(i ? "x" : "", shape[i]);
  return s;
}
// Registers op/dtype/extents[/words]. `dtype` may name several, as f32>bf16 does for a cast.
template <class Op, class F>
benchmark::internal::Benchmark* bench(std::string_view dtype, std::string_view extents, std::string_view words, F run) {
  const std::string name = text(Op::name, "/", dtype, "/", extents, words.empty() ? "" : "/", words);
  return benchmark::RegisterBenchmark(name.c_str(), std::move(run))->UseManualTime()->Unit(benchmark::kMillisecond);
}
template <class Op, class F>
benchmark::internal::Benchmark* bench(DType dtype, const Shape& shape, std::string_view words, F run) {
  return bench<Op>(name(dtype), extents(shape), words, std::move(run));
}

}  // namespace baracuda::testing
