// quantize_dynamic. Rows that fit on chip: a team of threads holds its row, so that it is read once and its codes written once. Else the
// range first (integer atomics on words that are ordered as the numbers are: their order does not show), then the scales, then the codes by
// quantize, which reads x again: two readings and one writing. The floor is memory bandwidth.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::kChunk;
using quantize::V;
using row_team::Team;

// The least and the greatest of finite numbers.
template <class C> struct Range {
  C lo = C(kInf), hi = C(-kInf);
  Range() = default;
  __device__ Range(C lo, C hi) : lo(lo), hi(hi) {}
  __device__ __forceinline__ void add(C x) {
    const bool finite = (x < C(0) ? -x : x) < C(kInf);
    lo = finite && x < lo ? x : lo, hi = finite && x > hi ? x : hi;
  }
};
// A unit of numbers more; symmetric: their magnitudes. Where none is infinite, minima and maxima, to which NaN is nothing, do.
template <class C, int N> __device__ __forceinline__ void widen(Range<C>& range, const Pack<C, 1> (&v)[N], bool symmetric) {
  if constexpr (std::is_same_v<C, float>) {
    Range<C> r = range;
    if (symmetric) {
#pragma unroll
      for (int j = 0; j < N; ++j) r.hi = fmaxf(r.hi, fabsf(v[j].v));
      r.lo = r.hi >= 0 ? C(0) : r.lo;
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) r.lo = fminf(r.lo, v[j].v), r.hi = fmaxf(r.hi, v[j].v);
    }
    if (r.hi < C(kInf) && r.lo > -C(kInf)) {
      range = r;
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) range.add(symmetric && v[j].v < 0 ? -v[j].v : v[j].v);
}
template <class C> struct Least { __device__ __forceinline__ C operator()(C a, C b) const { return a < b ? a : b; } };
template <class C> struct Greatest { __device__ __forceinline__ C operator()(C a, C b) const { return a > b ? a : b; } };

// Two maxima over a team, for all its threads; `shared` holds 64. Every thread of the block calls.
template <class C> __device__ __forceinline__ void greatest(C (&v)[2], const Team& team, C* shared) {
  for (int w = (team.size < 32 ? team.size : 32) / 2; w; w /= 2)
#pragma unroll
    for (int k = 0; k < 2; ++k) v[k] = Greatest<C>{}(v[k], __shfl_xor_sync(0xffffffffu, v[k], w));
  if (team.size <= 32) return;
  __syncthreads();  // what was there may still be read
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v[0], shared[32 + threadIdx.x / 32] = v[1];
  __syncthreads();
  for (int w = 0; w < team.size / 32; ++w) v[0] = Greatest<C>{}(v[0], shared[w]), v[1] = Greatest<C>{}(v[1], shared[32 + w]);
}

// --- rows on chip
template <class T, int kChunks, bool kWhole> __global__ void __launch_bounds__(row_team::kMostTeam) dynamic_kernel(const __grid_constant__ QuantizeDynamicRows q) {
  using C = Acc<T>;
  constexpr int N = kChunk<T>;
  using Lanes = quantize::Lanes<C, N>;
  __shared__ C shared[64];
  const Team team(q.team);
  for (int64_t first = int64_t(blockIdx.x) * team.slots; first < q.rows.units; first += int64_t(gridDim.x) * team.slots) {
    const bool there = first + team.slot < q.rows.units;  // all threads of a warp go through the shuffles
    int64_t at[4];
    quantize::row_offsets(q.rows, there ? first + team.slot : 0, at);
    const T* x = static_cast<const T*>(q.x) + at[0];
    quantize::Unit<T, N> held[kChunks];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int64_t i = (int64_t(c) * team.size + team.thread) * N;
      if (there && i < q.n) held[c] = quantize::load_unit<kWhole, N>(x + i, q.n - i);
      else held[c] = {};  // 0 makes no range wider: 0 is in it, or, symmetric, changes nothing
    }
    Range<C> range;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) widen(range, Lanes::template of<T>(held[c]).v, q.symmetric);
    C ends[2] = {-range.lo, range.hi};
    greatest(ends, team, shared);
    if (!there) continue;
#pragma unroll
    for (auto& unit : held)
#pragma unroll
      for (auto& word : unit.word) asm volatile("" : "+r"(word));  // the numbers are made of the words again: registers
    C s;
    int32_t zero;
    quantize::make_scale(q.symmetric, q.least, q.greatest, q.middle, -ends[0], ends[1], s, zero);
    if (team.thread == 0) {
      static_cast<C*>(q.scale)[at[2]] = s;
      if (q.zero_point) q.zero_point[at[3]] = zero;
    }
    const double codes[] = {q.least, q.greatest};
    const quantize::Scaled<V<T>> k(codes, V<T>::of(s), V<T>::of(C(zero)));
    uint8_t* y = static_cast<uint8_t*>(q.y) + at[1];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int64_t i = (int64_t(c) * team.size + team.thread) * N;
      if (i >= q.n) continue;
      Lanes v = Lanes::template of<T>(held[c]);
      v.without_nan();
      quantize::store_unit<kWhole, N>(y + i, quantize::unit_of<uint8_t, N>([&](int j) { return k.code(v.v[j]); }), q.n - i);
    }
  }
}
// Rows of whole chunks of f16, bf16 or f32 whose range is symmetric, where no code is to be cut and the zero point is even.
__device__ __forceinline__ float greatest(float v, const Team& team, float* shared) {  // over a team; `shared` holds 16, another one from row to row
  for (int w = (team.size < 32 ? team.size : 32) / 2; w; w /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, w));
  if (team.size <= 32) return v;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < team.size / 32; ++w) v = fmaxf(v, shared[w]);
  return v;
}
// The row that comes next is on its way to shared memory while one is worked on, each thread copying and reading slots of its own.
template <class T, int kChunks> __global__ void __launch_bounds__(row_team::kMostTeam) absmax_kernel(const __grid_constant__ QuantizeDynamicRows q) {
  constexpr int N = kChunk<T>;
  using Lanes = quantize::Lanes<float, N>;
  using Unit = quantize::Unit<T, N>;
  __shared__ float shared[2 * row_team::kMostTeam / 32];
  extern __shared__ uint4 slots[];
  const Team team(q.team);
  const int n = int(q.n), across = team.size * N, begin = team.thread * N;
  const auto fetch = [&](int64_t row) {
    if (row < q.rows.units) {
      int64_t at[4];
      quantize::row_offsets(q.rows, row, at);
      const T* const x = static_cast<const T*>(q.x) + at[0];
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
        if (begin + c * across < n) device_lines::copy_line(slots + c * int(blockDim.x) + threadIdx.x, x + begin + c * across);
    }
    device_lines::commit_lines();
  };
  int turn = 0;
  const int64_t step = int64_t(gridDim.x) * team.slots;
  fetch(int64_t(blockIdx.x) * team.slots + team.slot);
  for (int64_t first = int64_t(blockIdx.x) * team.slots; first < q.rows.units; first += step, turn ^= row_team::kMostTeam / 32) {
    const int64_t row = first + team.slot;
    const bool there = row < q.rows.units;  // all threads of a warp go through the shuffles
    int64_t at[4];
    quantize::row_offsets(q.rows, there ? row : 0, at);
    const T* const x = static_cast<const T*>(q.x) + at[0];
    Unit held[kChunks];
    device_lines::wait_for_lines<0>();
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      held[c] = {};
      if (there && begin + c * across < n) held[c] = *reinterpret_cast<const Unit*>(slots + c * int(blockDim.x) + threadIdx.x);
    }
    fetch(row + step);
    bool strange;
    const float most = greatest(quantize::most_of<T, N>(held, strange), team, shared + turn);
    if (!there) continue;
    float s;
    int32_t zero;
    quantize::make_scale(true, q.least, q.greatest, q.middle, 0.0f, most, s, zero);
    if (team.thread == 0) {
      static_cast<float*>(q.scale)[at[2]] = s;
      if (q.zero_point) q.zero_point[at[3]] = zero;
    }
    uint8_t* const y = static_cast<uint8_t*>(q.y) + at[1];
    const V<T> scale = V<T>::of(s), z = V<T>::of(float(zero));
    if (!strange && s > 0x1p-80f && s < 0x1p80f) {
      const V<T> r = 1 / scale, magic = z + kMagic<V<T>>;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        if (begin + c * across >= n) continue;
        const Lanes v = Lanes::template of<T>(held[c]);
        quantize::store_unit<true, N>(y + begin + c * across, quantize::unit_of<uint8_t, N>([&](int j) { return uint32_t(bits(quantize::raised_quotient(v.v[j], scale, r, magic))); }), N);
      }
      continue;
    }
    const double codes[] = {q.least, q.greatest};
    const quantize::Scaled<V<T>> k(codes, scale, z);
#pragma unroll 1
    for (int i = begin; i < n; i += across) {
      Lanes v = Lanes::template of<T>(quantize::load_unit<true, N>(x + i, N));
      v.without_nan();
      quantize::store_unit<true, N>(y + i, quantize::unit_of<uint8_t, N>([&](int j) { return k.code(v.v[j]); }), N);
    }
  }
}
constexpr int kMost = 8, kHeldThreads = 1024;  // chunks of a thread; threads of a multiprocessor that fetch ahead
template <class T> int rows(const QuantizeDynamicRows& rows, void* stream) {
  QuantizeDynamicRows q = rows;
  const int64_t chunks = device::ceil_div(q.n, kChunk<T>);
  const auto with = [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    q.team = int(row_team::team_for(chunks, kChunks));
    const int block = q.team <= 32 ? row_team::kLeastBlock : q.team;
    const int64_t blocks = device::blocks_for(q.rows.units, block / q.team);
    if constexpr (sizeof(T) < 8 && kChunks < kMost)
      if (q.whole && q.symmetric && q.middle - q.least >= q.greatest - q.middle && int64_t(q.middle) % 2 == 0) {
        const int64_t most = 132 * int64_t(kHeldThreads / block);
        return row_team::launch_clusters(absmax_kernel<T, kChunks>, 1, blocks < most ? blocks : most, block, size_t(kChunks) * size_t(block) * 16, stream, q);
      }
    return device::launch(q.whole ? dynamic_kernel<T, kChunks, true> : dynamic_kernel<T, kChunks, false>, unsigned(blocks), unsigned(block), 0, stream, q);
  };
  if (chunks < 8) return with(std::integral_constant<int, 1>{});
  if (chunks < 16) return with(std::integral_constant<int, 2>{});
  if (chunks <= 4 * row_team::kMostTeam) return with(std::integral_constant<int, 4>{});
  return with(std::integral_constant<int, kMost>{});
}

// --- ranges of anything. A word of 0 is no number; of two numbers the greater has the greater word.
template <class C> struct Word;
template <> struct Word<float> {
  using U = unsigned;
  static __device__ __forceinline__ U of(float v) { const U u = __float_as_uint(v); return u >> 31 ? ~u : u | 0x80000000u; }
  static __device__ __forceinline__ float number(U w) { return w == 0 ? -__int_as_float(0x7f800000) : __uint_as_float(w >> 31 ? w & 0x7fffffffu : ~w); }
};
template <> struct Word<double> {
  using U = unsigned long long;
  static __device__ __forceinline__ U of(double v) { const U u = U(__double_as_longlong(v)); return u >> 63 ? ~u : u | (U(1) << 63); }
  static __device__ __forceinline__ double number(U w) {
    return w == 0 ? -__longlong_as_double(0x7ff0000000000000) : __longlong_as_double(static_cast<long long>(w >> 63 ? w & ~(U(1) << 63) : ~w));
  }
};
// The greatest number, and that of the negated ones.
template <class C> __device__ __forceinline__ void put(void* ranges, int64_t at, const Range<C>& r) {
  using W = Word<C>;
  if (!(r.lo <= r.hi)) return;
  typename W::U* word = static_cast<typename W::U*>(ranges) + 2 * at;
  atomicMax(word, W::of(-r.lo)), atomicMax(word + 1, W::of(r.hi));
}
template <class C> __device__ __forceinline__ void join(Range<C>& r, const Range<C>& other) { r.lo = Least<C>{}(r.lo, other.lo), r.hi = Greatest<C>{}(r.hi, other.hi); }
template <class C> __device__ __forceinline__ void join_warp(Range<C>& r) {
  for (int w = 16; w; w /= 2) join(r, Range<C>{__shfl_xor_sync(0xffffffffu, r.lo, w), __shfl_xor_sync(0xffffffffu, r.hi, w)});
}
constexpr int kThreads = 256, kEach = 4;
template <class T, int N> __global__ void __launch_bounds__(kThreads) ranges_kernel(const __grid_constant__ QuantizeRanges q) {
  using C = Acc<T>;
  __shared__ Range<C> warps[kThreads / 32];
  __shared__ int64_t common;
  const int thread = int(threadIdx.x);
  const bool alike = N == 1 || q.walk.spread[1];  // the lanes of a unit have one place
  // A thread keeps its places: it steps by a multiple of the period.
  const int64_t all = int64_t(gridDim.x) * kThreads, step = (all + q.period - 1) / q.period * q.period;
  for (int64_t block = int64_t(blockIdx.x) * kThreads; block < step; block += all) {  // several turns where the period is longer than the grid
    Range<C> range[N];
    int64_t place = -1;  // none
    if (block + thread < step)
      for (int64_t u = block + thread; u < q.walk.units; u += kEach * step) {
        quantize::Unit<T, N> x[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          int64_t at[2];
          q.walk.offsets(u + e * step < q.walk.units ? u + e * step : u, at);  // the last one again
          place = at[1];
          x[e] = quantize::load_unit<true, N>(static_cast<const T*>(q.x) + at[0], N);
        }
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const auto v = quantize::Lanes<C, N>::template of<T>(x[e]);
          if (alike) {
            widen(range[0], v.v, q.symmetric);
          } else {
#pragma unroll
            for (int j = 0; j < N; ++j) {
              const V<T> lane[] = {v.v[j]};
              widen(range[j], lane, q.symmetric);
            }
          }
        }
      }
    if (!alike) {
      if (place < 0) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) put(q.ranges, place + j, range[j]);
      continue;
    }
    Range<C> r = range[0];
    // As few atomics as there are places: one for the block, for the warp, or for the thread.
    __syncthreads();
    if (thread == 0) common = place;
    __syncthreads();
    const int64_t first = __shfl_sync(0xffffffffu, place, 0);
    const bool warp_alike = __all_sync(0xffffffffu, place < 0 || place == first) != 0;
    if (__syncthreads_and(place < 0 || place == common)) {
      join_warp(r);
      if (thread % 32 == 0) warps[thread / 32] = r;
      __syncthreads();
      if (thread == 0 && place >= 0) {
        for (int w = 1; w < kThreads / 32; ++w) join(r, warps[w]);
        put(q.ranges, place, r);
      }
    } else if (warp_alike) {
      join_warp(r);
      if (thread % 32 == 0 && place >= 0) put(q.ranges, place, r);
    } else if (place >= 0) {
      put(q.ranges, place, r);
    }
  }
}
// Symmetric ranges of columns: a warp goes down rows with 32 units of them, the warps of a block meet, and blocks by one atomic a column.
constexpr int kWarps = kThreads / 32, kRowsEach = 8, kColumnBlocks = 8;  // rows of a thread at once; blocks of a multiprocessor, in turn
template <class T> __global__ void __launch_bounds__(kThreads) column_ranges_kernel(const __grid_constant__ QuantizeRanges q) {
  constexpr int N = kChunk<T>, kColumns = 32 * N;
  using Unit = quantize::Unit<T, N>;
  __shared__ Unit shared[kWarps][32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int64_t begin = int64_t(blockIdx.x) * kColumns, column = begin + lane * N, columns = q.walk.extent[1] * N, rows = q.walk.extent[0], pitch = q.walk.stride[0][0];
  const int64_t part = (rows + gridDim.y - 1) / gridDim.y, from = blockIdx.y * part, to = from + part < rows ? from + part : rows;
  const T* const x = static_cast<const T*>(q.x);
  Unit most{};
  const auto widen = [&](uint32_t& a, uint32_t b) {
    if constexpr (sizeof(T) == 2) a = __vmaxu2(a, b & 0x7fff7fffu);
    else a = max(a, b & 0x7fffffffu);
  };
  if (column < columns)
    for (int64_t row = from + warp; row < to; row += kWarps * kRowsEach) {
      Unit u[kRowsEach];
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) {
        u[r] = {};
        if (row + r * kWarps < to) u[r] = quantize::load_unit<true, N>(x + (row + r * kWarps) * pitch + column, N);
      }
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r)
#pragma unroll
        for (int w = 0; w < 4; ++w) widen(most.word[w], u[r].word[w]);
    }
  shared[warp][lane] = most;
  __syncthreads();
  const int own = int(threadIdx.x);
  if (own >= kColumns || begin + own >= columns) return;
  float v = 0;
  bool strange = false;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float a = value(reinterpret_cast<const T*>(shared[w])[own]).v;
    strange |= !(a < float(kInf)), v = fmaxf(v, a);
  }
  if (strange) {
    v = 0;
    for (int64_t row = from; row < to; ++row) {
      const float a = fabsf(value(x[row * pitch + begin + own]).v);
      v = a < float(kInf) ? fmaxf(v, a) : v;
    }
  }
  put(q.ranges, begin + own, Range<float>{0, v});
}
template <class C> __global__ void __launch_bounds__(kThreads) scales_kernel(const __grid_constant__ QuantizeRanges q) {
  using W = Word<C>;
  const typename W::U* words = static_cast<const typename W::U*>(q.ranges);
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < q.scales; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[2];
    q.out.offsets(i, at);
    C s;
    int32_t zero;
    quantize::make_scale(q.symmetric, q.least, q.greatest, q.middle, -W::number(words[2 * i]), W::number(words[2 * i + 1]), s, zero);
    static_cast<C*>(q.scale)[at[0]] = s;
    if (q.zero_point) q.zero_point[at[1]] = zero;
  }
}
template <class T> int ranges(const QuantizeRanges& q, void* stream) {
  constexpr int64_t kMostThreads = 132 * 1024;  // each has several units, so that few meet at a word
  using C = Acc<T>;
  constexpr int N = kChunk<T>;
  if (const cudaError_t e = cudaMemsetAsync(q.ranges, 0, size_t(2 * q.scales) * sizeof(C), static_cast<cudaStream_t>(stream))) return int(e);
  bool columns = false;
  if constexpr (sizeof(T) < 8) columns = q.symmetric && q.walk.units && q.walk.lanes == N && q.walk.rank == 2 && q.walk.stride[0][1] == N && q.walk.stride[1][0] == 0 && q.walk.stride[1][1] == N;
  if (columns) {
    if constexpr (sizeof(T) < 8) {
      const int64_t tiles = device::ceil_div(q.walk.extent[1], 32), least = device::ceil_div(q.walk.extent[0], kWarps * kRowsEach), parts = device::ceil_div(132 * kColumnBlocks, tiles);
      if (const int e = device::launch(column_ranges_kernel<T>, dim3(unsigned(tiles), unsigned(parts < least ? parts : least)), kThreads, 0, stream, q)) return e;
    }
  } else if (q.walk.units) {
    const int64_t threads = q.walk.units < kMostThreads ? q.walk.units : kMostThreads;
    if (const int e = device::launch(q.walk.lanes > 1 ? ranges_kernel<T, N> : ranges_kernel<T, 1>, device::blocks_for(threads, kThreads), kThreads, 0, stream, q)) return e;
  }
  return device::launch(scales_kernel<C>, device::blocks_for(q.scales, kThreads), kThreads, 0, stream, q);
}
template <class T> constexpr QuantizeDynamicCudaKernels entry() { return {int64_t(row_team::kMostTeam) * kMost * kChunk<T>, rows<T>, kChunk<T>, ranges<T>}; }

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<QuantizeDynamicCudaKernels> quantize_dynamic_cuda_kernels = device::floating<QuantizeDynamicCudaKernels>(entry<f16>(), entry<bf16>(), entry<float>(), entry<double>());

}  // namespace baracuda
