#pragma once
// Matrix products by a library, one block at a time, on the calling thread alone. No type of a library appears here.
#include <memory>
#include <string>
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/status.hpp"

namespace baracuda {

// c[m x n] = a[m x k] b[k x n] (+ c), dense. All extents are positive. c is row-major with the accumulator's type; a and b
// are row-major, or column-major where transposed.
struct LibraryBlock {
  int64_t m, n, k;
  const void *a, *b;
  void* c;
  bool accumulate;
  void* scratch;  // scratch_bytes(), 256-byte aligned, of the calling worker
};
// What will be asked for: blocks with each of these extents (0: none), accumulating or not.
struct LibraryShapes {
  DType dtype;
  bool trans_a, trans_b;
  int64_t m[2], n[2], k[2];
  bool accumulate;
};
using LibraryState = std::shared_ptr<const void>;
struct LibraryProduct {
  // What the library needs prepared, or why it cannot.
  Result<LibraryState> (*prepare)(const LibraryShapes&);
  int64_t (*scratch_bytes)(const void* prepared);
  // Safe from many threads at once.
  Status (*run)(const void* prepared, const LibraryShapes&, const LibraryBlock&);
};
const LibraryProduct& onednn_product();

}  // namespace baracuda
