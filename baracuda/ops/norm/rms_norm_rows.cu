// Rows of RmsNorm in registers (device/row_team.cuh). Forward: h = x + residual, y = h rstd w'; reads x (and residual), writes y (and h): the
// floor is memory bandwidth. Sums are in f32. Backward: a team of threads goes through rows b, b + teams, ... and keeps its part of
// dweight in registers; a second kernel adds the parts in f64.
#include "baracuda/device/row_runs.cuh"
#include "baracuda/ops/norm/norm_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"
#include "baracuda/ops/norm/norm_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace norm_rows;
using V = Pack<float, 1>;

// Chunks of a thread; forward, of rows in f32 that kMostTeam threads do not hold so, twice as many.
constexpr int kForward = 4;
template <int C, bool kWhole> constexpr int kForwardThreads = kWhole ? kMostTeam : C > 4 ? 640 : 576;  // of a multiprocessor, whose registers they share
template <int C> constexpr int kAhead = C > 4 ? 1 : 2;  // x, or x and residual: of rows that are not whole
template <class T> constexpr int kBackward = 16 / kChunk<T>;
constexpr RowTiles kTiles[] = {{10, 896, 1}, {17, 512, 1}};  // backward, of halves and of f32
// N: elements that lie together, a chunk or, by tiles, a word.
template <class T, int N> constexpr int kBackwardThreads = N < kChunk<T> ? kTiles[sizeof(T) / 4].threads : kMostTeam;

template <class T> __device__ __forceinline__ V rounded_to(V v) { return Packed<T, 4 / int(sizeof(T))>::rounded([&](int) { return v; })[0]; }
// 1 / rms of x(c, i), a chunk each. Where the sum of squares left the range of f32, again(f) gives f all elements that a thread reads then, and f64 sums
// them. Every thread of the block calls.
template <class T, int C, int N, bool kWhole, class Team, class X, class Again>
__device__ __forceinline__ V inverse_rms(const Team& t, int n, double eps, double* shared, double* also_shared, X x, Again again) {
  float sum[1] = {0};
  each_piece<T, C, N>(n, t, [&](int c, int i) {
    const Packed<T, N> own = x(c, i);
    each_lane<kWhole, N>(i, n, [&](int j) { sum[0] = fma(own[j], own[j], V::of(sum[0])).v; });
  });
  t.sums(sum, reinterpret_cast<float*>(shared));
  const bool plain = sum[0] < 0x1p120f && (sum[0] > 0x1p-90f * float(n) || eps > 0x1p-50);
  const V r = V::of(inverse_root(quotient(sum[0], float(n)) + float(eps)));
  if (__all_sync(0xffffffffu, plain)) return r;  // teams that share a warp go on together
  double wide[1] = {0};
  again([&](V v) { wide[0] = wide[0] + double(v.v) * double(v.v); });
  t.sums(wide, also_shared);
  return plain ? r : V::of(float(1 / __builtin_sqrt(wide[0] / double(n) + eps)));
}
// The factors of a chunk: w, 1 + w, or 1 where there is none.
template <class W, int N> struct Weights {
  Packed<W, N> w;
  Weights() = default;
  template <class P> __device__ __forceinline__ Weights(const P& p, int i, int n) {
    if (p.weight_stride == 1 || !p.weight) w = factors<W, N>(p.weight, i, n, p.one_plus ? 0 : 1);
    else w = Packed<W, N>::from([&](int j) { return i + j < n ? static_cast<const W*>(p.weight)[(i + j) * p.weight_stride] : W{}; });
  }
  template <class P> __device__ __forceinline__ V at(const P& p, int j) const { return p.one_plus ? V(1) + w[j] : w[j]; }
};

template <class T, class W, int C, bool kWhole> __global__ void __launch_bounds__(kForwardThreads<C, kWhole>, 1) forward_kernel(const __grid_constant__ RmsNormCuda p) {
  constexpr int N = kChunk<T>;
  constexpr bool kKept = kWhole && C * N * int(sizeof(W)) <= 64;  // the weight stays in registers
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[2][kEdges<T, C, kWhole>];
  __shared__ double shared[3][64];
  Team t(p.team);
  int n = int(p.n);
  const int64_t rows = p.rows.units, step = t.row_step();
  Weights<W, N> weight[kKept ? C : 1];
  if constexpr (kKept) each_chunk<T, C>(n, t, [&](int c, int i) { weight[c] = Weights<W, N>(p, i, n); });
  Ahead<T, 2, C, kWhole, kAhead<C>> ahead(slots, t);
  const auto fetch = [&](int64_t first) {
    int64_t at[5];
    p.rows.offsets(first + t.slot < rows ? first + t.slot : first, at);
    ahead.fetch({static_cast<const T*>(p.x) + at[0], p.residual ? static_cast<const T*>(p.residual) + at[1] : nullptr}, n, t);
  };
  int64_t first = t.first_row();
  bool other = false;  // buffer of this row's sum
  if (first < rows) fetch(first);
  for (; first < rows; first += step, other = !other) {
    if constexpr (!kWhole) t.forget_places(n);
    const bool live = first + t.slot < rows;
    const T *const x = ahead.rows[0], *const residual = ahead.rows[1];
    Held<T, C> held[2];
    Held<T, C>& h = held[0];
    const auto add = [&](int c) { h.chunk[c] = Packed<T>::rounded([&](int j) { return h.chunk[c][j] + held[1].chunk[c][j]; }); };
    if constexpr (kWhole && (kKept || C > 4)) {
      ahead.take(held, n, t);
      if (residual) each_chunk<T, C>(n, t, [&](int c, int) { add(c); });
    } else {  // a chunk of both at a time takes fewer registers
      ahead.arrive(t);
      each_chunk<T, C>(n, t, [&](int c, int i) {
        h.chunk[c] = ahead.taken(0, c, i, n, t);
        if (!residual) return;
        held[1].chunk[c] = ahead.taken(1, c, i, n, t);
        add(c);
      });
    }
    if (first + step < rows) fetch(first + step);
    const V scale = inverse_rms<T, C, N, kWhole>(t, n, p.eps, shared[other], shared[2], [&](int c, int) { return h.chunk[c]; }, [&](auto f) {
      for (int i = t.thread; i < n; i += t.size) f(residual ? rounded_to<T>(value(x[i]) + value(residual[i])) : value(x[i]));
    });
    if constexpr (!kWhole) t.forget_places(n);
    int64_t at[5];
    p.rows.offsets(live ? first + t.slot : first, at);
    if (p.residual_out) put_row<T, C, kWhole>(static_cast<T*>(p.residual_out) + at[3], live ? n : 0, t, edges[0], [&](int c, int) { return h.chunk[c]; });
    if constexpr (!kWhole) t.forget_places(n);
    if (p.rstd && live && t.thread == 0) static_cast<float*>(p.rstd)[at[4]] = scale.v;
    put_row<T, C, kWhole>(static_cast<T*>(p.y) + at[2], live ? n : 0, t, edges[1], [&](int c, int i) {
      Weights<W, N> w;
      if constexpr (kKept) w = weight[c];
      else {
        asm volatile("" ::: "memory");  // a chunk's at a time
        w = Weights<W, N>(p, i, n);
      }
      return Packed<T>::rounded([&](int j) {
        const V v = h.chunk[c][j] * scale;
        return (p.cast_first ? rounded_to<T>(v) : v) * w.at(p, j);
      });
    });
  }
  t.leave();
}

// By blocks on sm_90a (device/row_runs.cuh), rows that are no whole chunks.
struct RmsNormBlocksCuda {
  RmsNormCuda p;
  row_runs::BlockRows rows;
  row_runs::BlockShape shape;
};
template <class T, class W, bool kResidual> __global__ void __launch_bounds__(row_runs::kBlockThreads, 1) forward_blocks_kernel(const __grid_constant__ RmsNormBlocksCuda c) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using namespace row_runs;
  constexpr int N = kWord<T>, C = kBlockWords;
  constexpr bool kKept = sizeof(W) == sizeof(T);  // the weight stays in registers
  extern __shared__ uint4 slots[];
  __shared__ uint64_t full[4];
  __shared__ double shared[3][64];
  const RmsNormCuda& p = c.p;
  const int n = int(p.n);
  const BlockTeam t(int(blockDim.x));
  Weights<W, N> weight[kKept ? C : 1];
  if constexpr (kKept) each_word<C, N>(n, t, [&](int k, int i) { weight[k] = Weights<W, N>(p, i, n); });
  const OneByOne<T, 5, 0, kResidual ? 1 : -1, 2, kResidual ? 3 : -1> of{p.rows, c.rows};
  Runs<T, 0, decltype(of)> runs(of, int(p.rows.units), c.shape.slots, c.shape.pitch, slots, full);
  for (bool other = false; runs.more(); runs.leave(), other = !other) {
    runs.arrive();
    T* const row = runs.at(0);
    const bool whole = uintptr_t(row) % 4 == 0;
    Packed<T, N> h[C];
    if constexpr (kResidual) {
      T* const residual = runs.at(1);
      const bool whole_residual = uintptr_t(residual) % 4 == 0;
      each_word<C, N>(n, t, [&](int k, int i) {
        const auto x = word_at(row, i, whole, n - i), more = word_at(residual, i, whole_residual, n - i);
        h[k] = Packed<T, N>::rounded([&](int j) { return x[j] + more[j]; });
        put_word(residual, i, whole_residual, n - i, h[k]);
      });
    } else {
      each_word<C, N>(n, t, [&](int k, int i) { h[k] = word_at(row, i, whole, n - i); });
    }
    const V scale = inverse_rms<T, C, N, N == 1>(t, n, p.eps, shared[other], shared[2], [&](int k, int) { return kept_word(h[k]); }, [&](auto f) {
      each_word<C, N>(n, t, [&](int k, int i) {
        const auto own = kept_word(h[k]);
        each_lane<N == 1, N>(i, n, [&](int j) { f(own[j]); });
      });
    });
    if (p.rstd && t.thread == 0) {
      int64_t at[5];
      p.rows.offsets(runs.run, at);
      static_cast<float*>(p.rstd)[at[4]] = scale.v;
    }
    each_word<C, N>(n, t, [&](int k, int i) {
      Weights<W, N> w;
      if constexpr (kKept) w.w = kept_word(weight[k].w);
      else w = Weights<W, N>(p, i, n);
      const auto own = kept_word(h[k]);
      put_word(row, i, whole, n - i, Packed<T, N>::rounded([&](int j) {
        const V v = own[j] * scale;
        return (p.cast_first ? rounded_to<T>(v) : v) * w.at(p, j);
      }));
    });
  }
  runs.end();
#endif
}

// kApart: a block may have several teams of more than 32 threads.
template <class T, class W, int C, int N, bool kWhole, bool kApart>
__global__ void __launch_bounds__(kBackwardThreads<T, N>, 1) backward_kernel(const __grid_constant__ RmsNormBackwardCuda p) {
  constexpr bool kTile = N < kChunk<T>;
  constexpr bool kKept = !kTile && C * N * int(sizeof(W)) <= 32;  // the weight stays in registers
  extern __shared__ uint4 slots[];
  __shared__ uint4 edges[kEdges<T, C, kWhole || kTile>];
  __shared__ double shared[3][64];
  std::conditional_t<kTile, TileTeam, TeamOf<kApart, kApart>> t(p.team);
  int n = int(p.n);
  const int64_t rows = p.rows.units, step = t.row_step();
  V dw[C][N];
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int j = 0; j < N; ++j) dw[c][j] = 0;
  Weights<W, N> weight[kKept ? C : 1];
  if constexpr (kKept) each_piece<T, C, N>(n, t, [&](int c, int i) { weight[c] = Weights<W, N>(p, i, n); });
  const auto weight_at = [&](int c, int i) {
    if constexpr (kKept) return weight[c];
    else {
      if (kTile && c % 4 == 0) asm volatile("" ::: "memory");  // some at a time: registers
      return Weights<W, N>(p, i, n);
    }
  };
  auto ahead = [&] {
    if constexpr (kTile) return Tile<T, 2, C>(slots, n, in_runs<0, 1, 4>(p.rows, p.n));
    else return Ahead<T, 2, C, kWhole>(slots, t);
  }();
  float next_rstd = 0;
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
    if (p.rstd) next_rstd = static_cast<const float*>(p.rstd)[at[3]];
  };
  int64_t first = t.first_row();
  bool other = false;  // buffer of this row's sum
  if (first < rows) fetch(first);
  for (; first < rows; first += step, other = !other) {
    if constexpr (kTile) t.forget_places(n);
    const bool live = first + t.slot < rows;
    constexpr bool kSought = (kWhole && kKept) || kTile;  // where registers are few, x is worked out when it is wanted
    const T* x = nullptr;
    if constexpr (!kSought) x = ahead.rows[1];
    V scale = V::of(next_rstd);
    Held<T, C, N> held[2];
    if constexpr (kTile) ahead.take(held, n, t);
    else {
      ahead.arrive(t);
#pragma unroll
      for (int k = 0; k < 2; ++k) each_chunk<T, C>(n, t, [&](int c, int i) { held[k].chunk[c] = ahead.taken(k, c, i, n, t); });
    }
    if (first + step < rows) fetch(first + step);
    const auto x_at = [&](int c, int j) { return held[1].chunk[c][j]; };
    if (!p.rstd) scale = inverse_rms<T, C, N, kWhole>(t, n, p.eps, shared[0], shared[1], [&](int c, int) { return held[1].chunk[c]; }, [&](auto f) {
      if constexpr (kSought) {
        int64_t at[5];
        p.rows.offsets(live ? first + t.slot : first, at);
        x = static_cast<const T*>(p.x) + at[1];
      }
      over_row(x, n, t, f);
    });
    float dot[1] = {0};
    each_piece<T, C, N>(n, t, [&](int c, int i) {
      const auto w = weight_at(c, i);
      each_lane<kWhole, N>(i, n, [&](int j) { dot[0] = fma(held[0].chunk[c][j] * w.at(p, j), x_at(c, j) * scale, V::of(dot[0])).v; });
    });
    t.sums(dot, reinterpret_cast<float*>(shared[p.rstd && other ? 0 : 2]));
    const V minus_mean = V::of(quotient(-dot[0], float(n)));
    int64_t at[5];
    p.rows.offsets(live ? first + t.slot : first, at);
    T* const dx = static_cast<T*>(p.dx) + at[4];
    const T* const dh = p.dresidual_out ? static_cast<const T*>(p.dresidual_out) + at[2] : nullptr;
    const auto made = [&](int c, int i) {
      Packed<T, N> more{};
      if constexpr (kTile) {
        if (dh) more = Packed<T, N>::from([&](int j) { return j < n - i ? dh[i + j] : T{}; });
      } else {
        if (dh) more = kWhole ? Packed<T>::load(dh + i) : load_shifted(dh, i, n, misplaced(dh));
      }
      const auto w = weight_at(c, i);
      return Packed<T, N>::rounded([&](int j) {
        const V e = held[0].chunk[c][j], xhat = x_at(c, j) * scale;
        const V d = fma(xhat, minus_mean, e * w.at(p, j)) * scale;
        dw[c][j] = fma(e, p.cast_first ? rounded_to<T>(xhat) : xhat, dw[c][j]);
        return dh ? d + more[j] : d;
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
  if (p.partial) store_parts<T, C, N, kWhole>(dw, p.partial, n, t, slots);
}

template <class T, class W> int forward(const RmsNormCuda& given, void* stream) {
  return with_chunks<T, kForward>(given.n, [&](auto chunks) {
    constexpr int C = decltype(chunks)::value;
    RmsNormCuda p = given;
    const TeamShape shape = TeamShape::of(p.n, C * kChunk<T>);
    p.team = shape.team;
    const int tensors = p.residual ? 2 : 1;
    const void* const data[] = {p.x, p.residual, p.y, p.residual_out};
    bool whole = ahead_bytes(tensors, C, shape.block) <= kMostAhead;
    for (int k = 0; k < 4; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
    // With a residual or without: a row's sum has one order.
    if (p.sm90a && row_runs::by_blocks(p.n, sizeof(T), p.rows.units, 2)) {
      RmsNormBlocksCuda c{p, {int(p.n), {p.x, p.residual}, {}, {p.y, p.residual_out}}, row_runs::BlockShape::of(p.n, sizeof(T), tensors)};
      for (int k = 0; k < tensors; ++k) c.rows.ends(p.rows, k, k, sizeof(T));
      return row_runs::launch(p.residual ? forward_blocks_kernel<T, W, true> : forward_blocks_kernel<T, W, false>, c.shape, tensors, p.rows.units, stream, c);
    }
    return launch(whole ? forward_kernel<T, W, C, true> : forward_kernel<T, W, C, false>, shape, p.rows.units, staging(whole ? tensors : kAhead<C>, C, shape, whole), stream, p,
                  whole ? kForwardThreads<C, true> : kForwardThreads<C, false>);
  });
}
template <class T, class W> int backward(const RmsNormBackwardCuda& given, void* stream) {
  constexpr int C = kBackward<T>;
  RmsNormBackwardCuda p = given;
  const TeamShape shape = backward_shape(kTiles, p.n, p.rows.units, sizeof(T));
  p.team = shape.team;
  constexpr RowTiles kTile = kTiles[sizeof(T) / 4];
  if (by_tiles(kTile, p.n, sizeof(T))) {
    constexpr int N = kWord<T>;
    return launch(backward_kernel<T, W, kTile.each / N, N, N == 1, true>, shape, p.rows.units, tile_bytes<T>(3, p.n, shape), stream, p, kTile.threads);
  }
  constexpr int N = kChunk<T>;
  bool whole = true;
  const void* const data[] = {p.dy, p.x, p.dresidual_out, nullptr, p.dx};
  for (int k = 0; k < 5; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
  const bool apart = shape.team > 32 && shape.slots() > 1;
  const auto kernel = !whole ? backward_kernel<T, W, C, N, false, true> : apart ? backward_kernel<T, W, C, N, true, true> : backward_kernel<T, W, C, N, true, false>;
  return launch(kernel, shape, p.rows.units, staging(2, C, shape, whole), stream, p);
}
using Forward = int (*)(const RmsNormCuda&, void*);
using Backward = int (*)(const RmsNormBackwardCuda&, void*);
constexpr RmsNormRowsCuda kRows = {
    {device::floating<Forward>(forward<f16, f16>, forward<bf16, bf16>, forward<float, float>, nullptr),
     device::floating<Forward>(forward<f16, float>, forward<bf16, float>, forward<float, float>, nullptr)},
    {device::floating<Backward>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, nullptr),
     device::floating<Backward>(backward<f16, float>, backward<bf16, float>, backward<float, float>, nullptr)}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const RmsNormRowsCuda rms_norm_rows_cuda = kRows;
int rms_norm_cuda_blocks_of_row(int64_t n, bool backward, int size) {
  return n == 0 || size == 8 ? 0 : (backward ? norm_rows::backward_shape(kTiles, n, 1, size) : row_team::shape_for(n, kForward, size)).cluster;
}
int64_t rms_norm_cuda_row_parts(int64_t rows, int64_t n, int size) { return norm_rows::row_parts(kTiles, rows, n, size); }

}  // namespace baracuda
