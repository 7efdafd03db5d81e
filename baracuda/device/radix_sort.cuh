#pragma once
// The sort of radix_sort.hpp, by digits of 8 bits from the lowest on. At most kSortMostParts blocks have a stretch of elements each. A pass knows
// how many of each digit every stretch has (counted by the pass before, atomics on integers), so that a block finds its places by itself: two
// launches sort 16 bits. Within a block warps have stretches too; lanes with the same digit rank each other by a vote (__match_any_sync). The result
// depends on keys and values alone.
#include "baracuda/device/launch.cuh"
#include "baracuda/device/radix_sort.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_sort {
using device::SortedRows;

inline constexpr int kDigits = device::kSortDigits, kThreads = 256, kWarps = kThreads / 32, kPerLane = device::kSortPiece / kThreads, kPiece = device::kSortPiece;

// Part blockIdx.x makes its keys and values: of(i, key, value) for each of its i; counts the lowest digits, and clears the counts of later passes.
template <class F> __device__ __forceinline__ void make_keys(const SortedRows& s, F of) {
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

struct Pass { SortedRows s; int pass; };
static __global__ void __launch_bounds__(kThreads) pass_kernel(const __grid_constant__ Pass p) {
  static_assert(kThreads == kDigits);
  __shared__ uint32_t before[kWarps][kDigits], start[kDigits], sums[kWarps];
  const SortedRows& s = p.s;
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
static __global__ void __launch_bounds__(kThreads) first_kernel(const __grid_constant__ SortedRows s) {
  const uint32_t* keys = s.sorted();
  for (int64_t v = int64_t(blockIdx.x) * kThreads + threadIdx.x; v <= s.rows; v += int64_t(gridDim.x) * kThreads) {
    int64_t low = 0, high = s.n;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (keys[mid] < v) low = mid + 1;
      else high = mid;
    }
    s.first[v] = uint32_t(low);
  }
}
// keys(parts) launches what calls make_keys in that many blocks of kThreads; the CUDA error.
template <class F> int sort(const SortedRows& s, void* stream, F keys) {
  int e = s.parts ? keys(unsigned(s.parts)) : 0;
  for (int p = 0; p < s.passes && s.parts && !e; ++p) e = device::launch(pass_kernel, unsigned(s.parts), kThreads, 0, stream, Pass{s, p});
  return e ? e : device::launch(first_kernel, device::blocks_for(s.rows + 1, kThreads), kThreads, 0, stream, s);
}

}  // namespace device_sort
}  // namespace baracuda
