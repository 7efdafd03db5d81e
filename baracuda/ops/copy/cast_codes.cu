// Casts to codes and back: maps, bytes once, the floor is memory bandwidth. Of four bits a thread takes pairs of values, two units of 32 bytes where they
// are read and four of 16 where they are written, and has a byte for each.
#include "baracuda/ops/copy/cast_codes_cuda.hpp"
#include "baracuda/ops/copy/cast_codes_math.hpp"
#include "baracuda/ops/copy/cast_table.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace device_map {

struct PowerValue { float v; };
template <> struct Lane<PowerValue> {
  static __device__ __forceinline__ PowerValue zero() { return {}; }
  static __device__ __forceinline__ PowerValue of(uint8_t e) { return {power_of(e)}; }
  template <class To> static __device__ __forceinline__ To as(PowerValue a) { return Lane<Casting<float>>::template as<To>({a.v}); }
};
// A number on its way to a code, as an f32 that rounds as it does; then the code.
struct Power { float v; };
template <> struct Lane<Power> {
  static __device__ __forceinline__ Power zero() { return {}; }
  template <class From> static __device__ __forceinline__ Power of(From e) {
    if constexpr (kIsHalf<From>) return {widened(e)};
    else if constexpr (std::is_same_v<From, float>) return {e};
    else return {to_odd_float(e)};
  }
  template <class To> static __device__ __forceinline__ To as(Power a) { return To(__float_as_uint(a.v)); }
};

}  // namespace device_map

namespace {
using device_map::Vector;

struct ToPower {
  static constexpr int in = 1, out = 1;
  static constexpr bool needs(int) { return true; }
  PowerRounding rounding;
  __device__ __forceinline__ void operator()(const device_map::Power* x, device_map::Power* y) const {
    y[0] = {__uint_as_float(uint32_t(power_code(Pack<float, 1>::of(x[0].v), rounding)))};
  }
};
template <class From> int to_e8m0(const E8m0Cuda& c, void* stream) {
  const device::Operand all[] = {c.x, c.y};
  return device_map::map<ToPower, From, uint8_t, device_map::Power>({power_rounding(c.rounding, c.saturate)}, c.shape, all, stream);
}
template <class To> int from_e8m0(const E8m0Cuda& c, void* stream) {
  const device::Operand all[] = {c.x, c.y};
  return device_map::map<Same, uint8_t, To, device_map::PowerValue>(Same{}, c.shape, all, stream);
}

// --- four bits
template <class T> struct PackedCast {
  device::Walk<2> walk;  // values codes
  T* values;
  uint8_t* codes;
  bool joined, flat;  // units of both lie one behind the other
  int64_t step;
};
// Pairs of a unit, and units of a thread whose loads stand before what is made of them.
template <bool kTo, class T> inline constexpr int kPairs = !kTo ? 8 / int(sizeof(T)) : sizeof(T) > 1 ? 16 / int(sizeof(T)) : 8;
template <bool kTo> inline constexpr int kAtOnce = kTo ? 2 : 4;
template <CodeFormat format, class T> __device__ __forceinline__ uint32_t code_of(T x) {
  if constexpr (kIsHalf<T>) return uint32_t(packed_code<format>(widened(x)));
  else return uint32_t(packed_code<format>(x));
}
template <CodeFormat format, class T> __device__ __forceinline__ T value_of(uint32_t code) {
  return device_map::Lane<device_map::Casting<float>>::as<T>({packed_value<format>(int(code))});
}
// V bytes of codes.
template <CodeFormat format, class T, int V> __device__ __forceinline__ Vector<uint8_t, V> codes_of(const Vector<T, 2 * V>& x) {
  Vector<uint8_t, V> y;
#pragma unroll
  for (int j = 0; j < V; ++j) y.lane[j] = uint8_t(code_of<format>(x.lane[2 * j]) | code_of<format>(x.lane[2 * j + 1]) << 4);
  return y;
}
template <CodeFormat format, class T, int V> __device__ __forceinline__ Vector<T, 2 * V> values_of(const Vector<uint8_t, V>& x) {
  Vector<T, 2 * V> y;
#pragma unroll
  for (int j = 0; j < V; ++j) y.lane[2 * j] = value_of<format, T>(x.lane[j] & 15u), y.lane[2 * j + 1] = value_of<format, T>(x.lane[j] >> 4);
  return y;
}
template <bool kTo, CodeFormat format, class T> __global__ void __launch_bounds__(device_map::kBlock) packed_kernel(const __grid_constant__ PackedCast<T> p) {
  constexpr int V = kPairs<kTo, T>, kEach = kAtOnce<kTo>, kBlock = device_map::kBlock;
  using Values = Vector<T, 2 * V>;
  using Codes = Vector<uint8_t, V>;
  using In = std::conditional_t<kTo, Values, Codes>;
  using Out = std::conditional_t<kTo, Codes, Values>;
  const auto convert = [](const In& in) -> Out {
    if constexpr (kTo) return codes_of<format, T, V>(in);
    else return values_of<format, T, V>(in);
  };
  int64_t first = int64_t(blockIdx.x) * (p.flat ? kEach * kBlock : kBlock) + threadIdx.x;
  if (p.flat) {
    const In* const in = kTo ? reinterpret_cast<const In*>(p.values) : reinterpret_cast<const In*>(p.codes);
    Out* const out = kTo ? reinterpret_cast<Out*>(p.codes) : reinterpret_cast<Out*>(p.values);
    for (; first < p.walk.units; first += int64_t(gridDim.x) * (kEach * kBlock)) {
      In some[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if (const int64_t i = first + e * kBlock; i < p.walk.units) some[e] = in[i];
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if (const int64_t i = first + e * kBlock; i < p.walk.units) out[i] = convert(some[e]);
    }
    first = p.walk.units + int64_t(blockIdx.x) * kBlock + threadIdx.x;
  }
  for (; first < p.walk.units + p.walk.rest; first += int64_t(gridDim.x) * kBlock) {
    int64_t at[2];
    p.walk.offsets(first, at);
    if (p.walk.lanes > 1 && first < p.walk.units) {
      Values& values = *reinterpret_cast<Values*>(p.values + 2 * at[0]);
      Codes& codes = *reinterpret_cast<Codes*>(p.codes + at[1]);
      if constexpr (kTo) codes = convert(values);
      else values = convert(codes);
    } else {
      T* v = p.values + (p.joined ? 2 * at[0] : at[0]);
      uint8_t& code = p.codes[at[1]];
      if constexpr (kTo) code = uint8_t(code_of<format>(v[0]) | code_of<format>(v[p.step]) << 4);
      else v[0] = value_of<format, T>(code & 15u), v[p.step] = value_of<format, T>(uint32_t(code) >> 4);
    }
  }
}
template <bool kTo, CodeFormat format, class T> int packed_cast(const PackedCastCuda& c, void* stream) {
  constexpr int kWritten = kTo ? 1 : 0;
  const device::Operand all[] = {c.values, c.codes};
  auto walk = device::walk<2>(c.shape, all, kWritten, c.joined ? kPairs<kTo, T> : 1);
  if (walk.spread[1 - kWritten]) walk = device::walk<2>(c.shape, all, kWritten, 1);
  const PackedCast<T> p{walk, static_cast<T*>(const_cast<void*>(c.values.data)), static_cast<uint8_t*>(const_cast<void*>(c.codes.data)), c.joined, walk.flat && walk.lanes > 1, c.step};
  if (walk.threads() == 0) return 0;
  return device::launch(packed_kernel<kTo, format, T>, device::blocks_for(walk.threads(), p.flat ? kAtOnce<kTo> * device_map::kBlock : device_map::kBlock), device_map::kBlock, 0, stream, p);
}
template <CodeFormat format, class... T> constexpr void packed_row(CastCodesCudaKernels& k, TypeList<T...>) {
  ((k.to_packed[int(format)][kDTypeOf<T>] = packed_cast<true, format, T>, k.from_packed[int(format)][kDTypeOf<T>] = packed_cast<false, format, T>), ...);
}
template <class... T> constexpr CastCodesCudaKernels table(TypeList<T...>) {
  CastCodesCudaKernels k{};
  ((k.to_e8m0[kDTypeOf<T>] = to_e8m0<T>, k.from_e8m0[kDTypeOf<T>] = from_e8m0<T>), ...);
  const auto all = TypeList<T..., int8_t, uint8_t>{};
  packed_row<CodeFormat::e2m1>(k, all), packed_row<CodeFormat::int4>(k, all), packed_row<CodeFormat::uint4>(k, all);
  return k;
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const CastCodesCudaKernels cast_codes_cuda_kernels = table(Floating{});

}  // namespace baracuda
