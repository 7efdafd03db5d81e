// Gradients of fake_quantize and dequantize where what shares a scale is one dense row: dx and the sums in one reading. A team of threads has a row, or
// several have parts of a long one, whose sums a second kernel joins. Sums in f64: a thread's elements in order, threads by 16, 8, 4, 2, 1, warps in
// order, parts in order; all of this depends on the row's length alone. dy and x are read and dx is written once: the floor is memory bandwidth.
#include "baracuda/device/row_team.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace quantize;
using device_rows::kChunk;
using row_team::Team;

template <class V> struct Gradient { V dx, dscale, dzero; };
template <class T> struct FakeGradient {
  using X = T;
  static __device__ __forceinline__ Gradient<V<T>> of(V<T> dy, V<T> x, const Scaled<V<T>>& k) {
    const auto p = place_at(k.over(x), k.s, k.c.lo, k.c.hi);
    return {fake_dx(dy, p), fake_dscale(dy, p), fake_dzero(dy, k.s, p)};
  }
};
template <class T, class Q> struct DequantizeGradient {
  using X = Q;
  static __device__ __forceinline__ Gradient<V<T>> of(V<T> dy, V<T> x, const Scaled<V<T>>& k) {
    const V<T> dx = dequantize_dx(dy, k.s);
    return {dx, dequantize_dscale(dy, x - (k.c.z + V<T>(kBias<Acc<T>, Q>)), k.s), -dx};
  }
};

constexpr int kEach = 2, kMostThreads = 256;
template <class A> __device__ __forceinline__ void put_sums(const QuantizeGradients& q, const int64_t (&at)[7], const double (&sum)[2]) {
  const A factor = A(q.grad_factor);
  if (q.dscale) static_cast<A*>(q.dscale)[at[5]] = A(sum[0]) * factor;
  if (q.dzero) static_cast<A*>(q.dzero)[at[6]] = A(sum[1]) * factor;
}
// kZero: dzero_point is wanted; conversions to f64 are what a sum costs.
template <class F, class T, bool kWhole, bool kZero> __global__ void __launch_bounds__(kMostThreads, sizeof(T) == 4 ? 4 : 2) gradient_kernel(const __grid_constant__ QuantizeGradients q) {
  constexpr int N = kChunk<T>;
  using X = typename F::X;
  __shared__ double shared[2][2 * 64];  // in turn, as the team's sums ask
  int turn = 0;
  const Team team(q.team);
  const int64_t units = (q.n + N - 1) / N, first = int64_t(blockIdx.y) * q.part, end = first + q.part < units ? first + q.part : units;
  for (int64_t start = int64_t(blockIdx.x) * team.slots; start < q.rows.units; start += int64_t(gridDim.x) * team.slots) {
    const bool there = start + team.slot < q.rows.units;  // all threads of a warp go through the shuffles
    const int64_t row = there ? start + team.slot : 0;
    int64_t at[7];
    row_offsets(q.rows, row, at);
    const T* dy = static_cast<const T*>(q.dy) + at[0];
    const X* x = static_cast<const X*>(q.x) + at[1];
    T* dx = q.dx ? static_cast<T*>(q.dx) + at[4] : nullptr;
    const Scaled<V<T>> k(q.parameters, q.scale ? V<T>::of(static_cast<const Acc<T>*>(q.scale)[at[2]]) : V<T>(q.host_scale),
                         q.zero_point ? V<T>::of(Acc<T>(q.zero_point[at[3]])) : V<T>(q.host_zero));
    double sum[2] = {};
    const auto some = [&]<int kCount>(std::integral_constant<int, kCount>, int64_t u) {
      Unit<T, N> g[kCount];
      Unit<X, N> v[kCount];
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        const int64_t i = (u + int64_t(e) * team.size) * N;
        g[e] = load_unit<kWhole, N>(dy + i, q.n - i), v[e] = load_unit<kWhole, N>(x + i, q.n - i);
      }
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        const int64_t i = (u + int64_t(e) * team.size) * N;
        const auto gradient = Lanes<Acc<T>, N>::template of<T>(g[e]);
        const auto value = Lanes<Acc<T>, N>::template of<X>(v[e]);
        const Unit<T, N> to = unit_of<T, N>([&](int j) {
          const Gradient<V<T>> d = F::of(gradient.v[j], value.v[j], k);
          if (kWhole || i + j < q.n) {
            sum[0] = sum[0] + double(d.dscale.v);
            if constexpr (kZero) sum[1] = sum[1] + double(d.dzero.v);
          }
          return d.dx;
        });
        if (dx) store_unit<kWhole, N>(dx + i, to, q.n - i);
      }
    };
    int64_t u = first + team.thread;
    for (; there && u + (kEach - 1) * team.size < end; u += int64_t(kEach) * team.size) some(std::integral_constant<int, kEach>{}, u);
    for (; there && u < end; u += team.size) some(std::integral_constant<int, 1>{}, u);
    team.sums(sum, shared[turn ^= 1]);
    if (!there || team.thread != 0) continue;
    if (q.parts > 1) q.partial[2 * (row * q.parts + blockIdx.y)] = sum[0], q.partial[2 * (row * q.parts + blockIdx.y) + 1] = sum[1];
    else put_sums<Acc<T>>(q, at, sum);
  }
}
template <class A> __global__ void __launch_bounds__(kMostThreads) join_kernel(const __grid_constant__ QuantizeGradients q) {
  __shared__ double shared[2][2 * 64];
  int turn = 0;
  const Team team(kMostThreads);
  for (int64_t row = blockIdx.x; row < q.rows.units; row += gridDim.x) {
    double sum[2] = {};
    for (int64_t p = team.thread; p < q.parts; p += team.size) sum[0] = sum[0] + q.partial[2 * (row * q.parts + p)], sum[1] = sum[1] + q.partial[2 * (row * q.parts + p) + 1];
    team.sums(sum, shared[turn ^= 1]);
    if (team.thread != 0) continue;
    int64_t at[7];
    q.rows.offsets(row, at);
    put_sums<A>(q, at, sum);
  }
}
template <class F, class T> int gradients(const QuantizeGradients& g, void* stream) {
  QuantizeGradients q = g;
  constexpr int N = kChunk<T>;
  const int64_t units = device::ceil_div(q.n, N);
  q.team = int(row_team::team_for(units, 2 * kEach));
  if (q.team > kMostThreads || q.parts > 1) q.team = kMostThreads;
  q.part = device::ceil_div(units, q.parts);
  const int block = q.team <= 32 ? row_team::kLeastBlock : q.team;
  const dim3 grid(device::blocks_for(q.rows.units, block / q.team), unsigned(q.parts));
  const auto kernel = q.dzero ? (q.whole ? gradient_kernel<F, T, true, true> : gradient_kernel<F, T, false, true>) : (q.whole ? gradient_kernel<F, T, true, false> : gradient_kernel<F, T, false, false>);
  if (const int e = device::launch(kernel, grid, unsigned(block), 0, stream, q)) return e;
  return q.parts == 1 ? 0 : device::launch(join_kernel<Acc<T>>, device::blocks_for(q.rows.units, 1), kMostThreads, 0, stream, q);
}
using GradientsFn = int (*)(const QuantizeGradients&, void*);
template <template <class> class F> constexpr ByDType<GradientsFn> by_dtype() {
  return device::floating<GradientsFn>(gradients<F<f16>, f16>, gradients<F<bf16>, bf16>, gradients<F<float>, float>, gradients<F<double>, double>);
}
template <class T> using DequantizeI8 = DequantizeGradient<T, int8_t>;
template <class T> using DequantizeU8 = DequantizeGradient<T, uint8_t>;

}  // namespace
}  // namespace BARACUDA_ISA

extern const QuantizeGradientsCudaKernels quantize_gradients_cuda_kernels = {by_dtype<FakeGradient>(), {by_dtype<DequantizeU8>(), by_dtype<DequantizeI8>()}};

}  // namespace baracuda
