// Gradients by plain arithmetic (attention_exact.cuh): scores are recomputed, p = exp(s - lse), ds = p (dp - delta).
//   delta kernel   delta[i] = dy[i].y[i], a warp per row
//   dq kernel      a warp owns queries, tiles of keys pass: dp = dy v^T, s = q k^T, dq += ds k. 6 D + 2 Dv flops a visible score
//   dkv kernel     a warp owns keys, tiles of queries of the group's heads pass: s, dv += p^T dy, dk += ds^T q. 4 D + 4 Dv flops
//   dbias kernel   a block owns 32 keys and its rows of dbias and goes, in order, through all that broadcasts to them, in f64
// No two blocks write one element, so the order of every sum is fixed.
#include "baracuda/ops/attention/attention_exact.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

constexpr int kDeltaWarps = 8;
template <class T> __global__ void __launch_bounds__(32 * kDeltaWarps) delta_kernel(const __grid_constant__ SdpaCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  const int lane = int(threadIdx.x);
  for (int64_t i = int64_t(blockIdx.x) * kDeltaWarps + threadIdx.y; i < p.batch * p.heads * p.q_len; i += int64_t(gridDim.x) * kDeltaWarps) {
    const SdpaSequence s = sequence_of(p, i / p.q_len / p.heads);
    const int64_t head = i / p.q_len % p.heads, query = i % p.q_len, row = s.q_start + query;
    if (query >= s.q_len) continue;
    const T *dy = row_at<const T>(p.dy, s, head, row), *y = row_at<const T>(p.y, s, head, row);
    V sum = V(0);
    for (int64_t e = lane; e < p.head_dim_v; e += 32) sum = fma(load<1>(dy + e), load<1>(y + e), sum);
#pragma unroll
    for (int w = 16; w; w /= 2) sum = sum + V::of(__shfl_xor_sync(kAllLanes, sum.v, w));
    // No key: y is 0, whatever the caller's y holds.
    if (lane == 0) static_cast<A*>(p.delta)[s.b * p.delta_batch + head * p.delta_head + row] = *row_at<const A>(p.lse, s, head, row) == A(-kInf) ? A(0) : sum.v;
  }
}
template <class T> int delta(const SdpaCuda& p, void* stream) {
  const int64_t rows = p.batch * p.heads * p.q_len;
  return rows ? device::launch(delta_kernel<T>, device::blocks_for(rows, kDeltaWarps), dim3(32, kDeltaWarps), 0, stream, p) : 0;
}

// Rows of the warp that gradients of queries and of the bias need.
template <class T> struct QueryRow {
  Row<Acc<T>> row;
  Acc<T> lse, delta;
};
// dp, then p and ds, of the warp's rows of queries against keys [key, key + 32): the tile holds v, then k. Barriers inside.
template <class X, class T, class F>
__device__ __forceinline__ void weigh_queries(const SdpaCuda& p, const SdpaSequence& s, int64_t kv_head, int64_t key, typename X::A* tile, const typename X::A* q,
                                              const typename X::A* dy, const QueryRow<T>* rows, F use) {
  using V = typename X::V;
  const int count = int(least(kTile, s.k_len - key)), d = int(p.head_dim), dv = int(p.head_dim_v);
  V x[X::kRows], dp[X::kRows];
  __syncthreads();
  X::load_tile(tile, row_at<const T>(p.v, s, kv_head, s.k_start + key), p.v.row, count, dv);
  __syncthreads();
  X::dots(dy, tile, dv, dp);
  __syncthreads();
  X::load_tile(tile, row_at<const T>(p.k, s, kv_head, s.k_start + key), p.k.row, count, d);
  __syncthreads();
  X::dots(q, tile, d, x);
#pragma unroll
  for (int r = 0; r < X::kRows; ++r) {
    const QueryRow<T>& row = rows[r];
    const int64_t at = key + X::lane();
    V w, ds, slope;
    X::weigh(p, row.row, at, at >= row.row.lo && at < row.row.hi, x[r], dp[r], V::of(row.lse), V::of(row.delta), w, ds, slope);
    use(r, w, ds, slope);
  }
}
// Rows [row0, row0 + n) of a head into shared memory, q and dy.
template <class X, class T>
__device__ __forceinline__ void load_queries(const SdpaCuda& p, const SdpaSequence& s, int64_t head, int64_t row0, int n, typename X::A* q, typename X::A* dy, QueryRow<T>* rows) {
  using A = typename X::A;
  __syncthreads();
  if (int(threadIdx.x) < X::kBlock) {
    const int r = int(threadIdx.x);
    QueryRow<T> row{{0, 0, 0, 0, nullptr}, A(kInf), A(0)};
    if (r < n) {
      make_row<T>(row.row, p, s, mask_of(p, s), head, row0 + r);
      row.lse = X::lse_of(p, s, head, row0 + r).v, row.delta = X::delta_of(p, s, head, row0 + r).v;
    }
    rows[r] = row;
  }
  X::load_rows(q, X::kRowPitch, X::kBlock, n, int(p.head_dim), [&](int r) { return row_at<const T>(p.q, s, head, s.q_start + row0 + r); });
  X::load_rows(dy, X::kRowPitch, X::kBlock, n, int(p.head_dim_v), [&](int r) { return row_at<const T>(p.dy, s, head, s.q_start + row0 + r); });
  __syncthreads();
}

template <class T, int kWidth> __global__ void __launch_bounds__(Exact<T, kWidth>::kThreads, 2) dq_kernel(const __grid_constant__ SdpaCuda p) {
  using X = Exact<T, kWidth>;
  using A = typename X::A;
  using V = typename X::V;
  extern __shared__ __align__(16) char memory[];
  __shared__ QueryRow<T> rows[X::kBlock];
  const int first = X::warp() * X::kRows;
  A* const tile = reinterpret_cast<A*>(memory);
  A *const q = tile + kTile * X::kPitch, *const dy = q + X::kBlock * kWidth, *const weights = dy + X::kBlock * kWidth + first * kTile;
  const int64_t parts = (p.q_len + X::kBlock - 1) / X::kBlock;
  for (int64_t item = blockIdx.x; item < p.batch * p.heads * parts; item += gridDim.x) {
    const SdpaSequence s = sequence_of(p, item / p.heads % p.batch);
    const int64_t head = item % p.heads, row0 = (parts - 1 - item / (p.heads * p.batch)) * X::kBlock;
    const int n = int(least(X::kBlock, s.q_len - row0));
    if (n <= 0) continue;
    load_queries<X, T>(p, s, head, row0, n, q, dy, rows);
    const Mask mask = mask_of(p, s);
    const int64_t lo = mask.of(row0).lo, hi = mask.of(row0 + n - 1).hi, all_from = mask.of(row0 + n - 1).lo, all_to = mask.of(row0).hi;
    V dq[X::kRows][X::kColumns];
    X::clear(dq);
    for (int64_t key = lo / kTile * kTile; key < hi; key += kTile) {
      uint32_t seen[X::kRows];
      const bool partial = p.bias || all_from > key || all_to < key + kTile;
      weigh_queries<X, T>(p, s, head / p.group, key, tile, q + first * kWidth, dy + first * kWidth, rows + first, [&](int r, V w, V ds, V slope) {
        const QueryRow<T>& row = rows[first + r];
        const int64_t at = key + X::lane();
        bool counts = at >= row.row.lo && at < row.row.hi;
        if (counts && row.row.bias) counts = bias_at<T>(p, row.row.bias, at) != A(-kInf);
        seen[r] = __ballot_sync(kAllLanes, counts);
        weights[r * kTile + X::lane()] = (ds * slope).v;
      });
      __syncwarp();
      X::add_tile(partial, weights, tile, seen, dq);
    }
#pragma unroll
    for (int r = 0; r < X::kRows; ++r)
      if (first + r < n) X::write(row_at<T>(p.dq, s, head, s.q_start + row0 + first + r), dq[r], int(p.head_dim), V::of(A(p.scale)));
  }
}
template <class T, int kWidth> struct Dq {
  static int launch(const SdpaCuda& p, void* stream) {
    using X = Exact<T, kWidth>;
    const int64_t items = p.batch * p.heads * device::ceil_div(p.q_len, X::kBlock);
    return items ? device::launch(dq_kernel<T, kWidth>, device::blocks_for(items, 1), X::kThreads, X::bytes(2), stream, p) : 0;
  }
};

template <class T, int kWidth> __global__ void __launch_bounds__(Exact<T, kWidth>::kThreads, 2) dkv_kernel(const __grid_constant__ SdpaCuda p) {
  using X = Exact<T, kWidth>;
  using A = typename X::A;
  using V = typename X::V;
  extern __shared__ __align__(16) char memory[];
  const int first = X::warp() * X::kRows, lane = X::lane(), d = int(p.head_dim), width_v = int(p.head_dim_v);
  A* const tile = reinterpret_cast<A*>(memory);
  A *const k = tile + kTile * X::kPitch, *const v = k + X::kBlock * kWidth, *const weights = v + X::kBlock * kWidth + first * kTile;
  const int64_t parts = (p.k_len + X::kBlock - 1) / X::kBlock;
  for (int64_t item = blockIdx.x; item < p.batch * p.kv_heads * parts; item += gridDim.x) {
    const SdpaSequence s = sequence_of(p, item / p.kv_heads % p.batch);
    const int64_t kv_head = item % p.kv_heads, key0 = item / (p.kv_heads * p.batch) * X::kBlock;
    const int n = int(least(X::kBlock, s.k_len - key0));
    if (n <= 0) continue;
    const Mask mask = mask_of(p, s);
    __syncthreads();
    X::load_rows(k, kWidth, X::kBlock, n, d, [&](int r) { return row_at<const T>(p.k, s, kv_head, s.k_start + key0 + r); });
    X::load_rows(v, kWidth, X::kBlock, n, width_v, [&](int r) { return row_at<const T>(p.v, s, kv_head, s.k_start + key0 + r); });
    V dk[X::kRows][X::kColumns], dv[X::kRows][X::kColumns];
    X::clear(dk), X::clear(dv);
    // Queries that see a key of the block: keys move forward with the query.
    const int64_t begin = mask.right < 0 ? 0 : most(0, key0 - mask.shift - mask.right);
    const int64_t end = mask.left < 0 ? s.q_len : least(s.q_len, key0 + n - mask.shift + mask.left);
    for (int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head)
      for (int64_t query = begin / kTile * kTile; query < end; query += kTile) {
        const int count = int(least(kTile, s.q_len - query));
        const KeyRange before = mask.of(query), behind = mask.of(query + count - 1);
        const bool partial = p.bias || count < kTile || behind.lo > key0 || before.hi < key0 + n;
        const bool mine = lane < count;
        Row<A> row{0, 0, 0, 0, nullptr};
        V lse = V(kInf), delta = V(0);
        if (mine) {
          make_row<T>(row, p, s, mask, head, query + lane);
          lse = X::lse_of(p, s, head, query + lane), delta = X::delta_of(p, s, head, query + lane);
        }
        const T* const q = row_at<const T>(p.q, s, head, s.q_start + query);
        V x[X::kRows], dp[X::kRows];
        uint32_t seen[X::kRows];
        __syncthreads();
        X::load_tile(tile, row_at<const T>(p.dy, s, head, s.q_start + query), p.dy.row, count, width_v);
        __syncthreads();
        X::dots(v + first * kWidth, tile, width_v, dp);
        __syncthreads();
        X::load_tile(tile, q, p.q.row, count, d);
        __syncthreads();
        X::dots(k + first * kWidth, tile, d, x);
#pragma unroll
        for (int r = 0; r < X::kRows; ++r) {
          const int64_t key = key0 + first + r;
          bool counts = key >= row.lo && key < row.hi;
          if (counts && row.bias) counts = bias_at<T>(p, row.bias, key) != A(-kInf);
          V w, ds, slope;
          X::weigh(p, row, key, counts, x[r], dp[r], lse, delta, w, ds, slope);
          seen[r] = __ballot_sync(kAllLanes, counts);
          weights[r * kTile + lane] = (ds * slope).v;
          x[r] = w;
        }
        __syncwarp();
        X::add_tile(partial, weights, tile, seen, dk);
        __syncthreads();
        X::load_tile(tile, row_at<const T>(p.dy, s, head, s.q_start + query), p.dy.row, count, width_v);
#pragma unroll
        for (int r = 0; r < X::kRows; ++r) weights[r * kTile + lane] = x[r].v;
        __syncthreads();
        X::add_tile(partial, weights, tile, seen, dv);
      }
#pragma unroll
    for (int r = 0; r < X::kRows; ++r)
      if (first + r < n) {
        const int64_t key = s.k_start + key0 + first + r;
        X::write(row_at<T>(p.dk, s, kv_head, key), dk[r], d, V::of(A(p.scale)));
        X::write(row_at<T>(p.dv, s, kv_head, key), dv[r], width_v, V(1));
      }
  }
}
template <class T, int kWidth> struct Dkv {
  static int launch(const SdpaCuda& p, void* stream) {
    using X = Exact<T, kWidth>;
    const int64_t items = p.batch * p.kv_heads * device::ceil_div(p.k_len, X::kBlock);
    return items ? device::launch(dkv_kernel<T, kWidth>, device::blocks_for(items, 1), X::kThreads, X::bytes(2), stream, p) : 0;
  }
};

// One element of dbias in the type of the bias.
template <class T> __device__ __forceinline__ void write_bias(const SdpaCuda& p, int64_t at, double sum) {
  if (p.bias_f32) static_cast<float*>(p.dbias)[at] = float(sum);
  else static_cast<T*>(p.dbias)[at] = from_double<T>(sum);
}
template <class T, int kWidth> __global__ void __launch_bounds__(Exact<T, kWidth>::kThreads, 2) dbias_kernel(const __grid_constant__ SdpaCuda p) {
  using X = Exact<T, kWidth>;
  using A = typename X::A;
  using V = typename X::V;
  extern __shared__ __align__(16) char memory[];
  __shared__ QueryRow<T> rows[X::kBlock];
  __shared__ double sums[X::kWarps][kTile];
  const int first = X::warp() * X::kRows, lane = X::lane();
  A* const tile = reinterpret_cast<A*>(memory);
  A *const q = tile + kTile * X::kPitch, *const dy = q + X::kBlock * kWidth;
  const bool all_rows = p.bias_shape[2] == 1, all_keys = p.bias_shape[3] == 1;
  const int64_t row_parts = all_rows ? 1 : (p.q_len + X::kBlock - 1) / X::kBlock, key_parts = all_keys ? 1 : (p.k_len + kTile - 1) / kTile;
  for (int64_t item = blockIdx.x; item < p.bias_shape[0] * p.bias_shape[1] * row_parts * key_parts; item += gridDim.x) {
    const int64_t key0 = item % key_parts * kTile, row0 = item / key_parts % row_parts * X::kBlock;
    const int64_t bias_head = item / (key_parts * row_parts) % p.bias_shape[1], bias_batch = item / (key_parts * row_parts * p.bias_shape[1]);
    double sum[X::kRows] = {};
    for (int64_t b = bias_batch; b < (p.bias_shape[0] == 1 ? p.batch : bias_batch + 1); ++b)
      for (int64_t head = bias_head; head < (p.bias_shape[1] == 1 ? p.heads : bias_head + 1); ++head) {
        const SdpaSequence s = sequence_of(p, b);
        const Mask mask = mask_of(p, s);
        for (int64_t row = row0; row < (all_rows ? p.q_len : least(row0 + X::kBlock, p.q_len)); row += X::kBlock) {
          const int n = int(least(X::kBlock, p.q_len - row));
          load_queries<X, T>(p, s, head, row, n, q, dy, rows);
          const int64_t lo = mask.of(row).lo, hi = mask.of(row + n - 1).hi;
          for (int64_t key = key0; key < (all_keys ? p.k_len : least(key0 + kTile, p.k_len)); key += kTile) {
            if (key + kTile <= lo || key >= hi) continue;
            weigh_queries<X, T>(p, s, head / p.group, key, tile, q + first * kWidth, dy + first * kWidth, rows + first,
                                [&](int r, V, V ds, V) { sum[r] = sum[r] + double(ds.v); });
          }
        }
      }
    if (all_keys)
#pragma unroll
      for (int r = 0; r < X::kRows; ++r)
#pragma unroll
        for (int w = 16; w; w /= 2) sum[r] = sum[r] + __shfl_xor_sync(kAllLanes, sum[r], w);
    const int64_t at = bias_batch * p.dbias_stride[0] + bias_head * p.dbias_stride[1], key = key0 + (all_keys ? 0 : lane);
    const bool writes = key < p.bias_shape[3] && (!all_keys || lane == 0);
    if (all_rows) {
#pragma unroll
      for (int r = 1; r < X::kRows; ++r) sum[0] = sum[0] + sum[r];
      __syncthreads();
      sums[X::warp()][lane] = sum[0];
      __syncthreads();
      if (X::warp() == 0 && writes) {
        double total = sum[0];
        for (int w = 1; w < X::kWarps; ++w) total = total + sums[w][lane];
        write_bias<T>(p, at + key * p.dbias_stride[3], total);
      }
    } else
#pragma unroll
      for (int r = 0; r < X::kRows; ++r) {
        const int64_t row = row0 + first + r;
        if (writes && row < p.q_len) write_bias<T>(p, at + row * p.dbias_stride[2] + key * p.dbias_stride[3], sum[r]);
      }
  }
}
template <class T, int kWidth> struct Dbias {
  static int launch(const SdpaCuda& p, void* stream) {
    using X = Exact<T, kWidth>;
    const int64_t rows = p.bias_shape[2] == 1 ? 1 : device::ceil_div(p.q_len, X::kBlock), keys = p.bias_shape[3] == 1 ? 1 : device::ceil_div(p.k_len, kTile);
    const int64_t items = p.bias_shape[0] * p.bias_shape[1] * rows * keys;
    return items ? device::launch(dbias_kernel<T, kWidth>, device::blocks_for(items, 1), X::kThreads, X::bytes(2), stream, p) : 0;
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaBackward sdpa_cuda_backward = {device::floating<SdpaLaunch>(delta<f16>, delta<bf16>, delta<float>, delta<double>), attention::by_dtype<Dq>(),
                                                     attention::by_dtype<Dkv>(), attention::by_dtype<Dbias>()};

}  // namespace baracuda
