#pragma once
// Values of the family's maps: codes and integers count as what they are, a code is stored as its low byte.
#include "baracuda/device/map.cuh"
#include "baracuda/ops/quantize/quantize_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize {

template <class C> struct Number { Pack<C, 1> v; };
template <class C, class E> __device__ __forceinline__ Pack<C, 1> number(E e) {
  if constexpr (std::is_integral_v<E>) return Pack<C, 1>::of(C(e));
  else return value(e);
}
template <class E, class C> __device__ __forceinline__ E stored(Pack<C, 1> v) {
  if constexpr (std::is_integral_v<E>) return E(code_bits(v));
  else return element<E>(v);
}

}  // namespace quantize
namespace device_map {
template <class C> struct Lane<quantize::Number<C>> {
  using A = quantize::Number<C>;
  static __device__ __forceinline__ A zero() { return {0}; }
  template <class E> static __device__ __forceinline__ A of(E e) { return {quantize::number<C>(e)}; }
  template <class E> static __device__ __forceinline__ E as(A a) { return quantize::stored<E>(a.v); }
};
}  // namespace device_map
}  // namespace baracuda
