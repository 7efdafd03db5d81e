#pragma once
// How rows meet the blocks of a device in device/spread.cuh.
#include <cstdint>

namespace baracuda::spread {

// Threads of a block that work on pieces, its slots, their bytes; blocks of a multiprocessor; pieces between one's sums and its finish.
inline constexpr int kWorkers = 256, kThreads = kWorkers + 64, kSlots = 6, kSlotBytes = 16384, kBlocks = 2, kLag = 3;

// Pieces of a row, alike but for the last, and their length, whole 16 bytes.
inline int64_t pieces_of(int64_t n, int tensors, int size) {
  const int64_t most = kSlotBytes / tensors / size;
  return (n + most - 1) / most;
}
inline int64_t length_of(int64_t n, int tensors, int size) {
  const int64_t pieces = pieces_of(n, tensors, size), chunk = 16 / size;
  return ((n + pieces - 1) / pieces + chunk - 1) / chunk * chunk;
}
// Longer where a row takes several turns of all `blocks`.
inline int64_t lag_of(int64_t pieces, int64_t blocks) { return kLag - 1 + (pieces + blocks - 1) / blocks; }
// Whether so many blocks hold rows of so many pieces and fetch more meanwhile.
inline bool fits(int64_t rows, int64_t pieces, int64_t blocks) { return rows * pieces < (int64_t(1) << 30) && lag_of(pieces, blocks) + 2 <= kSlots; }
// As many blocks as cover a row some times, so that each goes down the same columns of all rows; few may be left over.
inline int64_t even_blocks(int64_t pieces, int64_t blocks) { return blocks / pieces * pieces; }
inline bool nearly_even(int64_t pieces, int64_t blocks) { return 8 * even_blocks(pieces, blocks) >= 7 * blocks; }

}  // namespace baracuda::spread
