#pragma once
// What the instruction-set units of the family export.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/move.hpp"

namespace baracuda {

inline constexpr int64_t kFetchAhead = 8192;  // bytes: rows lie anywhere, so that the processor does not guess the next ones
inline constexpr int64_t kSideBySideFrom = 512;  // bytes of a row from which on MoveKernels::copy_rows_past is faster

// out[c] (+)= sum over k < count of dy[at[k] + c], begin <= c < end; count > 0.
struct RowsSum {
  const void* dy;
  const int64_t* at;  // in elements of dy
  int64_t count, known;  // entries of at that may be read: those behind count are fetched ahead
  void* out;
  int64_t begin, end;
  bool accumulate, past;  // past: write out past the caches, where a whole pack begins at a multiple of 64 bytes
};
// The sums of `rows` rows of the table, one behind the other at `pitch` bytes: row v adds dy at at[ends[v - 1]] up to at[ends[v]], ends[-1] standing
// for 0. Rows of more than `most` are left out, those of none are zeros unless `accumulate`.
struct RowsBlock {
  const void* dy;
  const int64_t *at, *ends;
  int64_t rows, most, width;
  void* out;
  int64_t pitch;
  bool accumulate, past;
  const MoveKernels* move;
};
struct EmbeddingKernels {
  // By the dtype of dy: out of the same dtype, out of f32.
  ByDType<void (*)(const RowsSum&)> same, f32;
  ByDType<void (*)(const RowsBlock&)> same_block, f32_block;
};
BARACUDA_ISA_TABLE(EmbeddingKernels, embedding_kernels)

}  // namespace baracuda
