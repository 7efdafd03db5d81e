#pragma once
// Formulas of the codes that are no dtype: powers of two in eight bits, and floats and integers in four; host and device. The
// formats are cast_codes.hpp's.
#include <type_traits>
#include "baracuda/math/element.hpp"
#include "baracuda/ops/copy/cast_codes_format.hpp"

namespace baracuda::inline BARACUDA_ISA {

// --- e8m0
// 2^(code - 127), NaN for 255.
BARACUDA_HD float power_of(uint8_t code) { return __builtin_bit_cast(float, uint32_t(code) << 23 | (((code + 1) & 0xfe) != 0 ? 0u : 0x400000u)); }
// What is added to a number's bits carries into the exponent where it is rounded up; below 2^-126 the exponent does not move at 2^-127. Beyond the
// codes: `most`. Codes in the low 8 bits of each lane.
struct PowerRounding { int32_t added, added_below, most; };
BARACUDA_HD PowerRounding power_rounding(E8m0Rounding r, bool saturate) {
  const int32_t most = saturate ? 254 : 255;
  return r == E8m0Rounding::up ? PowerRounding{0x7fffff, 0x3fffff, most} : r == E8m0Rounding::nearest ? PowerRounding{0x400000, 0x200000, most} : PowerRounding{0, 0, most};
}
template <class V> BARACUDA_HD typename V::Bits power_code(V x, PowerRounding r) {
  using B = typename V::Bits;
  const B a = bits(x) & 0x7fffffff, zero = a - a, code = (a + (a < 0x800000 ? zero + r.added_below : zero + r.added)) >> 23, held = code > r.most ? zero + r.most : code;
  return x >= V(0) ? held : zero + 255;
}

// --- four bits
BARACUDA_HD float e2m1_value(int code) {
  const float magnitude = __builtin_bit_cast(float, uint32_t(code & 7) << 22) * 0x1p126f;  // exact
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, magnitude) | uint32_t(code & 8) << 28);
}
// The code of |x| is the least of three lines of |x|, rounded as a whole number behind the exponent of 2^23. Codes in the low bits of each lane.
template <class V> BARACUDA_HD typename V::Bits e2m1_code(V x) {
  using B = typename V::Bits;
  constexpr double kFrom = 12582912;  // 1.5 2^23
  const V a = where(abs(x) < 6, abs(x), V(6)), steep = fma(a, V(2), V(kFrom)), middle = a + (kFrom + 2), flat = fma(a, V(0.5), V(kFrom + 4));
  const B lower = bits(steep) < bits(middle) ? bits(steep) : bits(middle), least = lower < bits(flat) ? lower : bits(flat);
  const B code = (least & 7) | (bits(x) >> 28 & 8);
  return x == x ? code : code - code;
}
template <CodeFormat format> BARACUDA_HD float packed_value(int code) {
  if constexpr (format == CodeFormat::e2m1) return e2m1_value(code);
  else {  // behind the exponent of 2^23
    constexpr bool is_signed = format == CodeFormat::int4;
    return __builtin_bit_cast(float, 0x4b000000u | uint32_t(is_signed ? code ^ 8 : code)) - (8388608.0f + (is_signed ? 8.0f : 0.0f));
  }
}
template <CodeFormat format, class From> BARACUDA_HD int packed_code(From x) {
  if constexpr (format == CodeFormat::e2m1) {
    if constexpr (kIsNarrow<From> || std::is_same_v<From, float>) return e2m1_code(load<1>(&x));
    else return e2m1_code(Pack<float, 1>::of(to_odd_float(odd_double(x))));
  } else {
    constexpr int low = format == CodeFormat::int4 ? -8 : 0, high = low + 15;
    if constexpr (kIsNarrow<From>) return packed_code<format>(to_float(x));
    else {
      const From held = x < From(high) ? x : From(high), v = std::is_unsigned_v<From> || held > From(low) ? held : From(low);
      return x == x ? int(v) & 15 : 0;
    }
  }
}

}  // namespace baracuda
