#pragma once
// Dense rows of one dtype whose length is no whole number of 16 bytes.
#include "baracuda/ops/softmax/softmax_cuda.hpp"

namespace baracuda {

extern const SoftmaxRowsCuda softmax_words_cuda;
bool softmax_cuda_by_words(int64_t n, int size, bool backward);  // what it takes
// Gradients of short ones that follow on one another.
extern const SoftmaxRowsCuda softmax_tiles_cuda;
bool softmax_cuda_by_tiles(const SoftmaxCuda& p, int size);
// Short ones on sm_90a.
extern const SoftmaxRowsCuda softmax_runs_cuda;
bool softmax_cuda_by_runs(const SoftmaxCuda& p, int size);

}  // namespace baracuda
