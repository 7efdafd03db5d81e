// Sums of BatchNorm and GroupNorm. A team of threads has a chunk of a list in registers, 16 elements a thread, reads it once, and sums it
// around a mean of its own; a warp joins the chunks of a list in f64. The order depends on the list's length alone. The floor is
// reading x (and dy).
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/norm/channels_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::kChunk;
using row_team::Team;

constexpr int kEach = 16, kTeam = kListChunk / kEach, kJoinThreads = 128;  // elements of a thread; threads
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

// kVector: a chunk of 16 bytes is one load.
template <class T, bool kGradient, bool kVector> __global__ void __launch_bounds__(kTeam) sums_kernel(const __grid_constant__ ListSumsCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  constexpr int N = kChunk<T>, R = kEach / N;
  __shared__ A shared[2][3 * 64];
  const Team t(p.team);
  const int64_t chunks = (p.n + kListChunk - 1) / kListChunk, all = p.lists * chunks;
  for (int64_t first = int64_t(blockIdx.x) * t.slots; first < all; first += int64_t(gridDim.x) * t.slots) {
    const bool live = first + t.slot < all;
    const int64_t unit = live ? first + t.slot : first, list = unit / chunks, begin = (unit - list * chunks) * kListChunk, left = p.n - begin;
    const int m = left < kListChunk ? int(left) : kListChunk;
    A x[R][N], dy[kGradient ? R : 1][N];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int i = (r * t.size + t.thread) * N;
      if (i >= m) continue;
      const int64_t at0 = list * p.n + begin + i;
      const auto get = [&](const void* from, int k, A (&to)[N]) {
        int64_t at[2];
        if constexpr (kVector) {
          p.walk.offsets(at0 / N, at);
          const auto c = *reinterpret_cast<const device_rows::Chunk<T, N>*>(static_cast<const T*>(from) + at[k]);
#pragma unroll
          for (int j = 0; j < N; ++j) to[j] = value_of(c.lane[j]);
        } else {
#pragma unroll 1
          for (int j = 0; j < N; ++j) {
            A e = 0;
            if (i + j < m) {
              p.walk.offsets(at0 + j, at);
              e = value_of(static_cast<const T*>(from)[at[k]]);
            }
#pragma unroll
            for (int l = 0; l < N; ++l) to[l] = l == j ? e : to[l];
          }
        }
      };
      get(p.x, 0, x[r]);
      if constexpr (kGradient) {
        get(p.dy, 1, dy[r]);
        if (p.weight.data)
#pragma unroll
          for (int j = 0; j < N; ++j) {
            if (i + j >= m) continue;
            const int64_t at = (begin + i + j) * p.weight.stride;
            const A w = p.weight.f32 ? A(static_cast<const float*>(p.weight.data)[at]) : value_of(static_cast<const T*>(p.weight.data)[at]);
            dy[r][j] = dy[r][j] * (p.one_plus ? A(1) + w : w);
          }
      }
    }
    const auto each = [&](auto f) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int i = (r * t.size + t.thread) * N;
#pragma unroll
        for (int j = 0; j < N; ++j)
          if (i + j < m) f(r, j);
      }
    };
    Sums<A>* const to = static_cast<Sums<A>*>(p.sums) + unit;
    if constexpr (kGradient) {
      const ListKept<A>& kept = static_cast<const ListKept<A>*>(p.kept)[list / p.cells];
      const V shift = V::of(kept.shift), scale = V::of(kept.scale);
      A sums[3] = {0, 0, 0};
      each([&](int r, int j) {
        const V h = (V::of(x[r][j]) - shift) * scale, e = V::of(dy[r][j]);
        sums[0] = sums[0] + e.v, sums[1] = fma(e, h, V::of(sums[1])).v, sums[2] = sums[2] + h.v;
      });
      __syncthreads();  // the sums before may still be read
      t.sums(sums, shared[0]);
      if (live && t.thread == 0) *to = {sums[0], sums[1], sums[2]};
    } else {
      A sum[1] = {0}, sums[2] = {0, 0};
      each([&](int r, int j) { sum[0] = sum[0] + x[r][j]; });
      t.sums(sum, shared[0]);
      const V shift = V::of(sum[0] / A(m));
      each([&](int r, int j) {
        const V d = V::of(x[r][j]) - shift;
        sums[0] = sums[0] + d.v, sums[1] = fma(d, d, V::of(sums[1])).v;
      });
      t.sums(sums, shared[1]);
      const MomentsOf<A> part = moments_of<A>(sums[0], sums[1], A(m));
      if (live && t.thread == 0) *to = {shift.v, part.mean, part.squares};
    }
  }
}

// Joined over a warp, for all its threads; those beyond `count` have nothing.
__device__ __forceinline__ double moved(double v, int w) { return __shfl_xor_sync(0xffffffffu, v, w); }
__device__ double warp_sum(double v) {
#pragma unroll
  for (int w = 16; w; w /= 2) v = v + moved(v, w);
  return v;
}
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
template <class T> __global__ void __launch_bounds__(kJoinThreads) join_kernel(const __grid_constant__ ListJoinCuda p) {
  using A = Acc<T>;
  const int lane = int(threadIdx.x) % 32;
  const int64_t chunks = (p.n + kListChunk - 1) / kListChunk;
  for (int64_t list = (int64_t(blockIdx.x) * kJoinThreads + threadIdx.x) / 32; list < p.lists; list += int64_t(gridDim.x) * kJoinThreads / 32) {
    int64_t at[2];
    p.found.offsets(list, at);
    Statistics s{kNaN, 0, kNaN, kNaN};
    if (p.from == ListStatistics::saved) s = {p.mean ? double(static_cast<const A*>(p.mean)[at[0]]) : 0, 0, double(static_cast<const A*>(p.rstd)[at[1]])};
    else if (p.from == ListStatistics::given) {
      const double variance = number<T>({p.rstd, 1, p.f32_given}, at[1]);
      s = {number<T>({p.mean, 1, p.f32_given}, at[0]), 0, 1 / __builtin_sqrt(variance + p.eps), variance};
    } else if (p.n > 0) {
      const Sums<A>* const sums = static_cast<const Sums<A>*>(p.sums) + list * chunks;
      const double point = double(sums[0].a);
      Moments all{0, 0, 0};
      for (int64_t c = lane; c < chunks; c += 32) {
        const int64_t left = p.n - c * kListChunk;
        const Moments part{double(left < kListChunk ? left : kListChunk), double(sums[c].b) + (double(sums[c].a) - point), double(sums[c].c)};
        all = all.count > 0 ? all + part : part;
      }
      for (int w = 16; w; w /= 2) {
        const Moments other{moved(all.count, w), moved(all.mean, w), moved(all.squares, w)}, low = lane & w ? other : all, high = lane & w ? all : other;
        all = low.count > 0 && high.count > 0 ? low + high : low.count > 0 ? low : high;
      }
      if (p.rms) all = {all.count, -point, all.squares + all.count * (point + all.mean) * (point + all.mean)};
      s = variance_in_range<A>(all.squares, double(p.n), p.eps) ? statistics_of<A>(all, point, double(p.n), p.eps) : out_of_range<T>(p, list);
    }
    if (lane) continue;
    ListKept<A>& kept = static_cast<ListKept<A>*>(p.kept)[list];
    if (p.kept) kept.shift = A(s.shift), kept.rest = A(s.rest), kept.scale = A(s.rstd);
    if (p.from != ListStatistics::sums) continue;
    if (p.mean) static_cast<A*>(p.mean)[at[0]] = A(s.shift + s.rest);
    if (p.rstd) static_cast<A*>(p.rstd)[at[1]] = A(s.rstd);
    if (p.n == 0) continue;
    const double n = double(p.n), m = p.momentum;
    const auto update = [&](const ChannelVector& v, double batch) {
      if (v.data) put<T>(v, list, (1 - m) * number<T>(v, list) + m * batch);
    };
    update(p.running_mean, s.shift + s.rest), update(p.running_var, s.variance * (n / (n - 1)));
  }
}
template <class T> __global__ void __launch_bounds__(kJoinThreads) join_gradient_kernel(const __grid_constant__ GradientJoinCuda p) {
  using A = Acc<T>;
  const int lane = int(threadIdx.x) % 32;
  for (int64_t list = (int64_t(blockIdx.x) * kJoinThreads + threadIdx.x) / 32; list < p.lists; list += int64_t(gridDim.x) * kJoinThreads / 32) {
    const Sums<A>* const sums = static_cast<const Sums<A>*>(p.sums) + list * p.cells * p.chunks;
    ListKept<A>& kept = static_cast<ListKept<A>*>(p.kept)[list];
    const auto weight_of = [&](int64_t channel) { return p.weight.data ? number<T>(p.weight, channel) : 1.0; };
    const auto over_warp = [](GradientSums g) { return GradientSums{warp_sum(g.e), warp_sum(g.eh), warp_sum(g.h)}; };
    GradientSums all{0, 0, 0};
    if (p.cell_dweight) {
      const int64_t channel0 = list * p.cells % p.channels;
      double *const dw = p.cell_dweight + list * p.cells, *const db = p.cell_dbias + list * p.cells;
      for (int64_t c = lane; c < p.cells; c += 32) {
        GradientSums g{0, 0, 0};
        for (int64_t k = 0; k < p.chunks; ++k) g = g + GradientSums{double(sums[c * p.chunks + k].a), double(sums[c * p.chunks + k].b), double(sums[c * p.chunks + k].c)};
        const double w = weight_of(channel0 + c);
        dw[c] = g.eh, db[c] = g.e;
        all = all + GradientSums{g.e * w, g.eh * w, g.h};
      }
      all = over_warp(all);
      for (int64_t c = lane; c < p.cells; c += 32) dw[c] -= all.h / double(p.n) * db[c];  // h takes off the mean's first word alone
    } else {
      for (int64_t k = lane; k < p.chunks; k += 32) all = all + GradientSums{double(sums[k].a), double(sums[k].b), double(sums[k].c)};
      all = over_warp(all);
      if (lane == 0 && p.dweight.data) put<T>(p.dweight, list, p.given || p.n == 0 ? all.eh : all.eh - all.h / double(p.n) * all.e);  // h takes off the mean's first word alone
      if (lane == 0 && p.dbias.data) put<T>(p.dbias, list, all.e);
      const double w = weight_of(list);
      all.e *= w, all.eh *= w;
    }
    if (lane || p.given) continue;
    if (p.rms) all.e = all.h = 0;
    const GradientMeans g = gradient_means(all, p.n, double(kept.scale));
    kept.rest = A(g.rest), kept.mean_g = A(g.mean_g), kept.minus_dot = A(g.minus_dot);
  }
}

template <class T> int sums(const ListSumsCuda& given, void* stream) {
  ListSumsCuda p = given;
  if (p.lists == 0 || p.n == 0) return 0;
  const auto shape = row_team::TeamShape::of(p.n < kListChunk ? p.n : kListChunk, kEach);
  p.team = shape.team;
  const bool vector = p.walk.lanes > 1;
  const auto kernel = p.dy ? (vector ? sums_kernel<T, true, true> : sums_kernel<T, true, false>) : vector ? sums_kernel<T, false, true> : sums_kernel<T, false, false>;
  return device::launch(kernel, device::blocks_for(p.lists * list_chunks(p.n), shape.team > 32 ? 1 : shape.block / shape.team), dim3(unsigned(shape.block)), 0, stream, p);
}
template <class T> int join(const ListJoinCuda& p, void* stream) {
  if (p.lists == 0) return 0;
  return device::launch(join_kernel<T>, device::blocks_for(p.lists * 32, kJoinThreads), dim3(kJoinThreads), 0, stream, p);
}
template <class T> int join_gradient(const GradientJoinCuda& p, void* stream) {
  if (p.lists == 0) return 0;
  return device::launch(join_gradient_kernel<T>, device::blocks_for(p.lists * 32, kJoinThreads), dim3(kJoinThreads), 0, stream, p);
}
constexpr ChannelCudaKernels kKernels = {
    device::floating<int (*)(const ListSumsCuda&, void*)>(sums<f16>, sums<bf16>, sums<float>, sums<double>),
    device::floating<int (*)(const ListJoinCuda&, void*)>(join<f16>, join<bf16>, join<float>, join<double>),
    device::floating<int (*)(const GradientJoinCuda&, void*)>(join_gradient<f16>, join_gradient<bf16>, join_gradient<float>, join_gradient<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ChannelCudaKernels channel_cuda_kernels = kKernels;

}  // namespace baracuda
