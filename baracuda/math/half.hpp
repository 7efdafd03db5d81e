#pragma once
// f16, bf16 and the 8-bit floats to float and back, one value at a time, anywhere (host, device, constant expressions). Widening is exact.
// Narrowing rounds once, to nearest even, also from double; overflow gives infinity (NaN in an 8-bit float without one),
// subnormals are kept, a NaN stays a NaN (quiet; a half keeps the upper payload bits). math/element.hpp does the same for whole vectors, bit for bit.
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

// What tells the 8-bit floats apart. Codes without the sign: the largest finite one, what an overflow gives, NaN.
struct Float8Format { int fraction, bias; uint8_t largest, overflow, nan; bool signed_zero; };
template <class T> inline constexpr Float8Format kFloat8 = {};
template <> inline constexpr Float8Format kFloat8<f8_e4m3fn> = {3, 7, 0x7e, 0x7f, 0x7f, true};
template <> inline constexpr Float8Format kFloat8<f8_e5m2> = {2, 15, 0x7b, 0x7c, 0x7f, true};
template <> inline constexpr Float8Format kFloat8<f8_e4m3fnuz> = {3, 8, 0x7f, 0x80, 0x80, false};
template <> inline constexpr Float8Format kFloat8<f8_e5m2fnuz> = {2, 16, 0x7f, 0x80, 0x80, false};
template <class T> inline constexpr bool kIsFloat8 = kFloat8<T>.fraction > 0;
template <class T> concept IsFloat8 = kIsFloat8<T>;
// The bits of floats that both ways need: that of the smallest normal number, of an addend whose last place is that of the
// subnormals, and of the factor that takes the exponent from one bias to the other.
template <class T> inline constexpr uint32_t kFloat8Normal = uint32_t(128 - kFloat8<T>.bias) << 23;
template <class T> inline constexpr uint32_t kFloat8Addend = uint32_t(151 - kFloat8<T>.bias - kFloat8<T>.fraction) << 23;
template <class T> inline constexpr uint32_t kFloat8Factor = uint32_t(254 - kFloat8<T>.bias) << 23;

template <IsFloat8 T> constexpr BARACUDA_HD float to_float(T h) {
  constexpr Float8Format f = kFloat8<T>;
  const uint32_t magnitude = h.bits & 0x7f, sign = uint32_t(h.bits & 0x80) << 24;
  if (f.signed_zero ? magnitude > f.largest : h.bits == f.nan)  // an infinity is the overflow that is not NaN
    return __builtin_bit_cast(float, sign | 0x7f800000 | (magnitude == f.overflow && f.overflow != f.nan ? 0 : 0x400000));
  const float x = __builtin_bit_cast(float, magnitude << (23 - f.fraction)) * __builtin_bit_cast(float, kFloat8Factor<T>);  // exact
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) | sign);
}
template <IsFloat8 T> constexpr BARACUDA_HD T float8(float x) {
  constexpr Float8Format f = kFloat8<T>;
  constexpr int shift = 23 - f.fraction;
  const uint32_t u = __builtin_bit_cast(uint32_t, x), a = u & 0x7fffffff, sign = (u >> 24) & 0x80;
  uint32_t code = 0;
  if (a > 0x7f800000) code = f.nan;
  else if (a >= kFloat8Normal<T>) {
    const uint32_t t = a - kFloat8Normal<T> + (1u << 23);
    code = (t + (1u << (shift - 1)) - 1 + ((t >> shift) & 1)) >> shift;
    if (code > f.largest) code = f.overflow;
  } else {
    const float shifted = __builtin_bit_cast(float, a) + __builtin_bit_cast(float, kFloat8Addend<T>);  // the addition rounds
    code = __builtin_bit_cast(uint32_t, shifted) - kFloat8Addend<T>;
  }
  return {uint8_t(f.signed_zero || (code & 0x7f) ? code | sign : code)};
}

template <class T> constexpr BARACUDA_HD T from_float(float x) {
  const uint32_t u = __builtin_bit_cast(uint32_t, x), a = u & 0x7fffffff;
  if constexpr (std::is_same_v<T, float>) return x;
  else if constexpr (kIsFloat8<T>) return float8<T>(x);
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

// A double on its way to a narrower float than f32 goes through float rounded to odd, so that the second rounding sees every lost bit.
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
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16> || kIsFloat8<T>) return to_float(x);
  else return double(x);
}

}  // namespace baracuda
