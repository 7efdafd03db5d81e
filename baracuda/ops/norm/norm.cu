// Rows of RmsNorm that no registers hold (longer ones, f64). Forward: h = x + residual, y = h rstd w'; a team of threads takes a row
// (device/rows.cuh), whose second pass meets it in the caches. Sums: a chunk of products in f32, chunks in f64, then the team's tree.
// Backward: a team goes through rows b, b + blocks, ... with its part of dweight in the workspace; a second kernel adds the parts in f64.
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/norm/norm_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;

constexpr int kBackwardEach = 2;  // chunks of a thread: two tensors and as many sums

template <class T, class F> __device__ __forceinline__ void each(int64_t n, F f) {
  each_chunk<0, kChunk<T>>(n, [&](int64_t i, int) { f(i); });
}
template <class T, class F> __device__ __forceinline__ double sum_chunks(int64_t n, F products) {
  double sum = 0;
  each<T>(n, [&](int64_t i) {
    const Acc<T> part = products(i);
    sum = sum + double(part);
  });
  return sum;
}
template <class T> __device__ __forceinline__ Acc<T> squares_of(const Chunk<T, kChunk<T>>& c) {
  Pack<Acc<T>, 1> s = 0;
#pragma unroll
  for (int j = 0; j < kChunk<T>; ++j) {
    const Pack<Acc<T>, 1> v = value(c.lane[j]);
    s = fma(v, v, s);
  }
  return s.v;
}
// Where the sum of squares left the range of f32 (f64) the row is summed again, in f64 (times a power of two).
template <bool kWhole, class T> __device__ double inverse_rms(double sum, const T* h, int64_t n, int64_t m, double eps, double* shared) {
  constexpr bool kF64 = sizeof(T) == 8;
  const double high = kF64 ? 0x1p1000 : 0x1p120, low = (kF64 ? 0x1p-900 : 0x1p-90) * double(n), small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  const bool plain = sum < high && (sum > low || eps > small_eps);
  const double r = rsqrt(sum / double(n) + eps);
  if (__all_sync(0xffffffffu, plain)) return r;  // teams that share a warp go on together
  const double scale = !kF64 ? 1 : sum < 1 ? 0x1p600 : 0x1p-600;
  double s = 0;
  each<T>(m, [&](int64_t i) {
    const auto c = load_chunk<kWhole>(h + i, m - i);
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j) {
      const double v = double(value(c.lane[j]).v) * scale;
      s = s + v * v;
    }
  });
  s = team_sum(s, shared);
  return plain ? r : scale / sqrt(s / double(n) + eps * scale * scale);
}
// The factors of elements i ... i + N - 1 of a row of n; 0 behind its end. kWhole: dense and aligned.
template <bool kWhole, class W, class A, int N> __device__ __forceinline__ void weights_at(const void* weight, int64_t stride, int64_t i, int64_t n, bool one_plus, Pack<A, 1> (&w)[N]) {
  if (!weight) {
#pragma unroll
    for (int j = 0; j < N; ++j) w[j] = 1;
    return;
  }
  constexpr int M = kChunk<W> < N ? kChunk<W> : N;  // a load's worth
  const W* p = static_cast<const W*>(weight) + i * stride;
#pragma unroll
  for (int m = 0; m < N; m += M) {
    Chunk<W, M> c;
    if constexpr (kWhole) c = *reinterpret_cast<const Chunk<W, M>*>(p + m);
    else
#pragma unroll
      for (int j = 0; j < M; ++j) c.lane[j] = i + m + j < n ? p[(m + j) * stride] : W{};
#pragma unroll
    for (int j = 0; j < M; ++j) w[m + j] = Pack<A, 1>::of(A(value(c.lane[j]).v));
  }
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (one_plus) w[j] = Pack<A, 1>(1) + w[j];
}
template <class T> __device__ __forceinline__ Pack<Acc<T>, 1> rounded_to(Pack<Acc<T>, 1> v) { return value(element<T>(v)); }

template <class T, class W, bool kWhole> __global__ void __launch_bounds__(1024) forward_kernel(const __grid_constant__ RmsNormCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  constexpr int N = kChunk<T>;
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
    double squares = sum_chunks<T>(n, [&](int64_t i) {
      auto sum = load_chunk<kWhole>(x + i, n - i);
      if (residual) {
        const auto d = load_chunk<kWhole>(residual + i, n - i);
#pragma unroll
        for (int j = 0; j < N; ++j) sum.lane[j] = element<T>(value(sum.lane[j]) + value(d.lane[j]));
        store_chunk<kWhole>(kept + i, sum, n - i);
      }
      return squares_of<T>(sum);
    });
    squares = team_sum(squares, shared);
    const A rstd = A(inverse_rms<kWhole, T>(squares, h, p.n, n, p.eps, shared));
    if (p.rstd && live && threadIdx.x == 0) static_cast<A*>(p.rstd)[at[4]] = rstd;
    each<T>(n, [&](int64_t i) {
      auto c = load_chunk<kWhole>(h + i, n - i);
      V w[N];
      weights_at<kWhole, W, A>(p.weight, p.weight_stride, i, n, p.one_plus, w);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        V v = value(c.lane[j]) * V::of(rstd);
        if (p.cast_first) v = rounded_to<T>(v);
        c.lane[j] = element<T>(v * w[j]);
      }
      store_chunk<kWhole>(y + i, c, n - i);
    });
  }
}

template <class T, class W, bool kWhole> __global__ void __launch_bounds__(1024) backward_kernel(const __grid_constant__ RmsNormBackwardCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  constexpr int N = kChunk<T>;
  __shared__ double shared[32];
  const int64_t rows = p.rows.units, n = p.n;
  A* const total = p.partial ? static_cast<A*>(p.partial) + (int64_t(blockIdx.x) * blockDim.y + threadIdx.y) * n : nullptr;
  if (total)
    each<T>(n, [&](int64_t i) {
      for (int j = 0; j < N && i + j < n; ++j) total[i + j] = 0;  // a thread's own columns: no barrier
    });
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y; first < rows; first += p.teams) {
    const bool live = first + threadIdx.y < rows;
    const int64_t r = live ? first + threadIdx.y : rows - 1, m = live ? n : 0;
    int64_t at[5];
    p.rows.offsets(r, at);
    const T *dy = static_cast<const T*>(p.dy) + at[0], *x = static_cast<const T*>(p.x) + at[1];
    const T* dh = p.dresidual_out ? static_cast<const T*>(p.dresidual_out) + at[2] : nullptr;
    T* dx = static_cast<T*>(p.dx) + at[4];
    const auto x_at = [&](int64_t i) { return load_chunk<kWhole>(x + i, m - i); };
    const auto dy_at = [&](int64_t i) { return load_chunk<kWhole>(dy + i, m - i); };
    A rstd;
    if (p.rstd) rstd = static_cast<const A*>(p.rstd)[at[3]];
    else {
      double squares = sum_chunks<T>(m, [&](int64_t i) { return squares_of<T>(x_at(i)); });
      squares = team_sum(squares, shared);
      rstd = A(inverse_rms<kWhole, T>(squares, x, n, m, p.eps, shared));
    }
    double dot = sum_chunks<T>(m, [&](int64_t i) {
      const auto e = dy_at(i), c = x_at(i);
      V w[N], s = 0;
      weights_at<kWhole, W, A>(p.weight, p.weight_stride, i, m, p.one_plus, w);
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (i + j < m) s = fma(value(e.lane[j]) * w[j], value(c.lane[j]) * V::of(rstd), s);
      return s.v;
    });
    dot = team_sum(dot, shared);
    const V minus_mean = V::of(A(-dot / double(n)));
    each<T>(m, [&](int64_t i) {
      const auto e = dy_at(i), c = x_at(i);
      V w[N];
      weights_at<kWhole, W, A>(p.weight, p.weight_stride, i, m, p.one_plus, w);
      Chunk<T, N> g, out;
      if (dh) g = load_chunk<kWhole>(dh + i, m - i);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const V ej = value(e.lane[j]), xhat = value(c.lane[j]) * V::of(rstd);
        V d = fma(xhat, minus_mean, ej * w[j]) * V::of(rstd);
        if (dh) d = d + value(g.lane[j]);
        out.lane[j] = element<T>(d);
        const V met = p.cast_first ? rounded_to<T>(xhat) : xhat;
        if (total && i + j < m) total[i + j] = fma(ej, met, V::of(total[i + j])).v;
      }
      store_chunk<kWhole>(dx + i, out, m - i);
    });
  }
}

// of[k].out[i] is the sum over blocks of its partial[., i]: 32 segments in order in f64, then the segments in order.
template <class A, class T> __global__ void __launch_bounds__(1024) fold_kernel(const __grid_constant__ NormFoldCuda p) {
  __shared__ double sums[32][33];
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x, each = (p.blocks + 31) / 32;
  const auto& of = p.of[blockIdx.y];
  double s = 0;
  const int64_t begin = threadIdx.y * each, end = begin + each < p.blocks ? begin + each : p.blocks;
  if (column < p.n)
#pragma unroll 8
    for (int64_t b = begin; b < end; ++b) s = s + double(static_cast<const A*>(of.partial)[b * p.n + column]);
  sums[threadIdx.y][threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.y || column >= p.n) return;
  for (int k = 1; k < 32; ++k) s = s + sums[k][threadIdx.x];
  static_cast<T*>(of.out)[column * of.stride] = from_double<T>(s);
}

// Of at most 32 blocks, a thread a column: the same sums.
constexpr int kFewBlocks = 32, kFewThreads = 256;
template <class A, class T> __global__ void __launch_bounds__(kFewThreads) fold_few_kernel(const __grid_constant__ NormFoldCuda p) {
  const int64_t column = int64_t(blockIdx.x) * kFewThreads + threadIdx.x;
  const auto& of = p.of[blockIdx.y];
  if (column >= p.n) return;
  double s = 0;
#pragma unroll 8
  for (int64_t b = 0; b < p.blocks; ++b) s = s + double(static_cast<const A*>(of.partial)[b * p.n + column]);
  static_cast<T*>(of.out)[column * of.stride] = from_double<T>(s);
}

template <class T, class W> bool whole_weights(const void* weight, int64_t stride) {
  return !weight || (stride == 1 && uintptr_t(weight) % 16 == 0);
}
template <class T, class W> int forward(const RmsNormCuda& p, void* stream) {
  if (rms_norm_cuda_blocks_of_row(p.n, false, sizeof(T)) == 1) return rms_norm_rows_cuda.forward[!std::is_same_v<T, W>][kDTypeOf<T>](p, stream);
  const dim3 block = block_of(team_size(p.n, kChunk<T>));
  const void* const data[] = {p.x, p.residual, p.y, p.residual_out};
  bool whole = whole_weights<T, W>(p.weight, p.weight_stride);
  for (int k = 0; k < 4; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
  const auto kernel = whole ? forward_kernel<T, W, true> : forward_kernel<T, W, false>;
  return device::launch(kernel, device::blocks_for(p.rows.units, block.y), block, 0, stream, p);
}
template <class T, class W> int backward(const RmsNormBackwardCuda& p, void* stream) {
  if (rms_norm_cuda_blocks_of_row(p.n, true, sizeof(T)) == 1) return rms_norm_rows_cuda.backward[!std::is_same_v<T, W>][kDTypeOf<T>](p, stream);
  const dim3 block = block_of(team_size(p.n, kChunk<T>, kBackwardEach));
  const void* const data[] = {p.dy, p.x, p.dresidual_out, nullptr, p.dx};
  bool whole = whole_weights<T, W>(p.weight, p.weight_stride);
  for (int k = 0; k < 5; ++k) whole = whole && whole_chunks<T>(p.rows, k, data[k], p.n);
  const auto kernel = whole ? backward_kernel<T, W, true> : backward_kernel<T, W, false>;
  return device::launch(kernel, unsigned(p.teams / block.y), block, 0, stream, p);
}
template <class A, class T> int fold(const NormFoldCuda& given, void* stream) {
  NormFoldCuda p = given;
  if (!p.of[0].out) std::swap(p.of[0], p.of[1]);
  if (!p.of[0].out || p.n == 0) return 0;
  if (p.blocks <= kFewBlocks) return device::launch(fold_few_kernel<A, T>, dim3(device::blocks_for(p.n, kFewThreads), p.of[1].out ? 2 : 1), dim3(kFewThreads), 0, stream, p);
  return device::launch(fold_kernel<A, T>, dim3(device::blocks_for(p.n, 32), p.of[1].out ? 2 : 1), dim3(32, 32), 0, stream, p);
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

int64_t norm_cuda_teams(int64_t rows, int64_t n, DType dtype) {
  if (rms_norm_cuda_blocks_of_row(n, true, int(byte_size(dtype))) == 1) return rms_norm_cuda_row_parts(rows, n, int(byte_size(dtype)));
  // About 1024 threads on each of 132 multiprocessors; a smaller device takes them in turn.
  const dim3 block = device_rows::block_of(device_rows::team_size(n, 16 / int(byte_size(dtype)), kBackwardEach));
  const int64_t blocks = device::ceil_div(rows, block.y), most = 132 * 1024 / int64_t(block.x * block.y);
  return (blocks < most ? blocks : most) * block.y;
}
extern const NormCudaKernels norm_cuda_kernels = kKernels;

}  // namespace baracuda
