// The fused loss (flops of its matrix products alone, over kept rows) against the rate of the matrix product of the same
// dtype; cross entropy of given logits against a copy of as many bytes.
#include <cmath>
#include "baracuda/ops/gemm/gemm_floor.hpp"
#include "baracuda/ops/loss/cross_entropy.hpp"
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

struct Fused {
  DType dtype;
  int64_t tokens, hidden, classes;
  bool gradients = true;
  int64_t chunk = 0;
  int keep_of_8 = 8;  // how many of 8 targets are not ignored
};
void fused(benchmark::State& state, const Fused& f) {
  FusedLinearCrossEntropyDescriptor d{.dtype = f.dtype, .tokens = f.tokens, .hidden = f.hidden, .classes = f.classes, .chunk = f.chunk};
  d.grad_x = d.grad_w = f.gradients;
  Buffer x(f.dtype, {f.tokens, f.hidden}), w(f.dtype, {f.classes, f.hidden}, 1 / std::sqrt(double(f.hidden))), dx(f.dtype, {f.tokens, f.hidden}),
      dw(f.dtype, {f.classes, f.hidden}), target(DType::i64, {f.tokens}), loss(DType::f32, {1});
  int64_t kept = 0;
  for (int64_t i = 0; i < f.tokens; ++i) {
    const bool keep = i * 5 % 8 < f.keep_of_8;
    target.view().as<int64_t>()[i] = keep ? i * 7919 % f.classes : -100;
    kept += keep;
  }
  const TensorView none;
  bench_plan<FusedLinearCrossEntropy>(state, d, {x, w, {}, target, {}, {}, loss, {}, f.gradients ? dx.view() : none, f.gradients ? dw.view() : none, {}},
                                      2.0 * double(kept) * double(f.hidden) * double(f.classes) * (f.gradients ? 3 : 1), gemm_floor(f.dtype));
  if (auto plan = FusedLinearCrossEntropyPlan::select(Stream::cpu(), d); plan.ok()) {
    state.counters["chunk"] = double(chunk_rows(*plan));
    state.counters["workspace_MB"] = double(plan->workspace_size()) / 1e6;
  }
}

constexpr int64_t kTokens = 512, kClasses = 32000;
void set_targets(const Buffer& target) {
  for (int64_t i = 0; i < kTokens; ++i) target.view().as<int64_t>()[i] = i * 7919 % kClasses;
}
void forward(benchmark::State& state, DType t, bool gradient) {
  const CrossEntropyDescriptor d{.dtype = t, .tokens = kTokens, .classes = kClasses, .grad_logits = gradient};
  Buffer logits(t, {kTokens, kClasses}), dlogits(t, {kTokens, kClasses}), target(DType::i64, {kTokens}), loss(DType::f32, {1});
  set_targets(target);
  bench_plan<CrossEntropy>(state, d, {logits, target, {}, {}, loss, {}, {}, gradient ? dlogits.view() : TensorView{}}, (1 + gradient) * logits.bytes());
}
void backward(benchmark::State& state, DType t) {
  Buffer logits(t, {kTokens, kClasses}), dlogits(t, {kTokens, kClasses}), target(DType::i64, {kTokens}), lse(DType::f32, {kTokens});
  set_targets(target);
  for (int64_t i = 0; i < kTokens; ++i) lse.view().as<float>()[i] = 10.8f;
  bench_plan<CrossEntropyBackward>(state, {.dtype = t, .tokens = kTokens, .classes = kClasses}, {logits, target, {}, lse, {}, dlogits}, 2 * logits.bytes());
}
const bool registered = [] {
  auto add = [](const Fused& f, std::string words) {
    if (f.gradients) words += words.empty() ? "dx_dw" : "/dx_dw";
    bench<FusedLinearCrossEntropy>(f.dtype, Shape{f.tokens, f.hidden, f.classes}, words, [=](benchmark::State& s) { fused(s, f); });
  };
  for (DType t : {DType::f32, DType::bf16}) {
    add({t, 2048, 512, 32000}, "");
    add({t, 2048, 512, 32000, false}, "");
    add({t, 2048, 512, 32000, true, 0, 2}, "quarter_kept");
    add({t, 1024, 768, 50304}, "");
    add({t, 4096, 128, 256}, "");
    for (int64_t chunk : {64, 128, 256, 512, 1024, 2048}) add({t, 2048, 512, 32000, true, chunk}, text("chunk=", chunk));  // is the default near the best?
    bench<CrossEntropy>(t, Shape{kTokens, kClasses}, "", [=](benchmark::State& s) { forward(s, t, false); });
    bench<CrossEntropy>(t, Shape{kTokens, kClasses}, "dlogits", [=](benchmark::State& s) { forward(s, t, true); });
    bench<CrossEntropyBackward>(t, Shape{kTokens, kClasses}, "", [=](benchmark::State& s) { backward(s, t); });
  }
  return true;
}();
}  // namespace
