#pragma once
// The pieces of gelu_math.hpp for Brief values: one word where those have two. Relative error 2^-18 at most where the result is normal.
#include "baracuda/device/brief.cuh"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <> struct ExpParts<Brief> { Brief value; };

}  // namespace elementwise

BARACUDA_HD elementwise::ExpParts<Brief> exp_parts(Brief hi) { return {exp(hi)}; }
BARACUDA_HD elementwise::ExpParts<Brief> exp_parts(Brief hi, Brief) { return {exp(hi)}; }
BARACUDA_HD Brief times(Brief w, elementwise::ExpParts<Brief> p) { return w * p.value; }
BARACUDA_HD Brief times_any(Brief w, elementwise::ExpParts<Brief> p) { return w * p.value; }
BARACUDA_HD Brief mills(Brief z) {  // minimax in t = (z - k) / (z + k), 2^-18.4
  const Brief k = elementwise::kMillsShift<Brief>, d = inverse(z + k), t = (z - k) * d;
  return d * poly(t, 0x1.7b6eb8p-1, -0x1.1b2392p-1, 0x1.2e842p-2, -0x1.926faep-4, 0x1.14014ap-7, 0x1.e9902cp-8, -0x1.c037e6p-10, -0x1.011c42p-11);
}
BARACUDA_HD Brief normal_tail(Brief z) { return z * mills(z) * exp(-0.5 * z * z); }
template <class E> BARACUDA_HD Brief times_sigmoid(Brief x, double most, E exponential) {
  const Brief z = clamp(abs(x), 0, most), t = exponential(z).value;
  return where(x < 0, -z * t, x) * inverse(1 + t);
}
BARACUDA_HD elementwise::ExpParts<Brief> exp_minus_gelu_argument(Brief x) {
  return {exp(x * fma(-0x1.6e4e26p-5 * 0x1.988454p0 * x, x, Brief(-0x1.988454p0)))};
}

}  // namespace baracuda
