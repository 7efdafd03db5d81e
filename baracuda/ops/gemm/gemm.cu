// Products of matrices with any strides: 2 m n k flops by the multiply-add units, each sum in one chain of fma over k in order, so
// that an element's bits depend on its row, its column and c alone. A block of 256 threads has a tile of c, 128 x 128 (64 x 64 in
// f64); the tiles of a and b go through shared memory 16 deep, the next ones wait in registers while these are multiplied, so that
// a value from shared memory serves kPer multiply-adds. Threads read along the axis that is dense. The floor is the multiply-add
// rate; tensor cores would round or reorder. And the last step alone, bound by memory: each operand once.
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/ops/gemm/gemm_cuda.hpp"
#include "baracuda/ops/gemm/gemm_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// f<Act>() for the epilogue's activation.
template <class F, class... Act> __device__ __forceinline__ void with_epilogue(int epilogue, gemm::Acts<Act...>, F f) {
  int e = 0;
  ((e++ == epilogue ? f.template operator()<Act>() : void()), ...);
}
// What p says is not there is not looked at.
template <class T, class C, class P> __device__ __forceinline__ Pack<Acc<T>, 1> combined(const P& p, bool has_sums, Acc<T> sums, C c, T bias) {
  using V = Pack<Acc<T>, 1>;
  return gemm::combine(has_sums, p.beta != 0, p.bias != nullptr, V(p.alpha), V(p.beta), [&] { return V::of(sums); }, [&] { return value(c); }, [&] { return value(bias); });
}

constexpr int kThreads = 256, kDepth = 16, kSide = 16;  // a thread has every kSide-th group of kGroup rows and columns
constexpr int kGroup = 4;
template <class A> struct Tile {
  static constexpr int kPer = sizeof(A) == 8 ? 4 : 8, kGroups = kPer / kGroup, kEdge = kSide * kPer, kBand = kSide * kGroup;
  static constexpr int kPitch = kEdge + kGroup;                   // rows of the k axis fall into other banks
  static constexpr int kLoads = kEdge * kDepth / kThreads;        // of each operand, per thread
  static constexpr int kStaged = kBand * kEdge, kOperands = 2 * kDepth * kPitch;
  static constexpr int kShared = kStaged > kOperands ? kStaged : kOperands;
};
// The part of a tile that a thread brings: along k where the operand is dense there, else along its rows.
template <class T> struct Loader {
  using A = Acc<T>;
  using G = Tile<A>;
  const T* p;
  int64_t outer, step, count;  // count: rows that exist
  bool along_k;
  A held[G::kLoads];
  __device__ int row(int i) const { return along_k ? int(threadIdx.x) / kDepth + i * (kThreads / kDepth) : int(threadIdx.x) % G::kEdge; }
  __device__ int k(int i) const { return along_k ? int(threadIdx.x) % kDepth : int(threadIdx.x) / G::kEdge + i * (kThreads / G::kEdge); }
  __device__ void fetch(int64_t k0, int64_t depth) {
#pragma unroll
    for (int i = 0; i < G::kLoads; ++i)
      held[i] = row(i) < count && k0 + k(i) < depth ? value(p[row(i) * outer + (k0 + k(i)) * step]).v : A(0);
  }
  __device__ void put(A* shared) const {
#pragma unroll
    for (int i = 0; i < G::kLoads; ++i) shared[k(i) * G::kPitch + row(i)] = held[i];
  }
};

template <class T, class C> __global__ void __launch_bounds__(kThreads) tile_kernel(const __grid_constant__ GemmCudaTile p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  using G = Tile<A>;
  __shared__ alignas(16) A shared[G::kShared];
  A *const as = shared, *const bs = shared + kDepth * G::kPitch;
  const int64_t tiles_m = (p.m + G::kEdge - 1) / G::kEdge, tiles_n = (p.n + G::kEdge - 1) / G::kEdge, all = tiles_m * tiles_n * p.batch.units;
  const int tx = int(threadIdx.x) % kSide, ty = int(threadIdx.x) / kSide;
  for (int64_t tile = blockIdx.x; tile < all; tile += gridDim.x) {
    const int64_t i0 = tile % tiles_m * G::kEdge, j0 = tile / tiles_m % tiles_n * G::kEdge;
    int64_t at[3];
    p.batch.offsets(tile / (tiles_m * tiles_n), at);
    Loader<T> a{static_cast<const T*>(p.a.p) + at[0] + i0 * p.a.outer, p.a.outer, p.a.k, p.m - i0, p.a.k == 1 || p.a.k == -1, {}};
    Loader<T> b{static_cast<const T*>(p.b.p) + at[1] + j0 * p.b.outer, p.b.outer, p.b.k, p.n - j0, p.b.k == 1 || p.b.k == -1, {}};
    A sum[G::kPer][G::kPer] = {};
    a.fetch(0, p.k), b.fetch(0, p.k);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      a.put(as), b.put(bs);
      __syncthreads();
      if (k0 + kDepth < p.k) a.fetch(k0 + kDepth, p.k), b.fetch(k0 + kDepth, p.k);
#pragma unroll 2
      for (int k = 0; k < kDepth; ++k) {
        A x[G::kPer], y[G::kPer];
#pragma unroll
        for (int g = 0; g < G::kGroups; ++g)
#pragma unroll
          for (int r = 0; r < kGroup; ++r) {
            x[g * kGroup + r] = as[k * G::kPitch + g * G::kBand + ty * kGroup + r];
            y[g * kGroup + r] = bs[k * G::kPitch + g * G::kBand + tx * kGroup + r];
          }
#pragma unroll
        for (int i = 0; i < G::kPer; ++i)
#pragma unroll
          for (int j = 0; j < G::kPer; ++j) sum[i][j] = fma(V::of(x[i]), V::of(y[j]), V::of(sum[i][j])).v;
      }
      __syncthreads();
    }
    // Bands of rows of the tile through shared memory: one copy of the last step's code, and threads side by side in c.
    C* const c = static_cast<C*>(p.c) + at[2];
    const T* const bias = static_cast<const T*>(p.bias);
    const bool along_rows = p.c_row == 1;
#pragma unroll 1
    for (int band = 0; band < G::kGroups; ++band) {
#pragma unroll
      for (int g = 0; g < G::kGroups; ++g)
        if (g == band)
#pragma unroll
          for (int i = 0; i < kGroup; ++i)
#pragma unroll
            for (int j = 0; j < G::kPer; ++j) shared[(ty * kGroup + i) * G::kEdge + j / kGroup * G::kBand + tx * kGroup + j % kGroup] = sum[g * kGroup + i][j];
      __syncthreads();
#pragma unroll 1
      for (int e = int(threadIdx.x); e < G::kStaged; e += kThreads) {
        const int row = along_rows ? e % G::kBand : e / G::kEdge, column = along_rows ? e / G::kBand : e % G::kEdge;
        const int64_t i = i0 + band * G::kBand + row, j = j0 + column;
        if (i >= p.m || j >= p.n) continue;
        C* const to = c + i * p.c_row + j * p.c_col;
        const V v = combined<T, C>(p, true, shared[row * G::kEdge + column], p.beta != 0 ? *to : C{}, bias ? bias[j * p.bias_col] : T{});
        with_epilogue(p.epilogue, gemm::Epilogues{}, [&]<class Act>() { *to = element<C>(Act::act(v)); });
      }
      __syncthreads();
    }
  }
}

template <class T, int N> struct alignas(sizeof(T) * N) Lanes { T lane[N]; };
template <int N, class T> __device__ Lanes<T, N> fetch(const T* p, bool spread) {
  Lanes<T, N> v;
  if (!spread) return *reinterpret_cast<const Lanes<T, N>*>(p);
#pragma unroll
  for (int l = 0; l < N; ++l) v.lane[l] = *p;
  return v;
}
template <int N, class T, class C> __device__ __forceinline__ void finish_unit(const GemmCudaFinish& p, const int64_t (&at)[3]) {
  using A = Acc<T>;
  Lanes<A, N> sums{};
  Lanes<C, N> c{};
  Lanes<T, N> bias{};
  C* const to = static_cast<C*>(p.c) + at[1];
  if (p.sums) sums = fetch<N>(static_cast<const A*>(p.sums) + at[0], p.walk.spread[0]);
  if (p.beta != 0) c = fetch<N>(static_cast<const C*>(to), false);
  if (p.bias) bias = fetch<N>(static_cast<const T*>(p.bias) + at[2], p.walk.spread[2]);
  with_epilogue(p.epilogue, gemm::Epilogues{}, [&]<class Act>() {
#pragma unroll
    for (int l = 0; l < N; ++l) c.lane[l] = element<C>(Act::act(combined<T, C>(p, p.sums != nullptr, sums.lane[l], c.lane[l], bias.lane[l])));
  });
  *reinterpret_cast<Lanes<C, N>*>(to) = c;
}
template <int N, class T, class C> __global__ void __launch_bounds__(kThreads) finish_kernel(const __grid_constant__ GemmCudaFinish p) {
  const int64_t all = p.walk.units + p.walk.rest;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < all; i += int64_t(gridDim.x) * kThreads) {
    int64_t at[3];
    p.walk.offsets(i, at);
    if (N == 1 || i < p.walk.units) finish_unit<N, T, C>(p, at);
    else finish_unit<1, T, C>(p, at);
  }
}

template <class T, class C> int tile(const GemmCudaTile& p, void* stream) {
  constexpr int64_t kEdge = Tile<Acc<T>>::kEdge;
  const int64_t tiles = device::ceil_div(p.m, kEdge) * device::ceil_div(p.n, kEdge) * p.batch.units;
  return tiles == 0 ? 0 : device::launch(tile_kernel<T, C>, device::blocks_for(tiles, 1), kThreads, 0, stream, p);
}
template <class T, class C> int finish(const GemmCudaFinish& p, void* stream) {
  if (p.walk.threads() == 0) return 0;
  const unsigned blocks = device::blocks_for(p.walk.threads(), kThreads);
  if (p.walk.lanes == 1) return device::launch(finish_kernel<1, T, C>, blocks, kThreads, 0, stream, p);
  return device::launch(finish_kernel<gemm_finish_lanes(kDTypeOf<T>), T, C>, blocks, kThreads, 0, stream, p);
}
using TileRun = int (*)(const GemmCudaTile&, void*);
using FinishRun = int (*)(const GemmCudaFinish&, void*);
constexpr GemmCudaKernels kKernels = {
    {device::floating<TileRun>(tile<f16, f16>, tile<bf16, bf16>, tile<float, float>, tile<double, double>),
     device::floating<TileRun>(tile<f16, float>, tile<bf16, float>, tile<float, float>, tile<double, double>)},
    {device::floating<FinishRun>(finish<f16, f16>, finish<bf16, bf16>, finish<float, float>, finish<double, double>),
     device::floating<FinishRun>(finish<f16, float>, finish<bf16, float>, finish<float, float>, finish<double, double>)}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const GemmCudaKernels gemm_cuda_kernels = kKernels;

}  // namespace baracuda
