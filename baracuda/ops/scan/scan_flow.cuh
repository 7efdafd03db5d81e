#pragma once
// Rows of scans on sm_90a, and of the gradients of some: a tile of a line flows through shared memory. One warp asks the copy engine for tiles, in the order of a ticket; a
// segment of the tile is one warp's from then on: it sums the segment, later scans it in place and has it written. Another warp posts the tile's total, a third
// adds up the totals of the tiles before it, groups of kScanGroup by a tree and then one after the other, so that no tile waits for a chain of others. While
// that is on its way the tiles behind are summed, so nobody waits. The floor is memory bandwidth.
// A thread has an odd number of units side by side, so that shared memory has no conflicts: pieces of 16 bytes where lines are whole ones, else words, which it
// shifts into place.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/hopper.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/scan/scan_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kFlowWarps = 16, kFlowStages = 8, kFlowOthers = 3;  // warps that scan; tiles of a block; warps that do not
// Ops of several inputs, whole lines of elements of these sizes, say how large their tiles are.
template <class Op> constexpr int flow_inputs() {
  if constexpr (requires { Op::kInputs; }) return Op::kInputs;
  else return 1;
}
template <class Op> constexpr int flow_warps() {
  if constexpr (requires { Op::kFlowWarps; }) return Op::kFlowWarps;
  else return kFlowWarps;
}
template <class Op> constexpr int flow_units(int common) {
  if constexpr (requires { Op::kFlowUnits; }) return Op::kFlowUnits;
  else return common;
}
constexpr int kFlowLag = 2, kFlowCluster = 16;                    // tiles that are summed and not yet scanned; blocks of a cluster, at most
template <class Op, bool kWhole> struct Flow {
  using E = typename Op::E;
  using Word = typename Op::Word;
  using Unit = std::conditional_t<kWhole, uint4, Word>;
  static constexpr int kSize = sizeof(E), kPiece = 16 / kSize, kEach = Op::kWordEach;  // elements of a piece that is copied, of a word
  static constexpr int kUnits = flow_units<Op>(kWhole ? 5 : sizeof(Word) == 8 ? 11 : 21), kUnitWords = int(sizeof(Unit) / sizeof(Word)), kWords = kUnits * kUnitWords;
  static constexpr int N = kWords * kEach, kSegment = 32 * N, kRegion = kSegment * kSize + (kWhole ? 0 : 16);
  static constexpr int kInputs = flow_inputs<Op>(), kMostWarps = flow_warps<Op>();
  static constexpr int size_of(int q) {
    if constexpr (requires { Op::kPlacesOf; }) return q == Op::kPlacesOf ? int(sizeof(int64_t)) : kSize;
    else return kSize;
  }
  static constexpr int before(int q) { return q ? before(q - 1) + size_of(q - 1) : 0; }  // bytes of an element's inputs
  static constexpr int kBytes = kInputs > 1 ? kSegment * before(kInputs) : kRegion;        // of a warp
  static_assert(kUnits % 2 == 1 && kSegment * kSize % 16 == 0 && (kInputs == 1 || kWhole));
};
// A segment in memory: its lowest place if it is full, which may lie outside of the line, and the elements that are there.
template <class E, bool kUp> struct Stretch {
  E *low, *begin, *end;
  __device__ Stretch(E* first, int full, int there) : low(kUp ? first : first - (full - 1)), begin(kUp ? first : first - (there - 1)), end(begin + there) {}
  __device__ int shift() const { return int(reinterpret_cast<uintptr_t>(low) % 16 / sizeof(E)); }  // of `low` in its region, in elements
};
template <bool kPlaces> struct FlowPlaces {};
template <> struct FlowPlaces<true> { int64_t* places; };  // of the first element
template <class Op> struct FlowTurn : FlowPlaces<has_places<Op>()> {
  uint32_t ticket;
  int left, shift, tile;  // elements of the tile; of the segments of x; its number in the line
  typename Op::Out* y;    // its first element
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// What hopper.cuh and async_lines.cuh have for whole pieces: bytes that are announced without arriving; `bytes` of 16; arriving when this thread's copies have come.
__device__ __forceinline__ void barrier_announce(uint32_t at, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive_copied(uint32_t at) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory"); }
template <int newer> __device__ __forceinline__ void wait_older_stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(newer) : "memory"); }
__device__ __forceinline__ uint32_t blocks_of_cluster() {
  uint32_t n;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(n));
  return n;
}
__device__ __forceinline__ uint32_t shared_at(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// A state to the same place of block `rank` of the cluster, whose barrier counts 8 bytes.
template <class S> __device__ __forceinline__ void send(const void* to, const void* barrier, int rank, const S& s) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &s, sizeof(S));
  asm volatile("{ .reg .b32 there, counts; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counts, %1, %2;\n"
               "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], %3, [counts]; }" ::"r"(shared_at(to)), "r"(shared_at(barrier)), "r"(rank), "l"(bits) : "memory");
}
// The total of `count` tiles, at most kScanGroup, for all lanes of a warp; total(k): of the k-th of the lane's own.
template <class Op, class F> __device__ typename Op::State joined_tiles(const Op& op, int count, F total) {
  constexpr int kEach = kScanGroup / 32;
  const int first = int(threadIdx.x) % 32 * kEach;
  typename Op::State s = op.identity();
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    if (first + k < count) s = op.join(s, total(k));
#pragma unroll
  for (int w = 1; w < 32; w *= 2) s = op.join(s, device_lines::across(s, w));
  return s;
}
template <class Op> __device__ typename Op::State total_of_tiles(const Op& op, const uint4* from, int count) {
  using State = typename Op::State;
  constexpr int kEach = kScanGroup / 32;
  const int first = int(threadIdx.x) % 32 * kEach;
  Posted<State> posted[kEach];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (first + k < count) posted[k].look(from + first + k);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (first + k < count) all = all && posted[k].there();
  } while (!all);
  __syncwarp();
  return joined_tiles(op, count, [&](int k) { return posted[k].state(); });
}
#endif

template <class Op, bool kUp, bool kWhole> __global__ void __launch_bounds__((flow_warps<Op>() + kFlowOthers) * 32, 1) flow_kernel(const __grid_constant__ ScanCuda p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using namespace hopper;
  using State = typename Op::State;
  using E = typename Op::E;
  using Shape = Flow<Op, kWhole>;
  using Word = typename Shape::Word;
  using Unit = typename Shape::Unit;
  static_assert(std::is_same_v<E, typename Op::Out> && Posted<State>::kWords == 1);
  constexpr int N = Shape::N, V = Shape::kPiece, kWords = Shape::kWords, kEach = Shape::kEach, kSegment = Shape::kSegment;
  extern __shared__ __align__(128) unsigned char regions[];
  __shared__ State totals[kFlowStages][kFlowWarps], before[kFlowStages][kFlowWarps], start[kFlowStages];
  __shared__ FlowTurn<Op> turns[kFlowStages];
  __shared__ uint64_t barriers[5][kFlowStages], received;
  __shared__ uint64_t others[kFlowCluster * kFlowLag];  // totals of the cluster's tiles
  const Op op{p};
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, warps = p.team / 32, stages = p.stages;
  const bool clustered = p.clusters, chained = p.tiles > 1 && !clustered;
  const uint32_t all = uint32_t(p.lines.units * p.tiles), cluster = blocks_of_cluster();
  uint4* const posted = reinterpret_cast<uint4*>(p.totals) + 1;
  enum { kFull, kSummed, kPosted, kStarted, kEmpty };
  const auto barrier = [&](int which, int slot) { return shared_at(&barriers[which][slot]); };
  const auto region = [&](int slot, int w, int q = 0) {
    return regions + slot * warps * Shape::kBytes + warps * kSegment * Shape::before(q) + (kUp ? w : warps - 1 - w) * (q ? kSegment * Shape::size_of(q) : Shape::kRegion);
  };
  struct Place {  // in the ring
    int slot = 0, phase = 0;
    __device__ void advance(int stages) { if (++slot == stages) slot = 0, phase ^= 1; }
  } at;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      barrier_init(barrier(kFull, s), 32), barrier_init(barrier(kPosted, s), 1), barrier_init(barrier(kStarted, s), 1);
      barrier_init(barrier(kSummed, s), warps), barrier_init(barrier(kEmpty, s), warps);
    }
    if (clustered) barrier_init(shared_at(&received), 1), barrier_expect(shared_at(&received), uint32_t(p.tiles) * 8);
    barriers_made();
  }
  if (clustered) cluster_wait();
  else __syncthreads();
  if (warp == warps) {  // asks for tiles
    for (uint32_t turn = 0;; ++turn, at.advance(stages)) {
      barrier_wait(barrier(kEmpty, at.slot), at.phase ^ 1);
      uint32_t ticket = blockIdx.x + turn * gridDim.x;
      if (clustered) {
        const uint32_t of = blockIdx.x / cluster, own = blockIdx.x - of * cluster + turn * cluster;
        ticket = own < p.tiles ? of * uint32_t(p.tiles) + own : all;
      } else if (p.totals) {
        if (lane == 0) ticket = atomicAdd(reinterpret_cast<uint32_t*>(p.totals), 1u);
        ticket = __shfl_sync(0xffffffffu, ticket, 0);
      }
      const uint32_t line = ticket / uint32_t(p.tiles), tile = ticket - line * uint32_t(p.tiles);
      const int64_t begin = int64_t(tile) * p.tile;
      const int left = int(p.n - begin < p.tile ? p.n - begin : p.tile), first = lane * kSegment;
      int64_t offset[5] = {};
      if (ticket < all) p.lines.offsets(line, offset);
      const E* const x = static_cast<const E*>(p.in[0]) + offset[0] + (kUp ? begin : -begin);
      const Stretch<const E, kUp> s(kUp ? x + first : x - first, kSegment, left - first < kSegment ? left - first : kSegment);
      if (lane == 0) {
        FlowTurn<Op>& turn = turns[at.slot];
        turn.ticket = ticket, turn.left = left, turn.shift = s.shift(), turn.tile = int(tile), turn.y = static_cast<E*>(p.out) + offset[3] + (kUp ? begin : -begin);
        if constexpr (has_places<Op>()) turn.places = static_cast<int64_t*>(p.indices) + offset[4] + (kUp ? begin : -begin);
      }
      int rest = 0;
      if constexpr (kWhole) {
        if (ticket < all && lane == 0) {
          barrier_announce(barrier(kFull, at.slot), uint32_t(left * Shape::before(Shape::kInputs)));
#pragma unroll
          for (int q = 0; q < Shape::kInputs; ++q) {
            const int size = Shape::size_of(q), low = kUp ? 0 : int(p.tile) - left;
            const char* const from = static_cast<const char*>(p.in[q]) + (offset[q] + (kUp ? begin : -begin - (left - 1))) * size;
            load_bytes(shared_at(region(at.slot, kUp ? 0 : warps - 1, q) + low * size), from, left * size, barrier(kFull, at.slot));
          }
        }
      } else if (ticket < all && lane < warps && first < left) {  // what lies above the line is not read
        const bool top = kUp ? begin + first + kSegment >= p.n : begin + first == 0;
        const uintptr_t low = reinterpret_cast<uintptr_t>(s.low) & ~uintptr_t(15), from = reinterpret_cast<uintptr_t>(s.begin) & ~uintptr_t(15), end = reinterpret_cast<uintptr_t>(s.end);
        const uintptr_t to = (top ? end : end + 15) & ~uintptr_t(15);
        unsigned char* const here = region(at.slot, lane) + (from - low);
        const int bytes = int(to - from);
        if (bytes > 0) barrier_announce(barrier(kFull, at.slot), uint32_t(bytes)), load_bytes(shared_at(here), reinterpret_cast<const void*>(from), bytes, barrier(kFull, at.slot));
        rest = end > to ? int(end - to) : 0;
        if (rest > 0) copy_part(here + bytes, reinterpret_cast<const void*>(to), rest), barrier_arrive_copied(barrier(kFull, at.slot));
      }
      if (rest == 0) barrier_arrive(barrier(kFull, at.slot));
      if (ticket >= all) return;
    }
  }
  const auto ticket_of = [&](const Place& at) {
    barrier_wait(barrier(kFull, at.slot), at.phase);
    return turns[at.slot].ticket;
  };
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  if (warp == warps + 1) {  // posts totals
    for (;; at.advance(stages)) {
      const uint32_t ticket = ticket_of(at);
      if (ticket >= all) return;
      barrier_wait(barrier(kSummed, at.slot), at.phase);
      State upto, left;
      scan_lanes(lane < warps ? totals[at.slot][lane] : op.identity(), 32, op.identity(), join, upto, left);
      if (lane == warps - 1 && chained) post(posted + ticket, upto);
      if (Shape::kInputs == 1 && clustered) {
        const State total = of_lane(upto, warps - 1);
        if (lane < int(cluster)) send(&others[ticket % uint32_t(p.tiles)], &received, lane, total);
      }
      if (lane < warps) before[at.slot][lane] = left;
      __syncwarp();
      if (lane == 0) barrier_arrive(barrier(kPosted, at.slot));
    }
  }
  if (warp == warps + 2) {  // adds up those before a tile
    State groups = op.identity();
    uint32_t seen = 0, line = ~0u;
    for (;; at.advance(stages)) {
      const uint32_t ticket = ticket_of(at);
      if (ticket >= all) return;
      barrier_wait(barrier(kPosted, at.slot), at.phase);
      State s = op.identity();
      if (clustered) {
        barrier_wait(shared_at(&received), 0);
        s = joined_tiles(op, turns[at.slot].tile, [&](int k) {
          State of;
          __builtin_memcpy(&of, &others[lane * (kScanGroup / 32) + k], sizeof(State));
          return of;
        });
      } else if (chained) {
        const uint32_t tile = uint32_t(turns[at.slot].tile), first = ticket - tile;
        if (first != line) groups = op.identity(), seen = 0, line = first;
        for (; seen + kScanGroup <= tile; seen += kScanGroup) groups = op.join(groups, total_of_tiles(op, posted + first + seen, kScanGroup));
        s = op.join(groups, total_of_tiles(op, posted + first + seen, int(tile - seen)));
      }
      if (lane == 0) start[at.slot] = s, barrier_arrive(barrier(kStarted, at.slot));
    }
  }
  const int block = kUp ? lane : 31 - lane;  // of the region, in the order of memory
  const auto units = [&](int slot, int shift, int q = 0) { return reinterpret_cast<Unit*>(region(slot, warp, q)) + shift / kEach + block * Shape::kUnits; };
  // The words of the thread's elements, in the order of memory.
  const auto read = [&](int slot, int shift, Word (&x)[kWords], int q = 0) {
    const Unit* const from = units(slot, shift, q);
    if constexpr (kWhole || kEach == 1) {
#pragma unroll
      for (int k = 0; k < Shape::kUnits; ++k) {
        const auto words = __builtin_bit_cast(Chunk<Word, Shape::kUnitWords>, from[k]);
#pragma unroll
        for (int w = 0; w < Shape::kUnitWords; ++w) x[k * Shape::kUnitWords + w] = words.lane[w];
      }
    } else {
      const uint32_t half = shift % 2 ? 0x5432 : 0x3210;
      Word w = from[0];
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const Word next = from[k + 1];
        x[k] = __byte_perm(w, next, half), w = next;
      }
    }
  };
  const auto write = [&](int slot, int shift, const Word (&y)[kWords]) {
    Unit* const to = units(slot, shift);
    if constexpr (kWhole || kEach == 1) {
#pragma unroll
      for (int k = 0; k < Shape::kUnits; ++k) {
        Chunk<Word, Shape::kUnitWords> words;
#pragma unroll
        for (int w = 0; w < Shape::kUnitWords; ++w) words.lane[w] = y[k * Shape::kUnitWords + w];
        to[k] = __builtin_bit_cast(Unit, words);
      }
    } else {
      const uint32_t half = shift % 2 ? 0x5432 : 0x7654;
      Word w = kUp ? __shfl_up_sync(0xffffffffu, y[kWords - 1], 1) : __shfl_down_sync(0xffffffffu, y[kWords - 1], 1);
#pragma unroll
      for (int k = 0; k < kWords; ++k) to[k] = __byte_perm(w, y[k], half), w = y[k];
      if (block == 31 && shift % 2) to[kWords] = w >> 16;
    }
  };
  // The places of a warp's elements, as they lie in the region: numbers of 32 bits, or beside halves of 16, from the tile's first one on; then kBefore is
  // what came before the tile.
  constexpr uint32_t kBefore = 0xffff;
  [[maybe_unused]] const auto write_places = [&](const auto& turn, const void* there, int count, int before) {
    const int base = turn.tile * int(p.tile), low = kUp ? 0 : kSegment - count, sign = p.falling ? -1 : 1, origin = p.falling ? int(p.n) - 1 : 0;
    int64_t* const to = turn.places + (kUp ? warp * kSegment : -warp * kSegment - (kSegment - 1));
    // As long as nothing is -1, a number of 32 bits.
    const auto place = [&](uint32_t i) {
      if constexpr (kEach == 2) i = i == kBefore ? uint32_t(before) : uint32_t(base) + i;
      const uint32_t at = i * uint32_t(sign) + uint32_t(origin);
      return p.exclusive && int(i) < 0 ? int64_t(-1) : int64_t(at);
    };
    if (kWhole && p.whole_places) {
#pragma unroll 5
      for (int k = 2 * lane; k < kSegment; k += 64) {
        uint32_t i[2];
        if constexpr (kEach == 1) {
          const uint2 words = static_cast<const uint2*>(there)[k / 2];
          i[0] = words.x, i[1] = words.y;
        } else {
          const uint32_t word = static_cast<const uint32_t*>(there)[k / 2];
          i[0] = word & 0xffff, i[1] = word >> 16;
        }
        if (uint32_t(k - low) < uint32_t(count)) __stcs(reinterpret_cast<longlong2*>(__builtin_assume_aligned(to + k, 16)), make_longlong2(place(i[0]), place(i[1])));
      }
    } else {
      const auto* const from = static_cast<const std::conditional_t<kEach == 1, uint32_t, uint16_t>*>(there);
#pragma unroll 7
      for (int k = lane; k < kSegment; k += 32)
        if (uint32_t(k - low) < uint32_t(count)) to[k] = place(from[k]);
    }
    __syncwarp();
  };
  // Bit k: whether the thread's k-th element is what its place, the second input, points to.
  [[maybe_unused]] const auto found_of = [&](const Place& at) {
    const auto* const places = reinterpret_cast<const uint2*>(region(at.slot, warp, 1));
    const int i = turns[at.slot].tile * int(p.tile) + warp * kSegment + (kUp ? lane : kSegment - 1 - lane), own = p.falling ? int(p.n) - 1 - i : i, step = kUp != p.falling ? 32 : -32;
    uint32_t words = 0;  // lane j: of elements 32 j and on, as they lie in the region
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const uint32_t bits = __ballot_sync(0xffffffffu, places[j * 32 + lane].x == uint32_t(own + j * step));
      if (lane == j) words = bits;
    }
    const int low = block * N;
    const uint32_t found = __funnelshift_r(__shfl_sync(0xffffffffu, words, low / 32), __shfl_sync(0xffffffffu, words, low / 32 + 1 & 31), low % 32);
    return kUp ? found & ((1u << N % 32) - 1) : __brev(found) >> (32 - N % 32);
  };
  const auto element_of = [&](const Word (&x)[kWords], int k) { return Op::of_word(x[kUp ? k / kEach : kWords - 1 - k / kEach], kUp ? k % kEach : kEach - 1 - k % kEach); };
  const auto sum = [&](const Place& at) {
    const FlowTurn<Op>& turn = turns[at.slot];
    const int i = turn.tile * int(p.tile) + warp * kSegment + lane * N;
    const int m = turn.left - warp * kSegment;
    if (m < kSegment) {
#pragma unroll
      for (int q = 0; q < Shape::kInputs; ++q) {
        if (Shape::size_of(q) != Shape::kSize) continue;
        E* const first = reinterpret_cast<E*>(region(at.slot, warp, q)) + turn.shift + (kUp ? lane * N : kSegment - 1 - lane * N);
        E none;
        if constexpr (Shape::kInputs == 1) none = op.none();
        else none = op.none(q, reinterpret_cast<const E*>(region(at.slot, kUp ? 0 : warps - 1, q))[kUp ? turn.left - 1 : int(p.tile) - turn.left]);
        for (int k = m > lane * N ? m - lane * N : 0; k < N; ++k) first[kUp ? k : -k] = none;
      }
      __syncwarp();
    }
    Word x[kWords];
    read(at.slot, turn.shift, x);
    State s = op.identity(), upto, left;
    if constexpr (Shape::kInputs == 3) {
      Word second[kWords], third[kWords];
      read(at.slot, 0, second, 1), read(at.slot, 0, third, 2);
      s = op.template total<N>([&](int q, int k) { return element_of(q == 0 ? x : q == 1 ? second : third, k); });
    } else if constexpr (Shape::kInputs == 2) s = op.template total<N>([&](int k) { return element_of(x, k); }, found_of(at));
    else if constexpr (by_threads<Op>()) s = op.template total<N>([&](int k) { return element_of(x, k); });
    else {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const auto v = element_of(x, k);
        s = k ? op.took(s, v, i + k) : op.made(v, i);
      }
    }
    if constexpr (requires { op.lanes(s, upto, left); }) op.lanes(s, upto, left);
    else scan_lanes(s, 32, op.identity(), join, upto, left);
    if (lane == 31) totals[at.slot][warp] = upto, barrier_arrive(barrier(kSummed, at.slot));
    return left;
  };
  const auto finish = [&](const Place& at, State mine) {
    barrier_wait(barrier(kStarted, at.slot), at.phase);
    const FlowTurn<Op>& turn = turns[at.slot];
    const State begun = start[at.slot];
    State s = op.join(op.join(begun, before[at.slot][warp]), mine);
    Word x[kWords], y[kWords], places[has_places<Op>() ? kWords : 1];
    const int base = turn.tile * int(p.tile), i = base + warp * kSegment + lane * N;
    read(at.slot, turn.shift, x);
    const bool first = turn.tile == 0 && warp == 0 && lane == 0;
    if constexpr (by_threads<Op>()) {
      float held = 0;
      const auto put = [&](int k, float of) {
        if (k % kEach == kEach - 1) y[(kUp ? k : N - 1 - k) / kEach] = Op::rounded([&](int e) { return e == (kUp ? kEach - 1 : 0) ? of : held; });
        held = of;
      };
      if constexpr (Shape::kInputs == 3) {
        Word second[kWords], third[kWords];
        read(at.slot, 0, second, 1), read(at.slot, 0, third, 2);
        op.template scan<N>(s, [&](int q, int k) { return element_of(q == 0 ? x : q == 1 ? second : third, k); }, put);
      } else if constexpr (Shape::kInputs == 2) op.template scan<N>(s, [&](int k) { return element_of(x, k); }, found_of(at), put);
      else op.template scan<N>(s, [&](int k) { return element_of(x, k); }, put);
    } else {
      const auto scan = [&]<bool kExclusive>() {
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
          const int at = kUp ? k : kWords - 1 - k;
          State v[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const int of = kUp ? e : kEach - 1 - e;
            const State then = op.took(s, element_of(x, k * kEach + e), i + k * kEach + e);
            v[of] = !kExclusive ? then : first && k == 0 && e == 0 ? op.empty() : s, s = then;
          }
          y[at] = Op::rounded([&](int e) { return v[e]; });
          if constexpr (has_places<Op>()) {
            if constexpr (kEach == 1) places[at] = uint32_t(v[0].at);
            else places[at] = __byte_perm(min(uint32_t(v[0].at - base), kBefore), min(uint32_t(v[1].at - base), kBefore), 0x5410);
          }
        }
      };
      if (p.exclusive) scan.template operator()<true>();
      else scan.template operator()<false>();
    }
    const int begin = warp * kSegment, there = turn.left - begin < kSegment ? turn.left - begin : kSegment;
    const Stretch<E, kUp> to(kUp ? turn.y + begin : turn.y - begin, kSegment, there);
    const int shift = to.shift();
    __syncwarp();
    if constexpr (has_places<Op>()) {
      write(at.slot, 0, places);
      __syncwarp();
      write_places(turn, region(at.slot, warp), there > 0 ? there : 0, begun.at);
    }
    write(at.slot, shift, y);
    E* const here = reinterpret_cast<E*>(region(at.slot, warp)) + shift + (to.begin - to.low);
    publish();
    __syncwarp();
    const int ahead = kWhole ? 0 : (V - int(reinterpret_cast<uintptr_t>(to.begin) % 16 / sizeof(E))) % V, whole = there > ahead ? (there - ahead) / V : 0, behind = ahead + whole * V;
    if constexpr (!kWhole) {
      if (lane < ahead && lane < there) to.begin[lane] = here[lane];
      if (behind + lane < there) to.begin[behind + lane] = here[behind + lane];
      __syncwarp();
    }
    if (lane == 0) {
      if (whole > 0) store_bytes(to.begin + ahead, shared_at(here + ahead), whole * 16);
      commit_stores();
    }
  };
  // A place is free when the next one is written.
  State mine[kFlowLag]{};
  Place then, done;
  int waiting = 0;  // tiles that were summed
  bool written = false;
  for (bool more = true;;) {
    State next{};
    more = more && ticket_of(at) < all;
    if (more) next = sum(at), at.advance(stages), ++waiting;
    if (waiting == 0) break;
    if (waiting > kFlowLag || !more) {
      State first = next;  // of the tile that has waited longest
#pragma unroll
      for (int k = 0; k < kFlowLag; ++k)
        if (k + more == waiting - 1) first = mine[k];
      finish(then, first), --waiting;
      if (lane == 0) {
        wait_older_stores_read<1>();
        if (written) barrier_arrive(barrier(kEmpty, done.slot));
      }
      done = then, written = true, then.advance(stages);
    }
    if (more) {
#pragma unroll
      for (int k = kFlowLag - 1; k > 0; --k) mine[k] = mine[k - 1];
      mine[0] = next;
    }
  }
  if (lane == 0) wait_stores_read();
#endif
}
// How lines of n elements go: tiles, warps of a tile.
template <class Shape> struct FlowShape {
  static constexpr int64_t kMost = int64_t(Shape::kMostWarps) * Shape::kSegment;
  int64_t tiles;
  int warps;
  explicit FlowShape(int64_t n) : tiles(n <= kMost ? 1 : Shape::kInputs == 1 && n <= kFlowCluster * kMost ? std::min<int64_t>(kFlowCluster, device::ceil_div(n, kMost / 2)) : device::ceil_div(n, kMost)) {
    warps = int(device::ceil_div(device::ceil_div(n, tiles), int64_t(Shape::kSegment)));
    tiles = device::ceil_div(n, int64_t(warps) * Shape::kSegment);
  }
};
template <class Op, bool kWhole> int launch_flow_of(const ScanCuda& given, void* stream) {
  using Shape = Flow<Op, kWhole>;
  constexpr int kMemory = 224 * 1024, kOwn = 5 * 1024;  // shared memory of a multiprocessor; what a block takes besides tiles
  constexpr int64_t kLines = 8;                         // that go by clusters
  const FlowShape<Shape> shape(given.n);
  ScanCuda p = given;
  p.tiles = shape.tiles, p.team = shape.warps * 32, p.tile = int64_t(shape.warps) * Shape::kSegment;
  const int blocks = Shape::kInputs > 1 || shape.warps > (sizeof(typename Op::State) == 8 ? 7 : 8) ? 1 : shape.warps > 4 ? 2 : 3, bytes = shape.warps * Shape::kBytes, threads = p.team + kFlowOthers * 32;
  p.stages = std::min(kFlowStages, (kMemory / blocks - kOwn) / bytes);
  const auto kernel = p.step[0] > 0 ? flow_kernel<Op, true, kWhole> : flow_kernel<Op, false, kWhole>;
  const int64_t all = p.lines.units * p.tiles, most = int64_t(132) * blocks;
  if (Shape::kInputs == 1 && p.tiles > 1 && p.tiles <= kFlowCluster * kFlowLag && p.lines.units <= kLines) {  // the same sums, without other blocks' memory
    const int64_t each = device::ceil_div(p.tiles, kFlowCluster);
    const int cluster = int(device::ceil_div(p.tiles, each));
    p.clusters = true;
    return row_team::launch_clusters(kernel, cluster, p.lines.units * cluster, threads, size_t(each) * bytes, stream, p);
  }
  if (p.tiles == 1 && all <= 4 * most) p.totals = nullptr;  // blocks take lines in turn
  if (p.totals)
    if (const cudaError_t e = cudaMemsetAsync(p.totals, 0, size_t(1 + (p.tiles > 1 ? all : 0)) * 16, static_cast<cudaStream_t>(stream))) return int(e);
  return device::launch(kernel, unsigned(std::min(all, most)), dim3(unsigned(threads)), size_t(p.stages) * bytes, stream, p);
}
template <class Op> int launch_flow(const ScanCuda& p, void* stream) {
  if constexpr (flow_inputs<Op>() > 1) return launch_flow_of<Op, true>(p, stream);
  else return p.whole ? launch_flow_of<Op, true>(p, stream) : launch_flow_of<Op, false>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
