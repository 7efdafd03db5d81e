#pragma once
// Rows of a tensor by teams of threads. Element i of a row belongs to thread i / kChunk<T> % team, whatever the alignment, and a
// team's size depends on the row's length alone, so that the order of a row's sums does too.
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_rows {

template <class T> inline constexpr int kChunk = 16 / int(sizeof(T));
template <class T, int N> struct alignas(sizeof(T) * N) Chunk { T lane[N]; };

// Threads of a team for rows of n elements in chunks: a part of a warp, a warp, or whole warps up to 1024 threads, with
// at most `each` chunks a thread while there are more threads to take.
inline int team_size(int64_t n, int chunk, int each = 4) {
  const int64_t chunks = device::ceil_div(n, chunk);
  int team = 4;
  while (team < 32 && team < chunks) team *= 2;
  while (team < 1024 && int64_t(team) * each < chunks) team *= 2;
  return team;
}
// Chunks of a thread of such a team, where a row fits in registers: 1, 2, 4; else 0.
inline int chunks_each(int64_t n, int chunk, int team) {
  const int64_t each = device::ceil_div(device::ceil_div(n, chunk), team);
  return each <= 1 ? 1 : each <= 2 ? 2 : each <= 4 ? 4 : 0;
}
// Four warps with whole rows, or one team: what is decided for a row is then decided for all that meet at a barrier.
inline dim3 block_of(int team) { return dim3(unsigned(team), team <= 32 ? unsigned(128 / team) : 1); }

// f(i, k) for the thread's chunks, i the first element, k the number of the chunk where a thread has at most C of them.
template <int C, int N, class F> __device__ __forceinline__ void each_chunk(int64_t n, F f) {
  const int64_t first = int64_t(threadIdx.x) * N, step = int64_t(blockDim.x) * N;
  if constexpr (C > 0) {
#pragma unroll
    for (int k = 0; k < C; ++k)
      if (first + k * step < n) f(first + k * step, k);
  } else
    for (int64_t i = first; i < n; i += step) f(i, 0);
}

// `count` (at most kChunk) elements; aligned: the address allows one load.
template <class T> __device__ __forceinline__ Chunk<T, kChunk<T>> load_chunk(const T* p, int64_t count, bool aligned) {
  Chunk<T, kChunk<T>> c;
  if (aligned && count >= kChunk<T>) return *reinterpret_cast<const Chunk<T, kChunk<T>>*>(p);
#pragma unroll
  for (int j = 0; j < kChunk<T>; ++j) c.lane[j] = j < count ? p[j] : T{};
  return c;
}
template <class T> __device__ __forceinline__ void store_chunk(T* p, const Chunk<T, kChunk<T>>& c, int64_t count, bool aligned) {
  if (aligned && count >= kChunk<T>) {
    *reinterpret_cast<Chunk<T, kChunk<T>>*>(p) = c;
    return;
  }
#pragma unroll
  for (int j = 0; j < kChunk<T>; ++j)
    if (j < count) p[j] = c.lane[j];
}
// kWhole: every chunk of every row is one aligned load, as whole_chunks() told the launch; else element by element. A kernel that
// decides for itself takes more registers and may choose the elements.
template <bool kWhole, class T> __device__ __forceinline__ Chunk<T, kChunk<T>> load_chunk(const T* p, int64_t count) {
  if constexpr (kWhole) return *reinterpret_cast<const Chunk<T, kChunk<T>>*>(p);
  else return load_chunk(p, count, false);
}
template <bool kWhole, class T> __device__ __forceinline__ void store_chunk(T* p, const Chunk<T, kChunk<T>>& c, int64_t count) {
  if constexpr (kWhole) *reinterpret_cast<Chunk<T, kChunk<T>>*>(p) = c;
  else store_chunk(p, c, count, false);
}
template <class T, int K> bool whole_chunks(const device::Walk<K>& rows, int k, const void* data, int64_t n) {
  if (!data) return true;
  bool whole = n % kChunk<T> == 0 && uintptr_t(data) % 16 == 0;
  for (int a = 0; a < rows.rank; ++a) whole = whole && (rows.extent[a] == 1 || rows.stride[k][a] % kChunk<T> == 0);
  return whole;
}
__device__ __forceinline__ bool aligned16(const void* p) { return (uintptr_t(p) & 15) == 0; }

// The sum over a team, for all its threads, called by whole warps together: lanes pair up by 16, 8, 4, 2, 1 (those that it has), then warps in order. `shared` has 32 doubles.
__device__ __forceinline__ double team_sum(double v, double* shared) {
#pragma unroll
  for (int w = 16; w; w /= 2)
    if (w < int(blockDim.x)) v = v + __shfl_xor_sync(0xffffffffu, v, w);
  const int warps = int(blockDim.x) / 32;
  if (warps <= 1) return v;
  __syncthreads();  // the sum before may still be read
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  double s = shared[0];
  for (int w = 1; w < warps; ++w) s = s + shared[w];
  return s;
}

}  // namespace device_rows
}  // namespace baracuda
