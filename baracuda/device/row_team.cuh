#pragma once
// Rows in registers: a team of 1 ... 512 threads has C chunks of 16 bytes a thread; chunk c of a row belongs to thread c % team. The
// team's size depends on the row's length alone, and so does the order of a row's sums: a thread's elements in order, threads by
// 16, 8, 4, 2, 1, warps in order. Row after row, so that a thread keeps its columns.
#include "baracuda/device/half.cuh"
#include "baracuda/device/rows.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace row_team {

using device_rows::aligned16, device_rows::Chunk, device_rows::kChunk, device_rows::load_chunk, device_rows::store_chunk;

inline constexpr int kMostTeam = 512, kLeastBlock = 128;
// For rows of n elements, `each` a thread; more than kMostTeam: they do not fit.
inline int team_for(int64_t n, int each) {
  int team = 1;
  while (int64_t(team) * each < n && team <= kMostTeam) team *= 2;
  return team;
}
// A team of several warps has a block of its own: what is decided for a row is then decided for all that meet at a barrier.
inline int block_for(int team) { return team <= 32 ? kLeastBlock : team; }

struct Team {
  int size, thread, slot, slots;  // place in the team; number of the team in its block, and teams there
  __device__ explicit Team(int size) : size(size), thread(int(threadIdx.x) & (size - 1)), slot(int(threadIdx.x) / size), slots(int(blockDim.x) / size) {}
  // Joined over the team, for all its threads; `shared` holds 32 values. Every thread of the block calls.
  template <class S, class F> __device__ __forceinline__ S over(S v, S* shared, F join) const {
    for (int w = (size < 32 ? size : 32) / 2; w; w /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, w));
    if (size <= 32) return v;
    __syncthreads();  // what was there may still be read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < size / 32; ++w) v = join(v, shared[w]);
    return v;
  }
  // K sums at once; `shared` holds 32 K numbers.
  template <int K, class A> __device__ __forceinline__ void sums(A (&v)[K], A* shared) const {
    for (int w = (size < 32 ? size : 32) / 2; w; w /= 2)
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] = v[k] + __shfl_xor_sync(0xffffffffu, v[k], w);
    if (size <= 32) return;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) shared[threadIdx.x / 32 * K + k] = v[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k) v[k] = shared[k];
    for (int w = 1; w < size / 32; ++w)
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] = v[k] + shared[w * K + k];
  }
};
// C chunks of a row as they lie in memory.
template <class T, int C> struct Held {
  static constexpr int N = kChunk<T>;
  Chunk<T, N> chunk[C];
  __device__ __forceinline__ void load(const T* row, int64_t n, const Team& t, bool aligned) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int64_t i = (int64_t(c) * t.size + t.thread) * N;
      if (i < n) chunk[c] = load_chunk(row + i, n - i, aligned);
    }
  }
};
// f(c, first element of chunk c) for a thread's chunks that have an element.
template <class T, int C, class F> __device__ __forceinline__ void each_chunk(int64_t n, const Team& t, F f) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int64_t i = (int64_t(c) * t.size + t.thread) * kChunk<T>;
    if (i < n) f(c, i);
  }
}
// Two halves from two floats in one instruction.
template <class T> __device__ __forceinline__ void put_pair(T* to, float a, float b) {
  uint32_t both;
  if constexpr (kIsF16<T>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  *reinterpret_cast<uint32_t*>(to) = both;
}
// A chunk of results v(j).
template <class T, class F> __device__ __forceinline__ Chunk<T, kChunk<T>> chunk_of(F v) {
  constexpr int N = kChunk<T>;
  Chunk<T, N> c;
  if constexpr (kIsHalf<T>) {
#pragma unroll
    for (int j = 0; j < N; j += 2) put_pair(&c.lane[j], v(j).v, v(j + 1).v);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) c.lane[j] = element<T>(v(j));
  }
  return c;
}

}  // namespace row_team
}  // namespace baracuda
