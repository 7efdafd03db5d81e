#pragma once
// What categorical and sampling_filter make of an element, on the host and the device: its key, its weight, its place in the race.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace categorical {

inline constexpr double kMostNegative = -0x1.fffffffffffffp1023;
// Bits that sort as the numbers do; equal for both zeros.
BARACUDA_HD uint64_t ordered(double x) {
  const uint64_t b = __builtin_bit_cast(uint64_t, x + 0.0);
  return b >> 63 ? ~b : b | uint64_t(1) << 63;
}
BARACUDA_HD uint32_t ordered(float x) {
  const uint32_t b = __builtin_bit_cast(uint32_t, x + 0.0f);
  return b >> 31 ? ~b : b | 0x80000000u;
}

// Sums of weights in units of 2^-63, exact and so the same in any order.
using Units = unsigned __int128;
BARACUDA_HD uint64_t units(double weight) { return uint64_t(weight * 0x1p63); }
BARACUDA_HD double as_number(Units sum) { return double(uint64_t(sum >> 64)) * 0x1p64 + double(uint64_t(sum)); }
// Whether one more is taken when those before have this sum.
BARACUDA_HD bool wanted(Units before, Units total, double top_p) { return as_number(before) < top_p * as_number(total); }

struct Weights {
  bool probabilities;
  double most, temperature;  // the largest element

  BARACUDA_HD double never() const { return probabilities ? 0 : -kInf; }
  BARACUDA_HD bool may_be_drawn(double x) const { return x > never(); }
  BARACUDA_HD bool valid(double x) const { return x == x && x != kInf && (!probabilities || x >= 0); }
  // Logits below the largest over the temperature; what may be drawn stays finite.
  BARACUDA_HD double score(double x) const {
    if (probabilities || !(x > -kInf)) return x;
    const double s = (x - most) / temperature;
    return s > kMostNegative ? s : kMostNegative;
  }
  // The probability relative to the largest, in [0, 1].
  BARACUDA_HD double weight(double x) const { return probabilities ? x / most : exp(Pack<double, 1>::of(score(x))).v; }
  // In the race the largest wins. number: exponential for probabilities, Gumbel for logits.
  BARACUDA_HD double raced(double score, double number) const { return probabilities ? score / number : score + number; }
  // Of the sum of weights.
  BARACUDA_HD double share(double x, Units total) const { return weight(x) / (as_number(total) * 0x1p-63); }
};

}  // namespace categorical
}  // namespace baracuda
