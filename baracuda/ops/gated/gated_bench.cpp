// Bytes over time against a copy of the same volume in the same run.
#include <benchmark/benchmark.h>
#include "baracuda/ops/gated/gated.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr Shape kShape{4096, 4096};

void forward(benchmark::State& state, GatedKind kind, DType t) {
  Buffer gate(t, kShape), up(t, kShape), y(t, kShape);
  bench_plan<Gated>(state, {kind, t, kShape}, {gate, up, y}, 3 * gate.bytes());
}
void backward(benchmark::State& state, GatedKind kind, DType t) {
  Buffer dy(t, kShape), gate(t, kShape), up(t, kShape), dgate(t, kShape), dup(t, kShape);
  bench_plan<GatedBackward>(state, {kind, t, kShape}, {dy, gate, up, dgate, dup}, 5 * gate.bytes());
}
BENCHMARK_CAPTURE(forward, swiglu_f32, GatedKind::swiglu, DType::f32);
BENCHMARK_CAPTURE(forward, swiglu_bf16, GatedKind::swiglu, DType::bf16);
BENCHMARK_CAPTURE(forward, geglu_f32, GatedKind::geglu, DType::f32);
BENCHMARK_CAPTURE(backward, swiglu_f32, GatedKind::swiglu, DType::f32);
BENCHMARK_CAPTURE(backward, swiglu_bf16, GatedKind::swiglu, DType::bf16);
BENCHMARK_CAPTURE(backward, geglu_f32, GatedKind::geglu, DType::f32);
BARACUDA_BENCH_COPY()
}  // namespace
