// Bytes over time against a copy that moves as many: what is read and what is written, once each.
#include "baracuda/ops/random/categorical.hpp"
#include "baracuda/ops/random/dropout.hpp"
#include "baracuda/ops/random/integers.hpp"
#include "baracuda/ops/random/random.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

const Shape kShape{1 << 24};
template <class Op> void draws(DType t, typename Op::Descriptor d = {}) {
  d.dtype = t, d.shape = kShape;
  bench<Op>(t, kShape, "", [=](benchmark::State& s) {
    Buffer y(t, kShape);
    bench_plan<Op>(s, d, {y, 1, 0}, y.bytes());
  });
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16}) {
    draws<RandomUniform>(t), draws<RandomNormal>(t), draws<RandomExponential>(t), draws<RandomTruncatedNormal>(t), draws<RandomLaplace>(t), draws<Bernoulli>(t);
    bench<Dropout>(t, kShape, "", [=](benchmark::State& s) {
      Buffer x(t, kShape), y(t, kShape);
      bench_plan<Dropout>(s, {t, kShape, 0.1}, {x, y, 1, 0}, x.bytes() + y.bytes());
    });
    const Shape rows{64, 131072};
    bench<Categorical>(t, rows, "", [=](benchmark::State& s) {
      Buffer x(t, rows), y(DType::i64, {64, 1});
      bench_plan<Categorical>(s, {.dtype = t, .shape = rows}, {x, y, 1, 0}, x.bytes() + y.bytes());
    });
    bench<Categorical>(t, rows, "top_k50/top_p0.9", [=](benchmark::State& s) {
      Buffer x(t, rows), y(DType::i64, {64, 1});
      bench_plan<Categorical>(s, {.dtype = t, .shape = rows, .top_k = 50, .top_p = 0.9}, {x, y, 1, 0}, x.bytes() + y.bytes());
    });
  }
  draws<Randint>(DType::i64, {.high = 1000}), draws<Randint>(DType::i32, {.high = 1000}), draws<RandomBits>(DType::u32);
  for (const Shape& shape : {Shape{1 << 22}, Shape{4096, 1024}})
    bench<Randperm>(DType::i64, shape, "", [=](benchmark::State& s) {
      Buffer y(DType::i64, shape);
      bench_plan<Randperm>(s, {DType::i64, shape}, {y, 1, 0}, y.bytes());
    });
  return true;
}();
}  // namespace
