// scatter, index_put and the gradients of gather and index: reads x, and each element of src once; writes y. A thread has one element of y and goes
// through what falls on it in the order of the indices, so that bits depend on nothing else; replace takes the last, which is the
// greatest of the numbers that its positions write to a word, without a sort.
#include "baracuda/device/map.cuh"
#include "baracuda/device/radix_sort.cuh"
#include "baracuda/ops/index/index_math.hpp"
#include "baracuda/ops/index/scatter_cuda.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBlock = 256;

// The place of position i; p.s.rows where it is none. kKeys: at least p.keys; offsets of more take time.
template <int kKeys> __device__ __forceinline__ uint32_t place_of(const PlacesCuda& p, int64_t i) {
  int64_t at[1 + kMaxRank];
  p.positions.offsets(i, at);
  int64_t place = at[0];
  bool inside = true;
#pragma unroll
  for (int k = 0; k < kKeys; ++k) {
    if (kKeys > 1 && k >= p.keys) break;
    const int64_t raw = p.i64 ? static_cast<const int64_t*>(p.key[k])[at[1 + k]] : int64_t(static_cast<const int32_t*>(p.key[k])[at[1 + k]]);
    const int64_t index = indexing::place_of(raw, p.extent[k], p.negative, p.clip);
    inside = inside && index >= 0 && index < p.extent[k];
    place += index * p.add[k];
  }
  return uint32_t(inside ? place : p.s.rows);
}
template <int kKeys> __global__ void __launch_bounds__(device_sort::kThreads) keys_kernel(const __grid_constant__ PlacesCuda p) {
  device_sort::make_keys(p.s, [&](int64_t i, uint32_t& key, uint32_t& value) { key = place_of<kKeys>(p, i), value = uint32_t(i); });
}
// p.s.first: the last position of each place, plus 1; 0: none.
template <int kKeys> __global__ void __launch_bounds__(kBlock) last_kernel(const __grid_constant__ PlacesCuda p) {
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.s.n; i += int64_t(gridDim.x) * kBlock) {
    const uint32_t place = place_of<kKeys>(p, i);
    if (place < p.s.rows) atomicMax(&p.s.first[place], uint32_t(i) + 1);
  }
}
int last(const PlacesCuda& p, void* stream) {
  if (const cudaError_t e = cudaMemsetAsync(p.s.first, 0, size_t(p.s.rows) * sizeof(uint32_t), static_cast<cudaStream_t>(stream))) return int(e);
  return p.s.n ? device::launch(p.keys == 1 ? last_kernel<1> : last_kernel<kMaxRank>, device::blocks_for(p.s.n, kBlock), kBlock, 0, stream, p) : 0;
}
int sort(const PlacesCuda& p, void* stream) {
  return device_sort::sort(p.s, stream, [&](unsigned parts) { return device::launch(p.keys == 1 ? keys_kernel<1> : keys_kernel<kMaxRank>, parts, device_sort::kThreads, 0, stream, p); });
}

// f(offsets, first, end) for each element of y: its own positions among the sorted ones.
template <class F> __device__ __forceinline__ void for_elements(const ScatterCuda& p, F f) {
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[4];
    p.walk.offsets(i, at);
    f(at, p.s.first[at[2]], p.s.first[at[2] + 1]);
  }
}
template <int k = 0, int K> __device__ __forceinline__ int64_t source_at(const device::SortedRows& s, const device::Walk<K>& positions, uint32_t sorted, int64_t column) {
  int64_t at[K];
  positions.offsets(s.order()[sorted], at);
  return at[k] + column;
}
template <class T> __global__ void __launch_bounds__(kBlock) combine_kernel(const __grid_constant__ ScatterCuda p) {
  using S = indexing::Sum<T>;
  const T *x = static_cast<const T*>(p.x), *src = static_cast<const T*>(p.src);
  for_elements(p, [&](const int64_t (&at)[4], uint32_t first, uint32_t end) {
    T y = x ? x[at[1]] : T{};
    if (first < end && (p.combine == CombineCuda::amax || p.combine == CombineCuda::amin)) {
      const bool largest = p.combine == CombineCuda::amax;
      if (!p.self) y = indexing::beaten<T>(largest);
      for (uint32_t i = first; i < end; ++i) {
        const T one = src[source_at(p.s, p.positions, i, at[3])];
        if (indexing::beats(one, y, largest)) y = one;
      }
    } else if (first < end) {
      S sum{};
      if (p.self) {
        if constexpr (kIsHalf<T>) sum = to_float(y);
        else sum = y;
      }
      for (uint32_t i = first; i < end; ++i) sum = indexing::sum_of(sum, src[source_at(p.s, p.positions, i, at[3])], p.alpha);
      y = indexing::mean_of<T>(sum, p.combine == CombineCuda::mean ? int64_t(end - first) + p.self : 1);
    }
    static_cast<T*>(p.y)[at[0]] = y;
  });
}
struct alignas(16) Bits16 { uint64_t low, high; };
// U: an element, or several side by side.
template <class U> __global__ void __launch_bounds__(kBlock) replace_kernel(const __grid_constant__ ScatterCuda p) {
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[4], from[1] = {};
    p.walk.offsets(i, at);
    const uint32_t last = p.s.first[at[2]];
    if (last) p.positions.offsets(last - 1, from);
    const char* source = last ? static_cast<const char*>(p.src) + (from[0] + at[3]) * p.bytes : static_cast<const char*>(p.x) + at[1] * p.bytes;
    *reinterpret_cast<U*>(static_cast<char*>(p.y) + at[0] * p.bytes) = *reinterpret_cast<const U*>(source);
  }
}
template <class T> int combine(const ScatterCuda& p, void* stream) {
  return device::launch(combine_kernel<T>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
}
template <class U> int replace(const ScatterCuda& p, void* stream) {
  return device::launch(replace_kernel<U>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
}
template <class T> __global__ void __launch_bounds__(kBlock) backward_kernel(const __grid_constant__ ScatterBackwardCuda p) {
  using indexing::equal, indexing::share;
  const T *dy = static_cast<const T*>(p.dy), *x = static_cast<const T*>(p.x), *src = static_cast<const T*>(p.src), *y = static_cast<const T*>(p.y);
  for (int64_t e = int64_t(blockIdx.x) * kBlock + threadIdx.x; e < p.walk.units; e += int64_t(gridDim.x) * kBlock) {
    int64_t at[7];
    p.walk.offsets(e, at);
    const uint32_t first = p.s.first[at[4]], end = p.s.first[at[4] + 1];
    const T g = dy[at[1]];
    const bool fell = first < end, mine = p.extremum ? equal(x[at[2]], y[at[3]]) && (p.self || !fell) : p.self || p.replace;
    const auto stays = [&](uint32_t i) { return !p.extremum || equal(src[source_at<1>(p.s, p.positions, i, at[6])], y[at[3]]); };
    int64_t n = mine && !p.replace;  // among whom dy is shared
    if (p.extremum)
      for (uint32_t i = first; i < end; ++i) n += stays(i);
    else n += end - first;
    if (p.dx) {
      T d = g;
      if (p.replace) d = fell ? T{} : g;
      else if (p.add) d = fell && !p.self ? T{} : g;
      else if (p.extremum ? mine : p.self) d = share(g, 1, n);
      else if (p.extremum || fell) d = T{};
      static_cast<T*>(p.dx)[at[0]] = d;
    }
    if (!p.dsrc) continue;
    for (uint32_t i = first; i < end; ++i) {
      T d{};
      if (p.replace) d = i + 1 == end ? g : T{};
      else if (p.add) d = share(g, p.alpha, 1);
      else if (stays(i)) d = share(g, 1, n);
      static_cast<T*>(p.dsrc)[source_at<0>(p.s, p.positions, i, at[5])] = d;
    }
  }
}
template <class T> int backward(const ScatterBackwardCuda& p, void* stream) {
  return device::launch(backward_kernel<T>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
}
using ScatterFn = int (*)(const ScatterCuda&, void*);
template <class... T> constexpr ByDType<ScatterFn> combines(TypeList<T...>) {
  ByDType<ScatterFn> table;
  ((table[kDTypeOf<T>] = combine<T>), ...);
  return table;
}
constexpr ScatterCudaKernels kKernels = {
    sort, last, combines(TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>{}),
    {replace<uint8_t>, replace<uint16_t>, replace<uint32_t>, replace<uint64_t>, replace<Bits16>},
    device::floating<int (*)(const ScatterBackwardCuda&, void*)>(backward<f16>, backward<bf16>, backward<float>, backward<double>)};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScatterCudaKernels scatter_cuda_kernels = kKernels;

}  // namespace baracuda
