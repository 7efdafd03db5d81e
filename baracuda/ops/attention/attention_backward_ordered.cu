// Gradients on Hopper's tensor cores (wgmma) in one pass over blocks of keys, bf16, head dims up to 128, plain scores: 5 products a tile.
// Blocks add their part of dq to an f32 scratch in turn, the block of lower keys first, so that every sum has one order. All walk the tiles of queries
// from last to first, so that a causal mask's long blocks lead (DASH, 2026); blocks are numbered as they begin, so that nobody waits for one that has not.
// Heads go side by side, as many as the L2 cache holds: the next block of a head begins when the one before is some tiles ahead.
//   sums kernel   lse in the exponential's unit and delta = dy.y for each tile of queries, and nobody's turn has come
//   keys kernel   two warpgroups own 64 keys each: s^T = k q^T, dp^T = v dy^T, dv += p^T dy, dk += ds^T q with the weights in registers; ds by way of
//                 shared memory to dq = ds k, whose halves the warpgroups make. A third warpgroup has tiles brought and dq added by the copy engine
//   dq kernel     dq = scale * scratch
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_gradient.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;
using namespace hopper;

using T = bf16;
template <int kWidth> struct Config {
  static constexpr int kRows = 128, kWorkers = 256, kThreads = 384, kTile = sdpa_ordered_tile(kWidth);  // keys of a block, queries of a tile
  static constexpr int kHalf = 64 * 64 * 4;  // bytes of a warpgroup's half of dq: columns (kTile 64) or rows
  static constexpr size_t kBytes = size_t(2 * kRows + 4 * kTile) * kWidth * 2 + 2 * kRows * kTile * 2 + 2 * kHalf + 2 * kTile * 8 + 1024;
};
struct Work {
  SdpaCuda p;
  uint32_t parts, section;  // blocks of a head's keys; heads whose rows and dq the L2 cache holds together
  CUtensorMap q, k, v, dy;
  bool dq_chunks, dk_chunks, dv_chunks;
};
// The first of a sequence's tiles among those of a head.
__device__ __forceinline__ int64_t first_tile(const SdpaCuda& p, const SdpaSequence& s, int tile) {
  return p.cu_q ? s.q_start / tile + s.b : s.b * ((p.q_len + tile - 1) / tile);
}

// A block per tile.
template <int kWidth> __global__ void __launch_bounds__(256) sums_kernel(const __grid_constant__ SdpaCuda p) {
  constexpr int kTile = Config<kWidth>::kTile, kLanes = kWidth / 8, kStep = 256 / kLanes;
  using V = Pack<float, 1>;
  const int64_t parts = (p.q_len + kTile - 1) / kTile, item = blockIdx.x, head = item / parts % p.heads;
  const SdpaSequence s = sequence_of(p, item / parts / p.heads);
  const int64_t row0 = item % parts * kTile;
  if (item == 0 && threadIdx.x == 0) p.turns[2 * p.heads * p.tiles] = 0;
  if (row0 >= s.q_len) return;
  const int64_t tile = head * p.tiles + first_tile(p, s, kTile) + item % parts;
  float* const sums = p.sums + tile * 2 * kTile;
  if (threadIdx.x < 2) p.turns[2 * tile + threadIdx.x] = 0;
  const int c = int(threadIdx.x) % kLanes, left = int(p.head_dim_v) - 8 * c;
#pragma unroll 2
  for (int r = int(threadIdx.x) / kLanes; r < kTile; r += kStep) {
    const bool there = row0 + r < s.q_len;
    const int64_t row = s.q_start + row0 + (there ? r : 0);
    const T *dy = row_at<const T>(p.dy, s, head, row) + 8 * c, *y = row_at<const T>(p.y, s, head, row) + 8 * c;
    V sum = V(0);
    if (left >= 8) {
      const uint4 a = *reinterpret_cast<const uint4*>(dy), b = *reinterpret_cast<const uint4*>(y);
      const uint32_t u[4] = {a.x, a.y, a.z, a.w}, w[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum = fma(V::of(low_half<T>(u[e])), V::of(low_half<T>(w[e])), sum), sum = fma(V::of(high_half<T>(u[e])), V::of(high_half<T>(w[e])), sum);
    } else {
      for (int e = 0; e < left; ++e) sum = fma(load<1>(dy + e), load<1>(y + e), sum);
    }
#pragma unroll
    for (int w = kLanes / 2; w; w /= 2) sum = sum + V::of(__shfl_xor_sync(kAllLanes, sum.v, w));
    if (c != 0) continue;
    const float lse = there ? *row_at<const float>(p.lse, s, head, row) : float(-kInf);
    // No key: exp(-inf), and y is 0, whatever the caller's y holds.
    sums[r] = lse == float(-kInf) ? float(kInf) : lse * float(kExpUnit<V>);
    sums[kTile + r] = lse == float(-kInf) ? 0 : sum.v;
  }
}

struct Place {
  SdpaSequence s;
  Mask mask;
  int64_t kv_head, first;  // first: tile 0 of the sequence
  int key0, n, last, all;  // tiles of queries from `last` down, of each of the group's heads: `all` together
  int all_from, all_to;    // queries that see all keys of the block
};
// Queries [x, y) that see a key.
__device__ __forceinline__ int2 queries_seeing(const Mask& mask, const SdpaSequence& s, int64_t key) {
  const int64_t at = key - mask.shift, from = mask.right < 0 ? 0 : most(0, at - mask.right), to = mask.left < 0 ? s.q_len : least(s.q_len, at + mask.left + 1);
  return key < s.k_len && from < to ? int2{int(from), int(to)} : int2{INT32_MAX / 2, 0};
}

template <int kWidth> __global__ void __launch_bounds__(Config<kWidth>::kThreads, 1) keys_kernel(const __grid_constant__ Work work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using C = Config<kWidth>;
  using V = Pack<float, 1>;
  constexpr int kTile = C::kTile, kSums = kTile / 8;
  constexpr uint32_t kTileBytes = kTile * kWidth * 2, kRowsBytes = C::kRows * kWidth * 2, kSlopeBytes = C::kRows * kTile * 2;
  const SdpaCuda& p = work.p;
  extern __shared__ char memory[];
  __shared__ Place place;
  __shared__ uint64_t barriers[13];
  __shared__ bool bad_keys[C::kWorkers / 32], bad_key[C::kRows];  // whether any is, for each warp; each key
  __shared__ int2 seen_by[C::kRows];  // queries
  const uint32_t k0 = (shared_address(memory) + 1023) / 1024 * 1024, v0 = k0 + kRowsBytes, q0 = v0 + kRowsBytes, dy0 = q0 + 2 * kTileBytes, ds0 = dy0 + 2 * kTileBytes,
                 dq0 = ds0 + 2 * kSlopeBytes, sums0 = dq0 + 2 * C::kHalf;
  // Full: it has come; free: whoever reads it is done. q_full stands for the sums too.
  const uint32_t k_full = shared_address(barriers), q_full = k_full + 8, dy_full = q_full + 16, q_free = dy_full + 16, dy_free = q_free + 16, dq_full = dy_free + 16, dq_free = dq_full + 16;
  if (threadIdx.x == 0) {
    // Those with lower numbers have begun: sections of heads one after the other, in a section lower keys first, which a causal mask makes longer.
    const uint32_t item = uint32_t(atomicAdd(&p.turns[2 * p.heads * p.tiles], 1)), heads = uint32_t(p.kv_heads), from = item / (work.section * work.parts) * work.section;
    const uint32_t width = min(work.section, uint32_t(p.batch) * heads - from), in_section = item - from * work.parts, head = from + in_section % width;
    Place at;
    at.s = sequence_of(p, head / heads);
    at.mask = mask_of(p, at.s);
    at.kv_head = head % heads;
    at.key0 = int(in_section / width) * C::kRows, at.n = int(least(C::kRows, at.s.k_len - at.key0));
    at.first = first_tile(p, at.s, kTile);
    int begin = 0, end = 0;
    if (at.n > 0) queries_of(at.mask, at.s, at.key0, at.n, kTile, begin, end);
    const int tiles = end > begin ? (end - begin + kTile - 1) / kTile : 0;
    at.last = begin / kTile + tiles - 1, at.all = tiles * int(p.group);
    at.all_from = queries_seeing(at.mask, at.s, at.key0 + C::kRows - 1).x, at.all_to = queries_seeing(at.mask, at.s, at.key0).y;
    place = at;
    barrier_init(k_full, 1);
    for (int i = 0; i < 2; ++i) {
      barrier_init(q_full + 8 * i, 1), barrier_init(dy_full + 8 * i, 1), barrier_init(q_free + 8 * i, 8), barrier_init(dy_free + 8 * i, 8);
      barrier_init(dq_full + 8 * i, 128), barrier_init(dq_free + 8 * i, 1);
    }
    barriers_made();
  }
  if (int(threadIdx.x) < C::kRows) bad_key[threadIdx.x] = false;
  // Sequences that fall would share tiles, and no turn would come: they are added as they come.
  bool falls = false;
  if (p.cu_q)
    for (int64_t b = threadIdx.x; b < p.batch; b += C::kThreads)
      falls = falls || length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b + 1) < length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b);
  falls = __syncthreads_or(falls);
  if (place.n <= 0) return;
  if (int(threadIdx.x) < C::kRows) seen_by[threadIdx.x] = queries_seeing(place.mask, place.s, place.key0 + int(threadIdx.x));
  __syncthreads();

  if (int(threadIdx.x) >= C::kWorkers) {
    give_registers<24>();
    const int warp = int(threadIdx.x - C::kWorkers) / 32;
    if (threadIdx.x % 32 == 0 && place.all > 0) {
      if (warp == 0) {
        const int batch = p.cu_q ? 0 : int(place.s.b), k_row = int(place.s.k_start) + place.key0;
        barrier_expect(k_full, 2 * kRowsBytes);
#pragma unroll
        for (int c = 0; c < kWidth / 64; ++c) {
          load_box(k0 + c * C::kRows * 128, work.k, k_full, 64 * c, k_row, int(place.kv_head), batch);
          load_box(v0 + c * C::kRows * 128, work.v, k_full, 64 * c, k_row, int(place.kv_head), batch);
        }
        const int head0 = int(place.kv_head * p.group);
        int head = head0, tile = place.last;
#pragma unroll 1
        for (int u = 0; u < place.all; ++u) {
          const int i = u % 2, row = int(place.s.q_start) + tile * kTile;
          const uint32_t parity = uint32_t(u / 2 + 1) % 2;
          barrier_wait(q_free + 8 * i, parity);
          barrier_expect(q_full + 8 * i, kTileBytes + 2 * kTile * 4);
#pragma unroll
          for (int c = 0; c < kWidth / 64; ++c) load_box(q0 + i * kTileBytes + c * kTile * 128, work.q, q_full + 8 * i, 64 * c, row, head, batch);
          load_bytes(sums0 + i * 2 * kTile * 4, p.sums + (head * p.tiles + place.first + tile) * 2 * kTile, 2 * kTile * 4, q_full + 8 * i);
          barrier_wait(dy_free + 8 * i, parity);
          barrier_expect(dy_full + 8 * i, kTileBytes);
#pragma unroll
          for (int c = 0; c < kWidth / 64; ++c) load_box(dy0 + i * kTileBytes + c * kTile * 128, work.dy, dy_full + 8 * i, 64 * c, row, head, batch);
          if (++head == head0 + int(p.group)) head = head0, --tile;
        }
      } else if (warp <= 2) {
        const int half = warp - 1, block = place.key0 / C::kRows;
        const int head0 = int(place.kv_head * p.group);
        int head = head0, tile = place.last;
#pragma unroll 1
        for (int u = 0; u < place.all; ++u) {
          const int64_t at = int64_t(head) * p.tiles + place.first + tile;
          // The blocks before that see the tile: from the first one whose last key its first query sees.
          const int64_t lowest = place.mask.left < 0 ? 0 : most(0, int64_t(tile) * kTile + place.mask.shift - place.mask.left) / C::kRows;
          const int rank = block - int(lowest);
          int* const turn = p.turns + 2 * at + half;
          float* const to = p.dq_sums + (2 * at + half) * (C::kHalf / 4);
          barrier_wait(dq_full + 8 * half, uint32_t(u) % 2);
          // Turns are given on when the engine says that its additions, which are made in the L2 cache, are done.
          while (!falls && load_acquire(turn) != rank) {}
          if (rank == 0) store_bytes(to, dq0 + half * C::kHalf, C::kHalf);
          else add_floats(to, dq0 + half * C::kHalf, C::kHalf);
          commit_stores();
          wait_stores_read();
          barrier_arrive(dq_free + 8 * half);
          wait_stores();
          store_release(turn, rank + 1);
          if (++head == head0 + int(p.group)) head = head0, --tile;
        }
      }
    }
  } else {
    take_registers<240>();
    using Keys = MmaTile<T, kWidth, C::kWorkers, C::kRows>;
    using Queries = MmaTile<T, kWidth, C::kWorkers, kTile>;
    const int warp = __shfl_sync(kAllLanes, int(threadIdx.x) / 32, 0), group = warp / 4, lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4, first = warp * 16;
    const float unit = float(p.scale * kExpUnit<V>);
    const uint32_t mine = uint32_t(group) * 64 * 128;  // the warpgroup's rows of k and v
    float dk[1][kWidth / 8][4] = {}, dv[1][kWidth / 8][4] = {}, x[1][kSums][4], dp[1][kSums][4], dq[8][4];
    uint32_t weights[kSums][2], slopes[kSums][2], seen[2];
    if (place.all > 0) {
      barrier_wait(k_full, 0);
      const bool bad = named_any(2, C::kWorkers, Keys::template any_nonfinite<C::kRows>(k0));
      bad_keys[warp] = bad;
      if (bad) {  // zeros in their place for dq; scores of such keys are NaN
        for (int i = int(threadIdx.x); i < C::kRows * kWidth / 8; i += C::kWorkers) {
          const uint4 w = load_shared(Keys::at(k0, i / (kWidth / 8), i % (kWidth / 8)));
          if (nonfinite<T>(w.x) | nonfinite<T>(w.y) | nonfinite<T>(w.z) | nonfinite<T>(w.w)) bad_key[i / (kWidth / 8)] = true;
        }
        named_wait(2, C::kWorkers);
        Keys::template clean<C::kRows>(k0);
        publish();
        named_wait(2, C::kWorkers);
      }
    }
    const auto begin_dots = [&](float (&sum)[kSums][4], uint32_t rows, uint32_t tile) {
      const uint64_t a = operand(anew(rows + mine)), b = operand(tile);
      pin(sum);
      begin_products();
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) wgmma<T>(sum, further(a, k / 4 * C::kRows * 128 + k % 4 * 32), further(b, k / 4 * kTile * 128 + k % 4 * 32), k != 0);
      commit_products();
    };
    constexpr bool kEarly = kTile == 64;  // registers suffice for dv to be made under the steps to ds
    pin(dk[0]), pin(dv[0]);
    const auto begin_weighted = [&](float (&sum)[kWidth / 8][4], const uint32_t (&w)[kSums][2], uint32_t tile) {
      const uint64_t b = operand(tile, kTile * 128);
      begin_products();
#pragma unroll
      for (int k = 0; k < kTile / 16; ++k) {
        const uint32_t a[4] = {w[2 * k][0], w[2 * k][1], w[2 * k + 1][0], w[2 * k + 1][1]};
        wgmma<T>(sum, a, further(b, k * 2048), 1);
      }
      commit_products();
    };
    const auto to_weights = [&] {
#pragma unroll
      for (int j = 0; j < kSums; ++j) weights[j][0] = pair<T>(x[0][j][0], x[0][j][1]), weights[j][1] = pair<T>(x[0][j][2], x[0][j][3]);
    };
    int query = place.last * kTile, head = 0;
#pragma unroll 1
    for (int u = 0; u < place.all; ++u) {
      const int i = u % 2;
      const uint32_t q = q0 + uint32_t(i) * kTileBytes, dy = dy0 + uint32_t(i) * kTileBytes, ds = ds0 + uint32_t(i) * kSlopeBytes, lse = sums0 + uint32_t(i) * 2 * kTile * 4;
      barrier_wait(q_full + 8 * i, uint32_t(u / 2) % 2);
      begin_dots(x[0], k0, q);
      barrier_wait(dy_full + 8 * i, uint32_t(u / 2) % 2);
      begin_dots(dp[0], v0, dy);
      const bool masked = query < place.all_from || query + kTile > place.all_to;
      wait_products<1>();
      pin(x[0]);
      if (bad_keys[warp]) {
#pragma unroll
        for (int j = 0; j < kSums; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) x[0][j][e] = bad_key[first + 8 * (e / 2) + g] ? float(kNaN) : x[0][j][e];
      }
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
        const float a = __uint_as_float(load_shared_word(lse + 4 * (8 * j + 2 * t))), b = __uint_as_float(load_shared_word(lse + 4 * (8 * j + 2 * t + 1)));
#pragma unroll
        for (int e = 0; e < 4; ++e) x[0][j][e] = exp_weight<4>(fma(V::of(x[0][j][e]), V::of(unit), V::of(-(e % 2 ? b : a)))).v;
      }
      if (masked) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int2 queries = seen_by[first + 8 * r + g];
          const int from = queries.x - query - 2 * t, to = queries.y - query - 2 * t;
          seen[r] = 0;
#pragma unroll
          for (int e = 0; e < kTile / 4; ++e) seen[r] |= uint32_t(e / 2 * 8 + e % 2 >= from && e / 2 * 8 + e % 2 < to) << e;
#pragma unroll
          for (int e = 0; e < kTile / 4; ++e) x[0][e / 2][2 * r + e % 2] = seen[r] >> e & 1 ? x[0][e / 2][2 * r + e % 2] : 0;
        }
        // Weights of 0 must not meet what is not finite, which shows in the sums of its query. All warps look at the same ones.
        bool odd = false;
        for (int e = lane; e < 2 * kTile; e += 32) odd = odd || !(fabsf(__uint_as_float(load_shared_word(lse + 4 * e))) < float(kInf));
        if (__any_sync(kAllLanes, odd)) {
          wait_products<0>();
          if (named_any(2, C::kWorkers, Queries::template any_nonfinite<kTile>(q) || Queries::template any_nonfinite<kTile>(dy))) {
            Queries::template clean<kTile>(q), Queries::template clean<kTile>(dy);
            publish();
            named_wait(2, C::kWorkers);
            const int left = int(place.s.q_len) - query;
            add_nonfinite<T, kWidth, 1>(dv, seen, row_at<const T>(p.dy, place.s, place.kv_head * p.group + head, place.s.q_start + query), p.dy.row, left < kTile ? left : kTile, 0,
                                        int(p.head_dim_v));
          }
        }
      }
      if constexpr (kEarly) {
        to_weights();
        pin(weights), pin(dv[0]);
        begin_weighted(dv[0], weights, dy);
        wait_products<1>();
      } else {
        pin(x[0]);  // made before the wait
        wait_products<0>();
      }
      pin(dp[0]);
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
        const float a = __uint_as_float(load_shared_word(lse + 4 * (kTile + 8 * j + 2 * t))), b = __uint_as_float(load_shared_word(lse + 4 * (kTile + 8 * j + 2 * t + 1)));
#pragma unroll
        for (int e = 0; e < 4; ++e) dp[0][j][e] = x[0][j][e] * (dp[0][j][e] - (e % 2 ? b : a));
      }
      if (masked) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int e = 0; e < kTile / 4; ++e) dp[0][e / 2][2 * r + e % 2] = seen[r] >> e & 1 ? dp[0][e / 2][2 * r + e % 2] : 0;
      }
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
        slopes[j][0] = pair<T>(dp[0][j][0], dp[0][j][1]), slopes[j][1] = pair<T>(dp[0][j][2], dp[0][j][3]);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int key = first + 8 * r + g;
          store_shared(ds + uint32_t((j / 8 * C::kRows + key) * 128 + ((j % 8 ^ (key & 7)) << 4) + 4 * t), slopes[j][r]);
        }
      }
      publish();
      if constexpr (!kEarly) {
        to_weights();
        pin(weights), pin(dv[0]);
        begin_weighted(dv[0], weights, dy0 + anew(uint32_t(i)) * kTileBytes);
      }
      named_wait(1, C::kWorkers);  // ds is there
      pin(dq), pin(slopes), pin(dk[0]);
      const uint32_t half = uint32_t(group * C::kRows * 128);
      const uint64_t left = operand(ds + (kTile == 64 ? 0 : half)), right = operand(anew(k0) + (kTile == 64 ? half : 0));
      begin_products();
#pragma unroll
      for (int k = 0; k < C::kRows / 16; ++k) wgmma<T, 1, 1>(dq, further(left, k * 2048), further(right, k * 2048), k != 0);
      commit_products();
      begin_weighted(dk[0], slopes, q0 + anew(uint32_t(i)) * kTileBytes);
      wait_products<1>();
      pin(dq), pin(dv[0]), pin(weights);
      if (lane == 0) barrier_arrive(dy_free + 8 * i);
      barrier_wait(dq_free + 8 * group, uint32_t(u + 1) % 2);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        store_shared(dq0 + uint32_t(group * C::kHalf + (j * 128 + int(threadIdx.x) % 128) * 16),
                     uint4{__float_as_uint(dq[j][0]), __float_as_uint(dq[j][1]), __float_as_uint(dq[j][2]), __float_as_uint(dq[j][3])});
      publish();
      barrier_arrive(dq_full + 8 * group);
      if (++head == int(p.group)) head = 0, query -= kTile;
      wait_products<0>();
      pin(dk[0]), pin(slopes);
      if (lane == 0) barrier_arrive(q_free + 8 * i);
    }
    named_wait(1, C::kWorkers);  // k is read no more
    float of_dk[2], of_dv[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) of_dk[i] = float(p.scale), of_dv[i] = 1;
    const auto write = [&](const float (&sum)[1][kWidth / 8][4], const float (&factor)[2], uint32_t tile, const SdpaTensor& to, int64_t width, bool chunks) {
      write_rows<Keys, T, kWidth, 1>(sum, factor, tile, first, place.n, 0, int(width), chunks, [&](int r) { return row_at<T>(to, place.s, place.kv_head, place.s.k_start + place.key0 + r); });
    };
    write(dk, of_dk, k0, p.dk, p.head_dim, work.dk_chunks);
    write(dv, of_dv, v0, p.dv, p.head_dim_v, work.dv_chunks);
  }
#endif
}

// A block per tile: halves lie in the order of a product's fragments. No turn was taken: no key is seen.
template <int kWidth> __global__ void __launch_bounds__(256) dq_kernel(const __grid_constant__ Work work) {
  constexpr int kTile = Config<kWidth>::kTile;
  const SdpaCuda& p = work.p;
  const int64_t parts = (p.q_len + kTile - 1) / kTile, item = blockIdx.x, head = item / parts % p.heads;
  const SdpaSequence s = sequence_of(p, item / parts / p.heads);
  const int64_t row0 = item % parts * kTile;
  if (row0 >= s.q_len) return;
  const int64_t tile = head * p.tiles + first_tile(p, s, kTile) + item % parts;
  const int j = int(threadIdx.x) % 8, g = int(threadIdx.x) / 8 % 8, warp = int(threadIdx.x) / 64;
  const float scale = float(p.scale);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float4 part[4] = {};
    if (p.turns[2 * tile + half] != 0) {
      const float4* const from = reinterpret_cast<const float4*>(p.dq_sums + (2 * tile + half) * 4096) + j * 128 + warp * 32 + g * 4;
#pragma unroll
      for (int t = 0; t < 4; ++t) part[t] = from[t];
    }
    const int column = j * 8 + (kTile == 64 ? half * 64 : 0), left = int(p.head_dim) - column;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t r = row0 + (kTile == 64 ? 0 : half * 64) + warp * 16 + g + 8 * i;
      if (r >= s.q_len || left <= 0) continue;
      uint32_t word[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) word[t] = i ? pair<T>(part[t].z * scale, part[t].w * scale) : pair<T>(part[t].x * scale, part[t].y * scale);
      uint16_t* const to = reinterpret_cast<uint16_t*>(row_at<T>(p.dq, s, head, s.q_start + r)) + column;
      if (work.dq_chunks && left >= 8) *reinterpret_cast<uint4*>(to) = uint4{word[0], word[1], word[2], word[3]};
      else
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (e < left) to[e] = uint16_t(word[e / 2] >> (e % 2 * 16));
    }
  }
}

template <int kWidth> int launch(const SdpaCuda& p, void* stream) {
  using C = Config<kWidth>;
  const bool varlen = p.cu_q != nullptr;
  const int64_t batch = varlen ? 1 : p.batch, rows = varlen ? p.total_q : p.q_len, keys = varlen ? p.total_k : p.k_len;
  const auto map = [&](CUtensorMap& m, const SdpaTensor& t, int64_t heads, int64_t rows, int64_t width, int box) {
    return make_map(m, false, t.p, {batch, heads, rows, width}, {t.batch, t.head, t.row, 1}, box);
  };
  constexpr int64_t kCached = 32 << 20;
  const int64_t one = p.group * p.q_len * (2 * (p.head_dim + p.head_dim_v) + 4 * kWidth);
  Work work{p, uint32_t(device::ceil_div(p.k_len, C::kRows)), uint32_t(most(1, least(p.batch * p.kv_heads, kCached / one)))};
  if (!map(work.q, p.q, p.heads, rows, p.head_dim, C::kTile) || !map(work.dy, p.dy, p.heads, rows, p.head_dim_v, C::kTile) || !map(work.k, p.k, p.kv_heads, keys, p.head_dim, C::kRows) ||
      !map(work.v, p.v, p.kv_heads, keys, p.head_dim_v, C::kRows) || !in_chunks(p.y))
    return kSdpaNotOrdered;
  work.dq_chunks = in_chunks(p.dq), work.dk_chunks = in_chunks(p.dk), work.dv_chunks = in_chunks(p.dv);
  const int64_t tiles = p.batch * p.heads * device::ceil_div(p.q_len, C::kTile), blocks = p.batch * p.kv_heads * work.parts;
  if (tiles)
    if (const int e = device::launch(sums_kernel<kWidth>, unsigned(tiles), 256, 0, stream, p)) return e;
  if (blocks)
    if (const int e = device::launch(keys_kernel<kWidth>, unsigned(blocks), C::kThreads, C::kBytes, stream, work)) return e;
  return tiles ? device::launch(dq_kernel<kWidth>, unsigned(tiles), 256, 0, stream, work) : 0;
}
int backward(const SdpaCuda& p, void* stream) { return p.head_dim <= 64 && p.head_dim_v <= 64 ? launch<64>(p, stream) : launch<128>(p, stream); }

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaLaunch sdpa_cuda_backward_ordered = backward;

}  // namespace baracuda
