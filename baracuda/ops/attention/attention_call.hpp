#pragma once
// A call as the kernels of every device take it.
#include <cstdint>

namespace baracuda {

// [batch, head, row, element] with a dense last axis; varlen tensors have batch stride 0 and rows counted over all.
struct SdpaTensor { void* p; int64_t batch, head, row; };
struct SdpaCall {
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

}  // namespace baracuda
