// Useful flops (visible scores only) against the rate of the matrix product of the same dtype; decoding against a copy of
// as many bytes as the keys and values have.
#include "baracuda/ops/attention/attention.hpp"
#include "baracuda/ops/gemm/gemm_floor.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

SdpaDescriptor causal(DType t, int64_t b, int64_t h, int64_t hk, int64_t s, int64_t d) {
  return {.dtype = t, .batch = b, .heads = h, .kv_heads = hk, .q_len = s, .k_len = s, .head_dim = d, .causal = true};
}
struct Tensors {
  Buffer q, k, v, y, lse, dy, dq, dk, dv;
  explicit Tensors(const SdpaDescriptor& d)
      : q(d.dtype, {d.batch, d.heads, d.q_len, d.head_dim}), k(d.dtype, {d.batch, d.hk(), d.k_len, d.head_dim}),
        v(d.dtype, {d.batch, d.hk(), d.k_len, d.dv()}), y(d.dtype, {d.batch, d.heads, d.q_len, d.dv()}),
        lse(accumulator(d.dtype), {d.batch, d.heads, d.q_len}), dy(d.dtype, y.view().shape), dq(d.dtype, q.view().shape),
        dk(d.dtype, k.view().shape), dv(d.dtype, v.view().shape) {}
  FlashSdpa::Args forward() const { return {q, k, v, y, lse, {}, {}, {}, {}}; }
};
void forward(benchmark::State& state, const SdpaDescriptor& d) {
  Tensors t(d);
  bench_plan<FlashSdpa>(state, d, t.forward(), FlashSdpa::flops(d), gemm_floor(d.dtype));
}
void backward(benchmark::State& state, const SdpaDescriptor& d) {
  Tensors t(d);
  const auto plan = FlashSdpaPlan::select(Stream::cpu(), d).value();
  ScratchArena arena;
  plan.run(Stream::cpu(), arena.get(plan.workspace_size()).value(), t.forward()).value();
  bench_plan<FlashSdpaBackward>(state, d, {t.dy, t.q, t.k, t.v, t.y, t.lse, t.dq, t.dk, t.dv, {}, {}, {}, {}, {}},
                                FlashSdpaBackward::flops(d), gemm_floor(d.dtype));
}
void decode(benchmark::State& state, const SdpaDescriptor& d) {  // one query over a filled cache
  Tensors t(d);
  bench_plan<FlashSdpa>(state, d, t.forward(), t.k.bytes() + t.v.bytes());
}
const bool registered = [] {
  auto add = [](const SdpaDescriptor& d) {
    const std::string words = text("causal", d.hk() == d.heads ? "" : text("/kv_heads=", d.hk()));
    const Shape shape{d.batch, d.heads, d.q_len, d.head_dim};
    bench<FlashSdpa>(d.dtype, shape, words, [=](benchmark::State& s) { forward(s, d); });
    bench<FlashSdpaBackward>(d.dtype, shape, words, [=](benchmark::State& s) { backward(s, d); });
  };
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t dim : {64, 128}) add(causal(t, 2, 8, 8, 1024, dim));
  add(causal(DType::f16, 2, 8, 8, 1024, 64));
  add(causal(DType::f64, 2, 8, 8, 1024, 64));
  add(causal(DType::bf16, 2, 8, 2, 1024, 64));
  add(causal(DType::bf16, 1, 8, 2, 4096, 128));
  add(causal(DType::f32, 8, 8, 8, 256, 64));
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t kv_heads : {8, 32}) {
      const SdpaDescriptor d{.dtype = t, .batch = 1, .heads = 32, .kv_heads = kv_heads, .q_len = 1, .k_len = 8192, .head_dim = 128};
      bench<FlashSdpa>(t, Shape{1, 32, 1, 128}, text("keys=8192/kv_heads=", kv_heads), [=](benchmark::State& s) { decode(s, d); });
    }
  return true;
}();
}  // namespace
