// Lines of softmax that no registers hold, rows and columns: sums of chunks and, a lag behind, their finish (device/lagged.cuh). A block has
// 128 bytes a thread of a row, or as many of 128 bytes of neighbouring columns (backward: of two tensors together). Chunks meet with the maximum
// of their own ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018). Reads x (backward: dy and y) from memory once and
// once more from the cache, writes y (dx).
#include "baracuda/device/lagged.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_short.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace lagged;
using namespace softmax_short;

constexpr int kAcross = 8, kPieces = 4;  // threads of a row of columns; pieces of 16 bytes of a thread
struct LongCuda {
  SoftmaxCuda p;
  Job job;
  int64_t columns, tiles;  // neighbours; tiles of them; 0: rows
  device::Divisor by_tiles;
  int64_t across[2];       // of what is read, from one to the next: 1, or 0
};
template <class T> constexpr int kWide = kAcross * kChunk<T>;  // columns of a tile
constexpr int length_of(bool columns, int tensors, int size) { return columns ? kThreads / kAcross * (kPieces / tensors) : kThreads * (16 / size) * (kPieces / tensors); }

// Pieces of a thread in a chunk of a row, R of each tensor. kWhole: they are aligned and whole.
template <class T, int R, bool kWhole> struct InRow {
  static constexpr int N = kChunk<T>, kLines = 1, kStats = 1, kLength = kThreads * R * N, kLanes = 1;
  int64_t first;
  int m, left;  // elements of the chunk; from its first on
  int64_t at[4];
  __device__ InRow(const LongCuda& c, int tile, int chunk) : first(int64_t(chunk) * kLength) {
    const int64_t rest = c.p.n - first;
    left = rest < 2 * kLength ? int(rest) : 2 * kLength, m = left < kLength ? left : kLength;
    c.p.lines.offsets(tile, at);
  }
  __device__ static int index(int r) { return (r * kThreads + int(threadIdx.x)) * N; }
  __device__ bool has(int r, int j) const { return index(r) + (kWhole ? 0 : j) < m; }
  __device__ __forceinline__ Packed<T> load(const LongCuda&, const void* from, int k, int r) const {
    const T* const p = static_cast<const T*>(from) + at[k] + first;
    const int i = index(r);
    if (i >= m) return {};
    if constexpr (kWhole) return Packed<T>::load(p + i);
    else return row_team::load_shifted(p, i, left, row_team::misplaced(p));
  }
  __device__ __forceinline__ void store(const LongCuda& c, int r, const Packed<T>& v) const {
    T* const p = static_cast<T*>(c.p.out) + at[3] + first;
    if constexpr (!kWhole) row_team::store_shifted(p, index(r), m, row_team::misplaced(p), v, row_team::Team(kThreads));
    else if (index(r) < m) v.store(p + index(r));
  }
};
// The same in a chunk of a tile of columns: 16 bytes of each of R rows.
template <class T, int R, bool kWhole> struct InColumns {
  static constexpr int N = kChunk<T>, kLines = kWide<T>, kStats = N, kGroups = kThreads / kAcross, kLength = kGroups * R, kLanes = kAcross;
  int64_t first;
  int m, left;  // rows of the chunk; columns of this thread
  int64_t at[4];
  __device__ InColumns(const LongCuda& c, int tile, int chunk) : first(int64_t(chunk) * kLength + int(threadIdx.x) / kAcross) {
    const int64_t outer = c.by_tiles.quotient(uint32_t(tile)), column = (tile - outer * c.tiles) * kLines, rest = c.p.n - int64_t(chunk) * kLength;
    m = rest < kLength ? int(rest) : kLength;
    const int q = int(threadIdx.x) % kAcross * N;
    left = c.columns - column - q < N ? int(c.columns - column - q) : N;
    c.p.lines.offsets(outer * c.columns + column, at);
    at[0] += q * c.across[0], at[1] += q * c.across[1], at[3] += q;
  }
  __device__ bool any(int r) const { return r * kGroups + int(threadIdx.x) / kAcross < m && left > 0; }
  __device__ bool has(int r, int j) const { return any(r) && (kWhole || j < left); }
  __device__ __forceinline__ Packed<T> load(const LongCuda& c, const void* from, int k, int r) const {
    const T* const p = static_cast<const T*>(from) + at[k] + (first + r * kGroups) * c.p.step[k];
    if (!any(r)) return {};
    if constexpr (kWhole) return Packed<T>::load(p);
    else return Packed<T>::from([&](int j) { return j < left ? p[j * c.across[k]] : T{}; });
  }
  __device__ __forceinline__ void store(const LongCuda& c, int r, const Packed<T>& v) const {
    T* const p = static_cast<T*>(c.p.out) + at[3] + (first + r * kGroups) * c.p.step[3];
    if (!any(r)) return;
    if constexpr (kWhole) v.store(p);
    else
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (j < left) p[j] = v.at(j);
  }
};
// Of a thread's numbers, one a line, those of a warp.
template <class Place, class F> __device__ __forceinline__ void over_warp(V (&v)[Place::kStats], F join) {
#pragma unroll
  for (int w = 16; w >= Place::kLanes; w /= 2)
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) v[k] = join(v[k], V::of(__shfl_xor_sync(0xffffffffu, v[k].v, w)));
}
// f(k, line) for the numbers that this thread writes for its warp.
template <class Place, class F> __device__ __forceinline__ void each_of_warp(F f) {
  const int lane = int(threadIdx.x) % 32, at = int(threadIdx.x) / 32 * Place::kLines + lane * Place::kStats;
  if (lane < Place::kLanes)
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) f(k, at + k);
}

template <class T, template <class, int, bool> class In, bool kWhole> struct Forward {
  using Place = In<T, kPieces, kWhole>;
  struct Part {
    float top = float(-kInf), sum = 0;
    __device__ friend Part operator+(const Part& a, const Part& b) {
      const Exp<T> line(greater(V::of(a.top), V::of(b.top)));
      return {line.max.v, (V::of(a.sum) * Exp<T>(V::of(a.top)).weight(line) + V::of(b.sum) * Exp<T>(V::of(b.top)).weight(line)).v};
    }
  };
  using Total = Part;
  using Kept = Line<T>;
  struct Held { Packed<T> x[kPieces]; };
  static constexpr int kBlocks = Place::kStats > 4 || !kWhole ? 2 : lagged::kBlocks;  // numbers of eight lines take more registers
  static constexpr int kLines = Place::kLines, N = kChunk<T>;
  const LongCuda& c;
  V scale;
  __device__ explicit Forward(const LongCuda& c) : c(c), scale(c.p.negate ? -c.p.scale : c.p.scale) {}
  __device__ __forceinline__ void load(Held& h, int tile, int chunk) const {
    const Place at(c, tile, chunk);
#pragma unroll
    for (int r = 0; r < kPieces; ++r) h.x[r] = at.load(c, c.p.in, 0, r);
  }
  __device__ __forceinline__ void parts(const Held& h, int tile, int chunk, Part* to) const {
    const Place at(c, tile, chunk);
    V top[Place::kStats], sum[Place::kStats];
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) top[k] = -kInf, sum[k] = 0;
#pragma unroll
    for (int r = 0; r < kPieces; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (at.has(r, j)) top[j % Place::kStats] = greater(h.x[r][j] * scale, top[j % Place::kStats]);
    over_warp<Place>(top, [](V a, V b) { return greater(a, b); });
#pragma unroll
    for (int r = 0; r < kPieces; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (at.has(r, j)) sum[j % Place::kStats] = sum[j % Place::kStats] + Exp<T>(top[j % Place::kStats])(h.x[r][j] * scale);
    over_warp<Place>(sum, [](V a, V b) { return a + b; });
    each_of_warp<Place>([&](int k, int line) { to[line] = {top[k].v, sum[k].v}; });
  }
  __device__ void keep(int, const Total* totals, Kept* kept) const {
    if (int(threadIdx.x) < kLines) kept[threadIdx.x] = Kept::of(V::of(totals[threadIdx.x].top), V::of(totals[threadIdx.x].sum), c.p.log, c.p.safe);
  }
  __device__ __forceinline__ void finish(const Held& h, int tile, int chunk, const Kept* kept) const {
    const Place at(c, tile, chunk);
    const Kept* const own = kept + int(threadIdx.x) % Place::kLanes * Place::kStats;
    Kept line[Place::kStats];
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) line[k] = own[k];
    const auto store = [&](auto made) {
#pragma unroll
      for (int r = 0; r < kPieces; ++r)
        at.store(c, r, Packed<T>::rounded([&](int j) { return made(h.x[r][j] * scale, line[j % Place::kStats]); }));
    };
    if (c.p.log) store([](V v, const Kept& l) { return l.made(v, true); });
    else store([](V v, const Kept& l) { return l.made(Exp<T>(l.top)(v), false); });
  }
};
template <class T, template <class, int, bool> class In, bool kWhole> struct Backward {
  static constexpr int kHalf = kPieces / 2;
  using Place = In<T, kHalf, kWhole>;
  struct Part {
    float sum = 0;
    __device__ friend Part operator+(const Part& a, const Part& b) { return {a.sum + b.sum}; }
  };
  using Total = Part;
  using Kept = Part;
  struct Held { Packed<T> dy[kHalf], y[kHalf]; };
  static constexpr int kBlocks = Place::kStats > 4 || !kWhole ? 2 : lagged::kBlocks;
  static constexpr int kLines = Place::kLines, N = kChunk<T>;
  const LongCuda& c;
  __device__ explicit Backward(const LongCuda& c) : c(c) {}
  __device__ __forceinline__ void load(Held& h, int tile, int chunk) const {
    const Place at(c, tile, chunk);
#pragma unroll
    for (int r = 0; r < kHalf; ++r) h.dy[r] = at.load(c, c.p.in, 0, r), h.y[r] = at.load(c, c.p.second, 1, r);
  }
  __device__ __forceinline__ void parts(const Held& h, int tile, int chunk, Part* to) const {
    const Place at(c, tile, chunk);
    V sum[Place::kStats];
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) sum[k] = -0.0;
#pragma unroll
    for (int r = 0; r < kHalf; ++r)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        V& s = sum[j % Place::kStats];
        if (at.has(r, j)) s = c.p.log ? s + h.dy[r][j] : fma(h.dy[r][j], h.y[r][j], s);
      }
    over_warp<Place>(sum, [](V a, V b) { return a + b; });
    each_of_warp<Place>([&](int k, int line) { to[line] = {sum[k].v}; });
  }
  __device__ void keep(int, const Total* totals, Kept* kept) const {
    if (int(threadIdx.x) < kLines) kept[threadIdx.x] = totals[threadIdx.x];
  }
  __device__ __forceinline__ void finish(const Held& h, int tile, int chunk, const Kept* kept) const {
    const Place at(c, tile, chunk);
    const Kept* const own = kept + int(threadIdx.x) % Place::kLanes * Place::kStats;
    V dot[Place::kStats];
#pragma unroll
    for (int k = 0; k < Place::kStats; ++k) dot[k] = V::of(own[k].sum);
    const V sign = c.p.sign;
    const auto store = [&](bool log) {
#pragma unroll
      for (int r = 0; r < kHalf; ++r)
        at.store(c, r, Packed<T>::rounded([&](int j) { return slope_of<T>(log, h.dy[r][j], h.y[r][j], dot[j % Place::kStats], sign); }));
    };
    if (c.p.log) store(true);
    else store(false);
  }
};
template <class Op> __global__ void __launch_bounds__(kThreads, Op::kBlocks) long_kernel(const __grid_constant__ LongCuda c) { run<Op>(c); }

// How lines of n elements meet tiles; columns: neighbours, 0 for rows.
Sizes sizes_of(int64_t lines, int64_t n, int64_t columns, int size, bool backward) {
  const int64_t wide = columns ? kAcross * (16 / size) : 1, tiles = columns ? lines / columns * device::ceil_div(columns, wide) : lines;
  const size_t part = size_t(wide) * (backward ? 4 : 8), kept = size_t(wide) * (backward ? 4 : 12);
  return {tiles, device::ceil_div(n, length_of(columns > 0, backward ? 2 : 1, size)), part, kept};
}
template <class T, bool kBackward, template <class, int, bool> class In> int launch_in(const LongCuda& c, const Sizes& s, bool whole, void* stream) {
  using Whole = std::conditional_t<kBackward, Backward<T, In, true>, Forward<T, In, true>>;
  using Other = std::conditional_t<kBackward, Backward<T, In, false>, Forward<T, In, false>>;
  return lagged::launch(whole ? long_kernel<Whole> : long_kernel<Other>, whole ? Whole::kBlocks : Other::kBlocks, s, stream, c);
}
template <class T, bool kBackward> int run_long(const SoftmaxCuda& p, void* stream) {
  LongCuda c{p};
  const int last = p.lines.rank - 1;
  if (p.columns) c.columns = p.lines.extent[last], c.tiles = device::ceil_div(c.columns, kWide<T>), c.by_tiles = device::Divisor::of(uint32_t(c.tiles));
  const Sizes s = sizes_of(p.lines.units, p.n, c.columns, sizeof(T), kBackward);
  c.job = job_of(s, p.chunk_memory);
  const void* const data[] = {p.in, p.second, nullptr, p.out};
  bool whole = true;
  if (!p.columns) {
    for (int k = 0; k < 4; ++k) whole = whole && device_rows::whole_chunks<T>(p.lines, k, data[k], p.n);
    return launch_in<T, kBackward, InRow>(c, s, whole, stream);
  }
  whole = c.columns % kChunk<T> == 0;
  for (int k = 0; k < 4; ++k) {
    if (!data[k]) continue;
    if (k < 2) c.across[k] = p.lines.stride[k][last], whole = whole && c.across[k] == 1;
    whole = whole && uintptr_t(data[k]) % 16 == 0 && p.step[k] % kChunk<T> == 0;
    for (int a = 0; a < last; ++a) whole = whole && p.lines.stride[k][a] % kChunk<T> == 0;
  }
  return launch_in<T, kBackward, InColumns>(c, s, whole, stream);
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(run_long<f16, kBackward>, run_long<bf16, kBackward>, run_long<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kLong = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_long_cuda = kLong;
uint64_t softmax_long_bytes(int64_t lines, int64_t n, int64_t columns, int size, bool backward) {
  const lagged::Sizes s = sizes_of(lines, n, columns, size, backward);
  return lagged::fits(s) ? lagged::bytes_of(s) : 0;
}

}  // namespace baracuda
