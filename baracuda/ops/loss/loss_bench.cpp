// The fused loss against the rate of the matrix product of the same dtype, cross entropy of given logits against the
// copy bandwidth. The two sides of a fraction are measured in turn, run by run, so that what else the machine does
// weighs on both; of_gemm is the median of wall times, of_gemm_cpu that of processor time over all threads, which other
// programs hardly change.
#include <algorithm>
#include <cmath>
#include <ctime>
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/ops/loss/cross_entropy.hpp"
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;
using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

// A product of 2048 x 2048 x 2048 by the row that select prefers.
class Product {
 public:
  explicit Product(DType t) : a_(t, {kN, kN}), b_(t, {kN, kN}), c_(DType::f32, {kN, kN}) {
    plan_ = GemmPlan::select(Stream::cpu(), {.dtype = t, .out = DType::f32, .m = kN, .n = kN, .k = kN, .batch = {}}).value();
    workspace_ = arena_.get(plan_->workspace_size()).value();
  }
  double run() {
    const auto t0 = Clock::now();
    plan_->run(Stream::cpu(), workspace_, {a_, b_, c_, {}}).value();
    return seconds(t0);
  }
  static constexpr double flops() { return 2.0 * kN * kN * kN; }
  std::string name() const { return std::string(plan_->kernel_name()); }

 private:
  static constexpr int64_t kN = 2048;
  Buffer a_, b_, c_;
  std::optional<GemmPlan> plan_;
  ScratchArena arena_;
  Workspace workspace_;
};

enum Gradients { kNone, kBoth };
// keep_of_8: how many of 8 targets are not ignored.
void fused(benchmark::State& state, DType t, Gradients gradients, int64_t tokens, int64_t hidden, int64_t classes, int64_t chunk, int keep_of_8 = 8) {
  FusedLinearCrossEntropyDescriptor d{.dtype = t, .tokens = tokens, .hidden = hidden, .classes = classes, .chunk = chunk};
  d.grad_x = d.grad_w = gradients == kBoth;
  Buffer x(t, {tokens, hidden}), w(t, {classes, hidden}, 1 / std::sqrt(double(hidden))), dx(t, {tokens, hidden}), dw(t, {classes, hidden}),
      target(DType::i64, {tokens}), loss(DType::f32, {1});
  int64_t kept = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    const bool keep = i * 5 % 8 < keep_of_8;
    target.view().as<int64_t>()[i] = keep ? i * 7919 % classes : -100;
    kept += keep;
  }
  auto plan = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d);
  if (!plan.ok()) return state.SkipWithError(plan.status().to_string().c_str());
  ScratchArena arena;
  const Workspace workspace = arena.get(plan->workspace_size()).value();
  Product product(t);
  std::vector<double> times, product_times, cpu, product_cpu;
  for (auto _ : state) {
    const double c0 = cpu_seconds();
    product_times.push_back(product.run());
    const double c1 = cpu_seconds();
    const auto t0 = Clock::now();
    plan->run(Stream::cpu(), workspace,
              {x, w, {}, target, {}, {}, loss, {}, gradients ? dx.view() : TensorView{}, gradients ? dw.view() : TensorView{}, {}}).value();
    times.push_back(seconds(t0));
    cpu.push_back(cpu_seconds() - c1), product_cpu.push_back(c1 - c0);
    state.SetIterationTime(times.back());
  }
  const double flops = 2.0 * double(kept) * double(hidden) * double(classes) * (gradients ? 3 : 1);
  const double rate = flops / median(times), product_rate = Product::flops() / median(product_times);
  state.counters["flop/s"] = rate;
  state.counters["gemm_flop/s"] = product_rate;
  state.counters["of_gemm"] = rate / product_rate;
  state.counters["of_gemm_cpu"] = flops / median(cpu) / (Product::flops() / median(product_cpu));
  state.counters["tokens/s"] = double(tokens) / median(times);
  state.counters["chunk"] = double(chunk_rows(*plan));
  state.counters["workspace_MB"] = double(plan->workspace_size()) / 1e6;
  state.SetLabel(std::string(plan->kernel_name()) + " against " + product.name());
}
#define FUSED(name, ...) BENCHMARK_CAPTURE(fused, name, __VA_ARGS__)->UseManualTime()->Unit(benchmark::kMillisecond)
FUSED(f32_2048x512x32000, DType::f32, kBoth, 2048, 512, 32000, 0)->Iterations(9);
FUSED(bf16_2048x512x32000, DType::bf16, kBoth, 2048, 512, 32000, 0)->Iterations(9);
FUSED(f32_loss_only_2048x512x32000, DType::f32, kNone, 2048, 512, 32000, 0)->Iterations(9);
FUSED(bf16_loss_only_2048x512x32000, DType::bf16, kNone, 2048, 512, 32000, 0)->Iterations(9);
FUSED(f32_quarter_kept_2048x512x32000, DType::f32, kBoth, 2048, 512, 32000, 0, 2)->Iterations(9);
FUSED(bf16_1024x768x50304, DType::bf16, kBoth, 1024, 768, 50304, 0)->Iterations(5);
FUSED(f32_4096x128x256, DType::f32, kBoth, 4096, 128, 256, 0)->Iterations(15);
FUSED(bf16_4096x128x256, DType::bf16, kBoth, 4096, 128, 256, 0)->Iterations(15);
// What the chunk costs: the default must not be far from the best of these.
#define CHUNK(rows)                                                                                            \
  FUSED(f32_2048x512x32000_chunk_##rows, DType::f32, kBoth, 2048, 512, 32000, rows)->Iterations(5);          \
  FUSED(bf16_2048x512x32000_chunk_##rows, DType::bf16, kBoth, 2048, 512, 32000, rows)->Iterations(5);
CHUNK(64)
CHUNK(128)
CHUNK(256)
CHUNK(512)
CHUNK(1024)
CHUNK(2048)

void forward(benchmark::State& state, DType t, bool gradient) {
  constexpr int64_t tokens = 512, classes = 32000;
  CrossEntropyDescriptor d{.dtype = t, .tokens = tokens, .classes = classes, .grad_logits = gradient};
  Buffer logits(t, {tokens, classes}), dlogits(t, {tokens, classes}), target(DType::i64, {tokens}), loss(DType::f32, {1});
  for (int64_t i = 0; i < tokens; ++i) target.view().as<int64_t>()[i] = i * 7919 % classes;
  bench_plan<CrossEntropy>(state, d, {logits, target, {}, {}, loss, {}, {}, gradient ? dlogits.view() : TensorView{}}, (1 + gradient) * logits.bytes());
}
void backward(benchmark::State& state, DType t) {
  constexpr int64_t tokens = 512, classes = 32000;
  Buffer logits(t, {tokens, classes}), dlogits(t, {tokens, classes}), target(DType::i64, {tokens}), lse(DType::f32, {tokens});
  for (int64_t i = 0; i < tokens; ++i) target.view().as<int64_t>()[i] = i * 7919 % classes, lse.view().as<float>()[i] = 10.8f;
  bench_plan<CrossEntropyBackward>(state, {.dtype = t, .tokens = tokens, .classes = classes}, {logits, target, {}, lse, {}, dlogits}, 2 * logits.bytes());
}
BENCHMARK_CAPTURE(forward, f32, DType::f32, false)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(forward, bf16, DType::bf16, false)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(forward, f32_with_gradient, DType::f32, true)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(forward, bf16_with_gradient, DType::bf16, true)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(backward, f32, DType::f32)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(backward, bf16, DType::bf16)->Unit(benchmark::kMillisecond)->UseRealTime();
BARACUDA_BENCH_COPY()
}  // namespace
