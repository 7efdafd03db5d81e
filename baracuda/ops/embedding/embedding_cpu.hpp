#pragma once
// What the instruction-set units of the family export.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int64_t kFetchAhead = 8192;  // bytes: rows lie anywhere, so that the processor does not guess the next ones

// out[c] (+)= sum over k < count of dy[at[k] + c], begin <= c < end; count > 0.
struct RowsSum {
  const void* dy;
  const int64_t* at;  // in elements of dy
  int64_t count, known;  // entries of at that may be read: those behind count are fetched ahead
  void* out;
  int64_t begin, end;
  bool accumulate, past;  // past: write out past the caches, where a whole pack begins at a multiple of 64 bytes
};
struct EmbeddingKernels {
  // By the dtype of dy: out of the same dtype, out of f32.
  ByDType<void (*)(const RowsSum&)> same, f32;
};
BARACUDA_ISA_TABLE(EmbeddingKernels, embedding_kernels)

}  // namespace baracuda
