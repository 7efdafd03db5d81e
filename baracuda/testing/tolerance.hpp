#pragma once
// How far a result may be from the double oracle, from the dtype and the shape of the computation.
#include <cmath>
#include <limits>
#include <string>
#include <vector>
#include "baracuda/testing/tensor.hpp"

namespace baracuda::testing {

// Distance from 1 to the next value, halved: the relative error of one rounding.
inline double unit_roundoff(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}
inline double smallest_subnormal(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-1074;
    case DType::f32: return 0x1p-149;
    case DType::f16: return 0x1p-24;
    case DType::bf16: return 0x1p-133;
    default: return 0;
  }
}
struct Tolerance {
  DType dtype;
  double ulps = 1;         // roundings to the result's dtype, in half ulps of the result
  double terms = 0;        // length of the longest sum behind an element; its error grows like sqrt(terms) roundings
  double condition = 0;    // magnitude of what is summed, per element; 0: the result's own magnitude
  // Roundings happen in the accumulator (f32 for halves) and once in dtype.
  double bound(double want) const {
    const double accumulate = unit_roundoff(accumulator(dtype)) * (4 + 4 * std::sqrt(terms)) * std::max(condition, std::fabs(want));
    return unit_roundoff(dtype) * ulps * 1.01 * std::fabs(want) + accumulate + smallest_subnormal(dtype);
  }
};

struct Comparison {
  int64_t wrong = 0, first = -1;
  double worst = 0;        // largest error over its bound
  double worst_ulp = 0;    // largest error in units of the dtype's last place of the wanted value
  std::string message;
  explicit operator bool() const { return wrong == 0; }
};
// Element by element. NaN matches NaN, infinities match by sign, and a wanted value beyond the dtype's range matches
// the infinity that it rounds to. `scale`, where given, is the condition of each element.
Comparison compare(const Tensor& got, const std::vector<double>& want, Tolerance tolerance, const std::vector<double>* scale = nullptr);

}  // namespace baracuda::testing

#define EXPECT_CLOSE(got, want, ...)                                                                         \
  do {                                                                                                       \
    const auto comparison_ = ::baracuda::testing::compare((got), (want), __VA_ARGS__);                       \
    EXPECT_TRUE(comparison_) << #got << ": " << comparison_.message;                                         \
  } while (0)
