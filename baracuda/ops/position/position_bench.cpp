// Bytes over time against a copy of the same volume in the same run: 16 M elements.
#include <benchmark/benchmark.h>
#include "baracuda/ops/position/position.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

void rope(benchmark::State& state, DType t, Shape shape, RopePairing pairing, bool heads_inside) {
  Buffer x(t, shape), y(t, shape);
  TensorView from = x, to = y;
  if (heads_inside) from.strides = to.strides = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  bench_plan<Rope>(state, {.dtype = t, .shape = shape, .pairing = pairing}, {from, {}, to, 0}, 2 * x.bytes());
}
void rope_backward(benchmark::State& state, DType t, Shape shape) {
  Buffer x(t, shape), y(t, shape);
  bench_plan<RopeBackward>(state, {.dtype = t, .shape = shape}, {x, {}, y, 0}, 2 * x.bytes());
}
void append(benchmark::State& state, DType t) {
  const Shape shape{4, 8, 2048, 128}, cache{4, 8, 4096, 128};
  Buffer k(t, shape), v(t, shape), k_cache(t, cache), v_cache(t, cache);
  bench_plan<KvCacheAppend>(state, {t, 4, 8, 2048, 4096, 128, {}}, {k, v, {}, k_cache, v_cache, 1000}, 4 * k.bytes());
}
#define ROPE_ROWS(T)                                                                                                       \
  BENCHMARK_CAPTURE(rope, T##_4_16_2048_128, DType::T, Shape{4, 16, 2048, 128}, RopePairing::half_split, false);          \
  BENCHMARK_CAPTURE(rope, T##_4_16_2048_128_interleaved, DType::T, Shape{4, 16, 2048, 128}, RopePairing::interleaved, false); \
  BENCHMARK_CAPTURE(rope, T##_8_16_2048_64_heads_inside, DType::T, Shape{8, 16, 2048, 64}, RopePairing::half_split, true);  \
  BENCHMARK_CAPTURE(rope, T##_1_1_131072_128, DType::T, Shape{1, 1, 131072, 128}, RopePairing::half_split, false);        \
  BENCHMARK_CAPTURE(rope_backward, T##_4_16_2048_128, DType::T, Shape{4, 16, 2048, 128});                                 \
  BENCHMARK_CAPTURE(append, T, DType::T);
BARACUDA_BENCH_COPY()
ROPE_ROWS(f32)
ROPE_ROWS(bf16)
}  // namespace
