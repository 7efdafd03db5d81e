// Rows of LayerNorm in registers (device/row_team.cuh). Forward: reads x, writes y; backward: reads dy and x, writes dx: the floor is memory
// bandwidth. Backward: a team of threads goes through rows b, b + teams, ... and keeps its parts of dweight and dbias in registers; a
// second kernel adds the parts in f64.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/layer_norm_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using V = Pack<float, 1>;

constexpr int kForward = 32, kBackward = 16;  // elements of a thread

// N neighbours of a weight or bias, `none` where it is absent.
template <class W, int N> struct Vector {
  Chunk<W, N> chunk;
  __device__ __forceinline__ Vector(const void* from, int64_t i, int64_t n, double none) {
    const W* const w = static_cast<const W*>(from) + i;
    if (from && n - i >= N && (uintptr_t(w) & 15) == 0) {
      constexpr int M = 16 / int(sizeof(W)) < N ? 16 / int(sizeof(W)) : N;
#pragma unroll
      for (int j = 0; j < N; j += M) *reinterpret_cast<Chunk<W, M>*>(&chunk.lane[j]) = *reinterpret_cast<const Chunk<W, M>*>(w + j);
    } else {
      const W e = element<W>(V(none));
#pragma unroll
      for (int j = 0; j < N; ++j) chunk.lane[j] = from && i + j < n ? w[j] : e;
    }
  }
  __device__ V operator[](int j) const { return value(chunk.lane[j]); }
};
// x(c, j): element j of chunk c. Every thread of the block calls.
template <class T, int C, class X> __device__ __forceinline__ Statistics statistics(const Team& t, int64_t n, double eps, double* shared, X x) {
  constexpr int N = kChunk<T>;
  const auto over = [&](auto& sums, auto add) {
    each_chunk<T, C>(n, t, [&](int c, int64_t i) {
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (i + j < n) add(x(c, j));
    });
    t.sums(sums, reinterpret_cast<std::remove_reference_t<decltype(sums[0])>*>(shared));
  };
  float sum[1] = {0}, sums[2] = {0, 0};
  over(sum, [&](V v) { sum[0] = sum[0] + v.v; });
  const V shift = V::of(float(double(sum[0]) / double(n)));
  over(sums, [&](V v) {
    const V d = v - shift;
    sums[0] = sums[0] + d.v, sums[1] = fma(d, d, V::of(sums[1])).v;
  });
  const Moments all = moments_of(double(sums[0]), double(sums[1]), double(n));
  if (variance_in_range<float>(all.squares, double(n), eps)) return statistics_of<float>(all, double(shift.v), double(n), eps);
  double wide[1] = {0}, squares[1] = {0};
  over(wide, [&](V v) { wide[0] = wide[0] + double(v.v); });
  const double mean = wide[0] / double(n);
  over(squares, [&](V v) { squares[0] = squares[0] + (double(v.v) - mean) * (double(v.v) - mean); });
  const double variance = squares[0] / double(n), first = double(float(mean));
  return {first, mean - first, 1 / __builtin_sqrt(variance + eps), variance};
}

template <class T, class W> __global__ void __launch_bounds__(kMostTeam, 1) forward_kernel(const __grid_constant__ LayerNormCuda p) {
  constexpr int N = kChunk<T>, C = kForward / N;
  __shared__ double shared[64];
  const Team t(p.team);
  const int64_t rows = p.rows.units;
  for (int64_t first = int64_t(blockIdx.x) * t.slots; first < rows; first += int64_t(gridDim.x) * t.slots) {
    const bool live = first + t.slot < rows;
    int64_t at[4];
    p.rows.offsets(live ? first + t.slot : first, at);
    const T* const x = static_cast<const T*>(p.x) + at[0];
    T* const y = static_cast<T*>(p.y) + at[1];
    Held<T, C> held;
    held.load(x, p.n, t, aligned16(x));
    const Statistics s = statistics<T, C>(t, p.n, p.eps, shared, [&](int c, int j) { return value(held.chunk[c].lane[j]); });
    if (!live) continue;
    if (t.thread == 0) {
      if (p.mean) static_cast<float*>(p.mean)[at[2]] = float(s.shift + s.rest);
      if (p.rstd) static_cast<float*>(p.rstd)[at[3]] = float(s.rstd);
    }
    const V shift = s.shift, rest = s.rest, scale = s.rstd;
    const bool aligned = aligned16(y);
    each_chunk<T, C>(p.n, t, [&](int c, int64_t i) {
      const Vector<W, N> w(p.weight, i, p.n, 1), b(p.bias, i, p.n, -0.0);
      store_chunk(y + i, chunk_of<T>([&](int j) { return standardized(value(held.chunk[c].lane[j]), shift, rest, scale, w[j], b[j]); }), p.n - i, aligned);
    });
  }
}

template <class T, class W> __global__ void __launch_bounds__(kMostTeam, 1) backward_kernel(const __grid_constant__ LayerNormBackwardCuda p) {
  constexpr int N = kChunk<T>, C = kBackward / N;
  __shared__ double shared[64];
  const Team t(p.team);
  const int64_t n = p.n, rows = p.rows.units, teams = int64_t(gridDim.x) * t.slots, team = int64_t(blockIdx.x) * t.slots + t.slot;
  V dw[C][N], db[C][N];
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int j = 0; j < N; ++j) dw[c][j] = 0, db[c][j] = 0;
  for (int64_t first = int64_t(blockIdx.x) * t.slots; first < rows; first += teams) {
    const bool live = first + t.slot < rows;
    int64_t at[5];
    p.rows.offsets(live ? first + t.slot : first, at);
    const T *const dys = static_cast<const T*>(p.dy) + at[0], *const xs = static_cast<const T*>(p.x) + at[1];
    Held<T, C> x, dy;
    x.load(xs, n, t, aligned16(xs)), dy.load(dys, n, t, aligned16(dys));
    Statistics s{0, 0, 0};
    if (p.rstd) s.shift = double(static_cast<const float*>(p.mean)[at[2]]), s.rstd = double(static_cast<const float*>(p.rstd)[at[3]]);
    else s = statistics<T, C>(t, n, p.eps, shared, [&](int c, int j) { return value(x.chunk[c].lane[j]); });
    const V shift = s.shift, scale = s.rstd;
    float sums[3] = {0, 0, 0};
    each_chunk<T, C>(n, t, [&](int c, int64_t i) {
      const Vector<W, N> w(p.weight, i, n, 1);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V h = (value(x.chunk[c].lane[j]) - shift) * scale, e = value(dy.chunk[c].lane[j]) * w[j];
        if (i + j >= n) continue;
        sums[0] = sums[0] + e.v, sums[1] = fma(e, h, V::of(sums[1])).v, sums[2] = sums[2] + h.v;
      }
    });
    t.sums(sums, reinterpret_cast<float*>(shared));
    const GradientMeans g = gradient_means({double(sums[0]), double(sums[1]), double(sums[2])}, n, s.rstd);
    const V rest = g.rest, mean_g = g.mean_g, minus_dot = g.minus_dot;
    T* const dx = static_cast<T*>(p.dx) + at[4];
    const bool aligned = aligned16(dx);
    if (live)
      each_chunk<T, C>(n, t, [&](int c, int64_t i) {
        const Vector<W, N> w(p.weight, i, n, 1);
        store_chunk(dx + i, chunk_of<T>([&](int j) {
                      const V e = value(dy.chunk[c].lane[j]), xhat = normalized(value(x.chunk[c].lane[j]), shift, rest, scale);
                      dw[c][j] = fma(e, xhat, dw[c][j]), db[c][j] = db[c][j] + e;
                      return input_gradient(e, w[j], xhat, mean_g, minus_dot, scale);
                    }), n - i, aligned);
      });
  }
  each_chunk<T, C>(n, t, [&](int c, int64_t i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i + j >= n) continue;
      if (p.dweight) static_cast<float*>(p.dweight)[team * n + i + j] = dw[c][j].v;
      if (p.dbias) static_cast<float*>(p.dbias)[team * n + i + j] = db[c][j].v;
    }
  });
}

template <class T, class W> int forward(const LayerNormCuda& given, void* stream) {
  LayerNormCuda p = given;
  p.team = team_for(p.n, kForward);
  const int block = block_for(p.team);
  return device::launch(forward_kernel<T, W>, device::blocks_for(p.rows.units, block / p.team), dim3(unsigned(block)), 0, stream, p);
}
template <class T, class W> int backward(const LayerNormBackwardCuda& given, void* stream) {
  LayerNormBackwardCuda p = given;
  p.team = team_for(p.n, kBackward);
  const int block = block_for(p.team);
  return device::launch(backward_kernel<T, W>, unsigned(p.teams / (block / p.team)), dim3(unsigned(block)), 0, stream, p);
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
bool layer_norm_cuda_row(int64_t n, bool backward, bool f64) { return n > 0 && !f64 && team_for(n, backward ? kBackward : kForward) <= kMostTeam; }
int64_t layer_norm_cuda_teams(int64_t rows, int64_t n, bool f64) {
  if (!layer_norm_cuda_row(n, true, f64)) return rows < 396 ? rows : 396;
  const int team = team_for(n, kBackward), slots = block_for(team) / team;
  const int64_t blocks = device::ceil_div(rows, slots), most = 135168 / block_for(team);
  return (blocks < most ? blocks : most) * slots;
}

}  // namespace baracuda
