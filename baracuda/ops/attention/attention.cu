// Forward by plain arithmetic: y = softmax(scale q k^T, masked) v, online over tiles of 32 keys (attention_exact.cuh).
//   m' = max(m, s), p = exp(s - m'), l = l exp(m - m') + sum p, y = y exp(m - m') + p v
// 2 (D + Dv) flops a visible score, outside the tensor cores; a block of 32 queries (16 where D > 128) reads a tile once.
#include "baracuda/ops/attention/attention_exact.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <class T, int kWidth> __global__ void __launch_bounds__(Exact<T, kWidth>::kThreads, 2) forward_kernel(const __grid_constant__ SdpaCuda p) {
  using X = Exact<T, kWidth>;
  using A = typename X::A;
  using V = typename X::V;
  constexpr int kRows = X::kRows, kColumns = X::kColumns;
  extern __shared__ __align__(16) char memory[];
  __shared__ Row<A> rows[X::kBlock];
  A* const tile = reinterpret_cast<A*>(memory);
  A* const q = tile + kTile * X::kPitch;
  const int first = X::warp() * kRows, lane = X::lane();
  A* const weights = q + X::kBlock * kWidth + first * kTile;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  const bool plain = !general_scores(p);
  const V unit = V(plain ? p.scale * kExpUnit<V> : kExpUnit<V>);
  const int64_t share = p.joined ? p.group : 1, heads = p.heads / share, parts = (p.q_len * share + X::kBlock - 1) / X::kBlock;
  for (int64_t item = blockIdx.x; item < p.batch * heads * parts; item += gridDim.x) {
    // The longest blocks of a causal mask first.
    const SdpaSequence s = sequence_of(p, item / heads % p.batch);
    const int64_t head0 = item % heads * share, row0 = (parts - 1 - item / (heads * p.batch)) * X::kBlock;
    const int n = int(least(X::kBlock, s.q_len * share - row0));
    if (n <= 0) continue;
    const auto head_of = [&](int r) { return head0 + (row0 + r) / s.q_len; };
    const auto query_of = [&](int r) { return (row0 + r) % s.q_len; };
    __syncthreads();  // the item before is done with the memory
    if (int(threadIdx.x) < X::kBlock) {
      const int r = int(threadIdx.x);
      if (r < n) make_row<T>(rows[r], p, s, mask_of(p, s), head_of(r), query_of(r));
      else rows[r] = {0, 0, 0, 0, nullptr};
    }
    X::load_rows(q, kWidth, X::kBlock, n, d, [&](int r) { return row_at<const T>(p.q, s, head_of(r), s.q_start + query_of(r)); });
    __syncthreads();
    // Keys that any row of the block, that any row, that every row of the warp sees.
    int64_t lo = INT64_MAX, hi = 0, from = INT64_MAX, to = 0, all_from = 0, all_to = INT64_MAX;
    for (int r = 0; r < n; ++r) {
      const int64_t l = rows[r].lo, h = rows[r].hi;
      const bool mine = r >= first && r < first + kRows;
      if (l < h) lo = least(lo, l), hi = most(hi, h);
      if (l < h && mine) from = least(from, l), to = most(to, h);
      if (mine) all_from = most(all_from, l), all_to = least(all_to, l < h ? h : 0);
    }
    V m[kRows], l[kRows], y[kRows][kColumns];
    X::clear(y);
#pragma unroll
    for (int r = 0; r < kRows; ++r) m[r] = V(-kInf), l[r] = V(0);
    const int64_t kv_head = head0 / p.group;
    for (int64_t key = lo < hi ? lo / kTile * kTile : 0; key < hi; key += kTile) {
      const int count = int(least(kTile, s.k_len - key));
      const bool some = from < key + kTile && to > key, partial = p.bias || all_from > key || all_to < key + kTile;
      V x[kRows], shrink[kRows];
      uint32_t seen[kRows];
      __syncthreads();
      X::load_tile(tile, row_at<const T>(p.k, s, kv_head, s.k_start + key), p.k.row, count, d);
      __syncthreads();
      if (some) X::dots(q + first * kWidth, tile, d, x);
      __syncthreads();
      X::load_tile(tile, row_at<const T>(p.v, s, kv_head, s.k_start + key), p.v.row, count, dv);
      if (some) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const Row<A>& row = rows[first + r];
          const bool visible = !partial || (key + lane >= row.lo && key + lane < row.hi);
          V slope;
          if (!visible) x[r] = V(-kInf);
          else if (!plain) x[r] = scored<T>(p, row, key + lane, x[r], slope);
          seen[r] = __ballot_sync(kAllLanes, x[r] != V(-kInf));
          V top = x[r] == x[r] ? x[r] : V(-kInf);
#pragma unroll
          for (int w = 16; w; w /= 2) top = larger(top, V::of(__shfl_xor_sync(kAllLanes, top.v, w)));
          top = larger(top, m[r]);
          const V safe = where(top == V(-kInf), V(0), top);
          shrink[r] = where(m[r] == V(-kInf), V(1), exp_weight<X::terms>((m[r] - safe) * unit));  // nothing to shrink yet: 1
          const V w = exp_weight<X::terms>((x[r] - safe) * unit);
          m[r] = top, l[r] = fma(l[r], shrink[r], w);
          weights[r * kTile + lane] = w.v;
        }
      }
      __syncthreads();
      if (some) {
        V part[kRows][kColumns];
        X::clear(part);
        X::add_products(partial, weights, tile, seen, part);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int c = 0; c < kColumns; ++c) y[r][c] = fma(y[r][c], shrink[r], part[r][c]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int w = 16; w; w /= 2) l[r] = l[r] + V::of(__shfl_xor_sync(kAllLanes, l[r].v, w));
      if (first + r >= n) continue;
      const int64_t head = head_of(first + r), row = s.q_start + query_of(first + r);
      X::write(row_at<T>(p.y, s, head, row), y[r], dv, where(l[r] == V(0), V(0), V(1) / l[r]));
      if (p.lse.p && lane == 0)
        *row_at<A>(p.lse, s, head, row) = where(l[r] == V(0), V(-kInf), fma(m[r], V(plain ? p.scale : 1), log(l[r]))).v;
    }
  }
}
template <class T, int kWidth> struct Forward {
  static int launch(const SdpaCuda& p, void* stream) {
    using X = Exact<T, kWidth>;
    const int64_t share = p.joined ? p.group : 1, items = p.batch * (p.heads / share) * device::ceil_div(p.q_len * share, X::kBlock);
    if (items == 0) return 0;
    return device::launch(forward_kernel<T, kWidth>, device::blocks_for(items, 1), X::kThreads, X::bytes(1), stream, p);
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaForward sdpa_cuda_forward = {attention::by_dtype<Forward>()};

}  // namespace baracuda
