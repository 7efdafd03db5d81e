// Useful flops (visible scores only) against the rate of a 1024^3 matrix product of the same dtype by the best row, which
// runs right before each attention run: `of_gemm` is the median of the quotients.
#include <benchmark/benchmark.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include "baracuda/ops/attention/attention.hpp"
#include "baracuda/ops/gemm/gemm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

double seconds(auto f) {
  const auto t0 = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
}
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}
SdpaDescriptor causal(DType t, int64_t b, int64_t h, int64_t hk, int64_t s, int64_t d) {
  return {.dtype = t, .batch = b, .heads = h, .kv_heads = hk, .q_len = s, .k_len = s, .head_dim = d, .causal = true};
}
double visible(const SdpaDescriptor& d) {
  double n = 0;
  for (int64_t i = 0; i < d.q_len; ++i) {
    const int64_t p = i + d.k_len - d.q_len, lo = d.window_left < 0 ? 0 : std::max<int64_t>(0, p - d.window_left);
    n += double((d.causal ? std::min(p + 1, d.k_len) : d.k_len) - lo);
  }
  return n * double(d.batch * d.heads);
}

// One run of Op after one of the matrix product, and so on.
template <class Op> void against_gemm(benchmark::State& state, const typename Op::Descriptor& d, const typename Op::Args& args, double flops) {
  constexpr int64_t kSide = 1024;
  static_assert(std::is_same_v<typename Op::Descriptor, SdpaDescriptor>);
  Buffer a(d.dtype, {kSide, kSide}), b(d.dtype, {kSide, kSide}), c(d.dtype, {kSide, kSide});
  auto gemm = GemmPlan::select(Stream::cpu(), {.dtype = d.dtype, .m = kSide, .n = kSide, .k = kSide});
  auto plan = Plan<Op>::select(Stream::cpu(), d);
  if (!gemm.ok() || !plan.ok()) return state.SkipWithError((gemm.ok() ? plan.status() : gemm.status()).to_string().c_str());
  ScratchArena gemm_arena, arena;
  const Workspace gemm_workspace = gemm_arena.get(gemm->workspace_size()).value(), workspace = arena.get(plan->workspace_size()).value();
  std::vector<double> product, own, quotient;
  for (auto _ : state) {
    product.push_back(seconds([&] { gemm->run(Stream::cpu(), gemm_workspace, {a, b, c, {}}).value(); }));
    own.push_back(seconds([&] { plan->run(Stream::cpu(), workspace, args).value(); }));
    state.SetIterationTime(own.back());
    quotient.push_back(flops / own.back() / (2.0 * kSide * kSide * kSide / product.back()));
  }
  state.counters["flop/s"] = flops / median(own);
  state.counters["gemm flop/s"] = 2.0 * kSide * kSide * kSide / median(product);
  state.counters["of_gemm"] = median(quotient);
  state.SetLabel(std::string(plan->kernel_name()) + " against " + std::string(gemm->kernel_name()));
}

struct Tensors {
  Buffer q, k, v, y, lse, dy, dq, dk, dv;
  explicit Tensors(const SdpaDescriptor& d)
      : q(d.dtype, {d.batch, d.heads, d.q_len, d.head_dim}), k(d.dtype, {d.batch, d.hk(), d.k_len, d.head_dim}),
        v(d.dtype, {d.batch, d.hk(), d.k_len, d.dv()}), y(d.dtype, {d.batch, d.heads, d.q_len, d.dv()}),
        lse(accumulator(d.dtype), {d.batch, d.heads, d.q_len}), dy(d.dtype, y.view().shape), dq(d.dtype, q.view().shape),
        dk(d.dtype, k.view().shape), dv(d.dtype, v.view().shape) {}
};
void forward(benchmark::State& state, const SdpaDescriptor& d) {
  Tensors t(d);
  against_gemm<FlashSdpa>(state, d, {t.q, t.k, t.v, t.y, t.lse, {}, {}, {}, {}}, 2 * visible(d) * double(d.head_dim + d.dv()));
}
void backward(benchmark::State& state, const SdpaDescriptor& d) {
  Tensors t(d);
  auto plan = FlashSdpaPlan::select(Stream::cpu(), d);
  ScratchArena arena;
  plan->run(Stream::cpu(), arena.get(plan->workspace_size()).value(), {t.q, t.k, t.v, t.y, t.lse, {}, {}, {}, {}}).value();
  against_gemm<FlashSdpaBackward>(state, d, {t.dy, t.q, t.k, t.v, t.y, t.lse, t.dq, t.dk, t.dv, {}, {}, {}, {}, {}},
                                  visible(d) * double(6 * d.head_dim + 4 * d.dv()));
}
// One query over a filled cache: bytes of k and v against a copy.
void decode(benchmark::State& state, const SdpaDescriptor& d) {
  Tensors t(d);
  bench_plan<FlashSdpa>(state, d, {t.q, t.k, t.v, t.y, t.lse, {}, {}, {}, {}}, t.k.bytes() + t.v.bytes());
}

#define ATTENTION_BENCH(name, ...)                                          \
  BENCHMARK_CAPTURE(forward, name, __VA_ARGS__)->UseManualTime();           \
  BENCHMARK_CAPTURE(backward, name, __VA_ARGS__)->UseManualTime()
ATTENTION_BENCH(f32_d64, causal(DType::f32, 2, 8, 8, 1024, 64));
ATTENTION_BENCH(f32_d128, causal(DType::f32, 2, 8, 8, 1024, 128));
ATTENTION_BENCH(bf16_d64, causal(DType::bf16, 2, 8, 8, 1024, 64));
ATTENTION_BENCH(bf16_d128, causal(DType::bf16, 2, 8, 8, 1024, 128));
ATTENTION_BENCH(f16_d64, causal(DType::f16, 2, 8, 8, 1024, 64));
ATTENTION_BENCH(f64_d64, causal(DType::f64, 2, 8, 8, 1024, 64));
ATTENTION_BENCH(bf16_gqa4_d64, causal(DType::bf16, 2, 8, 2, 1024, 64));
ATTENTION_BENCH(bf16_s4096_d128, causal(DType::bf16, 1, 8, 2, 4096, 128));
ATTENTION_BENCH(f32_s256_d64, causal(DType::f32, 8, 8, 8, 256, 64));

constexpr SdpaDescriptor kDecode{.batch = 1, .heads = 32, .kv_heads = 8, .q_len = 1, .k_len = 8192, .head_dim = 128};
SdpaDescriptor decoding(DType t, int64_t hk) {
  SdpaDescriptor d = kDecode;
  d.dtype = t, d.kv_heads = hk;
  return d;
}
BENCHMARK_CAPTURE(decode, f32_32_heads_8_shared, decoding(DType::f32, 8));
BENCHMARK_CAPTURE(decode, f32_32_heads, decoding(DType::f32, 32));
BENCHMARK_CAPTURE(decode, bf16_32_heads_8_shared, decoding(DType::bf16, 8));
BENCHMARK_CAPTURE(decode, bf16_32_heads, decoding(DType::bf16, 32));
BARACUDA_BENCH_COPY()
}  // namespace
