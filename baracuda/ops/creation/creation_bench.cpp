// Bytes of y over time against a copy that moves as many.
#include "baracuda/ops/creation/creation.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

template <class Op, class D> void made(benchmark::State& state, const D& d, const Shape& shape) {
  Buffer y(d.dtype, shape);
  bench_plan<Op>(state, d, {y}, y.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16, DType::i64}) {
    const Shape line{1 << 24}, matrix{4096, 4096};
    bench<Arange>(t, line, "", [=](benchmark::State& s) { made<Arange>(s, ArangeDescriptor{t, line}, line); });
    bench<Eye>(t, matrix, "lower", [=](benchmark::State& s) { made<Eye>(s, EyeDescriptor{t, matrix, EyeKind::lower}, matrix); });
    if (t == DType::i64) {
      const TriangleIndicesDescriptor d{t, 4096, 4096, EyeKind::lower, 0};
      bench<TriangleIndices>(t, matrix, "lower", [=](benchmark::State& s) { made<TriangleIndices>(s, d, d.y_shape()); });
    } else bench<Linspace>(t, line, "", [=](benchmark::State& s) { made<Linspace>(s, LinspaceDescriptor{t, line}, line); });
  }
  return true;
}();
}  // namespace
