#pragma once
// What the instruction-set units of the family export: elements first, first + 1, ... of a stream, dense.
#include <cstdint>
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct RandomNumbers {
  uint64_t seed, first;
  double base, factor, most;  // uniform: lo, hi - lo, largest value; normal: mean, std
  void* y;
  int64_t n;
};
struct RandomKernels { ByDType<void (*)(const RandomNumbers&)> uniform, normal; };
BARACUDA_ISA_TABLE(RandomKernels, random_kernels)

}  // namespace baracuda
