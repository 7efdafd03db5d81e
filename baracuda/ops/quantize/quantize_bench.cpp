// Bytes over time against a copy of as many bytes: values once and codes once.
#include "baracuda/ops/quantize/quantize.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

Shape scales_of(const Shape& shape, QuantizeBy by) {
  if (by == QuantizeBy::tensor) return {};
  if (by == QuantizeBy::channel) return {shape[0]};
  return by == QuantizeBy::group ? Shape{shape[0], shape[1] / 128} : Shape{shape[0]};
}
struct Operands {
  Buffer x, q, scale;
  Operands(DType t, const Shape& shape, QuantizeBy by) : x(t, shape), q(DType::i8, shape), scale(DType::f32, scales_of(shape, by)) {
    for (int64_t i = 0; i < scale.view().numel(); ++i) scale.view().as<float>()[i] = 0.03f;
  }
};
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16})
    for (const Shape& shape : {Shape{4096, 4096}, Shape{262144, 64}, Shape{1, 1 << 24}, Shape{4095, 4097}})
      for (QuantizeBy by : {QuantizeBy::tensor, QuantizeBy::channel, QuantizeBy::token, QuantizeBy::group}) {
        if ((by != QuantizeBy::token && shape != Shape{4096, 4096}) || (by == QuantizeBy::tensor && t == DType::bf16)) continue;
        const QuantizeDescriptor d{t, shape, DType::i8, by, 0, 128};
        const auto words = enum_name(by);
        bench<Quantize>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          bench_plan<Quantize>(s, d, {o.x, o.scale, {}, o.q}, o.x.bytes() + o.q.bytes());
        });
        bench<Dequantize>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          bench_plan<Dequantize>(s, d, {o.q, o.scale, {}, o.x}, o.x.bytes() + o.q.bytes());
        });
        bench<FakeQuantize>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          Buffer y(t, shape);
          bench_plan<FakeQuantize>(s, d, {o.x, o.scale, {}, y}, 2 * o.x.bytes());
        });
        bench<QuantizeDynamic>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          bench_plan<QuantizeDynamic>(s, {t, shape, DType::i8, by, 0, 128}, {o.x, o.q, o.scale, {}},
                                      (by == QuantizeBy::tensor || by == QuantizeBy::channel || shape[0] == 1 ? 2 : 1) * o.x.bytes() + o.q.bytes());
        });
        bench<FakeQuantizeBackward>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          Buffer dy(t, shape), dx(t, shape);
          bench_plan<FakeQuantizeBackward>(s, d, {dy, o.x, o.scale, {}, dx, {}, {}}, 3 * o.x.bytes());
        });
        bench<DequantizeBackward>(t, shape, words, [=](benchmark::State& s) {
          Operands o(t, shape, by);
          Buffer dx(t, shape);
          bench_plan<DequantizeBackward>(s, d, {o.x, {}, o.scale, {}, dx, {}, {}}, 2 * o.x.bytes());
        });
      }
  return true;
}();
}  // namespace
