#pragma once
// The formulas of four-bit codes, for one element; host and device. The formats are quantize_packed.hpp's.
#include <cstdint>
#include <type_traits>
#include "baracuda/math/half.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/copy/cast_codes_math.hpp"
#include "baracuda/ops/quantize/quantize_format.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace quantize_packed {

inline constexpr int kNormalZero = 7, kIntZero = 8;

// The value of nf4's code k.
BARACUDA_HD float normal_value(int k) {
  constexpr float value[16] = {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
                               -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
                               0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
  return value[k];
}
BARACUDA_HD float code_value(PackedFormat format, int k, int32_t zero_point) {
  return format == PackedFormat::nf4 ? normal_value(k) : format == PackedFormat::int4 ? float(int64_t(k) - zero_point) : e2m1_value(k);
}

// The cuts between neighbouring codes of nf4, each of the lower one, and how many lie below v.
inline constexpr int kCuts = 15;
BARACUDA_HD double cut_of(int k) { return (double(normal_value(k)) + double(normal_value(k + 1))) / 2; }
BARACUDA_HD int normal_code(double v) {
  int n = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int k = 0; k < kCuts; ++k) n += v > cut_of(k);
  return n;
}
BARACUDA_HD int zero_code(PackedFormat format) { return format == PackedFormat::nf4 ? kNormalZero : format == PackedFormat::int4 ? kIntZero : 0; }
// v = x / scale; NaN is the code of 0.
BARACUDA_HD int code_of(PackedFormat format, double v) {
  using D = Pack<double, 1>;
  if (v != v) return zero_code(format);
  if (format == PackedFormat::nf4) return normal_code(v);
  if (format == PackedFormat::int4) return int(((clamp(D(v), -8, 7) + kMagic<D>) - kMagic<D>).v) + kIntZero;
  return e2m1_code(Pack<float, 1>::of(to_odd_float(v)));
}
// Codes with a scale in f32, of |v| <= 1 (nf4) and <= 7 (int4), by fixed point: kPlacedFrom + v times kPlacedEach (int4: 1) as an f32 is kPlacedWord
// and so many 2^-16. int4, and e2m1 with the least of 2 v, 2 + v and 4 + v / 2 of the magnitude for v: its high half is the code. nf4: its third byte is a
// cell, none of which has more than one cut; with the cell's word added the high half is the code. The low half is less than 2 kSlack + 1 where the quotient may be on the other side of a cut. bf16 has no such quotient
// (each pair of significands was tried).
inline constexpr int kPlacedCells = 33;
inline constexpr float kPlacedEach = 16;
inline constexpr uint32_t kPlacedWord = 0x43000000u;  // 128
template <class T, PackedFormat format> inline constexpr uint32_t kSlack = format == PackedFormat::nf4 && std::is_same_v<T, bf16> ? 0 : 1;
inline constexpr float kPlacedBase = 128;
template <class T, PackedFormat format> inline constexpr float kPlacedFrom =
    format == PackedFormat::nf4 ? 144.40625f : kPlacedBase + (format == PackedFormat::int4 ? 8.5f : 0.5f) + float(kSlack<T, format>) / 65536;
inline uint32_t placed_cell(int i) {
  const double low = i + 128 - double(kPlacedFrom<float, PackedFormat::nf4>);
  int below = 0;
  while (below < kCuts && cut_of(below) * kPlacedEach < low) ++below;
  const double in = below < kCuts ? cut_of(below) * kPlacedEach - low : 1;
  return (uint32_t(below - i) << 16) + (in < 1 ? 65536 - uint32_t(in * 65536 + 0.5) : 0) - kPlacedWord;
}
// int4 of a half x: x / s, s = most / 7 rounded, is a cut of 7 x / most or 2^-16 and more away from it. It is one where x is most / 2, and what s has
// lost or gained tells the side; or s is exact, and x times 1 / s rounded to 2^-18 is the tie, which goes to even. (Each pair of significands was tried.)
// e2m1 of a half with a scale of eight bits at most: a cut times the scale has eleven, so x is there, or 2^-11 of it away. Rounded to
// 2^-16 and then to the code.
inline constexpr float kRoundWord = 12582912;  // 1.5 2^23
BARACUDA_HD float rounding_factor(float r, float s, float most) {
  const float lost = __builtin_fmaf(-7, s, most);
  return __builtin_fmaf(r, lost > 0 ? 0x1p-19f : lost < 0 ? -0x1p-19f : 0.0f, r);
}
BARACUDA_HD int code_of(PackedFormat format, double x, double s) {
  const double zero = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & uint64_t(1) << 63);
  return code_of(format, s > 0 ? x / s : x == x ? zero : x);
}

// The scale of a block whose largest finite magnitude is `most`: what is stored, and what elements are divided by.
template <class S> struct BlockScale {
  S stored;
  double value;
};
BARACUDA_HD float at_most_float(double v) { return float(v < 3.4028234663852886e38 ? v : 3.4028234663852886e38); }
BARACUDA_HD BlockScale<float> float_scale(PackedFormat format, double most) {
  const float s = at_most_float(format == PackedFormat::nf4 ? most : most / 7);
  return {s, double(s)};
}
// Of a float the quotient is as well made in f32: rounded twice it is the same.
BARACUDA_HD BlockScale<float> float_scale(PackedFormat format, float most) {
  const float s = format == PackedFormat::nf4 ? most : most / 7;
  return {s, double(s)};
}
BARACUDA_HD BlockScale<f8_e4m3fn> e4m3_scale(double most, double global) {
  const double s = most / 6 / global;
  const f8_e4m3fn b = from_double<f8_e4m3fn>(global > 0 && global < kInf ? s < 448 ? s : 448.0 : 0.0);
  return {b, double(to_float(b)) * global};
}
// The number of an e4m3 that is not negative and no NaN.
BARACUDA_HD float e4m3_of(uint32_t code) { return __builtin_bit_cast(float, code << 20) * 0x1p120f; }
// Of a float, near about most / (6 global), without doubles: the e4m3 below `near`, or the next, as the tie between them times 6 global tells; of that
// product f32 has the number and what it lost. No quotient of such numbers rounds to a tie that it is not.
BARACUDA_HD uint32_t e4m3_code(float most, float global, float near) {
  if (!(global > 0x1p-60f && global < 0x1p60f)) return e4m3_scale(double(most), double(global)).stored.bits;
  uint32_t code = __builtin_bit_cast(uint32_t, (near < 448 ? near : 448.0f) * 0x1p-120f) >> 20;
  const float tie = __builtin_bit_cast(float, (2 * code + 1) << 19) * (6 * 0x1p120f), cut = tie * global, lost = __builtin_fmaf(tie, global, -cut);
  return code + (code < 126 && (most > cut || (most == cut && (lost < 0 || (lost == 0 && code % 2 == 1)))) ? 1 : 0);
}
BARACUDA_HD BlockScale<uint8_t> power_scale(double most) {
  int e = -127;
  if (most > 0) {  // floor(log2 most) - 2, of doubles that are normal numbers or below any float
    e = int(__builtin_bit_cast(uint64_t, most) >> 52) - 1023 - 2;
    e = e < -127 ? -127 : e > 127 ? 127 : e;
  }
  return {uint8_t(e + 127), __builtin_bit_cast(double, uint64_t(e + 1023) << 52)};
}
BARACUDA_HD uint8_t power_code(float most) {  // what is stored for a float
  const int e = int(__builtin_bit_cast(uint32_t, most) >> 23) - 2;
  return uint8_t(e < 0 ? 0 : e);
}

}  // namespace quantize_packed
}  // namespace baracuda
