// Bytes over time against a copy of as many bytes: 16 M elements through a vocabulary of 50304. The backward reads dy and
// writes dweight, zeros included. `skewed` draws half of the indices from 64 rows.
#include "baracuda/ops/embedding/embedding.hpp"
#include "baracuda/testing/bench.hpp"

namespace {
using namespace baracuda;
using namespace baracuda::testing;

constexpr int64_t kElements = int64_t(1) << 24, kVocabulary = 50304;

void fill(const Buffer& indices, bool skewed) {
  Source source(3);
  for (int64_t i = 0; i < indices.view().numel(); ++i)
    indices.view().as<int64_t>()[i] = int64_t(source.next() % uint64_t(skewed && source.next() % 2 ? 64 : kVocabulary));
}
void forward(benchmark::State& state, DType t, int64_t n, int64_t width, bool skewed) {
  Buffer indices(DType::i64, {n}), weight(t, {kVocabulary, width}), y(t, {n, width});
  fill(indices, skewed);
  bench_plan<Embedding>(state, {t, kVocabulary, width, {n}}, {indices, weight, y}, 2 * y.bytes());
}
void backward(benchmark::State& state, DType t, int64_t n, int64_t width, bool skewed) {
  Buffer indices(DType::i64, {n}), dy(t, {n, width}), dweight(t, {kVocabulary, width});
  fill(indices, skewed);
  bench_plan<EmbeddingBackward>(state, {.dtype = t, .vocabulary = kVocabulary, .width = width, .indices = {n}}, {dy, indices, dweight},
                                dy.bytes() + dweight.bytes());
}
const bool registered = [] {
  for (DType t : {DType::f32, DType::bf16})
    for (auto [width, skewed] : {std::pair<int64_t, bool>{768, false}, {768, true}, {64, false}, {512, false}, {4096, false}}) {
      const Shape shape{kElements / width, width};
      const char* words = skewed ? "skewed" : "";
      bench<Embedding>(t, shape, words, [=](benchmark::State& s) { forward(s, t, shape[0], shape[1], skewed); });
      bench<EmbeddingBackward>(t, shape, words, [=](benchmark::State& s) { backward(s, t, shape[0], shape[1], skewed); });
    }
  return true;
}();
}  // namespace
