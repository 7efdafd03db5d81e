#pragma once
// What the instruction-set units of the family export: one block of work at a time, without threads.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/gemm_tile.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/attention/attention_call.hpp"

namespace baracuda {

// Block sizes, the same for every instruction set and thread count, since sums run along them. Rows of a panel are the
// lanes of the forward; a panel is what the exponentials of one key block fill of the first cache (128 x 32 floats).
inline constexpr int64_t kSdpaKeys = 128;     // keys per block
inline constexpr int64_t kSdpaRows = 128;     // queries per block
inline constexpr int64_t kSdpaMostRows = 512; // of the forward, where there are blocks enough for the threads
inline constexpr int64_t kMostKeyBlocks = 4;  // of the backward at a time
inline constexpr int64_t kSdpaPanel = 32;     // queries per panel of the forward, per strip of the backward
inline constexpr int64_t kSdpaStep = 32;      // sums over keys begin at multiples of it: AMX adds so many at a time

struct SdpaProblem : SdpaCall { const TileKernel* tile; };

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
struct SdpaForwardAmx {
  void (*bf16)(const SdpaBlock&);
};
inline namespace amx { extern const SdpaForwardAmx sdpa_forward_amx; }  // where TileKernel::dense_rows says AMX
BARACUDA_ISA_TABLE_BF16(SdpaBackwardKernels, sdpa_backward_kernels)

// Bytes of scratch that a block may use, for element types of `sum` bytes: an upper bound over instruction sets.
constexpr int64_t sdpa_padded(int64_t d) { return (d + 31) / 32 * 32 + 16; }  // row pitch of staged blocks, in elements
constexpr int64_t sdpa_forward_scratch(int64_t rows, int64_t d, int64_t dv, int64_t sum) {  // rows: the most of a block
  const int64_t w = kSdpaPanel;
  return sum * (rows * (sdpa_padded(d) + sdpa_padded(dv) + 2) + 4 * kSdpaKeys * w + kSdpaKeys * (sdpa_padded(d) + 2 * sdpa_padded(dv)) +
                w * d + 8 * kSdpaKeys) + 64 * 16;
}
// Blocks of keys that pass together: their k, v, dk and dv stay in a second-level cache.
constexpr int64_t sdpa_key_blocks(int64_t d, int64_t dv) {
  const int64_t fit = 512 / (d + dv);
  return fit < 1 ? 1 : fit < kMostKeyBlocks ? fit : kMostKeyBlocks;
}
constexpr int64_t sdpa_backward_scratch(int64_t d, int64_t dv, int64_t sum) {
  const int64_t width = sdpa_padded(d) + sdpa_padded(dv), ld = kSdpaKeys + 16;
  return sum * (sdpa_key_blocks(d, dv) * 3 * kSdpaKeys * width + 2 * kSdpaRows * width + 4 * kSdpaRows * ld + kSdpaRows * (sdpa_padded(d > dv ? d : dv))) +
         24 * kSdpaRows + 64 * 32;
}

}  // namespace baracuda
