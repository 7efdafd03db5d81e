#pragma once
// The sum of one output of a map over some of its axes: the gradient of an operand that was broadcast. The map is computed as it
// is added, in f64, so that nothing of its full size is stored; the floor is reading the inputs once.
//
// Elements stand as [outer, summed, last]: `last` are kept axes behind the summed ones (1: none, the sum runs along the last
// axis). A block has kSumBlock threads: some columns of units of V neighbours, and for each of them threads that take every S-th
// summed index; their sums are joined pairwise. Where that is too little for a device, the summed index is cut into chunks, whose
// sums a second kernel joins in the same way. Everything about the order depends on summed, last and the dtype alone: neither on
// strides and alignment nor on how many such sums there are.
#include "baracuda/device/map.cuh"
#include "baracuda/device/sum_shape.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_map {

// The sum of values: as many doubles as a value has parts.
template <class A> struct Total;
template <class C> struct Total<Pack<C, 1>> {
  double sum[1] = {};
  __device__ __forceinline__ void add(Pack<C, 1> v) { sum[0] = sum[0] + double(v.v); }
  template <class E> __device__ __forceinline__ E as() const { return from_double<E>(sum[0]); }
};
template <class A> inline constexpr int kParts = sizeof(Total<A>) / sizeof(double);

template <class F> struct MapSum {
  F f;
  device::Walk<F::in> walk;  // [outer, summed, last]
  const void* x[F::in];
  bool even;                 // each operand moves by one step from a summed unit to the next
  int64_t step[F::in];
  int which;
  device::SumShape shape;
  device::SumCut cut;
  double* partial;           // [chunk, kept, parts]; null: one chunk, into y
  device::Walk<1> target;
  void* y;
};

// Joins the sums of the threads of a column; the first has the result. `shared`: kSumBlock doubles.
__device__ __forceinline__ double joined_column(double v, double* shared, int column, int columns, int thread) {
  __syncthreads();
  shared[thread * columns + column] = v;
  for (int n = device::kSumBlock / columns / 2; n > 0; n /= 2) {
    __syncthreads();
    if (thread < n) shared[thread * columns + column] = shared[thread * columns + column] + shared[(thread + n) * columns + column];
  }
  __syncthreads();
  return shared[column];
}
template <int V, class F, class T, class O, class A, int k = 0> __device__ __forceinline__ void load_unit(const MapSum<F>& m, const int64_t (&at)[F::in], A (&v)[V][F::in]) {
  if constexpr (k < F::in) {
    using E = Stored<F, T, O, k>;
    const bool read = F::needs(k) && m.x[k] != nullptr;
    const E* p = static_cast<const E*>(m.x[k]) + at[k];
    if (read && V > 1 && !m.walk.spread[k]) {
      const Vector<E, V> e = *reinterpret_cast<const Vector<E, V>*>(p);
#pragma unroll
      for (int j = 0; j < V; ++j) v[j][k] = Lane<A>::of(e.lane[j]);
    } else {
      const A one = read ? Lane<A>::of(*p) : Lane<A>::zero();
#pragma unroll
      for (int j = 0; j < V; ++j) v[j][k] = one;
    }
    load_unit<V, F, T, O, A, k + 1>(m, at, v);
  }
}
// V: lanes of a unit of the cut, or 1 where the memory does not allow that; the order of each sum is the same.
template <int V, class F, class T, class O, class A> __global__ void __launch_bounds__(device::kSumBlock) map_sum_kernel(const __grid_constant__ MapSum<F> m) {
  __shared__ double shared[device::kSumBlock];
  const device::SumCut& c = m.cut;
  const int threads = device::kSumBlock / c.columns;
  const int column = c.along ? int(threadIdx.x) / threads : int(threadIdx.x) % c.columns, thread = c.along ? int(threadIdx.x) % threads : int(threadIdx.x) / c.columns;
  const int group = c.along ? c.lanes / V : 1;  // elements of a unit that are added one sum after another
  const int64_t width = c.along ? 1 : m.shape.last / V, units = c.along ? m.shape.summed / c.lanes : m.shape.summed;  // units of a row, and along the sum
  const int64_t per_outer = (width + c.columns - 1) / c.columns, tiles = c.along ? (m.shape.outer + c.columns - 1) / c.columns : per_outer * m.shape.outer;
  const int64_t kept = m.shape.outer * m.shape.last;
  for (int64_t block = blockIdx.x; block < tiles * c.chunks; block += gridDim.x) {
    const int64_t chunk = block / tiles, tile = block - chunk * tiles;
    const int64_t outer = c.along ? tile * c.columns + column : tile / per_outer, l = c.along ? 0 : (tile - outer * per_outer) * c.columns + column;
    const bool inside = c.along ? outer < m.shape.outer : l < width;
    const int64_t first = outer * units * group * width + l, end = c.chunk * (chunk + 1) < units ? c.chunk * (chunk + 1) : units;
    Total<A> total[V], lanes;
    for (int j = 0; j < group; ++j) {
#pragma unroll
      for (int i = 0; i < V; ++i) total[i] = {};
      int64_t r = chunk * c.chunk + thread, at[F::in];
      const auto add = [&](A (&v)[V][F::in]) {
        A g[F::out];
#pragma unroll
        for (int i = 0; i < V; ++i) {
          m.f(v[i], g);
          A chosen = g[0];
#pragma unroll
          for (int k = 1; k < F::out; ++k)
            if (m.which == k) chosen = g[k];
          total[i].add(chosen);
        }
      };
      if (inside && r < end) m.walk.offsets(first + (r * group + j) * width, at);
      if constexpr (V > 1)
        for (; m.even && inside && r + threads < end; r += 2 * threads) {  // twice as many loads on their way
          A v[2][V][F::in];
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            load_unit<V, F, T, O, A>(m, at, v[n]);
#pragma unroll
            for (int k = 0; k < F::in; ++k) at[k] += m.step[k] * threads;
          }
          add(v[0]), add(v[1]);
        }
      while (inside && r < end) {
        A v[V][F::in];
        load_unit<V, F, T, O, A>(m, at, v);
        add(v);
        r += threads;
        if (m.even) {
#pragma unroll
          for (int k = 0; k < F::in; ++k) at[k] += m.step[k] * threads;
        } else if (r < end) m.walk.offsets(first + (r * group + j) * width, at);
      }
      if (!c.along) break;
#pragma unroll
      for (int i = 0; i < V; ++i)
#pragma unroll
        for (int p = 0; p < kParts<A>; ++p) lanes.sum[p] = i == 0 && j == 0 ? total[i].sum[p] : lanes.sum[p] + total[i].sum[p];
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (c.along && i > 0) break;
      Total<A> t = c.along ? lanes : total[i];
#pragma unroll
      for (int p = 0; p < kParts<A>; ++p) t.sum[p] = joined_column(t.sum[p], shared, column, c.columns, thread);
      if (thread != 0 || !inside) continue;
      const int64_t at = c.along ? outer : (outer * width + l) * V + i;
      if (m.partial) {
#pragma unroll
        for (int p = 0; p < kParts<A>; ++p) m.partial[(chunk * kept + at) * kParts<A> + p] = t.sum[p];
      } else {
        int64_t place[1];
        m.target.offsets(at, place);
        static_cast<O*>(m.y)[place[0]] = t.template as<O>();
      }
    }
  }
}
template <class A> struct Joined {
  const double* partial;
  int64_t chunks, kept;
  device::Walk<1> target;
  void* y;
};
template <class O, class A> __global__ void __launch_bounds__(device::kSumBlock) map_sum_join_kernel(const __grid_constant__ Joined<A> m) {
  __shared__ double shared[device::kSumBlock];
  constexpr int columns = 8, threads = device::kSumBlock / columns;
  const int column = int(threadIdx.x) % columns, thread = int(threadIdx.x) / columns;
  for (int64_t tile = blockIdx.x; tile < (m.kept + columns - 1) / columns; tile += gridDim.x) {
    const int64_t kept = tile * columns + column;
    Total<A> t;
    for (int64_t c = thread; kept < m.kept && c < m.chunks; c += threads)
#pragma unroll
      for (int p = 0; p < kParts<A>; ++p) t.sum[p] = t.sum[p] + m.partial[(c * m.kept + kept) * kParts<A> + p];
#pragma unroll
    for (int p = 0; p < kParts<A>; ++p) t.sum[p] = joined_column(t.sum[p], shared, column, columns, thread);
    if (thread != 0 || kept >= m.kept) continue;
    int64_t place[1];
    m.target.offsets(kept, place);
    static_cast<O*>(m.y)[place[0]] = t.template as<O>();
  }
}

// Lanes that a sum is made for: several where F::wide_sum, for each takes its part of the code.
template <class F, class T, class O> constexpr int sum_lanes() {
  if constexpr (requires { requires F::wide_sum; }) return kLanesOf<F, T, O>;
  else return 1;
}
template <class F, class T, class O = T, class A = Pack<Acc<T>, 1>> int map_sum(const F& f, const device::SumOperands& s, void* stream) {
  constexpr int V = sum_lanes<F, T, O>();
  if (s.shape.kept() == 0) return 0;
  MapSum<F> m{f};
  device::Operand all[F::in];
  for (int k = 0; k < F::in; ++k) all[k] = F::needs(k) ? s.x[k] : device::Operand{}, m.x[k] = all[k].data;
  m.which = s.which, m.shape = s.shape, m.cut = device::sum_cut(s.shape, V);
  m.walk = device::walk<F::in>(s.axes, all, -1, m.cut.lanes);
  m.even = true;
  for (int k = 0; k < F::in; ++k) {
    m.even = s.progression(k, m.step[k]) && m.even;
    if (m.cut.along) m.step[k] *= m.cut.lanes;
  }
  m.partial = m.cut.chunks > 1 ? s.partial : nullptr;
  const device::Operand to[] = {s.target};
  m.target = device::walk<1>(s.kept, to, -1, 1);
  m.y = const_cast<void*>(s.target.data);
  const device::SumCut& c = m.cut;
  const int64_t width = c.along ? 1 : s.shape.last / m.walk.lanes, tiles = c.along ? device::ceil_div(s.shape.outer, c.columns) : device::ceil_div(width, c.columns) * s.shape.outer;
  const auto kernel = m.walk.lanes == 1 ? map_sum_kernel<1, F, T, O, A> : map_sum_kernel<V, F, T, O, A>;
  if (const int error = device::launch(kernel, device::blocks_for(tiles * c.chunks, 1), device::kSumBlock, 0, stream, m)) return error;
  if (!m.partial) return 0;
  const Joined<A> j{s.partial, c.chunks, s.shape.kept(), m.target, m.y};
  return device::launch(map_sum_join_kernel<O, A>, device::blocks_for(s.shape.kept(), 8), device::kSumBlock, 0, stream, j);
}

}  // namespace device_map
}  // namespace baracuda
