#pragma once
// What the instruction-set units of the family export: one block of work at a time, without threads.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/gemm_tile.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// Block sizes, the same for every instruction set and thread count, since sums run along them. Rows of a panel are the
// lanes of the forward; a panel is what the exponentials of one key block fill of the first cache (128 x 32 floats).
inline constexpr int64_t kSdpaKeys = 128;     // keys per block
inline constexpr int64_t kSdpaRows = 128;     // queries per block
inline constexpr int64_t kSdpaPanel = 32;     // queries per panel of the forward, per strip of the backward

// [batch, head, row, element] with a dense last axis; varlen tensors have batch stride 0 and rows counted over all.
struct SdpaTensor { void* p; int64_t batch, head, row; };
struct SdpaProblem {
  const TileKernel* tile;
  int64_t heads, kv_heads, group, head_dim, head_dim_v;
  double scale, softcap;
  bool top_left;
  int64_t left, right;            // window; causal is right <= 0
  SdpaTensor q, k, v, y, lse;     // lse: row is the stride of its last axis; p null where not wanted
  SdpaTensor dy, dq, dk, dv;
  void* delta;                    // dy.y of each row: [B, H, Sq] or [H, total_q], dense, in the type of sums
  int64_t delta_batch, delta_head;
  const float* slopes; int64_t slopes_batch, slopes_head;
  const void* bias; int64_t bias_stride[4]; bool bias_f32;
};
struct SdpaSequence { int64_t b, q_len, k_len, q_start, k_start; };

// Forward: rows [row0, row0 + rows) of the sequence's queries in head `head`; or, where `heads` > 1, of the heads
// [head, head + heads) one after the other, which share their keys.
struct SdpaBlock {
  const SdpaProblem* problem;
  SdpaSequence sequence;
  int64_t head, heads, row0, rows;
  void* scratch;
};
// Backward: keys [key0, key0 + keys) of one key head. dq_sum: [group][q_len][head_dim] in the type of sums, overwritten;
// dq_head its stride between heads. finish: it holds all of dq, so dq is written from it.
struct SdpaBackwardBlock {
  const SdpaProblem* problem;
  SdpaSequence sequence;
  int64_t kv_head, key0, keys;
  void* dq_sum;
  int64_t dq_head;
  bool finish;
  void* scratch;
};
// Adds the score gradients of rows [row0, row0 + rows) and keys [key0, key0 + keys), at most one block of each, to
// sum[(i - row0) * sum_row + (j - key0) * sum_key], a stride of 0 for an axis that is summed over.
struct SdpaBiasBlock {
  const SdpaProblem* problem;
  SdpaSequence sequence;
  int64_t head, row0, rows, key0, keys;
  double* sum;
  int64_t sum_row, sum_key;
  void* scratch;
};
// dq of `rows` rows of one head from `parts` partial sums, `part` elements apart.
struct SdpaReduceBlock {
  const SdpaProblem* problem;
  SdpaSequence sequence;
  int64_t head, row0, rows, parts, part;
  const void* sum;  // of row row0, part 0
};
struct SdpaForwardKernels {
  ByDType<void (*)(const SdpaBlock&)> forward;
};
struct SdpaBackwardKernels {
  ByDType<void (*)(const SdpaBlock&)> delta;  // of one head's rows
  ByDType<void (*)(const SdpaBackwardBlock&)> backward;
  ByDType<void (*)(const SdpaBiasBlock&)> bias;
  ByDType<void (*)(const SdpaReduceBlock&)> reduce;
};
BARACUDA_ISA_TABLE_BF16(SdpaForwardKernels, sdpa_forward_kernels)
BARACUDA_ISA_TABLE_BF16(SdpaBackwardKernels, sdpa_backward_kernels)

// Bytes of scratch that a block may use, for element types of `sum` bytes: an upper bound over instruction sets.
constexpr int64_t sdpa_padded(int64_t d) { return (d + 31) / 32 * 32 + 16; }  // row pitch of staged blocks, in elements
constexpr int64_t sdpa_forward_scratch(int64_t d, int64_t dv, int64_t sum) {
  const int64_t panels = kSdpaRows / kSdpaPanel, w = kSdpaPanel;
  return sum * (panels * w * (sdpa_padded(d) + sdpa_padded(dv) + 2) + 2 * kSdpaKeys * w + kSdpaKeys * (sdpa_padded(d) + 2 * sdpa_padded(dv)) +
                w * d + 8 * kSdpaKeys) + 24 * kSdpaRows + 64 * 16;
}
constexpr int64_t sdpa_backward_scratch(int64_t d, int64_t dv, int64_t sum) {
  const int64_t width = sdpa_padded(d) + sdpa_padded(dv), ld = kSdpaKeys + 16;
  return sum * (3 * kSdpaKeys * width + 2 * kSdpaRows * width + 4 * kSdpaRows * ld + kSdpaRows * (sdpa_padded(d > dv ? d : dv))) +
         24 * kSdpaRows + 64 * 32;
}

}  // namespace baracuda
