#pragma once
// A stable radix sort of 32-bit keys with 32-bit values, by digits of 8 bits from the lowest on. At most kMostParts blocks have a
// stretch of elements each. A pass knows how many of each digit every stretch has (counted by the pass before, atomics on integers), so that a block finds its
// places by itself: two launches sort 16 bits. Within a block warps have stretches too; lanes with the same digit rank each other by
// a vote (__match_any_sync). The result depends on keys and values alone.
#include "baracuda/device/launch.cuh"
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_sort {

inline constexpr int kDigits = 256, kMostParts = 128, kThreads = 256, kWarps = kThreads / 32, kPerLane = 4, kPiece = kThreads * kPerLane;

// Arrays of n elements twice over, and counts [passes][parts][kDigits]; the sorted ones end up in keys[passes % 2], values[passes % 2].
struct Sort {
  uint32_t *keys[2], *values[2], *counts;
  int64_t n, each;  // each: elements of a part, whole pieces
  int parts, passes;
};
inline int passes(uint64_t largest) {
  int p = 0;
  while (p < 4 && largest >> (8 * p)) ++p;
  return p;
}
inline int64_t elements_each(int64_t n) { return (n + int64_t(kMostParts) * kPiece - 1) / (int64_t(kMostParts) * kPiece) * kPiece; }
inline int parts(int64_t n) { return n ? int((n + elements_each(n) - 1) / elements_each(n)) : 0; }

// Part blockIdx.x makes its keys and values: of(i, key, value) for each of its i; counts the lowest digits, and clears the counts of later passes.
template <class F> __device__ __forceinline__ void make_keys(const Sort& s, F of) {
  __shared__ uint32_t count[kDigits];
  for (int d = threadIdx.x; d < kDigits; d += kThreads) count[d] = 0;
  for (int p = 1; p < s.passes; ++p)
    for (int d = threadIdx.x; d < kDigits; d += kThreads) s.counts[(int64_t(p) * s.parts + blockIdx.x) * kDigits + d] = 0;
  __syncthreads();
  const int64_t begin = blockIdx.x * s.each, end = begin + s.each < s.n ? begin + s.each : s.n;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    uint32_t key, value;
    of(i, key, value);
    s.keys[0][i] = key, s.values[0][i] = value;
    atomicAdd(&count[key % kDigits], 1u);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kDigits; d += kThreads) s.counts[int64_t(blockIdx.x) * kDigits + d] = count[d];
}

struct Pass { Sort s; int pass; };
static __global__ void __launch_bounds__(kThreads) pass_kernel(const __grid_constant__ Pass p) {
  static_assert(kThreads == kDigits);
  __shared__ uint32_t before[kWarps][kDigits], start[kDigits], sums[kWarps];
  const Sort& s = p.s;
  const int shift = 8 * p.pass, from = p.pass % 2, digit_here = threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t *keys = s.keys[from], *values = s.values[from];
  uint32_t *to_keys = s.keys[1 - from], *to_values = s.values[1 - from];
  // Where this part's elements of a digit begin: behind all of lower digits, and those of the parts before.
  uint32_t mine = 0, all = 0;
  for (int b = 0; b < s.parts; ++b) {
    const uint32_t c = s.counts[(int64_t(p.pass) * s.parts + b) * kDigits + digit_here];
    mine += b < int(blockIdx.x) ? c : 0, all += c;
  }
  uint32_t sum = all;
  for (int w = 1; w < 32; w *= 2) {
    const uint32_t left = __shfl_up_sync(0xffffffffu, sum, w);
    if (lane >= w) sum += left;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) mine += sums[w];
  start[digit_here] = mine + sum - all;
  const int64_t begin = blockIdx.x * s.each, end = begin + s.each < s.n ? begin + s.each : s.n;
  for (int64_t piece = begin; piece < end; piece += kPiece) {
    for (int w = 0; w < kWarps; ++w) before[w][digit_here] = 0;
    __syncthreads();
    uint32_t key[kPerLane], rank[kPerLane];
    const int64_t first = piece + warp * (32 * kPerLane) + lane;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) key[j] = first + 32 * j < end ? keys[first + 32 * j] : 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const bool there = first + 32 * j < end;
      const uint32_t digit = there ? key[j] >> shift & (kDigits - 1) : kDigits;
      const uint32_t peers = __match_any_sync(0xffffffffu, digit);
      const int leader = __ffs(peers) - 1;
      uint32_t old = 0;
      if (lane == leader && there) old = before[warp][digit], before[warp][digit] = old + __popc(peers);
      rank[j] = __shfl_sync(0xffffffffu, old, leader) + __popc(peers & ((1u << lane) - 1));
      __syncwarp();
    }
    __syncthreads();
    uint32_t total = start[digit_here];  // counts of warps become places
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t c = before[w][digit_here];
      before[w][digit_here] = total, total += c;
    }
    start[digit_here] = total;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (first + 32 * j >= end) continue;
      const uint32_t place = before[warp][key[j] >> shift & (kDigits - 1)] + rank[j];
      to_keys[place] = key[j], to_values[place] = values[first + 32 * j];
      if (p.pass + 1 < s.passes)
        atomicAdd(&s.counts[(int64_t(p.pass + 1) * s.parts + place / uint32_t(s.each)) * kDigits + (key[j] >> (shift + 8) & (kDigits - 1))], 1u);
    }
    __syncthreads();
  }
}
// After make_keys; the CUDA error.
inline int sort(const Sort& s, void* stream) {
  int e = 0;
  for (int p = 0; p < s.passes && s.parts && !e; ++p) e = device::launch(pass_kernel, unsigned(s.parts), kThreads, 0, stream, Pass{s, p});
  return e;
}

}  // namespace device_sort
}  // namespace baracuda
