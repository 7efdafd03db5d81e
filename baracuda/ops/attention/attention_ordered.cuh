#pragma once
// Gradients in one pass over blocks of keys, 5 products a tile: what its kernels share. Blocks add their part of dq to an f32 scratch in turn, the
// block of lower keys first, so that every sum has one order. All walk the tiles of queries from last to first, so that a causal mask's long blocks
// lead (DASH, 2026); blocks are numbered as they begin, so that nobody waits for one that has not. Heads go side by side, as many as the L2 cache
// holds: the next block of a head begins when the one before is some tiles ahead.
//   sums kernel   lse in the exponential's unit and delta = dy.y for each tile of queries, and nobody's turn has come
//   keys kernel   one for each file that includes this
//   dq kernel     dq = scale * scratch
#include "baracuda/device/half.cuh"
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_gradient.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

struct Work {
  SdpaCuda p;
  uint32_t parts, section;  // blocks of a head's keys; heads whose rows and dq the L2 cache holds together
  CUtensorMap q, k, v, dy;
  bool dq_chunks, dk_chunks, dv_chunks;
};
inline constexpr int kPart = 64 * 64;  // numbers of a part of a tile's dq: 64 columns of 64 rows, or 64 rows
inline constexpr int kPartBytes = 4 * kPart;
template <int kWidth> inline constexpr int kQueryTile = sdpa_ordered_tile(kWidth);
template <int kWidth> inline constexpr int kParts = sdpa_ordered_parts(kWidth);
template <class T> __device__ __forceinline__ Pack<float, 1> low_value(uint32_t v) { return Pack<float, 1>::of(widened(__builtin_bit_cast(T, uint16_t(v)))); }
template <class T> __device__ __forceinline__ Pack<float, 1> high_value(uint32_t v) { return low_value<T>(v >> 16); }
// The first of a sequence's tiles among those of a head.
__device__ __forceinline__ int64_t first_tile(const SdpaCuda& p, const SdpaSequence& s, int tile) {
  return p.cu_q ? s.q_start / tile + s.b : s.b * ((p.q_len + tile - 1) / tile);
}

// A block per tile. f16: also the largest sum of a row's |dy| and the largest |delta|, of rows that are finite.
template <class T, int kWidth> __global__ void __launch_bounds__(256) sums_kernel(const __grid_constant__ SdpaCuda p) {
  constexpr int kTile = kQueryTile<kWidth>, kLanes = kWidth == 192 ? 32 : kWidth / 8, kStep = 256 / kLanes;
  using V = Pack<float, 1>;
  __shared__ int largest[2];
  const int64_t parts = (p.q_len + kTile - 1) / kTile, item = blockIdx.x, head = item / parts % p.heads;
  const SdpaSequence s = sequence_of(p, item / parts / p.heads);
  const int64_t row0 = item % parts * kTile;
  if (item == 0 && threadIdx.x == 0) p.turns[kParts<kWidth> * p.heads * p.tiles] = 0;
  if (row0 >= s.q_len) return;
  const int64_t tile = head * p.tiles + first_tile(p, s, kTile) + item % parts;
  float* const sums = p.sums + tile * 2 * kTile;
  if (threadIdx.x < kParts<kWidth>) p.turns[kParts<kWidth> * tile + threadIdx.x] = 0;
  if (kIsF16<T>) {
    if (threadIdx.x < 2) largest[threadIdx.x] = 0;
    __syncthreads();
  }
  const int c = int(threadIdx.x) % kLanes, left = int(p.head_dim_v) - 8 * c;
#pragma unroll 2
  for (int r = int(threadIdx.x) / kLanes; r < kTile; r += kStep) {
    const bool there = row0 + r < s.q_len;
    const int64_t row = s.q_start + row0 + (there ? r : 0);
    const T *dy = row_at<const T>(p.dy, s, head, row) + 8 * c, *y = row_at<const T>(p.y, s, head, row) + 8 * c;
    V sum = V(0), size = V(0);
    if (left >= 8) {
      const uint4 a = *reinterpret_cast<const uint4*>(dy), b = *reinterpret_cast<const uint4*>(y);
      const uint32_t u[4] = {a.x, a.y, a.z, a.w}, w[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum = fma(low_value<T>(u[e]), low_value<T>(w[e]), sum), sum = fma(high_value<T>(u[e]), high_value<T>(w[e]), sum);
        if (kIsF16<T>) size = size + (abs(low_value<T>(u[e])) + abs(high_value<T>(u[e])));
      }
    } else {
      for (int e = 0; e < left; ++e) {
        sum = fma(load<1>(dy + e), load<1>(y + e), sum);
        if (kIsF16<T>) size = size + abs(load<1>(dy + e));
      }
    }
#pragma unroll
    for (int w = kLanes / 2; w; w /= 2) {
      sum = sum + V::of(__shfl_xor_sync(kAllLanes, sum.v, w));
      if (kIsF16<T>) size = size + V::of(__shfl_xor_sync(kAllLanes, size.v, w));
    }
    if (c != 0) continue;
    const float lse = there ? *row_at<const float>(p.lse, s, head, row) : float(-kInf);
    // No key: exp(-inf), and y is 0, whatever the caller's y holds.
    const float delta = lse == float(-kInf) ? 0 : sum.v;
    sums[r] = lse == float(-kInf) ? float(kInf) : lse * float(kExpUnit<V>) - float(kWeightPower<T>);
    sums[kTile + r] = delta;
    if (kIsF16<T> && there) {
      if (size.v < float(kInf)) atomicMax(&largest[0], __float_as_int(size.v));
      if (fabsf(delta) < float(kInf)) atomicMax(&largest[1], __float_as_int(fabsf(delta)));
    }
  }
  if (kIsF16<T>) {
    __syncthreads();
    if (threadIdx.x < 2) p.largest[2 * tile + threadIdx.x] = __int_as_float(largest[threadIdx.x]);
  }
}

struct Place {
  SdpaSequence s;
  Mask mask;
  int64_t kv_head, first;  // first: tile 0 of the sequence
  int key0, n, last, all;  // tiles of queries from `last` down, of each of the group's heads: `all` together
  int all_from, all_to;    // queries that see all keys of the block
  bool falls;              // sequences that fall would share tiles, and no turn would come: parts are added as they come
};
// Queries [x, y) that see a key.
__device__ __forceinline__ int2 queries_seeing(const Mask& mask, const SdpaSequence& s, int64_t key) {
  const int64_t at = key - mask.shift, from = mask.right < 0 ? 0 : most(0, at - mask.right), to = mask.left < 0 ? s.q_len : least(s.q_len, at + mask.left + 1);
  return key < s.k_len && from < to ? int2{int(from), int(to)} : int2{INT32_MAX / 2, 0};
}

// All that follows is of a block of kRows keys and tiles of kTile queries.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
using namespace hopper;

// One thread: the block's number and what it stands for. Those with lower numbers have begun: sections of heads one after the other, in a section lower
// keys first, which a causal mask makes longer.
template <int kParts, int kRows, int kTile> __device__ __forceinline__ void take_place(const Work& work, Place& place) {
  const SdpaCuda& p = work.p;
  const uint32_t item = uint32_t(atomicAdd(&p.turns[kParts * p.heads * p.tiles], 1)), heads = uint32_t(p.kv_heads), from = item / (work.section * work.parts) * work.section;
  const uint32_t width = min(work.section, uint32_t(p.batch) * heads - from), in_section = item - from * work.parts, head = from + in_section % width;
  Place at;
  at.s = sequence_of(p, head / heads);
  at.mask = mask_of(p, at.s);
  at.kv_head = head % heads;
  at.key0 = int(in_section / width) * kRows, at.n = int(least(kRows, at.s.k_len - at.key0));
  at.first = first_tile(p, at.s, kTile);
  int begin = 0, end = 0;
  if (at.n > 0) queries_of(at.mask, at.s, at.key0, at.n, kTile, begin, end);
  const int tiles = end > begin ? (end - begin + kTile - 1) / kTile : 0;
  at.last = begin / kTile + tiles - 1, at.all = tiles * int(p.group);
  at.all_from = queries_seeing(at.mask, at.s, at.key0 + kRows - 1).x, at.all_to = queries_seeing(at.mask, at.s, at.key0).y;
  at.falls = false;
  place = at;
}
template <int kThreads> __device__ __forceinline__ bool lengths_fall(const SdpaCuda& p) {
  bool falls = false;
  if (p.cu_q)
    for (int64_t b = threadIdx.x; b < p.batch; b += kThreads)
      falls = falls || length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b + 1) < length_at(p.cu_q, p.cu_q_stride, p.cu_q_wide, b);
  return falls;
}
// f16: the largest entries of the block's tiles join `largest`, which was 0.
template <int kThreads> __device__ __forceinline__ void find_largest(const SdpaCuda& p, const Place& place, int (&largest)[3]) {
  const int group = int(p.group);
  for (int u = int(threadIdx.x); u < place.all; u += kThreads) {
    const int64_t tile = (place.kv_head * group + u % group) * p.tiles + place.first + place.last - u / group;
#pragma unroll
    for (int i = 0; i < 2; ++i) atomicMax(&largest[i], __float_as_int(p.largest[2 * tile + i]));
  }
}
// f16: the largest finite |v| of pairs.
__device__ __forceinline__ uint32_t larger_pair(uint32_t most, uint32_t v) { return __vmaxu2(most, v & 0x7fff7fff & ~nonfinite<f16>(v)); }
// The power of two that ds is multiplied by, which takes the largest that it can be to 2^14 or above: |dp| <= sum of |dy| times the largest |v|.
__device__ __forceinline__ int slope_power(const int (&largest)[3]) {
  const float bound = __int_as_float(largest[0]) * __int_as_float(largest[2]) + __int_as_float(largest[1]);
  const int power = 14 + 127 - (__float_as_int(bound) >> 23);
  return power > 100 ? 100 : power < -100 ? -100 : power;
}

// One thread adds the block's parts `part`, part + kStep, ... of each tile, in turn. Parts pass through two slots, one after the other.
// Order between blocks: the engine's additions are made in the L2 cache; wait_stores() says that they are done, the release of the turn comes behind it, and
// the acquire of it, with a fence between it and the engine's next accesses, before the next block's.
template <int kParts, int kStep, int kRows, int kTile>
__device__ __forceinline__ void add_in_turn(const SdpaCuda& p, const Place& place, int part, uint32_t slots, uint32_t full, uint32_t free) {
  const int head0 = int(place.kv_head * p.group), block = place.key0 / kRows;
  int head = head0, tile = place.last;
#pragma unroll 1
  for (int u = 0; u < place.all; ++u) {
    const int64_t at = int64_t(head) * p.tiles + place.first + tile;
    // The blocks before that see the tile: from the first one whose last key its first query sees.
    const int64_t lowest = place.mask.left < 0 ? 0 : most(0, int64_t(tile) * kTile + place.mask.shift - place.mask.left) / kRows;
    const int rank = block - int(lowest);
    const auto add = [&](int c) {
      const int n = u * kParts + c, slot = kParts % 2 == 0 ? c % 2 : n % 2;
      int* const turn = p.turns + kParts * at + c;
      float* const to = p.dq_sums + (kParts * at + c) * kPart;
      barrier_wait(full + 8 * slot, uint32_t(n / 2) % 2);
      while (!place.falls && load_acquire(turn) != rank) {}
      fence_engine();
      if (rank == 0) store_bytes(to, slots + slot * kPartBytes, kPartBytes);
      else add_floats(to, slots + slot * kPartBytes, kPartBytes);
      commit_stores();
      wait_stores_read();
      barrier_arrive(free + 8 * slot);
      wait_stores();
      store_release(turn, rank + 1);
    };
    if constexpr (kParts == kStep) add(part);
    else
#pragma unroll 1
      for (int c = part; c < kParts; c += kStep) add(c);
    if (++head == head0 + int(p.group)) head = head0, --tile;
  }
}
// A thread's eight groups of sums of a part to its slot, in the order of the fragments.
template <class T> __device__ __forceinline__ void put_part(const float (&dq)[8][4], float factor, uint32_t slot) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    uint4 word;
    if constexpr (kIsF16<T>)
      word = {__float_as_uint(dq[j][0] * factor), __float_as_uint(dq[j][1] * factor), __float_as_uint(dq[j][2] * factor), __float_as_uint(dq[j][3] * factor)};
    else word = {__float_as_uint(dq[j][0]), __float_as_uint(dq[j][1]), __float_as_uint(dq[j][2]), __float_as_uint(dq[j][3])};
    store_shared(slot + uint32_t(j * 128 + int(threadIdx.x) % 128) * 16, word);
  }
}
// Columns are the tile's queries from `query` on, seen by the lane's key: bit e of the answer.
template <int kTile> __device__ __forceinline__ uint32_t queries_seen(int2 queries, int query) {
  const int t = int(threadIdx.x) % 4, from = queries.x - query - 2 * t, to = queries.y - query - 2 * t;
  uint32_t seen = 0;
#pragma unroll
  for (int e = 0; e < kTile / 4; ++e) seen |= uint32_t(e / 2 * 8 + e % 2 >= from && e / 2 * 8 + e % 2 < to) << e;
  return seen;
}
template <int kSums> __device__ __forceinline__ void keep_seen(float (&x)[kSums][4], int r, uint32_t seen) {
#pragma unroll
  for (int e = 0; e < 2 * kSums; ++e) x[e / 2][2 * r + e % 2] = seen >> e & 1 ? x[e / 2][2 * r + e % 2] : 0;
}
// Whether lse or delta of one of the tile's queries says that it holds what is not finite: the same for all warps.
template <int kTile> __device__ __forceinline__ bool any_odd(uint32_t sums) {
  bool odd = false;
  for (int e = int(threadIdx.x) % 32; e < 2 * kTile; e += 32) odd = odd || !(fabsf(__uint_as_float(load_shared_word(sums + 4 * e))) < float(kInf));
  return __any_sync(kAllLanes, odd);
}
// p from the sums of a product, ds from p and the sums of the other one. f16: p is kept times 2^15, ds times `factor` times 2^15.
template <int kSums> __device__ __forceinline__ void to_weights(float (&x)[kSums][4], uint32_t lse, float unit) {
  using V = Pack<float, 1>;
  const int t = int(threadIdx.x) % 4;
#pragma unroll
  for (int j = 0; j < kSums; ++j) {
    const float a = __uint_as_float(load_shared_word(lse + 4 * (8 * j + 2 * t))), b = __uint_as_float(load_shared_word(lse + 4 * (8 * j + 2 * t + 1)));
#pragma unroll
    for (int e = 0; e < 4; ++e) x[j][e] = exp_weight<4>(fma(V::of(x[j][e]), V::of(unit), V::of(-(e % 2 ? b : a)))).v;
  }
}
template <class T> __device__ __forceinline__ float slope_of(float weight, float dp, float delta, float factor) {
  if constexpr (kIsF16<T>) return weight * ((dp - delta) * factor);
  return weight * (dp - delta);
}
#endif

// A block per tile: parts lie in the order of a product's fragments. No turn was taken: no key is seen.
template <class T, int kWidth> __global__ void __launch_bounds__(256) dq_kernel(const __grid_constant__ Work work) {
  constexpr int kTile = kQueryTile<kWidth>;
  const SdpaCuda& p = work.p;
  const int64_t parts = (p.q_len + kTile - 1) / kTile, item = blockIdx.x, head = item / parts % p.heads;
  const SdpaSequence s = sequence_of(p, item / parts / p.heads);
  const int64_t row0 = item % parts * kTile;
  if (row0 >= s.q_len) return;
  const int64_t tile = head * p.tiles + first_tile(p, s, kTile) + item % parts;
  const int j = int(threadIdx.x) % 8, g = int(threadIdx.x) / 8 % 8, warp = int(threadIdx.x) / 64;
  const float scale = float(p.scale);
#pragma unroll
  for (int c = 0; c < kParts<kWidth>; ++c) {
    float4 part[4] = {};
    if (p.turns[kParts<kWidth> * tile + c] != 0) {
      const float4* const from = reinterpret_cast<const float4*>(p.dq_sums + (kParts<kWidth> * tile + c) * kPart) + j * 128 + warp * 32 + g * 4;
#pragma unroll
      for (int t = 0; t < 4; ++t) part[t] = from[t];
    }
    const int column = j * 8 + (kTile == 64 ? c * 64 : 0), left = int(p.head_dim) - column;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t r = row0 + (kTile == 64 ? 0 : c * 64) + warp * 16 + g + 8 * i;
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

// `keys`: the keys kernel of Config C.
template <class T, int kWidth, class C> int launch_ordered(const SdpaCuda& p, void (*keys)(Work), void* stream) {
  const bool varlen = p.cu_q != nullptr;
  const int64_t batch = varlen ? 1 : p.batch, rows = varlen ? p.total_q : p.q_len, all_keys = varlen ? p.total_k : p.k_len;
  const auto map = [&](CUtensorMap& m, const SdpaTensor& t, int64_t heads, int64_t rows, int64_t width, int box) {
    return hopper::make_map(m, kIsF16<T>, t.p, {batch, heads, rows, width}, {t.batch, t.head, t.row, 1}, box);
  };
  constexpr int64_t kCached = 32 << 20;
  const int64_t one = p.group * p.q_len * (2 * (p.head_dim + p.head_dim_v) + 4 * kWidth);
  Work work{p, uint32_t(device::ceil_div(p.k_len, C::kRows)), uint32_t(most(1, least(p.batch * p.kv_heads, kCached / one)))};
  if (!map(work.q, p.q, p.heads, rows, p.head_dim, C::kTile) || !map(work.dy, p.dy, p.heads, rows, p.head_dim_v, C::kTile) ||
      !map(work.k, p.k, p.kv_heads, all_keys, p.head_dim, C::kRows) || !map(work.v, p.v, p.kv_heads, all_keys, p.head_dim_v, C::kRows) || !in_chunks(p.y))
    return kSdpaNotOrdered;
  work.dq_chunks = in_chunks(p.dq), work.dk_chunks = in_chunks(p.dk), work.dv_chunks = in_chunks(p.dv);
  const int64_t tiles = p.batch * p.heads * device::ceil_div(p.q_len, C::kTile), blocks = p.batch * p.kv_heads * work.parts;
  if (tiles)
    if (const int e = device::launch(sums_kernel<T, kWidth>, unsigned(tiles), 256, 0, stream, p)) return e;
  if (blocks)
    if (const int e = device::launch(keys, unsigned(blocks), C::kThreads, C::kBytes, stream, work)) return e;
  return tiles ? device::launch(dq_kernel<T, kWidth>, unsigned(tiles), 256, 0, stream, work) : 0;
}

}  // namespace attention
}  // namespace baracuda
