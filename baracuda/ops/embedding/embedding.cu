// Forward: rows by index, four times 16 bytes a thread at once, or once where there are few; reads a row of the table and writes one for each index.
// Backward: occurrences are sorted stably by row (device/radix_sort.cuh), groups of 64 of the rows that have more are summed, then each row
// of dweight adds its occurrences, or its groups, in order, and is written once. Reads dy once, writes dweight: the floor is memory bandwidth.
#include "baracuda/device/half.cuh"
#include "baracuda/device/map.cuh"
#include "baracuda/device/radix_sort.cuh"
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/embedding/embedding_cuda.hpp"
#include "baracuda/ops/embedding/embedding_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_map::Vector;
using embedding::kGroup;

using device_teams::Teams;

constexpr int kCopies = 4, kSums = 2;  // units of a thread at once
constexpr int64_t kFew = 1 << 18;     // units, below which a thread copies one, so that all multiprocessors have some

__device__ __forceinline__ int64_t index_at(const void* indices, bool i64, int64_t at) {
  return i64 ? static_cast<const int64_t*>(indices)[at] : int64_t(static_cast<const int32_t*>(indices)[at]);
}

struct Copy { EmbeddingCuda p; Teams teams; };
template <class T> __device__ constexpr T nan_of() {
  if constexpr (std::is_same_v<T, f16>) return {0x7e00};
  else if constexpr (std::is_same_v<T, bf16>) return {0x7fc0};
  else return T(__builtin_nan(""));
}
template <class T, int V, int kCopies> __global__ void __launch_bounds__(device_teams::kThreads) copy_kernel(const __grid_constant__ Copy q) {
  using Unit = Vector<T, V>;
  struct Row { const Unit* from; Unit* to; };
  const EmbeddingCuda& p = q.p;
  Unit none;
#pragma unroll
  for (int j = 0; j < V; ++j) none.lane[j] = nan_of<T>();
  device_teams::for_rows<kCopies>(q.teams, [&](int64_t row) {
    int64_t at[2];
    p.rows.offsets(row, at);
    const int64_t v = index_at(p.indices, p.i64, at[0]);
    const bool inside = v >= 0 && v < p.vocabulary;
    return Row{inside ? reinterpret_cast<const Unit*>(static_cast<const T*>(p.weight) + v * p.pitch) : nullptr, reinterpret_cast<Unit*>(static_cast<T*>(p.y) + at[1])};
  }, [&](const Row& row, int64_t u) {
    Unit c[kCopies];
#pragma unroll
    for (int k = 0; k < kCopies; ++k)
      if (u + (k << q.teams.log) < q.teams.units) c[k] = row.from ? row.from[u + (k << q.teams.log)] : none;
#pragma unroll
    for (int k = 0; k < kCopies; ++k)
      if (u + (k << q.teams.log) < q.teams.units) row.to[u + (k << q.teams.log)] = c[k];
  });
}
template <class T, int kCopies> int copy_by(const EmbeddingCuda& p, int64_t units, void* stream) {
  const Copy q{p, Teams::of(p.rows.units, units, kCopies)};
  return device::launch(p.vectors ? copy_kernel<T, 16 / int(sizeof(T)), kCopies> : copy_kernel<T, 1, kCopies>, q.teams.grid(kCopies), device_teams::kThreads, 0, stream, q);
}
template <class T> int copy(const EmbeddingCuda& p, void* stream) {
  const int64_t units = p.width / (p.vectors ? 16 / int(sizeof(T)) : 1);
  return p.rows.units * units < kFew ? copy_by<T, 1>(p, units, stream) : copy_by<T, kCopies>(p, units, stream);
}

// --- backward
__global__ void __launch_bounds__(device_sort::kThreads) keys_kernel(const __grid_constant__ EmbeddingBackwardCuda p) {
  device_sort::make_keys(p.s, [&](int64_t i, uint32_t& key, uint32_t& value) {
    int64_t at[2];
    p.rows.offsets(i, at);
    const int64_t v = index_at(p.indices, p.i64, at[0]);
    key = uint32_t(v >= 0 && v < p.vocabulary && v != p.padding ? v : p.vocabulary);
    value = uint32_t(i);
  });
}
int sort(const EmbeddingBackwardCuda& p, void* stream) {
  return device_sort::sort(p.s, stream, [&](unsigned parts) { return device::launch(keys_kernel, parts, device_sort::kThreads, 0, stream, p); });
}

// Sum of occurrences begin .. end (at most kGroup) of the sorted order, of V columns.
template <class T, int V> struct Columns { Pack<Acc<T>, 1> v[V]; };
template <class T, int V> __device__ __forceinline__ Columns<T, V> sum_group(const EmbeddingBackwardCuda& p, const uint32_t* order, int64_t begin, int64_t end, int64_t column) {
  constexpr int kAhead = 4;
  Columns<T, V> s;
#pragma unroll
  for (int j = 0; j < V; ++j) s.v[j] = -0.0;
  for (int64_t i = begin; i < end; i += kAhead) {
    Vector<T, V> c[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k >= end) continue;
      int64_t at[2];
      p.rows.offsets(order[i + k], at);
      c[k] = *reinterpret_cast<const Vector<T, V>*>(static_cast<const T*>(p.dy) + at[1] + column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k < end)
#pragma unroll
        for (int j = 0; j < V; ++j) s.v[j] = s.v[j] + value(c[k].lane[j]);
  }
  return s;
}
// Where the sum of the group that begins at `at` is kept: of 64 places at most two are beginnings of groups of rows with more, and one
// of them is then a row's first.
__device__ __forceinline__ int64_t kept_at(int64_t at, int64_t first) { return 2 * (at / kGroup) + (at == first); }

// embedding::result by the processor's conversions.
template <class G, class A> __device__ __forceinline__ G result(Pack<A, 1> sum, bool accumulate, G old) {
  if constexpr (kIsHalf<G>) return element<G>(accumulate ? value(old) + sum : sum);
  else return embedding::result<G>(sum, accumulate, old);
}

struct Sums { EmbeddingBackwardCuda p; Teams teams; };
template <class T, int V> __global__ void __launch_bounds__(128) groups_kernel(const __grid_constant__ Sums q) {
  using A = Acc<T>;
  const EmbeddingBackwardCuda& p = q.p;
  const uint32_t *keys = p.s.sorted(), *order = p.s.order();
  const int64_t slots = (p.s.n + kGroup - 1) / kGroup;
  for (int64_t slot = blockIdx.x; slot < slots; slot += gridDim.x)
    for (int half = 0; half < 2; ++half) {
      const int64_t i = slot * kGroup + 32 * half + threadIdx.x % 32;
      const int64_t v = i < p.s.n ? keys[i] : p.vocabulary;
      bool begins = false;
      int64_t first = 0, end = 0;
      if (v < p.vocabulary) first = p.s.first[v], end = p.s.first[v + 1], begins = end - first > kGroup && (i - first) % kGroup == 0;
      for (unsigned left = __ballot_sync(0xffffffffu, begins); left; left &= left - 1) {
        const int lane = __ffs(left) - 1;
        const int64_t from = slot * kGroup + 32 * half + lane, row = __shfl_sync(0xffffffffu, first, lane), to = __shfl_sync(0xffffffffu, end, lane);
        A* kept = static_cast<A*>(p.sums) + kept_at(from, row) * p.width;
        for (int64_t u = int64_t(blockIdx.y) * 128 + threadIdx.x; u < q.teams.units; u += int64_t(gridDim.y) * 128) {
          const Columns<T, V> s = sum_group<T, V>(p, order, from, from + kGroup < to ? from + kGroup : to, u * V);
#pragma unroll
          for (int j = 0; j < V; ++j) kept[u * V + j] = s.v[j].v;
        }
        __syncwarp();
      }
    }
}
template <class T, class G, int V> __global__ void __launch_bounds__(device_teams::kThreads) rows_kernel(const __grid_constant__ Sums q) {
  using A = Acc<T>;
  using P = Pack<A, 1>;
  struct Row { int64_t v, first, end; };
  const EmbeddingBackwardCuda& p = q.p;
  const uint32_t* order = p.s.order();
  device_teams::for_rows<kSums>(q.teams, [&](int64_t v) { return Row{v, p.s.first[v], p.s.first[v + 1]}; }, [&](const Row& row, int64_t u) {
    if (row.first == row.end && p.accumulate) return;
    const bool second = u + (1 << q.teams.log) < q.teams.units;
    const int64_t column[kSums] = {u * V, (u + (1 << q.teams.log)) * V};
    P sum[kSums][V];
#pragma unroll
    for (int k = 0; k < kSums; ++k)
#pragma unroll
      for (int j = 0; j < V; ++j) sum[k][j] = -0.0;
    if (row.end - row.first <= kGroup) {  // one group: its sum is that of the groups
      for (int64_t i = row.first; i < row.end; i += 2) {
        Vector<T, V> c[2][kSums];
        const bool more = i + 1 < row.end;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          if (n && !more) continue;
          int64_t at[2];
          p.rows.offsets(order[i + n], at);
          const T* dy = static_cast<const T*>(p.dy) + at[1];
          c[n][0] = *reinterpret_cast<const Vector<T, V>*>(dy + column[0]);
          if (second) c[n][1] = *reinterpret_cast<const Vector<T, V>*>(dy + column[1]);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          if (n && !more) continue;
#pragma unroll
          for (int k = 0; k < kSums; ++k)
            if (k == 0 || second)
#pragma unroll
              for (int j = 0; j < V; ++j) sum[k][j] = sum[k][j] + value(c[n][k].lane[j]);
        }
      }
    } else
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        if (k && !second) continue;
        embedding::GroupSum<P> groups[V];
        for (int64_t at = row.first, number = 1; at < row.end; at += kGroup, ++number) {
          const A* kept = static_cast<const A*>(p.sums) + kept_at(at, row.first) * p.width + column[k];
#pragma unroll
          for (int j = 0; j < V; ++j) groups[j].add(P::of(kept[j]), number);
        }
#pragma unroll
        for (int j = 0; j < V; ++j) sum[k][j] = groups[j].sum();
      }
    constexpr int W = 16 / int(sizeof(G)) < V ? 16 / int(sizeof(G)) : V;  // dweight goes by 16 bytes at most
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      if (k && !second) continue;
      G* out = static_cast<G*>(p.dweight) + row.v * p.pitch + column[k];
#pragma unroll
      for (int w = 0; w < V; w += W) {
        Vector<G, W> old{}, now;
        if (p.accumulate) old = *reinterpret_cast<const Vector<G, W>*>(out + w);
#pragma unroll
        for (int j = 0; j < W; ++j) now.lane[j] = row.first == row.end ? G{} : result<G>(sum[k][w + j], p.accumulate, old.lane[j]);
        *reinterpret_cast<Vector<G, W>*>(out + w) = now;
      }
    }
  });
}
template <class T, class G> int backward(const EmbeddingBackwardCuda& p, void* stream) {
  constexpr int V = 16 / int(sizeof(T));
  const Sums q{p, Teams::of(p.vocabulary, p.width / (p.vectors ? V : 1), kSums)};
  int e = 0;
  if (p.s.n > kGroup)
    e = device::launch(p.vectors ? groups_kernel<T, V> : groups_kernel<T, 1>,
                       dim3(device::blocks_for(p.s.n, kGroup), unsigned(std::clamp<int64_t>(device::ceil_div(q.teams.units, 128), 1, 64))), 128, 0, stream, q);
  return e ? e : device::launch(p.vectors ? rows_kernel<T, G, V> : rows_kernel<T, G, 1>, q.teams.grid(kSums), device_teams::kThreads, 0, stream, q);
}
using BackwardFn = int (*)(const EmbeddingBackwardCuda&, void*);
constexpr EmbeddingCudaKernels kKernels = {
    device::floating<int (*)(const EmbeddingCuda&, void*)>(copy<f16>, copy<bf16>, copy<float>, copy<double>), sort,
    device::floating<BackwardFn>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, backward<double, double>),
    device::floating<BackwardFn>(backward<f16, float>, backward<bf16, float>, backward<float, float>, backward<double, float>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const EmbeddingCudaKernels embedding_cuda_kernels = kKernels;

}  // namespace baracuda
