// dx = f(x, numbers of the row): reads x (not for spread), writes dx; the floor is memory bandwidth, but for powers. Before it a number or
// three of every row from its dy and y, and where they need a look at x a loop of reduce.
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/math/element.hpp"
#include "baracuda/ops/reduce/reduce_backward_cuda.hpp"
#include "baracuda/ops/reduce/reduce_map_math.hpp"
#include "baracuda/ops/reduce/reduce_math.hpp"
#include "baracuda/ops/reduce/reduce_others_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_map;

constexpr int kThreads = 256;
template <class E, int N> struct alignas(sizeof(E) * N) Vector { E lane[N]; };

__device__ double read(DType t, const void* p, int64_t at) {
  switch (t) {
    case DType::f16: return to_double(static_cast<const f16*>(p)[at]);
    case DType::bf16: return to_double(static_cast<const bf16*>(p)[at]);
    case DType::f32: return double(static_cast<const float*>(p)[at]);
    default: return static_cast<const double*>(p)[at];
  }
}
template <class A> __device__ void put(const ReduceRowsCuda& r, int64_t o, double dy, double y, double found) {
  const reduce_math::RowNumbers<A> v = reduce_math::numbers_of<A>({r.kind, r.one_of_ties, double(r.n), r.correction, r.power}, dy, y, found);
  static_cast<A*>(r.g)[o] = v.g;
  if (r.p) static_cast<A*>(r.p)[o] = v.p;
  if (r.q) static_cast<A*>(r.q)[o] = v.q;
}
// Of a product: mantissa, exponent and counts with dy among the factors.
__device__ void put_product(const ReduceRowsCuda& r, int64_t o, double dy) {
  using namespace reduce_others;
  const bool is_plain = plain(dy);
  double m = is_plain ? dy : sign_of(dy);
  const int64_t e = split(m);
  const Total all = joined(reinterpret_cast<const Total*>(r.found)[o], {m, e * 64 + (is_plain ? 0 : unit_of(dy))});
  static_cast<double*>(r.p)[o] = all.m, static_cast<double*>(r.g)[o] = double(all.code);
}
__global__ void __launch_bounds__(kThreads) numbers_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[4];
    r.kept.offsets(o, at);
    const double dy = read(r.y_dtype, r.dy, at[0]);
    if (r.kind == ReduceKind::prod) {
      put_product(r, o, dy);
      continue;
    }
    const double y = r.y ? read(r.y_dtype, r.y, at[1]) : 0;
    const bool f64 = r.dtype == DType::f64;
    const double found = r.found ? r.found[o] : r.mean ? read(f64 ? DType::f64 : DType::f32, r.mean, at[2]) : 1;
    f64 ? put<double>(r, o, dy, y, found) : put<float>(r, o, dy, y, found);
  }
}
__global__ void __launch_bounds__(kThreads) shifts_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[4];
    r.kept.offsets(o, at);
    r.shift[o] = r.kind == ReduceKind::nanmean ? double(kNaN) : read(r.y_dtype, r.y, at[1]);
  }
}
__global__ void __launch_bounds__(kThreads) scatter_kernel(const __grid_constant__ ReduceRowsCuda r) {
  for (int64_t o = int64_t(blockIdx.x) * kThreads + threadIdx.x; o < r.rows; o += int64_t(gridDim.x) * kThreads) {
    int64_t at[4], element[1];
    r.kept.offsets(o, at);
    const int64_t i = int64_t(r.found[o]);
    r.row.offsets(r.last ? r.n - 1 - i : i, element);
    const double dy = read(r.y_dtype, r.dy, at[0]);
    const int64_t to = at[3] + element[0];
    switch (r.dtype) {
      case DType::f16: static_cast<f16*>(r.dx)[to] = from_double<f16>(dy); break;
      case DType::bf16: static_cast<bf16*>(r.dx)[to] = from_double<bf16>(dy); break;
      case DType::f32: static_cast<float*>(r.dx)[to] = float(dy); break;
      default: static_cast<double*>(r.dx)[to] = dy;
    }
  }
}
struct Others {
  template <class V> __device__ static V of(V x, V p, V, V g) { return V::of(reduce_others::without({p.v, int64_t(g.v)}, x.v)); }
};
template <class T, class F> __global__ void __launch_bounds__(kThreads) map_kernel(const __grid_constant__ ReduceMapCuda m) {
  using A = std::conditional_t<std::is_same_v<F, Others>, double, Acc<T>>;
  using V = Pack<A, 1>;
  constexpr int N = 16 / int(sizeof(T));
  constexpr bool kX = !std::is_same_v<F, Spread>, kP = kX && !std::is_same_v<F, Sign> && !std::is_same_v<F, Numbers>;
  constexpr bool kQ = std::is_same_v<F, Distance> || std::is_same_v<F, Power>;
  const A *const ps = static_cast<const A*>(m.p), *const qs = static_cast<const A*>(m.q), *const gs = static_cast<const A*>(m.g);
  const int64_t all = m.walk.units + m.walk.rest;
  for (int64_t u = int64_t(blockIdx.x) * kThreads + threadIdx.x; u < all; u += int64_t(gridDim.x) * kThreads) {
    int64_t at[3];
    m.walk.offsets(u, at);
    const T* const x = static_cast<const T*>(m.x) + at[1];
    T* const dx = static_cast<T*>(m.dx) + at[0];
    const auto one = [&](T e, int64_t c) {
      V v = 0, p = 0, q = 0;
      if constexpr (kX) v = convert<A>(value(e));
      if constexpr (kP) p = V::of(ps[c]);
      if constexpr (kQ) q = V::of(qs[c]);
      return element<T>(convert<Acc<T>>(F::of(v, p, q, V::of(gs[c]))));
    };
    if (m.walk.lanes == N && u < m.walk.units) {
      Vector<T, N> in{}, out;
      if constexpr (kX) {
        if (m.walk.spread[1]) {
#pragma unroll
          for (int k = 0; k < N; ++k) in.lane[k] = *x;
        } else in = *reinterpret_cast<const Vector<T, N>*>(x);
      }
      const int step = m.walk.spread[2] ? 0 : 1;
#pragma unroll
      for (int k = 0; k < N; ++k) out.lane[k] = one(in.lane[k], at[2] + k * step);
      *reinterpret_cast<Vector<T, N>*>(dx) = out;
    } else *dx = one(kX ? *x : T{}, at[2]);
  }
}
int rows(void (*kernel)(ReduceRowsCuda), const ReduceRowsCuda& r, void* stream) {
  return r.rows ? device::launch(kernel, device::blocks_for(r.rows, kThreads), dim3(kThreads), 0, stream, r) : 0;
}
int shifts(const ReduceRowsCuda& r, void* stream) { return rows(shifts_kernel, r, stream); }
int numbers(const ReduceRowsCuda& r, void* stream) { return rows(numbers_kernel, r, stream); }
int scatter(const ReduceRowsCuda& r, void* stream) { return rows(scatter_kernel, r, stream); }
template <class T, class F> int map(const ReduceMapCuda& m, void* stream) {
  return device::launch(map_kernel<T, F>, device::blocks_for(m.walk.threads(), kThreads), dim3(kThreads), 0, stream, m);
}
using Map = int (*)(const ReduceMapCuda&, void*);
template <class F> constexpr ByDType<Map> maps() { return device::floating<Map>(map<f16, F>, map<bf16, F>, map<float, F>, map<double, F>); }
constexpr ReduceBackwardCudaKernels kKernels = {
    shifts, numbers, scatter,
    {maps<Spread>(), maps<Numbers>(), maps<Distance>(), maps<Ratio>(), maps<Sign>(), maps<Power>(), maps<Equal>(), maps<EqualMagnitude>(), maps<Softmax>()},
    maps<Others>()};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceBackwardCudaKernels reduce_backward_cuda_kernels = kKernels;

}  // namespace baracuda
