#pragma once
// What the kernel file of the family exports to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"
#include "baracuda/ops/position/position_cpu.hpp"

namespace baracuda {

inline constexpr int kRopePairs = 128, kSlopes = 512;  // of a launch: kernel parameters end at 4 KiB
inline constexpr int64_t kRopeHeads = 8;               // the fewest of a block, where tokens are few
// Pairs first .. first + count of every row turn; the elements behind the pairs are copied where copy_rest says so.
struct RopeCuda {
  const void *x, *positions;                // positions null: offset + s
  void* y;
  int64_t x_stride[3], y_stride[3];         // of b, h, s
  int64_t position_stride[2];               // of b, s
  int64_t offset, batches, heads, length, n, half, first;
  int count;
  bool positions_i64, inverse, copy_rest;
  double high[kRopePairs], low[kRopePairs]; // frequencies of these pairs
  double* digits;                           // scratch [kRopeDigits][half][2]: cosine and sine; null where sines are few: their kernel makes all of it
};
struct SlopesCuda { float* out; int64_t stride; int count; float slope[kSlopes]; };
struct AppendCuda {  // of k and of v
  device::Walk<3> walk[2];                  // from, to, lengths over [B, H, S, D]
  const void *from[2], *lengths;            // lengths null: offset
  void* to[2];
  int64_t place_stride[2], offset, room;    // a place in [0, room] is written
  bool lengths_i64;
};
struct PositionCudaKernels {
  int (*digits)(const RopeCuda&, void* stream);  // before the turns of the same pairs
  ByDType<int (*)(const RopeCuda&, void* stream)> half_split, interleaved;
  int (*slopes)(const SlopesCuda&, void* stream);
  ByDType<int (*)(const AppendCuda&, void* stream)> append;
  ByDType<int> append_lanes;                // of a walk of append that takes vectors
};
extern const PositionCudaKernels position_cuda_kernels;

}  // namespace baracuda
