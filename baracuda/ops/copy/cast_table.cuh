#pragma once
// A cast as a map of device/map.cuh: sizeof(From) + sizeof(To) bytes per element; the floor is memory bandwidth.
#include <concepts>
#pragma nv_diag_suppress 186  // comparisons of unsigned numbers with zero: one text serves all dtypes
#include "baracuda/device/map.cuh"
#include "baracuda/ops/copy/cast_math.hpp"
#include "baracuda/ops/copy/copy_cuda.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_map {

// An element on its way to another dtype, or to the nearest finite value of it.
template <class From> struct Casting { From v; };
template <class From> struct Saturating { From v; };
template <class From> struct Lane<Casting<From>> {
  static __device__ __forceinline__ Casting<From> zero() { return {}; }
  static __device__ __forceinline__ Casting<From> of(From e) { return {e}; }
  template <class To> static __device__ __forceinline__ To as(Casting<From> a) {
    if constexpr (kIsHalf<From> && !std::is_same_v<From, To>) return Lane<Casting<float>>::template as<To>({widened(a.v)});
    else if constexpr (std::is_same_v<From, float> && kIsHalf<To>) return narrowed<To>(a.v);
    else return cast_element<To>(a.v);
  }
};
template <class From> struct Lane<Saturating<From>> {
  static __device__ __forceinline__ Saturating<From> zero() { return {}; }
  static __device__ __forceinline__ Saturating<From> of(From e) { return {e}; }
  template <class To> static __device__ __forceinline__ To as(Saturating<From> a) {
    float x;
    if constexpr (kIsNarrow<From>) x = to_float(a.v);
    else x = to_odd_float(odd_double(a.v));  // what To rounds from is what it would round the number itself from
    return from_float<To>(saturated<To>(Pack<float, 1>::of(x)).v);
  }
};

}  // namespace device_map

namespace {

struct Same {
  static constexpr int in = 1, out = 1;
  static constexpr bool needs(int) { return true; }
  template <class A> __device__ __forceinline__ void operator()(const A* x, A* y) const { y[0] = x[0]; }
};
template <class T> struct Itself { using Type = T; };
template <class T> struct UnsignedOf { using Type = T; };
template <std::integral T> requires(!std::is_same_v<T, bool>) struct UnsignedOf<T> { using Type = std::make_unsigned_t<T>; };
// Integers to integers move low bits, so that the sign of the result's type does not matter; a bool is a byte of 0 or 1.
template <class From, class To> struct Served {
  using F = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;
  using T = typename std::conditional_t<std::is_integral_v<F>, UnsignedOf<To>, Itself<To>>::Type;
};
template <class From, class To, template <class> class Value> constexpr CastLaunch cast_launch() {
  using S = Served<From, To>;
  return [](const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream) {
    const device::Operand all[] = {x, y};
    return device_map::map<Same, typename S::F, typename S::T, Value<typename S::F>>(Same{}, shape, all, stream);
  };
}
template <class From, template <class> class Value, class... To> constexpr ByDType<CastLaunch> cast_row(TypeList<To...>) {
  ByDType<CastLaunch> row;
  ((row[kDTypeOf<To>] = cast_launch<From, To, Value>()), ...);
  return row;
}
template <template <class> class Value, class To, class... From> constexpr ByDType<ByDType<CastLaunch>> cast_table(TypeList<From...>, To to) {
  ByDType<ByDType<CastLaunch>> t;
  ((t[kDTypeOf<From>] = cast_row<From, Value>(to)), ...);
  return t;
}
using CastNumbers = decltype(join(join(TypeList<bool>{}, Integers{}), join(Floating{}, Float8{})));

}  // namespace
}  // namespace baracuda
