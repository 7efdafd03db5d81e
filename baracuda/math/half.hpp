#pragma once
// f16 and bf16 to float and back, one value at a time, anywhere (host, device, constant expressions). Widening is exact.
// Narrowing rounds once, to nearest even, also from double; overflow gives infinity, subnormals are kept, a NaN stays a
// NaN (quiet, upper payload bits kept). math/element.hpp does the same for whole vectors, bit for bit.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "baracuda/core/dtype.hpp"
#include "baracuda/math/config.hpp"

namespace baracuda {

constexpr BARACUDA_HD float to_float(bf16 h) { return __builtin_bit_cast(float, uint32_t(h.bits) << 16); }
constexpr BARACUDA_HD float to_float(f16 h) {
  const uint32_t magnitude = uint32_t(h.bits & 0x7fff) << 13, sign = uint32_t(h.bits & 0x8000) << 16;
  if (magnitude >= 0x0f800000) return __builtin_bit_cast(float, magnitude | 0x70000000 | sign);  // inf, NaN
  const float x = __builtin_bit_cast(float, magnitude) * 0x1p112f;                               // exact
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) | sign);
}
constexpr BARACUDA_HD float to_float(float x) { return x; }

template <class T> constexpr BARACUDA_HD T from_float(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x), a = u & 0x7fffffff;
  if constexpr (std::is_same_v<T, float>) return x;
  else if constexpr (std::is_same_v<T, bf16>) {
    if (a > 0x7f800000) return {uint16_t((u >> 16) | 0x40)};
    return {uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
  } else {
    static_assert(std::is_same_v<T, f16>);
    const uint32_t sign = (u >> 16) & 0x8000;
    if (a > 0x7f800000) return {uint16_t(sign | 0x7e00 | ((a >> 13) & 0x3ff))};
    if (a >= 0x47800000) return {uint16_t(sign | 0x7c00)};
    if (a >= 0x38800000) {
      const uint32_t t = a - (112u << 23);
      return {uint16_t(sign | ((t + 0xfff + ((t >> 13) & 1)) >> 13))};
    }
    const float shifted = __builtin_bit_cast(float, a) + 0.5f;  // an ulp of 0.5 is an f16 subnormal: the addition rounds
    return {uint16_t(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3f000000))};
  }
}

// A double on its way to a half goes through float rounded to odd, so that the second rounding sees every lost bit.
constexpr BARACUDA_HD float to_odd_float(double x) {
  const float f = float(x);
  if (double(f) == x || x != x) return f;
  uint32_t bits = __builtin_bit_cast(uint32_t, f);
  const double magnitude = x < 0 ? -x : x;
  bits -= double(__builtin_bit_cast(float, bits & 0x7fffffff)) > magnitude;  // towards zero
  return __builtin_bit_cast(float, bits | 1);
}
template <class T> constexpr BARACUDA_HD T from_double(double x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else if constexpr (std::is_same_v<T, float>) return float(x);
  else return from_float<T>(to_odd_float(x));
}

template <class T> constexpr BARACUDA_HD double to_double(T x) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) return to_float(x);
  else return double(x);
}

}  // namespace baracuda
