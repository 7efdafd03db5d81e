#pragma once
#include "baracuda/ops/random/random_words_cuda.hpp"

namespace baracuda {

struct CastStochasticCuda {
  WordsCuda words;
  device::Walk<2> walk;  // x y
  const void* x;
  void* y;
  bool saturate;
};
extern const ByDType<ByDType<int (*)(const CastStochasticCuda&, void* stream)>> cast_stochastic_cuda;

}  // namespace baracuda
