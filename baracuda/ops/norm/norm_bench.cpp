// Bytes over time against a copy of as many bytes: 16 M elements, rows of 4096 and of 512.
#include "baracuda/ops/norm/batch_norm.hpp"
#include "baracuda/ops/norm/group_norm.hpp"
#include "baracuda/ops/norm/layer_norm.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

void forward(benchmark::State& state, DType t, const Shape& shape, bool residual) {
  Buffer x(t, shape), weight(t, {shape[1]}), y(t, shape), rstd(accumulator(t), {shape[0]});
  RmsNorm::Args a{x, weight, {}, y, {}, rstd};
  if (!residual) return bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 2 * x.bytes() + weight.bytes());
  Buffer r(t, shape), h(t, shape);
  a.residual = r, a.residual_out = h;
  bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes() + weight.bytes());
}
void backward(benchmark::State& state, DType t, const Shape& shape, bool residual) {
  Buffer dy(t, shape), x(t, shape), weight(t, {shape[1]}), rstd(accumulator(t), {shape[0]}), dx(t, shape), dweight(t, {shape[1]});
  RmsNormBackward::Args a{dy, x, weight, rstd, {}, dx, dweight};
  if (!residual) return bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 3 * x.bytes() + 2 * weight.bytes());
  Buffer r(t, shape);
  a.dresidual_out = r;
  bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes() + 2 * weight.bytes());
}
// LayerNorm, GroupNorm or BatchNorm whose weights have `weights` and statistics `statistics` elements.
template <class Op> void standardize(benchmark::State& state, const typename Op::Descriptor& d, const Shape& weights, const Shape& statistics) {
  Buffer x(d.dtype, d.shape), weight(d.dtype, weights), bias(d.dtype, weights), y(d.dtype, d.shape), mean(accumulator(d.dtype), statistics),
      rstd(accumulator(d.dtype), statistics);
  bench_plan<Op>(state, d, {.x = x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd}, 2 * (x.bytes() + weight.bytes()));
}
template <class Op> void standardize_backward(benchmark::State& state, const typename Op::Descriptor& d, const Shape& weights, const Shape& statistics) {
  Buffer dy(d.dtype, d.shape), x(d.dtype, d.shape), weight(d.dtype, weights), mean(accumulator(d.dtype), statistics, 0.1),
      rstd(accumulator(d.dtype), statistics), dx(d.dtype, d.shape), dweight(d.dtype, weights), dbias(d.dtype, weights);
  bench_plan<Op>(state, d, {dy, x, weight, mean, rstd, dx, dweight, dbias}, 3 * (x.bytes() + weight.bytes()));
}
void infer(benchmark::State& state, const BatchNormDescriptor& d) {
  Buffer x(d.dtype, d.shape), weight(d.dtype, {d.shape[1]}), bias(d.dtype, {d.shape[1]}), mean(d.dtype, {d.shape[1]}), var(d.dtype, {d.shape[1]}), y(d.dtype, d.shape);
  bench_plan<BatchNormInference>(state, d, {x, weight, bias, mean, var, y}, 2 * x.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (auto [shape, residual] : {std::pair<Shape, bool>{{4096, 4096}, false}, {{32768, 512}, false}, {{262144, 64}, false}, {{1, 16777216}, false}, {{4095, 4097}, false}, {{4096, 4096}, true}}) {
      const char* words = residual ? "residual" : "";
      bench<RmsNorm>(t, shape, words, [=](benchmark::State& s) { forward(s, t, shape, residual); });
      bench<RmsNormBackward>(t, shape, words, [=](benchmark::State& s) { backward(s, t, shape, residual); });
    }
  for (DType t : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{4096, 4096}, {262144, 64}, {65536, 256}, {1, 16777216}, {4095, 4097}}) {
      const LayerNormDescriptor d{.dtype = t, .shape = shape};
      bench<LayerNorm>(t, shape, "", [=](benchmark::State& s) { standardize<LayerNorm>(s, d, {shape[1]}, {shape[0]}); });
      bench<LayerNormBackward>(t, shape, "", [=](benchmark::State& s) { standardize_backward<LayerNormBackward>(s, d, {shape[1]}, {shape[0]}); });
    }
    for (const Shape& shape : {Shape{16, 256, 64, 64}, {64, 512, 7, 7}, {262144, 64}, {4096, 4096}}) {
      const BatchNormDescriptor d{.dtype = t, .shape = shape};
      bench<BatchNorm>(t, shape, "", [=](benchmark::State& s) { standardize<BatchNorm>(s, d, {shape[1]}, {shape[1]}); });
      bench<BatchNormBackward>(t, shape, "", [=](benchmark::State& s) { standardize_backward<BatchNormBackward>(s, d, {shape[1]}, {shape[1]}); });
      bench<BatchNormInference>(t, shape, "", [=](benchmark::State& s) { infer(s, d); });
    }
    for (const auto& [shape, groups] : {std::pair<Shape, int64_t>{{16, 256, 64, 64}, 32}, {{16, 256, 64, 64}, 256}, {{64, 512, 7, 7}, 32}}) {
      const GroupNormDescriptor d{.dtype = t, .shape = shape, .groups = groups};
      const std::string words = text("groups", groups);
      bench<GroupNorm>(t, shape, words, [=](benchmark::State& s) { standardize<GroupNorm>(s, d, {d.shape[1]}, {d.shape[0], d.groups}); });
      bench<GroupNormBackward>(t, shape, words, [=](benchmark::State& s) { standardize_backward<GroupNormBackward>(s, d, {d.shape[1]}, {d.shape[0], d.groups}); });
    }
  }
  return true;
}();
}  // namespace
