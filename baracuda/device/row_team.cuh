#pragma once
// Rows in registers: a team of 1 ... 512 threads, or a cluster of blocks (sm_90), has C chunks of 16 bytes a thread; chunk c of a row belongs
// to thread c % team. The team's size and C depend on the row's length alone, and so does the order of a row's sums: a thread's elements in
// order, threads by 16, 8, 4, 2, 1, warps and blocks likewise. Row after row, so that a thread keeps its columns.
//
// kWhole: every row is whole aligned chunks (whole_chunks() tells the launch); then the row that comes next is on its way to shared memory
// while one is worked on, each thread copying and reading slots of its own, so that no barrier stands between. Other rows are read and
// written by aligned pieces of 16 bytes too, which neighbours shift into place; elements stay with their threads.
#include "baracuda/device/half.cuh"
#include "baracuda/device/rows.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace row_team {

using device_rows::kChunk, device_rows::whole_chunks;

inline constexpr int kMostTeam = 512, kLeastBlock = 128, kMostCluster = 16;
// For rows of n elements, `each` a thread: a part of a warp, of 64 bytes where there are as many (shorter pieces take L2 as much time), or whole
// warps. More than kMostTeam: a cluster of blocks (sm_90) takes a row, if it can.
inline int64_t team_for(int64_t n, int each) {
  const int64_t threads = device::ceil_div(n, each);
  if (threads > 32) return device::ceil_div(threads, 32) * 32;
  int64_t team = n > 16 ? 4 : n > 8 ? 2 : 1;
  while (team < threads) team *= 2;
  return team;
}
// How rows of n elements meet threads.
struct TeamShape {
  int team, block, cluster;  // threads of a row, and of a block; blocks of a row
  static TeamShape of(int64_t n, int each) {
    int64_t team = team_for(n, each);
    int cluster = 1;
    while (cluster <= kMostCluster && team > int64_t(cluster) * kMostTeam) cluster *= 2;
    if (cluster > kMostCluster) return {0, 0, 0};
    const int block = team <= 32 ? kLeastBlock : int(device::ceil_div(team, int64_t(cluster) * 32) * 32);
    return {cluster > 1 ? block * cluster : int(team), block, cluster};
  }
  // With so many threads on each of 132 multiprocessors; a smaller device takes the blocks in turn.
  int64_t blocks(int64_t rows, int threads = kMostTeam) const {
    const int64_t slots = team <= 32 ? block / team : 1, wanted = device::ceil_div(rows, slots), most = cluster > 1 ? 132 / cluster : int64_t(132) * (threads / block);
    return (wanted < most ? wanted : most) * cluster;
  }
  // Sums over all rows of what a thread has of its columns: a warp of small teams, or a team, has a part of them.
  int64_t parts(int64_t rows) const { return team > 32 ? blocks(rows) / cluster : blocks(rows) * (block / 32); }
};
// f(C) with the chunks of a thread for rows of n elements: C, or of rows in f32 that kMostTeam threads do not hold so, twice as many.
template <class T, int C, class F> int with_chunks(int64_t n, F f) {
  if constexpr (sizeof(T) == 4)
    if (team_for(n, C * kChunk<T>) > kMostTeam) return f(std::integral_constant<int, 2 * C>{});
  return f(std::integral_constant<int, C>{});
}
inline TeamShape shape_for(int64_t n, int chunks, int size) {
  const int each = 16 / size * chunks;
  return TeamShape::of(n, size == 4 && team_for(n, each) > kMostTeam ? 2 * each : each);
}
// `blocks` blocks in clusters of `count`.
template <class P> int launch_clusters(void (*kernel)(P), int count, int64_t blocks, int block, size_t shared, void* stream, const P& p) {
  if (shared > 32 * 1024)  // with what the kernel itself has
    if (const cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return int(e);
  if (count == 1) return device::launch(kernel, unsigned(blocks), dim3(unsigned(block)), shared, stream, p);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(count), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(block)), config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(stream), config.attrs = &cluster, config.numAttrs = 1;
  const auto f = reinterpret_cast<const void*>(kernel);
  cudaError_t e = cudaSuccess;
  if (count > 8) e = cudaFuncSetAttribute(f, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return int(e == cudaSuccess ? cudaLaunchKernelEx(&config, kernel, p) : e);
}
template <class P> int launch(void (*kernel)(P), const TeamShape& shape, int64_t rows, size_t shared, void* stream, const P& p, int threads = kMostTeam) {
  return launch_clusters(kernel, shape.cluster, shape.blocks(rows, threads), shape.block, shared, stream, p);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ int cluster_rank() { int r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void cluster_barrier() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// `at` of block `rank`.
template <class S> __device__ __forceinline__ S of_block(const S* at, int rank) {
  static_assert(sizeof(S) == 4 || sizeof(S) == 8);
  std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t> bits;
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(unsigned(__cvta_generic_to_shared(at))), "r"(rank));
  if constexpr (sizeof(S) == 4) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(bits) : "r"(there) : "memory");
  else asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(bits) : "r"(there) : "memory");
  return __builtin_bit_cast(S, bits);
}
#else  // no row of an older architecture launches clusters
__device__ __forceinline__ int cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_barrier() {}
template <class S> __device__ __forceinline__ S of_block(const S* at, int) { return *at; }
#endif

// kSeveral: a block may have several teams of whole warps, and no other threads.
template <bool kSeveral> struct TeamOf {
  int size, blocks, thread, slot, slots;  // threads; blocks of them; place in the team; number of the team in its block, and teams there
  __device__ explicit TeamOf(int size)
      : size(size), blocks(size > kMostTeam ? size / int(blockDim.x) : 1), thread(size > 32 ? int(threadIdx.x) : int(threadIdx.x) & (size - 1)),
        slot(size > 32 ? 0 : int(threadIdx.x) / size), slots(size > 32 ? 1 : int(blockDim.x) / size) {
    if constexpr (kSeveral) slot = int(threadIdx.x) / size, slots = int(blockDim.x) / size, thread = int(threadIdx.x) - slot * size;
    else if (blocks > 1) thread += cluster_rank() * int(blockDim.x);
  }
  // Of the loop over rows: the first row of a block, or a cluster, and from one to its next.
  __device__ int64_t first_row() const { return int64_t(blocks > 1 ? blockIdx.x / unsigned(blocks) : blockIdx.x) * slots; }
  __device__ int64_t row_step() const { return int64_t(blocks > 1 ? gridDim.x / unsigned(blocks) : gridDim.x) * slots; }
  // Before a row: the places of all chunks are worked out again, where registers do not hold them from row to row.
  __device__ __forceinline__ void forget_places(int& n) { asm volatile("" : "+r"(thread), "+r"(n)); }
  // After the last row: what others read of a block must live.
  __device__ void leave() const { if (blocks > 1) cluster_barrier(); }
  // Joined over the team, for all its threads; `none` changes nothing. `shared` holds 64 S; a block calls with two such in turn, so that one
  // barrier is enough. Every thread of the block, or cluster, calls.
  template <class S, class F> __device__ __forceinline__ S over(S v, S none, S* shared, F join) const {
    S a[1] = {v};
    joined(a, none, shared, join);
    return a[0];
  }
  // K sums at once; `shared` holds 64 K numbers, likewise.
  template <int K, class A> __device__ __forceinline__ void sums(A (&v)[K], A* shared) const { joined(v, A(0), shared, [](A a, A b) { return a + b; }); }
  template <int K, class S, class F> __device__ __forceinline__ void joined(S (&v)[K], S none, S* shared, F join) const {
    const auto fold = [&](int lanes) {
      for (int w = lanes / 2; w; w /= 2)
#pragma unroll
        for (int k = 0; k < K; ++k) v[k] = join(v[k], __shfl_xor_sync(0xffffffffu, v[k], w));
    };
    fold(size < 32 ? size : 32);
    if (size <= 32) return;
    const int lane = int(threadIdx.x) % 32, warps = this->warps(), first_warp = warps_before();
    if (lane == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) shared[threadIdx.x / 32 * K + k] = v[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k) v[k] = lane < warps ? shared[(first_warp + lane) * K + k] : none;
    fold(warps > 8 ? 32 : warps > 4 ? 8 : 4);
    if (warps <= 8) {  // the other lanes have nothing
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] = __shfl_sync(0xffffffffu, v[k], 0);
    }
    if (blocks == 1) return;
    S* const own = shared + 32 * K;
    if (threadIdx.x == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) own[k] = v[k];
    cluster_barrier();
#pragma unroll
    for (int k = 0; k < K; ++k) v[k] = lane < blocks ? of_block(own + k, lane) : none;
    fold(32);
  }
  // Of the team's part of the block: warps, and those of the teams before it.
  __device__ int warps() const { return (kSeveral ? size : int(blockDim.x)) / 32; }
  __device__ int warps_before() const { return kSeveral ? slot * (size / 32) : 0; }
  __device__ bool first_of_warp() const { return ((size - 1) & 31 & thread) == 0; }
  __device__ bool last_of_warp() const { return (~thread & (size - 1) & 31) == 0; }
};
using Team = TeamOf<false>;

// --- pieces of 16 bytes
// N elements as words, so that nothing takes them apart before they are used.
template <class T, int N = kChunk<T>> struct Packed {
  static constexpr int kWords = N * int(sizeof(T)) / 4;
  uint32_t word[kWords];
  __device__ __forceinline__ Pack<float, 1> operator[](int j) const {
    if constexpr (sizeof(T) == 4) return Pack<float, 1>::of(__builtin_bit_cast(float, word[j]));
    else if constexpr (kIsF16<T>) {
      float x;
      asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(at(j).bits));
      return Pack<float, 1>::of(x);
    } else return Pack<float, 1>::of(__builtin_bit_cast(float, j % 2 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16));
  }
  __device__ __forceinline__ T at(int j) const {
    if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, word[j]);
    else return T{uint16_t(j % 2 ? word[j / 2] >> 16 : word[j / 2])};
  }
  // of(j): an element
  template <class F> __device__ __forceinline__ static Packed from(F of) {
    Packed p;
#pragma unroll
    for (int j = 0; j < kWords; ++j)
      if constexpr (sizeof(T) == 4) p.word[j] = __builtin_bit_cast(uint32_t, of(j));
      else p.word[j] = uint32_t(of(2 * j).bits) | uint32_t(of(2 * j + 1).bits) << 16;
    return p;
  }
  // v(j): a value
  template <class F> __device__ __forceinline__ static Packed rounded(F v) {
    Packed p;
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      if constexpr (sizeof(T) == 4) p.word[j] = __builtin_bit_cast(uint32_t, v(j).v);
      else if constexpr (kIsF16<T>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p.word[j]) : "f"(v(2 * j + 1).v), "f"(v(2 * j).v));
      else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p.word[j]) : "f"(v(2 * j + 1).v), "f"(v(2 * j).v));
    }
    return p;
  }
  // Aligned.
  __device__ __forceinline__ static Packed load(const void* p) {
    Packed r;
#pragma unroll
    for (int k = 0; k < kWords; k += 4) {
      const uint4 q = static_cast<const uint4*>(p)[k / 4];
      r.word[k] = q.x, r.word[k + 1] = q.y, r.word[k + 2] = q.z, r.word[k + 3] = q.w;
    }
    return r;
  }
  __device__ __forceinline__ void store(void* p) const {
    static_assert(kWords == 4);
    *static_cast<uint4*>(p) = make_uint4(word[0], word[1], word[2], word[3]);
  }
};
template <class T> __device__ __forceinline__ int misplaced(const T* row) { return int(uintptr_t(row) % 16) / int(sizeof(T)); }
// 16 of 32 bytes, from byte `by` on, a multiple of kSize, come first.
template <int kSize> __device__ __forceinline__ void shift_words(uint32_t (&w)[8], int by) {
  const bool two = by & 8, one = by & 4;
#pragma unroll
  for (int j = 0; j < 6; ++j) w[j] = two ? w[j + 2] : w[j];
  if constexpr (kSize <= 4)
#pragma unroll
    for (int j = 0; j < 5; ++j) w[j] = one ? w[j + 1] : w[j];
  if constexpr (kSize <= 2)
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j] = __funnelshift_r(w[j], w[j + 1], unsigned(by & 2) * 8);
}
// Those of a and b, from element `by` on.
template <class T> __device__ __forceinline__ Packed<T> shifted(const Packed<T>& a, const Packed<T>& b, int by) {
  uint32_t w[8] = {a.word[0], a.word[1], a.word[2], a.word[3], b.word[0], b.word[1], b.word[2], b.word[3]};
  shift_words<int(sizeof(T))>(w, by * int(sizeof(T)));
  return {w[0], w[1], w[2], w[3]};
}
// Elements i ... of a row of n that begins s elements behind 16 bytes; what is behind its end is 0.
template <class T> __device__ __forceinline__ Packed<T> load_shifted(const T* row, int i, int n, int s) {
  constexpr int N = kChunk<T>;
  if (i >= s && n - i >= (s ? 2 * N - s : N))
    return shifted<T>(Packed<T>::load(row + (i - s)), Packed<T>::load(row + (i - s) + (s ? N : 0)), s);
  return Packed<T>::from([&](int j) { return j < n - i ? row[i + j] : T{}; });
}
// A thread's chunk of elements i ...; all threads of a warp call, with i >= n where they have none.
template <class T> __device__ __forceinline__ void store_shifted(T* row, int i, int n, int s, const Packed<T>& own, const Team& t) {
  constexpr int N = kChunk<T>;
  Packed<T> before;
#pragma unroll
  for (int j = 0; j < 4; ++j) before.word[j] = __shfl_up_sync(0xffffffffu, own.word[j], 1);
  const int left = n - i;
  const bool mine = left >= N - s && (s == 0 || !t.first_of_warp()), next = left - N >= N - s && !t.last_of_warp();
  if (mine) (s == 0 ? own : shifted<T>(before, own, N - s)).store(row + (i - s));
  if (mine && (next || s == 0)) return;
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (j < left && !(j < N - s ? mine : next)) row[i + j] = own.at(j);
}

// --- rows
// The chunks of a thread as they lie in memory.
template <class T, int C> struct Held { Packed<T> chunk[C]; };
// f(c, first element of chunk c) for a thread's chunks that have an element.
template <class T, int C, class F> __device__ __forceinline__ void each_chunk(int n, const Team& t, F f) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int i = (c * t.size + t.thread) * kChunk<T>;
    if (i < n) f(c, i);
  }
}
// f(j) for the elements of chunk i that the row has.
template <bool kWhole, int N, class F> __device__ __forceinline__ void each_lane(int i, int n, F f) {
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (kWhole || j < n - i) f(j);
}
// f(x) for a thread's share of a row as it lies in memory, where its chunks are not to be gone through once more: short code.
template <class T, class F> __device__ __forceinline__ void over_row(const T* row, int n, const Team& t, F f) {
#pragma unroll 1
  for (int i = t.thread; i < n; i += t.size) f(value(row[i]));
}
// What a thread has of the rows of K tensors, a turn ahead; of rows that are not whole, those of the first S. `slots`: ahead_bytes().
template <class T, int K, int C, bool kWhole, int S = K * C < 16 ? K : 0> struct Ahead {
  uint4* slots;
  const T* rows[K];
  bool staged = kWhole;  // else rows that are not whole are read when they are taken
  __device__ explicit Ahead(void* shared) : slots(static_cast<uint4*>(shared) + threadIdx.x) {
    if constexpr (!kWhole && S > 0) {
      unsigned bytes;
      asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
      staged = bytes > 0;
    }
  }
  __device__ __forceinline__ static void copy(uint4* slot, const void* from, int bytes) {  // the rest of 16 is 0
    const auto to = unsigned(__cvta_generic_to_shared(slot));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
  // A row that is null is none.
  __device__ __forceinline__ void fetch(const T* const (&row)[K], int n, const Team& t) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      rows[k] = row[k];
      if constexpr (kWhole)
        if (row[k])
          each_chunk<T, C>(n, t, [&](int c, int i) {
            const auto to = unsigned(__cvta_generic_to_shared(slots + (k * C + c) * int(blockDim.x)));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(row[k] + i) : "memory");
          });
      if constexpr (!kWhole && S > 0)
        if (k < S && row[k] && staged) {  // the pieces that a chunk lies in; what is before the row is read, what is behind it is not
          constexpr int N = kChunk<T>;
          const int s = misplaced(row[k]);
          each_chunk<T, C>(n, t, [&](int c, int i) {
            uint4* const slot = slots + (k * C + c) * 2 * int(blockDim.x);
            const int left = n - (i - s);
            const T* const from = row[k] + (i - s);
            copy(slot, from, left < N ? left * int(sizeof(T)) : 16);
            if (s > 0) copy(slot + blockDim.x, left > N ? from + N : from, left > 2 * N ? 16 : left > N ? (left - N) * int(sizeof(T)) : 0);
          });
        }
    }
  }
  __device__ __forceinline__ Packed<T> taken(int k, int c, int i, int n) const {
    if constexpr (kWhole) return Packed<T>::load(slots + (k * C + c) * int(blockDim.x));
    const int s = misplaced(rows[k]);
    if (S == 0 || k >= S || !staged) return load_shifted(rows[k], i, n, s);
    const uint4* const slot = slots + (k * C + c) * 2 * int(blockDim.x);
    const Packed<T> a = Packed<T>::load(slot);
    return s == 0 ? a : shifted<T>(a, Packed<T>::load(slot + blockDim.x), s);
  }
  __device__ __forceinline__ void arrive() const {
    if (staged) asm volatile("cp.async.wait_all;" ::: "memory");
  }
  __device__ __forceinline__ void take(Held<T, C> (&to)[K], int n, const Team& t) const {
    arrive();
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (rows[k]) each_chunk<T, C>(n, t, [&](int c, int i) { to[k].chunk[c] = taken(k, c, i, n); });
  }
};
// Bytes of shared memory for that; rows that take more than kMostAhead are no kWhole.
inline constexpr size_t kMostAhead = 96 * 1024;
constexpr size_t ahead_bytes(int tensors, int chunks, int block) { return size_t(16) * size_t(tensors * chunks) * size_t(block); }
// What a launch asks for; of rows that are not whole two pieces a chunk, or none.
constexpr size_t staging(size_t ahead, bool whole) { return whole ? ahead : 2 * ahead <= kMostAhead ? 2 * ahead : 0; }

// Of the block's last lanes, what rows of halves that are not whole are stored with: their ends are many numbers.
template <class T, int C, bool kWhole> inline constexpr int kEdges = kWhole || sizeof(T) == 4 ? 1 : C * (kMostTeam / 32);
// A thread's results made(c, i), a chunk each. Every thread of a block calls, and the team's sums have barriers between two calls; n is 0 for a team
// that has no row.
template <class T, int C, bool kWhole, class F> __device__ __forceinline__ void put_row(T* row, int n, const Team& t, uint4* edges, F made) {
  if constexpr (kWhole) {
    each_chunk<T, C>(n, t, [&](int c, int i) { made(c, i).store(row + i); });
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int i = (c * t.size + t.thread) * kChunk<T>;
      Packed<T> out{};
      if (i < n) out = made(c, i);
      store_shifted(row, i, n, misplaced(row), out, t);
    }
  } else {
    constexpr int N = kChunk<T>;
    const int s = misplaced(row), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32;
    Packed<T> out[C];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int i = (c * t.size + t.thread) * N;
      out[c] = {};
      if (i < n) out[c] = made(c, i);
      if (t.size > 32 && lane == 31) out[c].store(edges + c * warps + warp);
    }
    if (t.size > 32) __syncthreads();
#pragma unroll
    for (int c = 0; c < C; ++c) {  // an aligned piece has the end of the chunk before and the beginning of this one
      const int i = (c * t.size + t.thread) * N, left = n - i;
      Packed<T> before;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        before.word[w] = __shfl_up_sync(0xffffffffu, out[c].word[w], 1);
        if (c > 0 && t.size <= 32) {
          const uint32_t last = __shfl_sync(0xffffffffu, out[c - (c > 0)].word[w], lane | (t.size - 1));
          if (t.thread == 0) before.word[w] = last;
        }
      }
      const bool cut = t.blocks > 1 && threadIdx.x == 0;  // another block has it
      if (t.size > 32 && lane == 0 && !cut && c * warps + warp > 0) before = Packed<T>::load(edges + c * warps + warp - 1);
      const bool mine = left >= N - s && (s == 0 || (i > 0 && !cut)), next = left - N >= N - s && !(t.blocks > 1 && threadIdx.x == blockDim.x - 1);
      if (mine) (s == 0 ? out[c] : shifted<T>(before, out[c], N - s)).store(row + (i - s));
      if (left <= 0 || (mine && (next || s == 0))) continue;
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (j < left && !(j < N - s ? mine : next)) row[i + j] = out[c].at(j);
    }
  }
}
// N neighbours of a weight or bias, `none` where it is absent.
template <class W, int N> __device__ __forceinline__ Packed<W, N> factors(const void* from, int i, int n, double none) {
  const W* const w = static_cast<const W*>(from) + i;
  if (from && n - i >= N && uintptr_t(w) % 16 == 0) return Packed<W, N>::load(w);
  const W e = element<W>(Pack<Acc<W>, 1>(none));
  return Packed<W, N>::from([&](int j) { return from && j < n - i ? w[j] : e; });
}

// The sums into [parts, n], after the last row: the teams of a warp add theirs by 16, 8 ...
template <class T, int C, bool kWhole> __device__ __forceinline__ void store_parts(Pack<float, 1> (&sum)[C][kChunk<T>], void* parts, int n, const Team& t) {
  constexpr int N = kChunk<T>;
  for (int w = 16; w >= t.size; w /= 2)
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int j = 0; j < N; ++j) sum[c][j] = sum[c][j] + Pack<float, 1>::of(__shfl_xor_sync(0xffffffffu, sum[c][j].v, w));
  if (t.size < 32 && int(threadIdx.x) % 32 >= t.size) return;
  float* const to = static_cast<float*>(parts) + (t.size > 32 ? t.first_row() : int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32) * n;
  each_chunk<T, C>(n, t, [&](int c, int i) { each_lane<kWhole, N>(i, n, [&](int j) { to[i + j] = sum[c][j].v; }); });
}

}  // namespace row_team
}  // namespace baracuda
