// Lines of softmax down columns that lie next to one another, in registers: a block, or a cluster of blocks (sm_90), has 128 bytes of each row
// of its columns, a thread 16 bytes of 8 rows. Reads x and writes y once (backward: dy, y and dx): the floor is memory bandwidth. Blocks sum with
// the maximum of their own and meet as chunks do ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018). The order of
// a line's sums depends on its length alone: a thread's rows, threads by 8 and 16, warps in order, blocks in order.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_short.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using namespace softmax_short;

constexpr int kThreads = 512, kRows = 8, kAcross = 8, kGroups = kThreads / kAcross, kWarps = kThreads / 32;
struct ColumnsCuda {
  SoftmaxCuda p;
  int64_t columns, tiles;  // neighbours; groups of them
  int64_t across[2];       // of what is read, from one to the next: 1, or 0
};

struct Place {
  int q, group, blocks, rank;
  int64_t first, row_step;
  __device__ Place(const ColumnsCuda& c) : q(int(threadIdx.x) % kAcross), group(int(threadIdx.x) / kAcross), blocks(c.p.team), rank(blocks > 1 ? cluster_rank() : 0) {
    first = int64_t(rank) * kGroups + group, row_step = int64_t(blocks) * kGroups;
  }
};
// Values of N columns, a thread each, joined over a block: for thread t < 8 N that of column t.
template <int N, class F> __device__ __forceinline__ float over_block(const V (&v)[N], float* shared, F join) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    V a = v[j];
    a = join(a, V::of(__shfl_xor_sync(0xffffffffu, a.v, 8)));
    a = join(a, V::of(__shfl_xor_sync(0xffffffffu, a.v, 16)));
    if (lane < kAcross) shared[warp * kAcross * N + lane * N + j] = a.v;
  }
  __syncthreads();
  V a = 0;
  if (int(threadIdx.x) < kAcross * N) {
    a = V::of(shared[threadIdx.x]);
    for (int w = 1; w < kWarps; ++w) a = join(a, V::of(shared[w * kAcross * N + threadIdx.x]));
  }
  return a.v;
}
template <class T, bool kWhole> __device__ __forceinline__ Packed<T> get(const T* p, int left, int64_t across) {
  if constexpr (kWhole) return Packed<T>::load(p);
  else return Packed<T>::from([&](int j) { return j < left ? p[j * across] : T{}; });
}
template <class T, bool kWhole> __device__ __forceinline__ void put(T* p, const Packed<T>& v, int left) {
  if constexpr (kWhole) v.store(p);
  else
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j)
      if (j < left) p[j] = v.at(j);
}
// kWhole: 16 bytes are aligned, and columns a multiple of that.
template <class T, bool kWhole> __global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ ColumnsCuda c) {
  constexpr int N = kChunk<T>, W = kAcross * N;
  __shared__ float scratch[kWarps * W], own_max[W], own_sum[W], first_factor[W], second_factor[W];
  const SoftmaxCuda& p = c.p;
  const Place at(c);
  const int64_t tile = blockIdx.x / unsigned(at.blocks), outer = tile / c.tiles, column = (tile - outer * c.tiles) * W;
  const int left = c.columns - column - at.q * N < N ? int(c.columns - column - at.q * N) : N;
  int64_t offset[4];
  p.lines.offsets(outer * c.columns + column, offset);
  const T* const x = static_cast<const T*>(p.in) + offset[0] + at.q * N * c.across[0];
  T* const y = static_cast<T*>(p.out) + offset[3] + at.q * N;
  Packed<T> held[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = at.first + r * at.row_step;
    if (row < p.n && left > 0) held[r] = get<T, kWhole>(x + row * p.step[0], left, c.across[0]);
  }
  const V sign = p.negate ? -p.scale : p.scale;
  V top[N], sum[N];
#pragma unroll
  for (int j = 0; j < N; ++j) top[j] = -kInf, sum[j] = 0;
  const auto each = [&](auto f) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (at.first + r * at.row_step < p.n && left > 0) f(r);
  };
  each([&](int r) {
#pragma unroll
    for (int j = 0; j < N; ++j) top[j] = greater(held[r][j] * sign, top[j]);
  });
  const float block_max = over_block<N>(top, scratch, [](V a, V b) { return greater(a, b); });
  if (int(threadIdx.x) < W) own_max[threadIdx.x] = block_max;
  __syncthreads();
  each([&](int r) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const V e = Exp<T>(V::of(own_max[at.q * N + j]))(held[r][j] * sign);
      sum[j] = sum[j] + e;
      if constexpr (!kIsHalf<T>)
        if (!p.log) held[r].word[j] = __builtin_bit_cast(uint32_t, e.v);  // what value() takes
    }
  });
  const float block_sum = over_block<N>(sum, scratch, [](V a, V b) { return a + b; });
  if (int(threadIdx.x) < W) own_sum[threadIdx.x] = block_sum;
  if (at.blocks > 1) cluster_barrier();
  if (int(threadIdx.x) < W) {
    V most = V::of(block_max), all = V::of(block_sum);
    if (at.blocks > 1) {
      for (int b = 0; b < at.blocks; ++b) most = greater(V::of(of_block(own_max + threadIdx.x, b)), most);
      all = 0;
      for (int b = 0; b < at.blocks; ++b)
        all = all + V::of(of_block(own_sum + threadIdx.x, b)) * (Exp<T>(V::of(of_block(own_max + threadIdx.x, b))).weight(Exp<T>(most)));
    }
    const Exp<T> line(most);
    V a, b;
    if (p.log) a = line.log_of(all), b = most;
    else if constexpr (kIsHalf<T>) a = where(most == -kInf, p.safe ? where(is_nan(all), all, V(0)) : V(kNaN), V(1) / all), b = most;
    else softmax::factor(most, softmax::weight(V::of(block_max), line.point), all, p.safe, a, b);
    first_factor[threadIdx.x] = a.v, second_factor[threadIdx.x] = b.v;
  }
  __syncthreads();
  V a[N], b[N];
#pragma unroll
  for (int j = 0; j < N; ++j) a[j] = V::of(first_factor[at.q * N + j]), b[j] = V::of(second_factor[at.q * N + j]);
  each([&](int r) {
    const Packed<T> out = Packed<T>::rounded([&](int j) {
      const V v = held[r][j];
      if (p.log) return softmax::log_value(v * sign, b[j], a[j]);
      if constexpr (kIsHalf<T>) return Exp<T>(b[j])(v * sign) * a[j];
      else return softmax::value(v, a[j], b[j]);
    });
    put<T, kWhole>(y + (at.first + r * at.row_step) * p.step[3], out, left);
  });
  if (at.blocks > 1) cluster_barrier();  // what others read of a block must live
}
template <class T, bool kWhole> __global__ void __launch_bounds__(kThreads, 1) backward_kernel(const __grid_constant__ ColumnsCuda c) {
  constexpr int N = kChunk<T>, W = kAcross * N;
  __shared__ float scratch[kWarps * W], own_sum[W], total[W];
  const SoftmaxCuda& p = c.p;
  const Place at(c);
  const int64_t tile = blockIdx.x / unsigned(at.blocks), outer = tile / c.tiles, column = (tile - outer * c.tiles) * W;
  const int left = c.columns - column - at.q * N < N ? int(c.columns - column - at.q * N) : N;
  int64_t offset[4];
  p.lines.offsets(outer * c.columns + column, offset);
  const T *const dy = static_cast<const T*>(p.in) + offset[0] + at.q * N * c.across[0], *const y = static_cast<const T*>(p.second) + offset[1] + at.q * N * c.across[1];
  T* const dx = static_cast<T*>(p.out) + offset[3] + at.q * N;
  Packed<T> dys[kRows], ys[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = at.first + r * at.row_step;
    if (row < p.n && left > 0) dys[r] = get<T, kWhole>(dy + row * p.step[0], left, c.across[0]), ys[r] = get<T, kWhole>(y + row * p.step[1], left, c.across[1]);
  }
  const auto each = [&](auto f) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (at.first + r * at.row_step < p.n && left > 0) f(r);
  };
  V sum[N];
#pragma unroll
  for (int j = 0; j < N; ++j) sum[j] = -0.0;
  each([&](int r) {
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] = p.log ? sum[j] + dys[r][j] : fma(dys[r][j], ys[r][j], sum[j]);
  });
  const float block_sum = over_block<N>(sum, scratch, [](V a, V b) { return a + b; });
  if (int(threadIdx.x) < W) own_sum[threadIdx.x] = block_sum;
  if (at.blocks > 1) cluster_barrier();
  if (int(threadIdx.x) < W) {
    float all = block_sum;
    if (at.blocks > 1) {
      all = of_block(own_sum + threadIdx.x, 0);
      for (int b = 1; b < at.blocks; ++b) all = all + of_block(own_sum + threadIdx.x, b);
    }
    total[threadIdx.x] = all;
  }
  __syncthreads();
  V dot[N];
#pragma unroll
  for (int j = 0; j < N; ++j) dot[j] = V::of(total[at.q * N + j]);
  const V sign = p.sign;
  each([&](int r) {
    const Packed<T> out = Packed<T>::rounded([&](int j) { return slope_of<T>(p.log, dys[r][j], ys[r][j], dot[j], sign); });
    put<T, kWhole>(dx + (at.first + r * at.row_step) * p.step[3], out, left);
  });
  if (at.blocks > 1) cluster_barrier();
}
template <class T, bool kBackward> int columns(const SoftmaxCuda& given, void* stream) {
  ColumnsCuda c{given};
  SoftmaxCuda& p = c.p;
  const int last = p.lines.rank - 1, blocks = softmax_cuda_blocks_of_column(p.n);
  p.team = blocks;
  c.columns = p.lines.extent[last], c.tiles = device::ceil_div(c.columns, kAcross * kChunk<T>);
  bool whole = c.columns % kChunk<T> == 0;
  for (int k = 0; k < 2; ++k) c.across[k] = p.lines.stride[k][last], whole = whole && (k && !p.second ? true : c.across[k] == 1);
  const void* const data[] = {p.in, p.second, nullptr, p.out};
  for (int k = 0; k < 4; ++k) {
    if (!data[k]) continue;
    whole = whole && uintptr_t(data[k]) % 16 == 0 && p.step[k] % kChunk<T> == 0;
    for (int a = 0; a < last; ++a) whole = whole && p.lines.stride[k][a] % kChunk<T> == 0;
  }
  const int64_t tiles = p.lines.units / c.columns * c.tiles;
  const auto kernel = kBackward ? (whole ? backward_kernel<T, true> : backward_kernel<T, false>) : whole ? forward_kernel<T, true> : forward_kernel<T, false>;
  return launch_clusters(kernel, blocks, tiles * blocks, kThreads, 0, stream, c);
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(columns<f16, kBackward>, columns<bf16, kBackward>, columns<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kColumns = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_columns_cuda = kColumns;
int softmax_cuda_blocks_of_column(int64_t n) {
  int blocks = 1;
  while (blocks <= row_team::kMostCluster && n > int64_t(blocks) * kRows * kGroups) blocks *= 2;
  return blocks <= row_team::kMostCluster ? blocks : 0;
}

}  // namespace baracuda
