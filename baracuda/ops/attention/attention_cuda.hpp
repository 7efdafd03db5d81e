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
  int multiprocessors;        // on Hopper
  uint32_t* next;             // forward on Hopper, sequences: how many blocks of queries are taken, and for each the one that its block of threads had before
  void* partial;              // decoding, where there are several: f32 [batch, heads, q_len, splits][2], then [batch, heads, q_len, splits][head_dim_v]
  void* dbias;
  int64_t dbias_stride[4], bias_shape[4];
  // Backward in one pass: tiles of queries of a head; lse and delta of each tile; turns of its parts, and of the blocks; dq before the scale;
  // f16: what bounds the score gradients of a tile. Heads of a group that are shared out: into how many parts, and dk and dv of each,
  // [shares][dk, dv][batch or 1, kv_heads, k_len or total_k][width].
  int64_t tiles, shares;
  float *sums, *dq_sums, *largest, *dkv_sums;
  int* turns;
};
// A CUDA error number; 0: queued.
using SdpaLaunch = int (*)(const SdpaCuda&, void* stream);
// The backward in one pass: columns that a kernel works with, queries of a tile, parts of a tile's dq.
constexpr int sdpa_ordered_width(int64_t d, int64_t dv) { return int(((d > dv ? d : dv) + 63) / 64 * 64); }
constexpr int sdpa_ordered_tile(int width) { return width <= 64 ? 128 : 64; }
constexpr int sdpa_ordered_parts(int width) { return sdpa_ordered_tile(width) * width / 4096; }
constexpr int sdpa_ordered_keys(int width) { return width <= 128 ? 128 : 64; }  // of a block
// Parts of a group of query heads, each to blocks of its own: where few key heads give few blocks. The batch does not count, so that bits do not depend on it.
constexpr int64_t sdpa_ordered_shares(int64_t group, int64_t kv_heads, int64_t k_len, int width) {
  const int64_t blocks = kv_heads * ((k_len + sdpa_ordered_keys(width) - 1) / sdpa_ordered_keys(width));
  for (int64_t n = 1; n < group; ++n)
    if (group % n == 0 && n * blocks >= 512) return n;
  return group;
}
inline constexpr int kSdpaNotOrdered = -1;  // its answer where the copy engine cannot read a tensor; nothing is queued
inline constexpr int64_t kSdpaMmaRows = 64;  // the fewest query rows of a block on tensor cores
struct SdpaCudaForward { ByDType<SdpaLaunch> exact; };
struct SdpaCudaMma { ByDType<SdpaLaunch> forward; };
struct SdpaCudaBackwardMma { ByDType<SdpaLaunch> dq, dkv; };
struct SdpaCudaBackward { ByDType<SdpaLaunch> delta, dq, dkv, dbias; };
extern const SdpaCudaForward sdpa_cuda_forward;
extern const SdpaCudaMma sdpa_cuda_mma, sdpa_cuda_sm90, sdpa_cuda_sm90_few, sdpa_cuda_sm90_softcap, sdpa_cuda_sm90_scores, sdpa_cuda_decode, sdpa_cuda_decode_sm90;
extern const SdpaCudaBackwardMma sdpa_cuda_backward_mma;
extern const SdpaCudaMma sdpa_cuda_backward_ordered, sdpa_cuda_backward_pair, sdpa_cuda_backward_relay;
extern const SdpaCudaBackward sdpa_cuda_backward;

}  // namespace baracuda
