#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/radix_sort.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

struct EmbeddingCuda {
  device::Walk<2> rows;          // indices y
  const void *indices, *weight;
  void* y;
  int64_t pitch, vocabulary, width;
  bool i64, vectors;             // vectors: rows may be read and written 16 bytes at a time
};
struct EmbeddingBackwardCuda {
  device::Walk<2> rows;          // indices dy
  const void *indices, *dy;
  void* dweight;
  int64_t pitch, vocabulary, width, padding;  // padding: -1 for none
  bool i64, accumulate, vectors;
  device::SortedRows s;
  void* sums;                    // [2 ceil(n / 64), width] in the accumulator's type
};
struct EmbeddingCudaKernels {
  ByDType<int (*)(const EmbeddingCuda&, void* stream)> forward;
  int (*sort)(const EmbeddingBackwardCuda&, void* stream);
  ByDType<int (*)(const EmbeddingBackwardCuda&, void* stream)> same, f32;  // by the dtype of dy: dweight of the same dtype, of f32
};
extern const EmbeddingCudaKernels embedding_cuda_kernels;

}  // namespace baracuda
