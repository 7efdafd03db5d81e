// gather, index and one_hot: teams of threads write rows of one index, four times 16 bytes a thread at once; where neighbours differ a thread writes an
// element. Reads the indices and what they name, writes y: the floor is memory bandwidth.
#include "baracuda/device/map.cuh"
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/index/index_cuda.hpp"
#include "baracuda/ops/index/index_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_map::Vector;

using device_teams::Teams;

constexpr int kBlock = device_teams::kThreads, kTogether = 4;

struct alignas(16) Bits16 { uint64_t low, high; };
template <class U> __device__ __forceinline__ U element_of(const uint64_t (&bits)[2]) {
  if constexpr (sizeof(U) == 16) return {bits[0], bits[1]};
  else return U(bits[0]);
}
__device__ __forceinline__ int64_t index_at(const void* indices, bool i64, int64_t at) {
  return i64 ? static_cast<const int64_t*>(indices)[at] : int64_t(static_cast<const int32_t*>(indices)[at]);
}

// Where the indices of an element lead in x; false where one of them names nothing.
template <int K> __device__ __forceinline__ bool lead(const GatherCuda<K>& p, const int64_t (&at)[2 + K], int64_t& from) {
  bool inside = true;
  from = at[1];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (k >= p.keys) break;
    const int64_t place = indexing::place_of(index_at(p.key[k], p.i64, at[2 + k]), p.extent[k], p.negative, p.clip);
    inside = inside && place >= 0 && place < p.extent[k];
    from += place * p.add[k];
  }
  return inside;
}
template <class U, int K> __global__ void __launch_bounds__(kBlock) gather_kernel(const __grid_constant__ GatherCuda<K> p) {
  const U none = element_of<U>(p.none);
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[2 + K], from;
    p.walk.offsets(i, at);
    const bool inside = lead(p, at, from);
    static_cast<U*>(p.y)[at[0]] = inside ? static_cast<const U*>(p.x)[from] : none;
  }
}
// Four neighbours of y and their indices at once.
template <class U> __global__ void __launch_bounds__(kBlock) gather_apart_kernel(const __grid_constant__ GatherCuda<1> p) {
  struct alignas(kIndexApart * sizeof(U) < 16 ? kIndexApart * sizeof(U) : 16) Four { U lane[kIndexApart]; };
  const U none = element_of<U>(p.none);
  const int step = p.walk.spread[1] ? 0 : 1;
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[3], index[kIndexApart];
    p.walk.offsets(i, at);
    if (p.i64) {
      const longlong2 *wide = reinterpret_cast<const longlong2*>(static_cast<const int64_t*>(p.key[0]) + at[2]), low = wide[0], high = wide[1];
      index[0] = low.x, index[1] = low.y, index[2] = high.x, index[3] = high.y;
    } else {
      const int4 four = *reinterpret_cast<const int4*>(static_cast<const int32_t*>(p.key[0]) + at[2]);
      index[0] = four.x, index[1] = four.y, index[2] = four.z, index[3] = four.w;
    }
    Four y;
#pragma unroll
    for (int j = 0; j < kIndexApart; ++j) {
      const int64_t place = indexing::place_of(index[j], p.extent[0], p.negative, p.clip);
      y.lane[j] = place >= 0 && place < p.extent[0] ? static_cast<const U*>(p.x)[at[1] + j * step + place * p.add[0]] : none;
    }
    *reinterpret_cast<Four*>(static_cast<U*>(p.y) + at[0]) = y;
  }
}
__device__ __forceinline__ int64_t hot_class(const OneHotCuda& p, int64_t at) {
  return indexing::place_of(index_at(p.indices, p.i64, at), p.classes, p.negative, p.clip);
}
template <class U> __global__ void __launch_bounds__(kBlock) one_hot_kernel(const __grid_constant__ OneHotCuda p) {
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[3];
    p.walk.offsets(i, at);
    static_cast<U*>(p.y)[at[0]] = hot_class(p, at[1]) == at[2] ? U(p.one) : U{};
  }
}

// Vectors: the last axis of the walk is a row, of one index.
template <class P> struct Rows { P p; Teams teams; };
constexpr int64_t kFewUnits = 132 * 2048;  // a unit a thread fills no more than the device
template <class P> Rows<P> rows_of(const P& p, int each) {
  const int64_t units = p.walk.extent[p.walk.rank - 1];
  return {p, Teams::of(units ? p.walk.units / units : 0, units, p.walk.units <= kFewUnits ? 1 : each)};
}
template <int K> inline constexpr int kUnits = K == 1 ? kTogether : 2;  // many keys take registers
template <class U, int K> __global__ void __launch_bounds__(kBlock, 2) gather_rows_kernel(const __grid_constant__ Rows<GatherCuda<K>> q) {
  using Unit = Vector<U, 16 / int(sizeof(U))>;
  struct Row { const Unit* from; Unit* to; };
  const GatherCuda<K>& p = q.p;
  Unit none;
#pragma unroll
  for (auto& lane : none.lane) lane = element_of<U>(p.none);
  device_teams::for_rows<kUnits<K>>(q.teams, [&](int64_t row) {
    int64_t at[2 + K], from;
    p.walk.offsets(row * q.teams.units, at);
    const bool inside = lead(p, at, from);
    return Row{inside ? reinterpret_cast<const Unit*>(static_cast<const U*>(p.x) + from) : nullptr, reinterpret_cast<Unit*>(static_cast<U*>(p.y) + at[0])};
  }, [&](const Row& row, int64_t u) {
    Unit c[kUnits<K>];
#pragma unroll
    for (int k = 0; k < kUnits<K>; ++k)
      if (u + (k << q.teams.log) < q.teams.units) c[k] = row.from ? row.from[u + (k << q.teams.log)] : none;
#pragma unroll
    for (int k = 0; k < kUnits<K>; ++k)
      if (u + (k << q.teams.log) < q.teams.units) row.to[u + (k << q.teams.log)] = c[k];
  });
}
template <class U> __global__ void __launch_bounds__(kBlock) one_hot_rows_kernel(const __grid_constant__ Rows<OneHotCuda> q) {
  constexpr int V = 16 / int(sizeof(U));
  using Unit = Vector<U, V>;
  struct Row { int64_t hot; Unit* to; };
  const OneHotCuda& p = q.p;
  device_teams::for_rows<kTogether>(q.teams, [&](int64_t row) {
    int64_t at[3];
    p.walk.offsets(row * q.teams.units, at);
    return Row{hot_class(p, at[1]), reinterpret_cast<Unit*>(static_cast<U*>(p.y) + at[0])};
  }, [&](const Row& row, int64_t u) {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int64_t unit = u + (k << q.teams.log);
      if (unit >= q.teams.units) continue;
      Unit v;
#pragma unroll
      for (int j = 0; j < V; ++j) v.lane[j] = row.hot == unit * V + j ? U(p.one) : U{};
      row.to[unit] = v;
    }
  });
}
template <class U, int K> int gather(const GatherCuda<K>& p, void* stream) {
  if constexpr (K == 1)
    if (p.apart) return device::launch(gather_apart_kernel<U>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
  if (p.walk.lanes == 1) return device::launch(gather_kernel<U, K>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
  const auto q = rows_of(p, kUnits<K>);
  return device::launch(gather_rows_kernel<U, K>, q.teams.grid(kUnits<K>), kBlock, 0, stream, q);
}
template <class U> int one_hot(const OneHotCuda& p, void* stream) {
  if (p.walk.lanes == 1) return device::launch(one_hot_kernel<U>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
  const auto q = rows_of(p, kTogether);
  return device::launch(one_hot_rows_kernel<U>, q.teams.grid(kTogether), kBlock, 0, stream, q);
}
constexpr IndexCudaKernels kKernels = {
    {gather<uint8_t, 1>, gather<uint16_t, 1>, gather<uint32_t, 1>, gather<uint64_t, 1>, gather<Bits16, 1>},
    {gather<uint8_t, kMaxRank>, gather<uint16_t, kMaxRank>, gather<uint32_t, kMaxRank>, gather<uint64_t, kMaxRank>, gather<Bits16, kMaxRank>},
    {one_hot<uint8_t>, one_hot<uint16_t>, one_hot<uint32_t>, one_hot<uint64_t>}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const IndexCudaKernels index_cuda_kernels = kKernels;

}  // namespace baracuda
