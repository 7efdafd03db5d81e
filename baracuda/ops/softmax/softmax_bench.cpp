// Bytes over time against a copy of as many bytes: two streams forward, three backward, and one (two) more where a line is longer
// than a buffer and its inputs are read twice.
#include "baracuda/ops/softmax/softmax.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr int64_t kLong = int64_t(1) << 17;

void forward(benchmark::State& state, const SoftmaxDescriptor& d) {
  Buffer x(d.dtype, d.shape), y(d.dtype, d.shape);
  bench_plan<Softmax>(state, d, {x, y}, (d.shape.last() > kLong ? 3 : 2) * x.bytes());
}
void backward(benchmark::State& state, const SoftmaxDescriptor& d) {
  Buffer dy(d.dtype, d.shape), y(d.dtype, d.shape, 0.1), dx(d.dtype, d.shape);
  bench_plan<SoftmaxBackward>(state, d, {dy, y, dx}, (d.shape.last() > kLong ? 5 : 3) * y.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16})
    for (SoftmaxKind k : {SoftmaxKind::softmax, SoftmaxKind::log_softmax})
      for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{4096, 4096}, 1}, {{4096, 4096}, 0}, {{262144, 64}, 1}, {{1, 1 << 24}, 1},
                                        {{4095, 4097}, 1}, {{4095, 4097}, 0}, {{512, 32000}, 1}}) {
        const SoftmaxDescriptor d{k, t, shape, axis};
        const std::string words = text(enum_name(k), "/axis", axis);
        bench<Softmax>(t, shape, words, [=](benchmark::State& s) { forward(s, d); });
        bench<SoftmaxBackward>(t, shape, words, [=](benchmark::State& s) { backward(s, d); });
      }
  return true;
}();
}  // namespace
