#pragma once
// What the kernel file of the ops that compare or scale words exports to its rows. Walks are in row-major order, one element per unit.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct WordsCuda { uint64_t seed, offset; int64_t n; };
struct DropoutCuda {
  WordsCuda words;
  device::Walk<3> walk;       // x y mask
  const void* x;
  void* y;
  bool* mask;                 // or null
  uint64_t least;             // words from it on are kept
  double factor;
};
struct BernoulliCuda {
  WordsCuda words;
  device::Walk<2> walk;       // probabilities y
  const float* probabilities; // or null
  void* y;
  uint64_t below;
  uint64_t one;               // the bits of 1
};
struct IntegersCuda {
  WordsCuda words;
  device::Walk<1> walk;
  void* y;
  uint64_t low, range, least; // range 0: 2^64
};
struct RandomWordsCudaKernels {
  ByDType<int (*)(const DropoutCuda&, void* stream)> dropout;
  int (*bernoulli[4])(const BernoulliCuda&, void* stream);  // by the logarithm of the element's bytes
  ByDType<int (*)(const IntegersCuda&, void* stream)> randint;
  int (*bits[4])(const IntegersCuda&, void* stream);        // likewise
};
extern const RandomWordsCudaKernels random_words_cuda_kernels;

}  // namespace baracuda
