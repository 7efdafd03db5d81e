// Gradients on tensor cores for f16 and bf16, plain scores (a scale and a mask; attention_mma.cuh): scores are recomputed,
// p = exp(s - lse), ds = p (dp - delta), and p and ds are rounded to the dtype for their products.
//   dkv kernel  a block owns keys of a key head and goes through tiles of queries, of all heads of the group: s^T = k q^T, dp^T = v dy^T,
//               dv += p^T dy, dk += ds^T q. Keys are the rows of every sum tile, so p^T and ds^T are left sides of products as they lie.
//   dq kernel   a block owns queries and goes through tiles of keys: s = q k^T, dp = dy v^T, dq += ds k
// 7 products of which a kernel that adds to dq across blocks would make 5; here no two blocks write one element and the order of every sum
// is fixed. Floor: the matrix rate over 2.5 x the forward's flops; shared memory is what bounds (16 rows a warp where D > 64).
#include "baracuda/ops/attention/attention_gradient.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <int kWidth> struct KeyConfig {
  static constexpr int kTiles = kWidth <= 64 ? 2 : 1, kWarps = 4, kThreads = 32 * kWarps, kRows = 16 * kTiles * kWarps;
  static constexpr int kColumns = kWidth < 128 ? kWidth : 128;  // columns of dk and dv of a block
  static constexpr int kQueries = kWidth <= 128 ? 64 : 32, kStages = kWidth <= 128 ? 2 : 1, kStep = kWidth == 128 ? 32 : 16;
  static constexpr size_t kBytes = size_t(2 * kRows + 2 * kStages * kQueries) * kWidth * 2 + kStages * kQueries * 8;
};
template <class T, int kWidth> __global__ void __launch_bounds__(KeyConfig<kWidth>::kThreads, 2) dkv_kernel(const __grid_constant__ Gradients work) {
  using C = KeyConfig<kWidth>;
  using Tile = MmaTile<T, kWidth, C::kThreads>;
  constexpr int kTiles = C::kTiles, kQueries = C::kQueries, kStep = C::kStep, kColumns = C::kColumns, kLines = 2 * kTiles, kStages = C::kStages;
  constexpr uint32_t kRow = 2 * kWidth, kTileBytes = kQueries * kRow;
  const SdpaCuda& p = work.p;
  extern __shared__ __align__(128) char memory[];
  const uint32_t k = shared_address(memory), v = k + C::kRows * kRow, stages = v + C::kRows * kRow, sums = stages + 2 * kStages * kTileBytes;
  const int warp = int(threadIdx.x) / 32, first = warp * 16 * kTiles;
  const int d = int(p.head_dim), dv_width = int(p.head_dim_v);
  constexpr int kParts = kWidth / kColumns;
  const int chunk = int(blockIdx.x % kParts) * (kColumns / 8);
  __shared__ GradientPlace place;
  int n, key0, begin, end, tiles;
  {
    const int64_t item = blockIdx.x / kParts;
    const SdpaSequence s = sequence_of(p, item / p.kv_heads % p.batch);
    const int64_t kv_head = item % p.kv_heads;
    key0 = int(item / (p.kv_heads * p.batch)) * C::kRows, n = int(least(C::kRows, s.k_len - key0));
    if (n <= 0) return;
    const Mask mask = mask_of(p, s);
    queries_of(mask, s, key0, n, kQueries, begin, end);
    tiles = end > begin ? (end - begin + kQueries - 1) / kQueries : 0;
    Tile::template copy<C::kRows>(k, row_at<const T>(p.k, s, kv_head, s.k_start + key0), p.k.row, n, d, work.k_chunks);
    Tile::template copy<C::kRows>(v, row_at<const T>(p.v, s, kv_head, s.k_start + key0), p.v.row, n, dv_width, work.v_chunks);
    if (threadIdx.x == 0) place = {s, mask, 0, kv_head, key0, n};
  }
  __syncthreads();
  const int all = tiles * int(p.group);
  const auto copy = [&](int u) {
    const int stage = u % kStages;
    const uint32_t q = stages + stage * 2 * kTileBytes;
    copy_queries<Tile, T, kQueries>(work, place, place.kv_head * p.group + u / tiles, begin + u % tiles * kQueries, q, q + kTileBytes, sums + uint32_t(stage * 2 * kQueries) * 4);
  };
  if (all) copy(0);
  commit_copies();

  float dk[kTiles][kColumns / 8][4] = {}, dv[kTiles][kColumns / 8][4] = {};
  Range<T> range;
  const float unit = float(p.scale * kExpUnit<Pack<float, 1>>);
  for (int u = 0; u < all; ++u) {
    wait_copies<0>();
    __syncthreads();
    if (kStages > 1 && u + 1 < all) copy(u + 1);
    commit_copies();
    const int query = begin + u % tiles * kQueries;
#pragma unroll 1
    for (int step = query; step < query + kQueries && step < end; step += kStep) {
      const uint32_t q = stages + (u % kStages) * 2 * kTileBytes + (step - query) * kRow, dy = q + kTileBytes;
      const int last = int(least(step + kStep, place.s.q_len)) - 1;
      const KeyRange before = place.mask.of(step), behind = place.mask.of(last);
      const bool masked = behind.lo > key0 || before.hi < key0 + n;
      // Where some keys are hidden from some queries, weights of 0 must not meet NaN or infinities.
      const bool bad = masked && __syncthreads_or(Tile::template any_nonfinite<kStep>(q) || Tile::template any_nonfinite<kStep>(dy));
      const bool works = before.lo < key0 + first + 16 * kTiles && behind.hi > key0 + first;
      uint32_t weights[kTiles][kStep / 8][2], slopes[kTiles][kStep / 8][2], seen[kLines];
      if (works) {
        float x[kTiles][kStep / 8][4], dp[kTiles][kStep / 8][4];
        scores<Tile, T, kWidth, kTiles, kStep>(x, k, first, q, d);
        scores<Tile, T, kWidth, kTiles, kStep>(dp, v, first, dy, dv_width);
        const uint32_t lse = sums + uint32_t((u % kStages) * 2 * kQueries + step - query) * 4;
        weigh_columns<T, kTiles, kStep>(x, dp, seen, unit, lse, lse + 4 * kQueries, masked, place.mask, step, key0, first);
        range.follow(dp, dk);
        to_pairs<T, kTiles, kStep>(weights, x, 1), to_pairs<T, kTiles, kStep>(slopes, dp, range.factor());
      }
      if (bad) {
        __syncthreads();
        Tile::template clean<kStep>(q), Tile::template clean<kStep>(dy);
        __syncthreads();
      }
      if (!works) continue;
      if (bad)
        add_nonfinite<T, kColumns, kTiles>(dv, seen, row_at<const T>(p.dy, place.s, place.kv_head * p.group + u / tiles, place.s.q_start + step), p.dy.row, last - step + 1,
                                           8 * chunk, dv_width);
      weighted<Tile, T, kColumns, kTiles, kStep>(dv, weights, dy, chunk, dv_width);
      weighted<Tile, T, kColumns, kTiles, kStep>(dk, slopes, q, chunk, d);
    }
    if (kStages == 1 && u + 1 < all) {
      __syncthreads();
      copy(u + 1);
      commit_copies();
    }
  }
  wait_copies<0>();
  __syncthreads();
  float of_dk[kLines], of_dv[kLines];
#pragma unroll
  for (int i = 0; i < kLines; ++i) of_dk[i] = float(p.scale) * range.inverse(), of_dv[i] = kWeightUnit<T>;
  write_rows<Tile, T, kColumns, kTiles>(dk, of_dk, k, first, n, chunk, d, work.dk_chunks, [&](int r) { return row_at<T>(p.dk, place.s, place.kv_head, place.s.k_start + key0 + r); });
  write_rows<Tile, T, kColumns, kTiles>(dv, of_dv, v, first, n, chunk, dv_width, work.dv_chunks, [&](int r) { return row_at<T>(p.dv, place.s, place.kv_head, place.s.k_start + key0 + r); });
}

template <int kWidth> struct QueryConfig {
  static constexpr int kTiles = kWidth <= 128 ? 2 : 1, kWarps = 4, kThreads = 32 * kWarps, kRows = 16 * kTiles * kWarps;
  static constexpr int kKeys = kWidth <= 64 ? 64 : 32, kStages = kWidth <= 128 ? 2 : 1, kStep = 32;
  static constexpr size_t kBytes = size_t(2 * kRows + 2 * kStages * kKeys) * kWidth * 2;
};
template <class T, int kWidth> __global__ void __launch_bounds__(QueryConfig<kWidth>::kThreads, 2) dq_kernel(const __grid_constant__ Gradients work) {
  using C = QueryConfig<kWidth>;
  using Tile = MmaTile<T, kWidth, C::kThreads>;
  constexpr int kTiles = C::kTiles, kKeys = C::kKeys, kStep = C::kStep, kLines = 2 * kTiles, kStages = C::kStages;
  constexpr uint32_t kRow = 2 * kWidth, kTileBytes = kKeys * kRow;
  const SdpaCuda& p = work.p;
  extern __shared__ __align__(128) char memory[];
  const uint32_t q = shared_address(memory), dy = q + C::kRows * kRow, stages = dy + C::kRows * kRow;
  const int warp = int(threadIdx.x) / 32, first = warp * 16 * kTiles;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  __shared__ GradientPlace place;
  const T *keys, *values;
  int lo, hi, all_from, all_to, from, to, k_len;
  {
    const int64_t item = blockIdx.x, head = item % p.heads;
    const SdpaSequence s = sequence_of(p, item / p.heads % p.batch);
    const int row0 = int(work.parts - 1 - item / (p.heads * p.batch)) * C::kRows, n = int(least(C::kRows, s.q_len - row0));
    if (n <= 0) return;
    const Mask mask = mask_of(p, s);
    lo = int(mask.of(row0).lo), hi = int(mask.of(row0 + n - 1).hi), all_from = int(mask.of(row0 + n - 1).lo), all_to = int(mask.of(row0).hi);
    from = int(mask.of(row0 + first).lo), to = first < n ? int(mask.of(least(row0 + n - 1, row0 + first + 16 * kTiles - 1)).hi) : 0, k_len = int(s.k_len);
    keys = row_at<const T>(p.k, s, head / p.group, s.k_start), values = row_at<const T>(p.v, s, head / p.group, s.k_start);
    Tile::template copy<C::kRows>(q, row_at<const T>(p.q, s, head, s.q_start + row0), p.q.row, n, d, work.q_chunks);
    Tile::template copy<C::kRows>(dy, row_at<const T>(p.dy, s, head, s.q_start + row0), p.dy.row, n, dv, work.dy_chunks);
    if (threadIdx.x == 0) place = {s, mask, head, 0, row0, n};
  }
  __syncthreads();
  const auto copy = [&](int key) {
    const uint32_t k = stages + (key / kKeys % kStages) * 2 * kTileBytes;
    Tile::template copy<kKeys>(k, keys + key * p.k.row, p.k.row, k_len - key, d, work.k_chunks);
    Tile::template copy<kKeys>(k + kTileBytes, values + key * p.v.row, p.v.row, k_len - key, dv, work.v_chunks);
  };
  int key = lo / kKeys * kKeys;
  if (lo < hi) copy(key);
  commit_copies();

  float dq[kTiles][kWidth / 8][4] = {};
  __shared__ float2 sums[C::kRows];
  load_sums<C::kRows, C::kThreads>(sums, p, place);
  Range<T> range;
  const float unit = float(p.scale * kExpUnit<Pack<float, 1>>);
  for (; key < hi; key += kKeys) {
    wait_copies<0>();
    __syncthreads();
    if (kStages > 1 && key + kKeys < hi) copy(key + kKeys);
    commit_copies();
#pragma unroll 1
    for (int step = key; step < key + kKeys && step < hi; step += kStep) {
      const uint32_t k = stages + (key / kKeys % kStages) * 2 * kTileBytes + (step - key) * kRow, v = k + kTileBytes;
      const bool masked = step < all_from || step + kStep > all_to;
      const bool bad = masked && __syncthreads_or(Tile::template any_nonfinite<kStep>(k)), works = step + kStep > from && step < to;
      uint32_t slopes[kTiles][kStep / 8][2];
      if (works) {
        float x[kTiles][kStep / 8][4], dp[kTiles][kStep / 8][4];
        scores<Tile, T, kWidth, kTiles, kStep>(x, q, first, k, d);
        scores<Tile, T, kWidth, kTiles, kStep>(dp, dy, first, v, dv);
        weigh_lines<T, kTiles, kStep>(x, dp, unit, sums, masked, place.mask, place.row0, first, step);
        range.follow(dp, dq);
        to_pairs<T, kTiles, kStep>(slopes, dp, range.factor());
      }
      if (bad) {
        __syncthreads();
        Tile::template clean<kStep>(k);
        __syncthreads();
      }
      if (works) weighted<Tile, T, kWidth, kTiles, kStep>(dq, slopes, k, 0, d);
    }
    if (kStages == 1 && key + kKeys < hi) {
      __syncthreads();
      copy(key + kKeys);
      commit_copies();
    }
  }
  wait_copies<0>();
  __syncthreads();
  float factor[kLines];
#pragma unroll
  for (int i = 0; i < kLines; ++i) factor[i] = float(p.scale) * range.inverse();
  write_rows<Tile, T, kWidth, kTiles>(dq, factor, q, first, place.n, 0, d, work.dq_chunks,
                                      [&](int r) { return row_at<T>(p.dq, place.s, place.head, place.s.q_start + place.row0 + r); });
}

template <class T, int kWidth> struct Dkv {
  static int launch(const SdpaCuda& p, void* stream) {
    using C = KeyConfig<kWidth>;
    const int64_t parts = device::ceil_div(p.k_len, C::kRows), items = p.batch * p.kv_heads * parts * (kWidth / C::kColumns);
    return items ? device::launch(dkv_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, gradients_of(p, parts)) : 0;
  }
};
template <class T, int kWidth> struct Dq {
  static int launch(const SdpaCuda& p, void* stream) {
    using C = QueryConfig<kWidth>;
    const int64_t parts = device::ceil_div(p.q_len, C::kRows), items = p.batch * p.heads * parts;
    return items ? device::launch(dq_kernel<T, kWidth>, unsigned(items), C::kThreads, C::kBytes, stream, gradients_of(p, parts)) : 0;
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaBackwardMma sdpa_cuda_backward_mma = {attention::halves_by_width<Dq>(), attention::halves_by_width<Dkv>()};

}  // namespace baracuda
