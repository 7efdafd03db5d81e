#pragma once
// What the kernel file of LayerNorm's and RmsNorm's long rows exports: rows that neither a block nor a cluster holds.
#include "baracuda/ops/norm/channels_cuda.hpp"

namespace baracuda {

// y, or dx with parts of dweight and dbias, with what ListJoinCuda and GradientJoinCuda kept of every row.
struct NormLongCuda {
  device::Walk<4> rows;  // x dy y dh
  const void *x, *dy, *dh, *kept;
  void* y;
  void *dweight, *dbias;  // [segments, n] in f32, null where not wanted
  ChannelVector weight, bias;
  int64_t n, segments;
  bool one_plus, cast_first;
};
struct NormLongCudaKernels { ByDType<int (*)(const NormLongCuda&, void* stream)> forward, backward; };
extern const NormLongCudaKernels norm_long_cuda;
// Row segments, by the shape alone.
int64_t norm_long_segments(int64_t rows, int64_t n, int size);

}  // namespace baracuda
