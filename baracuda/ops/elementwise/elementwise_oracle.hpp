#pragma once
// What the tests of the family know about each kind: the function from its definition on libm, its slope by dual
// numbers, the error bound. The switches have no default, so that a kind without an entry is a compile error.
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/ops/elementwise/elementwise_dual.hpp"
#include "baracuda/ops/elementwise/elementwise_math.hpp"
#include "baracuda/ops/elementwise/special_oracle.hpp"
#include "baracuda/testing/tensor.hpp"

namespace baracuda {

namespace testing {

// Parameters that the tests use where a kind takes them.
struct Parameters { double alpha = 1, beta = 1, gamma = 1; };
inline Parameters test_parameters(UnaryKind k) {
  switch (k) {
    case UnaryKind::clamp: case UnaryKind::hardtanh: return {-0.75, 1.25};
    case UnaryKind::nan_to_num: return {0.5, 100, -200};
    case UnaryKind::threshold: return {0.25, -3};
    case UnaryKind::logit: return {0.125};
    case UnaryKind::softplus: return {1.75, 20};
    case UnaryKind::pow_scalar: return {2.5};
    default: return {1.75, -0.625};  // exact in every dtype
  }
}
inline Parameters test_parameters(BinaryKind k) {
  if (k == BinaryKind::isclose) return {0.25, 0.0625, 1};
  return {1.75, -0.625};
}

template <class L> L gelu(L x) { return x < -1000 ? L(-0.0) : x * normal_cdf(x); }
template <class L> L softplus_of(L x) { return (x > 0 ? x : std::isnan(x) ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
template <class L> L sigmoid_of(L x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
template <class L> L clamped(L x, L low, L high) { return std::isnan(x) ? x : std::min(std::max(x, low), high); }
template <class L> L odd_series_shrink(L x) {  // x - tanh(x) by its series where the difference cancels
  if (std::fabs(x) > L(0.25)) return x - std::tanh(x);
  const L z = x * x;
  L term = x * z / 3;
  const long double c[] = {1.0L / 3, -2.0L / 15, 17.0L / 315, -62.0L / 2835, 1382.0L / 155925, -21844.0L / 6081075, 929569.0L / 638512875,
                           -6404582.0L / 10854718875, 443861162.0L / 1856156927625, -18888466084.0L / 194896477400625, 113927491862.0L / 2900518163668125};
  L sum = 0, power = x * z;
  for (long double k : c) sum += L(k) * power, power *= z;
  return z == 0 ? term : sum;
}
template <class L> L logit_of(L x) {
  if (x > L(0.25) && x < L(0.75)) return 2 * std::atanh(2 * x - 1);
  return std::log(x) - std::log1p(-x);
}

template <class L> L oracle(UnaryKind k, L x, const Parameters& p) {
  const L pi = std::acos(L(-1)), alpha = L(p.alpha), beta = L(p.beta);
  const bool nan = std::isnan(x);
  switch (k) {
    case UnaryKind::neg: return -x;
    case UnaryKind::abs: return std::fabs(x);
    case UnaryKind::square: return x * x;
    case UnaryKind::cube: return x * x * x;
    case UnaryKind::sqrt: return std::sqrt(x);
    case UnaryKind::rsqrt: return 1 / std::sqrt(x);
    case UnaryKind::reciprocal: return 1 / x;
    case UnaryKind::scale: return alpha * x;
    case UnaryKind::affine: return alpha * x + beta;
    case UnaryKind::sign: case UnaryKind::sgn: return x > 0 ? 1 : x < 0 ? -1 : x;
    case UnaryKind::real: case UnaryKind::conj: return x;
    case UnaryKind::angle: return nan ? x : x < 0 ? pi : 0;
    case UnaryKind::step: return x > 0 ? 1 : 0;
    case UnaryKind::floor: return std::floor(x);
    case UnaryKind::ceil: return std::ceil(x);
    case UnaryKind::round: return std::nearbyint(x);
    case UnaryKind::trunc: return std::trunc(x);
    case UnaryKind::frac: return std::copysign(x - std::trunc(x), x);
    case UnaryKind::relu: return nan ? x : x > 0 ? x : 0;
    case UnaryKind::clamp: case UnaryKind::hardtanh: return clamped(x, alpha, beta);
    case UnaryKind::nan_to_num: return nan ? alpha : std::isinf(x) ? (x > 0 ? beta : L(p.gamma)) : x;
    case UnaryKind::deg2rad: return x * pi / 180;
    case UnaryKind::rad2deg: return x * (180 / pi);
    case UnaryKind::exp: return std::exp(x);
    case UnaryKind::exp2: return std::exp2(x);
    case UnaryKind::expm1: return std::expm1(x);
    case UnaryKind::log: return std::log(x);
    case UnaryKind::log2: return std::log2(x);
    case UnaryKind::log10: return std::log10(x);
    case UnaryKind::log1p: return std::log1p(x);
    case UnaryKind::sigmoid: return sigmoid_of(x);
    case UnaryKind::logit: return nan ? x : logit_of(clamped(x, alpha, 1 - alpha));
    case UnaryKind::erf: return std::erf(x);
    case UnaryKind::erfc: return std::erfc(x);
    case UnaryKind::cbrt: return std::cbrt(x);
    case UnaryKind::pow_scalar: return std::pow(x, alpha);
    case UnaryKind::sin: return std::sin(x);
    case UnaryKind::cos: return std::cos(x);
    case UnaryKind::tan: return std::tan(x);
    case UnaryKind::asin: return std::asin(x);
    case UnaryKind::acos: return std::acos(x);
    case UnaryKind::atan: return std::atan(x);
    case UnaryKind::sinh: return std::sinh(x);
    case UnaryKind::cosh: return std::cosh(x);
    case UnaryKind::tanh: return std::tanh(x);
    case UnaryKind::asinh: return std::asinh(x);
    case UnaryKind::acosh: return std::acosh(x);
    case UnaryKind::atanh: return std::atanh(x);
    case UnaryKind::gelu: return gelu(x);
    case UnaryKind::gelu_tanh: {
      const L u = 2 * std::sqrt(2 / pi) * (x + L(44715) / 1000000 * x * x * x);
      return x < -1000 ? L(-0.0) : x < 0 ? x * std::exp(u) / (1 + std::exp(u)) : x / (1 + std::exp(-u));
    }
    case UnaryKind::quick_gelu: return x < -20000 ? L(-0.0) : x * sigmoid_of(alpha * x);
    case UnaryKind::silu: return x < -20000 ? L(-0.0) : x * sigmoid_of(x);
    case UnaryKind::mish: {
      const L e = std::exp(x);
      return x < -20000 ? L(-0.0) : x < 0 ? x * e * (e + 2) / (e * e + 2 * e + 2) : x * std::tanh(softplus_of(x));
    }
    case UnaryKind::softplus: return alpha * x > beta ? x : softplus_of(alpha * x) / alpha;
    case UnaryKind::log_sigmoid: return -softplus_of(-x);
    case UnaryKind::elu: return x < 0 ? alpha * std::expm1(x) : x;
    case UnaryKind::selu: return L(1.0507009873554804934193349852946L) * (x < 0 ? L(1.6732632423543772848170429916717L) * std::expm1(x) : x);
    case UnaryKind::celu: return x < 0 ? alpha * std::expm1(x / alpha) : x;
    case UnaryKind::leaky_relu: return x > 0 ? x : alpha * x;
    case UnaryKind::relu6: return clamped(x, L(0), L(6));
    case UnaryKind::relu_squared: return nan ? x : x > 0 ? x * x : 0;
    case UnaryKind::hardsigmoid: return clamped((x + 3) / 6, L(0), L(1));
    case UnaryKind::hardswish: return x <= -3 ? L(-0.0) : x >= 3 ? x : x * (x + 3) / 6;
    case UnaryKind::hardshrink: return std::fabs(x) <= alpha ? 0 : x;
    case UnaryKind::softshrink: return std::fabs(x) <= alpha ? 0 : x > 0 ? x - alpha : x + alpha;
    case UnaryKind::softsign: return std::isinf(x) ? std::copysign(L(1), x) : x / (1 + std::fabs(x));
    case UnaryKind::tanhshrink: return odd_series_shrink(x);
    case UnaryKind::tanh_softcap: return alpha * std::tanh(x / alpha);
    case UnaryKind::threshold: return x <= alpha ? beta : x;
    case UnaryKind::squareplus: {
      const Real h = std::hypot(Real(x), std::sqrt(Real(alpha)));
      return L(x < 0 ? Real(alpha) / 2 / (h - x) : (x + h) / 2);
    }
    case UnaryKind::sparse_plus: return x <= -1 ? 0 : x >= 1 ? x : (x + 1) * (x + 1) / 4;
    case UnaryKind::sparse_sigmoid: return clamped((x + 1) / 2, L(0), L(1));
    case UnaryKind::sinc: return L(sinc_of(x));
    case UnaryKind::lgamma: return L(lgamma_of(x));
    case UnaryKind::digamma: return L(digamma_of(x));
    case UnaryKind::erfinv: return L(erf_inverse(x));
    case UnaryKind::ndtr: return L(normal_cdf<Real>(x));
    case UnaryKind::ndtri: return L(normal_quantile(x));
    case UnaryKind::log_ndtr: return L(log_normal_cdf(x));
    case UnaryKind::i0: return L(bessel_i(0, std::fabs(x), false).value);
    case UnaryKind::i0e: return L(bessel_i(0, std::fabs(x), true).value);
    case UnaryKind::i1: return L(odd_bessel(x, false));
    case UnaryKind::i1e: return L(odd_bessel(x, true));
    case UnaryKind::entr: return x == 0 ? 0 : x < 0 ? -INFINITY : -x * std::log(x);
    case UnaryKind::log1mexp: return L(log1mexp_of(x));
    case UnaryKind::logical_not: return x == 0;
    case UnaryKind::isnan: return nan;
    case UnaryKind::isinf: return std::isinf(x);
    case UnaryKind::isfinite: return std::isfinite(x);
    case UnaryKind::isposinf: return std::isinf(x) && x > 0;
    case UnaryKind::isneginf: return std::isinf(x) && x < 0;
    case UnaryKind::signbit: return std::signbit(x);
    case UnaryKind::isreal: return 1;
    case UnaryKind::imag: break;  // of complex numbers
    case UnaryKind::bitwise_not: case UnaryKind::population_count: case UnaryKind::clz: case UnaryKind::ctz: break;  // of integers
  }
  return NAN;
}
// Largest error of the forward function in ulp, f32 and f64.
struct UlpBound { double f32, f64; };
inline UlpBound ulp_bound(UnaryKind k) {
  switch (k) {
    case UnaryKind::angle: case UnaryKind::sqrt: case UnaryKind::square: case UnaryKind::reciprocal: case UnaryKind::scale: case UnaryKind::affine: case UnaryKind::leaky_relu: case UnaryKind::relu_squared: case UnaryKind::softshrink: return {0.5, 0.5};
    case UnaryKind::cube: return {1.3, 1.3};
    case UnaryKind::rsqrt: return {1.5, 1.5};
    case UnaryKind::deg2rad: return {0.64, 0.66};
    case UnaryKind::rad2deg: return {0.7, 0.82};
    case UnaryKind::exp: return {1.1, 1.08};
    case UnaryKind::exp2: return {1.24, 1.2};
    case UnaryKind::expm1: return {1.26, 1.34};
    case UnaryKind::log: return {0.86, 0.85};
    case UnaryKind::log2: return {0.97, 0.87};
    case UnaryKind::log10: return {0.78, 0.76};
    case UnaryKind::log1p: return {1.4, 1.36};
    case UnaryKind::sigmoid: return {2.42, 2.4};
    case UnaryKind::logit: return {0.77, 0.77};
    case UnaryKind::erf: return {1.07, 1.09};
    case UnaryKind::erfc: return {1.95, 2.4};
    case UnaryKind::cbrt: return {0.51, 0.51};
    case UnaryKind::pow_scalar: return {1.25, 1.25};
    case UnaryKind::sin: case UnaryKind::cos: return {0.8, 0.86};
    case UnaryKind::tan: return {2.2, 2.3};
    case UnaryKind::asin: return {0.63, 0.63};
    case UnaryKind::acos: return {0.61, 0.61};
    case UnaryKind::atan: return {1.2, 1.35};
    case UnaryKind::sinh: case UnaryKind::cosh: return {1.25, 1.25};
    case UnaryKind::tanh: return {2.48, 2.45};
    case UnaryKind::asinh: case UnaryKind::atanh: return {1.01, 1.01};
    case UnaryKind::acosh: return {0.77, 0.77};
    case UnaryKind::gelu: return {1.95, 2.2};
    case UnaryKind::gelu_tanh: return {1.9, 2.1};
    case UnaryKind::quick_gelu: return {2.05, 2};
    case UnaryKind::silu: return {1.8, 1.95};
    case UnaryKind::mish: return {2.45, 2.45};
    case UnaryKind::softplus: return {2.25, 2.25};
    case UnaryKind::log_sigmoid: return {1.8, 1.7};
    case UnaryKind::elu: return {0.97, 1};
    case UnaryKind::selu: return {1.07, 1.07};
    case UnaryKind::celu: return {1.45, 1.5};
    case UnaryKind::hardsigmoid: return {1.01, 1.01};
    case UnaryKind::hardswish: return {1.95, 1.95};
    case UnaryKind::softsign: return {1.51, 1.51};
    case UnaryKind::tanhshrink: return {2.35, 2.3};
    case UnaryKind::tanh_softcap: return {2.4, 2.35};
    case UnaryKind::squareplus: return {1.85, 1.9};
    case UnaryKind::sparse_plus: return {1.95, 1.95};
    case UnaryKind::sparse_sigmoid: return {0.5, 0.5};
    case UnaryKind::sinc: return {1.5, 1.5};
    case UnaryKind::lgamma: return {1.5, 1.4};
    case UnaryKind::digamma: return {2, 2.3};
    case UnaryKind::erfinv: return {2.3, 2.45};
    case UnaryKind::ndtr: return {1.75, 2.4};
    case UnaryKind::ndtri: return {1.85, 1.9};
    case UnaryKind::log_ndtr: return {2.15, 2.25};
    case UnaryKind::i0: return {2.45, 2.5};
    case UnaryKind::i0e: return {2, 2.15};
    case UnaryKind::i1: return {2.05, 2.2};
    case UnaryKind::i1e: return {1.8, 1.85};
    case UnaryKind::entr: return {1.55, 1.6};
    case UnaryKind::log1mexp: return {1.85, 1.95};
    default: return {0, 0};  // exact
  }
}
// What an error is measured by where two terms cancel: the reflections of lgamma and digamma.
template <class L> L larger_term(UnaryKind k, L x, L y) {
  if (!(x < 0) || !std::isfinite(y)) return y;
  const L other = k == UnaryKind::lgamma && x < -2 ? std::max(L(lgamma_of(-x)), L(1)) : k == UnaryKind::digamma ? L(digamma_of(1 - x)) : 0;
  return std::max(std::fabs(y), std::fabs(other));
}
template <class L> L oracle(BinaryKind k, L a, L b, const Parameters& p) {
  const bool nan = std::isnan(a) || std::isnan(b);
  const L alpha = L(p.alpha), beta = L(p.beta);
  switch (k) {
    case BinaryKind::add: return a + b;
    case BinaryKind::sub: return a - b;
    case BinaryKind::mul: return a * b;
    case BinaryKind::div: return a / b;
    case BinaryKind::maximum: case BinaryKind::clamp_min: return nan ? L(NAN) : a > b ? a : b;
    case BinaryKind::minimum: case BinaryKind::clamp_max: return nan ? L(NAN) : a < b ? a : b;
    case BinaryKind::scale_add: return alpha * a + beta * b;
    case BinaryKind::lerp: return a + alpha * (b - a);
    case BinaryKind::fmax: return std::fmax(a, b);
    case BinaryKind::fmin: return std::fmin(a, b);
    case BinaryKind::div_trunc: return std::trunc(a / b);
    case BinaryKind::floor_divide: return std::floor(a / b);
    case BinaryKind::fmod: return std::fmod(a, b);
    case BinaryKind::remainder: {
      const L r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case BinaryKind::prelu: return a > 0 ? a : a * b;
    case BinaryKind::copysign: return std::copysign(a, b);
    case BinaryKind::heaviside: return a == 0 ? b : a > 0 ? 1 : a < 0 ? 0 : a;
    case BinaryKind::pow: return std::pow(a, b);
    case BinaryKind::atan2: return std::atan2(a, b);
    case BinaryKind::hypot: return std::hypot(a, b);
    case BinaryKind::logaddexp: return nan ? L(NAN) : a == b ? a + std::log(L(2)) : std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
    case BinaryKind::logaddexp2: return nan ? L(NAN) : a == b ? a + 1 : std::max(a, b) + std::log1p(std::exp2(-std::fabs(a - b))) / std::log(L(2));
    case BinaryKind::xlog1py: return a == 0 && !std::isnan(b) ? 0 : a * std::log1p(b);
    case BinaryKind::ldexp: return a * std::exp2(b);
    case BinaryKind::xlogy: return a == 0 && !std::isnan(b) ? 0 : a * std::log(b);
    case BinaryKind::eq: return a == b;
    case BinaryKind::ne: return a != b;
    case BinaryKind::lt: return a < b;
    case BinaryKind::le: return a <= b;
    case BinaryKind::gt: return a > b;
    case BinaryKind::ge: return a >= b;
    case BinaryKind::isclose:
      return nan ? std::isnan(a) && std::isnan(b) && p.gamma != 0
                 : a == b || (std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= beta + alpha * std::fabs(b));
    case BinaryKind::logical_and: return a != 0 && b != 0;
    case BinaryKind::logical_or: return a != 0 || b != 0;
    case BinaryKind::logical_xor: return (a != 0) != (b != 0);
    case BinaryKind::nextafter: case BinaryKind::bitwise_and: case BinaryKind::bitwise_or: case BinaryKind::bitwise_xor:
    case BinaryKind::bitwise_left_shift: case BinaryKind::bitwise_right_shift: case BinaryKind::shift_right_logical: case BinaryKind::mulhi: case BinaryKind::gcd: case BinaryKind::lcm:
    case BinaryKind::complex: case BinaryKind::polar: break;  // by other tests
  }
  return NAN;
}
template <class L> L oracle(TernaryKind k, L a, L b, L c, L alpha) {
  switch (k) {
    case TernaryKind::where: return a != 0 ? b : c;
    case TernaryKind::clamp: return std::isnan(a) || std::isnan(b) || std::isnan(c) ? L(NAN) : std::min(std::max(a, b), c);
    case TernaryKind::lerp: return a + c * (b - a);
    case TernaryKind::addcmul: return a + alpha * b * c;
    case TernaryKind::addcdiv: return a + alpha * b / c;
    case TernaryKind::fma: return a * b + c;
  }
  return NAN;
}
// Whose rounding is judged by the terms rather than by their sum.
inline bool additive(BinaryKind k) { return k == BinaryKind::scale_add || k == BinaryKind::lerp || k == BinaryKind::logaddexp || k == BinaryKind::logaddexp2; }

// Calls f with the functor of a kind.
template <class F, size_t... K> void with_functor(UnaryKind k, F f, std::index_sequence<K...>) {
  ((k == UnaryKind(K) ? f(elementwise::Unary<UnaryKind(K)>{}) : void()), ...);
}
template <class F, size_t... K> void with_functor(BinaryKind k, F f, std::index_sequence<K...>) {
  ((k == BinaryKind(K) ? f(elementwise::Binary<BinaryKind(K)>{}) : void()), ...);
}
template <class F, size_t... K> void with_functor(TernaryKind k, F f, std::index_sequence<K...>) {
  ((k == TernaryKind(K) ? f(elementwise::Ternary<TernaryKind(K)>{}) : void()), ...);
}
template <class Kind, class F> void with_functor(Kind k, F f) { with_functor(k, f, std::make_index_sequence<enum_names(Kind{}).size()>{}); }
template <class Kind> int parameters(Kind k) {
  int n = 0;
  with_functor(k, [&](auto op) { n = op.parameters; });
  return n;
}
template <class Kind> Parameters used_parameters(Kind k) {
  if constexpr (std::is_same_v<Kind, TernaryKind>) return {1.75};
  else return test_parameters(k);
}
inline UnaryDescriptor describe(UnaryKind k, DType t, const Shape& shape) {
  const Parameters p = used_parameters(k);
  const int n = parameters(k);
  UnaryDescriptor d{k, t, shape};
  if (n > 0) d.alpha = p.alpha;
  if (n > 1) d.beta = p.beta;
  if (n > 2) d.gamma = p.gamma;
  return d;
}
inline BinaryDescriptor describe(BinaryKind k, DType t, const Shape& a, const Shape& b) {
  const Parameters p = used_parameters(k);
  const int n = parameters(k);
  BinaryDescriptor d{k, t, a, b};
  if (n > 0) d.alpha = p.alpha;
  if (n > 1) d.beta = p.beta;
  if (n > 2) d.gamma = p.gamma;
  return d;
}
// The gradient functors on doubles, from the same saved values as the kernel; check_gradient proves the functors.
template <class Kind> std::array<double, 3> slopes(Kind k, std::array<double, 3> x, double y) {
  std::array<double, 3> s{};
  with_functor(k, [&]<class Op>(Op op) {
    const Parameters p = used_parameters(k);
    op.alpha = p.alpha, op.beta = p.beta, op.gamma = p.gamma;
    const Dual one = 1, a = x[0], b = x[1], c = x[2], d = y;
    if constexpr (!elementwise::kDifferentiable<Op, Dual>) return;
    else if constexpr (Op::inputs == 1) s[0] = op.bwd(one, a, d).v;
    else if constexpr (Op::inputs == 2) {
      const auto g = op.bwd(one, a, b, d);
      s = {g.a.v, g.b.v, 0};
    } else {
      const auto g = op.bwd(one, a, b, c, d);
      s = {g.a.v, g.b.v, g.c.v};
    }
  });
  return s;
}

// bwd against the derivative of fwd by dual numbers, at 1000 points; what it does not claim to read is NaN.
template <class Op> void check_gradient(std::string_view name, const Parameters& p) {
  Source source(4);
  Op op;
  op.alpha = p.alpha, op.beta = p.beta, op.gamma = p.gamma;
  int points = 0;
  for (int tries = 0; points < 1000 && tries < 10000; ++tries) {
    const double dy = source.normal(), x[3] = {2 * source.normal(), 2 * source.normal(), 2 * source.normal()};
    for (int k = 0; k < Op::inputs; ++k) {
      const int reads = k == 0 ? Op::reads : k == 1 ? Op::reads_b : Op::reads_c;
      auto seed = [&](int i) { return Dual(x[i], k == i); };
      auto given = [&](int i) { return Dual(reads >> i & 1 ? x[i] : NAN); };
      auto saved = [&](Dual y) { return Dual(reads & elementwise::kY ? y.v : NAN); };
      Dual y;
      double got = 0;
      if constexpr (Op::inputs == 1) {
        y = op.fwd(seed(0));
        got = op.bwd(Dual(dy), given(0), saved(y)).v;
      } else if constexpr (Op::inputs == 2) {
        y = op.fwd(seed(0), seed(1));
        const auto g = op.bwd(Dual(dy), given(0), given(1), saved(y));
        got = k == 0 ? g.a.v : g.b.v;
      } else {
        y = op.fwd(seed(0), seed(1), seed(2));
        const auto g = op.bwd(Dual(dy), given(0), given(1), given(2), saved(y));
        got = k == 0 ? g.a.v : k == 1 ? g.b.v : g.c.v;
      }
      if (!std::isfinite(y.v) || std::isnan(y.d)) continue;  // outside the domain
      const double want = dy * y.d;
      ASSERT_NEAR(got, want, 1e-13 * (1 + std::fabs(want))) << name << " operand " << k << " at " << x[0] << ", " << x[1] << ", " << x[2];
      ++points;
    }
  }
  ASSERT_GE(points, 1000) << name;
}

// Row-major index into the operand's shape of element i of the broadcast shape.
inline int64_t index_of(const Shape& shape, const Shape& operand, int64_t i) {
  int64_t at = 0, step = 1;
  for (int axis = shape.rank - 1, own = operand.rank - 1; axis >= 0; --axis, --own) {
    const int64_t c = i % shape[axis];
    i /= shape[axis];
    if (own < 0) continue;
    if (operand[own] != 1) at += c * step;
    step *= operand[own];
  }
  return at;
}
// The bytes of a tensor with every NaN made the same: payloads are not promised.
inline std::vector<uint8_t> comparable_bytes(const Tensor& t) {
  std::vector<uint8_t> bytes = t.element_bytes();
  const size_t size = byte_size(t.dtype());
  for (int64_t i = 0; i < t.numel(); ++i)
    if (std::isnan(t.at(i))) std::memset(&bytes[size_t(i) * size], 0xff, size);
  return bytes;
}

}  // namespace testing
}  // namespace baracuda
