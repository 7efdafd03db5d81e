#pragma once
// Halves by the processor's own conversions, one instruction each: what math/half.hpp gives, but for the payload of a NaN. In kernels
// value(e) and element<T>(v) stand for load<1>(&e) and store<T, 1>(&e, v).
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {

__device__ __forceinline__ float widened(f16 h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) | uint32_t(h.bits & 0x8000) << 16);  // a NaN lost its sign
}
__device__ __forceinline__ float widened(bf16 h) { return to_float(h); }
template <class T> __device__ __forceinline__ T narrowed(float x) {
  T h;
  if constexpr (kIsF16<T>) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  else asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
}
template <class T> __device__ __forceinline__ Pack<Acc<T>, 1> value(T e) {
  if constexpr (kIsHalf<T>) return Pack<float, 1>::of(widened(e));
  else return load<1>(&e);
}
template <class T> __device__ __forceinline__ T element(Pack<Acc<T>, 1> v) {
  if constexpr (kIsHalf<T>) return narrowed<T>(v.v);
  else {
    T e;
    store<T, 1>(&e, v);
    return e;
  }
}

}  // namespace baracuda
