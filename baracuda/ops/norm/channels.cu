// Sums of BatchNorm and GroupNorm. A team of threads has a chunk of a list in registers, 16 elements a thread, reads it once, and sums it
// around a mean of its own; a warp joins the chunks of a list in f64. The order depends on the list's length alone. The floor is
// reading x (and dy).
#include "baracuda/ops/norm/channels.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kTeam = kListChunk / kEach, kJoinThreads = 128;
// Lists of so many chunks are joined by the threads of a block, not of a warp.
constexpr int kManyChunks = 1024, kManyThreads = 512;

// kVector: a chunk of 16 bytes is one load.
template <class T, bool kGradient, bool kVector> __global__ void __launch_bounds__(kTeam) sums_kernel(const __grid_constant__ ListSumsCuda p) {
  using A = Acc<T>;
  using V = Pack<A, 1>;
  constexpr int N = kChunk<T>, R = kEach / N;
  __shared__ A shared[2][3 * 64];
  const row_team::Team t(p.team);
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
    Sums<A>* const to = static_cast<Sums<A>*>(p.sums) + unit;
    Sums<A> sums;
    if constexpr (kGradient) {
      const ListKept<A>& kept = static_cast<const ListKept<A>*>(p.kept)[list / p.cells];
      __syncthreads();  // the sums before may still be read
      sums = gradient_sums(t, x, dy, m, V::of(kept.shift), V::of(kept.scale), shared[0]);
    } else sums = moment_sums(t, x, m, shared);
    if (live && t.thread == 0) *to = sums;
  }
}

template <class T, bool kMany> __global__ void __launch_bounds__(kMany ? kManyThreads : kJoinThreads) join_kernel(const __grid_constant__ ListJoinCuda p) {
  using A = Acc<T>;
  constexpr int kThreads = kMany ? kManyThreads : 32, kLists = kMany ? 1 : kJoinThreads / 32;
  for (int64_t list = int64_t(blockIdx.x) * kLists + (kMany ? 0 : threadIdx.x / 32); list < p.lists; list += int64_t(gridDim.x) * kLists) {
    const Statistics s = found_statistics<T, kThreads>(p, list, static_cast<const Sums<A>*>(p.sums) + list * ((p.n + kListChunk - 1) / kListChunk));
    if (threadIdx.x % kThreads) continue;
    if (p.kept) keep(s, static_cast<ListKept<A>*>(p.kept)[list]);
    put_statistics<T>(p, list, s);
  }
}
template <class T, bool kMany> __global__ void __launch_bounds__(kMany ? kManyThreads : kJoinThreads) join_gradient_kernel(const __grid_constant__ GradientJoinCuda p) {
  using A = Acc<T>;
  constexpr int kThreads = kMany ? kManyThreads : 32, kLists = kMany ? 1 : kJoinThreads / 32;
  const int lane = int(threadIdx.x) % kThreads;
  for (int64_t list = int64_t(blockIdx.x) * kLists + (kMany ? 0 : threadIdx.x / 32); list < p.lists; list += int64_t(gridDim.x) * kLists) {
    const Sums<A>* const sums = static_cast<const Sums<A>*>(p.sums) + list * p.cells * p.chunks;
    ListKept<A>& kept = static_cast<ListKept<A>*>(p.kept)[list];
    const auto weight_of = [&](int64_t channel) { return p.weight.data ? number<T>(p.weight, channel) : 1.0; };
    GradientSums all{0, 0, 0};
    if (!kMany && p.cell_dweight) {
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
      all = list_gradient<T, kThreads>(p, list, sums, weight_of(list));
    }
    if (lane || p.given) continue;
    if (p.rms) all.e = all.h = 0;
    keep(gradient_means(all, p.n, double(kept.scale)), kept);
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
  if (p.from == ListStatistics::sums && list_chunks(p.n) >= kManyChunks) return device::launch(join_kernel<T, true>, device::blocks_for(p.lists, 1), dim3(kManyThreads), 0, stream, p);
  return device::launch(join_kernel<T, false>, device::blocks_for(p.lists * 32, kJoinThreads), dim3(kJoinThreads), 0, stream, p);
}
template <class T> int join_gradient(const GradientJoinCuda& p, void* stream) {
  if (p.lists == 0) return 0;
  if (!p.cell_dweight && p.chunks >= kManyChunks) return device::launch(join_gradient_kernel<T, true>, device::blocks_for(p.lists, 1), dim3(kManyThreads), 0, stream, p);
  return device::launch(join_gradient_kernel<T, false>, device::blocks_for(p.lists * 32, kJoinThreads), dim3(kJoinThreads), 0, stream, p);
}
constexpr ChannelCudaKernels kKernels = {
    device::floating<int (*)(const ListSumsCuda&, void*)>(sums<f16>, sums<bf16>, sums<float>, sums<double>),
    device::floating<int (*)(const ListJoinCuda&, void*)>(join<f16>, join<bf16>, join<float>, join<double>),
    device::floating<int (*)(const GradientJoinCuda&, void*)>(join_gradient<f16>, join_gradient<bf16>, join_gradient<float>, join_gradient<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ChannelCudaKernels channel_cuda_kernels = kKernels;

}  // namespace baracuda
