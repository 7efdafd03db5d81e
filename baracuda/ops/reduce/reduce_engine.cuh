#pragma once
// Reductions on CUDA: reads x once, the floor is memory bandwidth. Rows are cut into the chunks of host/row_sum.hpp and summed in its
// tree: element i of a chunk is in lane i % 64, so a row has the same bits however it lies, and where a loop uses IEEE operations alone the CPU's.
//
// rows_kernel: rows that are dense, or whose runs are whole lines. A line is 16 bytes; 64 / V threads have V lanes each of a chunk, several
//   lines in flight. Lines lie where memory has them: what a row begins off by turns the lanes round, and folds of 32, 16 ... 1 do not see that.
//   Lanes are folded by halves: a thread sends half of its lanes and keeps the other. A block joins up to 32 chunks of a row.
// short_kernel: rows of at most one line a thread of a team; a thread has a row.
// columns_kernel: lines of V columns; 64 threads have a lane each of 4 lines side by side; the next lines are on their way while these are folded.
// any_kernel: any strides, element by element; 16 threads have four lanes each of 32 rows or columns.
// What blocks leave of a row meets in a second launch, in pairs level by level.
//
// A loop L has E and Lanes<N>, N lanes of a thread (or kOwn of them that take all, where order is free):
//   Lane, lane[kOwn], begin(p, shift), step(k, e, i), tidy() after at most four elements of a lane (one: kTidyEach), settle() before folds,
//   Lane join(Lane, Lane), finish(p, all, m, shift, at, out): the state of m elements
// kHead: the shift is origin(all, m) of head(e) of the first 64 elements, folded by heads(); kNoHead changes nothing. kChecks: over(k, e) says of a line, before it is taken, whether rise(k, e) is wanted. kPasses: best() has looked at all of the chunk before.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/half.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/reduce/reduce_cuda.hpp"
#include "baracuda/ops/reduce/reduce_kinds.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kRowThreads = 128, kMostTogether = 32, kColumnThreads = 256, kColumnLines = 4, kColumnRows = kColumnThreads / 32, kColumnBlocks = 2, kAnyThreads = 512, kShortThreads = 128, kAnyRows = 32, kAnyTeam = 16;
using device_lines::across;

// yes ? a : b of words in registers: the language chooses between places in memory, which is why a Lane says how.
template <class S> __device__ __forceinline__ S chosen(bool yes, const S& a, const S& b) {
  if constexpr (std::is_arithmetic_v<S>) return yes ? a : b;
  else return S::chosen(yes, a, b);
}
template <class E> struct Line {
  static constexpr int V = 16 / int(sizeof(E));
  uint4 w;
  __device__ E lane(int k) const {
    const uint32_t word[4] = {w.x, w.y, w.z, w.w};
    if constexpr (sizeof(E) == 8) return __builtin_bit_cast(E, uint64_t(word[2 * k + 1]) << 32 | word[2 * k]);
    else if constexpr (sizeof(E) == 4) return __builtin_bit_cast(E, word[k]);
    else if constexpr (sizeof(E) == 2) return __builtin_bit_cast(E, uint16_t(word[k / 2] >> k % 2 * 16));
    else return E(uint8_t(word[k / 4] >> k % 4 * 8));
  }
};
template <class E> __device__ __forceinline__ Line<E> line_at(const E* x) { return {*reinterpret_cast<const uint4*>(x)}; }

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
  p.row.offsets(e, at);
  return at[0];
}
constexpr ReduceLoop kAnyLoop = ReduceLoop::count;
// reduce_math::value() of the kinds that are made of the loop alone.
template <ReduceLoop kLoop> __device__ __forceinline__ double value_of(const ReduceCuda& p, const ReduceState& s) {
  const auto of = [&](ReduceKind kind) { return reduce_math::value(kind, double(p.n), p.correction, p.power, s); };
  switch (kLoop) {
    case kAnyLoop: return of(p.kind);
    case ReduceLoop::sum: return p.kind == ReduceKind::mean ? of(ReduceKind::mean) : of(ReduceKind::sum);
    case ReduceLoop::numbers: return p.kind == ReduceKind::nanmean ? of(ReduceKind::nanmean) : of(ReduceKind::nansum);
    case ReduceLoop::squares: return of(ReduceKind::norm2);
    case ReduceLoop::powers: return of(ReduceKind::norm_p);
    case ReduceLoop::product: return of(ReduceKind::prod);
    case ReduceLoop::exps: return of(ReduceKind::logsumexp);
    case ReduceLoop::moments: return p.kind == ReduceKind::std ? of(ReduceKind::std) : of(ReduceKind::var);
    case ReduceLoop::nonzero: return of(ReduceKind::norm0);
    default: return s.a;
  }
}
// The result of row o.
template <ReduceLoop kLoop> __device__ __forceinline__ void finish_row(const ReduceCuda& p, int64_t o, ReduceState s) {
  constexpr bool any = kLoop == kAnyLoop, arg = any || kLoop == ReduceLoop::argmax || kLoop == ReduceLoop::argmin, both = any || kLoop == ReduceLoop::minmax;
  constexpr bool values = any || (!arg && !both);
  if (p.result == ReduceResult::found) {
    p.found[o] = arg && (!any || p.loop == ReduceLoop::argmax || p.loop == ReduceLoop::argmin) ? double(s.at) : s.a;
    return;
  }
  int64_t at[4];
  p.kept.offsets(o, at);
  if (values && p.result == ReduceResult::value) {
    if (p.counts || !p.floating) store_whole(p.y_dtype, p.y_size, p.y, at[1], reduce_math::whole(p.kind, p.n, s));
    else store_number(p.y_dtype, p.y, at[1], value_of<kLoop>(p, s));
    if (p.second) store_number(p.dtype == DType::f64 ? DType::f64 : DType::f32, p.second, at[2], s.a);
  } else if (arg && p.result == ReduceResult::index) {
    static_cast<int64_t*>(p.y)[at[1]] = s.at;
    if (!p.second) return;
    const int64_t from = at[0] + element_offset(p, s.at), size = p.size;
    for (int64_t k = 0; k < size; ++k) static_cast<char*>(p.second)[at[2] * size + k] = static_cast<const char*>(p.x)[from * size + k];
  } else if (both) {
    if (p.floating) store_number(p.dtype, p.y, at[1], s.b), store_number(p.dtype, p.second, at[2], s.a);
    else store_whole(p.dtype, p.size, p.y, at[1], s.at), store_whole(p.dtype, p.size, p.second, at[2], s.i);
  }
}
template <ReduceLoop kLoop> __device__ __forceinline__ ReducePart joined(const ReduceCuda& p, ReducePart a, ReducePart b) {
  reduce_math::join(kLoop == kAnyLoop ? p.loop : kLoop, reduce_math::Order(p.order), p.power, a.s, a.n, b.s, b.n);
  a.n += b.n;
  return a;
}
// A loop with OwnStates joins and finishes its states itself.
template <class L> __device__ __forceinline__ ReducePart join_parts(const ReduceCuda& p, ReducePart a, ReducePart b) {
  if constexpr (requires { typename L::OwnStates; }) return {L::join_states(a.s, b.s), a.n + b.n};
  else return joined<L::kLoop>(p, a, b);
}
template <class L> __device__ __forceinline__ void end_row(const ReduceCuda& p, int64_t o, ReduceState s) {
  if constexpr (requires { typename L::OwnStates; }) L::end(p, o, s);
  else finish_row<L::kLoop>(p, o, s);
}
__device__ __forceinline__ bool skipped(const ReduceCuda& p, int64_t o) { return p.only_infinite && !(p.shift[o] == kInf); }
__device__ __noinline__ int64_t row_offset(const ReduceCuda& p, int64_t o) {
  int64_t at[4];
  p.kept.offsets(o, at);
  return at[0];
}
template <class E> __device__ __forceinline__ const E* row_at(const ReduceCuda& p, int64_t o) {
  return static_cast<const E*>(p.x) + (p.kept.rank == 1 ? o * p.kept.stride[0][0] : row_offset(p, o));
}
// Row and first chunk of a set of p.together chunks.
struct Place { int64_t row, chunk; };
__device__ __noinline__ Place place_of(const ReduceCuda& p, int64_t set) {
  const int64_t sets = p.rows * p.groups, row = sets < int64_t(1) << 32 ? int64_t(uint32_t(set) / uint32_t(p.groups)) : set / p.groups;
  return {row, (set - row * p.groups) * p.together};
}
__device__ __forceinline__ int chunk_length(const ReduceCuda& p, int64_t o, int64_t c) {
  const int64_t left = p.n - c * kSumChunk;
  return skipped(p, o) ? 0 : left < kSumChunk ? int(left) : kSumChunk;
}
// The state of chunk c of row o.
template <class L, class S> __device__ __forceinline__ ReducePart part_of(const ReduceCuda& p, const S& all, int64_t o, int64_t c, double shift) {
  using E = typename L::E;
  const int m = chunk_length(p, o, c);
  ReduceState s;
  L::template Lanes<1>::finish(p, all, m, shift, [&](int i) { return row_at<E>(p, o)[element_offset(p, c * kSumChunk + i)]; }, s);
  if (L::kIndex) s.at += c * kSumChunk;
  return {s, double(m)};
}
// Of a row that blocks do not join.
template <class L, class S> __device__ __forceinline__ void end_chunk(const ReduceCuda& p, S all, int64_t o, int64_t c, double shift) {
  const ReducePart part = part_of<L>(p, all, o, c, shift);
  if (p.chunks == 1) end_row<L>(p, o, part.s);
  else p.parts[o * p.chunks + c] = part;
}
template <class L, class Own, class E> __device__ __forceinline__ void take_one(Own& own, int k, E e, int i) {
  if constexpr (L::kChecks)
    if (own.over(k, e)) own.rise(k, e);
  own.step(k, e, i);
}
template <class L, int V, class Own, class E> __device__ __forceinline__ void take_line(Own& own, const Line<E>& line, int i) {
  if constexpr (L::kChecks) {
    bool over = false;
#pragma unroll
    for (int k = 0; k < V; ++k) over |= own.over(k, line.lane(k));
    if (over)
#pragma unroll
      for (int k = 0; k < V; ++k) own.rise(k, line.lane(k));
  }
#pragma unroll
  for (int k = 0; k < V; ++k) own.step(k, line.lane(k), i + k);
}
// Lanes of the teams of a warp folded, for all its threads: by 32, 16 ... 1.
template <int kTeam, int N, class S, class F> __device__ __forceinline__ S fold_team(S (&lane)[N], int team, int y, F join) {
  if (team == kTeam) {
#pragma unroll
    for (int w = kTeam / 2, half = N / 2; w; w /= 2, half /= 2)
      if (half) {
        const bool upper = y & w;
#pragma unroll
        for (int k = 0; k < half; ++k) {
          const S kept = chosen(upper, lane[k + half], lane[k]), sent = chosen(upper, lane[k], lane[k + half]);
          lane[k] = join(kept, across(sent, w));
        }
      } else lane[0] = join(lane[0], across(lane[0], w));
#pragma unroll
    for (int w = kTeam / 2, half = N / 2; half; w /= 2, half /= 2) lane[0] = join(lane[0], across(lane[0], w));
  } else {
    for (int w = team / 2; w; w /= 2)
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k] = join(lane[k], across(lane[k], w));
#pragma unroll
    for (int w = N / 2; w; w /= 2)
#pragma unroll
      for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
  }
  return lane[0];
}

// --- rows
// Dense ones; kWalked: those of several axes, in whole lines.
template <class L, bool kWalked> __global__ void __launch_bounds__(kRowThreads, 2 * L::kResident) rows_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  constexpr int V = 16 / int(sizeof(E)), kTeam = kSumLanes / V, U = L::kUnroll;
  using Own = typename L::template Lanes<V>;
  using S = typename Own::Lane;
  __shared__ S raw[kRowThreads];
  __shared__ double shifts[L::kHead ? kRowThreads : 1];
  __shared__ ReducePart parts[kRowThreads];
  const int team = p.team, t = int(threadIdx.x) / team, y = int(threadIdx.x) % team, teams = int(blockDim.x) / team, tid = int(threadIdx.x);
  const int64_t sets = p.rows * p.groups;  // of up to p.together chunks
  // Of unit q of a block's turn; whether it is there.
  const auto place = [&](int64_t g, int q, int64_t& o, int64_t& c) {
    const int64_t set = g * p.held + (p.together == 1 ? q : q / p.together);
    Place at{set, 0};
    if (p.groups > 1) at = place_of(p, set);
    o = at.row, c = at.chunk + (p.together == 1 ? 0 : q % p.together);
    return set < sets && c < p.chunks;
  };
  const int units = p.held * p.together, before_rests = p.held * p.mains;
  for (int64_t g = blockIdx.x; g * p.held < sets; g += gridDim.x) {
    __syncthreads();
    for (int turn = 0; turn < units; turn += teams) {
      int q = turn + t;
      if (p.mains < p.together) q = q < before_rests ? q / p.mains * p.together + q % p.mains : (q - before_rests) * p.together + p.mains;
      int64_t o, c;
      const bool there = q < units && place(g, q, o, c);
      if (!there) o = c = 0;
      const E* const x = row_at<E>(p, o);
      const int64_t first = c * kSumChunk;
      const int m = there ? chunk_length(p, o, c) : 0;
      double shift = p.shift ? p.shift[o] : 0;
      if constexpr (L::kHead) {
        typename L::A head[V];
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const int i = y * V + k;
          head[k] = i < m ? L::head(x[kWalked ? element_offset(p, first + i) : first + i]) : typename L::A(L::kNoHead);
        }
        shift = L::origin(fold_team<kTeam>(head, team, y, [](auto a, auto b) { return L::heads(a, b); }), m);
      }
      Own own;
      own.begin(p, shift);
      if constexpr (kWalked) {
        for (int i = y * V; i < m; i += team * V) take_line<L, V>(own, line_at(x + element_offset(p, first + i)), i), own.tidy();
      } else {
        const int off = int(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(E));
        const E* const from = x + first - off;  // element i is from[i + off]
        const auto some = [&](int i) {
#pragma unroll
          for (int k = 0; k < V; ++k)
            if (i + k >= 0 && i + k < m) take_one<L>(own, k, from[i + k + off], i + k);
          own.tidy();
        };
        int i = y * V - off;
        if (i < 0) some(i), i += team * V;
        const int step = team * V, tail = i + V <= m ? i + (((m - V - i) >> (__ffs(step) - 1)) + 1) * step : i;
        for (; i + V <= m; i += U * step) {
          Line<E> line[U];
#pragma unroll
          for (int r = 0; r < U; ++r)
            if (i + r * step + V <= m) line[r] = line_at(from + (i + off + r * step));
#pragma unroll
          for (int r = 0; r < U; ++r) {
            if (i + r * step + V <= m) take_line<L, V>(own, line[r], i + r * step);
            if (r % 4 == 3 || L::kTidyEach) own.tidy();
          }
        }
        if (tail < m) some(tail);
      }
      own.settle();
      const S all = fold_team<kTeam>(own.lane, team, y, [](const S& a, const S& b) { return Own::join(a, b); });
      if (y == 0 && q < units) {
        raw[q] = all;
        if constexpr (L::kHead) shifts[q] = shift;
      }
    }
    __syncthreads();
    int64_t o, c;
    bool there = tid < units && place(g, tid, o, c);
    ReducePart part{};
    if (there) part = part_of<L>(p, raw[tid], o, c, L::kHead ? shifts[tid] : p.shift ? p.shift[o] : 0);
    if (p.together > 1) {  // pairs of neighbours
      parts[tid] = part;
      const int in = tid % p.together, count = !there ? 0 : p.chunks - (c - in) < p.together ? int(p.chunks - (c - in)) : p.together;
#pragma unroll 1
      for (int w = 1; w < p.together; w *= 2) {
        __syncthreads();
        if (in % (2 * w) == 0 && in + w < count) parts[tid] = join_parts<L>(p, parts[tid], parts[tid + w]);
      }
      part = parts[tid], there &= in == 0;
    }
    if (!there) continue;
    if (p.groups == 1) end_row<L>(p, o, part.s);
    else p.parts[o * p.groups + uint32_t(c) / uint32_t(p.together)] = part;
  }
}

// Rows of at most 64 elements in whole lines: a warp copies 32 of them to shared memory, and a thread folds one, line by line in the order of the tree.
template <int kTeam, int kStep = 1, class Leaf, class Join> __device__ __forceinline__ auto fold_lines(int j, Leaf leaf, Join join) {
  if constexpr (kStep == kTeam) return leaf(j);
  else {
    auto a = fold_lines<kTeam, 2 * kStep>(j, leaf, join);
    const auto b = fold_lines<kTeam, 2 * kStep>(j + kStep, leaf, join);
#pragma unroll
    for (int k = 0; k < int(sizeof(a.lane) / sizeof(a.lane[0])); ++k) a.lane[k] = join(a.lane[k], b.lane[k]);
    return a;
  }
}
template <int N, class S, class F> __device__ __forceinline__ S fold_own(S (&lane)[N], F join) {
#pragma unroll
  for (int w = N / 2; w; w /= 2)
#pragma unroll
    for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
  return lane[0];
}
template <class L> __global__ void __launch_bounds__(kShortThreads, L::kShortResident) short_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  constexpr int V = 16 / int(sizeof(E)), kTeam = kSumLanes / V;
  using Own = typename L::template Lanes<V>;
  using S = typename Own::Lane;
  struct Heads { typename L::A lane[V]; };
  extern __shared__ uint4 dynamic[];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, lines = p.row_lines.divisor, pitch = lines | 1;
  uint4* const held = dynamic + warp * 32 * pitch;
  for (int64_t first = int64_t(blockIdx.x) * kShortThreads + warp * 32; first < p.rows; first += int64_t(gridDim.x) * kShortThreads) {
    const int count = p.rows - first < 32 ? int(p.rows - first) : 32;
    __syncwarp();
    for (int t = lane; t < count * lines; t += 32) {
      const int r = int(p.row_lines.quotient(t)), l = t - r * lines;
      device_lines::copy_line(held + r * pitch + l, row_at<E>(p, first + r) + l * V);
    }
    device_lines::commit_lines(), device_lines::wait_for_lines<0>();
    __syncwarp();
    if (lane >= count) continue;
    const int64_t o = first + lane;
    if (skipped(p, o)) continue;
    const auto line = [&](int j) { return Line<E>{held[lane * pitch + j]}; };
    double shift = p.shift ? p.shift[o] : 0;
    if constexpr (L::kHead) {
      Heads heads = fold_lines<kTeam>(0, [&](int j) {
        Heads h;
#pragma unroll
        for (int k = 0; k < V; ++k) h.lane[k] = j < lines ? L::head(line(j).lane(k)) : typename L::A(L::kNoHead);
        return h;
      }, [](auto a, auto b) { return L::heads(a, b); });
      shift = L::origin(fold_own(heads.lane, [](auto a, auto b) { return L::heads(a, b); }), int(p.n));
    }
    const auto join = [](const S& a, const S& b) { return Own::join(a, b); };
    Own all = fold_lines<kTeam>(0, [&](int j) {
      Own own;
      own.begin(p, shift);
      if (j < lines) take_line<L, V>(own, line(j), j * V);
      own.settle();
      return own;
    }, join);
    end_row<L>(p, o, part_of<L>(p, fold_own(all.lane, join), o, 0, shift).s);
  }
}

// --- columns
// kColumnRows numbers in shared memory, `pitch` apart, folded by 4, 2, 1.
template <int kStep, class S, class F> __device__ __forceinline__ S fold_rows(const S* from, int pitch, F join) {
  if constexpr (kStep == kColumnRows) return *from;
  else return join(fold_rows<2 * kStep>(from, pitch, join), fold_rows<2 * kStep>(from + kStep * pitch, pitch, join));
}
// Of V columns of a thread, kLines such side by side, the fold over the threads that have them: in thread c < kLines V for column c of the block.
template <int V, int kLines = kColumnLines, class S, class F> __device__ __forceinline__ S fold_columns(S (&lane)[V], F join, S* shared) {
  constexpr int kAll = kLines * V;
  const int l = int(threadIdx.x) % 32, w = int(threadIdx.x) / 32;
  int first = l % kLines * V, count = V;
#pragma unroll
  for (int step = 16, half = V / 2; step >= kLines; step /= 2, half /= 2)
    if (half) {
      const bool upper = l & step;
#pragma unroll
      for (int k = 0; k < half; ++k) {
        const S kept = chosen(upper, lane[k + half], lane[k]), sent = chosen(upper, lane[k], lane[k + half]);
        lane[k] = join(kept, across(sent, step));
      }
      first += upper ? half : 0, count = half;
    } else lane[0] = join(lane[0], across(lane[0], step));
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (k < count) shared[w * kAll + first + k] = lane[k];
  __syncthreads();
  return fold_rows<1>(shared + int(threadIdx.x) % kAll, kAll, join);
}
template <class L> __global__ void __launch_bounds__(kColumnThreads, kColumnBlocks) columns_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  constexpr int V = 16 / int(sizeof(E)), kAll = kColumnLines * V, U = 8, kRows = kColumnRows;
  using Own = typename L::template Lanes<1>;
  using S = typename Own::Lane;
  __shared__ S shared[kRows * kAll];
  __shared__ struct { int64_t row, chunk; int columns; } own_place;  // of the block: no registers of the loop
  __shared__ double shifts[L::kHead ? kAll : 1];
  __shared__ typename L::A heads[L::kHead ? kRows * kAll : 1];
  const int tid = int(threadIdx.x), x = tid % 32 % kColumnLines, y = tid % 32 / kColumnLines * kRows + tid / 32;
  const int64_t inner = p.kept.extent[p.kept.rank - 1], tiles = (inner + kAll - 1) / kAll, units = p.rows / inner * tiles * p.chunks;
  const int64_t step = p.row.stride[0][0];
  // Where unit u's thread stands; the lines that it takes first are on their way before the unit before it is folded.
  struct Seat { int64_t o, chunk; const E* from; int m; };
  const auto seat_of = [&](int64_t u) {
    const int64_t begin = u % tiles * kAll, c = u / tiles % p.chunks, a = u / tiles / p.chunks, j = begin + x * V;
    const bool live = u < units && j < inner;
    const int64_t o = live ? a * inner + j : 0;
    int m = live ? chunk_length(p, o, c) : 0;
    if (p.only_infinite && live)
#pragma unroll
      for (int k = 1; k < V; ++k) m = max(m, chunk_length(p, o + k, c));
    return Seat{o, c, row_at<E>(p, o) + (c * kSumChunk + y) * step, m};
  };
  Line<E> line[U];
  const auto load = [&](const E* at, int i, int m) {
#pragma unroll
    for (int r = 0; r < U; ++r, at += step * kSumLanes)
      if (i + r * kSumLanes < m) line[r] = line_at(at);
  };
  Seat seat = seat_of(blockIdx.x);
  load(seat.from, y, seat.m);
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t o = seat.o, first = seat.chunk * kSumChunk;
    const int m = seat.m;
    if (tid == 0) {
      const int64_t begin = u % tiles * kAll;
      own_place = {o, seat.chunk, int(inner - begin < kAll ? inner - begin : kAll)};
    }
    double shift[V];
    if constexpr (L::kHead) {
      typename L::A head[V];
#pragma unroll
      for (int k = 0; k < V; ++k) head[k] = y < m ? L::head(line[0].lane(k)) : typename L::A(L::kNoHead);
      const typename L::A sum = fold_columns<V>(head, [](auto a, auto b) { return L::heads(a, b); }, heads);
      __syncthreads();
      const int64_t left = p.n - first;
      if (tid < kAll) shifts[tid] = L::origin(sum, left < kSumChunk ? int(left) : kSumChunk);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < V; ++k) shift[k] = shifts[x * V + k];
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) shift[k] = p.shift ? p.shift[o + k] : 0;
    }
    Own own[V];
#pragma unroll
    for (int k = 0; k < V; ++k) own[k].begin(p, shift[k]);
    const auto take = [&](const Line<E>& line, int i) {
      if constexpr (L::kChecks) {
        bool over = false;
#pragma unroll
        for (int k = 0; k < V; ++k) over |= own[k].over(0, line.lane(k));
        if (over)
#pragma unroll
          for (int k = 0; k < V; ++k) own[k].rise(0, line.lane(k));
      }
#pragma unroll
      for (int k = 0; k < V; ++k) own[k].step(0, line.lane(k), i);
    };
    const auto tidy = [&] {
#pragma unroll
      for (int k = 0; k < V; ++k) own[k].tidy();
    };
    for (int i = y; i < m; i += U * kSumLanes) {
      if (i != y) load(seat.from + int64_t(i - y) * step, i, m);
#pragma unroll
      for (int r = 0; r < U; ++r) {
        if (i + r * kSumLanes < m) take(line[r], i + r * kSumLanes);
        if (r % 4 == 3 || L::kTidyEach) tidy();
      }
    }
    seat = seat_of(u + gridDim.x);
    load(seat.from, y, seat.m);
    S lane[V];
#pragma unroll
    for (int k = 0; k < V; ++k) own[k].settle(), lane[k] = own[k].lane[0];
    const S all = fold_columns<V>(lane, [](const S& a, const S& b) { return Own::join(a, b); }, shared);
    if (tid < own_place.columns) {
      const int64_t to = own_place.row + tid;
      end_chunk<L>(p, all, to, own_place.chunk, L::kHead ? shifts[tid] : p.shift ? p.shift[to] : 0);
    }
    __syncthreads();
  }
}

// --- any strides
template <class S, int N, class F> __device__ __forceinline__ S fold_any(S (&lane)[N], int y, int unit, F join, S* shared) {
#pragma unroll
  for (int w = N / 2; w; w /= 2)
#pragma unroll
    for (int k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
  __syncthreads();
  shared[y * kAnyRows + unit] = lane[0];
  __syncthreads();
  for (int w = kAnyTeam / 2; w; w /= 2) {
    if (y < w) shared[y * kAnyRows + unit] = join(shared[y * kAnyRows + unit], shared[(y + w) * kAnyRows + unit]);
    __syncthreads();
  }
  return shared[unit];
}
template <class L> __global__ void __launch_bounds__(kAnyThreads, 1) any_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  constexpr int N = kSumLanes / kAnyTeam;
  using Own = typename L::template Lanes<N>;
  using S = typename Own::Lane;
  __shared__ S shared[kAnyThreads];
  __shared__ typename L::A heads[L::kHead ? kAnyThreads : 1];
  const int tid = int(threadIdx.x), y = p.columns ? tid / kAnyRows : tid % kAnyTeam, unit = p.columns ? tid % kAnyRows : tid / kAnyTeam;
  const int64_t step = p.row.stride[0][0], all_units = (p.rows + kAnyRows - 1) / kAnyRows * p.chunks;
  const bool walked = p.row.rank > 1;
  for (int64_t u = blockIdx.x; u < all_units; u += gridDim.x) {
    const int64_t wanted = u / p.chunks * kAnyRows + unit, c = u % p.chunks, first = c * kSumChunk;
    const bool live = wanted < p.rows;
    const int64_t o = live ? wanted : 0;
    const E* const x = row_at<E>(p, o);
    const int m = live ? chunk_length(p, o, c) : 0;
    const auto at = [&](int i) { return x[walked ? element_offset(p, first + i) : (first + i) * step]; };
    Own own;
    double shift = p.shift ? p.shift[o] : 0;
    if constexpr (L::kHead) {
      typename L::A head[N];
#pragma unroll
      for (int k = 0; k < N; ++k) head[k] = k * kAnyTeam + y < m ? L::head(at(k * kAnyTeam + y)) : typename L::A(L::kNoHead);
      shift = L::origin(fold_any(head, y, unit, [](auto a, auto b) { return L::heads(a, b); }, heads), m);
    }
    own.begin(p, shift);
    if constexpr (L::kPasses) shift = own.best([&](auto take) { for (int i = y; i < m; i += kAnyTeam) take(at(i)); }, [&](auto a, auto join) {
      decltype(a) one[1] = {a};
      return fold_any(one, y, unit, join, reinterpret_cast<decltype(a)*>(shared));
    });
    int i = y;
    for (; i + 3 * kSumLanes + (N - 1) * kAnyTeam < m; i += 4 * kSumLanes) {
      E e[4][N];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int k = 0; k < N; ++k) e[r][k] = at(i + r * kSumLanes + k * kAnyTeam);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int k = 0; k < N; ++k) take_one<L>(own, k, e[r][k], i + r * kSumLanes + k * kAnyTeam);
        if (r == 3 || L::kTidyEach) own.tidy();
      }
    }
    for (; i < m; i += kSumLanes) {
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (i + k * kAnyTeam < m) take_one<L>(own, k, at(i + k * kAnyTeam), i + k * kAnyTeam);
      own.tidy();
    }
    own.settle();
    const S all = fold_any(own.lane, y, unit, [](const S& a, const S& b) { return Own::join(a, b); }, shared);
    if (live && y == 0) {
      end_chunk<L>(p, all, o, c, shift);
    }
    __syncthreads();
  }
}

constexpr int kPartsEach = 4;  // few joins in a row: their code is long
// Parts of a row, in pairs: a thread has one of them, or where they are more than threads, they are joined in memory. kInMemory is decided at the launch.
template <class L, bool kInMemory> __global__ void __launch_bounds__(device_lines::kMostTeam, 1) join_kernel(const __grid_constant__ ReduceCuda p) {
  __shared__ ReducePart shared[32];
  const auto join = [&](ReducePart a, ReducePart b) { return join_parts<L>(p, a, b); };
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y; first < p.rows; first += int64_t(gridDim.x) * blockDim.y) {
    const int64_t o = first + threadIdx.y < p.rows ? first + threadIdx.y : first;
    ReducePart *const parts = p.parts + o * p.groups, all;
    __syncthreads();
    if constexpr (kInMemory) all = device_lines::pairs_in_memory<kPartsEach>(parts, p.groups, join, shared);
    else all = device_lines::pairs_of_team(parts[threadIdx.x < p.groups ? threadIdx.x : 0], p.groups, join, shared);
    if (threadIdx.x == 0 && first + threadIdx.y < p.rows) end_row<L>(p, o, all.s);
  }
}
template <ReduceLoop kLoop_> struct OfLoop { static constexpr ReduceLoop kLoop = kLoop_; };
template <class L> int launch_join(const ReduceCuda& p, void* stream) {
  const bool in_memory = p.groups > device_lines::kMostTeam;
  dim3 block = device_lines::pairs_block<kPartsEach>(p.groups);
  if (!in_memory) {
    for (block = dim3(2, 1); block.x < p.groups; block.x *= 2) {}
    if (block.x < 32) block.y = 128 / block.x;
  }
  return device::launch(in_memory ? join_kernel<L, true> : join_kernel<L, false>, device::blocks_for(p.rows, block.y), block, 0, stream, p);
}

// Blocks that a launch should have at least, so that all processors have some.
constexpr int64_t kEnoughBlocks = 512;
template <class L> int launch_rows(ReduceCuda& p, void* stream) {
  constexpr int V = 16 / int(sizeof(typename L::E));
  if (p.n <= kSumLanes && p.whole_lines && !p.walked) {
    p.groups = 1, p.row_lines = device::Divisor::of(uint32_t(p.n / V));
    return device::launch(short_kernel<L>, device::blocks_for(p.rows, kShortThreads), dim3(kShortThreads), size_t(kShortThreads) * (p.n / V | 1) * 16, stream, p);
  }
  p.team = kSumLanes / V;
  while (p.team > 1 && int64_t(p.team / 2) * V >= p.n) p.team /= 2;
  const int64_t total = p.rows * p.chunks;
  int threads = kRowThreads;
  while (threads > 32 && total / (threads / p.team) < kEnoughBlocks) threads /= 2;
  const int teams = threads / p.team;
  p.together = p.chunks <= kMostTogether ? int(p.chunks) : kMostTogether;
  while (p.together > teams && total / p.together < kEnoughBlocks / 2) p.together = p.together > 16 ? 16 : p.together > 8 ? 8 : p.together > 4 ? 4 : p.together / 2;
  p.groups = device::ceil_div(p.chunks, p.together);
  // A short rest of rows is taken behind all that is whole.
  const int64_t rest = p.n % kSumChunk;
  p.mains = p.groups == 1 && p.together > 1 && rest > 0 && rest <= kSumChunk / 8 ? p.together - 1 : p.together;
  int units = teams;
  while (units < p.mains || (2 * units <= threads && p.chunks == 1 && total / (2 * units) >= 8 * kEnoughBlocks)) units *= 2;
  p.held = std::max(1, std::min(units / p.mains, threads / p.together));
  const auto kernel = p.walked ? rows_kernel<L, true> : rows_kernel<L, false>;
  return device::launch(kernel, device::blocks_for(p.rows * p.groups, p.held), dim3(unsigned(threads)), 0, stream, p);
}
template <class L> int launch_loop(const ReduceCuda& given, void* stream) {
  ReduceCuda p = given;
  p.groups = p.chunks;
  int e = 0;
  if (L::kRows && p.dense) {
    if constexpr (L::kRows) e = launch_rows<L>(p, stream);
  } else if (L::kColumns && p.lines) {
    if constexpr (L::kColumns) {
      const int64_t inner = p.kept.extent[p.kept.rank - 1];
      const int columns = kColumnLines * 16 / int(sizeof(typename L::E));
      e = device::launch(columns_kernel<L>, unsigned(std::min<int64_t>(p.rows / inner * device::ceil_div(inner, columns) * p.chunks, 132 * kColumnBlocks)), dim3(kColumnThreads), 0, stream, p);
    }
  } else e = device::launch(any_kernel<L>, device::blocks_for(device::ceil_div(p.rows, kAnyRows) * p.chunks, 1), dim3(kAnyThreads), 0, stream, p);
  if (e || p.groups == 1) return e;
  if constexpr (requires { typename L::OwnStates; }) return launch_join<L>(p, stream);
  else return reduce_cuda_join(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
