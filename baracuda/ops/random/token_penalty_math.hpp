#pragma once
#include <cstdint>
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace token_penalty {

struct Factors { double repetition, frequency, presence; };
// A logit whose token was generated `times` times, or stands in the prompt.
BARACUDA_HD double penalised(double v, int64_t times, const Factors& f) {
  if (f.repetition != 1) v = v > 0 ? v / f.repetition : v * f.repetition;
  return times > 0 ? v - f.frequency * double(times) - f.presence : v;
}

}  // namespace token_penalty
}  // namespace baracuda
