#pragma once
// What the kernel file of LayerNorm's and RmsNorm's rows that all blocks of a device hold together exports.
#include "baracuda/device/spread.hpp"
#include "baracuda/ops/norm/norm_long_cuda.hpp"

namespace baracuda {

struct NormSpreadCuda {
  NormLongCuda write;    // dweight, dbias: [parts, n]
  device::Walk<2> found; // mean rstd, over the rows
  void *mean, *rstd;     // of a backward they are given
  double eps;
  bool rms;
  void* posts;
  int64_t blocks;        // that the device holds at once
};
inline constexpr int kNormPostWords = 2;
inline constexpr int kNormNotSpread = -1;  // the rows are not whole pieces of 16 bytes: nothing was queued
using NormSpreadLaunch = int (*)(const NormSpreadCuda&, void* stream);
struct NormSpreadCudaKernels { ByDType<NormSpreadLaunch> forward, backward; };
extern const NormSpreadCudaKernels norm_spread_cuda;

// Whether so many blocks hold such rows. A backward's go down the same columns of all rows, with a part of dweight and dbias for each time that they cover a row.
inline bool norm_spread_fits(int64_t rows, int64_t n, int size, int64_t blocks, bool backward) {
  const int64_t pieces = spread::pieces_of(n, backward ? 2 : 1, size);
  return (!backward || spread::nearly_even(pieces, blocks)) && spread::fits(rows, pieces, blocks);
}
inline int64_t norm_spread_parts(int64_t rows, int64_t n, int size, int64_t blocks) {
  const int64_t parts = blocks / spread::pieces_of(n, 2, size);
  return parts < rows ? parts : rows;
}

}  // namespace baracuda
