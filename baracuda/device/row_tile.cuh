#pragma once
// Rows of device/row_team.cuh whose length is no whole number of 16 bytes, by words of 4 bytes. A block has the rows of its teams together, a tile: it
// comes to shared memory, and leaves it, by aligned pieces of 16 bytes, those of a row's head and tail apart; rows that follow on one another in memory
// are one run of pieces. A thread's words are 32 apart, a warp's lie together, so that each is at a constant distance from the thread's first.
#include "baracuda/device/row_team.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace row_team {

using TileTeam = TeamOf<true, false, false>;
template <class T> constexpr int tile_pitch(int n) { return (n + 2 * (kChunk<T> - 1)) / kChunk<T> * kChunk<T>; }  // elements from a row to the next
// Of so many tensors, those that come and what leaves.
template <class T> size_t tile_bytes(int tensors, int64_t n, const TeamShape& shape, int deep = 1) { return sizeof(T) * size_t(tensors * deep * shape.slots()) * size_t(tile_pitch<T>(int(n))); }
inline constexpr int64_t kMostTile = 97 * 1024;  // bytes that a block of any device has
// Elements of a thread, most threads of a block, blocks on a multiprocessor, whose registers they share; bytes of the shortest rows.
struct RowTiles {
  int each, threads, blocks;
  int64_t least = 128;
  // Rows of n elements of `size` bytes, of so many tensors.
  bool take(int64_t n, int size, int tensors) const { return n * size % 16 && n * size >= least && n <= int64_t(threads) * each && tensors * (n * size + 24) <= kMostTile; }
  // Blocks of at most `most` threads where teams are smaller, and of no more teams than there are rows for on every multiprocessor.
  TeamShape shape(int64_t n, int64_t rows, int most) const {
    const int64_t team = device::ceil_div(n, int64_t(32) * each) * 32, wanted = device::ceil_div(rows, 2 * 132), teams = most / team, slots = wanted < teams ? wanted : teams;
    return {int(team), int(team * (slots < 1 ? 1 : slots)), 1};
  }
};
// Whether rows of n elements follow on one another in tensors k ... of a walk.
template <int... k, int K> __device__ __forceinline__ bool in_runs(const device::Walk<K>& rows, int64_t n) { return rows.rank == 1 && ((rows.stride[k][0] == n) && ...); }
// The tile that comes next of K tensors. R: rows of a team in it, one behind the other, where rows are a run; else 1. `run`: in each tensor
// rows follow on one another. of(row, at): the row in each of the tensors.
template <class T, int K, int C, int R = 1> struct Tile {
  static constexpr int N = kWord<T>, kPiece = kChunk<T>;
  T* slots;
  int pitch, place[K];  // place: of this thread's row in shared memory
  bool run;
  __device__ Tile(void* shared, int n, bool run) : slots(static_cast<T*>(shared)), pitch(tile_pitch<T>(n)), run(run) {}
  __device__ __forceinline__ static int rows_of(int64_t first, int64_t rows, const TileTeam& t) { return rows - first < t.slots * R ? int(rows - first) : t.slots * R; }
  __device__ __forceinline__ T* region(int k, const TileTeam& t) const { return slots + k * (t.slots * R) * pitch; }
  // Every thread of the block calls.
  template <class Of> __device__ __forceinline__ void fetch(int64_t first, int64_t rows, int n, const TileTeam& t, Of of) {
    __syncthreads();  // the tile before was taken
    const int count = rows_of(first, rows, t), runs = run ? 1 : count, length = run ? count * n : n;
#pragma unroll 1
    for (int r = 0; r < runs; ++r) {
      const T* at[K];
      of(first + r, at);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int s = misplaced(at[k]), end = s + length, slot = int(region(k, t) - slots) + r * pitch;
        const T* const from = at[k] - s;
        if (r == 0 || r == t.slot) place[k] = slot + s + (run && t.slot * R < count ? t.slot * R * n : 0);  // a team without a row has the first
        for (int i = int(threadIdx.x) * kPiece; i < end; i += int(blockDim.x) * kPiece) {
          const auto to = unsigned(__cvta_generic_to_shared(slots + slot + i));
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from + i), "r"(end - i < kPiece ? (end - i) * int(sizeof(T)) : 16) : "memory");
        }
      }
    }
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }
  __device__ __forceinline__ void take(Held<T, C, N> (&to)[K], int n, const TileTeam& t) const {
    arrive();
#pragma unroll
    for (int k = 0; k < K; ++k) take(k, to[k], n, t);
  }
  // Row r of the team.
  __device__ __forceinline__ void take(int k, Held<T, C, N>& to, int n, const TileTeam& t, int r = 0) const {
    const unsigned from = unsigned(place[k] + r * n + first_word<C, N>(t)), by = from % N * 16;
    const uint32_t* const own = reinterpret_cast<const uint32_t*>(slots) + from / N;
    each_word<C, N>(n, t, [&](int c, int) {
      if constexpr (N == 1) to.chunk[c].word[0] = own[c * 32];
      else to.chunk[c].word[0] = __funnelshift_r(own[c * 32], own[c * 32 + 1], by);
    });
  }
  // made(r, c, i): of row r word c, of elements i ..., for teams that have it; of(row): where it goes. A barrier stands between two calls.
  template <class Of, class F> __device__ __forceinline__ void put(int64_t first, int64_t rows, int n, const TileTeam& t, Of of, F made) const {
    const int count = rows_of(first, rows, t), runs = run ? 1 : count, length = run ? count * n : n;
    T* const out = region(K, t);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int own = t.slot * R + r;
      if (own >= count) break;
      T* const to = out + (run ? misplaced<T>(of(first)) + own * n : own * pitch + misplaced<T>(of(first + own)));
      const bool whole = uintptr_t(to) % 4 == 0;
      each_word<C, N>(n, t, [&](int c, int i) {
        const uint32_t word = made(r, c, i).word[0];
        if (N == 1 || (whole && n - i >= N)) *reinterpret_cast<uint32_t*>(to + i) = word;
        else if constexpr (N > 1) {
          to[i] = T{uint16_t(word)};
          if (n - i >= N) to[i + 1] = T{uint16_t(word >> 16)};
        }
      });
    }
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < runs; ++r) {
      T* const row = of(first + r);
      const int s = misplaced<T>(row), end = s + length;
      T* const to = row - s;
      const T* const from = out + r * pitch;
      for (int i = int(threadIdx.x) * kPiece; i < end; i += int(blockDim.x) * kPiece) {
        if (i >= s && i + kPiece <= end) *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
        else
          for (int j = i < s ? s : i; j < i + kPiece && j < end; ++j) to[j] = from[j];
      }
    }
  }
};

}  // namespace row_team
}  // namespace baracuda
