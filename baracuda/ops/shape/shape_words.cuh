#pragma once
// Elements as bits.
#include "baracuda/device/map.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace shape_device {

struct alignas(16) Wide { uint64_t a, b; };
template <int kLog> struct BitsOf { using Type = std::conditional_t<kLog == 0, uint8_t, std::conditional_t<kLog == 1, uint16_t, std::conditional_t<kLog == 2, uint32_t, uint64_t>>>; };
template <> struct BitsOf<4> { using Type = Wide; };
template <class T> __device__ __forceinline__ T bits_of(uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, Wide>) return {a, b};
  else return T(a);
}

}  // namespace shape_device
}  // namespace baracuda
