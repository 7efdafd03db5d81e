// Lines of softmax down columns that lie next to one another, in shared memory: a block, or a cluster of blocks (sm_90), has 128 bytes of each
// row of its columns (64, 256), a thread 16 bytes of every 32nd row, which it alone copies there and reads. Several blocks share a multiprocessor:
// one copies while another works. Reads x and writes y once (backward: dy, y and dx): the floor is memory bandwidth. Blocks sum with the
// maximum of their own and meet as chunks do ("Online normalizer calculation for softmax", Milakov and Gimelshein, 2018). The order of
// a line's sums depends on its length alone: a thread's rows, threads by 4 or 8 and 16, warps in order, blocks in order.
#include "baracuda/device/async_lines.cuh"
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/softmax/softmax_cuda.hpp"
#include "baracuda/ops/softmax/softmax_short.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace row_team;
using namespace softmax_short;

constexpr int kThreads = 256, kWarps = kThreads / 32, kMostAcross = 16, kBlockBytes = 64 * 1024;  // of these three blocks fit
constexpr int kBlockChunks = kBlockBytes / 16 / kThreads;                                         // of a thread, all tensors together
// Neighbours of 16 bytes; fewer where a cluster holds no more of the two tensors of a backward.
int across_of(int64_t n, bool backward) { return n <= 16 ? kMostAcross : backward && n > kMostCluster * (kBlockChunks / 2) * (kThreads / 8) ? 4 : 8; }
struct ColumnsCuda {
  SoftmaxCuda p;
  int64_t columns, tiles;  // neighbours; groups of them
  int64_t across[2];       // of what is read, from one to the next: 1, or 0
  int width, chunks;       // threads side by side; chunks of a thread that has most
};

struct Place {
  int q, group, width, blocks, rank, count;  // count: of this thread's rows
  int64_t first, row_step;
  __device__ explicit Place(const ColumnsCuda& c)
      : q(int(threadIdx.x) & (c.width - 1)), group(int(threadIdx.x) / c.width), width(c.width), blocks(c.p.team), rank(blocks > 1 ? cluster_rank() : 0) {
    const int groups = kThreads / width;
    first = int64_t(rank) * groups + group, row_step = int64_t(blocks) * groups;
    count = first < c.p.n ? int((c.p.n - first + row_step - 1) / row_step) : 0;
  }
};
// Values of N columns, a thread each, joined over a block: for thread t < width N that of column t.
template <int N, class F> __device__ __forceinline__ float over_block(const V (&v)[N], float* shared, int width, F join) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    V a = v[j];
    if (width < 8) a = join(a, V::of(__shfl_xor_sync(0xffffffffu, a.v, 4)));
    if (width < 16) a = join(a, V::of(__shfl_xor_sync(0xffffffffu, a.v, 8)));
    a = join(a, V::of(__shfl_xor_sync(0xffffffffu, a.v, 16)));
    if (lane < width) shared[(warp * width + lane) * N + j] = a.v;
  }
  __syncthreads();
  V a = 0;
  if (int(threadIdx.x) < width * N) {
    a = V::of(shared[threadIdx.x]);
    for (int w = 1; w < kWarps; ++w) a = join(a, V::of(shared[w * width * N + int(threadIdx.x)]));
  }
  return a.v;
}
// `own` of every block of the cluster, one after another; scratch holds 16. After a cluster_barrier(); a __syncthreads() must follow.
__device__ __forceinline__ void gather_blocks(const float* own, float* to, int columns, int blocks) {
  for (int i = int(threadIdx.x); i < columns * blocks; i += kThreads) to[i] = of_block(own + i % columns, i / columns);
}
// A thread's chunk of one row into its slot. kWhole: 16 bytes are aligned, and columns a multiple of that.
template <class T, bool kWhole> __device__ __forceinline__ void fetch(uint4* slot, const T* p, int left, int64_t across) {
  if constexpr (kWhole) device_lines::copy_line(slot, p);
  else Packed<T>::from([&](int j) { return j < left ? p[j * across] : T{}; }).store(slot);
}
template <class T, bool kWhole> __device__ __forceinline__ void put(T* p, const Packed<T>& v, int left) {
  if constexpr (kWhole) v.store(p);
  else
#pragma unroll
    for (int j = 0; j < kChunk<T>; ++j)
      if (j < left) p[j] = v.at(j);
}
template <class T, bool kWhole> __global__ void __launch_bounds__(kThreads, kWhole ? 4 : 3) forward_kernel(const __grid_constant__ ColumnsCuda c) {
  constexpr int N = kChunk<T>, W = kMostAcross * N;
  extern __shared__ uint4 slots[];
  __shared__ float scratch[2 * kWarps * W], own_max[W], own_sum[W], first_factor[W], second_factor[W];
  const SoftmaxCuda& p = c.p;
  const Place at(c);
  const int64_t tile = blockIdx.x / unsigned(at.blocks), outer = tile / c.tiles, column = (tile - outer * c.tiles) * (at.width * N);
  const int left = c.columns - column - at.q * N < N ? int(c.columns - column - at.q * N) : N, count = left > 0 ? at.count : 0;
  int64_t offset[4];
  p.lines.offsets(outer * c.columns + column, offset);
  uint4* const own = slots + threadIdx.x;
  const T* x = static_cast<const T*>(p.in) + offset[0] + at.q * N * c.across[0] + at.first * p.step[0];
#pragma unroll 4
  for (int k = 0; k < count; ++k, x += at.row_step * p.step[0]) fetch<T, kWhole>(own + k * kThreads, x, left, c.across[0]);
  const V sign = p.negate ? -p.scale : p.scale;
  V top[N], sum[N];
#pragma unroll
  for (int j = 0; j < N; ++j) top[j] = -kInf, sum[j] = 0;
  device_lines::commit_lines();
  device_lines::wait_for_lines<0>();
#pragma unroll 4
  for (int k = 0; k < count; ++k) {
    const auto held = Packed<T>::load(own + k * kThreads);
#pragma unroll
    for (int j = 0; j < N; ++j) top[j] = greater(held[j] * sign, top[j]);
  }
  const int lines = at.width * N;
  const bool mine = int(threadIdx.x) < lines;
  const float block_max = over_block<N>(top, scratch, at.width, [](V a, V b) { return greater(a, b); });
  if (mine) own_max[threadIdx.x] = block_max;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) top[j] = V::of(own_max[at.q * N + j]);
#pragma unroll 4
  for (int k = 0; k < count; ++k) {
    auto held = Packed<T>::load(own + k * kThreads);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const V e = Exp<T>(top[j])(held[j] * sign);
      sum[j] = sum[j] + e;
      if constexpr (!kIsHalf<T>) held.word[j] = __builtin_bit_cast(uint32_t, e.v);
    }
    if constexpr (!kIsHalf<T>)
      if (!p.log) held.store(own + k * kThreads);  // what value() takes
  }
  const float block_sum = over_block<N>(sum, scratch, at.width, [](V a, V b) { return a + b; });
  if (mine) own_sum[threadIdx.x] = block_sum;
  float *const maxima = scratch, *const sums = scratch + lines * at.blocks;
  if (at.blocks > 1) {
    cluster_barrier();
    gather_blocks(own_max, maxima, lines, at.blocks);
    gather_blocks(own_sum, sums, lines, at.blocks);
    __syncthreads();
  }
  if (mine) {
    V most = V::of(block_max), all = V::of(block_sum);
    if (at.blocks > 1) {
      for (int b = 0; b < at.blocks; ++b) most = greater(V::of(maxima[b * lines + int(threadIdx.x)]), most);
      all = 0;
      for (int b = 0; b < at.blocks; ++b)
        all = all + V::of(sums[b * lines + int(threadIdx.x)]) * (Exp<T>(V::of(maxima[b * lines + int(threadIdx.x)])).weight(Exp<T>(most)));
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
  T* y = static_cast<T*>(p.out) + offset[3] + at.q * N + at.first * p.step[3];
#pragma unroll 4
  for (int k = 0; k < count; ++k, y += at.row_step * p.step[3]) {
    const auto held = Packed<T>::load(own + k * kThreads);
    const Packed<T> out = Packed<T>::rounded([&](int j) {
      const V v = held[j];
      if (p.log) return softmax::log_value(v * sign, b[j], a[j]);
      if constexpr (kIsHalf<T>) return Exp<T>(b[j])(v * sign) * a[j];
      else return softmax::value(v, a[j], b[j]);
    });
    put<T, kWhole>(y, out, left);
  }
  if (at.blocks > 1) cluster_barrier();  // what others read of a block must live
}
template <class T, bool kWhole> __global__ void __launch_bounds__(kThreads, kWhole ? 4 : 2) backward_kernel(const __grid_constant__ ColumnsCuda c) {
  constexpr int N = kChunk<T>, W = kMostAcross * N;
  extern __shared__ uint4 slots[];
  __shared__ float scratch[kWarps * W], own_sum[W], total[W];
  const SoftmaxCuda& p = c.p;
  const Place at(c);
  const int64_t tile = blockIdx.x / unsigned(at.blocks), outer = tile / c.tiles, column = (tile - outer * c.tiles) * (at.width * N);
  const int left = c.columns - column - at.q * N < N ? int(c.columns - column - at.q * N) : N, count = left > 0 ? at.count : 0;
  int64_t offset[4];
  p.lines.offsets(outer * c.columns + column, offset);
  uint4 *const dys = slots + threadIdx.x, *const ys = dys + c.chunks * kThreads;
  const T* dy = static_cast<const T*>(p.in) + offset[0] + at.q * N * c.across[0] + at.first * p.step[0];
  const T* y = static_cast<const T*>(p.second) + offset[1] + at.q * N * c.across[1] + at.first * p.step[1];
#pragma unroll 4
  for (int k = 0; k < count; ++k, dy += at.row_step * p.step[0], y += at.row_step * p.step[1]) {
    fetch<T, kWhole>(dys + k * kThreads, dy, left, c.across[0]);
    fetch<T, kWhole>(ys + k * kThreads, y, left, c.across[1]);
  }
  V sum[N];
#pragma unroll
  for (int j = 0; j < N; ++j) sum[j] = -0.0;
  device_lines::commit_lines();
  device_lines::wait_for_lines<0>();
#pragma unroll 4
  for (int k = 0; k < count; ++k) {
    const auto e = Packed<T>::load(dys + k * kThreads), v = Packed<T>::load(ys + k * kThreads);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] = p.log ? sum[j] + e[j] : fma(e[j], v[j], sum[j]);
  }
  const int lines = at.width * N;
  const bool mine = int(threadIdx.x) < lines;
  const float block_sum = over_block<N>(sum, scratch, at.width, [](V a, V b) { return a + b; });
  if (mine) own_sum[threadIdx.x] = block_sum;
  if (at.blocks > 1) {
    cluster_barrier();
    gather_blocks(own_sum, scratch, lines, at.blocks);
    __syncthreads();
  }
  if (mine) {
    float all = block_sum;
    if (at.blocks > 1) {
      all = scratch[threadIdx.x];
      for (int b = 1; b < at.blocks; ++b) all = all + scratch[b * lines + int(threadIdx.x)];
    }
    total[threadIdx.x] = all;
  }
  __syncthreads();
  V dot[N];
#pragma unroll
  for (int j = 0; j < N; ++j) dot[j] = V::of(total[at.q * N + j]);
  const V sign = p.sign;
  T* dx = static_cast<T*>(p.out) + offset[3] + at.q * N + at.first * p.step[3];
#pragma unroll 4
  for (int k = 0; k < count; ++k, dx += at.row_step * p.step[3]) {
    const auto e = Packed<T>::load(dys + k * kThreads), v = Packed<T>::load(ys + k * kThreads);
    put<T, kWhole>(dx, Packed<T>::rounded([&](int j) { return slope_of<T>(p.log, e[j], v[j], dot[j], sign); }), left);
  }
  if (at.blocks > 1) cluster_barrier();
}
template <class T, bool kBackward> int columns(const SoftmaxCuda& given, void* stream) {
  ColumnsCuda c{given};
  SoftmaxCuda& p = c.p;
  const int last = p.lines.rank - 1, blocks = softmax_cuda_blocks_of_column(p.n, kBackward);
  p.team = blocks;
  c.width = across_of(p.n, kBackward), c.chunks = int(device::ceil_div(p.n, int64_t(blocks) * (kThreads / c.width)));
  c.columns = p.lines.extent[last], c.tiles = device::ceil_div(c.columns, c.width * kChunk<T>);
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
  return launch_clusters(kernel, blocks, tiles * blocks, kThreads, size_t(16) * kThreads * size_t(c.chunks * (kBackward ? 2 : 1)), stream, c);
}
template <bool kBackward> constexpr ByDType<SoftmaxLaunch> by_dtype_of() {
  return device::floating<SoftmaxLaunch>(columns<f16, kBackward>, columns<bf16, kBackward>, columns<float, kBackward>, nullptr);
}
constexpr SoftmaxRowsCuda kColumns = {by_dtype_of<false>(), by_dtype_of<true>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SoftmaxRowsCuda softmax_columns_cuda = kColumns;
int softmax_cuda_blocks_of_column(int64_t n, bool backward) {
  const int64_t rows = int64_t(kBlockChunks) / (backward ? 2 : 1) * (kThreads / across_of(n, backward));
  int blocks = 1;
  while (blocks <= row_team::kMostCluster && n > blocks * rows) blocks *= 2;
  return blocks <= row_team::kMostCluster ? blocks : 0;
}

}  // namespace baracuda
