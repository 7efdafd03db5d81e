#pragma once
// Rows of any alignment by the copy engine, on sm_90a: it brings a run of short rows to a ring of slots in shared memory, and takes it from there, for one warp, and a
// longer row for one block. Warps, and blocks, do not wait for one another. Several rows of a warp have 1 to 32 lanes each: lane l has elements l `each` ..., an odd
// number of them, so that shared memory has few conflicts. Threads of a block have words of 4 bytes, each 32 behind the one before. The order of a row's sums
// depends on its length alone. The floor is memory bandwidth.
#include "baracuda/device/half.cuh"
#include "baracuda/device/hopper.cuh"
#include "baracuda/device/row_team.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace row_runs {

inline constexpr int kWarps = 8, kMemory = 226 * 1024, kOwn = 1024 + 512, kRunBytes = 2304;  // warps of a block; bytes of a multiprocessor, of a block besides slots, of a run of several passes
// Elements of a lane: one and groups of four.
constexpr int each_of(int64_t n, int lanes) { return (int((n - 1) / lanes) + 3) / 4 * 4 + 1; }
struct RunShape {
  int lanes = 1, each = 1;              // lanes of a row
  int rows = 1, pitch = 0, slots = 0;   // rows of a run; bytes of one tensor's in a slot; slots of a warp
  int64_t total = 0;                    // rows
  int runs = 0;
  int bytes(int tensors) const { return kWarps * slots * tensors * pitch; }
  // Rows of n elements, of which a lane has at most `most`. lanes: 0, not by runs.
  static RunShape of(int64_t n, int size, int64_t total, int most) {
    RunShape s;
    s.total = total;
    while (s.lanes < 64 && each_of(n, s.lanes) > most) s.lanes *= 2;
    if (s.lanes > 32) return {0};
    s.each = each_of(n, s.lanes);
    const int64_t pass = 32 / s.lanes, passes = kRunBytes / (pass * n * size);
    s.rows = int(pass * (passes < 1 ? 1 : passes));
    s.pitch = int(s.rows * n * size + 15 + 15) / 16 * 16;
    s.runs = int(device::ceil_div(total, s.rows));
    return s;
  }
  // Slots, at most so many, and blocks of a multiprocessor that has registers for `most` of them.
  int fill(int tensors, int most_slots, int most) {
    for (slots = most_slots; slots > 2; --slots)
      if (most * (bytes(tensors) + kOwn) <= kMemory) break;
    const int blocks = kMemory / (bytes(tensors) + kOwn);
    return blocks < most ? blocks : most;
  }
};
struct ShortRows {  // one behind the other, or anywhere
  const void* in[2];
  void* out;
  int n;
  bool flow, plain;  // rows follow on one another; runs are whole pieces of 16 bytes
  template <int M> static ShortRows of(const device::Walk<M>& rows, const RunShape& s, int64_t n, int size, const void* first, const void* second, void* out, int k_first, int k_second, int k_out) {
    const auto run = [&](int k) { return k < 0 || rows.units == 1 || (rows.rank == 1 && rows.stride[k][0] == n); };
    const bool flow = run(k_first) && run(k_second) && run(k_out);
    return {{first, second}, out, int(n), flow, flow && s.rows * n * size % 16 == 0 && (uintptr_t(first) | uintptr_t(second) | uintptr_t(out)) % 16 == 0};
  }
};
// A row a block: its warps have C words of 4 bytes a lane each (each_word() of row_team.cuh).
using BlockTeam = row_team::TeamOf<false, false, false>;
constexpr int kBlockWords = 13, kBlockThreads = 640;  // of a thread, of halves two elements each; threads of a multiprocessor, whose registers they share
struct BlockShape {
  int threads = 0, slots = 0, pitch = 0, blocks = 0;  // threads: 0, a block does not hold a row; blocks of a multiprocessor
  static BlockShape of(int64_t n, int size, int tensors) {
    BlockShape s;
    const int64_t threads = device::ceil_div(n, int64_t(32) * kBlockWords * (4 / size)) * 32;
    if (threads > kBlockThreads) return s;
    s.pitch = int((n * size + 15 + 15) / 16 * 16);
    for (s.blocks = int(kBlockThreads / threads) < 8 ? int(kBlockThreads / threads) : 8; s.blocks > 0; --s.blocks) {
      s.slots = (kMemory / s.blocks - kOwn) / (tensors * s.pitch);
      if (s.slots > 4) s.slots = 4;
      if (s.slots < (s.blocks > 1 ? 3 : 2)) continue;
      s.threads = int(threads);
      break;
    }
    return s;
  }
};
// Rows that are no whole pieces, and so long that teams are not better off with them.
inline bool by_blocks(int64_t n, int size, int64_t rows, int tensors) {
  return n * size % 16 && n * size >= (size == 2 ? 4096 : 1024) && rows < int64_t(1) << 31 && BlockShape::of(n, size, tensors).threads > 0;
}
// Rows of n elements: tensors that are read, where they end in memory, and those that are written.
struct BlockRows {
  int n;
  const void *in[2], *last[2];
  void* out[2];
  // Of size bytes, tensor k at place `of` of the walk.
  template <int M> void ends(const device::Walk<M>& rows, int k, int of, int size) {
    int64_t end = n;
    for (int a = 0; a < rows.rank; ++a)
      if (rows.stride[of][a] > 0) end += (rows.extent[a] - 1) * rows.stride[of][a];
    last[k] = static_cast<const char*>(in[k]) + end * size;
  }
};
template <class P> int launch(void (*kernel)(P), const BlockShape& s, int tensors, int64_t rows, void* stream, const P& p) {
  const int64_t most = int64_t(132) * s.blocks;
  return row_team::launch_clusters(kernel, 1, rows < most ? rows : most, s.threads, size_t(tensors * s.slots) * size_t(s.pitch), stream, p);
}
template <class P> int launch(void (*kernel)(P), const RunShape& s, int tensors, int blocks, void* stream, const P& p) {
  const int64_t wanted = device::ceil_div(s.runs, kWarps), most = int64_t(132) * blocks;
  return row_team::launch_clusters(kernel, 1, wanted < most ? wanted : most, kWarps * 32, size_t(s.bytes(tensors)), stream, p);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int newer> __device__ __forceinline__ void wait_older_stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(newer) : "memory"); }
// Runs of K tensors that are read; the first of them have what is written in their place. kGroup: threads that have a run together, a warp's or, 0, a block's.
// Of: kIn, kOut; elements(run); in(k, run), out(k, run): where a run begins, null where nothing is written; last(k): where the tensor ends, in memory; plain(run): it is
// bytes(), whole pieces of 16 everywhere. kFlow: rows follow on one another, or are runs; else each_row(run, f(place in the run, row)), row_in(k, row), row_out(k, row).
template <class T, int kGroup, class Of> struct Runs {
  static constexpr int K = Of::kIn, kSize = int(sizeof(T)), kPiece = 16 / kSize;
  const Of& of;
  int runs, slots, pitch;  // of all groups; of this one; bytes of a tensor's part of a slot
  int thread, run, slot = 0;
  uint32_t phase = 0, barriers;
  unsigned char* ring;
  __device__ __forceinline__ static int misplaced(const void* p) { return int(reinterpret_cast<uintptr_t>(p) % 16); }
  __device__ __forceinline__ static int group() { return kGroup ? kGroup : int(blockDim.x); }
  __device__ __forceinline__ static int stride() { return int(gridDim.x) * (kGroup ? kWarps : 1); }
  __device__ __forceinline__ static void sync() {
    if constexpr (kGroup == 32) __syncwarp();
    else __syncthreads();
  }
  // `shared`: of the block; `full`: room for 4 barriers of each group.
  __device__ __forceinline__ Runs(const Of& of, int runs, int slots, int pitch, void* shared, uint64_t* full)
      : of(of), runs(runs), slots(slots), pitch(pitch), thread(kGroup ? int(threadIdx.x) % kGroup : int(threadIdx.x)) {
    const int own = kGroup ? int(threadIdx.x) / kGroup : 0;
    ring = static_cast<unsigned char*>(shared) + own * (slots * K * pitch), barriers = uint32_t(__cvta_generic_to_shared(full + own * 4));
    run = int(blockIdx.x) * (kGroup ? kWarps : 1) + own;
    if (thread == 0) {
#pragma unroll 1
      for (int k = 0; k < slots; ++k) hopper::barrier_init(barriers + k * 8, 1);
      hopper::barriers_made();
#pragma unroll 1
      for (int k = 0; k + 1 < slots; ++k) fetch(run + k * stride(), k);
    }
    sync();
  }
  __device__ __forceinline__ unsigned char* region(int slot, int k) const { return ring + (slot * K + k) * pitch; }
  // Where whole pieces of a run end: what is behind a tensor is not read.
  __device__ __forceinline__ uintptr_t whole_end(int k, uintptr_t end) const {
    const uintptr_t last = of.last(k), up = (end + 15) & ~uintptr_t(15);
    return up > last ? last & ~uintptr_t(15) : up;
  }
  // One thread.
  __device__ __forceinline__ void fetch(int run, int slot) const {
    if (!Of::kFlow || run >= runs) return;
    if (of.plain(run)) {
      hopper::barrier_expect(barriers + slot * 8, uint32_t(K * of.bytes()));
#pragma unroll
      for (int k = 0; k < K; ++k) hopper::load_bytes(uint32_t(__cvta_generic_to_shared(region(slot, k))), of.in(k, run), of.bytes(), barriers + slot * 8);
      return;
    }
    const int length = of.elements(run) * kSize;
    uint32_t bytes[K], all = 0;
    uintptr_t low[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(of.in(k, run));
      low[k] = begin & ~uintptr_t(15);
      const uintptr_t end = whole_end(k, begin + length);
      bytes[k] = end > low[k] ? uint32_t(end - low[k]) : 0, all += bytes[k];
    }
    hopper::barrier_expect(barriers + slot * 8, all);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (bytes[k]) hopper::load_bytes(uint32_t(__cvta_generic_to_shared(region(slot, k))), reinterpret_cast<const void*>(low[k]), int(bytes[k]), barriers + slot * 8);
  }
  __device__ __forceinline__ bool more() const { return run < runs; }
  // The run's first element in shared memory.
  __device__ __forceinline__ T* at(int k) const { return reinterpret_cast<T*>(region(slot, k) + (!Of::kFlow || of.plain(run) ? 0 : misplaced(of.in(k, run)))); }
  __device__ __forceinline__ void arrive() const {
    if constexpr (!Of::kFlow) {
#pragma unroll
      for (int k = 0; k < K; ++k)
        of.each_row(run, [&](int at_row, int row) {
          for (int i = thread; i < of.n(); i += group()) reinterpret_cast<T*>(region(slot, k))[at_row + i] = of.row_in(k, row)[i];
        });
      sync();
      return;
    }
    hopper::barrier_wait(barriers + slot * 8, phase);
    if (of.plain(run)) return;
    bool rest = false;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const T* const begin = of.in(k, run);
      const int length = of.elements(run);
      const uintptr_t end = reinterpret_cast<uintptr_t>(begin + length), there = whole_end(k, end);
      if (there >= end) continue;
      rest = true;
      const int first = there > reinterpret_cast<uintptr_t>(begin) ? int(there - reinterpret_cast<uintptr_t>(begin)) / kSize : 0;
      for (int i = first + thread; i < length; i += group()) at(k)[i] = begin[i];
    }
    if (rest) sync();
  }
  // The results are in their place; the next run is asked for.
  __device__ __forceinline__ void leave() {
    hopper::publish();
    sync();
#pragma unroll
    for (int k = 0; k < Of::kOut; ++k) {
      if constexpr (!Of::kFlow) {
        of.each_row(run, [&](int at_row, int row) {
          for (int i = thread; i < of.n(); i += group()) of.row_out(k, row)[i] = reinterpret_cast<const T*>(region(slot, k))[at_row + i];
        });
        continue;
      }
      T* const out = of.out(k, run);
      if (of.plain(run)) {
        if (thread == 0) hopper::store_bytes(out, uint32_t(__cvta_generic_to_shared(region(slot, k))), of.bytes());
        continue;
      }
      const int length = of.elements(run);
      if (Of::kOut > 1 && !out) continue;
      const T* const here = at(k);
      const int s = misplaced(out);
      if (s == misplaced(here)) {
        int ahead = (16 - s) % 16 / kSize;
        if (ahead > length) ahead = length;
        const int whole = (length - ahead) / kPiece, behind = ahead + whole * kPiece;
        if (thread < ahead) out[thread] = here[thread];
        if (behind + thread < length) out[behind + thread] = here[behind + thread];
        if (thread == 0 && whole) hopper::store_bytes(out + ahead, uint32_t(__cvta_generic_to_shared(here + ahead)), whole * 16);
      } else {
        for (int i = thread; i < length; i += group()) out[i] = here[i];
      }
    }
    if (thread == 0) {
      hopper::commit_stores();
      wait_older_stores_read<1>();
      fetch(run + (slots - 1) * stride(), slot == 0 ? slots - 1 : slot - 1);
    }
    run += stride();
    if (++slot == slots) slot = 0, phase ^= 1;
  }
  __device__ __forceinline__ void end() const {
    if (thread == 0) hopper::wait_stores_read();
  }
};
// Short rows: of a walk, at places kFirst, kSecond (or -1) and kOutPlace of it.
template <class T, int M, int kFirst, int kSecond, int kOutPlace, bool kInRuns> struct Several {
  static constexpr int kIn = kSecond < 0 ? 1 : 2, kOut = 1;
  static constexpr bool kFlow = kInRuns;
  const device::Walk<M>& rows;
  const ShortRows& data;
  const RunShape& shape;
  __device__ __forceinline__ int n() const { return data.n; }
  __device__ __forceinline__ bool plain(int run) const { return data.plain && run + 1 < shape.runs; }
  __device__ __forceinline__ int bytes() const { return shape.rows * data.n * int(sizeof(T)); }
  __device__ __forceinline__ int count(int run) const { return run + 1 < shape.runs ? shape.rows : int(shape.total - int64_t(run) * shape.rows); }
  __device__ __forceinline__ int elements(int run) const { return count(run) * data.n; }
  __device__ __forceinline__ uint64_t offset(int run) const { return uint64_t(uint32_t(run)) * uint32_t(bytes()); }
  __device__ __forceinline__ const T* in(int k, int run) const { return reinterpret_cast<const T*>(static_cast<const char*>(data.in[k]) + offset(run)); }
  __device__ __forceinline__ T* out(int, int run) const { return reinterpret_cast<T*>(static_cast<char*>(data.out) + offset(run)); }
  __device__ __forceinline__ uintptr_t last(int k) const { return reinterpret_cast<uintptr_t>(static_cast<const T*>(data.in[k]) + shape.total * data.n); }
  template <class F> __device__ __forceinline__ void each_row(int run, F f) const {
#pragma unroll 1
    for (int r = 0; r < count(run); ++r) f(r * data.n, run * shape.rows + r);
  }
  __device__ __forceinline__ const T* row_in(int k, int row) const {
    int64_t at[M];
    rows.offsets(row, at);
    return static_cast<const T*>(data.in[k]) + (k == 0 ? at[kFirst] : at[kSecond < 0 ? 0 : kSecond]);
  }
  __device__ __forceinline__ T* row_out(int, int row) const {
    int64_t at[M];
    rows.offsets(row, at);
    return static_cast<T*>(data.out) + at[kOutPlace];
  }
};
// Rows of a walk, one a run: places in it of what is read and, in the same order, what is written.
template <class T, int M, int kFirst, int kSecond, int kOutFirst, int kOutSecond> struct OneByOne {
  static constexpr int kIn = kSecond < 0 ? 1 : 2, kOut = kOutSecond < 0 ? 1 : 2;
  static constexpr bool kFlow = true;
  const device::Walk<M>& rows;
  const BlockRows& data;
  template <int... k> __device__ __forceinline__ int64_t offset(int run, int which) const {
    int64_t at[M];
    rows.offsets(run, at);
    int64_t found = 0, i = 0;
    ((found = i++ == which ? at[k < 0 ? 0 : k] : found), ...);
    return found;
  }
  __device__ __forceinline__ static bool plain(int) { return false; }
  __device__ __forceinline__ static int bytes() { return 0; }
  __device__ __forceinline__ int elements(int) const { return data.n; }
  __device__ __forceinline__ const T* in(int k, int run) const { return static_cast<const T*>(data.in[k]) + offset<kFirst, kSecond>(run, k); }
  __device__ __forceinline__ T* out(int k, int run) const { return data.out[k] ? static_cast<T*>(data.out[k]) + offset<kOutFirst, kOutSecond>(run, k) : nullptr; }
  __device__ __forceinline__ uintptr_t last(int k) const { return reinterpret_cast<uintptr_t>(data.last[k]); }
};
// Element i of a row in shared memory and, of halves, its neighbour, which lie in a word where the row begins with one; of `count` from there on.
template <class T> __device__ __forceinline__ row_team::Packed<T, row_team::kWord<T>> word_at(const T* row, int i, bool whole, int count) {
  if constexpr (sizeof(T) == 4) return {count > 0 ? *reinterpret_cast<const uint32_t*>(row + i) : 0};
  else {
    if (whole && count > 1) return {*reinterpret_cast<const uint32_t*>(row + i)};
    uint32_t low = 0, high = 0;
    if (count > 0) low = row[i].bits;
    if (count > 1) high = row[i + 1].bits;
    return {low | high << 16};
  }
}
// The word, whose elements the compiler may not take apart before the loop.
template <class W, int N> __device__ __forceinline__ row_team::Packed<W, N> kept_word(row_team::Packed<W, N> own) {
  if constexpr (sizeof(W) == 2) own.word[0] = hopper::anew(own.word[0]);
  return own;
}
template <class T> __device__ __forceinline__ void put_word(T* row, int i, bool whole, int count, row_team::Packed<T, row_team::kWord<T>> word) {
  if constexpr (sizeof(T) == 4) {
    if (count > 0) *reinterpret_cast<uint32_t*>(row + i) = word.word[0];
  } else if (whole && count > 1) {
    *reinterpret_cast<uint32_t*>(row + i) = word.word[0];
  } else {
    if (count > 0) row[i] = word.at(0);
    if (count > 1) row[i + 1] = word.at(1);
  }
}
#endif

}  // namespace row_runs
}  // namespace baracuda
