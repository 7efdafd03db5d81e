#pragma once
// Sums of a chunk of a list by a team of threads, and what becomes of a list's sums, for the kernels of BatchNorm and GroupNorm.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/channels_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::kChunk;

constexpr int kEach = 16;  // elements of a thread
template <class A> struct Sums { A a, b, c; };
static_assert(sizeof(Sums<float>) == kSumNumbers * sizeof(float));

__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ double value_of(double x) { return x; }
template <class T> __device__ __forceinline__ float value_of(T x) { return value(x).v; }
template <class T> __device__ __forceinline__ double number(const ChannelVector& v, int64_t c) {
  return v.f32 ? double(static_cast<const float*>(v.data)[c * v.stride]) : double(value_of(static_cast<const T*>(v.data)[c * v.stride]));
}
template <class T> __device__ __forceinline__ void put(const ChannelVector& v, int64_t c, double x) {
  if (v.f32) static_cast<float*>(v.data)[c * v.stride] = float(x);
  else static_cast<T*>(v.data)[c * v.stride] = from_double<T>(x);
}

// --- a chunk: R pieces of N elements of each thread of a team, those of index (r size + thread) N + j below m
template <int R, int N, class Team, class F> __device__ __forceinline__ void each_of_chunk(const Team& t, int m, F f) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = (r * t.size + t.thread) * N;
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (i + j < m) f(r, j);
  }
}
// Their mean, and the moments around it.
template <class A, int R, int N, class Team> __device__ __forceinline__ Sums<A> moment_sums(const Team& t, const A (&x)[R][N], int m, A (&shared)[2][3 * 64]) {
  using V = Pack<A, 1>;
  A sum[1] = {0}, sums[2] = {0, 0};
  each_of_chunk<R, N>(t, m, [&](int r, int j) { sum[0] = sum[0] + x[r][j]; });
  t.sums(sum, shared[0]);
  const V shift = V::of(sum[0] / A(m));
  each_of_chunk<R, N>(t, m, [&](int r, int j) {
    const V d = V::of(x[r][j]) - shift;
    sums[0] = sums[0] + d.v, sums[1] = fma(d, d, V::of(sums[1])).v;
  });
  t.sums(sums, shared[1]);
  const MomentsOf<A> part = moments_of<A>(sums[0], sums[1], A(m));
  return {shift.v, part.mean, part.squares};
}
// GradientSums.
template <class A, int R, int N, class Team>
__device__ __forceinline__ Sums<A> gradient_sums(const Team& t, const A (&x)[R][N], const A (&dy)[R][N], int m, Pack<A, 1> shift, Pack<A, 1> scale, A* shared) {
  using V = Pack<A, 1>;
  A sums[3] = {0, 0, 0};
  each_of_chunk<R, N>(t, m, [&](int r, int j) {
    const V h = (V::of(x[r][j]) - shift) * scale, e = V::of(dy[r][j]);
    sums[0] = sums[0] + e.v, sums[1] = fma(e, h, V::of(sums[1])).v, sums[2] = sums[2] + h.v;
  });
  t.sums(sums, shared);
  return {sums[0], sums[1], sums[2]};
}

// Joined over a warp, for all its threads; those beyond `count` have nothing.
__device__ __forceinline__ double moved(double v, int w) { return __shfl_xor_sync(0xffffffffu, v, w); }
__device__ double warp_sum(double v) {
#pragma unroll
  for (int w = 16; w; w /= 2) v = v + moved(v, w);
  return v;
}
__device__ __forceinline__ GradientSums over_warp(const GradientSums& g) { return {warp_sum(g.e), warp_sum(g.eh), warp_sum(g.h)}; }
// Where the variance left the range of A it is made again, in f64; f64: times a power of two that brings the largest to about 1.
template <class T> __device__ Statistics out_of_range(const ListJoinCuda& p, int64_t list) {
  using A = Acc<T>;
  const double n = double(p.n);
  const auto over = [&](auto term) {
    double v = 0;
    for (int64_t i = threadIdx.x % 32; i < p.n; i += 32) {
      int64_t at[2];
      const int64_t e = list * p.n + i;
      p.walk.offsets(e / p.walk.lanes, at);
      v = term(v, double(value_of(static_cast<const T*>(p.x)[at[0] + (p.walk.spread[0] ? 0 : e % p.walk.lanes)])));
    }
    return warp_sum(v);
  };
  double scale = 1;
  if constexpr (sizeof(T) == 8) scale = over([](double v, double e) { return __builtin_fabs(e) > 1 ? 1.0 : v; }) > 0 ? 0x1p-600 : 0x1p600;
  const double mean = p.rms ? 0 : over([=](double v, double e) { return v + e * scale; }) / n;
  const double variance = over([=](double v, double e) { return v + (e * scale - mean) * (e * scale - mean); }) / n;
  const A shift = A(mean / scale);
  return {double(shift), mean / scale - double(shift), scale / __builtin_sqrt(variance + p.eps * scale * scale), variance / scale / scale};
}

// --- a list
template <class A> __device__ __forceinline__ void keep(const Statistics& s, ListKept<A>& kept) { kept.shift = A(s.shift), kept.rest = A(s.rest), kept.scale = A(s.rstd); }
template <class A> __device__ __forceinline__ void keep(const GradientMeans& g, ListKept<A>& kept) { kept.rest = A(g.rest), kept.mean_g = A(g.mean_g), kept.minus_dot = A(g.minus_dot); }
// Moments of a list from the sums of its chunks, counted from `point`, by kThreads threads, for those of the first warp.
template <int kThreads, class A> __device__ __forceinline__ Moments joined_moments(const Sums<A>* sums, int64_t n, double point) {
  const int lane = int(threadIdx.x) % 32;
  const int64_t chunks = (n + kListChunk - 1) / kListChunk;
  Moments all{0, 0, 0};
  for (int64_t c = kThreads == 32 ? lane : int(threadIdx.x); c < chunks; c += kThreads) {
    const int64_t left = n - c * kListChunk;
    const Moments part{double(left < kListChunk ? left : kListChunk), double(sums[c].b) + (double(sums[c].a) - point), double(sums[c].c)};
    all = all.count > 0 ? all + part : part;
  }
  const auto over_lanes = [&] {
    for (int w = 16; w; w /= 2) {
      const Moments other{moved(all.count, w), moved(all.mean, w), moved(all.squares, w)}, low = lane & w ? other : all, high = lane & w ? all : other;
      all = low.count > 0 && high.count > 0 ? low + high : low.count > 0 ? low : high;
    }
  };
  over_lanes();
  if constexpr (kThreads > 32) {
    __shared__ Moments warps[kThreads / 32];
    if (lane == 0) warps[threadIdx.x / 32] = all;
    __syncthreads();
    all = lane < kThreads / 32 ? warps[lane] : Moments{0, 0, 0};
    over_lanes();
    __syncthreads();
  }
  return all;
}
// From where p says, for the threads of a warp; sums: of the list's chunks, taken by kThreads threads, which all call.
template <class T, int kThreads = 32> __device__ __forceinline__ Statistics found_statistics(const ListJoinCuda& p, int64_t list, const Sums<Acc<T>>* sums) {
  using A = Acc<T>;
  int64_t at[2];
  p.found.offsets(list, at);
  if (p.from == ListStatistics::saved) return {p.mean ? double(static_cast<const A*>(p.mean)[at[0]]) : 0, 0, double(static_cast<const A*>(p.rstd)[at[1]])};
  if (p.from == ListStatistics::given) {
    const double variance = number<T>({p.rstd, 1, p.f32_given}, at[1]);
    return {number<T>({p.mean, 1, p.f32_given}, at[0]), 0, 1 / __builtin_sqrt(variance + p.eps), variance};
  }
  if (p.n == 0) return {kNaN, 0, kNaN, kNaN};
  const double point = double(sums[0].a);
  Moments all = joined_moments<kThreads>(sums, p.n, point);
  if (kThreads > 32 && threadIdx.x >= 32) return {};
  if (p.rms) all = {all.count, -point, all.squares + all.count * (point + all.mean) * (point + all.mean)};
  return variance_in_range<A>(all.squares, double(p.n), p.eps) ? statistics_of<A>(all, point, double(p.n), p.eps) : out_of_range<T>(p, list);
}
// What the caller wants of them, by one thread.
template <class T> __device__ __forceinline__ void put_statistics(const ListJoinCuda& p, int64_t list, const Statistics& s) {
  using A = Acc<T>;
  if (p.from != ListStatistics::sums) return;
  int64_t at[2];
  p.found.offsets(list, at);
  if (p.mean) static_cast<A*>(p.mean)[at[0]] = A(s.shift + s.rest);
  if (p.rstd) static_cast<A*>(p.rstd)[at[1]] = A(s.rstd);
  if (p.n == 0) return;
  const double n = double(p.n), m = p.momentum;
  const auto update = [&](const ChannelVector& v, double batch) {
    if (v.data) put<T>(v, list, (1 - m) * number<T>(v, list) + m * batch);
  };
  update(p.running_mean, s.shift + s.rest), update(p.running_var, s.variance * (n / (n - 1)));
}
// The sums of a gradient over a list that is a channel, times its weight, by kThreads threads, for those of a warp; writes dweight and dbias.
template <class T, int kThreads = 32> __device__ __forceinline__ GradientSums list_gradient(const GradientJoinCuda& p, int64_t list, const Sums<Acc<T>>* sums, double weight) {
  const int lane = int(threadIdx.x) % 32;
  GradientSums all{0, 0, 0};
  for (int64_t k = kThreads == 32 ? lane : int(threadIdx.x); k < p.chunks; k += kThreads) all = all + GradientSums{double(sums[k].a), double(sums[k].b), double(sums[k].c)};
  all = over_warp(all);
  if constexpr (kThreads > 32) {
    __shared__ GradientSums warps[kThreads / 32];
    if (lane == 0) warps[threadIdx.x / 32] = all;
    __syncthreads();
    all = over_warp(lane < kThreads / 32 ? warps[lane] : GradientSums{0, 0, 0});
    __syncthreads();
    if (threadIdx.x >= 32) return all;
  }
  if (lane == 0 && p.dweight.data) put<T>(p.dweight, list, p.given || p.n == 0 ? all.eh : all.eh - all.h / double(p.n) * all.e);  // h takes off the mean's first word alone
  if (lane == 0 && p.dbias.data) put<T>(p.dbias, list, all.e);
  all.e *= weight, all.eh *= weight;
  return all;
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
