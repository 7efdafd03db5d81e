// Bytes over time against a copy of the same volume in the same run: 16 M elements through a vocabulary of 50304. The
// backward reads dy and writes dweight, zeros included. `skewed` draws half of the indices from 64 rows.
#include <benchmark/benchmark.h>
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
void forward(benchmark::State& state, DType t, int64_t width, bool skewed) {
  const int64_t n = kElements / width;
  Buffer indices(DType::i64, {n}), weight(t, {kVocabulary, width}), y(t, {n, width});
  fill(indices, skewed);
  bench_plan<Embedding>(state, {t, kVocabulary, width, {n}}, {indices, weight, y}, 2 * y.bytes());
}
void backward(benchmark::State& state, DType t, int64_t width, bool skewed) {
  const int64_t n = kElements / width;
  Buffer indices(DType::i64, {n}), dy(t, {n, width}), dweight(t, {kVocabulary, width});
  fill(indices, skewed);
  bench_plan<EmbeddingBackward>(state, {.dtype = t, .vocabulary = kVocabulary, .width = width, .indices = {n}}, {dy, indices, dweight},
                                dy.bytes() + dweight.bytes());
}
#define EMBEDDING_ROWS(T)                                          \
  BENCHMARK_CAPTURE(forward, T##_768, DType::T, 768, false);       \
  BENCHMARK_CAPTURE(forward, T##_768_skewed, DType::T, 768, true); \
  BENCHMARK_CAPTURE(forward, T##_64, DType::T, 64, false);         \
  BENCHMARK_CAPTURE(backward, T##_768, DType::T, 768, false);      \
  BENCHMARK_CAPTURE(backward, T##_768_skewed, DType::T, 768, true);\
  BENCHMARK_CAPTURE(backward, T##_64, DType::T, 64, false);
BARACUDA_BENCH_COPY()
EMBEDDING_ROWS(f32)
EMBEDDING_ROWS(bf16)
}  // namespace
