#pragma once
// What a run's numbers are made with, for the rows of both devices: y and n are the row's.
#include <cmath>
#include "baracuda/ops/random/integers.hpp"
#include "baracuda/ops/random/random.hpp"
#include "baracuda/ops/random/random_cpu.hpp"

namespace baracuda::random_detail {

RandomNumbers numbers(const RandomUniformDescriptor& d, const RandomUniform::Args& a);
inline RandomNumbers numbers(const RandomNormalDescriptor& d, const RandomNormal::Args& a) { return {a.seed, a.offset, d.mean, d.std, 0, nullptr, 0}; }
inline RandomNumbers numbers(const RandomExponentialDescriptor& d, const RandomExponential::Args& a) { return {a.seed, a.offset, 0, 1 / d.rate, 0, nullptr, 0}; }
RandomNumbers numbers(const RandomTruncatedNormalDescriptor& d, const RandomUniform::Args& a);
inline RandomNumbers numbers(const LocationScaleDescriptor& d, const RandomUniform::Args& a) { return {a.seed, a.offset, d.loc, d.scale, 0, nullptr, 0}; }

// Words below it happen with probability p; 2^32 p is exact.
inline uint64_t threshold(double p) { return uint64_t(std::ceil(p * 0x1p32)); }
inline double kept_factor(double p) { return p < 1 ? 1 / (1 - p) : 0; }
// Of randint: high - low (0: 2^64), and the low halves that are drawn again.
struct IntegerRange { uint64_t low, range, least; };
inline IntegerRange range_of(const RandintDescriptor& d) {
  const uint64_t range = uint64_t(d.high.v - d.low.v);
  return {uint64_t(d.low.v), range, range == 0 ? 0 : range <= uint64_t(1) << 32 ? (uint64_t(1) << 32) % range : (0 - range) % range};
}
// The dtypes of randint.
using Numbers = TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;

}  // namespace baracuda::random_detail
