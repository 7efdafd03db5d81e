#pragma once
// Moving bytes, per instruction set: copies and zeros past the caches (host/past.hpp says when), and transposes in registers.
#include <cstdint>
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kSideBySide = 8;  // 16 rows are slower
struct MoveKernels {
  // y is aligned to 64 bytes, any number of bytes. The caller ends its block with past_fence(). copy_past_fetching: meanwhile as
  // many bytes of `next` are fetched into the second-level cache.
  void (*copy_past)(void* y, const void* x, int64_t bytes);
  void (*copy_past_fetching)(void* y, const void* x, int64_t bytes, const void* next);
  // kSideBySide rows, the k-th from x[k] to y[k], a line of each in turn. The processor takes them for as many streams and fetches ahead in each,
  // past the 16 lines that one core can ask for by itself; the first lines of `next` are fetched.
  void (*copy_rows_past)(void* const* y, const void* const* x, int64_t bytes, const void* const* next);
  void (*zero_past)(void* y, int64_t bytes);
  // y[i y_step + j] = x[j x_step + i], i < rows, j < columns, steps in elements of 1, 2, 4, 8 or 16 bytes (by log2). past: every
  // row of y is aligned to 64 bytes and is written past the caches.
  void (*transpose[5])(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_step, int64_t y_step, bool past);
};
BARACUDA_ISA_TABLE(MoveKernels, move_kernels)

}  // namespace baracuda
