// Bytes over time against a copy of the same volume in the same run: 16 M elements.
#include <benchmark/benchmark.h>
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr Shape kShape{4096, 4096};

void unary(benchmark::State& state, UnaryKind kind, DType t) {
  Buffer x(t, kShape), y(t, kShape);
  bench_plan<Unary>(state, {kind, t, kShape}, {x, y}, 2 * x.bytes());
}
void unary_backward(benchmark::State& state, UnaryKind kind, DType t) {
  Buffer dy(t, kShape), x(t, kShape), dx(t, kShape);
  bench_plan<UnaryBackward>(state, {kind, t, kShape}, {dy, x, x, dx}, 3 * x.bytes());
}
void binary(benchmark::State& state, BinaryKind kind, DType t) {
  Buffer a(t, kShape), b(t, kShape), y(t, kShape);
  bench_plan<Binary>(state, {kind, t, kShape, kShape}, {a, b, y}, 3 * a.bytes());
}
void binary_backward(benchmark::State& state, BinaryKind kind, DType t) {
  Buffer dy(t, kShape), a(t, kShape), b(t, kShape), da(t, kShape), db(t, kShape);
  bench_plan<BinaryBackward>(state, {kind, t, kShape, kShape}, {dy, a, b, {}, da, db}, 5 * a.bytes());
}
void bias(benchmark::State& state, DType t) {
  Buffer a(t, kShape), b(t, {4096}), y(t, kShape);
  bench_plan<Binary>(state, {BinaryKind::add, t, kShape, {4096}}, {a, b, y}, 2 * a.bytes());
}
void bias_gradient(benchmark::State& state, DType t) {
  Buffer dy(t, kShape), db(t, {4096});
  bench_plan<BinaryBackward>(state, {BinaryKind::add, t, kShape, {4096}}, {dy, {}, {}, {}, {}, db}, dy.bytes());
}
void row_gradient(benchmark::State& state, DType t) {
  Buffer dy(t, kShape), a(t, kShape), db(t, {4096, 1});
  bench_plan<BinaryBackward>(state, {BinaryKind::mul, t, kShape, {4096, 1}}, {dy, a, {}, {}, {}, db}, 2 * dy.bytes());
}
void cast(benchmark::State& state, DType from, DType to) {
  Buffer x(from, kShape), y(to, kShape);
  bench_plan<Cast>(state, {from, to, kShape}, {x, y}, x.bytes() + y.bytes());
}
void transpose(benchmark::State& state, DType t) {
  Buffer x(t, kShape), y(t, kShape);
  TensorView turned = x;
  turned.strides = {1, 4096};
  bench_plan<Copy>(state, {t, kShape}, {turned, y}, 2 * x.bytes());
}
void fill(benchmark::State& state, DType t) {
  Buffer y(t, kShape);
  bench_plan<Fill>(state, {t, kShape}, {y, 1.5}, y.bytes());
}
void normal(benchmark::State& state, DType t) {
  Buffer y(t, kShape);
  bench_plan<RandomNormal>(state, {t, kShape}, {y, 1, 0}, y.bytes());
}
void uniform(benchmark::State& state, DType t) {
  Buffer y(t, kShape);
  bench_plan<RandomUniform>(state, {t, kShape}, {y, 1, 0}, y.bytes());
}

const int registered = [] {
  for (DType t : {DType::f32, DType::bf16})
    for (int k = 0; k < kUnaryKinds; ++k) {
      const UnaryKind kind = UnaryKind(k);
      benchmark::RegisterBenchmark(text("unary/", enum_name(kind), "/", t).c_str(), [=](benchmark::State& s) { unary(s, kind, t); });
      benchmark::RegisterBenchmark(text("unary_backward/", enum_name(kind), "/", t).c_str(), [=](benchmark::State& s) { unary_backward(s, kind, t); });
    }
  for (DType t : {DType::f32, DType::bf16})
    for (int k = 0; k < kBinaryKinds; ++k) {
      const BinaryKind kind = BinaryKind(k);
      benchmark::RegisterBenchmark(text("binary/", enum_name(kind), "/", t).c_str(), [=](benchmark::State& s) { binary(s, kind, t); });
    }
  return 0;
}();
BENCHMARK_CAPTURE(binary_backward, mul_f32, BinaryKind::mul, DType::f32);
BENCHMARK_CAPTURE(binary_backward, div_f32, BinaryKind::div, DType::f32);
BENCHMARK_CAPTURE(bias, f32, DType::f32);
BENCHMARK_CAPTURE(bias_gradient, f32, DType::f32);
BENCHMARK_CAPTURE(bias_gradient, bf16, DType::bf16);
BENCHMARK_CAPTURE(row_gradient, f32, DType::f32);
BENCHMARK_CAPTURE(cast, f32_bf16, DType::f32, DType::bf16);
BENCHMARK_CAPTURE(cast, bf16_f32, DType::bf16, DType::f32);
BENCHMARK_CAPTURE(cast, f32_f16, DType::f32, DType::f16);
BENCHMARK_CAPTURE(cast, f64_bf16, DType::f64, DType::bf16);
BENCHMARK_CAPTURE(cast, f32_i32, DType::f32, DType::i32);
BENCHMARK_CAPTURE(cast, i64_f32, DType::i64, DType::f32);
BENCHMARK_CAPTURE(transpose, f32, DType::f32);
BENCHMARK_CAPTURE(transpose, bf16, DType::bf16);
BENCHMARK_CAPTURE(fill, f32, DType::f32);
BENCHMARK_CAPTURE(normal, f32, DType::f32);
BENCHMARK_CAPTURE(normal, bf16, DType::bf16);
BENCHMARK_CAPTURE(normal, f64, DType::f64);
BENCHMARK_CAPTURE(uniform, f32, DType::f32);
BARACUDA_BENCH_COPY()
}  // namespace
