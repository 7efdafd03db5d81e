// Forward against a read of x's bytes by the team, backward against a copy of the bytes that it reads and writes at least.
#include <benchmark/benchmark.h>
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

void forward(benchmark::State& state, ReduceKind kind, DType t, const Shape& shape, int axis) {
  const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = shape, .axes = {axis}};
  Buffer x(t, shape), y(t, dy_shape(d));
  bench_plan<Reduce>(state, d, {x, y, {}}, double(x.bytes()), read_floor(double(x.bytes())));
}
void backward(benchmark::State& state, ReduceKind kind, DType t, const Shape& shape, int axis) {
  const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = shape, .axes = {axis}};
  Buffer x(t, shape), y(t, dy_shape(d)), dy(t, dy_shape(d)), dx(t, shape), mean(accumulator(t), dy_shape(d));
  const ReduceSaved saved = reduce_saved(kind);
  if (Status s = ReducePlan::select(Stream::cpu(), d).status(); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  ReduceBackward::Args a{dy, {}, {}, {}, dx};
  if (saved.x) a.x = x;
  if (saved.y) a.y = y;
  if (kind == ReduceKind::var || kind == ReduceKind::std) a.mean = mean;
  bench_plan<ReduceBackward>(state, d, a, (saved.x ? 2 : 1) * x.bytes());
}
void index(benchmark::State& state, DType t, const Shape& shape, int axis) {
  Buffer x(t, shape), at(DType::i64, {shape[1 - axis]});
  bench_plan<ArgReduce>(state, {.dtype = t, .shape = shape, .axis = axis}, {x, at, {}}, double(x.bytes()), read_floor(double(x.bytes())));
}
const bool registered = [] {
  struct Case { Shape shape; int axis; };
  const Case cases[] = {{{4096, 4096}, 1}, {{4096, 4096}, 0}, {{262144, 64}, 1}, {{262144, 64}, 0}, {{1, 1 << 24}, 1}, {{64, 512, 2048}, 1}, {{4095, 4097}, 1}, {{4095, 4097}, 0}};
  for (DType t : {DType::f32, DType::bf16})
    for (const Case& c : cases) {
      const std::string axis = text("axis", c.axis);
      for (int k = 0; k <= int(ReduceKind::std); ++k) {
        const ReduceKind kind = ReduceKind(k);
        const std::string words = text(enum_name(kind), "/", axis);
        bench<Reduce>(t, c.shape, words, [=](benchmark::State& s) { forward(s, kind, t, c.shape, c.axis); });
        bench<ReduceBackward>(t, c.shape, words, [=](benchmark::State& s) { backward(s, kind, t, c.shape, c.axis); });
      }
      if (c.shape.rank == 2) bench<ArgReduce>(t, c.shape, text("argmax/", axis), [=](benchmark::State& s) { index(s, t, c.shape, c.axis); });
    }
  return true;
}();
}  // namespace
