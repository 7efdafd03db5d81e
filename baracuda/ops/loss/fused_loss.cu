// What a chunk needs beside its products and its losses: rows of x with those that do not count cleared (0 x NaN must not reach dw),
// conversions, column sums, factors. Each is bound by memory, each element once; some 16 bytes per thread and load.
#include "baracuda/ops/loss/fused_loss_cuda.hpp"
#include "baracuda/ops/loss/loss_device.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace device_rows;
using namespace loss_device;

constexpr int kThreads = 256, kSteps = 4;  // a block has kSteps units for each thread, of one row
template <class T> __device__ __forceinline__ bool aligned(const T* p, int n) { return uintptr_t(p) % (uintptr_t(n) * sizeof(T)) == 0; }

template <class T, class U> inline constexpr int kUnit = 16 / int(sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U));
template <class T, class U> __global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ FusedLossCopy p) {
  constexpr int N = kUnit<T, U>;
  const RowsLeft rows(p.kept, p.first, p.rows);
  const int64_t spans = (p.n + kThreads * kSteps * N - 1) / (kThreads * kSteps * N);
  for (int64_t b = blockIdx.x; b < (p.scatter ? rows.some : rows.all) * spans; b += gridDim.x) {
    const int64_t row = b / spans, begin = b % spans * (kThreads * kSteps * N) + int64_t(threadIdx.x) * N;
    const bool cleared = p.kept.of ? row >= rows.some : p.clear && target_of(p.t, p.first + row) < 0, clear = cleared || !p.from;
    if (!p.from && p.clear && !cleared) continue;
    const T* from = static_cast<const T*>(p.from) + (p.kept.of && !p.scatter && !cleared ? p.kept.of[p.first + row] : row) * p.from_pitch;
    U* to = static_cast<U*>(p.to) + (p.scatter ? p.kept.of[p.first + row] : row) * p.to_pitch;
    const bool whole = (clear || aligned(from, N)) && aligned(to, N);
    Chunk<T, N> x[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int64_t i = begin + s * kThreads * N;
      x[s] = {};
      if (clear) continue;
      if (whole && i + N <= p.n) x[s] = *reinterpret_cast<const Chunk<T, N>*>(from + i);
      else
        for (int j = 0; j < N; ++j)
          if (i + j < p.n) x[s].lane[j] = from[i + j];
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int64_t i = begin + s * kThreads * N;
      const bool all = whole && i + N <= p.n;
      Chunk<U, N> y{};
      if (p.add && all) y = *reinterpret_cast<const Chunk<U, N>*>(to + i);
      for (int j = 0; j < N; ++j) {
        if (!p.add) y.lane[j] = cast_element<U>(x[s].lane[j]);
        else if (i + j < p.n) {
          const U there = all ? y.lane[j] : to[i + j];
          y.lane[j] = cast_element<U>(cast_element<Acc<T>>(x[s].lane[j]) + cast_element<Acc<T>>(there));
        }
      }
      if (all) *reinterpret_cast<Chunk<U, N>*>(to + i) = y;
      else
        for (int j = 0; j < N; ++j)
          if (i + j < p.n) to[i + j] = y.lane[j];
    }
  }
}

// A block has the columns of 128 bytes; its rows are shared out among kSlices groups of kLanes threads: row r is in slice r % kSlices.
constexpr int kSlices = 32, kLanes = 8, kRowsAhead = 4;
template <class T> __global__ void __launch_bounds__(kLanes * kSlices) columns_kernel(const __grid_constant__ FusedLossColumns p) {
  constexpr int N = kChunk<T>, kColumns = kLanes * N;
  __shared__ double part[kSlices][kColumns];
  const int lane = int(threadIdx.x) % kLanes, slice = int(threadIdx.x) / kLanes;
  const int64_t rows = RowsLeft(p.kept, p.first, p.rows).some;
  const bool add = p.kept.of ? *p.kept.count - p.first > p.rows : p.add;
  if (p.kept.of && rows == 0 && p.first > 0) return;
  for (int64_t first = int64_t(blockIdx.x) * kColumns; first < p.n; first += int64_t(gridDim.x) * kColumns) {
    const int64_t j = first + lane * N;
    const T* const x = static_cast<const T*>(p.x) + j;
    const bool whole = j + N <= p.n && aligned16(x) && p.pitch % N == 0;
    double sum[N] = {};
    const auto take = [&](const Chunk<T, N>& c) {
#pragma unroll
      for (int l = 0; l < N; ++l) sum[l] = sum[l] + double(value(c.lane[l]).v);
    };
    int64_t r = slice;
    if (whole)
      for (; r + (kRowsAhead - 1) * kSlices < rows; r += kRowsAhead * kSlices) {
        Chunk<T, N> c[kRowsAhead];
#pragma unroll
        for (int k = 0; k < kRowsAhead; ++k) c[k] = *reinterpret_cast<const Chunk<T, N>*>(x + (r + k * kSlices) * p.pitch);
#pragma unroll
        for (int k = 0; k < kRowsAhead; ++k) take(c[k]);
      }
    for (; r < rows; r += kSlices) take(load_chunk(x + r * p.pitch, p.n - j, whole));
#pragma unroll
    for (int l = 0; l < N; ++l) part[slice][lane * N + l] = sum[l];
    __syncthreads();
    if (const int e = int(threadIdx.x); e < kColumns && first + e < p.n) {
      double s = add ? p.sums[first + e] : 0;
      for (int k = 0; k < kSlices; ++k) s = s + part[k][e];
      p.sums[first + e] = s;
    }
    __syncthreads();
  }
}

template <class T> __global__ void __launch_bounds__(kThreads) scale_kernel(const __grid_constant__ FusedLossScale p) {
  constexpr int N = kChunk<T>;
  using A = Acc<T>;
  const double factor = p.scale * (p.dloss ? double(*static_cast<const A*>(p.dloss)) : 1);
  if (factor == 1) return;
  const Pack<A, 1> s = factor;
  const int64_t spans = (p.n + kThreads * N - 1) / (kThreads * N);
  for (int64_t b = blockIdx.x; b < p.rows * spans; b += gridDim.x) {
    const int64_t i = b % spans * (kThreads * N) + int64_t(threadIdx.x) * N;
    if (i >= p.n) continue;
    T* const x = static_cast<T*>(p.x) + b / spans * p.pitch + i;
    const bool whole = aligned16(x);
    auto c = load_chunk(x, p.n - i, whole);
#pragma unroll
    for (int j = 0; j < N; ++j) store<T, 1>(&c.lane[j], load<1>(&c.lane[j]) * s);
    store_chunk(x, c, p.n - i, whole);
  }
}

template <class T, class U> int copy(const FusedLossCopy& p, void* stream) {
  if (p.rows == 0 || p.n == 0) return 0;
  FusedLossCopy c = p;
  if (!p.clear && !p.kept.of && p.from && p.from_pitch == p.n && p.to_pitch == p.n) c.n = p.rows * p.n, c.rows = 1;  // dense: blocks do not end with rows
  return device::launch(copy_kernel<T, U>, device::blocks_for(c.rows * device::ceil_div(c.n, kThreads * kSteps * kUnit<T, U>), 1), kThreads, 0, stream, c);
}
template <class T> int columns(const FusedLossColumns& p, void* stream) {
  return device::launch(columns_kernel<T>, device::blocks_for(p.n, kLanes * kChunk<T>), kLanes * kSlices, 0, stream, p);
}
template <class T> int scale_rows(const FusedLossScale& p, void* stream) {
  if (p.rows == 0 || p.n == 0) return 0;
  return device::launch(scale_kernel<T>, device::blocks_for(p.rows * device::ceil_div(p.n, kThreads * kChunk<T>), 1), kThreads, 0, stream, p);
}
constexpr FusedLossCudaKernels kKernels = {
    device::floating<FusedLossCopyRun>(copy<f16, f16>, copy<bf16, bf16>, copy<float, float>, copy<double, double>),
    device::floating<FusedLossCopyRun>(copy<f16, float>, copy<bf16, float>, copy<float, float>, copy<double, double>),
    device::floating<FusedLossCopyRun>(copy<float, f16>, copy<float, bf16>, copy<float, float>, copy<double, double>),
    device::floating<FusedLossCopyRun>(copy<double, f16>, copy<double, bf16>, copy<double, float>, copy<double, double>),
    device::floating<int (*)(const FusedLossColumns&, void*)>(columns<f16>, columns<bf16>, columns<float>, columns<double>),
    device::floating<int (*)(const FusedLossScale&, void*)>(scale_rows<f16>, scale_rows<bf16>, scale_rows<float>, scale_rows<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const FusedLossCudaKernels fused_loss_cuda_kernels = kKernels;

}  // namespace baracuda
