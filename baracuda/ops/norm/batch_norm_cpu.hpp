#pragma once
// What the instruction-set units of BatchNorm export. A channel is a row of n elements, summed kChannelChunk at a time; all that is kept
// for a channel is in the accumulator type A or in f64.
#include "baracuda/ops/norm/norm_cpu.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {

constexpr int64_t kChannelChunk = 1024;

// m elements, from `first` on, of `channels` channels, a pitch apart; or, `lanes`, m rows, a pitch apart, of one element of each channel, with those
// that are summed next.
struct ChannelChunk {
  struct Rows {
    const void* at;
    int64_t pitch, first;
    const RowLay* lay;  // null: dense
    const void* next;   // of lanes
  };
  Rows x, dy;
  const void *shift, *scale;  // of each of these channels, for the sums of a gradient
  int64_t channels, m;
  ChunkSums* sums;            // `chunks` a channel
  int64_t chunks;
  bool lanes;
};
// All chunks of `channels` channels of n elements. Of x: their statistics; of a gradient: its sums e and e xhat and, with the weight and
// for statistics of the batch, what dx is made with.
struct ChannelJoin {
  const void* x;
  int64_t x_pitch;
  const RowLay* x_lay;
  int64_t channels, n, chunks;
  double eps;
  const ChunkSums* sums;
  Statistics* found;
  ChunkSums* total;
  const void* weight;
  void *rest, *mean_g, *minus_dot;  // mean_g null: the statistics are constants
};
// Vectors of channels that every element is made with: y = ((x - shift) - rest) scale weight + bias; dx has mean_g and minus_dot of
// input_gradient() instead of bias.
struct ChannelVectors { const void *shift, *rest, *scale, *weight, *bias, *mean_g, *minus_dot; };
// Rows of n elements from `first` on. Each is one channel's: row r of channel (channel + r) mod channels; or, `lanes`, each has one element
// of each of n channels.
struct ChannelRows {
  const void *x, *dy;                    // dy: null forward; x: null where dx is dy weight scale
  void* y;                               // or dx
  int64_t x_pitch, dy_pitch, y_pitch;
  const RowLay *x_lay, *dy_lay, *y_lay;  // null: dense
  int64_t rows, first, n, channel, channels;
  bool lanes, past;                      // past: write y past the caches
  ChannelVectors of;
};
struct BatchNormKernels {
  ByDType<void (*)(const ChannelChunk&)> moments, gradient;
  ByDType<void (*)(const ChannelJoin&)> join_moments, join_gradient;
  ByDType<void (*)(const ChannelRows&)> forward, backward;
};
BARACUDA_ISA_TABLE_BF16(BatchNormKernels, batch_norm_kernels)

}  // namespace baracuda
