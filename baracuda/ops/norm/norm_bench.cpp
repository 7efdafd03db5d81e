// Bytes over time against a copy of as many bytes: 16 M elements, rows of 4096 and of 512.
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

void forward(benchmark::State& state, DType t, const Shape& shape, bool residual) {
  Buffer x(t, shape), weight(t, {shape[1]}), y(t, shape), rstd(accumulator(t), {shape[0]});
  RmsNorm::Args a{x, weight, {}, y, {}, rstd};
  if (!residual) return bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 2 * x.bytes());
  Buffer r(t, shape), h(t, shape);
  a.residual = r, a.residual_out = h;
  bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes());
}
void backward(benchmark::State& state, DType t, const Shape& shape, bool residual) {
  Buffer dy(t, shape), x(t, shape), weight(t, {shape[1]}), rstd(accumulator(t), {shape[0]}), dx(t, shape), dweight(t, {shape[1]});
  RmsNormBackward::Args a{dy, x, weight, rstd, {}, dx, dweight};
  if (!residual) return bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 3 * x.bytes());
  Buffer r(t, shape);
  a.dresidual_out = r;
  bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (auto [shape, residual] : {std::pair<Shape, bool>{{4096, 4096}, false}, {{32768, 512}, false}, {{4096, 4096}, true}}) {
      const char* words = residual ? "residual" : "";
      bench<RmsNorm>(t, shape, words, [=](benchmark::State& s) { forward(s, t, shape, residual); });
      bench<RmsNormBackward>(t, shape, words, [=](benchmark::State& s) { backward(s, t, shape, residual); });
    }
  return true;
}();
}  // namespace
