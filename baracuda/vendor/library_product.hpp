#pragma once
// Matrix products by a library, one block at a time, on the calling thread alone. No type of a library appears here.
#include <memory>
#include <string>
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/status.hpp"

namespace baracuda {

// c[m x n] = a[m x k] b[k x n] (+ c): one stride of a and of b is 1, the other at least the extent it skips; c has unit
// column stride. All extents are positive. c has the accumulator's type of the operands.
struct LibraryBlock {
  int64_t m, n, k;
  const void* a;
  int64_t a_row, a_col;
  const void* b;
  int64_t b_row, b_col;
  void* c;
  int64_t c_row;
  bool accumulate;
};
struct LibraryProduct {
  // What the library needs prepared for a dtype of operands, or why it cannot.
  Result<std::shared_ptr<const void>> (*prepare)(DType);
  // Safe from many threads at once.
  Status (*run)(const void* prepared, DType, const LibraryBlock&);
};
const LibraryProduct& onednn_product();
const LibraryProduct& openblas_product();

}  // namespace baracuda
