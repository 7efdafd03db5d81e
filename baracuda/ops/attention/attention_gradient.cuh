#pragma once
// What the gradients on tensor cores share: p and ds from sums, in fragments, and their way into 16 bits.
// f16: p is kept times 2^15, ds times a power of two that follows the largest one, so that small weights lose nothing.
#include "baracuda/ops/attention/attention_mma.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {

__device__ __forceinline__ float power_of_two(int n) { return __int_as_float((n + 127) << 23); }
inline constexpr int kLargest = 14, kAim = 8;  // exponents of the largest ds times the power: where it changes, and to what; f16 ends below 2^16
// The power of two that a warp's ds are multiplied by.
template <class T> struct Range {
  int power = 0;
  bool found = false;
  // A larger power or a smaller one for these ds: the sums so far follow.
  template <int kTiles, int kSums, int kColumns> __device__ __forceinline__ void follow(const float (&ds)[kTiles][kSums][4], float (&sum)[kTiles][kColumns][4]) {
    if constexpr (kIsF16<T>) {
      float most = 0;
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int n = 0; n < kSums; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float size = fabsf(ds[m][n][i]);
            most = fmaxf(most, size < float(kInf) ? size : 0);
          }
#pragma unroll
      for (int w = 16; w; w /= 2) most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, w));
      const int exponent = (__float_as_int(most) >> 23) - 127;
      if (most == 0 || (found && exponent + power <= kLargest)) return;
      const int next = kAim - exponent > 120 ? 120 : kAim - exponent < -120 ? -120 : kAim - exponent, change = found ? next - power : 0;
      found = true, power = next;
      if (change == 0) return;
      const float factor = change < -120 ? 0 : power_of_two(change > 120 ? 120 : change);
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int n = 0; n < kColumns; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[m][n][i] *= factor;
    }
  }
  __device__ float factor() const { return kIsF16<T> ? power_of_two(power) : 1; }
  __device__ float inverse() const { return kIsF16<T> ? power_of_two(-power) : 1; }
};
template <class T> inline constexpr int kWeightPower = kIsF16<T> ? 15 : 0;
template <class T> inline constexpr float kWeightUnit = kIsF16<T> ? 0x1p-15f : 1;

// p (times 2^kWeightPower) and ds; hidden ones are 0.
template <class T> __device__ __forceinline__ void weigh(float s, float dp, float unit, float lse, float delta, float& w, float& ds) {
  using V = Pack<float, 1>;
  constexpr double most = kIsF16<T> ? 127 - kWeightPower<T> : 128;
  const V x = fma(V::of(s), V::of(unit), V::of(-lse));
  w = exp_weight<4>(where(x > V(most), V(most), x) + V(double(kWeightPower<T>))).v;
  ds = w * (dp - delta);
  if constexpr (kIsF16<T>) ds *= kWeightUnit<T>;
}

// What a block works on, in shared memory: nothing of it stays in registers across the loop.
struct GradientPlace {
  SdpaSequence s;
  Mask mask;
  int64_t head, kv_head;  // head: of a dq block
  int row0, n;            // the block's rows
};

// Lines are keys first + ... of the block that begins at key0, columns queries from `query` on, whose lse and delta lie in shared memory:
// x becomes p and dp becomes ds; seen as hide() gives it, where masked.
template <class T, int kTiles, int kStep>
__device__ __forceinline__ void weigh_columns(float (&x)[kTiles][kStep / 8][4], float (&dp)[kTiles][kStep / 8][4], uint32_t (&seen)[2 * kTiles], float unit, uint32_t lse_at,
                                              uint32_t delta_at, bool masked, const Mask& mask, int query, int key0, int first) {
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) seen[i] = 0;
#pragma unroll
  for (int e = 0; e < kStep / 4; ++e) {
    const int column = e / 2 * 8 + 2 * t + e % 2;
    const float raw = __uint_as_float(load_shared_word(lse_at + 4 * column)), delta = __uint_as_float(load_shared_word(delta_at + 4 * column));
    const float lse = raw == float(-kInf) ? float(kInf) : raw * float(kExpUnit<Pack<float, 1>>);  // a query that sees nothing: exp(-inf)
    int from = 0, to = 0;
    if (masked) {
      const KeyRange keys = mask.of(query + column);
      from = int(keys.lo) - key0, to = int(keys.hi) - key0;
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      float &a = x[i / 2][e / 2][2 * (i % 2) + e % 2], &b = dp[i / 2][e / 2][2 * (i % 2) + e % 2];
      float w, ds;
      weigh<T>(a, b, unit, lse, delta, w, ds);
      if (masked) {
        const int r = first + 16 * (i / 2) + 8 * (i % 2) + g;
        const bool here = r >= from && r < to;
        seen[i] |= uint32_t(here) << e;
        if (!here) w = ds = 0;
      }
      a = w, b = ds;
    }
  }
}
// Lines are queries row0 + first + ..., whose lse (in the unit of the exponential) and delta are given by row, columns keys from `key` on:
// dp becomes ds.
template <class T, int kTiles, int kStep>
__device__ __forceinline__ void weigh_lines(const float (&x)[kTiles][kStep / 8][4], float (&dp)[kTiles][kStep / 8][4], float unit, const float2* sums, bool masked, const Mask& mask,
                                            int row0, int first, int key) {
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    const int r = first + 16 * (i / 2) + 8 * (i % 2) + g;
    const float2 sum = sums[r];
    int begin = 0, end = kStep;
    if (masked) {
      const KeyRange range = mask.of(row0 + r);
      begin = int(range.lo) - key, end = int(range.hi) - key;
    }
#pragma unroll
    for (int e = 0; e < kStep / 4; ++e) {
      const int at = e / 2 * 8 + 2 * t + e % 2;
      float& b = dp[i / 2][e / 2][2 * (i % 2) + e % 2];
      float w, ds;
      weigh<T>(x[i / 2][e / 2][2 * (i % 2) + e % 2], b, unit, sum.x, sum.y, w, ds);
      b = at < begin || at >= end ? 0 : ds;
    }
  }
}
template <class T, int kTiles, int kStep>
__device__ __forceinline__ void to_pairs(uint32_t (&pairs)[kTiles][kStep / 8][2], const float (&x)[kTiles][kStep / 8][4], float factor) {
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int j = 0; j < kStep / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        pairs[m][j][i] = kIsF16<T> ? pair<T>(x[m][j][2 * i] * factor, x[m][j][2 * i + 1] * factor) : pair<T>(x[m][j][2 * i], x[m][j][2 * i + 1]);
}
// lse and delta of rows [0, n) of a block of queries for weigh_lines, by kThreads threads.
template <int kRows, int kThreads> __device__ __forceinline__ void load_sums(float2* sums, const SdpaCuda& p, const GradientPlace& place) {
  for (int r = int(threadIdx.x); r < kRows; r += kThreads) {
    sums[r] = {float(kInf), 0};
    if (r >= place.n) continue;
    const SdpaSequence& s = place.s;
    const int64_t row = s.q_start + place.row0 + r;
    const float raw = *row_at<const float>(p.lse, s, place.head, row);
    if (raw != float(-kInf)) sums[r].x = raw * float(kExpUnit<Pack<float, 1>>);  // else a query that sees nothing: exp(-inf)
    sums[r].y = static_cast<const float*>(p.delta)[s.b * p.delta_batch + place.head * p.delta_head + row];
  }
}

struct Gradients {
  SdpaCuda p;
  int64_t parts;  // of a head's rows
  bool q_chunks, k_chunks, v_chunks, dy_chunks, dq_chunks, dk_chunks, dv_chunks;
};
inline Gradients gradients_of(const SdpaCuda& p, int64_t parts) {
  return {p, parts, in_chunks(p.q), in_chunks(p.k), in_chunks(p.v), in_chunks(p.dy), in_chunks(p.dq), in_chunks(p.dk), in_chunks(p.dv)};
}
// Queries [begin, end) that see a key of [key0, key0 + n), from a multiple of `step` on: keys move forward with the query.
__device__ __forceinline__ void queries_of(const Mask& mask, const SdpaSequence& s, int key0, int n, int step, int& begin, int& end) {
  begin = int(mask.right < 0 ? 0 : most(0, key0 - mask.shift - mask.right)) / step * step;
  end = int(mask.left < 0 ? s.q_len : least(s.q_len, key0 + n - mask.shift + mask.left));
}
// Queues a tile of queries: q, dy, and lse and then delta of its kRows rows.
template <class Tile, class T, int kRows>
__device__ __forceinline__ void copy_queries(const Gradients& work, const GradientPlace& place, int64_t head, int query, uint32_t q, uint32_t dy, uint32_t sums) {
  const SdpaCuda& p = work.p;
  const SdpaSequence& s = place.s;
  const int left = int(s.q_len) - query, i = int(threadIdx.x);
  Tile::template copy<kRows>(q, row_at<const T>(p.q, s, head, s.q_start + query), p.q.row, left, int(p.head_dim), work.q_chunks);
  Tile::template copy<kRows>(dy, row_at<const T>(p.dy, s, head, s.q_start + query), p.dy.row, left, int(p.head_dim_v), work.dy_chunks);
  if (i >= 2 * kRows) return;
  const bool there = i % kRows < left;
  const int64_t row = s.q_start + query + (there ? i % kRows : 0);
  const float* const from = i < kRows ? row_at<const float>(p.lse, s, head, row) : static_cast<const float*>(p.delta) + s.b * p.delta_batch + head * p.delta_head + row;
  copy_async_word(sums + uint32_t(i) * 4, from, there);
}

}  // namespace attention
}  // namespace baracuda
