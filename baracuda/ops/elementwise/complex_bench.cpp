// Bytes over time against a copy of as many bytes: 8 M numbers of c64, 4 M of c128.
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

// Normal in both parts.
class Numbers {
 public:
  Numbers(DType t, const Shape& shape) : parts_(is_complex(t) ? counterpart(t) : t, {shape.numel() * (is_complex(t) ? 2 : 1)}), view_(TensorView::dense(parts_.view().data, t, shape)) {}
  operator const TensorView&() const { return view_; }
  uint64_t bytes() const { return parts_.bytes(); }

 private:
  Buffer parts_;
  TensorView view_;
};
Shape shape_of(DType t) { return {2048, t == DType::c64 || t == DType::f32 ? 4096 : 2048}; }

void unary(benchmark::State& state, UnaryKind kind, DType t) {
  const Shape shape = shape_of(t);
  Numbers x(t, shape), y(result_dtype(kind, t), shape);
  bench_plan<Unary>(state, {kind, t, shape}, {x, y}, x.bytes() + y.bytes());
}
void unary_backward(benchmark::State& state, UnaryKind kind, DType t) {
  const Shape shape = shape_of(t);
  const SavedTensors saved = saved_tensors(kind, t);
  Numbers dy(result_dtype(kind, t), shape), x(t, shape), dx(t, shape);
  const TensorView read = x;
  bench_plan<UnaryBackward>(state, {kind, t, shape}, {dy, saved.x ? read : TensorView{}, saved.y ? read : TensorView{}, dx}, dy.bytes() + 2 * x.bytes());
}
void binary(benchmark::State& state, BinaryKind kind, DType t) {
  const Shape shape = shape_of(t);
  Numbers a(t, shape), b(t, shape), y(result_dtype(kind, t), shape);
  bench_plan<Binary>(state, {kind, t, shape, shape}, {a, b, y}, 2 * a.bytes() + y.bytes());
}
void binary_backward(benchmark::State& state, BinaryKind kind, DType t) {
  const Shape shape = shape_of(t);
  Numbers dy(t, shape), a(t, shape), b(t, shape), da(t, shape), db(t, shape);
  bench_plan<BinaryBackward>(state, {kind, t, shape, shape}, {dy, a, b, {}, da, db}, 5 * a.bytes());
}
void row_gradient(benchmark::State& state, DType t) {
  const Shape shape = shape_of(t);
  Numbers dy(t, shape), a(t, shape), db(t, {shape[1]});
  bench_plan<BinaryBackward>(state, {BinaryKind::mul, t, shape, {shape[1]}}, {dy, a, {}, {}, {}, db}, 2 * dy.bytes());
}

const bool registered = [] {
  for (DType t : {DType::c64, DType::c128}) {
    const Shape s = shape_of(t);
    for (UnaryKind k : {UnaryKind::conj, UnaryKind::real, UnaryKind::abs, UnaryKind::angle, UnaryKind::square, UnaryKind::reciprocal, UnaryKind::sqrt, UnaryKind::exp,
                        UnaryKind::log, UnaryKind::sin, UnaryKind::sinh, UnaryKind::tanh, UnaryKind::asin, UnaryKind::exp2, UnaryKind::expm1, UnaryKind::log1p, UnaryKind::log10, UnaryKind::sigmoid, UnaryKind::rsqrt})
      bench<Unary>(t, s, enum_name(k), [=](benchmark::State& state) { unary(state, k, t); });
    for (UnaryKind k : {UnaryKind::abs, UnaryKind::exp, UnaryKind::tanh})
      bench<UnaryBackward>(t, s, enum_name(k), [=](benchmark::State& state) { unary_backward(state, k, t); });
    for (BinaryKind k : {BinaryKind::add, BinaryKind::mul, BinaryKind::div, BinaryKind::pow})
      bench<Binary>(t, s, enum_name(k), [=](benchmark::State& state) { binary(state, k, t); });
    bench<Binary>(counterpart(t), s, "complex", [=](benchmark::State& state) { binary(state, BinaryKind::complex, counterpart(t)); });
    bench<BinaryBackward>(t, s, "mul", [=](benchmark::State& state) { binary_backward(state, BinaryKind::mul, t); });
    bench<BinaryBackward>(t, s, "mul/one_row", [=](benchmark::State& state) { row_gradient(state, t); });
  }
  return true;
}();
}  // namespace
