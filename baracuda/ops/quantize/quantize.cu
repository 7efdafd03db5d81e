// Maps of quantisation. Values and codes are read and written once: the floor is memory bandwidth. Dense rows with one scale each go
// by teams of threads (device/teams.cuh), which divide once per row; anything else is a map (device/map.cuh).
#include "baracuda/device/teams.cuh"
#include "baracuda/ops/quantize/quantize_cuda.hpp"
#include "baracuda/ops/quantize/quantize_rows.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using device_rows::kChunk;
using device_teams::Teams;
using quantize::load_unit, quantize::store_unit, quantize::Scaled, quantize::Unit, quantize::V;

template <class V> struct Plain {
  V s;
  quantize::Codes<V> c;
  __device__ __forceinline__ Plain(const double* parameters, V s, V zero_point) : s(s), c(parameters, zero_point) {}
  __device__ __forceinline__ V over(V x) const { return x / s; }
};

// --- the arithmetic: elements of the types In to one of Out, given what is known of the scale; of rows, with a division for all. codes: NaN is to count as 0.
template <class T> struct QuantizeOf {
  static constexpr int in = 1;
  static constexpr bool codes = true;
  using In = T;
  using Out = uint8_t;
  template <class K> static __device__ __forceinline__ V<T> of(const V<T>* x, const K& k) { return quantize::steps_at(k.over(x[0]), k.s, k.c.lo, k.c.hi) + k.c.z; }
  static __device__ __forceinline__ uint32_t of_row(const V<T>* x, const Scaled<V<T>>& k) { return k.code(x[0]); }
};
template <class T, class Q> struct DequantizeOf {
  static constexpr int in = 1;
  static constexpr bool codes = false;
  using In = Q;
  using Out = T;
  template <class K> static __device__ __forceinline__ V<T> of(const V<T>* x, const K& k) { return quantize::dequantized(x[0] - k.c.z, k.s); }
  static __device__ __forceinline__ V<T> of_row(const V<T>* x, const Scaled<V<T>>& k) { return quantize::dequantized(x[0] - (k.c.z + V<T>(quantize::kBias<Acc<T>, Q>)), k.s); }
};
template <class T> struct FakeOf {
  static constexpr int in = 1;
  static constexpr bool codes = true;
  using In = T;
  using Out = T;
  template <class K> static __device__ __forceinline__ V<T> of(const V<T>* x, const K& k) {
    return quantize::dequantized(quantize::steps_at(k.over(x[0]), k.s, k.c.lo, k.c.hi), k.s);
  }
  static __device__ __forceinline__ V<T> of_row(const V<T>* x, const Scaled<V<T>>& k) { return quantize::dequantized(k.steps.raised(x[0]) - kMagic<V<T>>, k.s); }
};
template <class T, bool kFake> struct ThroughOf {  // dy, x
  static constexpr int in = 2;
  static constexpr bool codes = false;
  using In = T;
  using Out = T;
  template <class K> static __device__ __forceinline__ V<T> of(const V<T>* x, const K& k) {
    const auto p = quantize::place_at(k.over(x[1]), k.s, k.c.lo, k.c.hi);
    return kFake ? quantize::fake_dx(x[0], p) : quantize::quantize_dx(x[0], k.s, p);
  }
  static __device__ __forceinline__ V<T> of_row(const V<T>* x, const Scaled<V<T>>& k) { return of(x, k); }
};
template <class T> struct DequantizeBackwardOf {
  static constexpr int in = 1;
  static constexpr bool codes = false;
  using In = T;
  using Out = T;
  template <class K> static __device__ __forceinline__ V<T> of(const V<T>* x, const K& k) { return quantize::dequantize_dx(x[0], k.s); }
  static __device__ __forceinline__ V<T> of_row(const V<T>* x, const Scaled<V<T>>& k) { return of(x, k); }
};

// --- any strides
template <class F, class T> struct MapOf {
  static constexpr int in = F::in + 2, out = 1;
  template <int k> using Stored = std::conditional_t<(k < F::in), typename F::In, std::conditional_t<k == F::in, Acc<T>, std::conditional_t<k == F::in + 1, int32_t, typename F::Out>>>;
  using A = quantize::Number<Acc<T>>;
  double parameters[2];
  V<T> scale, zero_point;
  bool has_scale, has_zero;
  static constexpr bool needs(int) { return true; }
  __device__ __forceinline__ void operator()(const A* x, A* y) const {
    V<T> v[F::in];
#pragma unroll
    for (int k = 0; k < F::in; ++k) v[k] = x[k].v;
    y[0].v = F::of(v, Plain<V<T>>(parameters, has_scale ? x[F::in].v : scale, has_zero ? x[F::in + 1].v : zero_point));
  }
};

// --- rows, and columns
template <class F> struct Rows {
  Teams teams;
  device::Walk<F::in + 3> rows;  // values, scale, zero point, output
  const void *in[F::in], *scale;
  const int32_t* zero_point;
  void* out;
  int64_t n;
  double parameters[2], host_scale, host_zero;

  template <class C> __device__ __forceinline__ C scale_at(int64_t at) const { return scale ? static_cast<const C*>(scale)[at] : C(host_scale); }
  template <class C> __device__ __forceinline__ C zero_at(int64_t at) const { return zero_point ? C(zero_point[at]) : C(host_zero); }
};
// A unit of results; known(j): what lane j's scale is.
template <class F, class T, int N, class Known> __device__ __forceinline__ Unit<typename F::Out, N> results(const Unit<typename F::In, N> (&x)[F::in], Known known) {
  using Lanes = quantize::Lanes<Acc<T>, N>;
  static_assert(F::in <= 2);
  Lanes v[2] = {Lanes::template of<typename F::In>(x[0]), Lanes::template of<typename F::In>(x[F::in - 1])};
  if constexpr (F::codes) v[0].without_nan();
  return quantize::unit_of<typename F::Out, N>([&](int j) {
    const V<T> lane[] = {v[0].v[j], v[1].v[j]};
    return F::of_row(lane, known(j));
  });
}
template <bool kWhole> inline constexpr int kEach = kWhole ? 4 : 1;  // units of a thread at once
template <class F, class T, bool kWhole> __global__ void __launch_bounds__(device_teams::kThreads) rows_kernel(const __grid_constant__ Rows<F> q) {
  constexpr int N = kChunk<T>, K = F::in, kUnits = kEach<kWhole>;
  using In = typename F::In;
  using Out = typename F::Out;
  struct Row { const In* in[K]; Out* out; Acc<T> scale, zero; };
  device_teams::for_rows<kUnits>(q.teams, [&](int64_t row) {
    int64_t at[K + 3];
    quantize::row_offsets(q.rows, row, at);
    Row r{{}, static_cast<Out*>(q.out) + at[K + 2], q.template scale_at<Acc<T>>(at[K]), q.template zero_at<Acc<T>>(at[K + 1])};
#pragma unroll
    for (int k = 0; k < K; ++k) r.in[k] = static_cast<const In*>(q.in[k]) + at[k];
    return r;
  }, [&](const Row& row, int64_t u) {
    const auto some = [&]<int kCount>(std::integral_constant<int, kCount>, int64_t first) {
      Unit<In, N> x[kCount][K];
#pragma unroll
      for (int e = 0; e < kCount; ++e)
#pragma unroll
        for (int k = 0; k < K; ++k) x[e][k] = load_unit<kWhole, N>(row.in[k] + (first + (e << q.teams.log)) * N, q.n - first * N);
      const Scaled<V<T>> known(q.parameters, V<T>::of(row.scale), V<T>::of(row.zero));  // behind the loads, which its division would hold up
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        store_unit<kWhole, N>(row.out + (first + (e << q.teams.log)) * N, results<F, T, N>(x[e], [k = &known](int) -> const auto& { return *k; }), q.n - first * N);
    };
    if (kUnits > 1 && u + ((kUnits - 1) << q.teams.log) < q.teams.units) return some(std::integral_constant<int, kUnits>{}, u);
#pragma unroll 1
    for (int e = 0; e < kUnits && u + (e << q.teams.log) < q.teams.units; ++e) some(std::integral_constant<int, 1>{}, u + (e << q.teams.log));
  });
}
// Dense rows of `n` elements, whole units, whose scales lie along them: a thread keeps those of its unit and goes down the rows.
constexpr int kColumnRows = 64, kColumnThreads = 128;
template <class F, class T> __global__ void __launch_bounds__(kColumnThreads) columns_kernel(const __grid_constant__ Rows<F> q) {
  constexpr int N = kChunk<T>, K = F::in, kUnits = 4 / K;
  using In = typename F::In;
  using Out = typename F::Out;
  const int64_t column = (int64_t(blockIdx.x) * kColumnThreads + threadIdx.x) * N;
  if (column >= q.n) return;
  const auto known = [&]<int... j>(std::integer_sequence<int, j...>) {
    struct { Scaled<V<T>> lane[N]; } k{{Scaled<V<T>>(q.parameters, V<T>::of(q.template scale_at<Acc<T>>((column + j) * q.rows.stride[K][1])),
                                                     V<T>::of(q.template zero_at<Acc<T>>((column + j) * q.rows.stride[K + 1][1])))...}};
    return k;
  }(std::make_integer_sequence<int, N>{});
  for (int64_t part = int64_t(blockIdx.y) * kColumnRows; part < q.rows.extent[0]; part += int64_t(gridDim.y) * kColumnRows) {
    const int64_t end = part + kColumnRows < q.rows.extent[0] ? part + kColumnRows : q.rows.extent[0];
    const auto some = [&]<int kCount>(std::integral_constant<int, kCount>, int64_t row) {
      Unit<In, N> x[kCount][K];
#pragma unroll
      for (int e = 0; e < kCount; ++e)
#pragma unroll
        for (int k = 0; k < K; ++k) x[e][k] = load_unit<true, N>(static_cast<const In*>(q.in[k]) + (row + e) * q.rows.stride[k][0] + column, N);
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        store_unit<true, N>(static_cast<Out*>(q.out) + (row + e) * q.rows.stride[K + 2][0] + column, results<F, T, N>(x[e], [k = &known](int j) -> const auto& { return k->lane[j]; }), N);
    };
    int64_t row = part;
    for (; row + kUnits <= end; row += kUnits) some(std::integral_constant<int, kUnits>{}, row);
    for (; row < end; ++row) some(std::integral_constant<int, 1>{}, row);
  }
}
constexpr int64_t kLeastRow = 16;  // elements; shorter rows are a map
template <class F, class T> int launch(const QuantizeMap& m, void* stream) {
  constexpr int K = F::in + 3, N = kChunk<T>;
  device::Operand x[K];
  for (int k = 0; k < K; ++k) x[k] = m.operand[k];
  const device::Walk<K> w = device::walk<K>(m.shape, x, K - 1, 1);
  if (w.units == 0) return 0;
  const int last = w.rank - 1;
  Rows<F> q{{}, w, {}, x[F::in].data, static_cast<const int32_t*>(x[F::in + 1].data), const_cast<void*>(x[K - 1].data), w.extent[last],
            {m.parameters[0], m.parameters[1]}, m.scale, m.zero_point};
  for (int k = 0; k < F::in; ++k) q.in[k] = x[k].data;
  bool dense = q.n >= kLeastRow, whole = q.n % N == 0;
  for (int k = 0; k < K; ++k) {
    if (k == F::in || k == F::in + 1) continue;
    dense = dense && w.stride[k][last] == 1;
    for (int a = 0; a < last; ++a) whole = whole && w.stride[k][a] % N == 0;
    whole = whole && uintptr_t(x[k].data) % uintptr_t(N * x[k].bytes) == 0;
  }
  const auto scales = [&](int axis) { return w.stride[F::in][axis] != 0 || w.stride[F::in + 1][axis] != 0; };  // stand along it
  if (dense && whole && w.rank == 2 && scales(1) && !scales(0) && w.extent[0] >= kColumnRows / 2) {
    const int64_t parts = device::ceil_div(w.extent[0], kColumnRows);
    return device::launch(columns_kernel<F, T>, dim3(device::blocks_for(q.n / N, kColumnThreads), unsigned(parts > 65535 ? 65535 : parts)), kColumnThreads, 0, stream, q);
  }
  if (!dense || scales(last)) {
    const MapOf<F, T> f{{m.parameters[0], m.parameters[1]}, V<T>(m.scale), V<T>(m.zero_point), x[F::in].data != nullptr, x[F::in + 1].data != nullptr};
    return device_map::map<MapOf<F, T>, T, T, quantize::Number<Acc<T>>>(f, m.shape, x, stream);
  }
  Shape outer;
  for (int a = 0; a < last; ++a) outer.push_back(w.extent[a]);
  for (int k = 0; k < K; ++k) {
    x[k].strides = {};
    for (int a = 0; a < last; ++a) x[k].strides.push_back(w.stride[k][a]);
  }
  const int each = whole ? kEach<true> : kEach<false>;
  q.rows = device::walk<K>(outer, x, -1, 1);
  q.teams = Teams::of(q.rows.units, device::ceil_div(q.n, N), each);
  return device::launch(whole ? rows_kernel<F, T, true> : rows_kernel<F, T, false>, q.teams.grid(each), device_teams::kThreads, 0, stream, q);
}

template <class T> using QuantizeBackwardOf = ThroughOf<T, false>;
template <class T> using FakeBackwardOf = ThroughOf<T, true>;
template <class T> using DequantizeI8 = DequantizeOf<T, int8_t>;
template <class T> using DequantizeU8 = DequantizeOf<T, uint8_t>;
template <template <class> class F> constexpr ByDType<QuantizeLaunch> by_dtype() {
  return device::floating<QuantizeLaunch>(launch<F<f16>, f16>, launch<F<bf16>, bf16>, launch<F<float>, float>, launch<F<double>, double>);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const QuantizeCudaKernels quantize_cuda_kernels = {by_dtype<QuantizeOf>(), {by_dtype<DequantizeU8>(), by_dtype<DequantizeI8>()}, by_dtype<FakeOf>(),
                                                          by_dtype<QuantizeBackwardOf>(), by_dtype<DequantizeBackwardOf>(), by_dtype<FakeBackwardOf>()};

}  // namespace baracuda
