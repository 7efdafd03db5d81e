#pragma once
// Rows that no block holds, read from memory once (sm_90): the blocks of a device hold pieces of 16 KiB of several rows, all resident together (a
// cooperative launch). The copy engine brings pieces to a ring of slots in shared memory; warps find what a piece has for its row's numbers and post it;
// `lag` pieces later a row's posts are there, are joined in an order that the row's length alone decides, and the piece is finished from
// shared memory, whose slot is free then. A post is one word of 64 bits that says itself that it is there. The floor is memory bandwidth.
#include "baracuda/device/hopper.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/device/spread.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace spread_rows {

using namespace spread;
using device_rows::kChunk;
using row_team::Packed;

inline constexpr int kChunks = kSlotBytes / 16 / kWorkers;  // 16 bytes each, of a thread
inline constexpr uint64_t kAbsent = ~uint64_t(0);  // of a post, before it is there
struct Job {
  uint64_t* posts;  // [rows][pieces], words of a post
  int pieces, length, units, lag;
  device::Divisor by_pieces;
};

template <class Op> Job job_of(int64_t rows, int64_t n, int64_t blocks, void* posts) {
  constexpr int kSize = int(sizeof(typename Op::T));
  const int64_t pieces = pieces_of(n, Op::kTensors, kSize);
  return {static_cast<uint64_t*>(posts), int(pieces), int(length_of(n, Op::kTensors, kSize)), int(rows * pieces), int(lag_of(pieces, blocks)), device::Divisor::of(uint32_t(pieces))};
}
// `blocks`: what the device holds at once; `words` of a post.
template <class P> int launch(void (*kernel)(P), int64_t blocks, int words, void* stream, const P& p) {
  constexpr int kBytes = kSlots * kSlotBytes;
  const Job& g = p.job;
  const auto f = reinterpret_cast<const void*>(kernel);
  cudaError_t e = cudaMemsetAsync(g.posts, 0xff, size_t(g.units) * size_t(words) * sizeof(uint64_t), static_cast<cudaStream_t>(stream));
  if (!e) e = cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (e) return int(e);
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative, together.val.cooperative = 1;
  cudaLaunchConfig_t how{};
  how.gridDim = unsigned(g.units < blocks ? g.units : blocks), how.blockDim = kThreads, how.dynamicSmemBytes = kBytes;
  how.stream = static_cast<cudaStream_t>(stream), how.attrs = &together, how.numAttrs = 1;
  return int(cudaLaunchKernelEx(&how, kernel, p));
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ __forceinline__ uint64_t word_of(float a, float b) { return uint64_t(__float_as_uint(a)) | uint64_t(__float_as_uint(b)) << 32; }
__device__ __forceinline__ float2 floats_of(uint64_t w) { return {__uint_as_float(uint32_t(w)), __uint_as_float(uint32_t(w >> 32))}; }
// f(i, words) for every 32nd post of a row from `lane` on, four at a time, so that they are waited for together.
template <int kWords, class F> __device__ __forceinline__ void each_post(const uint64_t* posts, int pieces, int lane, F f) {
  constexpr int kTogether = 4;
  for (int first = lane; first < pieces; first += 32 * kTogether) {
    uint64_t word[kTogether][kWords];
    const auto look = [&](int t) {
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        if (first + 32 * t < pieces) asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(word[t][w]) : "l"(posts + int64_t(first + 32 * t) * kWords + w) : "memory");
    };
    const auto there = [&](int t) {
      bool all = true;
#pragma unroll
      for (int w = 0; w < kWords; ++w) all = all && word[t][w] != kAbsent;
      return all;
    };
#pragma unroll
    for (int t = 0; t < kTogether; ++t) look(t);
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      if (first + 32 * t >= pieces) continue;
      while (!there(t)) look(t);
      f(first + 32 * t, word[t]);
    }
  }
}
// Joined by + over groups of kLanes lanes.
template <int kLanes = 32, class S> __device__ __forceinline__ S over_lanes(S v) {
#pragma unroll
  for (int w = kLanes / 2; w; w /= 2) {
    struct Words { uint32_t word[sizeof(S) / 4]; } other = __builtin_bit_cast(Words, v);
#pragma unroll
    for (uint32_t& word : other.word) word = __shfl_xor_sync(0xffffffffu, word, w);
    v = v + __builtin_bit_cast(S, other);
  }
  return v;
}
// A piece, for the threads that work on it; `first`: elements of the row before it.
template <class T, int kTensors> struct PlaceOf {
  const T* from[kTensors];
  T* to;
  int row, first, count;
};

// Op: T; kTensors of one length; kWords of a post; Place, a PlaceOf; Part, joined by +, of a warp; Kept of a row.
// place(row, first, length), by one thread; part(x, has, place, head), x a thread's chunks, of which it has those with has(r), head the piece in shared memory;
// post(all, place, head, word); join(posts, pieces, place), by a warp; finish(x, kept, place, has, put), which gives chunk r of the result to put(r, ...); leave(), by all
// that finish.
template <class Op, class P> __device__ __forceinline__ void run(const P& p) {
  using T = typename Op::T;
  using Place = typename Op::Place;
  using Part = typename Op::Part;
  using Kept = typename Op::Kept;
  constexpr int K = Op::kTensors, N = kChunk<T>, R = kChunks / K, kWarps = kWorkers / 32;
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ Place places[kSlots];
  __shared__ Part parts[kSlots][kWarps];
  __shared__ Kept kept[kSlots];
  __shared__ __align__(8) uint64_t barriers[4][kSlots];
  enum { kFull, kEmpty, kSummed, kJoined };
  const Job& g = p.job;
  Op op(p);
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32, blocks = int(gridDim.x);
  const int own = (g.units - 1 - int(blockIdx.x)) / blocks + 1;
  const auto barrier = [&](int which, int slot) { return uint32_t(__cvta_generic_to_shared(&barriers[which][slot])); };
  if (thread < kSlots) {
    hopper::barrier_init(barrier(kFull, thread), 1), hopper::barrier_init(barrier(kEmpty, thread), kWarps);
    hopper::barrier_init(barrier(kSummed, thread), kWarps), hopper::barrier_init(barrier(kJoined, thread), 1);
    hopper::barriers_made();
  }
  __syncthreads();
  struct Turn {  // a slot, and the parity of its phase
    int slot = 0;
    uint32_t phase = 0;
    __device__ __forceinline__ void next() { if (++slot == kSlots) slot = 0, phase ^= 1; }
  };
  Turn turn, done;
  const auto over = [&](int which, const Turn& t, uint32_t parity) { return __shfl_sync(0xffffffffu, int(hopper::barrier_over(barrier(which, t.slot), parity)), 0) != 0; };
  const auto unit_of = [&](int k) { return k * blocks + int(blockIdx.x); };
  if (warp == kWarps) {  // pieces to shared memory, and posts of those that are summed up
    const auto place_of = [&](int k) {
      const int row = int(g.by_pieces.quotient(uint32_t(unit_of(k))));
      return op.place(row, (unit_of(k) - row * g.pieces) * g.length, g.length);
    };
    Place next{};
    if (lane == 0) next = place_of(0);
    for (int loads = 0, posts = 0; posts < own;) {
      if (loads < own && over(kEmpty, turn, turn.phase ^ 1)) {
        if (lane == 0) {
          places[turn.slot] = next;
          const int bytes = next.count * int(sizeof(T));
          hopper::barrier_expect(barrier(kFull, turn.slot), uint32_t(K * bytes));
          const uint32_t to = uint32_t(__cvta_generic_to_shared(ring)) + uint32_t(turn.slot * kSlotBytes);
#pragma unroll
          for (int t = 0; t < K; ++t) hopper::load_bytes(to + uint32_t(t * (kSlotBytes / K)), next.from[t], bytes, barrier(kFull, turn.slot));
          if (loads + 1 < own) next = place_of(loads + 1);
        }
        ++loads, turn.next();
      }
      if (posts < loads && over(kSummed, done, done.phase)) {
        uint64_t word[Op::kWords];
        op.post(op.template join_parts<kWarps>(parts[done.slot]), places[done.slot], ring + done.slot * (kSlotBytes / 16), word);
        if (lane == 0)
#pragma unroll
          for (int w = 0; w < Op::kWords; ++w)
            asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(g.posts + int64_t(unit_of(posts)) * Op::kWords + w), "l"(word[w]) : "memory");
        ++posts, done.next();
      }
    }
    return;
  }
  if (warp > kWarps) {  // what rows keep, of all posts
    for (int k = 0; k < own; ++k, done.next()) {
      hopper::barrier_wait(barrier(kSummed, done.slot), done.phase);
      const Place& place = places[done.slot];
      const Kept made = op.join(g.posts + int64_t(place.row) * g.pieces * Op::kWords, g.pieces, place);
      if (lane == 0) {
        kept[done.slot] = made;
        hopper::barrier_arrive(barrier(kJoined, done.slot));
      }
    }
    return;
  }
  Packed<T> x[K][R];
  const auto take = [&](int slot) {
#pragma unroll
    for (int t = 0; t < K; ++t)
#pragma unroll
      for (int r = 0; r < R; ++r) x[t][r] = Packed<T>::load(ring + slot * (kSlotBytes / 16) + t * (kSlotBytes / K / 16) + r * kWorkers + thread);
    const int left = (places[slot].count / N - thread + kWorkers - 1) / kWorkers;  // chunks of this thread
    return [left](int r) { return r < left; };
  };
  for (int k = 0; k < own + g.lag; ++k) {
    if (k < own) {
      hopper::barrier_wait(barrier(kFull, turn.slot), turn.phase);
      const auto has = take(turn.slot);
      const Part part = op.part(x, has, places[turn.slot], ring + turn.slot * (kSlotBytes / 16));
      if (lane == 0) {
        parts[turn.slot][warp] = part;
        hopper::barrier_arrive(barrier(kSummed, turn.slot));
      }
      turn.next();
    }
    if (k < g.lag) continue;
    hopper::barrier_wait(barrier(kJoined, done.slot), done.phase);
    const auto has = take(done.slot);
    const Place& place = places[done.slot];
    T* const to = place.to + thread * N;
    op.finish(x, kept[done.slot], place, has, [&](int r, const Packed<T>& v) {
      if (has(r)) v.store(to + r * kWorkers * N);
    });
    __syncwarp();
    if (lane == 0) hopper::barrier_arrive(barrier(kEmpty, done.slot));
    done.next();
  }
  op.leave();
}
#else
template <class Op, class P> __device__ void run(const P&) {}
#endif

}  // namespace spread_rows
}  // namespace baracuda
