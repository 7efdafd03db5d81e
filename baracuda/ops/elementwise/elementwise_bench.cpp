// Bytes over time against a copy of as many bytes, gradients of broadcast operands against a read: 16 M elements.
#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr Shape kShape{4096, 4096};

void unary(benchmark::State& state, UnaryKind kind, DType t) {
  Buffer x(t, kShape), y(result_dtype(kind, t), kShape);
  bench_plan<Unary>(state, {kind, t, kShape}, {x, y}, x.bytes() + y.bytes());
}
void unary_backward(benchmark::State& state, UnaryKind kind, DType t) {
  Buffer dy(t, kShape), x(t, kShape), dx(t, kShape);
  bench_plan<UnaryBackward>(state, {kind, t, kShape}, {dy, x, x, dx}, 3 * x.bytes());
}
void binary(benchmark::State& state, BinaryKind kind, DType t) {
  Buffer a(t, kShape), b(t, kShape), y(result_dtype(kind, t), kShape);
  bench_plan<Binary>(state, {kind, t, kShape, kShape}, {a, b, y}, a.bytes() + b.bytes() + y.bytes());
}
void binary_backward(benchmark::State& state, BinaryKind kind, DType t) {
  Buffer dy(t, kShape), a(t, kShape), b(t, kShape), da(t, kShape), db(t, kShape);
  bench_plan<BinaryBackward>(state, {kind, t, kShape, kShape}, {dy, a, b, {}, da, db}, 5 * a.bytes());
}
void bias(benchmark::State& state, DType t) {
  Buffer a(t, kShape), b(t, {4096}), y(t, kShape);
  bench_plan<Binary>(state, {BinaryKind::add, t, kShape, {4096}}, {a, b, y}, 2 * a.bytes());
}
// Of an operand of one row or one column.
void sum_gradient(benchmark::State& state, BinaryKind kind, DType t, const Shape& operand) {
  Buffer dy(t, kShape), a(t, kShape), db(t, operand);
  const double bytes = double(dy.bytes()) * (saved_for_db(kind).a ? 2 : 1);
  bench_plan<BinaryBackward>(state, {kind, t, kShape, operand}, {dy, a, {}, {}, {}, db}, bytes, read_floor(bytes));
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

const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16}) {
    for (int i = 0; i < kUnaryKinds; ++i) {
      const UnaryKind k = UnaryKind(i);
      if (!takes(k, t)) continue;
      bench<Unary>(t, kShape, enum_name(k), [=](benchmark::State& s) { unary(s, k, t); });
      if (has_gradient(k, t)) bench<UnaryBackward>(t, kShape, enum_name(k), [=](benchmark::State& s) { unary_backward(s, k, t); });
    }
    for (int i = 0; i < kBinaryKinds; ++i) {
      const BinaryKind k = BinaryKind(i);
      if (takes(k, t)) bench<Binary>(t, kShape, enum_name(k), [=](benchmark::State& s) { binary(s, k, t); });
    }
    for (BinaryKind k : {BinaryKind::mul, BinaryKind::div})
      bench<BinaryBackward>(t, kShape, enum_name(k), [=](benchmark::State& s) { binary_backward(s, k, t); });
    bench<Binary>(t, kShape, "add/one_row", [=](benchmark::State& s) { bias(s, t); });
    for (BinaryKind k : {BinaryKind::add, BinaryKind::mul}) {
      bench<BinaryBackward>(t, kShape, text(enum_name(k), "/one_row"), [=](benchmark::State& s) { sum_gradient(s, k, t, {4096}); });
      bench<BinaryBackward>(t, kShape, text(enum_name(k), "/one_column"), [=](benchmark::State& s) { sum_gradient(s, k, t, {4096, 1}); });
    }
    bench<Copy>(t, kShape, "transposed", [=](benchmark::State& s) { transpose(s, t); });
    bench<Fill>(t, kShape, "", [=](benchmark::State& s) { fill(s, t); });
    bench<RandomNormal>(t, kShape, "", [=](benchmark::State& s) { normal(s, t); });
    bench<RandomUniform>(t, kShape, "", [=](benchmark::State& s) { uniform(s, t); });
  }
  for (auto [from, to] : {std::pair{DType::f32, DType::bf16}, {DType::bf16, DType::f32}, {DType::f32, DType::f16}, {DType::f64, DType::bf16},
                          {DType::f32, DType::i32}, {DType::i64, DType::f32}, {DType::f32, DType::f8_e4m3fn}, {DType::bf16, DType::f8_e4m3fn}, {DType::bf16, DType::f8_e5m2},
                          {DType::f8_e4m3fn, DType::bf16}, {DType::f8_e4m3fn, DType::f32}})
    bench<Cast>(text(from, ">", to), extents(kShape), "", [from = from, to = to](benchmark::State& s) { cast(s, from, to); });
  return true;
}();
}  // namespace
