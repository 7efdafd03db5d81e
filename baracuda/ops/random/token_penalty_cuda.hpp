#pragma once
// What the kernel files of token_penalty and randperm export to their rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/radix_sort.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct TokenListCuda {
  device::Walk<2> walk;  // the entries, and the first of their row among the counts
  const void* tokens;    // null: there is no list
};
struct TokenPenaltyCuda {
  TokenListCuda list[2];  // tokens, prompt
  bool i64;
  device::Walk<5> walk;   // in row-major order: x, y, the factors
  const void* x;
  void* y;
  const float* factor[3];  // repetition, frequency, presence; null: otherwise
  double otherwise[3];
  uint32_t* counts;        // of x's shape
  int64_t vocabulary;
  bool in_place;
};
extern const ByDType<int (*)(const TokenPenaltyCuda&, void* stream)> token_penalty_cuda;

struct RandpermCuda {
  device::SortedRows s;  // of all rows' elements
  device::Walk<1> walk;  // y, in row-major order
  void* y;
  uint64_t seed, offset;
  int64_t n, rows;
};
extern int (*const randperm_cuda[4])(const RandpermCuda&, void* stream);  // by the logarithm of the element's bytes

}  // namespace baracuda
