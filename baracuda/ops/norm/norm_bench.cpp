// Bytes over time against a copy of the same volume in the same run: 16 M elements, rows of 4096 and of 512.
#include <benchmark/benchmark.h>
#include "baracuda/ops/norm/norm.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr int64_t kElements = int64_t(1) << 24;

void forward(benchmark::State& state, DType t, int64_t n, bool residual) {
  const Shape shape{kElements / n, n};
  Buffer x(t, shape), weight(t, {n}), y(t, shape), rstd(accumulator(t), {kElements / n});
  RmsNorm::Args a{x, weight, {}, y, {}, rstd};
  if (!residual) return bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 2 * x.bytes());
  Buffer r(t, shape), h(t, shape);
  a.residual = r, a.residual_out = h;
  bench_plan<RmsNorm>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes());
}
void backward(benchmark::State& state, DType t, int64_t n, bool residual) {
  const Shape shape{kElements / n, n};
  Buffer dy(t, shape), x(t, shape), weight(t, {n}), rstd(accumulator(t), {kElements / n}), dx(t, shape), dweight(t, {n});
  RmsNormBackward::Args a{dy, x, weight, rstd, {}, dx, dweight};
  if (!residual) return bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 3 * x.bytes());
  Buffer r(t, shape);
  a.dresidual_out = r;
  bench_plan<RmsNormBackward>(state, {.dtype = t, .shape = shape}, a, 4 * x.bytes());
}
#define NORM_ROWS(T)                                                    \
  BENCHMARK_CAPTURE(forward, T##_4096, DType::T, 4096, false);          \
  BENCHMARK_CAPTURE(forward, T##_512, DType::T, 512, false);            \
  BENCHMARK_CAPTURE(forward, T##_4096_residual, DType::T, 4096, true);  \
  BENCHMARK_CAPTURE(backward, T##_4096, DType::T, 4096, false);         \
  BENCHMARK_CAPTURE(backward, T##_512, DType::T, 512, false);           \
  BENCHMARK_CAPTURE(backward, T##_4096_residual, DType::T, 4096, true);
BARACUDA_BENCH_COPY()
NORM_ROWS(f32)
NORM_ROWS(bf16)
NORM_ROWS(f16)
NORM_ROWS(f64)
}  // namespace
