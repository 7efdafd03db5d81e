#pragma once
// What the kernel files of the family export to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/ops/attention/attention_call.hpp"

namespace baracuda {

struct SdpaCuda : SdpaCall {
  int64_t batch, q_len, k_len, total_q, total_k;
  const void *cu_q, *cu_k;  // null without varlen
  int64_t cu_q_stride, cu_k_stride;
  bool cu_q_wide, cu_k_wide;  // i64
  bool joined;                // exact forward: the heads that share keys go through together
  int64_t splits, part;       // decoding: parts of the keys, keys of a part
  int multiprocessors;        // forward on Hopper
  void* partial;              // decoding, where there are several: f32 [batch, heads, q_len, splits][2], then [batch, heads, q_len, splits][head_dim_v]
  void* dbias;
  int64_t dbias_stride[4], bias_shape[4];
  // Backward in one pass: tiles of queries of a head; lse and delta of each tile; turns of its parts, and of the blocks; dq before the scale;
  // f16: what bounds the score gradients of a tile.
  int64_t tiles;
  float *sums, *dq_sums, *largest;
  int* turns;
};
// A CUDA error number; 0: queued.
using SdpaLaunch = int (*)(const SdpaCuda&, void* stream);
// The backward in one pass: columns that a kernel works with, queries of a tile, parts of a tile's dq.
constexpr int sdpa_ordered_width(int64_t d, int64_t dv) { return int(((d > dv ? d : dv) + 63) / 64 * 64); }
constexpr int sdpa_ordered_tile(int width) { return width <= 64 ? 128 : 64; }
constexpr int sdpa_ordered_parts(int width) { return sdpa_ordered_tile(width) * width / 4096; }
inline constexpr int kSdpaNotOrdered = -1;  // its answer where the copy engine cannot read a tensor; nothing is queued
inline constexpr int64_t kSdpaMmaRows = 64;  // the fewest query rows of a block on tensor cores
struct SdpaCudaForward { ByDType<SdpaLaunch> exact; };
struct SdpaCudaMma { ByDType<SdpaLaunch> forward; };
struct SdpaCudaBackwardMma { ByDType<SdpaLaunch> dq, dkv; };
struct SdpaCudaBackward { ByDType<SdpaLaunch> delta, dq, dkv, dbias; };
extern const SdpaCudaForward sdpa_cuda_forward;
extern const SdpaCudaMma sdpa_cuda_mma, sdpa_cuda_sm90, sdpa_cuda_decode;
extern const SdpaCudaBackwardMma sdpa_cuda_backward_mma;
extern const SdpaCudaMma sdpa_cuda_backward_ordered, sdpa_cuda_backward_relay;
extern const SdpaCudaBackward sdpa_cuda_backward;

}  // namespace baracuda
