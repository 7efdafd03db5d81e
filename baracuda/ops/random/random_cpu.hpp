#pragma once
// What the instruction-set units of the family export: elements first, first + 1, ... of a stream, dense.
#include <cstdint>
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct RandomNumbers {
  uint64_t seed, first;
  double base, factor, most;  // uniform: lo, hi - lo, largest value; normal: mean, std; exponential: -, 1 / rate; the others: loc, scale
  void* y;
  int64_t n;
  double low = 0, span = 0, least = 0;  // truncated normal: probability below the interval, its own, and the interval [least, most] of z
};
// y[i] = x[i] factor where words[i] >= least, which mask[i] tells, if it is wanted; else 0.
struct RandomDrop {
  const void* x;
  void* y;
  bool* mask;
  const uint32_t* words;
  int64_t n;
  uint64_t least;
  double factor;
};
// y[i] = one where words[i] < least, or, where there are p, 2^32 p[i]; else 0.
struct RandomChance {
  const float* p;
  void* y;
  const uint32_t* words;
  int64_t n;
  uint64_t least, one;
};
struct RandomKernels {
  ByDType<void (*)(const RandomNumbers&)> uniform, normal, exponential, gumbel, laplace, cauchy, logistic, truncated_normal;
  // out[i] = the word of element first + i (mod 2^64): word e mod 4 of block e / 4.
  void (*words)(uint64_t seed, uint64_t first, uint32_t* out, int64_t n);
  ByDType<void (*)(const RandomDrop&)> drop;
  void (*chance[4])(const RandomChance&);  // y of 1, 2, 4 and 8 bytes
};
BARACUDA_ISA_TABLE(RandomKernels, random_kernels)

}  // namespace baracuda
