// Rows of LayerNorm that no registers hold (longer ones, f64): a block has a row, a warp a chunk of 4096 elements after the other, and
// reads it again for each pass, from the caches where they hold it. Sums in the tree of device/lines.cuh. Backward: a block goes through
// rows b, b + blocks, ... and keeps its parts of dweight and dbias in the workspace; a second kernel adds the parts in f64.
#include "baracuda/device/half.cuh"
#include "baracuda/device/lines.cuh"
#include "baracuda/ops/norm/layer_norm_cuda.hpp"
#include "baracuda/ops/norm/norm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_lines;

constexpr int kThreads = 256, kLanes2 = kLineLanes / 32;  // lanes of a thread

struct Chunks {  // of a row of n elements, by the warps of a block
  int64_t n, count;
  int lane, warp;
  __device__ explicit Chunks(int64_t n) : n(n), count(line_chunks(n)), lane(int(threadIdx.x) % 32), warp(int(threadIdx.x) / 32) {}
  __device__ int length(int64_t c) const { return n - c * kLineChunk < kLineChunk ? int(n - c * kLineChunk) : kLineChunk; }
  template <class F> __device__ void own(F f) const {
    for (int64_t c = warp; c < count; c += kThreads / 32) f(c);
  }
  // f(k, i) for this thread's elements i of chunk c; k: which of its lanes.
  template <class F> __device__ void each(int64_t c, F f) const {
    const int m = length(c);
    for (int first = lane; first < m; first += kLineLanes)
#pragma unroll
      for (int k = 0; k < kLanes2; ++k)
        if (first + 32 * k < m) f(k, c * kLineChunk + first + 32 * k);
  }
  // K sums over chunk c, for its warp: add(lanes, i) adds element i to one lane of each.
  template <int K, class A, class F> __device__ void sums(int64_t c, A (&total)[K], F add) const {
    A part[kLanes2][K];
#pragma unroll
    for (int k = 0; k < kLanes2; ++k)
#pragma unroll
      for (int j = 0; j < K; ++j) part[k][j] = A(-0.0);
    each(c, [&](int k, int64_t i) { add(part[k], i); });
#pragma unroll
    for (int j = 0; j < K; ++j) {
      A l[kLanes2];
#pragma unroll
      for (int k = 0; k < kLanes2; ++k) l[k] = part[k][j];
      total[j] = fold_lanes<false, 32, kLanes2, A>(l, Plus{}, nullptr);
    }
  }
};
struct ChunkMoments { Moments moments; double shift; };

__device__ double block_sum(double v, double* shared) {
#pragma unroll
  for (int w = 16; w; w /= 2) v = v + __shfl_xor_sync(0xffffffffu, v, w);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < kThreads / 32; ++w) v = v + shared[w];
  return v;
}
// Where the variance left the range it is made again, in f64; f64: times a power of two that brings the largest to about 1.
template <class T> __device__ Statistics statistics(const Chunks& t, const T* x, double eps, ChunkMoments* parts, Moments* shared, double* sums_shared) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  const double n = double(t.n);
  if (t.n == 0) return {kNaN, 0, kNaN};
  t.own([&](int64_t c) {
    const double m = t.length(c);
    A sum[1], sums[2];
    t.sums(c, sum, [&](A (&l)[1], int64_t i) { l[0] = l[0] + value(x[i]).v; });
    const V shift = V::of(A(double(sum[0]) / m));
    t.sums(c, sums, [&](A (&l)[2], int64_t i) {
      const V d = value(x[i]) - shift;
      l[0] = l[0] + d.v, l[1] = fma(d, d, V::of(l[1])).v;
    });
    if (t.lane == 0) parts[c] = {moments_of(double(sums[0]), double(sums[1]), m), double(shift.v)};
  });
  Moments* const terms = reinterpret_cast<Moments*>(parts + t.count);
  __syncthreads();
  const double point = parts[0].shift;
  for (int64_t c = threadIdx.x; c < t.count; c += kThreads) {
    terms[c] = parts[c].moments;
    terms[c].mean += parts[c].shift - point;
  }
  __syncthreads();
  const Moments all = pairs_in_memory(terms, t.count, Plus{}, shared);
  if (variance_in_range<A>(all.squares, n, eps)) return statistics_of<A>(all, point, n, eps);
  const auto over = [&](auto term) {
    double v = 0;
    t.own([&](int64_t c) { t.each(c, [&](int, int64_t i) { v = term(v, double(value(x[i]).v)); }); });
    return block_sum(v, sums_shared);
  };
  double scale = 1;
  if constexpr (sizeof(T) == 8) scale = over([](double v, double e) { return __builtin_fabs(e) > 1 ? 1.0 : v; }) > 0 ? 0x1p-600 : 0x1p600;
  const double mean = over([=](double v, double e) { return v + e * scale; }) / n;
  const double variance = over([=](double v, double e) { return v + (e * scale - mean) * (e * scale - mean); }) / n;
  const A shift = A(mean / scale);
  return {double(shift), mean / scale - double(shift), scale / __builtin_sqrt(variance + eps * scale * scale), variance / scale / scale};
}
template <class W, class A> __device__ __forceinline__ Pack<A, 1> vector_at(const void* v, int64_t i, double none) {
  return v ? Pack<A, 1>::of(A(value(static_cast<const W*>(v)[i]).v)) : Pack<A, 1>(none);
}

template <class T, class W> __global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ LayerNormCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  __shared__ Moments moments[32];
  __shared__ double sums[32];
  const Chunks t(p.n);
  for (int64_t r = blockIdx.x; r < p.rows.units; r += gridDim.x) {
    int64_t at[4];
    p.rows.offsets(r, at);
    const T* const x = static_cast<const T*>(p.x) + at[0];
    T* const y = static_cast<T*>(p.y) + at[1];
    __syncthreads();  // the row before may still be read
    const Statistics s = statistics(t, x, p.eps, static_cast<ChunkMoments*>(p.parts) + 2 * int64_t(blockIdx.x) * t.count, moments, sums);
    if (threadIdx.x == 0) {
      if (p.mean) static_cast<A*>(p.mean)[at[2]] = A(s.shift + s.rest);
      if (p.rstd) static_cast<A*>(p.rstd)[at[3]] = A(s.rstd);
    }
    const V shift = s.shift, rest = s.rest, scale = s.rstd;
    for (int64_t i = threadIdx.x; i < p.n; i += kThreads)
      y[i] = element<T>(standardized(value(x[i]), shift, rest, scale, vector_at<W, A>(p.weight, i, 1), vector_at<W, A>(p.bias, i, -0.0)));
  }
}

template <class T, class W> __global__ void __launch_bounds__(kThreads, 1) backward_kernel(const __grid_constant__ LayerNormBackwardCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  __shared__ Moments moments[32];
  __shared__ GradientSums gradients[32];
  __shared__ double sums_shared[32];
  const Chunks t(p.n);
  const int64_t n = p.n;
  A *const dw = p.dweight ? static_cast<A*>(p.dweight) + blockIdx.x * n : nullptr, *const db = p.dbias ? static_cast<A*>(p.dbias) + blockIdx.x * n : nullptr;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {  // a thread's own columns: no barrier
    if (dw) dw[i] = 0;
    if (db) db[i] = 0;
  }
  for (int64_t r = blockIdx.x; r < p.rows.units; r += p.teams) {
    int64_t at[5];
    p.rows.offsets(r, at);
    const T *const dy = static_cast<const T*>(p.dy) + at[0], *const x = static_cast<const T*>(p.x) + at[1];
    T* const dx = static_cast<T*>(p.dx) + at[4];
    ChunkMoments* const scratch = static_cast<ChunkMoments*>(p.parts) + 2 * int64_t(blockIdx.x) * t.count;
    __syncthreads();  // the row before may still be read
    const Statistics s = p.rstd ? Statistics{double(static_cast<const A*>(p.mean)[at[2]]), 0, double(static_cast<const A*>(p.rstd)[at[3]])}
                                : statistics(t, x, p.eps, scratch, moments, sums_shared);
    const V shift = s.shift, scale = s.rstd;
    GradientSums* const terms = reinterpret_cast<GradientSums*>(scratch);
    __syncthreads();
    t.own([&](int64_t c) {
      A sums[3];
      t.sums(c, sums, [&](A (&l)[3], int64_t i) {
        const V h = (value(x[i]) - shift) * scale, e = value(dy[i]) * vector_at<W, A>(p.weight, i, 1);
        l[0] = l[0] + e.v, l[1] = fma(e, h, V::of(l[1])).v, l[2] = l[2] + h.v;
      });
      if (t.lane == 0) terms[c] = {double(sums[0]), double(sums[1]), double(sums[2])};
    });
    __syncthreads();
    const GradientMeans g = gradient_means(pairs_in_memory(terms, t.count, Plus{}, gradients), n, s.rstd);
    const V rest = g.rest, mean_g = g.mean_g, minus_dot = g.minus_dot;
    for (int64_t i = threadIdx.x; i < n; i += kThreads) {
      const V e = value(dy[i]), xhat = normalized(value(x[i]), shift, rest, scale);
      dx[i] = element<T>(input_gradient(e, vector_at<W, A>(p.weight, i, 1), xhat, mean_g, minus_dot, scale));
      if (dw) dw[i] = fma(e, xhat, V::of(dw[i])).v;
      if (db) db[i] = db[i] + e.v;
    }
  }
}

template <class T, class W> int forward(const LayerNormCuda& p, void* stream) {
  if (layer_norm_cuda_blocks_of_row(p.n, false, sizeof(T)) == 1) return layer_norm_rows_cuda.forward[!std::is_same_v<T, W>][kDTypeOf<T>](p, stream);
  return device::launch(forward_kernel<T, W>, unsigned(layer_norm_cuda_blocks(p.rows.units)), dim3(kThreads), 0, stream, p);
}
template <class T, class W> int backward(const LayerNormBackwardCuda& p, void* stream) {
  if (layer_norm_cuda_blocks_of_row(p.n, true, sizeof(T)) == 1) return layer_norm_rows_cuda.backward[!std::is_same_v<T, W>][kDTypeOf<T>](p, stream);
  return device::launch(backward_kernel<T, W>, unsigned(p.teams), dim3(kThreads), 0, stream, p);
}
using Forward = int (*)(const LayerNormCuda&, void*);
using Backward = int (*)(const LayerNormBackwardCuda&, void*);
constexpr LayerNormCudaKernels kKernels = {
    {device::floating<Forward>(forward<f16, f16>, forward<bf16, bf16>, forward<float, float>, forward<double, double>),
     device::floating<Forward>(forward<f16, float>, forward<bf16, float>, forward<float, float>, forward<double, float>)},
    {device::floating<Backward>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, backward<double, double>),
     device::floating<Backward>(backward<f16, float>, backward<bf16, float>, backward<float, float>, backward<double, float>)}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const LayerNormCudaKernels layer_norm_cuda_kernels = kKernels;
int64_t layer_norm_cuda_blocks(int64_t rows) { return rows < 1056 ? rows : 1056; }
int64_t layer_norm_cuda_teams(int64_t rows) { return rows < 396 ? rows : 396; }

}  // namespace baracuda
