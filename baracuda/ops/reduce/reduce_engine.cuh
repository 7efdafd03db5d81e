#pragma once
// Reductions on CUDA: reads x once, the floor is memory bandwidth. Rows are cut into the chunks of host/row_sum.hpp and summed in its
// tree: element i of a chunk is in lane i % 64. Along rows a team of up to 64 / V threads has V neighbouring lanes each, 16 bytes, and several
// loads in flight; down columns 16 threads have four lanes each of a column, 32 columns side by side. So a row has the same bits however it lies,
// and where a loop uses IEEE operations alone (all but exps and powers do not call anything else either) the CPU's.
// Chunks of a row meet in the block where it holds them all, else in a second launch, in pairs level by level.
#include "baracuda/device/half.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/reduce/reduce_cuda.hpp"
#include "baracuda/ops/reduce/reduce_kinds.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kRowThreads = 256, kColumns = 32, kColumnTeam = 16;

template <class E, int N> struct alignas(sizeof(E) * N) Vector { E lane[N]; };
inline int team_of(const ReduceCuda& p, int lanes) {
  int team = kSumLanes / lanes;
  while (team > 1 && int64_t(team / 2) * lanes >= p.n) team /= 2;
  return team;
}
// Whether a block holds all chunks of a row.
BARACUDA_HD bool in_block(const ReduceCuda& p) { return p.chunks <= 32 && p.chunks <= kRowThreads / p.team; }

__device__ __noinline__ void store_number(DType t, void* y, int64_t at, double v) {
  switch (t) {
    case DType::f16: static_cast<f16*>(y)[at] = from_double<f16>(v); return;
    case DType::bf16: static_cast<bf16*>(y)[at] = from_double<bf16>(v); return;
    case DType::f32: static_cast<float*>(y)[at] = float(v); return;
    default: static_cast<double*>(y)[at] = v;
  }
}
__device__ __forceinline__ void store_whole(DType t, int size, void* y, int64_t at, int64_t v) {
  switch (size) {
    case 1: static_cast<int8_t*>(y)[at] = t == DType::boolean ? v != 0 : int8_t(v); return;
    case 2: static_cast<int16_t*>(y)[at] = int16_t(v); return;
    case 4: static_cast<int32_t*>(y)[at] = int32_t(v); return;
    default: static_cast<int64_t*>(y)[at] = v;
  }
}
// Of element e of a row. Not inlined, for the sake of the code's size: the walk over several axes.
__device__ __noinline__ int64_t element_offset(const ReduceCuda& p, int64_t e) {
  int64_t at[1];
  const int lanes = p.row.lanes;
  if (lanes == 1 || e / lanes >= p.row.units) {
    p.row.offsets(lanes == 1 ? e : p.row.units + (e - p.row.units * lanes), at);
    return at[0];
  }
  p.row.offsets(e / lanes, at);
  return at[0] + e % lanes;
}
// The result of row o.
__device__ __noinline__ void finish_row(const ReduceCuda& p, int64_t o, ReduceState s) {
  const bool arg = p.loop == ReduceLoop::argmax || p.loop == ReduceLoop::argmin;
  if (p.result == ReduceResult::found) {
    p.found[o] = arg ? double(s.at) : s.a;
    return;
  }
  int64_t at[4];
  p.kept.offsets(o, at);
  if (p.result == ReduceResult::value) {
    if (p.counts || !p.floating) store_whole(p.y_dtype, p.y_size, p.y, at[1], reduce_math::whole(p.kind, p.n, s));
    else store_number(p.y_dtype, p.y, at[1], reduce_math::value(p.kind, double(p.n), p.correction, p.power, s));
    if (p.second) store_number(p.dtype == DType::f64 ? DType::f64 : DType::f32, p.second, at[2], s.a);
  } else if (p.result == ReduceResult::index) {
    static_cast<int64_t*>(p.y)[at[1]] = s.at;
    if (!p.second) return;
    const int64_t from = at[0] + element_offset(p, s.at), size = p.size;
    for (int64_t k = 0; k < size; ++k) static_cast<char*>(p.second)[at[2] * size + k] = static_cast<const char*>(p.x)[from * size + k];
  } else if (p.floating) store_number(p.dtype, p.y, at[1], s.b), store_number(p.dtype, p.second, at[2], s.a);
  else store_whole(p.dtype, p.size, p.y, at[1], s.at), store_whole(p.dtype, p.size, p.second, at[2], s.i);
}
__device__ __noinline__ ReducePart joined(const ReduceCuda& p, ReducePart a, ReducePart b) {
  reduce_math::join(p.loop, reduce_math::Order(p.order), p.power, a.s, a.n, b.s, b.n);
  a.n += b.n;
  return a;
}
// A loop with OwnStates joins and finishes its states itself.
template <class L> __device__ __forceinline__ ReducePart join_parts(const ReduceCuda& p, ReducePart a, ReducePart b) {
  if constexpr (requires { typename L::OwnStates; }) return {L::join(a.s, b.s), a.n + b.n};
  else return joined(p, a, b);
}
template <class L> __device__ __forceinline__ void end_row(const ReduceCuda& p, int64_t o, ReduceState s) {
  if constexpr (requires { typename L::OwnStates; }) L::finish(p, o, s);
  else finish_row(p, o, s);
}

// Terms 0 ... count - 1 (at most 32), that of lane `c` in a, joined in pairs of neighbours level by level; for the whole warp.
template <class S, class F> __device__ __forceinline__ S pairs_in_warp(S a, int c, int count, F join) {
#pragma unroll
  for (int w = 1; w < 32; w *= 2) {
    const S b = device_lines::from_below(a, w);
    if (c % (2 * w) == 0 && c + w < count) a = join(a, b);
  }
  return device_lines::moved(a, [](auto v) { return __shfl_sync(0xffffffffu, v, 0); });
}

// The threads of a chunk of m elements from `first` on, and their elements: number (r, k) of the kBlock elements from b on is lane k's of
// this thread. Folds are for all threads of the block.
template <class E, bool kDown, int kRowLanes, int kRounds_> struct Tile {
  static constexpr int kLanes = kDown ? kSumLanes / kColumnTeam : kRowLanes, kRounds = kRounds_, kBlock = kRounds * kSumLanes;
  const ReduceCuda& p;
  const E* x;  // the row
  int64_t first;
  int m, y, team;
  double shift;
  char* shared;

  __device__ int index(int b, int r, int k) const { return b + r * kSumLanes + (kDown ? k * kColumnTeam + y : y * kLanes + k); }
  __device__ E at(int i) const { return x[element_offset(p, first + i)]; }
  __device__ void load(int b, E (&v)[kRounds][kLanes]) const {
    using Loaded = Vector<E, kLanes>;
    if (p.row.rank == 1 && (kDown || p.vector)) {  // a step of one for vectors, which lanes of the walk have
      const int64_t step = kDown && p.row.lanes == 1 ? p.row.stride[0][0] : 1;
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const int i = index(b, r, 0);
        const E* const from = x + (first + i) * step;
        if (!kDown && i + kLanes <= m) {
          const Loaded w = *reinterpret_cast<const Loaded*>(from);
#pragma unroll
          for (int k = 0; k < kLanes; ++k) v[r][k] = w.lane[k];
        } else {
#pragma unroll
          for (int k = 0; k < kLanes; ++k)
            if (index(b, r, k) < m) v[r][k] = from[(kDown ? k * kColumnTeam : k) * step];
        }
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const int i = index(b, r, 0);
        if (!kDown && p.vector && i < m) {  // rows of several axes have whole vectors
          const Loaded w = *reinterpret_cast<const Loaded*>(x + element_offset(p, first + i));
#pragma unroll
          for (int k = 0; k < kLanes; ++k) v[r][k] = w.lane[k];
        } else {
#pragma unroll
          for (int k = 0; k < kLanes; ++k)
            if (index(b, r, k) < m) v[r][k] = x[element_offset(p, first + index(b, r, k))];
        }
      }
    }
  }
  // f(r, k, i) for the elements that are there.
  template <class F> __device__ void each(int b, F f) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
#pragma unroll
      for (int k = 0; k < kLanes; ++k)
        if (index(b, r, k) < m) f(r, k, index(b, r, k));
  }
  template <class S, class F> __device__ S fold(S (&lane)[kLanes], F join) const {
    if constexpr (kDown) {
#pragma unroll
      for (int w = kLanes / 2; w; w /= 2)
#pragma unroll
        for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
      S* const own = reinterpret_cast<S*>(shared) + threadIdx.x;
      S s[4];
      __syncthreads();
      own[y * kColumns] = lane[0];
      __syncthreads();
      if (y < 4) {
#pragma unroll
        for (int k = 0; k < 4; ++k) s[k] = own[(y + 4 * k) * kColumns];
        own[y * kColumns] = join(join(s[0], s[2]), join(s[1], s[3]));
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < 4; ++k) s[k] = own[k * kColumns];
      return join(join(s[0], s[2]), join(s[1], s[3]));
    } else {
      for (int w = team / 2; w; w /= 2)
#pragma unroll
        for (int k = 0; k < kLanes; ++k) lane[k] = join(lane[k], device_lines::across(lane[k], w));
#pragma unroll
      for (int w = kLanes / 2; w; w /= 2)
#pragma unroll
        for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
      return lane[0];
    }
  }
  // One number of each thread; in any order, and as often as it comes.
  template <class S, class F> __device__ S fold_one(S a, F join) const {
    if constexpr (kDown) {
      S lane[kLanes];
#pragma unroll
      for (int k = 0; k < kLanes; ++k) lane[k] = a;
      return fold(lane, join);
    } else {
      for (int w = team / 2; w; w /= 2) a = join(a, device_lines::across(a, w));
      return a;
    }
  }
};

__device__ __forceinline__ bool skipped(const ReduceCuda& p, int64_t o) { return p.only_infinite && !(p.shift[o] == kInf); }
template <class L> __global__ void __launch_bounds__(kRowThreads, 1) rows_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  __shared__ ReducePart parts[kRowThreads];
  const int team = p.team;
  const int t = int(threadIdx.x) / team, y = int(threadIdx.x) % team, teams = kRowThreads / team, chunks = int(p.chunks);
  const bool together = in_block(p);
  const int held = together ? teams / chunks : 0;  // rows of a block
  const int64_t groups = together ? (p.rows + held - 1) / held : (p.rows * p.chunks + teams - 1) / teams;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    int64_t o, c;
    bool live;
    if (together) o = g * held + t / chunks, c = t % chunks, live = t / chunks < held && o < p.rows;
    else o = (g * teams + t) / p.chunks, c = (g * teams + t) % p.chunks, live = o < p.rows;
    if (!live) o = 0;
    int64_t at[4];
    p.kept.offsets(o, at);
    const int64_t left = p.n - c * kSumChunk;
    const Tile<E, false, L::kLanes, L::kRounds> tile{p, static_cast<const E*>(p.x) + at[0], c * kSumChunk, !live || skipped(p, o) ? 0 : left < kSumChunk ? int(left) : kSumChunk, y, team,
                              p.shift ? p.shift[o] : 0, nullptr};
    ReduceState s = L::chunk(tile);
    if (L::kIndex) s.at += c * kSumChunk;
    if (p.chunks == 1) {
      if (live && y == 0) end_row<L>(p, o, s);
    } else if (!together) {
      if (live && y == 0) p.parts[o * p.chunks + c] = {s, double(tile.m)};
    } else {
      __syncthreads();
      if (y == 0) parts[t] = {s, double(tile.m)};
      __syncthreads();
      const int lane = int(threadIdx.x) % 32;
      for (int r = int(threadIdx.x) / 32; r < held; r += kRowThreads / 32) {
        const ReducePart all = pairs_in_warp(parts[r * chunks + (lane < chunks ? lane : 0)], lane, chunks, [&](ReducePart a, ReducePart b) { return join_parts<L>(p, a, b); });
        if (lane == 0 && g * held + r < p.rows) end_row<L>(p, g * held + r, all.s);
      }
    }
  }
}
template <class L> __global__ void __launch_bounds__(kColumns * kColumnTeam, 1) columns_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  __shared__ __align__(16) char shared[kColumns * kColumnTeam * 16];
  const int64_t inner = p.kept.extent[p.kept.rank - 1], outer = p.rows / inner, tiles = (inner + kColumns - 1) / kColumns, units = outer * tiles * p.chunks;
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t j = u % tiles * kColumns + threadIdx.x, c = u / tiles % p.chunks, a = u / tiles / p.chunks;
    const bool live = j < inner;
    const int64_t o = a * inner + (live ? j : 0), left = p.n - c * kSumChunk;
    int64_t at[4];
    p.kept.offsets(o, at);
    const Tile<E, true, L::kLanes, L::kRounds> tile{p, static_cast<const E*>(p.x) + at[0], c * kSumChunk, skipped(p, o) ? 0 : left < kSumChunk ? int(left) : kSumChunk, int(threadIdx.y), kColumnTeam,
                             p.shift ? p.shift[o] : 0, shared};
    ReduceState s = L::chunk(tile);
    if (L::kIndex) s.at += c * kSumChunk;
    if (!live || threadIdx.y) continue;
    if (p.chunks == 1) end_row<L>(p, o, s);
    else p.parts[o * p.chunks + c] = {s, double(tile.m)};
  }
}
template <class L> int launch_loop(const ReduceCuda& given, void* stream) {
  ReduceCuda p = given;
  if (p.columns) {
    const int64_t inner = p.kept.extent[p.kept.rank - 1];
    return device::launch(columns_kernel<L>, device::blocks_for(p.rows / inner * device::ceil_div(inner, kColumns) * p.chunks, 1), dim3(kColumns, kColumnTeam), 0, stream, p);
  }
  p.team = team_of(p, L::kLanes);
  const int teams = kRowThreads / p.team;
  const int64_t groups = in_block(p) ? device::ceil_div(p.rows, teams / p.chunks) : device::ceil_div(p.rows * p.chunks, teams);
  return device::launch(rows_kernel<L>, device::blocks_for(groups, 1), dim3(kRowThreads), 0, stream, p);
}

template <class L> __global__ void __launch_bounds__(device_lines::kMostTeam, 1) join_kernel(const __grid_constant__ ReduceCuda p) {
  __shared__ ReducePart shared[32];
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y; first < p.rows; first += int64_t(gridDim.x) * blockDim.y) {
    const int64_t o = first + threadIdx.y < p.rows ? first + threadIdx.y : first;
    __syncthreads();
    const ReducePart all = device_lines::pairs_in_memory(p.parts + o * p.chunks, p.chunks, [&](ReducePart a, ReducePart b) { return join_parts<L>(p, a, b); }, shared);
    if (threadIdx.x == 0 && first + threadIdx.y < p.rows) end_row<L>(p, o, all.s);
  }
}
template <class L> int launch_join(const ReduceCuda& p, void* stream) {
  const dim3 block = device_lines::pairs_block(p.chunks);
  return device::launch(join_kernel<L>, device::blocks_for(p.rows, block.y), block, 0, stream, p);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
