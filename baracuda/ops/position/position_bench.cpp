// Bytes over time against a copy of as many bytes: 16 M elements.
#include "baracuda/ops/position/position.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

// heads_inside: the tensors lie as [batch, tokens, heads, dim].
void forward(benchmark::State& state, DType t, const Shape& shape, RopePairing pairing, bool heads_inside) {
  Buffer x(t, shape), y(t, shape);
  TensorView from = x, to = y;
  if (heads_inside) from.strides = to.strides = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  bench_plan<Rope>(state, {.dtype = t, .shape = shape, .pairing = pairing}, {from, {}, to, 0}, 2 * x.bytes());
}
void backward(benchmark::State& state, DType t, const Shape& shape) {
  Buffer x(t, shape), y(t, shape);
  bench_plan<RopeBackward>(state, {.dtype = t, .shape = shape}, {x, {}, y, 0}, 2 * x.bytes());
}
void append(benchmark::State& state, DType t, const Shape& shape) {
  Shape cache = shape;
  cache[2] *= 2;
  Buffer k(t, shape), v(t, shape), k_cache(t, cache), v_cache(t, cache);
  bench_plan<KvCacheAppend>(state, {t, shape[0], shape[1], shape[2], cache[2], shape[3], {}}, {k, v, {}, k_cache, v_cache, 1000}, 4 * k.bytes());
}
const bool registered = [] {
  constexpr Shape kLong{4, 16, 2048, 128}, kShort{8, 16, 2048, 64}, kOneHead{1, 1, 131072, 128}, kCached{4, 8, 2048, 128};
  for (DType t : {DType::f32, DType::bf16}) {
    bench<Rope>(t, kLong, "", [=](benchmark::State& s) { forward(s, t, kLong, RopePairing::half_split, false); });
    bench<Rope>(t, kLong, "interleaved", [=](benchmark::State& s) { forward(s, t, kLong, RopePairing::interleaved, false); });
    bench<Rope>(t, kShort, "heads_inside", [=](benchmark::State& s) { forward(s, t, kShort, RopePairing::half_split, true); });
    bench<Rope>(t, kOneHead, "", [=](benchmark::State& s) { forward(s, t, kOneHead, RopePairing::half_split, false); });
    bench<RopeBackward>(t, kLong, "", [=](benchmark::State& s) { backward(s, t, kLong); });
    bench<KvCacheAppend>(t, kCached, "", [=](benchmark::State& s) { append(s, t, kCached); });
  }
  return true;
}();
}  // namespace
