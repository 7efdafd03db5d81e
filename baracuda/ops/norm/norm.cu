// RmsNorm rows on CUDA. Forward: h = x + residual, y = h rstd w'; reads x (and residual), writes y (and h): the floor is memory
// bandwidth; the second pass over a row meets it in the caches. A team of threads takes a row (device/rows.cuh), a warp where
// it is short. Sums: a chunk of products in f32, chunks in f64, then the team's tree.
// Backward: a team goes through rows b, b + blocks, ... and keeps its part of dweight in shared memory where a row fits in 64 KiB,
// else in the workspace; a second kernel adds the parts in f64. Reads dy and x, writes dx.
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/norm/norm_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;

constexpr size_t kSharedParts = 64 * 1024;

template <class T, class F> __device__ __forceinline__ double sum_chunks(int64_t n, F products) {
  using A = Acc<T>;
  double sum = 0;
  for (int64_t i = int64_t(threadIdx.x) * kChunk<T>; i < n; i += int64_t(blockDim.x) * kChunk<T>) {
    const A part = products(i);
    sum = sum + double(part);
  }
  return sum;
}
// Where the sum of squares left the range of f32 (f64) the row is summed again, in f64 (times a power of two).
template <class T> __device__ double inverse_rms(double sum, const T* h, int64_t n, double eps, double* shared) {
  constexpr bool kF64 = sizeof(T) == 8;
  const double high = kF64 ? 0x1p1000 : 0x1p120, low = (kF64 ? 0x1p-900 : 0x1p-90) * double(n), small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  if (sum < high && (sum > low || eps > small_eps)) return 1 / sqrt(sum / double(n) + eps);
  const double scale = !kF64 ? 1 : sum < 1 ? 0x1p600 : 0x1p-600;
  double s = 0;
  for (int64_t i = int64_t(threadIdx.x) * kChunk<T>; i < n; i += int64_t(blockDim.x) * kChunk<T>)
    for (int j = 0; j < kChunk<T> && i + j < n; ++j) {
      const double v = double(load<1>(h + i + j).v) * scale;
      s = s + v * v;
    }
  s = team_sum(s, shared);
  return scale / sqrt(s / double(n) + eps * scale * scale);
}
template <class W, class A> __device__ __forceinline__ Pack<A, 1> weight_at(const void* weight, int64_t stride, int64_t i, bool one_plus) {
  if (!weight) return Pack<A, 1>(1);
  const Pack<A, 1> w = Pack<A, 1>::of(A(load<1>(static_cast<const W*>(weight) + i * stride).v));
  return one_plus ? Pack<A, 1>(1) + w : w;
}
template <class T> __device__ __forceinline__ Pack<Acc<T>, 1> rounded_to(Pack<Acc<T>, 1> v) {
  T t;
  store<T, 1>(&t, v);
  return load<1>(&t);
}

template <class T, class W> __global__ void __launch_bounds__(1024) forward_kernel(const __grid_constant__ RmsNormCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  __shared__ double shared[32];
  const int64_t rows = p.rows.units, step = int64_t(gridDim.x) * blockDim.y;
  // Every thread of a block takes as many turns: the team sums meet at barriers.
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y; first < rows; first += step) {
    const bool live = first + threadIdx.y < rows;
    const int64_t r = live ? first + threadIdx.y : rows - 1, n = live ? p.n : 0;
    int64_t at[5];
    p.rows.offsets(r, at);
    const T *x = static_cast<const T*>(p.x) + at[0], *residual = p.residual ? static_cast<const T*>(p.residual) + at[1] : nullptr;
    T* y = static_cast<T*>(p.y) + at[2];
    T* kept = !residual ? nullptr : p.residual_out ? static_cast<T*>(p.residual_out) + at[3] : y;
    const T* h = residual ? kept : x;
    const bool ax = aligned16(x), ar = aligned16(residual), ak = aligned16(kept), ay = aligned16(y), ah = aligned16(h);
    double squares = sum_chunks<T>(n, [&](int64_t i) {
      const auto c = load_chunk(x + i, n - i, ax);
      Chunk<T, kChunk<T>> sum = c;
      if (residual) {
        const auto d = load_chunk(residual + i, n - i, ar);
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j) store<T, 1>(&sum.lane[j], load<1>(&c.lane[j]) + load<1>(&d.lane[j]));
        store_chunk(kept + i, sum, n - i, ak);
      }
      V s = 0;
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        const V v = load<1>(&sum.lane[j]);
        s = fma(v, v, s);
      }
      return s.v;
    });
    squares = team_sum(squares, shared);
    const A rstd = A(inverse_rms<T>(squares, h, p.n, p.eps, shared));
    if (p.rstd && live && threadIdx.x == 0) static_cast<A*>(p.rstd)[at[4]] = rstd;
    for (int64_t i = int64_t(threadIdx.x) * kChunk<T>; i < n; i += int64_t(blockDim.x) * kChunk<T>) {
      const auto c = load_chunk(h + i, n - i, ah);
      Chunk<T, kChunk<T>> out;
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        V v = load<1>(&c.lane[j]) * V::of(rstd);
        if (p.cast_first) v = rounded_to<T>(v);
        if (i + j < n) v = v * weight_at<W, A>(p.weight, p.weight_stride, i + j, p.one_plus);
        store<T, 1>(&out.lane[j], v);
      }
      store_chunk(y + i, out, n - i, ay);
    }
  }
}

template <class T, class W> __global__ void __launch_bounds__(1024) backward_kernel(const __grid_constant__ RmsNormBackwardCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  __shared__ double shared[32];
  extern __shared__ __align__(16) char parts[];
  const int64_t rows = p.rows.units, n = p.n;
  A* const total = p.partial ? static_cast<A*>(p.partial) + int64_t(blockIdx.x) * n : nullptr;
  A* const part = !p.partial ? nullptr : size_t(n) * sizeof(A) <= kSharedParts ? reinterpret_cast<A*>(parts) : total;
  const int64_t start = int64_t(threadIdx.x) * kChunk<T>, step = int64_t(blockDim.x) * kChunk<T>;
  if (part)
    for (int64_t i = start; i < n; i += step)
      for (int j = 0; j < kChunk<T> && i + j < n; ++j) part[i + j] = 0;  // a thread's own columns: no barrier
  for (int64_t r = blockIdx.x; r < rows; r += p.blocks) {
    int64_t at[5];
    p.rows.offsets(r, at);
    const T *dy = static_cast<const T*>(p.dy) + at[0], *x = static_cast<const T*>(p.x) + at[1];
    const T* dh = p.dresidual_out ? static_cast<const T*>(p.dresidual_out) + at[2] : nullptr;
    T* dx = static_cast<T*>(p.dx) + at[4];
    const bool ady = aligned16(dy), ax = aligned16(x), adh = aligned16(dh), adx = aligned16(dx);
    A rstd;
    if (p.rstd) rstd = static_cast<const A*>(p.rstd)[at[3]];
    else {
      double squares = sum_chunks<T>(n, [&](int64_t i) {
        const auto c = load_chunk(x + i, n - i, ax);
        V s = 0;
#pragma unroll
        for (int j = 0; j < kChunk<T>; ++j) {
          const V v = load<1>(&c.lane[j]);
          s = fma(v, v, s);
        }
        return s.v;
      });
      squares = team_sum(squares, shared);
      rstd = A(inverse_rms<T>(squares, x, n, p.eps, shared));
    }
    double dot = sum_chunks<T>(n, [&](int64_t i) {
      const auto e = load_chunk(dy + i, n - i, ady), c = load_chunk(x + i, n - i, ax);
      V s = 0;
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j)
        if (i + j < n) s = fma(load<1>(&e.lane[j]) * weight_at<W, A>(p.weight, p.weight_stride, i + j, p.one_plus), load<1>(&c.lane[j]) * V::of(rstd), s);
      return s.v;
    });
    dot = team_sum(dot, shared);
    const V minus_mean = V::of(A(-dot / double(n)));
    for (int64_t i = start; i < n; i += step) {
      const auto e = load_chunk(dy + i, n - i, ady), c = load_chunk(x + i, n - i, ax);
      Chunk<T, kChunk<T>> g, out;
      if (dh) g = load_chunk(dh + i, n - i, adh);
#pragma unroll
      for (int j = 0; j < kChunk<T>; ++j) {
        if (i + j >= n) continue;
        const V ej = load<1>(&e.lane[j]), xhat = load<1>(&c.lane[j]) * V::of(rstd);
        V d = fma(xhat, minus_mean, ej * weight_at<W, A>(p.weight, p.weight_stride, i + j, p.one_plus)) * V::of(rstd);
        if (dh) d = d + load<1>(&g.lane[j]);
        store<T, 1>(&out.lane[j], d);
        if (part) part[i + j] = fma(ej, p.cast_first ? rounded_to<T>(xhat) : xhat, V::of(part[i + j])).v;
      }
      store_chunk(dx + i, out, n - i, adx);
    }
  }
  if (part && part != total)
    for (int64_t i = start; i < n; i += step)
      for (int j = 0; j < kChunk<T> && i + j < n; ++j) total[i + j] = part[i + j];
}

// out[i] is the sum over blocks of partial[., i]: 32 segments in order in f64, then the segments in order.
template <class A, class T> __global__ void __launch_bounds__(1024) fold_kernel(const __grid_constant__ NormFoldCuda p) {
  __shared__ double sums[32][33];
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x, each = (p.blocks + 31) / 32;
  double s = 0;
  const int64_t begin = threadIdx.y * each, end = begin + each < p.blocks ? begin + each : p.blocks;
  if (column < p.n)
    for (int64_t b = begin; b < end; ++b) s = s + double(static_cast<const A*>(p.partial)[b * p.n + column]);
  sums[threadIdx.y][threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.y || column >= p.n) return;
  for (int k = 1; k < 32; ++k) s = s + sums[k][threadIdx.x];
  static_cast<T*>(p.out)[column * p.out_stride] = from_double<T>(s);
}

template <class T, class W> int forward(const RmsNormCuda& p, void* stream) {
  const dim3 block = block_of(team_size(p.n, kChunk<T>));
  return device::launch(forward_kernel<T, W>, device::blocks_for(p.rows.units, block.y), block, 0, stream, p);
}
template <class T, class W> int backward(const RmsNormBackwardCuda& p, void* stream) {
  const size_t part = p.partial ? size_t(p.n) * sizeof(Acc<T>) : 0;
  return device::launch(backward_kernel<T, W>, unsigned(p.blocks), dim3(unsigned(team_size(p.n, kChunk<T>))), part <= kSharedParts ? part : 0, stream, p);
}
template <class A, class T> int fold(const NormFoldCuda& p, void* stream) {
  return device::launch(fold_kernel<A, T>, device::blocks_for(p.n, 32), dim3(32, 32), 0, stream, p);
}
using ForwardFn = int (*)(const RmsNormCuda&, void*);
using BackwardFn = int (*)(const RmsNormBackwardCuda&, void*);
using FoldFn = int (*)(const NormFoldCuda&, void*);
constexpr NormCudaKernels kKernels = {
    {device::floating<ForwardFn>(forward<f16, f16>, forward<bf16, bf16>, forward<float, float>, forward<double, double>),
     device::floating<ForwardFn>(forward<f16, float>, forward<bf16, float>, forward<float, float>, forward<double, float>)},
    {device::floating<BackwardFn>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, backward<double, double>),
     device::floating<BackwardFn>(backward<f16, float>, backward<bf16, float>, backward<float, float>, backward<double, float>)},
    device::floating<FoldFn>(fold<float, f16>, fold<float, bf16>, fold<float, float>, fold<float, double>),
    device::floating<FoldFn>(fold<double, f16>, fold<double, bf16>, fold<double, float>, fold<double, double>)};

}  // namespace
}  // namespace BARACUDA_ISA

int64_t norm_cuda_blocks(int64_t rows) { return rows < 1 ? 0 : rows < 528 ? rows : 528; }
extern const NormCudaKernels norm_cuda_kernels = kKernels;

}  // namespace baracuda
