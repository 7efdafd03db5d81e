#pragma once
// What the kernels for few queries over many keys share: which part of the keys a block has, where its sums go, and how the parts of a row are joined:
// y = sum exp(m_i - m) y_i / sum exp(m_i - m) l_i, in order.
#include "baracuda/ops/attention/attention_early.cuh"
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

// A block for each: parts of the keys, of the rows of a key head (its queries, head after head), key heads, items.
struct SplitWork {
  SdpaCuda p;
  int64_t parts;
  bool q_chunks, k_chunks, v_chunks;
  int64_t rows() const { return p.batch * p.heads * p.q_len; }
};
// What a block works on. Read anew where it is needed: nothing of it stays in registers across the loop over keys.
struct SplitPlace {
  SdpaSequence s;
  int kv_head, head0, split, row0, n;
  __device__ int head_of(int r) const { return head0 + (row0 + r) / int(s.q_len); }
  __device__ int query_of(int r) const { return (row0 + r) % int(s.q_len); }
};
__device__ __forceinline__ SplitPlace place_at(const SplitWork& work, int block_rows, unsigned block) {
  const SdpaCuda& p = work.p;
  SplitPlace place;
  const unsigned parts = unsigned(work.parts), splits = unsigned(p.splits), kv_heads = unsigned(p.kv_heads);
  const unsigned split_item = block / parts, head_item = split_item / splits;
  place.row0 = int(block % parts) * block_rows, place.split = int(split_item % splits);
  place.kv_head = int(head_item % kv_heads), place.head0 = place.kv_head * int(p.group);
  place.s = sequence_of(p, head_item / kv_heads);
  place.n = int(least(block_rows, place.s.q_len * p.group - place.row0));
  return place;
}
__device__ __forceinline__ SplitPlace place_of(const SplitWork& work, int block_rows) {
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return place_at(work, block_rows, block);
}
// m, l of each part of a row, and behind them all y.
__device__ __forceinline__ float2* part_sums(const SplitWork& work, int64_t row) { return static_cast<float2*>(work.p.partial) + row * work.p.splits; }
__device__ __forceinline__ float* part_rows(const SplitWork& work, int64_t row) {
  const SdpaCuda& p = work.p;
  return static_cast<float*>(p.partial) + (2 * p.batch * p.heads * p.q_len + row * p.head_dim_v) * p.splits;
}

// A block a row: its warps, more of them where there are many parts, take parts in turn, and their sums are added in order.
constexpr int kJoinWarps = 16, kFewWarps = 4;
template <class T> __global__ void __launch_bounds__(32 * kJoinWarps) join_kernel(const __grid_constant__ SplitWork work) {
  using V = Pack<float, 1>;
  begin_early();
  const SdpaCuda& p = work.p;
  __shared__ float warp_rows[kJoinWarps][256], warp_sums[kJoinWarps];
  const int lane = int(threadIdx.x), warp = int(threadIdx.y), warps = int(blockDim.y), dv = int(p.head_dim_v), splits = int(p.splits);
  const bool general = general_scores(p);
  const V unit = V(general ? kExpUnit<V> : p.scale * kExpUnit<V>);
  for (int64_t i = blockIdx.x; i < p.batch * p.heads * p.q_len; i += gridDim.x) {
    const SdpaSequence s = sequence_of(p, i / p.q_len / p.heads);
    const int64_t head = i / p.q_len % p.heads, query = i % p.q_len;
    if (query >= s.q_len) continue;
    const float2* const parts = part_sums(work, i);
    const float* const rows = part_rows(work, i);
    float top = float(-kInf), sum = 0, y[8] = {};
    for (int j = lane; j < splits; j += 32) top = fmaxf(top, parts[j].x);
#pragma unroll
    for (int w = 16; w; w /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, w));
    const V safe = V::of(top == float(-kInf) ? 0 : top);
#pragma unroll 4
    for (int j = warp; j < splits; j += warps) {
      const float2 part = parts[j];
      const V weight = exp_weight<4>((V::of(part.x) - safe) * unit);
      sum = fma(weight, V::of(part.y), V::of(sum)).v;
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (32 * c + lane < dv) y[c] = fma(weight, V::of(rows[j * dv + 32 * c + lane]), V::of(y[c])).v;
    }
    __syncthreads();  // the row before is done
#pragma unroll
    for (int c = 0; c < 8; ++c) warp_rows[warp][32 * c + lane] = y[c];
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < warps; ++w) sum += warp_sums[w];
    const float inverse = sum == 0 ? 0 : 1 / sum;
    T* const to = row_at<T>(p.y, s, head, s.q_start + query);
    for (int c = 32 * warp + lane; c < dv; c += 32 * warps) {
      float value = 0;
      for (int w = 0; w < warps; ++w) value += warp_rows[w][c];
      store<T, 1>(to + c, V::of(value * inverse));
    }
    if (lane == 0 && warp == 0 && p.lse.p) *row_at<float>(p.lse, s, head, s.q_start + query) = lse_from(p, general, top, sum);
  }
}
// early: it may begin under the kernel before it, whose end it then waits for itself (9.0 and newer).
template <class T> int join_parts(const SplitWork& work, bool early, void* stream) {
  const SdpaCuda& p = work.p;
  if (p.splits == 1 || work.rows() == 0) return 0;
  if (early)  // no other split of the multiprocessor's memory, which would have to wait for it to be empty
    if (const cudaError_t e = cudaFuncSetAttribute(join_kernel<T>, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared)) return int(e);
  return launch_early(join_kernel<T>, device::blocks_for(work.rows(), 1), dim3(32, p.splits > 32 ? kJoinWarps : kFewWarps), 0, stream, work, early);
}

}  // namespace attention
}  // namespace baracuda
