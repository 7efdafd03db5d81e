#pragma once
// Rows in registers: a team of 1 ... 512 threads, or a cluster of blocks (sm_90), has C chunks of 16 bytes a thread; chunk c of a row belongs
// to thread c % team. The team's size and C depend on the row's length alone, and so does the order of a row's sums: a thread's elements in
// order, threads by 16, 8, 4, 2, 1, warps and blocks likewise. Row after row, so that a thread keeps its columns.
//
// The row that comes next is on its way to shared memory while one is worked on. kWhole: every row is whole aligned chunks (whole_chunks() tells the
// launch); then each thread copies and reads slots of its own, and no barrier stands between. Other rows are copied by aligned pieces of 16 bytes
// too, and a chunk is shifted out of the two that it lies in; they are written by aligned pieces, which neighbours shift into place. Elements stay
// with their threads.
#include "baracuda/device/half.cuh"
#include "baracuda/device/rows.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace row_team {

using device_rows::kChunk, device_rows::whole_chunks;

template <class T> inline constexpr int kWord = 4 / int(sizeof(T));  // elements of 4 bytes
inline constexpr int kMostTeam = 512, kLeastBlock = 128, kSeveralBlock = 256, kMostCluster = 16;
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
  int slots() const { return cluster > 1 ? 1 : block / team; }  // teams of a block
  // With `rows`: a block has several teams, of up to kSeveralBlock threads together, where there are rows for them.
  static TeamShape of(int64_t n, int each, int64_t rows = 0) {
    int64_t team = team_for(n, each);
    int cluster = 1;
    while (cluster <= kMostCluster && team > int64_t(cluster) * kMostTeam) cluster *= 2;
    if (cluster > kMostCluster) return {0, 0, 0};
    int block = team <= 32 ? kLeastBlock : int(device::ceil_div(team, int64_t(cluster) * 32) * 32);
    if (rows > 0 && cluster == 1) {
      const int64_t wanted = device::ceil_div(rows, 2 * 132), most = kSeveralBlock / team, slots = wanted < most ? wanted : most;
      if (team <= 32 || slots > 1) block = int(device::ceil_div(slots * team, 32) * 32);
    }
    return {cluster > 1 ? block * cluster : int(team), block, cluster};
  }
  // With so many threads on each of 132 multiprocessors; a smaller device takes the blocks in turn.
  int64_t blocks(int64_t rows, int threads = kMostTeam) const {
    const int64_t wanted = device::ceil_div(rows, slots()), most = cluster > 1 ? 132 / cluster : int64_t(132) * (threads / block);
    return (wanted < most ? wanted : most) * cluster;
  }
  // Sums over all rows of what a thread has of its columns: a block, or a cluster, has a part of them.
  int64_t parts(int64_t rows, int threads = kMostTeam) const { return blocks(rows, threads) / cluster; }
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

// kSeveral: a block may have several teams, and of more than 32 threads no other threads; kApart: which go on without one another, each with the
// rows it has; kCluster: a cluster may have one.
template <bool kSeveral, bool kApart = false, bool kCluster = true> struct TeamOf {
  int size, blocks, thread, slot, slots;  // threads; blocks of them; place in the team; number of the team in its block, and teams there
  __device__ explicit TeamOf(int size)
      : size(size), blocks(kCluster && size > kMostTeam ? size / int(blockDim.x) : 1), thread(size > 32 ? int(threadIdx.x) : int(threadIdx.x) & (size - 1)),
        slot(size > 32 ? 0 : int(threadIdx.x) / size), slots(size > 32 ? 1 : int(blockDim.x) / size) {
    if (kSeveral && blocks == 1) slot = int(threadIdx.x) / size, slots = int(blockDim.x) / size, thread = int(threadIdx.x) - slot * size;
    else if (!(kSeveral && !kApart) && blocks > 1) thread += cluster_rank() * int(blockDim.x);
  }
  // Of the loop over rows: the first row of a block, or a cluster, and from one to its next.
  __device__ int64_t first_row() const { return int64_t(blocks > 1 ? blockIdx.x / unsigned(blocks) : blockIdx.x) * slots; }
  __device__ int64_t row_step() const { return int64_t(blocks > 1 ? gridDim.x / unsigned(blocks) : gridDim.x) * slots; }
  // Before a row: the places of all chunks are worked out again, where registers do not hold them from row to row.
  __device__ __forceinline__ void forget_places(int& n) { asm volatile("" : "+r"(thread), "+r"(n)); }
  // Threads of the team in this block, which of them this is, and a barrier for them.
  __device__ int wide() const { return blocks > 1 ? int(blockDim.x) : size; }
  __device__ int seat() const { return int(threadIdx.x) - (blocks > 1 ? 0 : slot * size); }
  __device__ __forceinline__ void sync() const {
    if (size <= 32) __syncwarp();
    else if (kApart && slots > 1) asm volatile("bar.sync %0, %1;" ::"r"(slot + 1), "r"(size) : "memory");
    else __syncthreads();
  }
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
    if constexpr (kApart) sync();
    else __syncthreads();
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
  __device__ int warps() const { return (kSeveral && (!kApart || blocks == 1) ? size : int(blockDim.x)) / 32; }
  __device__ int warps_before() const { return kSeveral && (!kApart || blocks == 1) ? slot * (size / 32) : 0; }
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
    for (int k = 0; k + 4 <= kWords; k += 4) {
      const uint4 q = static_cast<const uint4*>(p)[k / 4];
      r.word[k] = q.x, r.word[k + 1] = q.y, r.word[k + 2] = q.z, r.word[k + 3] = q.w;
    }
    if constexpr (kWords < 4)
#pragma unroll
      for (int k = 0; k < kWords; ++k) r.word[k] = static_cast<const uint32_t*>(p)[k];
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
template <class T, class Team> __device__ __forceinline__ void store_shifted(T* row, int i, int n, int s, const Packed<T>& own, const Team& t) {
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
template <class T, int C, int N = kChunk<T>> struct Held { Packed<T, N> chunk[C]; };
// f(c, first element of chunk c) for a thread's chunks that have an element.
template <class T, int C, class Team, class F> __device__ __forceinline__ void each_chunk(int n, const Team& t, F f) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int i = (c * t.size + t.thread) * kChunk<T>;
    if (i < n) f(c, i);
  }
}
// Rows of device/row_tile.cuh: a thread's words are 32 apart, a warp's lie together. A warp that has all of its words has no branches, so that they are worked
// on together.
template <int C, int N, class Team> __device__ __forceinline__ int first_word(const Team& t) { return t.thread / 32 * (32 * C * N) + t.thread % 32 * N; }
template <int C, int N, class Team, class F> __device__ __forceinline__ void each_word(int n, const Team& t, F f) {
  const int first = first_word<C, N>(t);
  if (first - t.thread % 32 * N + 32 * C * N <= n) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      __builtin_assume(n - (first + c * (32 * N)) >= N);
      f(c, first + c * (32 * N));
    }
  } else {
#pragma unroll
    for (int c = 0; c < C; ++c)
      if (first + c * (32 * N) < n) f(c, first + c * (32 * N));
  }
}
// Either, by the elements that lie together.
template <class T, int C, int N, class Team, class F> __device__ __forceinline__ void each_piece(int n, const Team& t, F f) {
  if constexpr (N == kChunk<T>) each_chunk<T, C>(n, t, f);
  else each_word<C, N>(n, t, f);
}
// f(j) for the elements of chunk i that the row has.
template <bool kWhole, int N, class F> __device__ __forceinline__ void each_lane(int i, int n, F f) {
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (kWhole || j < n - i) f(j);
}
// f(x) for a thread's share of a row as it lies in memory, where its chunks are not to be gone through once more: short code.
template <class T, class Team, class F> __device__ __forceinline__ void over_row(const T* row, int n, const Team& t, F f) {
#pragma unroll 1
  for (int i = t.thread; i < n; i += t.size) f(value(row[i]));
}
// What a team has of the rows of K tensors, a turn ahead; of rows that are not whole, those of the first S. `slots`: staging().
template <class T, int K, int C, bool kWhole, int S = K> struct Ahead {
  static constexpr int N = kChunk<T>;
  uint4* slots;         // kWhole: this thread's, blockDim.x from one to the next; else the team's, t.wide() + 1 for each run of chunks
  const T* rows[K];
  bool staged = kWhole;  // else rows that are not whole are read when they are taken
  // `turn`: of several with as much memory each.
  template <class Team> __device__ __forceinline__ Ahead(void* shared, const Team& t, int turn = 0) : slots(static_cast<uint4*>(shared)) {
    if constexpr (kWhole) slots += turn * (K * C * int(blockDim.x)) + int(threadIdx.x);
    else {
      slots += (turn * t.slots + t.slot) * (S * C * (t.wide() + 1));
      unsigned bytes;
      asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
      staged = bytes > 0;
    }
  }
  __device__ __forceinline__ static void copy(uint4* slot, const void* from, int elements) {  // the rest of 16 bytes is 0
    const auto to = unsigned(__cvta_generic_to_shared(slot));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(elements < N ? elements * int(sizeof(T)) : 16) : "memory");
  }
  // A row that is null is none. Every thread of the team calls.
  template <class Team> __device__ __forceinline__ void fetch(const T* const (&row)[K], int n, const Team& t) {
    if (!kWhole && staged) t.sync();  // the row before was taken
#pragma unroll
    for (int k = 0; k < K; ++k) {
      rows[k] = row[k];
      if constexpr (kWhole)
        if (row[k])
          each_chunk<T, C>(n, t, [&](int c, int i) {
            const auto to = unsigned(__cvta_generic_to_shared(slots + (k * C + c) * int(blockDim.x)));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(row[k] + i) : "memory");
          });
      if constexpr (!kWhole)
        if (k < S && row[k] && staged) {  // what is before the row is read, what is behind it is not
          const int s = misplaced(row[k]), wide = t.wide(), seat = t.seat();
#pragma unroll
          for (int c = 0; c < C; ++c) {
            const int i = (c * t.size + t.thread) * N - s;
            uint4* const slot = slots + (k * C + c) * (wide + 1) + seat;
            if (i < n) copy(slot, row[k] + i, n - i);
            if (seat == wide - 1 && s > 0 && i + N < n) copy(slot + 1, row[k] + i + N, n - i - N);
          }
        }
    }
  }
  template <class Team> __device__ __forceinline__ Packed<T> taken(int k, int c, int i, int n, const Team& t) const {
    if constexpr (kWhole) return Packed<T>::load(slots + (k * C + c) * int(blockDim.x));
    const int s = misplaced(rows[k]);
    if (k >= S) return load_shifted(rows[k], i, n, s);
    if (!staged) return Packed<T>::from([&](int j) { return j < n - i ? rows[k][i + j] : T{}; });
    const uint4* const slot = slots + (k * C + c) * (t.wide() + 1) + t.seat();
    const Packed<T> a = Packed<T>::load(slot);
    return s == 0 ? a : shifted<T>(a, Packed<T>::load(slot + 1), s);
  }
  // The row is there, but for what a thread asked for in its `later` newest groups of copies.
  template <int later = 0, class Team> __device__ __forceinline__ void arrive(const Team& t) const {
    if (!staged) return;
    if constexpr (later == 0) asm volatile("cp.async.wait_all;" ::: "memory");
    else asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
    if constexpr (!kWhole) t.sync();
  }
  __device__ __forceinline__ static void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <class Team> __device__ __forceinline__ void take(Held<T, C> (&to)[K], int n, const Team& t) const {
    arrive(t);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (rows[k]) each_chunk<T, C>(n, t, [&](int c, int i) { to[k].chunk[c] = taken(k, c, i, n, t); });
  }
};
// Rows that are taken more than once each: while one is worked on, the next is on its way, or, `two`, the next two.
template <class T, int K, int C, bool kWhole> struct Queue {
  using Rows = Ahead<T, K, C, kWhole>;
  Rows now, next;
  bool two;
  template <class Team> __device__ __forceinline__ Queue(void* shared, const Team& t, bool two) : now(shared, t), next(shared, t, 1), two(two) {}
  // of(first, row): the row that this team has, where the block's, or cluster's, first is that.
  template <class Team, class Of> __device__ __forceinline__ void begin(int64_t first, int64_t rows, int n, const Team& t, Of of) {
    fetch(now, first, rows, n, t, of);
    if (two) fetch(next, first + t.row_step(), rows, n, t, of);
  }
  template <class Team> __device__ __forceinline__ void arrive(const Team& t) const {
    if (two) now.template arrive<1>(t);
    else now.arrive(t);
  }
  // The row was taken for the last time.
  template <class Team, class Of> __device__ __forceinline__ void advance(int64_t first, int64_t rows, int n, const Team& t, Of of) {
    fetch(now, first + (two ? 2 : 1) * t.row_step(), rows, n, t, of);
    if (!two) return;
    const Rows taken = now;
    now = next, next = taken;
  }

 private:
  template <class Team, class Of> __device__ __forceinline__ static void fetch(Rows& to, int64_t first, int64_t rows, int n, const Team& t, Of of) {
    if (first < rows) {
      const T* row[K];
      of(first, row);
      to.fetch(row, n, t);
    }
    to.close_group();
  }
};
// Bytes of shared memory for an Ahead, for what a launch asks; 0 where rows that are not whole do not fit. Rows that take more than kMostAhead are no
// kWhole.
inline constexpr size_t kMostAhead = 96 * 1024;
constexpr size_t ahead_bytes(int tensors, int chunks, int block) { return size_t(16) * size_t(tensors * chunks) * size_t(block); }
inline size_t staging(int tensors, int chunks, const TeamShape& shape, bool whole) {
  const size_t bytes = ahead_bytes(tensors, chunks, whole ? shape.block : shape.block + shape.slots());
  return whole || bytes <= kMostAhead ? bytes : 0;
}
// For a Queue of rows that are not whole: two ahead, where there is room for those of all blocks of a multiprocessor that has so many threads; one; none.
struct Turns { bool two; size_t bytes; };
inline Turns turns_of(int tensors, int chunks, const TeamShape& shape, int threads) {
  const size_t one = ahead_bytes(tensors, chunks, shape.block + shape.slots());
  size_t most = kMostAhead;
  int device = 0, given = 0;
  if (2 * one > most && cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&given, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess) most = size_t(given) - 8 * 1024;
  if (one > most) return {false, 0};
  const size_t blocks = shape.cluster > 1 || threads < shape.block ? 1 : size_t(threads / shape.block);
  const bool two = 2 * one <= most && 2 * one * blocks <= 2 * kMostAhead;
  return {two, (two ? 2 : 1) * one};
}

// Of the block's last lanes, what rows of halves that are not whole are stored with: their ends are many numbers.
template <class T, int C, bool kWhole> inline constexpr int kEdges = kWhole || sizeof(T) == 4 ? 1 : C * (kMostTeam / 32);
// A thread's results made(c, i), a chunk each. Every thread of a block calls, and the team's sums have barriers between two calls; n is 0 for a team
// that has no row.
template <class T, int C, bool kWhole, class Team, class F> __device__ __forceinline__ void put_row(T* row, int n, const Team& t, uint4* edges, F made) {
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
    const int s = misplaced(row), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 - t.warps_before(), warps = t.warps();
    edges += t.warps_before() * C;
    Packed<T> out[C];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int i = (c * t.size + t.thread) * N;
      out[c] = {};
      if (i < n) out[c] = made(c, i);
      if (t.size > 32 && lane == 31) out[c].store(edges + c * warps + warp);
    }
    if (t.size > 32) t.sync();
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
  constexpr uintptr_t kBytes = N * sizeof(W) < 16 ? N * sizeof(W) : 16;
  if (from && n - i >= N && (N == 1 || uintptr_t(w) % kBytes == 0)) return Packed<W, N>::load(w);
  const W e = element<W>(Pack<Acc<W>, 1>(none));
  return Packed<W, N>::from([&](int j) { return from && j < n - i ? w[j] : e; });
}

// The sums into [parts, n], after the last row: the teams of a warp add theirs by 16, 8 ..., then those of a block in order, by way of `shared`, which has
// room for a number of each sum. Every thread of the block calls.
template <class T, int C, int N, bool kWhole, class Team> __device__ __forceinline__ void store_parts(Pack<float, 1> (&sum)[C][N], void* parts, int n, const Team& t, void* shared) {
  for (int w = 16; w >= t.size; w /= 2)
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int j = 0; j < N; ++j) sum[c][j] = sum[c][j] + Pack<float, 1>::of(__shfl_xor_sync(0xffffffffu, sum[c][j].v, w));
  const bool mine = t.size > 32 || int(threadIdx.x) % 32 < t.size;
  const int teams = t.size > 32 ? t.slots : int(blockDim.x) / 32;
  float* const part = static_cast<float*>(parts) + int64_t(blockIdx.x / unsigned(t.blocks)) * n;
  float* const to = teams == 1 ? part : static_cast<float*>(shared) + (t.size > 32 ? t.slot : int(threadIdx.x) / 32) * n;
  if (teams > 1) __syncthreads();  // `shared` was read
  if (mine) each_piece<T, C, N>(n, t, [&](int c, int i) { each_lane<kWhole, N>(i, n, [&](int j) { to[i + j] = sum[c][j].v; }); });
  if (teams == 1) return;
  __syncthreads();
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
    Pack<float, 1> s = 0;
    for (int k = 0; k < teams; ++k) s = s + Pack<float, 1>::of(static_cast<const float*>(shared)[k * n + i]);
    part[i] = s.v;
  }
}

}  // namespace row_team
}  // namespace baracuda
