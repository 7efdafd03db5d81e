#pragma once
// What the kernel file of categorical and sampling_filter exports to their rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/radix_sort.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

// What is known of a row once it was looked at: its largest element; elements whose key is above `least` are kept, and those of that key up to the
// index `last`; the sum of the weights that are kept, for shares. fault: what the CPU refuses.
struct alignas(16) CategoricalRow {
  double most;
  uint64_t least;
  int64_t last;
  uint64_t total[2];
  bool fault;
};
struct CategoricalWinner { double value; int64_t index; };
struct CategoricalCuda {
  device::Walk<2> rows;        // x and y, one unit per row
  const void* x;
  void* y;
  int64_t row_count, n, x_step, y_step;
  bool probabilities, shares;  // shares: the sum of weights is wanted
  double temperature, top_p, min_p;
  int64_t top_k, samples, need;  // need: indices that may be drawn
  uint64_t seed, offset;
  CategoricalRow* row;
  CategoricalWinner* winners;  // [rows][samples][parts], where a race has several
  int64_t part, parts;         // elements of a race's part
  uint64_t* keys;              // [rows][n]: races without replacement, in the order of their places
  device::SortedRows s;
};
struct CategoricalCudaKernels { ByDType<int (*)(const CategoricalCuda&, void* stream)> categorical, filter; };
extern const CategoricalCudaKernels categorical_cuda;

}  // namespace baracuda
