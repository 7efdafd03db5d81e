// Bytes over time against a copy of as many bytes: what is read and written once.
#include "baracuda/ops/shape/shape.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

template <class Op, class D> void moves(benchmark::State& state, const D& d, const Shape& y_shape) {
  Buffer x(d.dtype, d.shape), y(d.dtype, y_shape);
  if constexpr (requires(typename Op::Args a) { a.value; }) bench_plan<Op>(state, d, {x, y, 0}, x.bytes() + y.bytes());
  else bench_plan<Op>(state, d, {x, y}, x.bytes() + y.bytes());
}
template <class Op, class D> void gradients(benchmark::State& state, const D& d, const Shape& y_shape) {
  Buffer dy(d.dtype, y_shape), dx(d.dtype, d.shape);
  bench_plan<Op>(state, d, {dy, dx}, dy.bytes() + dx.bytes());
}
void concat(benchmark::State& state, DType t, int64_t axis) {
  Buffer a(t, {2048, 2048}), b(t, {2048, 2048}), y(t, axis ? Shape{2048, 4096} : Shape{4096, 2048});
  const TensorView x[] = {a, b};
  bench_plan<Concat>(state, {t, y.view().shape, axis}, {x, y}, 2 * y.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16}) {
    for (const auto& [shape, axes] : {std::pair<Shape, Dims>{{4096, 4096}, {1, 0}}, {{4095, 4097}, {1, 0}}, {{256, 256, 256}, {0, 2, 1}},
                                      {{256, 256, 256}, {1, 0, 2}}, {{256, 256, 256}, {1, 2, 0}}, {{256, 256, 256}, {2, 0, 1}},
                                      {{256, 256, 256}, {2, 1, 0}}}) {
      const PermuteDescriptor d{t, shape, axes};
      std::string order;
      for (int i = 0; i < axes.rank; ++i) order += text(axes[i]);
      bench<Permute>(t, shape, order, [=](benchmark::State& s) { moves<Permute>(s, d, d.y_shape()); });
    }
    for (int64_t axis : {0, 1}) {
      const Shape shape{4096, 4096};
      bench<Concat>(t, axis ? Shape{2048, 4096} : Shape{4096, 2048}, text("axis", axis), [=](benchmark::State& s) { concat(s, t, axis); });
      bench<Flip>(t, shape, text("axis", axis), [=](benchmark::State& s) { moves<Flip>(s, FlipDescriptor{t, shape, {axis}}, shape); });
      bench<Roll>(t, shape, text("axis", axis), [=](benchmark::State& s) { moves<Roll>(s, RollDescriptor{t, shape, {1001}, {axis}}, shape); });
    }
    for (PadMode mode : {PadMode::constant, PadMode::reflect})
      for (const Shape& shape : {Shape{4096, 4096}, Shape{64, 64, 56, 56}}) {
        const Dims around = shape.rank == 2 ? Dims{3, 5} : Dims{0, 0, 1, 1};
        const PadDescriptor d{t, shape, mode, around, around, {}};
        bench<Pad>(t, shape, enum_name(mode), [=](benchmark::State& s) { moves<Pad>(s, d, d.y_shape()); });
        bench<PadBackward>(t, shape, enum_name(mode), [=](benchmark::State& s) { gradients<PadBackward>(s, d, d.y_shape()); });
      }
    const RepeatDescriptor repeat{t, {1024, 1024}, {4, 4}};
    bench<Repeat>(t, repeat.shape, "4x4", [=](benchmark::State& s) { moves<Repeat>(s, repeat, repeat.y_shape()); });
    bench<RepeatBackward>(t, repeat.shape, "4x4", [=](benchmark::State& s) { gradients<RepeatBackward>(s, repeat, repeat.y_shape()); });
    const TriangleDescriptor triangle{t, {4096, 4096}, TriangleKind::lower, 0};
    bench<Triangle>(t, triangle.shape, "lower", [=](benchmark::State& s) { moves<Triangle>(s, triangle, triangle.shape); });
  }
  return true;
}();
}  // namespace
