// Rows of LayerNorm in registers (device/row_team.cuh). Forward: reads x, writes y; backward: reads dy and x, writes dx: the floor is memory
// bandwidth. Sums are in f32, and so is what is made of them: every thread makes it. Backward: a team of threads goes through rows b,
// b + teams, ... and keeps its parts of dweight and dbias in registers; a second kernel adds the parts in f64.
#include "baracuda/device/row_runs.cuh"
#include "baracuda/ops/norm/layer_norm_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"
#include "baracuda/ops/norm/norm_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace norm_rows;
using V = Pack<float, 1>;
using RowStatistics = StatisticsOf<float>;

// Chunks of a thread; forward, of rows in f32 that kMostTeam threads do not hold so, twice as many.
constexpr int kForward = 4;
template <bool kWhole> constexpr int kForwardThreads = kWhole ? kMostTeam : 576;  // of a multiprocessor, whose registers they share
template <class T> constexpr int kBackward = 16 / kChunk<T>;
constexpr RowTiles kTiles[] = {{18, 512, 1}, {17, 512, 1}};  // backward, of halves and of f32
// N: elements that lie together, a chunk or, by tiles, a word.
template <class T, int N> constexpr int kBackwardThreads = N < kChunk<T> ? kTiles[sizeof(T) / 4].threads : kMostTeam;

// x(c, i): chunk c of `row`. Halves are summed once, around the row's first element, if that is not far off: what cancels then, their
// rounding hides. Else around the mean. Where the variance left the range of f32 the row is read again, in f64. Every thread of the block calls;
// shared: 64 doubles each.
template <class T, int C, int N, bool kWhole, class Team, class X>
__device__ __forceinline__ RowStatistics statistics(const Team& t, const T* row, int n, double eps, double* shared, double* also_shared, V first, X x) {
  const auto over = [&](auto& sums, double* buffer, auto add) {
    each_piece<T, C, N>(n, t, [&](int c, int i) {
      const Packed<T, N> own = x(c, i);
      each_lane<kWhole, N>(i, n, [&](int j) { add(own[j]); });
    });
    t.sums(sums, reinterpret_cast<float*>(buffer));
  };
  float sum[1] = {0}, sums[2] = {0, 0};
  RowStatistics once{};
  bool near = false;
  if constexpr (kIsHalf<T>) {
    over(sums, also_shared, [&](V v) {
      const V d = v - first;
      sums[0] = sums[0] + d.v, sums[1] = fma(d, d, V::of(sums[1])).v;
    });
    const MomentsOf<float> all = moments_of<float>(sums[0], sums[1], float(n));
    near = float(n) * (all.mean * all.mean) <= 16 * all.squares && variance_in_range<float>(all.squares, float(n), eps);
    once = statistics_of<float>(all, first.v, float(n), eps);
    if (__all_sync(0xffffffffu, near)) return once;
    sums[0] = sums[1] = 0;
  }
  over(sum, shared, [&](V v) { sum[0] = sum[0] + v.v; });
  const V shift = V::of(quotient(sum[0], float(n)));
  over(sums, also_shared, [&](V v) {
    const V d = v - shift;
    sums[0] = sums[0] + d.v, sums[1] = fma(d, d, V::of(sums[1])).v;
  });
  const MomentsOf<float> all = moments_of<float>(sums[0], sums[1], float(n));
  const bool in_range = variance_in_range<float>(all.squares, float(n), eps);
  RowStatistics s = statistics_of<float>(all, shift.v, float(n), eps);
  if (near) s = once;
  if (__all_sync(0xffffffffu, in_range || near)) return s;  // teams that share a warp go on together
  double wide[1] = {0}, squares[1] = {0};
  over_row(row, n, t, [&](V v) { wide[0] = wide[0] + double(v.v); });
  t.sums(wide, shared);
  const double mean = wide[0] / double(n);
  over_row(row, n, t, [&](V v) { squares[0] = squares[0] + (double(v.v) - mean) * (double(v.v) - mean); });
  t.sums(squares, also_shared);
  const double variance = squares[0] / double(n), rounded = double(float(mean));
  return in_range || near ? s : RowStatistics{float(rounded), float(mean - rounded), float(1 / __builtin_sqrt(variance + eps)), float(variance)};
}

template <class T, class W, int C, bool kWhole> __global__ void __launch_bounds__(kForwardThreads<kWhole>, 1) forward_kernel(const __grid_constant__ LayerNormCuda p) {
  constexpr int N = kChunk<T>;
  constexpr bool kKept = kWhole && C * N * int(sizeof(W)) <= 64;  // weight and bias stay in registers
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[kEdges<T, C, kWhole>];
  __shared__ double shared[3][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.rows.units, step = t.row_step();
  Packed<W, N> weight[kKept ? C : 1], bias[kKept ? C : 1];
  if constexpr (kKept)
    each_chunk<T, C>(n, t, [&](int c, int i) { weight[c] = factors<W, N>(p.weight, i, n, 1), bias[c] = factors<W, N>(p.bias, i, n, -0.0); });
  Ahead<T, 1, C, kWhole> ahead(slots, t);
  T next_point{};
  const auto fetch = [&](int64_t first) {
    int64_t at[4];
    p.rows.offsets(first + t.slot < rows ? first + t.slot : first, at);
    const T* const x = static_cast<const T*>(p.x) + at[0];
    ahead.fetch({x}, n, t);
    if constexpr (kIsHalf<T>) next_point = *x;
  };
  int64_t first = t.first_row();
  if (first < rows) fetch(first);
  bool other = false;  // buffer of this row's sums
  for (; first < rows; first += step, other = !other) {
    if constexpr (!kWhole) t.forget_places(n);
    const bool live = first + t.slot < rows;
    const T* const x = ahead.rows[0];
    Held<T, C> held[1];
    const V point = value(next_point);
    ahead.take(held, n, t);
    if (first + step < rows) fetch(first + step);
    const RowStatistics s = statistics<T, C, N, kWhole>(t, x, n, p.eps, shared[0], shared[1 + other], point, [&](int c, int) { return held[0].chunk[c]; });
    if constexpr (!kWhole) t.forget_places(n);
    int64_t at[4];
    p.rows.offsets(live ? first + t.slot : first, at);
    T* const y = static_cast<T*>(p.y) + at[1];
    if (live && t.thread == 0) {
      if (p.mean) static_cast<float*>(p.mean)[at[2]] = s.shift + s.rest;
      if (p.rstd) static_cast<float*>(p.rstd)[at[3]] = s.rstd;
    }
    const V shift = V::of(s.shift), rest = V::of(s.rest), scale = V::of(s.rstd);
    put_row<T, C, kWhole>(y, live ? n : 0, t, edges, [&](int c, int i) {
      Packed<W, N> w, b;
      if constexpr (kKept) w = weight[c], b = bias[c];
      else w = factors<W, N>(p.weight, i, n, 1), b = factors<W, N>(p.bias, i, n, -0.0);
      return Packed<T>::rounded([&](int j) { return standardized(held[0].chunk[c][j], shift, rest, scale, w[j], b[j]); });
    });
  }
  t.leave();
}

// By blocks on sm_90a (device/row_runs.cuh), rows that are no whole chunks.
struct LayerNormBlocksCuda {
  LayerNormCuda p;
  row_runs::BlockRows rows;
  row_runs::BlockShape shape;
};
template <class T, class W> __global__ void __launch_bounds__(row_runs::kBlockThreads, 1) forward_blocks_kernel(const __grid_constant__ LayerNormBlocksCuda c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using namespace row_runs;
  constexpr int N = kWord<T>, C = kBlockWords;
  constexpr bool kKept = sizeof(W) == sizeof(T), kKeptBias = kKept && !kIsHalf<T>;  // weight and bias stay in registers
  extern __shared__ uint4 slots[];
  __shared__ uint64_t full[4];
  __shared__ double shared[3][64];
  const LayerNormCuda& p = c.p;
  const int n = int(p.n);
  const BlockTeam t(int(blockDim.x));
  Packed<W, N> weight[kKept ? C : 1], bias[kKeptBias ? C : 1];
  if constexpr (kKept) each_word<C, N>(n, t, [&](int k, int i) { weight[k] = factors<W, N>(p.weight, i, n, 1); });
  if constexpr (kKeptBias) each_word<C, N>(n, t, [&](int k, int i) { bias[k] = factors<W, N>(p.bias, i, n, -0.0); });
  const OneByOne<T, 4, 0, -1, 1, -1> of{p.rows, c.rows};
  Runs<T, 0, decltype(of)> runs(of, int(p.rows.units), c.shape.slots, c.shape.pitch, slots, full);
  for (bool other = false; runs.more(); runs.leave(), other = !other) {
    runs.arrive();
    T* const row = runs.at(0);
    const bool whole = uintptr_t(row) % 4 == 0;
    Packed<T, N> x[C];
    each_word<C, N>(n, t, [&](int k, int i) { x[k] = word_at(row, i, whole, n - i); });
    const RowStatistics s = statistics<T, C, N, N == 1>(t, row, n, p.eps, shared[0], shared[1 + other], value(*row), [&](int k, int) { return kept_word(x[k]); });
    if (t.thread == 0 && (p.mean || p.rstd)) {
      int64_t at[4];
      p.rows.offsets(runs.run, at);
      if (p.mean) static_cast<float*>(p.mean)[at[2]] = s.shift + s.rest;
      if (p.rstd) static_cast<float*>(p.rstd)[at[3]] = s.rstd;
    }
    const V shift = V::of(s.shift), rest = V::of(s.rest), scale = V::of(s.rstd);
    each_word<C, N>(n, t, [&](int k, int i) {
      Packed<W, N> w, b;
      if constexpr (kKept) w = kept_word(weight[k]);
      else w = factors<W, N>(p.weight, i, n, 1);
      if constexpr (kKeptBias) b = bias[k];
      else b = factors<W, N>(p.bias, i, n, -0.0);
      const auto own = kept_word(x[k]);
      put_word(row, i, whole, n - i, Packed<T, N>::rounded([&](int j) { return standardized(own[j], shift, rest, scale, w[j], b[j]); }));
    });
  }
  runs.end();
#endif
}

// kApart: a block may have several teams of more than 32 threads.
template <class T, class W, int C, int N, bool kWhole, bool kApart>
__global__ void __launch_bounds__(kBackwardThreads<T, N>, 1) backward_kernel(const __grid_constant__ LayerNormBackwardCuda p) {
  constexpr bool kTile = N < kChunk<T>;
  constexpr bool kKept = !kTile && C * N * int(sizeof(W)) <= 32;  // the weight stays in registers
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[kEdges<T, C, kWhole || kTile>];
  __shared__ double shared[3][64];
  std::conditional_t<kTile, TileTeam, TeamOf<kApart, kApart>> t(p.team);
  int n = int(p.n);
  const int64_t rows = p.rows.units, step = t.row_step();
  V dw[C][N], db[C][N];
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int j = 0; j < N; ++j) dw[c][j] = 0, db[c][j] = 0;
  Packed<W, N> weight[kKept ? C : 1];
  if constexpr (kKept) each_piece<T, C, N>(n, t, [&](int c, int i) { weight[c] = factors<W, N>(p.weight, i, n, 1); });
  const auto weight_at = [&](int c, int i) {
    if constexpr (kKept) return weight[c];
    else {
      if (kTile && c % 4 == 0) asm volatile("" ::: "memory");  // some at a time: registers
      return factors<W, N>(p.weight, i, n, 1);
    }
  };
  auto ahead = [&] {
    if constexpr (kTile) return Tile<T, 2, C>(slots, n, in_runs<0, 1, 4>(p.rows, p.n));
    else return Ahead<T, 2, C, kWhole>(slots, t);
  }();
  float next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int64_t first) {
    int64_t at[5];
    p.rows.offsets(first + t.slot < rows ? first + t.slot : first, at);
    if constexpr (kTile)
      ahead.fetch(first, rows, n, t, [&](int64_t row, const T* (&of)[2]) {
        int64_t at[5];
        p.rows.offsets(row, at);
        of[0] = static_cast<const T*>(p.dy) + at[0], of[1] = static_cast<const T*>(p.x) + at[1];
      });
    else ahead.fetch({static_cast<const T*>(p.dy) + at[0], static_cast<const T*>(p.x) + at[1]}, n, t);
    if (p.rstd) next_mean = static_cast<const float*>(p.mean)[at[2]], next_rstd = static_cast<const float*>(p.rstd)[at[3]];
  };
  int64_t first = t.first_row();
  bool other = false;  // buffer of this row's sums
  if (first < rows) fetch(first);
  for (; first < rows; first += step, other = !other) {
    if constexpr (!kWhole || kTile) t.forget_places(n);
    const bool live = first + t.slot < rows;
    RowStatistics s{next_mean, 0, next_rstd};
    Held<T, C, N> held[2];
    if constexpr (kTile) ahead.take(held, n, t);
    else {
      ahead.arrive(t);
#pragma unroll
      for (int k = 0; k < 2; ++k) each_chunk<T, C>(n, t, [&](int c, int i) { held[k].chunk[c] = ahead.taken(k, c, i, n, t); });
    }
    if (first + step < rows) fetch(first + step);
    const auto dy_at = [&](int c, int j) { return held[0].chunk[c][j]; };
    const auto x_at = [&](int c, int j) { return held[1].chunk[c][j]; };
    if (!p.rstd) {
      int64_t at[5];
      p.rows.offsets(live ? first + t.slot : first, at);
      const T* const x = static_cast<const T*>(p.x) + at[1];
      s = statistics<T, C, N, kWhole>(t, x, n, p.eps, shared[0], shared[1], value(*x), [&](int c, int) { return held[1].chunk[c]; });
    }
    const V shift = V::of(s.shift), scale = V::of(s.rstd);
    float sums[3] = {0, 0, 0};
    V h[C][N];  // (x - shift) scale; of halves, whose instructions count, made once
    each_piece<T, C, N>(n, t, [&](int c, int i) {
      const auto w = weight_at(c, i);
      if constexpr (!kWhole)
#pragma unroll
        for (int j = 0; j < N; ++j) h[c][j] = 0;
      each_lane<kWhole, N>(i, n, [&](int j) {
        h[c][j] = (x_at(c, j) - shift) * scale;
        const V e = dy_at(c, j) * w[j];
        sums[0] = sums[0] + e.v, sums[1] = fma(e, h[c][j], V::of(sums[1])).v, sums[2] = sums[2] + h[c][j].v;
      });
    });
    t.sums(sums, reinterpret_cast<float*>(shared[p.rstd && other ? 0 : 2]));
    const GradientMeansOf<float> g = gradient_means<float>({sums[0], sums[1], sums[2]}, n, s.rstd);
    int64_t at[5];
    p.rows.offsets(live ? first + t.slot : first, at);
    T* const dx = static_cast<T*>(p.dx) + at[4];
    const V rest = V::of(g.rest), rest_hat = rest * scale, mean_g = V::of(g.mean_g), minus_dot = V::of(g.minus_dot);
    const auto made = [&](int c, int i) {
      const auto w = weight_at(c, i);
      return Packed<T, N>::rounded([&](int j) {
        const V e = dy_at(c, j), xhat = kIsHalf<T> ? h[c][j] - rest_hat : normalized(x_at(c, j), shift, rest, scale);
        dw[c][j] = fma(e, xhat, dw[c][j]), db[c][j] = db[c][j] + e;
        return input_gradient(e, w[j], xhat, mean_g, minus_dot, scale);
      });
    };
    if constexpr (kTile)
      ahead.put(first, rows, n, t, [&](int64_t row) {
        int64_t at[5];
        p.rows.offsets(row, at);
        return static_cast<T*>(p.dx) + at[4];
      }, [&](int, int c, int i) { return made(c, i); });
    else put_row<T, C, kWhole>(dx, live ? n : 0, t, edges, made);
  }
  t.leave();
  if (p.dweight) store_parts<T, C, N, kWhole>(dw, p.dweight, n, t, slots);
  if (p.dbias) store_parts<T, C, N, kWhole>(db, p.dbias, n, t, slots);
}

template <class T, class W> int forward(const LayerNormCuda& given, void* stream) {
  return with_chunks<T, kForward>(given.n, [&](auto chunks) {
    constexpr int C = decltype(chunks)::value;
    LayerNormCuda p = given;
    const TeamShape shape = TeamShape::of(p.n, C * kChunk<T>);
    p.team = shape.team;
    const void* const data[] = {p.x, p.y};
    bool whole = ahead_bytes(1, C, shape.block) <= kMostAhead;
    for (int k = 0; k < 2; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
    if (p.sm90a && row_runs::by_blocks(p.n, sizeof(T), p.rows.units, 1)) {
      LayerNormBlocksCuda c{p, {int(p.n), {p.x, nullptr}, {}, {p.y, nullptr}}, row_runs::BlockShape::of(p.n, sizeof(T), 1)};
      c.rows.ends(p.rows, 0, 0, sizeof(T));
      return row_runs::launch(forward_blocks_kernel<T, W>, c.shape, 1, p.rows.units, stream, c);
    }
    return launch(whole ? forward_kernel<T, W, C, true> : forward_kernel<T, W, C, false>, shape, p.rows.units, staging(1, C, shape, whole), stream, p,
                  whole ? kForwardThreads<true> : kForwardThreads<false>);
  });
}
template <class T, class W> int backward(const LayerNormBackwardCuda& given, void* stream) {
  constexpr int C = kBackward<T>;
  LayerNormBackwardCuda p = given;
  const TeamShape shape = backward_shape(kTiles, p.n, p.rows.units, sizeof(T));
  p.team = shape.team;
  constexpr RowTiles kTile = kTiles[sizeof(T) / 4];
  if (by_tiles(kTile, p.n, sizeof(T))) {
    constexpr int N = kWord<T>;
    return launch(backward_kernel<T, W, kTile.each / N, N, N == 1, true>, shape, p.rows.units, tile_bytes<T>(3, p.n, shape), stream, p, kTile.threads);
  }
  constexpr int N = kChunk<T>;
  bool whole = true;
  const void* const data[] = {p.dy, p.x, nullptr, nullptr, p.dx};
  for (int k = 0; k < 5; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
  const bool apart = shape.team > 32 && shape.slots() > 1;
  return launch(!whole ? backward_kernel<T, W, C, N, false, true> : apart ? backward_kernel<T, W, C, N, true, true> : backward_kernel<T, W, C, N, true, false>, shape, p.rows.units, staging(2, C, shape, whole), stream, p);
}
using Forward = int (*)(const LayerNormCuda&, void*);
using Backward = int (*)(const LayerNormBackwardCuda&, void*);
constexpr LayerNormCudaKernels kRows = {
    {device::floating<Forward>(forward<f16, f16>, forward<bf16, bf16>, forward<float, float>, nullptr),
     device::floating<Forward>(forward<f16, float>, forward<bf16, float>, forward<float, float>, nullptr)},
    {device::floating<Backward>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, nullptr),
     device::floating<Backward>(backward<f16, float>, backward<bf16, float>, backward<float, float>, nullptr)}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const LayerNormCudaKernels layer_norm_rows_cuda = kRows;
int layer_norm_cuda_blocks_of_row(int64_t n, bool backward, int size) {
  return n == 0 || size == 8 ? 0 : (backward ? norm_rows::backward_shape(kTiles, n, 1, size) : row_team::shape_for(n, kForward, size)).cluster;
}
int64_t layer_norm_cuda_row_parts(int64_t rows, int64_t n, int size) { return norm_rows::row_parts(kTiles, rows, n, size); }

}  // namespace baracuda
