// Forward on tensor cores: y = softmax(scale q k^T, masked) v for f16 and bf16 (FlashAttention-2; attention_mma.cuh).
//   m' = max(m, s), p = exp(s - m'), l = l exp(m - m') + sum p, y = y exp(m - m') + p v;   p rounded to the dtype for its product
// A block owns kRows queries of a head, a warp 32 of them (16 where rows are wider than 128 or scores general), and goes through tiles of 64 keys (32) that begin at
// multiples of that; the next tile comes in while one is worked on. 2 (D + Dv) flops a visible score; floor: the matrix rate.
// Tiles that no query of the block sees are skipped; tiles that all see entirely are not masked.
// Few queries over many keys: parts of 1024 keys go to blocks of their own, their m, l and y to the workspace, and a second kernel
// joins them in order.
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

// Keys of a tile are copied together, two tiles are in shared memory; keys of a step go through the softmax together.
template <int kWidth, bool kGeneral> struct Config {
  static constexpr int kTiles = kWidth <= 128 && !kGeneral ? 2 : 1, kWarps = 4, kThreads = 32 * kWarps, kRows = 16 * kTiles * kWarps;
  static constexpr int kKeys = kWidth <= 128 ? 64 : 32, kStep = kWidth <= 64 ? 64 : kWidth <= 128 || !kGeneral ? 32 : 16;
  static constexpr size_t kBytes = size_t(kRows + 4 * kKeys) * kWidth * 2;
};

// Work items: parts of the queries of a head (of the heads that share keys, joined), times parts of the keys.
struct Work {
  SdpaCuda p;
  int64_t heads, share, parts, splits;  // splits: of the keys
  bool q_chunks, k_chunks, v_chunks, y_chunks;
  int64_t items() const { return p.batch * heads * parts * splits; }
};

// What a block works on. Read anew where it is needed: nothing of it stays in registers across the loop over keys.
struct Place {
  SdpaSequence s;
  int64_t head0, row0, split;
  int n;  // rows of the block
  bool joined;
  __device__ int64_t head_of(int r) const { return joined ? head0 + (row0 + r) / s.q_len : head0; }
  __device__ int query_of(int r) const { return joined ? int(row0 + r) % int(s.q_len) : int(row0) + r; }
};
__device__ __forceinline__ Place place_of(const Work& work, int block_rows) {
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  const SdpaCuda& p = work.p;
  Place place;
  int64_t item = block;
  place.split = item % work.splits, item /= work.splits;
  place.s = sequence_of(p, item / work.heads % p.batch);
  place.head0 = item % work.heads * work.share;
  place.row0 = (work.parts - 1 - item / (work.heads * p.batch)) * block_rows;  // the longest of a causal mask first
  place.joined = work.share > 1;
  place.n = int(least(block_rows, place.s.q_len * work.share - place.row0));
  return place;
}

template <class T, int kWidth, bool kGeneral>
__global__ void __launch_bounds__(Config<kWidth, kGeneral>::kThreads, 2) mma_kernel(const __grid_constant__ Work work) {
  using C = Config<kWidth, kGeneral>;
  using Tile = MmaTile<T, kWidth, C::kThreads>;
  using V = Pack<float, 1>;
  constexpr int kTiles = C::kTiles, kKeys = C::kKeys, kStep = C::kStep, kLines = 2 * kTiles;  // lines: rows that a thread has sums of
  constexpr uint32_t kRow = 2 * kWidth, kTileBytes = kKeys * kRow;
  const SdpaCuda& p = work.p;
  extern __shared__ __align__(128) char memory[];
  const uint32_t q = shared_address(memory), stages = q + C::kRows * kRow;  // k and v of a tile, twice
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4, first = warp * 16 * kTiles;
  const int d = int(p.head_dim), dv = int(p.head_dim_v);
  const T *keys, *values;
  int lo, hi, all_from, all_to, from, to, k_len, shift;  // keys that some query of the block, that all of them, that some of the warp see
  {
    const Place place = place_of(work, C::kRows);
    const SdpaSequence& s = place.s;
    if (place.n <= 0) return;
    const Mask mask = mask_of(p, s);
    // A joined block may have any query.
    const int64_t i0 = place.joined ? 0 : place.row0, i1 = place.joined ? s.q_len - 1 : place.row0 + place.n - 1;
    lo = int(mask.of(i0).lo), hi = int(mask.of(i1).hi), all_from = int(mask.of(i1).lo), all_to = int(mask.of(i0).hi);
    from = lo, to = hi, k_len = int(s.k_len), shift = int(mask.shift);
    if (!place.joined) {
      from = int(mask.of(place.row0 + first).lo);
      to = first < place.n ? int(mask.of(least(i1, place.row0 + first + 16 * kTiles - 1)).hi) : 0;
    }
    if (work.splits > 1) lo = int(most(lo, place.split * kSdpaSplit)), hi = int(least(hi, (place.split + 1) * kSdpaSplit));
    keys = row_at<const T>(p.k, s, place.head0 / p.group, s.k_start);
    values = row_at<const T>(p.v, s, place.head0 / p.group, s.k_start);
    Tile::template copy<C::kRows>(q, place.n, d, work.q_chunks, [&](int r) { return row_at<const T>(p.q, s, place.head_of(r), s.q_start + place.query_of(r)); });
  }
  const auto copy = [&](int key) {
    const uint32_t k = stages + (key / kKeys % 2) * 2 * kTileBytes;
    Tile::template copy<kKeys>(k, keys + key * p.k.row, p.k.row, k_len - key, d, work.k_chunks);
    Tile::template copy<kKeys>(k + kTileBytes, values + key * p.v.row, p.v.row, k_len - key, dv, work.v_chunks);
  };
  int key = lo / kKeys * kKeys;
  if (lo < hi) copy(key);
  commit_copies();

  float y[kTiles][kWidth / 8][4] = {}, m[kLines], l[kLines];
#pragma unroll
  for (int i = 0; i < kLines; ++i) m[i] = float(-kInf), l[i] = 0;
  const V unit = V(kGeneral ? kExpUnit<V> : p.scale * kExpUnit<V>);
  // Line i of the thread: row first + line_row(i) of the block.
  const auto line_row = [&](int i) { return first + 16 * (i / 2) + 8 * (i % 2) + g; };

  for (; key < hi; key += kKeys) {
    wait_copies<0>();
    __syncthreads();
    if (key + kKeys < hi) copy(key + kKeys);
    commit_copies();
#pragma unroll 1
    for (int step = key; step < key + kKeys && step < hi; step += kStep) {
      if (step + kStep <= lo) continue;
      const uint32_t k = stages + (key / kKeys % 2) * 2 * kTileBytes + (step - key) * kRow, v = k + kTileBytes;
      const bool masked = (kGeneral && p.bias) || step < all_from || step + kStep > all_to;
      // Where some queries do not see what others see, a weight of 0 must not meet NaN or infinities in v.
      const bool bad = masked && __syncthreads_or(Tile::template any_nonfinite<kStep>(v));
      if (bad) {
        Tile::template clean<kStep>(v);
        __syncthreads();
      }
      if (step + kStep <= from || step >= to) continue;
      float x[kTiles][kStep / 8][4];
      scores<Tile, T, kWidth, kTiles, kStep>(x, q, first, k, d);
      uint32_t seen[kLines];  // bit e: the line's e-th score counts
      if (kGeneral || masked) {
        const Place place = place_of(work, C::kRows);
        const Mask mask{shift, p.left, p.right, k_len};
#pragma unroll
        for (int i = 0; i < kLines; ++i) {
          const int r = line_row(i);
          Row<float> row{0, 0, 0, 0, nullptr};
          if (r < place.n) {
            if constexpr (kGeneral) make_row<T>(row, p, place.s, mask, place.head_of(r), place.query_of(r));
            else {
              const KeyRange range = mask.of(place.query_of(r));
              row.lo = range.lo, row.hi = range.hi;
            }
          }
          const int begin = int(row.lo) - step, end = int(row.hi) - step;
          if constexpr (kGeneral)
#pragma unroll
            for (int e = 0; e < kStep / 4; ++e) {
              float& score = x[i / 2][e / 2][2 * (i % 2) + e % 2];
              const int at = e / 2 * 8 + 2 * t + e % 2;
              V slope;
              if (at >= begin && at < end) score = scored<T>(p, row, step + at, V::of(score), slope).v;
            }
          seen[i] = hide<kTiles, kStep>(x, i, begin, end);
        }
      }
      float shrink[kLines];
      uint32_t weights[kTiles][kStep / 8][2];
      if (soften<T, kTiles, kStep>(x, m, l, shrink, weights, unit)) scale_rows(y, shrink);
      if (bad) add_nonfinite<T, kWidth, kTiles>(y, seen, values + step * p.v.row, p.v.row, k_len - step < kStep ? k_len - step : kStep, 0, dv);
      weighted<Tile, T, kWidth, kTiles, kStep>(y, weights, v, 0, dv);
    }
  }
  wait_copies<0>();

  const Place place = place_of(work, C::kRows);
  const SdpaSequence& s = place.s;
  float factor[kLines];
#pragma unroll
  for (int i = 0; i < kLines; ++i) {
    const int r = line_row(i);
    const float sum = row_sum(l[i]);
    factor[i] = sum == 0 ? 0 : 1 / sum;
    if (r >= place.n) continue;
    const int64_t head = place.head_of(r), query = place.query_of(r);
    if (work.splits == 1) {
      if (t == 0 && p.lse.p) *row_at<float>(p.lse, s, head, s.q_start + query) = lse_from(p, kGeneral, m[i], sum);
      continue;
    }
    float* const to = static_cast<float*>(p.partial) + (((s.b * p.heads + head) * p.q_len + query) * work.splits + place.split) * (dv + 2);
    if (t == 0) to[0] = m[i], to[1] = sum;
#pragma unroll
    for (int e = 0; e < kWidth / 4; ++e) {
      const int column = e / 2 * 8 + 2 * t + e % 2;
      if (column < dv) to[2 + column] = y[i / 2][e / 2][2 * (i % 2) + e % 2];
    }
  }
  if (work.splits == 1)
    write_rows<Tile, T, kWidth, kTiles>(y, factor, q, first, place.n, 0, dv, work.y_chunks,
                                        [&](int r) { return row_at<T>(p.y, s, place.head_of(r), s.q_start + place.query_of(r)); });
}

// Joins the parts of a row in order: y = sum exp(m_i - m) y_i / sum exp(m_i - m) l_i. A warp a row.
constexpr int kJoinWarps = 4;
template <class T> __global__ void __launch_bounds__(32 * kJoinWarps) join_kernel(const __grid_constant__ Work work) {
  using V = Pack<float, 1>;
  const SdpaCuda& p = work.p;
  const int lane = int(threadIdx.x), dv = int(p.head_dim_v);
  const bool general = general_scores(p);
  const V unit = V(general ? kExpUnit<V> : p.scale * kExpUnit<V>);
  for (int64_t i = int64_t(blockIdx.x) * kJoinWarps + threadIdx.y; i < p.batch * p.heads * p.q_len; i += int64_t(gridDim.x) * kJoinWarps) {
    const SdpaSequence s = sequence_of(p, i / p.q_len / p.heads);
    const int64_t head = i / p.q_len % p.heads, query = i % p.q_len;
    if (query >= s.q_len) continue;
    const float* const parts = static_cast<const float*>(p.partial) + i * work.splits * (dv + 2);
    float top = float(-kInf), sum = 0, y[8] = {};
    for (int64_t j = 0; j < work.splits; ++j) top = fmaxf(top, parts[j * (dv + 2)]);
    const V safe = V::of(top == float(-kInf) ? 0 : top);
    for (int64_t j = 0; j < work.splits; ++j) {
      const float* const part = parts + j * (dv + 2);
      if (part[1] == 0) continue;
      const V weight = exp_weight<4>((V::of(part[0]) - safe) * unit);
      sum = fma(weight, V::of(part[1]), V::of(sum)).v;
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (32 * c + lane < dv) y[c] = fma(weight, V::of(part[2 + 32 * c + lane]), V::of(y[c])).v;
    }
    const float inverse = sum == 0 ? 0 : 1 / sum;
    T* const to = row_at<T>(p.y, s, head, s.q_start + query);
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (32 * c + lane < dv) store<T, 1>(to + 32 * c + lane, V::of(y[c] * inverse));
    if (lane == 0 && p.lse.p) *row_at<float>(p.lse, s, head, s.q_start + query) = lse_from(p, general, top, sum);
  }
}

template <class T, int kWidth, bool kGeneral> int launch_as(Work work, void* stream) {
  using C = Config<kWidth, kGeneral>;
  work.parts = device::ceil_div(work.p.q_len * work.share, C::kRows);
  return work.items() ? device::launch(mma_kernel<T, kWidth, kGeneral>, unsigned(work.items()), C::kThreads, C::kBytes, stream, work) : 0;
}
template <class T, int kWidth> struct Mma {
  static int launch(const SdpaCuda& p, void* stream) {
    const Work work{p, p.joined ? p.kv_heads : p.heads, p.joined ? p.group : 1, 0, p.splits, in_chunks(p.q), in_chunks(p.k), in_chunks(p.v), in_chunks(p.y)};
    if (const int error = general_scores(p) ? launch_as<T, kWidth, true>(work, stream) : launch_as<T, kWidth, false>(work, stream)) return error;
    const int64_t rows = p.batch * p.heads * p.q_len;
    if (p.splits == 1 || rows == 0) return 0;
    return device::launch(join_kernel<T>, device::blocks_for(rows, kJoinWarps), dim3(32, kJoinWarps), 0, stream, work);
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_mma = {attention::halves_by_width<Mma>()};

}  // namespace baracuda
