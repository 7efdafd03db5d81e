#pragma once
// The pieces of gelu_math.hpp, activation_math.hpp and function_math.hpp over Pack<brief, N>: one word where those have two. Relative
// error 2^-17, and that of exp. Kinds whose formulas are good over it: kBriefHalves.
#include "baracuda/math/brief.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <int N> struct ExpParts<Brief<N>> { Brief<N> value; };

template <class Op> inline constexpr bool kBriefHalves = false;
#define BARACUDA_BRIEF(k) template <> inline constexpr bool kBriefHalves<Unary<UnaryKind::k>> = true;
BARACUDA_BRIEF(exp) BARACUDA_BRIEF(exp2) BARACUDA_BRIEF(expm1) BARACUDA_BRIEF(log) BARACUDA_BRIEF(log2) BARACUDA_BRIEF(log10) BARACUDA_BRIEF(log1p)
BARACUDA_BRIEF(sigmoid) BARACUDA_BRIEF(erf) BARACUDA_BRIEF(erfc) BARACUDA_BRIEF(sinh) BARACUDA_BRIEF(cosh) BARACUDA_BRIEF(tanh) BARACUDA_BRIEF(gelu)
BARACUDA_BRIEF(gelu_tanh) BARACUDA_BRIEF(quick_gelu) BARACUDA_BRIEF(silu) BARACUDA_BRIEF(mish) BARACUDA_BRIEF(softplus) BARACUDA_BRIEF(log_sigmoid)
BARACUDA_BRIEF(elu) BARACUDA_BRIEF(selu) BARACUDA_BRIEF(celu) BARACUDA_BRIEF(tanh_softcap)
#undef BARACUDA_BRIEF

}  // namespace elementwise

// Where arguments of type Brief<N> find them.
template <int N> BARACUDA_HD elementwise::ExpParts<Brief<N>> exp_parts(Brief<N> hi) { return {falling_exp(hi)}; }  // hi <= 0
template <int N> BARACUDA_HD elementwise::ExpParts<Brief<N>> exp_parts(Brief<N> hi, Brief<N>) { return {falling_exp(hi)}; }
template <int N> BARACUDA_HD elementwise::ExpParts<Brief<N>> tail_density(Brief<N> z) { return {falling_power_of_two(z * z, -0.5 * kLog2E)}; }
template <int N> BARACUDA_HD Brief<N> ranged_inverse(Brief<N> b) { return inverse(b); }
template <int N> BARACUDA_HD Brief<N> times(Brief<N> w, elementwise::ExpParts<Brief<N>> p) { return w * p.value; }
template <int N> BARACUDA_HD Brief<N> times_any(Brief<N> w, elementwise::ExpParts<Brief<N>> p) { return w * p.value; }
template <int N> BARACUDA_HD Brief<N> mills(Brief<N> z) {  // minimax in t = (z - k) / (z + k), 2^-18.4
  const double k = elementwise::kMillsShift<Brief<N>>;
  const Brief<N> d = inverse(z + k), t = fma(d, Brief<N>(-2 * k), Brief<N>(1));
  return d * poly(t, 0x1.7b6eb8p-1, -0x1.1b2392p-1, 0x1.2e842p-2, -0x1.926faep-4, 0x1.14014ap-7, 0x1.e9902cp-8, -0x1.c037e6p-10, -0x1.011c42p-11);
}
template <int N> BARACUDA_HD Brief<N> ratio(Brief<N> a, Brief<N> b) { return a * inverse(b); }
template <int N> BARACUDA_HD Brief<N> normal_tail(Brief<N> z) { return z * mills(z) * falling_power_of_two(z * z, -0.5 * kLog2E); }
template <int N> BARACUDA_HD Brief<N> erfc(Brief<N> x) {
  const Brief<N> a = smaller(30, abs(x)), tail = 2 * mills(a * 1.41421356237309504880) * falling_power_of_two(a * a, -kLog2E);
  return where(x < 0, 2 - tail, tail);
}
template <int N, class E> BARACUDA_HD Brief<N> times_sigmoid(Brief<N> x, double most, E exponential) {
  const Brief<N> z = smaller(most, abs(x)), t = exponential(z).value;
  return where(x < 0, -z * t, x) * inverse(1 + t);
}
template <int N> BARACUDA_HD elementwise::ExpParts<Brief<N>> exp_minus_gelu_argument(Brief<N> x) {
  return {falling_power_of_two(x * fma(0x1.6e4e26p-5 * x, x, Brief<N>(1)), -0x1.988454p0 * kLog2E)};
}
template <int N> BARACUDA_HD Brief<N> log1p_unit(Brief<N> t) { return log1p(t); }
template <int N> BARACUDA_HD Brief<N> times_expm1(double factor, Brief<N> x) { return factor * expm1(where(x > 0, Brief<N>(0), x)); }
template <int N> BARACUDA_HD Brief<N> tanh_one_word(Brief<N> x) { return tanh(x); }

}  // namespace baracuda
