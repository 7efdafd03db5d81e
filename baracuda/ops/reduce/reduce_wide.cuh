#pragma once
// Columns of loops whose state is one number a lane: kLines lines of V columns side by side and P = kLines / 4 lanes a thread, so that what is read of
// a row is 16 kLines bytes wide. The tree is the engine's: lanes of a thread by 32 ..., threads of a warp, warps by 4, 2, 1.
#include "baracuda/ops/reduce/reduce_lanes.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// U: lines of a thread under way.
template <class L, int kLines, int kBlocks, int U> __global__ void __launch_bounds__(kColumnThreads, kBlocks) wide_kernel(const __grid_constant__ ReduceCuda p) {
  using E = typename L::E;
  constexpr int V = 16 / int(sizeof(E)), kAll = kLines * V, P = kLines / 4, kStep = kSumLanes / P;
  static_assert(!L::kHead && !L::kChecks && U % P == 0 && kAll <= kColumnThreads);
  using Own = typename L::template Lanes<1>;
  using S = typename Own::Lane;
  __shared__ S shared[kColumnRows * kAll];
  const int tid = int(threadIdx.x), x = tid % 32 % kLines, y = tid % 32 / kLines * kColumnRows + tid / 32;
  const int64_t inner = p.kept.extent[p.kept.rank - 1], tiles = (inner + kAll - 1) / kAll, units = p.rows / inner * tiles * p.chunks;
  const int64_t step = p.row.stride[0][0] * kStep;
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t begin = u % tiles * kAll, c = u / tiles % p.chunks, a = u / tiles / p.chunks, j = begin + x * V;
    const bool live = j < inner;
    const int64_t o = live ? a * inner + j : 0;
    const int m = live ? chunk_length(p, o, c) : 0;
    const E* at = row_at<E>(p, o) + (c * kSumChunk + y) * p.row.stride[0][0];
    Own own[P][V];
#pragma unroll
    for (int q = 0; q < P; ++q)
#pragma unroll
      for (int k = 0; k < V; ++k) own[q][k].begin(p, p.shift ? p.shift[o + k] : 0);
    for (int i = y; i < m; i += U * kStep) {
      Line<E> line[U];
#pragma unroll
      for (int r = 0; r < U; ++r, at += step)
        if (i + r * kStep < m) line[r] = line_at(at);
#pragma unroll
      for (int r = 0; r < U; ++r) {
        Own(&mine)[V] = own[r % P];
        if (i + r * kStep < m)
#pragma unroll
          for (int k = 0; k < V; ++k) mine[k].step(0, line[r].lane(k), i + r * kStep);
        if (r % (4 * P) >= 3 * P || r >= U - P || L::kTidyEach)
#pragma unroll
          for (int k = 0; k < V; ++k) mine[k].tidy();
      }
    }
    S lane[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      S of[P];
#pragma unroll
      for (int q = 0; q < P; ++q) own[q][k].settle(), of[q] = own[q][k].lane[0];
      lane[k] = fold_own(of, [](const S& a, const S& b) { return Own::join(a, b); });
    }
    const S all = fold_columns<V, kLines>(lane, [](const S& a, const S& b) { return Own::join(a, b); }, shared);
    if (tid < kAll && begin + tid < inner) end_chunk<L>(p, all, a * inner + begin + tid, c, p.shift ? p.shift[a * inner + begin + tid] : 0);
    __syncthreads();
  }
}
constexpr int64_t kShortColumns = 1024, kLeastUnits = 132;
// As launch_loop(); few columns have more blocks there.
template <class L> int launch_sums(const ReduceCuda& given, void* stream) {
  if constexpr (sizeof(typename L::E) < 8)
    if (!given.dense && given.lines) {
      constexpr bool kHalf = sizeof(typename L::E) == 2;
      ReduceCuda p = given;
      p.groups = p.chunks;
      const bool narrow = kHalf && p.n > kShortColumns;
      const int lines = narrow ? 8 : kHalf ? 32 : 16;
      const int64_t inner = p.kept.extent[p.kept.rank - 1], units = p.rows / inner * device::ceil_div(inner, lines * 16 / int(sizeof(typename L::E))) * p.chunks;
      if (units >= kLeastUnits) {
        const auto kernel = [&] {
          if constexpr (kHalf) return narrow ? wide_kernel<L, 8, 4, 4> : wide_kernel<L, 32, 2, 8>;
          else return wide_kernel<L, 16, 4, 4>;
        }();
        if (const int e = device::launch(kernel, device::blocks_for(units, 1), dim3(kColumnThreads), 0, stream, p)) return e;
        return p.groups == 1 ? 0 : reduce_cuda_join(p, stream);
      }
    }
  return launch_loop<L>(given, stream);
}
template <template <class> class K, ReduceLoop kLoop> constexpr ByDType<ReduceLaunch> sum_loops() {
  return device::floating<ReduceLaunch>(launch_sums<KindLoop<f16, K<f16>, kLoop>>, launch_sums<KindLoop<bf16, K<bf16>, kLoop>>, launch_sums<KindLoop<float, K<float>, kLoop>>,
                                        launch_sums<KindLoop<double, K<double>, kLoop>>);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
