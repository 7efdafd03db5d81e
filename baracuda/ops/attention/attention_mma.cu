// Forward on tensor cores: y = softmax(scale q k^T, masked) v for f16 and bf16 (FlashAttention-2; attention_mma.cuh).
//   m' = max(m, s), p = exp(s - m'), l = l exp(m - m') + sum p, y = y exp(m - m') + p v;   p rounded to the dtype for its product
// A block owns kRows queries of a head, a warp 32 of them (16 where rows are wider than 128 or scores general), and goes through tiles of 64 keys (32) that begin at
// multiples of that; the next tile comes in while one is worked on. 2 (D + Dv) flops a visible score; floor: the matrix rate.
// Tiles that no query of the block sees are skipped; tiles that all see entirely are not masked.
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

struct Work {
  SdpaCuda p;
  int64_t parts;  // of the queries of a head
  bool q_chunks, k_chunks, v_chunks, y_chunks;
  int64_t items() const { return p.batch * p.heads * parts; }
};

// What a block works on. Read anew where it is needed: nothing of it stays in registers across the loop over keys.
struct Place {
  SdpaSequence s;
  int64_t head;
  int row0, n;  // rows of the block
};
__device__ __forceinline__ Place place_of(const Work& work, int block_rows) {
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  const SdpaCuda& p = work.p;
  const int64_t item = block, rank = item / (p.heads * p.batch);
  Place place;
  place.s = sequence_of(p, item / p.heads % p.batch);
  place.head = item % p.heads;
  place.row0 = int(work.parts - 1 - rank) * block_rows;  // the longest of a causal mask first
  place.n = int(least(block_rows, place.s.q_len - place.row0));
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
    const int64_t i0 = place.row0, i1 = place.row0 + place.n - 1;
    lo = int(mask.of(i0).lo), hi = int(mask.of(i1).hi), all_from = int(mask.of(i1).lo), all_to = int(mask.of(i0).hi);
    k_len = int(s.k_len), shift = int(mask.shift);
    from = int(mask.of(place.row0 + first).lo);
    to = first < place.n ? int(mask.of(least(i1, place.row0 + first + 16 * kTiles - 1)).hi) : 0;
    keys = row_at<const T>(p.k, s, place.head / p.group, s.k_start);
    values = row_at<const T>(p.v, s, place.head / p.group, s.k_start);
    Tile::template copy<C::kRows>(q, place.n, d, work.q_chunks, [&](int r) { return row_at<const T>(p.q, s, place.head, s.q_start + place.row0 + r); });
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
            if constexpr (kGeneral) make_row<T>(row, p, place.s, mask, place.head, place.row0 + r);
            else {
              const KeyRange range = mask.of(place.row0 + r);
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
    if (r < place.n && t == 0 && p.lse.p) *row_at<float>(p.lse, s, place.head, s.q_start + place.row0 + r) = lse_from(p, kGeneral, m[i], sum);
  }
  write_rows<Tile, T, kWidth, kTiles>(y, factor, q, first, place.n, 0, dv, work.y_chunks,
                                      [&](int r) { return row_at<T>(p.y, s, place.head, s.q_start + place.row0 + r); });
}

template <class T, int kWidth, bool kGeneral> int launch_as(Work work, void* stream) {
  using C = Config<kWidth, kGeneral>;
  work.parts = device::ceil_div(work.p.q_len, C::kRows);
  return work.items() ? device::launch(mma_kernel<T, kWidth, kGeneral>, unsigned(work.items()), C::kThreads, C::kBytes, stream, work) : 0;
}
template <class T, int kWidth> struct Mma {
  static int launch(const SdpaCuda& p, void* stream) {
    const Work work{p, 0, in_chunks(p.q), in_chunks(p.k), in_chunks(p.v), in_chunks(p.y)};
    return general_scores(p) ? launch_as<T, kWidth, true>(work, stream) : launch_as<T, kWidth, false>(work, stream);
  }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_mma = {attention::halves_by_width<Mma>()};

}  // namespace baracuda
