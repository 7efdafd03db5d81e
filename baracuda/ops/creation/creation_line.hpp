#pragma once
// The values of arange and linspace along their axis, in f64: for instruction sets, host and device.
#include "baracuda/math/element.hpp"

namespace baracuda {

struct CreationLine {  // of linspace
  double start, end, half, step;
  int64_t steps;
  bool narrow;  // step = 2 half is finite
};

inline namespace BARACUDA_ISA {
namespace creation {

BARACUDA_HD double ramp(double start, double step, double i) { return __builtin_fma(i, step, start); }
// i places from the start, or from the end backwards.
BARACUDA_HD double ahead(const CreationLine& l, double i) { return l.narrow ? __builtin_fma(i, l.step, l.start) : 2 * __builtin_fma(i, l.half, l.start / 2); }
BARACUDA_HD double behind(const CreationLine& l, double i) { return l.narrow ? __builtin_fma(-i, l.step, l.end) : 2 * __builtin_fma(-i, l.half, l.end / 2); }
// Places before it count from the start.
BARACUDA_HD int64_t turn(const CreationLine& l) { return l.steps == 0 ? 1 : (l.steps + 1) / 2; }

}  // namespace creation
}  // namespace BARACUDA_ISA
}  // namespace baracuda
