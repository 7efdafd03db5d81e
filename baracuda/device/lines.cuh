#pragma once
// Sums along lines of a tensor in the tree of host/row_sum.hpp, so with the CPU's bits: element i of a chunk of 4096 is in lane
// i % 64, a lane adds in order, lanes fold by 32, 16 ... 1, chunks pair up level by level. Y threads share a chunk: thread y takes the
// elements y + q Y, q = 0, 1, ..., and has their 64 / Y lanes. Along rows neighbours in the block are neighbours on the line (Y is 32
// or 64); down columns they are neighbouring lines, and Y is 64. So the bits of a line depend on its length alone, and a kernel may
// be chosen freely.
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"
#include "baracuda/host/row_sum.hpp"
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_lines {

inline constexpr int kLineChunk = kSumChunk, kLineLanes = kSumLanes;
__host__ __device__ constexpr int64_t line_chunks(int64_t n) { return sum_chunks(n); }

struct Plus { template <class S> BARACUDA_HD S operator()(S a, S b) const { return a + b; } };
struct Larger {
  template <class A> BARACUDA_HD A operator()(A a, A b) const { return larger(Pack<A, 1>::of(a), Pack<A, 1>::of(b)).v; }
};

// Lanes that a thread keeps when it takes Q elements (0: any number).
template <int Y, int Q> inline constexpr int kOwnLanes = Q == 0 || Q > kLineLanes / Y ? kLineLanes / Y : Q;

// Where a thread stands: x: Y, y: lines, z: chunks of a line in rows; x: lines, y: Y in columns.
template <bool kColumns> struct Seat {
  __device__ static int y() { return int(kColumns ? threadIdx.y : threadIdx.x); }
  __device__ static int line() { return int(kColumns ? threadIdx.x : threadIdx.y); }
  __device__ static int lines() { return int(kColumns ? blockDim.x : blockDim.y); }
};
// A number, or a struct of 4-byte words, of another thread of the warp.
template <class S, class F> __device__ __forceinline__ S moved(S a, F shuffle) {
  if constexpr (std::is_arithmetic_v<S> && sizeof(S) >= 4) return shuffle(a);
  else {
    static_assert(sizeof(S) % 4 == 0);
    struct Words { uint32_t word[sizeof(S) / 4]; };
    Words w = __builtin_bit_cast(Words, a);
#pragma unroll
    for (int k = 0; k < int(sizeof(S) / 4); ++k) w.word[k] = shuffle(w.word[k]);
    return __builtin_bit_cast(S, w);
  }
}
template <class S> __device__ __forceinline__ S from_below(S a, int w) {
  return moved(a, [w](auto v) { return __shfl_down_sync(0xffffffffu, v, w); });
}
template <class S> __device__ __forceinline__ S across(S a, int w) {
  return moved(a, [w](auto v) { return __shfl_xor_sync(0xffffffffu, v, w); });
}
// The fold of all lanes of a chunk, for all its threads. `shared`: as many S as the block has threads; not read from or written to
// around the call without a barrier. Every thread of the block calls.
template <bool kColumns, int Y, int L, class S, class F> __device__ __forceinline__ S fold_lanes(S (&lane)[L], F join, S* shared) {
#pragma unroll
  for (int w = L / 2; w; w /= 2)
#pragma unroll
    for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
  S a = lane[0];
  if constexpr (kColumns) {
    static_assert(Y == kLineLanes);
    const int y = int(threadIdx.y), width = int(blockDim.x);
    S* const own = shared + threadIdx.x;
    own[y * width] = a;
    __syncthreads();
    if (y < 8) {
      S s[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) s[k] = own[(y + 8 * k) * width];
#pragma unroll
      for (int w = 4; w; w /= 2)
#pragma unroll
        for (int k = 0; k < w; ++k) s[k] = join(s[k], s[k + w]);
      own[y * width] = s[0];
    }
    __syncthreads();
    S s[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) s[k] = own[k * width];
#pragma unroll
    for (int w = 4; w; w /= 2)
#pragma unroll
      for (int k = 0; k < w; ++k) s[k] = join(s[k], s[k + w]);
    return s[0];
  } else {
    if constexpr (Y == 64) {
      S* const own = shared + (threadIdx.z * blockDim.y + threadIdx.y) * Y;
      own[threadIdx.x] = a;
      __syncthreads();
      a = join(own[threadIdx.x % 32], own[threadIdx.x % 32 + 32]);
    }
#pragma unroll
    for (int w = 16; w; w /= 2) a = join(a, across(a, w));
    return a;
  }
}
// Terms of the `team` threads of x, thread t's behind that of t - 1, joined in pairs level by level; for all of them. A team is a part of a warp, or
// whole warps; threads t >= count have nothing. `shared`: 32 S for each line of y.
template <class S, class F> __device__ S pairs_of_team(S a, int64_t count, F join, S* shared) {
  const int team = int(blockDim.x), t = int(threadIdx.x), in_warp = team < 32 ? team : 32;
#pragma unroll 1
  for (int w = 1; w < in_warp; w *= 2) {
    const S b = from_below(a, w);
    if (t % 32 % (2 * w) == 0 && t + w < count) a = join(a, b);
  }
  if (team < 32) return moved(a, [team](auto v) { return __shfl_sync(0xffffffffu, v, 0, team); });
  S* const own = shared + threadIdx.y * 32;
  if (t % 32 == 0) own[t / 32] = a;
  __syncthreads();
  const int64_t left = (count + 31) / 32;
  if (t < 32) {
    a = own[t < left ? t : 0];
#pragma unroll 1
    for (int w = 1; w < team / 32; w *= 2) {
      const S b = from_below(a, w);
      if (t % (2 * w) == 0 && t + w < left) a = join(a, b);
    }
    __syncwarp();
    if (t == 0) own[0] = a;
  }
  __syncthreads();
  return own[0];
}
// Terms in memory, joined the same way by the `team` threads of x (1, or warps); for all of them. The memory is used up. Every
// thread of the block calls with a count of the same size.
inline constexpr int kTermsEach = 16, kMostTeam = 512;
template <int kTermsEach = device_lines::kTermsEach, class S, class F> __device__ S pairs_in_memory(S* terms, int64_t count, F join, S* shared) {
  const int team = int(blockDim.x), t = int(threadIdx.x);
  const auto some = [&](int64_t g) {  // as many from kTermsEach g on become one
    S s[kTermsEach];
    const int64_t first = g * kTermsEach;
#pragma unroll
    for (int k = 0; k < kTermsEach; ++k) s[k] = terms[first + k < count ? first + k : 0];
#pragma unroll
    for (int w = 1; w < kTermsEach; w *= 2)
#pragma unroll
      for (int k = 0; k + w < kTermsEach; k += 2 * w)
        if (first + k + w < count) s[k] = join(s[k], s[k + w]);
    return s[0];
  };
  while (count > int64_t(team) * kTermsEach) {
    const int64_t groups = (count + kTermsEach - 1) / kTermsEach;
    for (int64_t r = 0; r < groups; r += team) {
      const S s = some(r + t < groups ? r + t : 0);
      __syncthreads();
      if (r + t < groups) terms[r + t] = s;
    }
    __syncthreads();
    count = groups;
  }
  return pairs_of_team(some(t), (count + kTermsEach - 1) / kTermsEach, join, shared);
}
// Threads of x and lines of y for pairs_in_memory().
template <int kTermsEach = device_lines::kTermsEach> inline dim3 pairs_block(int64_t count) {
  if (count <= kTermsEach) return dim3(1, 128);
  int team = 32;
  while (team < kMostTeam && int64_t(team) * kTermsEach < count) team *= 2;
  return dim3(unsigned(team), 1);
}

}  // namespace device_lines
}  // namespace baracuda
