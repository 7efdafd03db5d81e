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
  // Backward in one pass: tiles of queries of a head; lse and delta of each tile; turns of its halves, and of the blocks; dq before the scale.
  int64_t tiles;
  float *sums, *dq_sums;
  int* turns;
};
// A CUDA error number; 0: queued.
using SdpaLaunch = int (*)(const SdpaCuda&, void* stream);
constexpr int sdpa_ordered_tile(int64_t width) { return width <= 64 ? 128 : 64; }  // queries of a tile of the backward in one pass
inline constexpr int kSdpaNotOrdered = -1;  // its answer where the copy engine cannot read a tensor; nothing is queued
inline constexpr int64_t kSdpaMmaRows = 64;  // the fewest query rows of a block on tensor cores
struct SdpaCudaForward { ByDType<SdpaLaunch> exact; };
struct SdpaCudaMma { ByDType<SdpaLaunch> forward; };
struct SdpaCudaBackwardMma { ByDType<SdpaLaunch> dq, dkv; };
struct SdpaCudaBackward { ByDType<SdpaLaunch> delta, dq, dkv, dbias; };
extern const SdpaCudaForward sdpa_cuda_forward;
extern const SdpaCudaMma sdpa_cuda_mma, sdpa_cuda_sm90, sdpa_cuda_decode;
extern const SdpaCudaBackwardMma sdpa_cuda_backward_mma, sdpa_cuda_backward_sm90;
extern const SdpaLaunch sdpa_cuda_backward_ordered;
extern const SdpaCudaBackward sdpa_cuda_backward;

}  // namespace baracuda
