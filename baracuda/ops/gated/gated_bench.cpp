// Bytes over time against a copy of as many bytes.
#include "baracuda/ops/gated/gated_quantize.hpp"
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
void quantize(benchmark::State& state, DType t) {
  Buffer gate(t, kShape), up(t, kShape), scale(DType::f32, {1}), y(DType::f8_e4m3fn, kShape);
  *scale.view().as<float>() = 0.01f;
  bench_plan<GatedQuantize>(state, {GatedKind::swiglu, t, kShape}, {gate, up, scale, y}, 2 * gate.bytes() + y.bytes());
}
void quantize_dynamic(benchmark::State& state, DType t) {
  Buffer gate(t, kShape), up(t, kShape), y(DType::f8_e4m3fn, kShape), scale(DType::f32, {kShape[0]});
  bench_plan<GatedQuantizeDynamic>(state, {GatedKind::swiglu, t, kShape}, {gate, up, y, scale}, 2 * gate.bytes() + y.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16}) {
    bench<GatedQuantize>(t, kShape, "swiglu", [=](benchmark::State& s) { quantize(s, t); });
    bench<GatedQuantizeDynamic>(t, kShape, "swiglu", [=](benchmark::State& s) { quantize_dynamic(s, t); });
    for (GatedKind k : {GatedKind::swiglu, GatedKind::geglu}) {
      bench<Gated>(t, kShape, enum_name(k), [=](benchmark::State& s) { forward(s, k, t); });
      bench<GatedBackward>(t, kShape, enum_name(k), [=](benchmark::State& s) { backward(s, k, t); });
    }
  }
  return true;
}();
}  // namespace
