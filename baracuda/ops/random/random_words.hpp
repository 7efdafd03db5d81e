#pragma once
// Random words for ops that compare or scale integers.
#include <algorithm>
#include <initializer_list>
#include "baracuda/ops/elementwise/map.hpp"
#include "baracuda/ops/random/random_cpu.hpp"
#include "baracuda/ops/random/random_math.hpp"

namespace baracuda::random_detail {

// Calls f(in and out, words, n, i) for blocks of n elements from i on, in row-major order; operands that are not dense lie in blocks of their own.
// Element e = offset + i has the words per e, ..., per e + per - 1.
template <int kPer = 1, class F>
void for_words(const Shape& shape, std::initializer_list<MapOperand> in, std::initializer_list<MapOperand> out, uint64_t seed, uint64_t offset,
               int threads, F f) {
  MapWalk walk;
  walk.init(shape, {in.begin(), in.size()}, {out.begin(), out.size()}, false);
  const int inputs = int(in.size());
  const auto words = BARACUDA_ISA_PICK(random_kernels).words;
  parallel_for(walk.size(), 4096, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) char block[3][kMapBlock * 16];
    uint32_t w[kPer * kMapBlock];
    void* at[3];
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, std::min(kMapBlock, end - i));
      for (int k = 0; k < walk.operands; ++k) at[k] = walk.fetch(k, i, n, block[k], k < inputs);
      words(seed, kPer * (offset + uint64_t(i)), w, kPer * n);
      f(at, w, n, i);
      for (int k = inputs; k < walk.operands; ++k) walk.put(k, i, n, at[k]);
    }
  });
}

}  // namespace baracuda::random_detail
