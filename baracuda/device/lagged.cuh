#pragma once
// Lines that no block holds, read from memory once. Chunks of lines have tickets: the block with ticket t sums chunk t and finishes chunk
// t - lag, which the second-level cache still has. The last block to bring a part of a tile of lines joins all parts, in an order that the line's
// length alone decides. A ticket waits for lower ones, which are taken in turn: blocks need not run at the same time. The floor is
// memory bandwidth; the cache moves what is read twice.
#include "baracuda/device/lines.cuh"
#include "baracuda/device/row_team.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace lagged {

using device_rows::kChunk;
using row_team::Packed;

inline constexpr int kThreads = 256, kWarps = kThreads / 32, kBlocks = 3;  // at most of a multiprocessor
// Set up at the launch from `memory`: the state, all 0 before; parts; what is kept of the lines.
struct Job {
  int* state;
  void *parts, *kept;
  int tiles, chunks, lag;
  device::Divisor by_chunks;
};
struct Sizes { int64_t tiles, chunks; size_t part, kept; };  // bytes of a tile's part of a chunk, and of what is kept of a tile
inline size_t state_bytes(const Sizes& s) { return (size_t(s.tiles + 1) * sizeof(int) + 255) / 256 * 256; }
inline size_t bytes_of(const Sizes& s) { return state_bytes(s) + size_t(s.tiles) * (s.kept + size_t(s.chunks) * s.part); }
inline bool fits(const Sizes& s) { return s.tiles * s.chunks < int64_t(1) << 30; }  // tickets are 32 bits
inline Job job_of(const Sizes& s, void* memory) {
  char* const kept = static_cast<char*>(memory) + state_bytes(s);
  const int64_t units = s.tiles * s.chunks, ahead = s.chunks + 132 * kBlocks * 3 / 2;  // joined by then
  return {static_cast<int*>(memory), kept + size_t(s.tiles) * s.kept, kept, int(s.tiles), int(s.chunks), int(ahead < units ? ahead : units), device::Divisor::of(uint32_t(s.chunks))};
}
template <class P> int launch(void (*kernel)(P), int blocks, const Sizes& s, void* stream, const P& p) {
  const int tickets = p.job.tiles * p.job.chunks + p.job.lag, most = 132 * blocks;
  if (const cudaError_t e = cudaMemsetAsync(p.job.state, 0, state_bytes(s), static_cast<cudaStream_t>(stream))) return int(e);
  return device::launch(kernel, unsigned(tickets < most ? tickets : most), dim3(kThreads), 0, stream, p);
}

__device__ __forceinline__ int load_acquire(const int* at) {
  int v;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
// Of a part or what is kept, as other blocks wrote it.
template <class S> __device__ __forceinline__ S from_others(const S* at) {
  static_assert(sizeof(S) % 4 == 0);
  struct Words { uint32_t word[sizeof(S) / 4]; } w;
#pragma unroll
  for (int k = 0; k < int(sizeof(S) / 4); ++k) w.word[k] = __ldcg(reinterpret_cast<const uint32_t*>(at) + k);
  return __builtin_bit_cast(S, w);
}

// Op: Part (joined by +), Total (made of a Part, joined by +), Kept, Held; kLines of a tile. load(held, tile, chunk) asks for a chunk; parts(held, tile,
// chunk, to) gives to[warp kLines + line]; keep(tile, totals, kept) by all threads of a block; finish(held, tile, chunk, kept).
template <class Op, class P> __device__ __forceinline__ void run(const P& p) {
  using Part = typename Op::Part;
  using Total = typename Op::Total;
  using Kept = typename Op::Kept;
  constexpr int W = Op::kLines, S = kThreads / W, kArrivals = (W + 31) / 32;
  __shared__ Part warp_parts[kWarps * W];
  __shared__ Total totals[kThreads];
  __shared__ Kept kept[W];
  __shared__ int next, last[2];
  const Job& g = p.job;
  const Op op(p);
  const int tid = int(threadIdx.x);
  const int units = g.tiles * g.chunks, tickets = units + g.lag;
  Part* const parts = static_cast<Part*>(g.parts);
  Kept* const all_kept = static_cast<Kept*>(g.kept);
  typename Op::Held summed, finished;
  struct Unit { int tile, chunk; };
  const auto unit_of = [&](int t) {
    const int tile = int(g.by_chunks.quotient(uint32_t(t)));
    return Unit{tile, t - tile * g.chunks};
  };
  Unit first{}, second{};  // of the chunk that is summed; of the one that is finished
  const auto load = [&](int t) {
    if (t < units) first = unit_of(t), op.load(summed, first.tile, first.chunk);
  };
  const auto load_second = [&](int t) {
    if (t >= g.lag && t < tickets) second = unit_of(t - g.lag), op.load(finished, second.tile, second.chunk);
  };
  // Warps share the errands: parts are brought by the first ones, tickets fetched by the next, a turn ahead, what is kept by those behind it.
  constexpr int kTickets = 64, kKeeps = 96;
  int after = 0;
  if (tid == kTickets) next = atomicAdd(g.state, 1), after = atomicAdd(g.state, 1);
  __syncthreads();
  int t = next;
  load(t), load_second(t);
  __syncthreads();  // next was read
  for (int turn = 0; t < tickets; turn ^= 1) {
    const bool sums = t < units, finish = t >= g.lag;
    if (finish && tid >= kKeeps && tid < kKeeps + W) {
      while (load_acquire(g.state + 1 + second.tile) >= 0) __nanosleep(32);
      kept[tid - kKeeps] = from_others(all_kept + int64_t(second.tile) * W + tid - kKeeps);
    }
    if (sums) op.parts(summed, first.tile, first.chunk, warp_parts);
    if (tid == kTickets) {
      next = after, last[turn] = 0;
      after = atomicAdd(g.state, 1);
    }
    __syncthreads();
    const int then = next;
    int arrived = -1;
    if (sums && tid < kArrivals * 32) {
      if constexpr (W == 1) {
        Part one = warp_parts[tid % kWarps];
#pragma unroll
        for (int w = kWarps / 2; w; w /= 2) one = one + device_lines::across(one, w);
        if (tid == 0) parts[t] = one;
      } else if (tid < W) {
        Part one = warp_parts[tid];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) one = one + warp_parts[w * W + tid];
        parts[int64_t(t) * W + tid] = one;
      }
      __syncwarp();
      if (tid % 32 == 0) {
        __threadfence();
        arrived = atomicAdd(g.state + 1 + first.tile, 1);
      }
    }
    const int tile = first.tile;
    load(then);
    if (finish) op.finish(finished, second.tile, second.chunk, kept);
    load_second(then);
    if (arrived == g.chunks * kArrivals - 1) {
      __threadfence();
      last[turn] = 1;
    }
    __syncthreads();
    if (sums && last[turn]) {
      const int segment = tid / W;
      Total sum{};
      if (segment < g.chunks) {
        const Part* const from = parts + int64_t(tile) * g.chunks * W + tid % W;
        sum = Total(from_others(from + int64_t(segment) * W));
#pragma unroll 4
        for (int c = segment + S; c < g.chunks; c += S) sum = sum + Total(from_others(from + int64_t(c) * W));
      }
      totals[tid] = sum;
      for (int w = S / 2; w; w /= 2) {
        __syncthreads();
        if (segment < w && segment + w < g.chunks) totals[tid] = totals[tid] + totals[tid + w * W];
      }
      __syncthreads();
      op.keep(tile, totals, all_kept + int64_t(tile) * W);
      __syncthreads();
      if (tid == 0) {
        __threadfence();
        atomicExch(g.state + 1 + tile, -1);
      }
    }
    t = then;
  }
}

}  // namespace lagged
}  // namespace baracuda
