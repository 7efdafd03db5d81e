// y = x scale, cast, and the largest |x| in the same pass. A block's largest goes to amax by an atomic maximum of bits, which does
// not depend on the order. sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth.
#include "baracuda/ops/copy/cast_table.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class From, class To> struct Scaled {
  device::Walk<2> walk;
  const From* x;
  To* y;
  const float* scale;
  uint32_t* amax;
};
template <bool kSaturate, class From, class To> __global__ void __launch_bounds__(device_map::kBlock) cast_scaled_kernel(const __grid_constant__ Scaled<From, To> s) {
  using device_map::Vector;
  constexpr int V = device_map::kLanesOf<Same, From, To>;
  __shared__ uint32_t largest[device_map::kBlock / 32];
  const float scale = *s.scale;
  uint32_t most = 0;
  const auto one = [&](From e) {
    const float x = to_float(e);
    const uint32_t u = __builtin_bit_cast(uint32_t, x) & 0x7fffffff;
    most = u > most ? u : most;
    const float scaled = x * scale;
    if constexpr (kSaturate) return device_map::Lane<device_map::Saturating<float>>::as<To>({scaled});
    else return cast_element<To>(scaled);
  };
  const int64_t all = s.walk.units + s.walk.rest;
  for (int64_t i = int64_t(blockIdx.x) * device_map::kBlock + threadIdx.x; i < all; i += int64_t(gridDim.x) * device_map::kBlock) {
    int64_t at[2];
    s.walk.offsets(i, at);
    if (s.walk.lanes > 1 && i < s.walk.units) {
      Vector<From, V> e;
      if (s.walk.spread[0]) {
        const From same = s.x[at[0]];
#pragma unroll
        for (int j = 0; j < V; ++j) e.lane[j] = same;
      } else e = *reinterpret_cast<const Vector<From, V>*>(s.x + at[0]);
      Vector<To, V> r;
#pragma unroll
      for (int j = 0; j < V; ++j) r.lane[j] = one(e.lane[j]);
      *reinterpret_cast<Vector<To, V>*>(s.y + at[1]) = r;
    } else s.y[at[1]] = one(s.x[at[0]]);
  }
  if (!s.amax) return;
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < device_map::kBlock / 32; ++w) most = largest[w] > most ? largest[w] : most;
  atomicMax(s.amax, most);
}
template <bool kSaturate, class From, class To> int cast_scaled(const ScaledCast& c, void* stream) {
  if (c.amax)
    if (const cudaError_t e = cudaMemsetAsync(c.amax, 0, sizeof(uint32_t), static_cast<cudaStream_t>(stream))) return int(e);
  const device::Operand all[] = {c.x, c.y};
  const Scaled<From, To> s{device::walk<2>(c.shape, all, 1, device_map::kLanesOf<Same, From, To>), static_cast<const From*>(c.x.data),
                           static_cast<To*>(const_cast<void*>(c.y.data)), c.scale, c.amax};
  if (s.walk.threads() == 0) return 0;
  return device::launch(cast_scaled_kernel<kSaturate, From, To>, device::blocks_for(s.walk.threads(), 8 * device_map::kBlock), device_map::kBlock, 0, stream, s);
}
using ScaledLaunch = int (*)(const ScaledCast&, void*);
template <bool kSaturate, class From, class... To> constexpr ByDType<ScaledLaunch> scaled_row(TypeList<To...>) {
  ByDType<ScaledLaunch> row;
  ((row[kDTypeOf<To>] = cast_scaled<kSaturate && !std::is_same_v<To, float>, From, To>), ...);
  return row;
}
template <bool kSaturate, class... T> constexpr ByDType<ByDType<ScaledLaunch>> scaled_table(TypeList<T...> all) {
  ByDType<ByDType<ScaledLaunch>> t;
  ((t[kDTypeOf<T>] = scaled_row<kSaturate, T>(all)), ...);
  return t;
}
using Scalable = decltype(join(TypeList<f16, bf16, float>{}, Float8{}));

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ByDType<int (*)(const ScaledCast&, void*)>> cast_scaled_cuda[2] = {scaled_table<false>(Scalable{}), scaled_table<true>(Scalable{})};

}  // namespace baracuda
