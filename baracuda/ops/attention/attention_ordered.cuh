#pragma once
// Gradients in one pass over blocks of keys, 5 products a tile: what its kernels share. Blocks add their part of dq to an f32 scratch in turn, the
// block of lower keys first, so that every sum has one order. All walk the tiles of queries from last to first, so that a causal mask's long blocks
// lead (DASH, 2026); blocks are numbered as they begin, so that nobody waits for one that has not. Heads go side by side, as many as the L2 cache
// holds: the next block of a head begins when the one before is some tiles ahead.
//   sums kernel   lse in the exponential's unit and delta = dy.y for each tile of queries, and nobody's turn has come
//   keys kernel   one for each file that includes this
//   dq kernel     dq = scale * scratch
#include "baracuda/device/hopper.cuh"
#include "baracuda/ops/attention/attention_gradient.cuh"
#include "baracuda/ops/attention/attention_whole_rows.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

enum class Formula { plain, alibi, capped, both, general };  // of scores: the products, with ALiBi, with softcap, with both, one of these three
struct Work {
  SdpaCuda p;
  uint32_t items, parts, section, delay;  // numbers of blocks; blocks of a head's keys; heads that go side by side, each so many blocks behind the one before
  CUtensorMap q, k, v, dy;
  bool dq_chunks, dk_chunks, dv_chunks;
  float unit, cap;  // from products to exponents, or with a softcap to the argument of tanh and from that to exponents
};
inline constexpr int kPart = 64 * 64;  // numbers of a part of a tile's dq: 64 columns of 64 rows, or 64 rows
inline constexpr int kPartBytes = 4 * kPart;
template <int kWidth> inline constexpr int kQueryTile = sdpa_ordered_tile(kWidth);
template <int kWidth> inline constexpr int kParts = sdpa_ordered_parts(kWidth);
// Halves of a pair as numbers, in one instruction: the sign of a NaN does not count here.
template <class T> __device__ __forceinline__ Pack<float, 1> low_value(uint32_t v) {
  float x;
  if constexpr (kIsF16<T>) asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(x) : "r"(v));
  else x = __uint_as_float(v << 16);
  return Pack<float, 1>::of(x);
}
template <class T> __device__ __forceinline__ Pack<float, 1> high_value(uint32_t v) {
  float x;
  if constexpr (kIsF16<T>) asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(x) : "r"(v));
  else x = __uint_as_float(v & 0xffff0000u);
  return Pack<float, 1>::of(x);
}
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
  const T *const dy0 = row_at<const T>(p.dy, s, head, s.q_start + row0) + 8 * c, *const y0 = row_at<const T>(p.y, s, head, s.q_start + row0) + 8 * c;
  constexpr int kAtOnce = 4;  // rows that are on their way together: nothing is stored before all are there
  static_assert(kTile % (kAtOnce * kStep) == 0);
#pragma unroll 1
  for (int r0 = int(threadIdx.x) / kLanes; r0 < kTile; r0 += kAtOnce * kStep) {
    uint4 a[kAtOnce], b[kAtOnce];
    float lse[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int r = r0 + i * kStep;
      const bool there = row0 + r < s.q_len;
      if (left >= 8) a[i] = *reinterpret_cast<const uint4*>(dy0 + (there ? r : 0) * p.dy.row), b[i] = *reinterpret_cast<const uint4*>(y0 + (there ? r : 0) * p.y.row);
      lse[i] = there && c == 0 ? *row_at<const float>(p.lse, s, head, s.q_start + row0 + r) : float(-kInf);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int r = r0 + i * kStep;
      const bool there = row0 + r < s.q_len;
      V sum = V(0), size = V(0);
      if (left >= 8) {
        const uint32_t u[4] = {a[i].x, a[i].y, a[i].z, a[i].w}, w[4] = {b[i].x, b[i].y, b[i].z, b[i].w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum = fma(low_value<T>(u[e]), low_value<T>(w[e]), sum), sum = fma(high_value<T>(u[e]), high_value<T>(w[e]), sum);
          if (kIsF16<T>) size = size + (abs(low_value<T>(u[e])) + abs(high_value<T>(u[e])));
        }
      } else {
        const T *dy = dy0 + (there ? r : 0) * p.dy.row, *y = y0 + (there ? r : 0) * p.y.row;
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
      // No key: exp(-inf), and y is 0, whatever the caller's y holds.
      const float delta = lse[i] == float(-kInf) ? 0 : sum.v;
      sums[r] = lse[i] == float(-kInf) ? float(kInf) : lse[i] * float(kExpUnit<V>) - float(kWeightPower<T>);
      sums[kTile + r] = delta;
      if (kIsF16<T> && there) {
        if (size.v < float(kInf)) atomicMax(&largest[0], __float_as_int(size.v));
        if (fabsf(delta) < float(kInf)) atomicMax(&largest[1], __float_as_int(fabsf(delta)));
      }
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
  int head0, heads;        // query heads
  int share, key0, n;
  int last, all;           // tiles of queries from `last` down, of each head: `all` together; -1: there is no such block
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
// keys first, which a causal mask makes longer, of each head `delay` blocks behind the head before. Numbers that stand for no block are passed over. A thread block that stays
// takes one ahead: it comes to it, as those of lower numbers come to an end.
template <int kParts, int kRows, int kTile> __device__ __forceinline__ void take_place(const Work& work, Place& place) {
  const SdpaCuda& p = work.p;
  const uint32_t shares = uint32_t(p.shares), heads = uint32_t(p.kv_heads) * shares, lines = work.parts + work.delay * (work.section - 1);
  uint32_t head, part;
  do {
    const uint32_t item = uint32_t(atomicAdd(&p.turns[kParts * p.heads * p.tiles], 1)), from = item / (work.section * lines) * work.section;
    if (item >= work.items) {
      place.n = 0, place.all = -1;
      return;
    }
    const uint32_t width = min(work.section, uint32_t(p.batch) * heads - from), in_section = item - from * lines;
    head = from + in_section % width, part = in_section / width - work.delay * (in_section % width);
  } while (part >= work.parts);
  Place at;
  at.s = sequence_of(p, head / heads);
  at.mask = mask_of(p, at.s);
  at.kv_head = head % heads / shares, at.share = int(head % shares);
  at.heads = int(uint32_t(p.group) / shares), at.head0 = int(at.kv_head * p.group) + at.share * at.heads;
  at.key0 = int(part) * kRows, at.n = int(least(kRows, at.s.k_len - at.key0));
  at.first = first_tile(p, at.s, kTile);
  int begin = 0, end = 0;
  if (at.n > 0) queries_of(at.mask, at.s, at.key0, at.n, kTile, begin, end);
  const int tiles = end > begin ? (end - begin + kTile - 1) / kTile : 0;
  at.last = begin / kTile + tiles - 1, at.all = tiles * at.heads;
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
  for (int u = int(threadIdx.x); u < place.all; u += kThreads) {
    const int64_t tile = int64_t(place.head0 + u % place.heads) * p.tiles + place.first + place.last - u / place.heads;
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
// All threads of a block that does not stay: what its masks and its f16 need, before tiles come. False: there is nothing to do.
template <class T, int kThreads, int kRows> __device__ __forceinline__ bool look_at_block(const SdpaCuda& p, Place& place, bool (&bad_key)[kRows], int2 (&seen_by)[kRows], int (&largest)[3]) {
  if (int(threadIdx.x) < kRows) bad_key[threadIdx.x] = false;
  if (kIsF16<T> && threadIdx.x < 3) largest[threadIdx.x] = 0;
  const bool falls = __syncthreads_or(lengths_fall<kThreads>(p));
  if (threadIdx.x == 0) place.falls = falls;
  if (place.n <= 0) return false;
  if (int(threadIdx.x) < kRows) seen_by[threadIdx.x] = queries_seeing(place.mask, place.s, place.key0 + int(threadIdx.x));
  if constexpr (kIsF16<T>) find_largest<kThreads>(p, place, largest);
  __syncthreads();
  return true;
}

// One thread has the block's keys and values brought; the tiles of q with their sums, and of dy, into rings of kQueries and kGradients.
template <int kRows, int kColumns> __device__ __forceinline__ void bring_keys(const Work& work, const Place& place, uint32_t k, uint32_t v, uint32_t full) {
  const int batch = work.p.cu_q ? 0 : int(place.s.b), row = int(place.s.k_start) + place.key0;
  barrier_expect(full, 2 * kRows * kColumns * 2);
#pragma unroll 1
  for (int c = 0; c < kColumns / 64; ++c) {
    load_box(k + c * kRows * 128, work.k, full, 64 * c, row, int(place.kv_head), batch);
    load_box(v + c * kRows * 128, work.v, full, 64 * c, row, int(place.kv_head), batch);
  }
}
template <int kTile, int kColumns, int kQueries, int kGradients>
__device__ __forceinline__ void bring_tiles(const Work& work, const Place& place, uint32_t q, uint32_t sums, uint32_t q_full, uint32_t q_free, uint32_t dy, uint32_t dy_full, uint32_t dy_free,
                                            int done = 0) {
  constexpr uint32_t kBytes = kTile * kColumns * 2;
  const SdpaCuda& p = work.p;
  const int batch = p.cu_q ? 0 : int(place.s.b), head0 = place.head0;
  int head = head0, tile = place.last;
#pragma unroll 1
  for (int u = done; u < done + place.all; ++u) {
    const int i = u % kQueries, j = u % kGradients, row = int(place.s.q_start) + tile * kTile;
    barrier_wait(q_free + 8 * i, uint32_t(u / kQueries + 1) % 2);
    barrier_expect(q_full + 8 * i, kBytes + 2 * kTile * 4);
#pragma unroll
    for (int c = 0; c < kColumns / 64; ++c) load_box(q + i * kBytes + c * kTile * 128, work.q, q_full + 8 * i, 64 * c, row, head, batch);
    load_bytes(sums + i * 2 * kTile * 4, p.sums + (head * p.tiles + place.first + tile) * 2 * kTile, 2 * kTile * 4, q_full + 8 * i);
    barrier_wait(dy_free + 8 * j, uint32_t(u / kGradients + 1) % 2);
    barrier_expect(dy_full + 8 * j, kBytes);
#pragma unroll
    for (int c = 0; c < kColumns / 64; ++c) load_box(dy + j * kBytes + c * kTile * 128, work.dy, dy_full + 8 * j, 64 * c, row, head, batch);
    if (++head == head0 + place.heads) head = head0, --tile;
  }
}
// 256 threads: zeros in the place of keys with what is not finite, for dq; their scores are NaN. True: there are.
template <class T, int kColumns, int kRows> __device__ __forceinline__ bool clean_keys(uint32_t k, bool (&bad_key)[kRows]) {
  using Keys = MmaTile<T, kColumns, 256, kRows>;
  if (!named_any(2, 256, Keys::template any_nonfinite<kRows>(k))) return false;
  for (int i = int(threadIdx.x); i < kRows * kColumns / 8; i += 256) {
    const uint4 w = load_shared(Keys::at(k, i / (kColumns / 8), i % (kColumns / 8)));
    if (nonfinite<T>(w.x) | nonfinite<T>(w.y) | nonfinite<T>(w.z) | nonfinite<T>(w.w)) bad_key[i / (kColumns / 8)] = true;
  }
  named_wait(2, 256);
  Keys::template clean<kRows>(k);
  publish();
  named_wait(2, 256);
  return true;
}
// 256 threads, f16: the largest |v| of the first n keys.
template <int kColumns, int kRows> __device__ __forceinline__ void find_largest_value(uint32_t v, int n, int (&largest)[3]) {
  uint32_t most = 0;
  for (int i = int(threadIdx.x); i < kRows * kColumns / 8; i += 256) {
    if (i / 8 % kRows >= n) continue;
    const uint4 w = load_shared(v + 16 * i);
    most = larger_pair(larger_pair(larger_pair(larger_pair(most, w.x), w.y), w.z), w.w);
  }
  atomicMax(&largest[2], __float_as_int(fmaxf(low_half<f16>(most), high_half<f16>(most))));
  named_wait(2, 256);
}

// One thread adds every kSlots-th of the block's parts from `part` on, tile after tile, in turn, which pass through its slot of shared memory; `done` did before. Of the last part kLast of 64 columns
// count.
// Order between blocks: the engine's additions are made in the L2 cache; wait_stores() says that they are done, the release of the turn comes behind it, and
// the acquire of it, with a fence between it and the engine's next accesses, before the next block's.
template <int kParts, int kSlots, int kRows, int kTile, int kLast>
__device__ __forceinline__ void add_in_turn(const SdpaCuda& p, const Place& place, int part, uint32_t slots, uint32_t full, uint32_t free, int done = 0) {
  const int head0 = place.head0, block = place.key0 / kRows;
  int head = head0, tile = place.last;
  int c = part, n = done;
#pragma unroll 1
  for (int u = 0; u < place.all; ++n) {
    const int64_t at = int64_t(head) * p.tiles + place.first + tile;
    // The blocks before that see the tile: from the first one whose last key its first query sees.
    const int64_t lowest = place.mask.left < 0 ? 0 : most(0, int64_t(tile) * kTile + place.mask.shift - place.mask.left) / kRows;
    const int rank = block - int(lowest), bytes = c == kParts - 1 ? kLast * kPartBytes / 64 : kPartBytes;
    int* const turn = p.turns + kParts * at + c;
    float* const to = p.dq_sums + (kParts * at + c) * kPart;
    barrier_wait(full + 8 * part, uint32_t(n) % 2);
    while (!place.falls && load_acquire(turn) != rank) {}
    fence_engine();
    if (rank == 0) store_bytes(to, slots + part * kPartBytes, bytes);
    else add_floats(to, slots + part * kPartBytes, bytes);
    commit_stores();
    wait_stores_read();
    barrier_arrive(free + 8 * part);
    wait_stores(), store_release(turn, rank + 1);
    if constexpr (kParts != kSlots) {
      c += kSlots;
      if (c < kParts) continue;
      c -= kParts;
    }
    ++u;
    if (++head == head0 + place.heads) head = head0, --tile;
  }
}
// A thread's groups of sums of a part to its slot, in the order of the fragments.
template <class T, int kSums> __device__ __forceinline__ void put_part(const float (&dq)[kSums][4], float factor, uint32_t slot) {
#pragma unroll
  for (int j = 0; j < kSums; ++j) {
    uint4 word;
    if constexpr (kIsF16<T>)
      word = {__float_as_uint(dq[j][0] * factor), __float_as_uint(dq[j][1] * factor), __float_as_uint(dq[j][2] * factor), __float_as_uint(dq[j][3] * factor)};
    else word = {__float_as_uint(dq[j][0]), __float_as_uint(dq[j][1]), __float_as_uint(dq[j][2]), __float_as_uint(dq[j][3])};
    store_shared(slot + uint32_t(j * 128 + int(threadIdx.x) % 128) * 16, word);
  }
}
// The products of the warpgroup's rows of a block's keys (or values) and a tile's rows begin.
template <class T, int kColumns, int kRows, int kTile, int kSums> __device__ __forceinline__ void begin_dots(float (&sum)[kSums][4], uint32_t rows, uint32_t tile) {
  const uint64_t a = operand(anew(rows)), b = operand(tile);
  begin_products();
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) wgmma<T>(sum, further(a, k / 4 * kRows * 128 + k % 4 * 32), further(b, k / 4 * kTile * 128 + k % 4 * 32), k != 0);
  commit_products();
}
// The product of ds of 64 queries, a block's keys below one another, and 64 columns of its keys begins: a part of dq.
template <class T, int kRows> __device__ __forceinline__ void begin_part(float (&dq)[8][4], uint64_t left, uint64_t right) {
  begin_products();
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) wgmma<T, 1, 1>(dq, further(left, k * 2048), further(right, k * 2048), k != 0);
  commit_products();
}
// The product of weights in registers and a tile's rows begins to join `sum`.
template <class T, int kColumns, int kSums> __device__ __forceinline__ void begin_weighted(float (&sum)[kColumns][4], uint32_t (&w)[kSums][2], uint32_t tile) {
  const uint64_t b = operand(tile, kSums * 8 * 128);
  pin(w), pin(sum);
  begin_products();
#pragma unroll
  for (int k = 0; k < kSums / 2; ++k) {
    const uint32_t a[4] = {w[2 * k][0], w[2 * k][1], w[2 * k + 1][0], w[2 * k + 1][1]};
    wgmma<T>(sum, a, further(b, k * 2048), 1);
  }
  commit_products();
}
// Columns are the tile's queries from `query` on, seen by the lane's key: bit e of the answer.
template <int kTile> __device__ __forceinline__ uint32_t queries_seen(int2 queries, int query) {
  const int first = query + int(threadIdx.x) % 4 * 2;
  const auto before = [&](int end) {  // ones for the columns in front of it
    const int n = end - first < 0 ? 0 : end - first > kTile ? kTile : end - first;
    return __funnelshift_lc(0xffffffffu, 0, n / 8 * 2 + (n % 8 < 2 ? n % 8 : 2));
  };
  return before(queries.y) & ~before(queries.x);
}
template <int kSums> __device__ __forceinline__ void keep_seen(float (&x)[kSums][4], int r, uint32_t seen) {
#pragma unroll
  for (int e = 0; e < 2 * kSums; ++e) x[e / 2][2 * r + e % 2] = seen >> e & 1 ? x[e / 2][2 * r + e % 2] : 0;
}
// The same of weights in pairs.
template <int kSums> __device__ __forceinline__ void keep_seen(uint32_t (&weights)[kSums][2], int r, uint32_t seen) {
#pragma unroll
  for (int j = 0; j < kSums; ++j) {
    constexpr auto byte = [](int n) { return 0x11 * (8 | n); };  // twice the sign of byte n
    uint32_t kept;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(kept) : "r"(seen << (7 - 2 * j % 8)), "r"(seen << (6 - 2 * j % 8)), "r"(byte(j / 4) | byte(4 + j / 4) << 8));
    weights[j][r] &= kept;
  }
}
// Whether lse or delta of one of the tile's queries says that it holds what is not finite: the same for all warps.
template <int kTile> __device__ __forceinline__ bool any_odd(uint32_t sums) {
  bool odd = false;
  for (int e = int(threadIdx.x) % 32; e < 2 * kTile; e += 32) odd = odd || !(fabsf(__uint_as_float(load_shared_word(sums + 4 * e))) < float(kInf));
  return __any_sync(kAllLanes, odd);
}
__device__ __forceinline__ float2 load_shared_pair(uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ void store_shared_words(uint32_t to, uint32_t a, uint32_t b) { asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(to), "r"(a), "r"(b) : "memory"); }
__device__ __forceinline__ void load_shared_words(uint32_t at, uint32_t& a, uint32_t& b) {
  asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(at) : "memory");
}
// Four fragments of 8 rows by 8 to the rows of 16 bytes that lanes name, 8 lanes each fragment's.
__device__ __forceinline__ void store_fragments(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// p from the sums of a product, ds from p and the sums of the other one. f16: p is kept times 2^15, ds times `factor` times 2^15.
__device__ __forceinline__ void to_weights(float (&x)[4], float2 lse, float unit) {
  using V = Pack<float, 1>;
#pragma unroll
  for (int e = 0; e < 4; ++e) x[e] = exp_weight<4>(fma(V::of(x[e]), V::of(unit), V::of(-(e % 2 ? lse.y : lse.x)))).v;
}
template <int kSums> __device__ __forceinline__ void to_weights(float (&x)[kSums][4], uint32_t lse, float unit) {
  const int t = int(threadIdx.x) % 4;
#pragma unroll
  for (int j = 0; j < kSums; ++j) to_weights(x[j], load_shared_pair(lse + 8 * (4 * j + t)), unit);
}
// The same for scores with softcap or ALiBi, in pairs; p times the softcap's derivative, which ds is made of, goes to second(j, its two pairs).
enum class Distance { none, sided, each };  // what ALiBi takes off: nothing, slope * distance for every key that is seen, slope * |distance|
struct Scores {
  float slope, line;  // of ALiBi; how far the lane's first query is from its first key
  bool sided;
};
// For the tile of kTile queries that begins at `query`; `key`: the lane's first one of the block.
template <int kTile, int kRows> __device__ __forceinline__ Scores scores_of(const SdpaCuda& p, const Place& place, int head, int query, int key) {
  const int ahead = query + int(place.mask.shift) - place.key0, t = int(threadIdx.x) % 4;
  if (!p.slopes) return {};
  return {float(kExpUnit<Pack<float, 1>>) * p.slopes[place.s.b * p.slopes_batch + head * p.slopes_head], float(ahead + 2 * t - key), p.right == 0 || ahead >= kRows - 1};
}
inline constexpr int kWeighed = 4;  // sums between two branches, which bound how far instructions are brought forward, and with that the registers
template <class T, bool kCap, Distance kDistance, int kSums, class F>
__device__ __forceinline__ void weigh_scores(const float (&x)[kSums][4], uint32_t (&weights)[kSums][2], int from, uint32_t lse, const Work& work, const Scores& f, F second) {
  using V = Pack<float, 1>;
  const int t = int(threadIdx.x) % 4;
  const V slope = V::of(f.slope), line = V::of(f.line), first = slope * line;
#pragma unroll
  for (int j = from; j < from + kWeighed; ++j) {
    const float2 of_query = load_shared_pair(lse + 8 * (4 * j + t));
    V query[2] = {V::of(of_query.x), V::of(of_query.y)}, w[4], d[4];
    if constexpr (kDistance == Distance::sided) query[0] = query[0] + first, query[1] = query[1] + first;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const V column = V(8 * j + e % 2 - 8 * (e / 2));
      V s = V::of(x[j][e]), less = query[e % 2];
      if constexpr (kDistance == Distance::sided) less = fma(slope, column, less);
      if constexpr (kDistance == Distance::each) less = fma(slope, abs(line + column), less);
      if constexpr (kCap) s = brief_tanh<T>(s, V::of(work.unit));
      w[e] = exp_weight<4>(fma(s, V::of(kCap ? work.cap : work.unit), -less));
      d[e] = kCap ? w[e] * fma(-s, s, V(1)) : w[e];
    }
    weights[j][0] = pair<T>(w[0].v, w[1].v), weights[j][1] = pair<T>(w[2].v, w[3].v);
    second(j, pair<T>(d[0].v, d[1].v), pair<T>(d[2].v, d[3].v));
  }
}
// kWeighed sums from `from` on.
template <class T, Formula kFormula, int kSums, class F>
__device__ __forceinline__ void to_weights(const float (&x)[kSums][4], uint32_t (&weights)[kSums][2], int from, uint32_t lse, const Work& work, const Scores& f, F second) {
  if constexpr (kFormula == Formula::plain) weigh_scores<T, false, Distance::none>(x, weights, from, lse, work, f, second);
  else if constexpr (kFormula == Formula::capped) weigh_scores<T, true, Distance::none>(x, weights, from, lse, work, f, second);
  else if (kFormula == Formula::both || (kFormula == Formula::general && work.cap != 0)) {
    if (kFormula == Formula::general && !work.p.slopes) weigh_scores<T, true, Distance::none>(x, weights, from, lse, work, f, second);
    else weigh_scores<T, true, Distance::each>(x, weights, from, lse, work, f, second);
  } else {
    if (f.sided) weigh_scores<T, false, Distance::sided>(x, weights, from, lse, work, f, second);
    else weigh_scores<T, false, Distance::each>(x, weights, from, lse, work, f, second);
  }
}
template <class T, int kSums, class F>
__device__ __forceinline__ void to_weights(const float (&x)[kSums][4], uint32_t (&weights)[kSums][2], uint32_t lse, const Work& work, const Scores& f, F second) {
#pragma unroll
  for (int j = 0; j < kSums; j += kWeighed) to_weights<T, Formula::general>(x, weights, j, lse, work, f, second);
}
template <class T> __device__ __forceinline__ float slope_of(float weight, float dp, float delta, float factor) {
  if constexpr (kIsF16<T>) return weight * ((dp - delta) * factor);
  return weight * (dp - delta);
}
#endif

// The first `left` of eight sums times `scale`, to a multiple of 16 bytes where `chunks`.
template <class T> __device__ __forceinline__ void write_chunk(T* at, const float (&sum)[8], float scale, int left, bool chunks) {
  uint32_t word[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) word[t] = pair<T>(sum[2 * t] * scale, sum[2 * t + 1] * scale);
  uint16_t* const to = reinterpret_cast<uint16_t*>(at);
  if (chunks && left >= 8) *reinterpret_cast<uint4*>(to) = uint4{word[0], word[1], word[2], word[3]};
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) to[e] = uint16_t(word[e / 2] >> (e % 2 * 16));
}
// Where dk or dv of a key is summed: element 0 of its row.
template <int kWidth> __device__ __forceinline__ float* shared_sums(const SdpaCuda& p, int64_t share, bool of_dv, const SdpaSequence& s, int64_t kv_head, int64_t key) {
  const int64_t keys = p.cu_k ? p.total_k : p.k_len, batch = p.cu_k ? 0 : s.b, batches = p.cu_k ? 1 : p.batch;
  return p.dkv_sums + ((((2 * share + of_dv) * batches + batch) * p.kv_heads + kv_head) * keys + s.k_start + key) * kWidth;
}
// dk or dv of a warp's 16 keys from `first` on: sums times `factor` to the gradient, by way of the rows of a tile, or, where heads are shared out, to the block's sums.
template <class Rows, class T, int kWidth> __device__ __forceinline__ void write_keys(const Work& work, const Place& place, bool of_dv, const float (&sum)[1][kWidth / 8][4], float factor,
                                                                                     uint32_t tile, int first) {
  const SdpaCuda& p = work.p;
  if (p.shares == 1) {
    const float all = of_dv ? factor : factor * float(p.scale), factors[2] = {all, all};
    const SdpaTensor& to = of_dv ? p.dv : p.dk;
    const int width = int(of_dv ? p.head_dim_v : p.head_dim);
    const bool chunks = of_dv ? work.dv_chunks : work.dk_chunks;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (kWidth > 64 && kWidth <= 128)  // 64: registers would be spilled; more: no faster
      if (chunks && width == kWidth && first + 16 <= place.n) {
        write_whole_rows<Rows, T, kWidth>(sum, factors, tile, first, row_at<T>(to, place.s, place.kv_head, place.s.k_start + place.key0), to.row);
        return;
      }
#endif
    write_rows<Rows, T, kWidth, 1>(sum, factors, tile, first, place.n, 0, width, chunks, [&](int r) { return row_at<T>(to, place.s, place.kv_head, place.s.k_start + place.key0 + r); });
    return;
  }
  const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = first + 8 * i + g;
    if (r >= place.n) continue;
    float* const to = shared_sums<8 * Rows::kChunks>(p, place.share, of_dv, place.s, place.kv_head, place.key0 + r) + 2 * t;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) *reinterpret_cast<float2*>(to + 8 * j) = {sum[0][j][2 * i] * factor, sum[0][j][2 * i + 1] * factor};
  }
}
inline constexpr int kSumRows = 64;  // keys of a block
// dk and dv from their shares, in order.
template <class T, int kWidth> __global__ void __launch_bounds__(256) dkv_kernel(const __grid_constant__ Work work) {
  const SdpaCuda& p = work.p;
  const int64_t parts = (p.k_len + kSumRows - 1) / kSumRows, item = blockIdx.x / 2, kv_head = item / parts % p.kv_heads;
  const bool of_dv = blockIdx.x % 2 != 0;
  const SdpaSequence s = sequence_of(p, item / parts / p.kv_heads);
  const int64_t key0 = item % parts * kSumRows;
  const SdpaTensor& to = of_dv ? p.dv : p.dk;
  const int width = int(of_dv ? p.head_dim_v : p.head_dim), n = int(least(kSumRows, s.k_len - key0));
  const float scale = of_dv ? 1 : float(p.scale);
  const bool chunks = of_dv ? work.dv_chunks : work.dk_chunks;
  const int64_t share = p.shares > 1 ? shared_sums<kWidth>(p, 1, of_dv, s, kv_head, 0) - shared_sums<kWidth>(p, 0, of_dv, s, kv_head, 0) : 0;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < n * (kWidth / 8); i += 256) {
    const int r = i / (kWidth / 8), column = i % (kWidth / 8) * 8, left = width - column;
    if (left <= 0) continue;
    const float* const from = shared_sums<kWidth>(p, 0, of_dv, s, kv_head, key0 + r) + column;
    float sum[8] = {};
#pragma unroll 1
    for (int64_t h = 0; h < p.shares; ++h) {
      const float4 a = *reinterpret_cast<const float4*>(from + h * share), b = *reinterpret_cast<const float4*>(from + h * share + 4);
      const float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] += v[e];
    }
    write_chunk<T>(row_at<T>(to, s, kv_head, s.k_start + key0 + r) + column, sum, scale, left, chunks);
  }
}

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
  float4 part[kParts<kWidth>][4] = {};  // all on their way before any is written
#pragma unroll
  for (int c = 0; c < kParts<kWidth>; ++c) {
    const int column = j * 8 + (kTile == 64 ? c * 64 : 0);
    if (column < int(p.head_dim) && p.turns[kParts<kWidth> * tile + c] != 0) {
      const float4* const from = reinterpret_cast<const float4*>(p.dq_sums + (kParts<kWidth> * tile + c) * kPart) + j * 128 + warp * 32 + g * 4;
#pragma unroll
      for (int t = 0; t < 4; ++t) part[c][t] = from[t];
    }
  }
#pragma unroll
  for (int c = 0; c < kParts<kWidth>; ++c)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = j * 8 + (kTile == 64 ? c * 64 : 0), left = int(p.head_dim) - column;
      const int64_t r = row0 + (kTile == 64 ? 0 : c * 64) + warp * 16 + g + 8 * i;
      if (r >= s.q_len || left <= 0) continue;
      float sum[8];
#pragma unroll
      for (int t = 0; t < 4; ++t) sum[2 * t] = i ? part[c][t].z : part[c][t].x, sum[2 * t + 1] = i ? part[c][t].w : part[c][t].y;
      write_chunk<T>(row_at<T>(p.dq, s, head, s.q_start + r) + column, sum, scale, left, work.dq_chunks);
    }
}

inline bool general(const SdpaCuda& p) { return p.softcap != 0 || p.slopes; }
// `keys`: the keys kernel of Config C.
template <class T, int kWidth, class C> int launch_ordered(const SdpaCuda& p, void (*keys)(Work), void* stream) {
  const bool varlen = p.cu_q != nullptr;
  const int64_t batch = varlen ? 1 : p.batch, rows = varlen ? p.total_q : p.q_len, all_keys = varlen ? p.total_k : p.k_len;
  const auto map = [&](CUtensorMap& m, const SdpaTensor& t, int64_t heads, int64_t rows, int64_t width, int box) {
    return hopper::make_map(m, kIsF16<T>, t.p, {batch, heads, rows, width}, {t.batch, t.head, t.row, 1}, box);
  };
  // Heads side by side: as many as keep blocks of one from waiting for each other, which a causal mask lets come to the same tiles together, and as the L2 cache holds.
  const bool causal = p.right >= 0;
  const int64_t one = p.group / p.shares * p.q_len * (2 * (p.head_dim + p.head_dim_v) + 4 * kWidth), least_cached = causal && kWidth > 128 ? 24 : 16;
  const int64_t most_cached = !causal ? 32 : kWidth == 128 && p.q_len <= 8192 ? 64 : 128;
  const int64_t cached = least(most(one * (kWidth == 64 ? 24 : 16), least_cached << 20), most_cached << 20);
  const int64_t parts = device::ceil_div(p.k_len, C::kRows), all_heads = p.batch * p.kv_heads * p.shares, blocks = all_heads * parts;
  const int64_t sections = device::ceil_div(all_heads, most(1, cached / one));  // of about as many heads each
  const int64_t section = most(1, device::ceil_div(all_heads, most(1, sections)));
  const int64_t delay = !causal || p.left >= 0 ? 0 : kWidth > 128 && parts >= 128 ? 2 : kWidth == 64 && parts >= 64 ? 1 : 0;
  Work work{p, uint32_t(all_heads * (parts + delay * (section - 1))), uint32_t(parts), uint32_t(section), uint32_t(delay)};
  if (!map(work.q, p.q, p.heads, rows, p.head_dim, C::kTile) || !map(work.dy, p.dy, p.heads, rows, p.head_dim_v, C::kTile) ||
      !map(work.k, p.k, p.kv_heads, all_keys, p.head_dim, C::kRows) || !map(work.v, p.v, p.kv_heads, all_keys, p.head_dim_v, C::kRows) || !in_chunks(p.y))
    return kSdpaNotOrdered;
  work.unit = float(p.scale * (p.softcap != 0 ? kTanhUnit<T> / p.softcap : kExpUnit<Pack<float, 1>>)), work.cap = float(p.softcap * kExpUnit<Pack<float, 1>>);
  work.dq_chunks = in_chunks(p.dq), work.dk_chunks = in_chunks(p.dk), work.dv_chunks = in_chunks(p.dv);
  const int64_t tiles = p.batch * p.heads * device::ceil_div(p.q_len, C::kTile);
  if (tiles)
    if (const int e = device::launch(sums_kernel<T, kWidth>, unsigned(tiles), 256, 0, stream, p)) return e;
  if (blocks)
    if (const int e = device::launch(keys, unsigned(C::kStays ? least(blocks, p.multiprocessors) : blocks), C::kThreads, C::kBytes, stream, work)) return e;
  if (blocks && p.shares > 1)
    if (const int e = device::launch(dkv_kernel<T, kWidth>, unsigned(2 * p.batch * p.kv_heads * device::ceil_div(p.k_len, kSumRows)), 256, 0, stream, work)) return e;
  return tiles ? device::launch(dq_kernel<T, kWidth>, unsigned(tiles), 256, 0, stream, work) : 0;
}

}  // namespace attention
}  // namespace baracuda
