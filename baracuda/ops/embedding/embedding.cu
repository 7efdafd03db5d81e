// Forward: rows by index, 16 bytes a thread and four of them at once; reads a row of the table and writes one for each index.
// Backward: occurrences are sorted stably by row (device/radix_sort.cuh), groups of 64 of the rows that have more are summed, then each row
// of dweight adds its occurrences, or its groups, in order, and is written once. Reads dy once, writes dweight: the floor is memory bandwidth.
#include "baracuda/device/map.cuh"
#include "baracuda/device/radix_sort.cuh"
#include "baracuda/ops/embedding/embedding_cuda.hpp"
#include "baracuda/ops/embedding/embedding_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_map::Vector;
using embedding::kGroup;

constexpr int kBlock = 256, kTogether = 4;

__device__ __forceinline__ int64_t index_at(const void* indices, bool i64, int64_t at) {
  return i64 ? static_cast<const int64_t*>(indices)[at] : int64_t(static_cast<const int32_t*>(indices)[at]);
}
// Work item i as row and unit of the row.
struct Units {
  int64_t all, each;
  device::Divisor by;
  bool narrow;
  static Units of(int64_t rows, int64_t each) {
    Units u{rows * each, each, {}, rows * each < int64_t(1) << 31};
    if (u.narrow) u.by = device::Divisor::of(uint32_t(std::max<int64_t>(each, 1)));
    return u;
  }
  __device__ __forceinline__ int64_t row(int64_t i) const { return narrow ? int64_t(by.quotient(uint32_t(i))) : i / each; }
};

struct Copy { EmbeddingCuda p; Units units; };
template <class T> __device__ constexpr T nan_of() {
  if constexpr (std::is_same_v<T, f16>) return {0x7e00};
  else if constexpr (std::is_same_v<T, bf16>) return {0x7fc0};
  else return T(__builtin_nan(""));
}
template <class T, int V> __global__ void __launch_bounds__(kBlock) copy_kernel(const __grid_constant__ Copy q) {
  const EmbeddingCuda& p = q.p;
  for (int64_t i = int64_t(blockIdx.x) * (kBlock * kTogether) + threadIdx.x; i < q.units.all; i += int64_t(gridDim.x) * (kBlock * kTogether)) {
    const T* from[kTogether];
    T* to[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int64_t at = i + k * kBlock;
      to[k] = nullptr;
      if (at >= q.units.all) continue;
      const int64_t row = q.units.row(at), column = (at - row * q.units.each) * V;
      int64_t place[2];
      p.rows.offsets(row, place);
      const int64_t v = index_at(p.indices, p.i64, place[0]);
      from[k] = v >= 0 && v < p.vocabulary ? static_cast<const T*>(p.weight) + v * p.pitch + column : nullptr;
      to[k] = static_cast<T*>(p.y) + place[1] + column;
    }
    Vector<T, V> c[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (!to[k]) continue;
      if (from[k]) c[k] = *reinterpret_cast<const Vector<T, V>*>(from[k]);
      else
#pragma unroll
        for (int j = 0; j < V; ++j) c[k].lane[j] = nan_of<T>();
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (to[k]) *reinterpret_cast<Vector<T, V>*>(to[k]) = c[k];
  }
}
template <class T> int copy(const EmbeddingCuda& p, void* stream) {
  constexpr int V = 16 / int(sizeof(T));
  const Copy q{p, Units::of(p.rows.units, p.width / (p.vectors ? V : 1))};
  if (q.units.all == 0) return 0;
  return device::launch(p.vectors ? copy_kernel<T, V> : copy_kernel<T, 1>, device::blocks_for(q.units.all, kBlock * kTogether), kBlock, 0, stream, q);
}

// --- backward
__global__ void __launch_bounds__(device_sort::kThreads) keys_kernel(const __grid_constant__ EmbeddingBackwardCuda p, const __grid_constant__ device_sort::Sort s) {
  device_sort::make_keys(s, [&](int64_t i, uint32_t& key, uint32_t& value) {
    int64_t at[2];
    p.rows.offsets(i, at);
    const int64_t v = index_at(p.indices, p.i64, at[0]);
    key = v >= 0 && v < p.vocabulary && v != p.padding ? uint32_t(v) : uint32_t(p.vocabulary);  // behind all rows
    value = uint32_t(i);
  });
}
struct First { const uint32_t* keys; uint32_t* first; int64_t n, vocabulary; };
__global__ void __launch_bounds__(kBlock) first_kernel(const __grid_constant__ First p) {
  for (int64_t v = int64_t(blockIdx.x) * kBlock + threadIdx.x; v <= p.vocabulary; v += int64_t(gridDim.x) * kBlock) {
    int64_t low = 0, high = p.n;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      if (p.keys[mid] < v) low = mid + 1;
      else high = mid;
    }
    p.first[v] = uint32_t(low);
  }
}
int sort(const EmbeddingBackwardCuda& p, void* stream) {
  const device_sort::Sort s{{p.s.keys[0], p.s.keys[1]}, {p.s.values[0], p.s.values[1]}, p.s.counts, p.n, device_sort::elements_each(p.n), p.s.parts, p.s.passes};
  int e = 0;
  if (s.parts) {
    keys_kernel<<<unsigned(s.parts), device_sort::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p, s);
    e = int(cudaGetLastError());
    if (!e) e = device_sort::sort(s, stream);
  }
  const First f{s.keys[s.passes % 2], p.s.first, p.n, p.vocabulary};
  return e ? e : device::launch(first_kernel, device::blocks_for(p.vocabulary + 1, kBlock), kBlock, 0, stream, f);
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
        for (int j = 0; j < V; ++j) s.v[j] = s.v[j] + load<1>(&c[k].lane[j]);
  }
  return s;
}
// Where the sum of the group that begins at `at` is kept: of 64 places at most two are beginnings of groups of rows with more, and one
// of them is then a row's first.
__device__ __forceinline__ int64_t kept_at(int64_t at, int64_t first) { return 2 * (at / kGroup) + (at == first); }

struct Sums { EmbeddingBackwardCuda p; Units units; };
template <class T, int V> __global__ void __launch_bounds__(128) groups_kernel(const __grid_constant__ Sums q) {
  using A = Acc<T>;
  const EmbeddingBackwardCuda& p = q.p;
  const uint32_t *keys = p.s.keys[p.s.passes % 2], *order = p.s.values[p.s.passes % 2];
  const int64_t slots = (p.n + kGroup - 1) / kGroup;
  for (int64_t slot = blockIdx.x; slot < slots; slot += gridDim.x)
    for (int half = 0; half < 2; ++half) {
      const int64_t i = slot * kGroup + 32 * half + threadIdx.x % 32;
      const int64_t v = i < p.n ? keys[i] : p.vocabulary;
      bool begins = false;
      int64_t first = 0, end = 0;
      if (v < p.vocabulary) first = p.s.first[v], end = p.s.first[v + 1], begins = end - first > kGroup && (i - first) % kGroup == 0;
      for (unsigned left = __ballot_sync(0xffffffffu, begins); left; left &= left - 1) {
        const int lane = __ffs(left) - 1;
        const int64_t from = slot * kGroup + 32 * half + lane, row = __shfl_sync(0xffffffffu, first, lane), to = __shfl_sync(0xffffffffu, end, lane);
        A* kept = static_cast<A*>(p.s.sums) + kept_at(from, row) * p.width;
        for (int64_t u = int64_t(blockIdx.y) * 128 + threadIdx.x; u < q.units.each; u += int64_t(gridDim.y) * 128) {
          const Columns<T, V> s = sum_group<T, V>(p, order, from, from + kGroup < to ? from + kGroup : to, u * V);
#pragma unroll
          for (int j = 0; j < V; ++j) kept[u * V + j] = s.v[j].v;
        }
        __syncwarp();
      }
    }
}
template <class T, class G, int V> __global__ void __launch_bounds__(kBlock) rows_kernel(const __grid_constant__ Sums q) {
  using A = Acc<T>;
  const EmbeddingBackwardCuda& p = q.p;
  const uint32_t* order = p.s.values[p.s.passes % 2];
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < q.units.all; i += int64_t(gridDim.x) * kBlock) {
    const int64_t v = q.units.row(i), column = (i - v * q.units.each) * V, first = p.s.first[v], end = p.s.first[v + 1];
    if (first == end && p.accumulate) continue;
    embedding::GroupSum<Pack<A, 1>> sum[V];
    if (end - first <= kGroup) {
      const Columns<T, V> s = sum_group<T, V>(p, order, first, end, column);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j].add(s.v[j]);
    } else
      for (int64_t at = first; at < end; at += kGroup) {
        const A* kept = static_cast<const A*>(p.s.sums) + kept_at(at, first) * p.width + column;
#pragma unroll
        for (int j = 0; j < V; ++j) sum[j].add(Pack<A, 1>::of(kept[j]));
      }
    constexpr int W = 16 / int(sizeof(G)) < V ? 16 / int(sizeof(G)) : V;  // dweight goes by 16 bytes at most
    G* out = static_cast<G*>(p.dweight) + v * p.pitch + column;
#pragma unroll
    for (int w = 0; w < V; w += W) {
      Vector<G, W> old{}, now;
      if (p.accumulate) old = *reinterpret_cast<const Vector<G, W>*>(out + w);
#pragma unroll
      for (int j = 0; j < W; ++j) now.lane[j] = first == end ? G{} : embedding::result<G>(sum[w + j].sum(), p.accumulate, old.lane[j]);
      *reinterpret_cast<Vector<G, W>*>(out + w) = now;
    }
  }
}
template <class T, class G> int backward(const EmbeddingBackwardCuda& p, void* stream) {
  constexpr int V = 16 / int(sizeof(T));
  const Sums q{p, Units::of(p.vocabulary, p.width / (p.vectors ? V : 1))};
  int e = 0;
  if (p.n > kGroup)
    e = device::launch(p.vectors ? groups_kernel<T, V> : groups_kernel<T, 1>,
                       dim3(device::blocks_for(p.n, kGroup), unsigned(std::clamp<int64_t>(device::ceil_div(q.units.each, 128), 1, 64))), 128, 0, stream, q);
  return e ? e : device::launch(p.vectors ? rows_kernel<T, G, V> : rows_kernel<T, G, 1>, device::blocks_for(q.units.all, kBlock), kBlock, 0, stream, q);
}
using BackwardFn = int (*)(const EmbeddingBackwardCuda&, void*);
constexpr EmbeddingCudaKernels kKernels = {
    device::floating<int (*)(const EmbeddingCuda&, void*)>(copy<f16>, copy<bf16>, copy<float>, copy<double>), sort,
    device::floating<BackwardFn>(backward<f16, f16>, backward<bf16, bf16>, backward<float, float>, backward<double, double>),
    device::floating<BackwardFn>(backward<f16, float>, backward<bf16, float>, backward<float, float>, backward<double, float>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const EmbeddingCudaKernels embedding_cuda_kernels = kKernels;
void embedding_cuda_split(int64_t n, int64_t vocabulary, int& parts, int& passes) {
  parts = device_sort::parts(n), passes = device_sort::passes(uint64_t(vocabulary));
}

}  // namespace baracuda
