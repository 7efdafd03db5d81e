#pragma once
// Scans on CUDA: every input is read once, the floor is memory bandwidth. In rows a team of threads has rounds of a chunk of 16 bytes each; a thread
// takes its chunk in order, the totals of a warp are scanned by Kogge and Stone's network ("A parallel algorithm for the efficient
// solution of a general class of recurrence equations", 1973), those of warps and rounds by one warp. A line of more than a tile is
// taken by blocks in the order of a ticket: a tile publishes its total, adds up the totals before it in its group of 256, in order, and
// what comes before the group, which the last tile of the group before publishes. (Merrill and Garland, "Single-pass parallel prefix scan
// with decoupled look-back", 2016, take what is there; here the order is fixed, and so are the bits.) In columns 16 threads have 8
// elements each of a column, 32 columns side by side, tile after tile with the next one on its way; long columns are cut into
// segments and read twice. All that depends on the length of the line alone.
//
// An op has kIn, E, Piece<N> (what is kept of N elements), State of 32 bytes at most, and
//   load<N, kWhole>(piece, at, i, m)     elements i ... i + N - 1, m of them there; at: of the line's first one in each tensor
//   identity(), join(earlier, later)
//   own(piece, k, i)                     the state of element i, the k-th of the piece
//   step(state, piece, k, i, place)      takes it, gives the output; place: its index where kIndexed
//   step(state, piece, k, i, behind)     where kProducts: behind is the product of the factor(piece, k) of all elements behind it
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/scan/scan_cuda.hpp"
#include "baracuda/ops/scan/scan_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using device_lines::moved;
constexpr int kThreads = 256, kMostTeam = 512, kColumns = 32, kDown = 16, kColumnElements = 8;
template <class E, int N> struct alignas(sizeof(E) * N <= 16 ? sizeof(E) * N : 16) Chunk { E lane[N]; };

// Elements i ... i + N - 1 of input q, `none` for those that are not there; `late`: the one before each.
template <class E, int N, bool kWhole> __device__ __forceinline__ void read(const ScanCuda& p, int q, int64_t at, int64_t i, int m, bool late, E none, Chunk<E, N>& c) {
  const E* const x = static_cast<const E*>(p.in[q]) + at;
#pragma unroll
  for (int k = 0; k < N; ++k) c.lane[k] = none;
  if constexpr (kWhole) {
    if (m <= 0) return;
    if (p.step[q] > 0) c = *reinterpret_cast<const Chunk<E, N>*>(x + i);
    else {
      const Chunk<E, N> turned = *reinterpret_cast<const Chunk<E, N>*>(x - i - (N - 1));
#pragma unroll
      for (int k = 0; k < N; ++k) c.lane[k] = turned.lane[N - 1 - k];
    }
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k < m && i + k - late >= 0) c.lane[k] = x[(i + k - late) * p.step[q]];
  }
}
template <class E, int N, bool kWhole> __device__ __forceinline__ void write(E* y, int64_t step, int64_t i, int m, bool whole, const E (&out)[N]) {
  if (kWhole && whole) {
    if (m <= 0) return;
    Chunk<E, N> c;
#pragma unroll
    for (int k = 0; k < N; ++k) c.lane[k] = out[step > 0 ? k : N - 1 - k];
    *reinterpret_cast<Chunk<E, N>*>(y + (step > 0 ? i : -i - (N - 1))) = c;
  } else
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k < m) y[(i + k) * step] = out[k];
}

template <class S> __device__ __forceinline__ S from_lower(S a, int w) { return moved(a, [w](auto v) { return __shfl_up_sync(0xffffffffu, v, w); }); }
template <class S> __device__ __forceinline__ S of_lane(S a, int lane) { return moved(a, [lane](auto v) { return __shfl_sync(0xffffffffu, v, lane); }); }
// The totals of a warp, or of parts of it `width` wide: those up to each lane, and before it.
template <class S, class F> __device__ __forceinline__ void scan_lanes(S own, int width, S identity, F join, S& upto, S& before) {
  const int lane = int(threadIdx.x) & (width - 1);
#pragma unroll
  for (int w = 1; w < 32; w *= 2) {
    if (w >= width) break;
    const S other = from_lower(own, w);
    if (lane >= w) own = join(other, own);
  }
  upto = own;
  const S left = from_lower(own, 1);
  before = lane ? left : identity;
}

// --- what tiles tell each other
__device__ __forceinline__ void post(uint32_t* flag) { asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory"); }
__device__ __forceinline__ void await(const uint32_t* flag) {
  uint32_t there;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
  while (!there);
}
template <class S> union Posted {
  int4 word[2];
  S state;
  __device__ Posted() : word{} {}
};
template <class S> __device__ __forceinline__ void put_state(ScanCudaState* to, const S& s) {
  Posted<S> p;
  p.state = s;
  __stcg(reinterpret_cast<int4*>(to), p.word[0]);
  if constexpr (sizeof(S) > 16) __stcg(reinterpret_cast<int4*>(to) + 1, p.word[1]);
}
template <class S> __device__ __forceinline__ S get_state(const ScanCudaState* from) {
  Posted<S> p;
  p.word[0] = __ldcg(reinterpret_cast<const int4*>(from));
  if constexpr (sizeof(S) > 16) p.word[1] = __ldcg(reinterpret_cast<const int4*>(from) + 1);
  return p.state;
}
// What comes before tile j of a line, for all lanes of a warp; `total`: of the tile.
template <class Op> __device__ typename Op::State before_tile(const ScanCuda& p, const Op& op, int64_t line, int64_t j, const typename Op::State& total) {
  using State = typename Op::State;
  constexpr int kEach = kScanGroup / 32;
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int lane = int(threadIdx.x) % 32;
  const int64_t groups = (p.tiles + kScanGroup - 1) / kScanGroup, group = j / kScanGroup, first = group * kScanGroup;
  ScanCudaState* const totals = p.totals + line * p.tiles;
  uint32_t *const flags = p.flags + 1 + line * p.tiles, *const group_flags = p.flags + 1 + p.lines.units * p.tiles + line * groups;
  const bool last = j == first + kScanGroup - 1 && j + 1 < p.tiles;
  if (lane == 0 && j + 1 < p.tiles) put_state(totals + j, total), post(flags + j);
  State s = op.identity();
#pragma unroll 1
  for (int k = 0; k < kEach; ++k) {
    const int64_t t = first + lane * kEach + k;
    if (t >= j) break;
    await(flags + t);
    s = op.join(s, get_state<State>(totals + t));
  }
  __syncwarp();
  State upto, before;
  scan_lanes(s, 32, op.identity(), join, upto, before);
  State all = of_lane(upto, 31);
  if (group > 0) {
    State start = op.identity();
    if (lane == 0) await(group_flags + group), start = get_state<State>(p.groups + line * groups + group);
    __syncwarp();
    all = op.join(of_lane(start, 0), all);
  }
  if (last && lane == 0) put_state(p.groups + line * groups + group + 1, op.join(all, total)), post(group_flags + group + 1);
  return all;
}

// The product of N factors, and of what a team has of them. Everything behind a line's end is a factor 1.
template <class Op, int N> __device__ __forceinline__ double factors_of(const Op& op, const typename Op::template Piece<N>& piece) {
  double f = 1;
#pragma unroll
  for (int k = 0; k < N; ++k) f = op.times(f, op.factor(piece, k));
  return f;
}
template <class Op, int N> __device__ __forceinline__ typename Op::State total_of(const Op& op, const typename Op::template Piece<N>& piece, int64_t i) {
  typename Op::State s = op.own(piece, 0, i);
#pragma unroll
  for (int k = 1; k < N; ++k) s = op.join(s, op.own(piece, k, i + k));
  return s;
}
// Writes N elements from i on, m of them there, behind state s; `after`: the product of all factors behind them.
template <class Op, int N, bool kWhole> __device__ __forceinline__ void finish(const ScanCuda& p, const Op& op, const typename Op::template Piece<N>& piece, const int64_t (&at)[5], int64_t i, int m,
                                                                               typename Op::State s, double after) {
  using O = typename Op::Out;
  O out[N];
  int64_t places[N];
  if constexpr (Op::kProducts) {
    double behind[N];
#pragma unroll
    for (int k = N - 1; k >= 0; --k) behind[k] = after, after = op.times(after, op.factor(piece, k));
#pragma unroll
    for (int k = 0; k < N; ++k) out[k] = op.step(s, piece, k, i + k, behind[k]);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) out[k] = op.step(s, piece, k, i + k, places[k]);
  }
  if constexpr (Op::kIntegers) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k < m) op.store(at[3] + (i + k) * p.step[3], out[k]);
  } else write<O, N, kWhole>(static_cast<O*>(p.out) + at[3], p.step[3], i, m, true, out);
  if constexpr (Op::kIndexed)
    if (p.indices) {
#pragma unroll
      for (int k = 0; k < N; ++k) places[k] = places[k] >= 0 && p.falling ? p.n - 1 - places[k] : places[k];
      write<int64_t, N, kWhole>(static_cast<int64_t*>(p.indices) + at[4], p.step[4], i, m, p.whole_places, places);
    }
}

// Rows: C chunks of V elements a thread. A line has a team; one of more than a tile, blocks one after the other.
template <class Op, int C, bool kWhole> __global__ void __launch_bounds__(kMostTeam, Op::kBlocks) rows_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  static_assert(sizeof(State) <= sizeof(ScanCudaState));
  constexpr int V = Op::kEach, kEntries = C * (kMostTeam / 32), kPer = (kEntries + 31) / 32;
  __shared__ State shared[kEntries];
  __shared__ double shared_products[Op::kProducts ? kEntries : 1];
  __shared__ int64_t ticket;
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int team = p.team, thread = int(threadIdx.x) & (team - 1), slot = int(threadIdx.x) / team, slots = int(blockDim.x) / team;
  const int lane = int(threadIdx.x) % 32, warp = thread / 32, warps = team / 32;
  const bool chained = p.tiles > 1;
  const int64_t all = chained ? p.lines.units * p.tiles : (p.lines.units + slots - 1) / slots;
  for (int64_t turn = blockIdx.x;; turn += gridDim.x) {
    if (chained) {
      __syncthreads();
      if (threadIdx.x == 0) ticket = atomicAdd(p.flags, 1u);
      __syncthreads();
      turn = ticket;
    }
    if (turn >= all) return;
    const int64_t wanted = chained ? turn / p.tiles : turn * slots + slot, tile = chained ? turn % p.tiles : 0;
    const bool live = wanted < p.lines.units;
    const int64_t line = live ? wanted : 0, begin = tile * p.tile, left = live ? p.n - begin : 0;
    int64_t at[5];
    p.lines.offsets(line, at);
    typename Op::template Piece<V> piece[C];
    State before[C];
    double behind[Op::kProducts ? C : 1];
    const auto offset = [&](int c) { return (int64_t(c) * team + thread) * V; };
    const auto there = [&](int c) { return left - offset(c) < V ? int(left - offset(c) > 0 ? left - offset(c) : 0) : V; };
#pragma unroll
    for (int c = 0; c < C; ++c) op.template load<V, kWhole>(piece[c], at, begin + offset(c), there(c));
    if (C < Op::kRounds || team <= 32) {
      State carry = op.identity();
#pragma unroll
      for (int c = 0; c < C; ++c) {
        State upto;
        scan_lanes(total_of<Op, V>(op, piece[c], begin + offset(c)), team, op.identity(), join, upto, before[c]);
        before[c] = op.join(carry, before[c]);
        if (c + 1 < C) carry = op.join(carry, of_lane(upto, lane | (team - 1)));
      }
      if constexpr (Op::kProducts) {
        double carried = 1;
#pragma unroll
        for (int c = C - 1; c >= 0; --c) {
          double upto = factors_of<Op, V>(op, piece[c]);
          for (int w = 1; w < team; w *= 2) {
            const double other = __shfl_down_sync(0xffffffffu, upto, w);
            if ((lane & (team - 1)) + w < team) upto = op.times(upto, other);
          }
          const double next = __shfl_down_sync(0xffffffffu, upto, 1);
          behind[c] = op.times(carried, (lane & (team - 1)) + 1 < team ? next : 1);
          carried = op.times(carried, __shfl_sync(0xffffffffu, upto, lane & ~(team - 1)));
        }
      }
    } else {
      State* const entries = shared + slot * C * warps;
      double* const products = shared_products + (Op::kProducts ? slot * C * warps : 0);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        State upto;
        scan_lanes(total_of<Op, V>(op, piece[c], begin + offset(c)), 32, op.identity(), join, upto, before[c]);
        if (lane == 31) entries[c * warps + warp] = upto;
        if constexpr (Op::kProducts) {
          double product = factors_of<Op, V>(op, piece[c]);
#pragma unroll
          for (int w = 1; w < 32; w *= 2) {
            const double other = __shfl_down_sync(0xffffffffu, product, w);
            if (lane + w < 32) product = op.times(product, other);
          }
          const double next = __shfl_down_sync(0xffffffffu, product, 1);
          behind[c] = lane < 31 ? next : 1;
          if (lane == 0) products[c * warps + warp] = product;
        }
      }
      __syncthreads();
      if (warp == 0) {  // the totals of warps, round after round
        const int count = C * warps;
        State own[kPer], s = op.identity(), upto, first;
#pragma unroll
        for (int k = 0; k < kPer; ++k) {
          own[k] = s;
          if (lane * kPer + k < count) s = op.join(s, entries[lane * kPer + k]);
        }
        scan_lanes(s, 32, op.identity(), join, upto, first);
        if (chained) first = op.join(before_tile(p, op, line, tile, of_lane(upto, 31)), first);
#pragma unroll
        for (int k = 0; k < kPer; ++k)
          if (lane * kPer + k < count) entries[lane * kPer + k] = op.join(first, own[k]);
      }
      if constexpr (Op::kProducts)
        if (warp == warps - 1) {
          const int count = C * warps;
          double own[kPer], f = 1;
#pragma unroll
          for (int k = kPer - 1; k >= 0; --k) {
            own[k] = f;
            if (lane * kPer + k < count) f = op.times(f, products[lane * kPer + k]);
          }
#pragma unroll
          for (int w = 1; w < 32; w *= 2) {
            const double other = __shfl_down_sync(0xffffffffu, f, w);
            if (lane + w < 32) f = op.times(f, other);
          }
          double last = __shfl_down_sync(0xffffffffu, f, 1);
          if (lane == 31) last = 1;
          if (chained) last = op.times(p.products[line * p.tiles + tile], last);
#pragma unroll
          for (int k = 0; k < kPer; ++k)
            if (lane * kPer + k < count) products[lane * kPer + k] = op.times(last, own[k]);
        }
      __syncthreads();
#pragma unroll
      for (int c = 0; c < C; ++c) {
        before[c] = op.join(entries[c * warps + warp], before[c]);
        if constexpr (Op::kProducts) behind[c] = op.times(products[c * warps + warp], behind[c]);
      }
      if (!chained) __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < C; ++c) finish<Op, V, kWhole>(p, op, piece[c], at, begin + offset(c), there(c), before[c], Op::kProducts ? behind[Op::kProducts ? c : 0] : 1);
  }
}

// Columns: a block has kColumns lines side by side, and takes them, or a segment of them, tile after tile.
template <class Op> __global__ void __launch_bounds__(kColumns * kDown, 1) columns_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  constexpr int P = Op::kDownEach, kTile = kDown * P;
  __shared__ State shared[kColumns * kDown];
  __shared__ double shared_products[Op::kProducts ? kColumns * kDown : 1];
  const Op op{p};
  const int y = int(threadIdx.y), x = int(threadIdx.x);
  const bool cut = p.stage == ScanPhase::totals || p.stage == ScanPhase::segments;
  const int64_t segments = cut ? (p.n + kScanSegment - 1) / kScanSegment : 1;
  const int64_t groups = (p.lines.units + kColumns - 1) / kColumns * segments;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    const int64_t wanted = g / segments * kColumns + x, segment = g % segments;
    const bool live = wanted < p.lines.units;
    const int64_t line = live ? wanted : 0, begin = cut ? segment * kScanSegment : 0;
    const int64_t end = cut && begin + kScanSegment < p.n ? begin + kScanSegment : p.n;
    int64_t at[5];
    p.lines.offsets(line, at);
    State carry = op.identity();
    if (p.stage == ScanPhase::segments) carry = get_state<State>(p.totals + line * segments + segment);
    typename Op::template Piece<P> piece, next;
    const auto there = [&](int64_t i) { return live && i < end ? end - i < P ? int(end - i) : P : 0; };
    op.template load<P, false>(next, at, begin + y * P, there(begin + y * P));
    for (int64_t from = begin; from < end; from += kTile) {
      const int64_t i = from + y * P;
      piece = next;
      if (from + kTile < end) op.template load<P, false>(next, at, i + kTile, there(i + kTile));
      double after = 1;
      __syncthreads();
      shared[y * kColumns + x] = total_of<Op, P>(op, piece, i);
      if constexpr (Op::kProducts) shared_products[y * kColumns + x] = factors_of<Op, P>(op, piece);
      __syncthreads();
      State total = op.identity(), before = total;
#pragma unroll 4
      for (int w = 0; w < kDown; ++w) {
        if (w == y) before = total;
        total = op.join(total, shared[w * kColumns + x]);
      }
      if constexpr (Op::kProducts) {
        after = p.products[line * p.tiles + from / kTile];
        for (int w = kDown - 1; w > y; --w) after = op.times(after, shared_products[w * kColumns + x]);
      }
      if (p.stage != ScanPhase::totals) finish<Op, P, false>(p, op, piece, at, i, there(i), op.join(carry, before), after);
      carry = op.join(carry, total);
    }
    if (p.stage == ScanPhase::totals && live && y == 0) put_state(p.totals + line * segments + segment, carry);
  }
}
// A warp a line: the totals of its segments become what comes before each.
template <class Op> __global__ void __launch_bounds__(32, 1) carries_kernel(const __grid_constant__ ScanCuda p) {
  using State = typename Op::State;
  const Op op{p};
  const auto join = [&](const State& a, const State& b) { return op.join(a, b); };
  const int64_t segments = (p.n + kScanSegment - 1) / kScanSegment;
  for (int64_t line = blockIdx.x; line < p.lines.units; line += gridDim.x) {
    State carry = op.identity();
    for (int64_t first = 0; first < segments; first += 32) {
      const int64_t c = first + threadIdx.x;
      ScanCudaState* const to = p.totals + line * segments + (c < segments ? c : 0);
      State upto, before;
      scan_lanes(c < segments ? get_state<State>(to) : op.identity(), 32, op.identity(), join, upto, before);
      if (c < segments) put_state(to, op.join(carry, before));
      carry = op.join(carry, of_lane(upto, 31));
    }
  }
}

inline int team_for(int64_t chunks) {
  int team = 1;
  while (team < kMostTeam && team < chunks) team *= 2;
  return team;
}
template <class Op> int launch_scan(const ScanCuda& given, void* stream) {
  ScanCuda p = given;
  if (!p.columns && p.tiles > 1) {
    const int64_t flags = 1 + p.lines.units * (p.tiles + device::ceil_div(p.tiles, kScanGroup));
    if (const cudaError_t e = cudaMemsetAsync(p.flags, 0, size_t(flags) * 4, static_cast<cudaStream_t>(stream))) return int(e);
  }
  if (p.columns) {
    const int64_t segments = p.stage == ScanPhase::tiles ? 1 : device::ceil_div(p.n, kScanSegment);
    return device::launch(columns_kernel<Op>, device::blocks_for(device::ceil_div(p.lines.units, kColumns) * segments, 1), dim3(kColumns, kDown), 0, stream, p);
  }
  const int64_t chunks = device::ceil_div(p.n, Op::kEach);
  const bool one = p.whole && chunks <= 32;
  p.team = one ? team_for(chunks) : chunks <= 32 ? 32 : team_for(device::ceil_div(chunks, Op::kRounds) < 32 ? 32 : device::ceil_div(chunks, Op::kRounds));
  const int block = p.team > kThreads ? p.team : kThreads;
  const auto kernel = one ? rows_kernel<Op, 1, true> : p.whole ? rows_kernel<Op, Op::kRounds, true> : rows_kernel<Op, Op::kRounds, false>;
  return device::launch(kernel, device::blocks_for(p.tiles > 1 ? p.lines.units * p.tiles : device::ceil_div(p.lines.units, block / p.team), 1), dim3(unsigned(block)), 0, stream, p);
}
template <class Op> int launch_carries(const ScanCuda& p, void* stream) { return device::launch(carries_kernel<Op>, device::blocks_for(p.lines.units, 1), dim3(32), 0, stream, p); }
template <class Op> constexpr ScanLaunch launches() {
  return {launch_scan<Op>, launch_carries<Op>, int64_t(kMostTeam) * Op::kRounds * Op::kEach, int64_t(kDown) * Op::kDownEach, Op::kEach};
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
