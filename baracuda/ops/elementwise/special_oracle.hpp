#pragma once
// The special functions from their definitions (series, recurrences, Newton steps on libm's erfc) in long double, for the tests, and
// on dual numbers.
#include <cmath>
#include "baracuda/math/dual.hpp"

namespace baracuda {
namespace testing {

using Real = long double;
inline constexpr Real kPi = 3.14159265358979323846264338327950288L, kRootHalf = 0.707106781186547524400844362104849039L;

// erfc with the rounding of its argument undone: erfc(x + e) = erfc(x) exp(-2 x e) far out.
template <class L> L erfc_at(L x, L rest) { return std::erfc(x) * (x > 2 ? std::exp(-2 * x * rest) : 1); }
// Phi(x). z = -x / sqrt(2) is off by (x^2 / 2 - z^2) / (2 z).
template <class L> L normal_cdf(L x) {
  if (std::fabs(x) > 1000) return x > 0;
  const L z = -x / std::sqrt(L(2)), s = x * x / 2, q = z * z;
  const L off = z > 2 ? ((s - q) + (std::fma(x, x / 2, -s) - std::fma(z, z, -q))) / (2 * z) : 0;
  return L(0.5) * erfc_at(z, off);
}
inline Real log_normal_cdf(Real x) {
  if (x >= 0) return -std::fabs(std::log1p(-normal_cdf(-x)));
  if (std::isinf(x)) return x;
  if (x > -50) return std::log(normal_cdf(x));
  const Real u = 1 / (x * x);
  return -x * x / 2 - std::log(-x) - std::log(2 * kPi) / 2 + std::log1p(-u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u))));
}
// z >= 0 with erfc(z) = t, 0 < t <= 1 (Newton on the logarithm, which is concave), and with erf(z) = x for a small x.
inline Real erfc_inverse(Real t) {
  Real z = std::sqrt(std::fmax(-std::log(t), Real(0.01)));
  for (int i = 0; i < 60; ++i) {
    const Real tail = std::erfc(z), step = std::log(tail / t) * tail * std::sqrt(kPi) / 2 * std::exp(z * z);
    z += step;
    if (std::fabs(step) < 1e-19L * z) break;
  }
  return z;
}
inline Real erf_inverse(Real x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? std::copysign(Real(INFINITY), x) : Real(NAN);
  if (std::fabs(x) > 0.5L) return std::copysign(erfc_inverse(1 - std::fabs(x)), x);
  Real z = x * std::sqrt(kPi) / 2;
  for (int i = 0; i < 20 && x != 0; ++i) z -= (std::erf(z) - x) * std::sqrt(kPi) / 2 * std::exp(z * z);
  return z;
}
inline Real normal_quantile(Real p) {
  if (p > 0.25L && p < 0.75L) return erf_inverse(2 * (p - 0.5L)) / kRootHalf;
  if (!(p > 0 && p < 1)) return p == 0 ? Real(-INFINITY) : p == 1 ? Real(INFINITY) : Real(NAN);
  return p < 0.5L ? -erfc_inverse(2 * p) / kRootHalf : erfc_inverse(2 * (1 - p)) / kRootHalf;
}

__extension__ typedef __float128 Quad;
inline Quad quad_log(Quad x) {  // of x near 20: log 20 + 2 atanh(s)
  const Quad s = (x - 20) / (x + 20), z = s * s;
  Quad power = s, sum = 0;
  for (int k = 1; k < 60; k += 2, power *= z) sum += power / k;
  const Quad log_20 = Quad(2.995732273553990993465029L) + Quad(-2.9805759353756104916e-20L);
  return 2 * sum + log_20;
}
// The asymptotic series behind the recurrence, from 20 on. In Quad, so that digits are left beside the zero at 1.46.
inline Real digamma_of(Real at) {
  if (std::isnan(at) || at == Real(-INFINITY)) return NAN;
  if (at == Real(INFINITY)) return at;
  if (at <= 0) {
    const Real r = at - std::nearbyint(at);
    if (at == 0) return -std::copysign(Real(INFINITY), at);
    return r == 0 ? Real(NAN) : digamma_of(1 - at) - kPi / std::tan(kPi * r);
  }
  constexpr Real b[] = {1.0L / 12, -1.0L / 120, 1.0L / 252, -1.0L / 240, 1.0L / 132, -691.0L / 32760, 1.0L / 12, -3617.0L / 8160, 43867.0L / 14364};
  Quad x = at, sum = 0;
  while (x < 20) sum -= 1 / x, x += 1;
  const Quad u = 1 / (x * x);
  Quad power = u;
  sum -= 1 / (2 * x);
  for (Real c : b) sum -= c * power, power *= u;
  return Real(x < 21 ? quad_log(x) + sum : std::log(Real(x)) + sum);
}
inline Real trigamma_of(Real x) {
  if (x < 0) {
    const Real s = kPi / std::sin(kPi * (x - std::nearbyint(x)));
    return s * s - trigamma_of(1 - x);
  }
  constexpr Real b[] = {1.0L / 6, -1.0L / 30, 1.0L / 42, -1.0L / 30, 5.0L / 66, -691.0L / 2730, 7.0L / 6, -3617.0L / 510, 43867.0L / 798};
  Real sum = 0;
  for (; x < 20; ++x) sum += 1 / (x * x);
  Real power = 1 / (x * x * x);
  sum += 1 / x + 1 / (2 * x * x);
  for (Real c : b) sum += c * power, power /= x * x;
  return sum;
}
inline Real lgamma_of(Real x) {
  int sign;
  return ::lgammal_r(x, &sign);
}

// I_n(a) of order 0 and 1, a >= 0, and its derivative, times exp(-a) where `scaled`: the power series, Hankel's beyond 60.
struct Bessel { Real value, slope; };
inline Bessel bessel_i(int order, Real a, bool scaled) {
  const Real shrink = scaled ? std::exp(-a) : 1;
  if (std::isinf(a)) return {scaled ? 0 : a, scaled ? 0 : a};
  if (a < 60) {
    Real term = order ? a / 2 : 1, sum = 0, slope = 0;
    for (int k = 0; k < 400; ++k) {
      sum += term;
      if (a > 0) slope += term * (2 * k + order) / a;
      if (term < 1e-22L * sum) break;
      term *= a * a / 4 / ((k + 1) * Real(k + 1 + order));
    }
    if (a == 0) slope = order ? 0.5L : 0;
    return {sum * shrink, slope * shrink};
  }
  Real sums[3];  // sqrt(2 pi a) exp(-a) I_n for n = 0, 1, 2
  for (int n = 0; n < 3; ++n) {
    Real term = 1;
    sums[n] = 0;
    for (int k = 0; k < 60 && std::fabs(term) > 1e-22L; ++k) sums[n] += term, term *= -(4 * n * n - (2 * k + 1) * Real(2 * k + 1)) / (8 * (k + 1) * a);
  }
  const Real w = (scaled ? 1 : std::exp(a)) / std::sqrt(2 * kPi * a);
  return {w * sums[order], w * (order ? (sums[0] + sums[2]) / 2 : sums[1])};
}
inline Real i0e_slope(Real x) {
  const Bessel b = bessel_i(0, std::fabs(x), true);
  return x < 0 ? b.value - b.slope : b.slope - b.value;
}
inline Real i1e_slope(Real x) {
  const Bessel b = bessel_i(1, std::fabs(x), true);
  return b.slope - b.value;
}
inline Real odd_bessel(Real x, bool scaled) { return std::copysign(bessel_i(1, std::fabs(x), scaled).value, x); }

inline Real sinc_of(Real x) {
  if (std::isinf(x)) return 0;
  if (std::fabs(x) < 1e-12L) return 1;
  const Real n = std::nearbyint(x), s = std::sin(kPi * (x - n));
  return s == 0 ? 0 : (std::fmod(n, Real(2)) == 0 ? s : -s) / (kPi * x);
}
inline Real sinc_slope_of(Real x) {
  const Real t = kPi * x, z = t * t;
  if (std::fabs(x) < 0.1L) {  // pi d/dt (1 - t^2/3! + t^4/5! ...)
    Real term = -t / 3, sum = 0;
    for (int k = 1; k < 12; ++k) sum += term, term *= -z * (k + 1) / (k * Real((2 * k + 2) * (2 * k + 3)));
    return kPi * sum;
  }
  return (std::cos(t) - std::sin(t) / t) / x;
}
inline Real log1mexp_of(Real x) { return x < 0.7L ? std::log(-std::expm1(-x)) : std::log1p(-std::exp(-x)); }

}  // namespace testing

inline Dual sinc(Dual a) { return {double(testing::sinc_of(a.v)), double(testing::sinc_slope_of(a.v)) * a.d}; }
inline Dual sinc_slope(Dual a) { return double(testing::sinc_slope_of(a.v)); }
inline Dual trigamma(Dual a) { return double(testing::trigamma_of(a.v)); }
inline Dual digamma(Dual a) { return {double(testing::digamma_of(a.v)), double(testing::trigamma_of(a.v)) * a.d}; }
inline Dual lgamma(Dual a) { return {double(testing::lgamma_of(a.v)), double(testing::digamma_of(a.v)) * a.d}; }
inline Dual erfinv(Dual a) {
  const testing::Real y = testing::erf_inverse(a.v);
  return {double(y), double(std::sqrt(testing::kPi) / 2 * std::exp(y * y)) * a.d};
}
inline Dual ndtr(Dual a) { return {double(testing::normal_cdf<testing::Real>(a.v)), double(std::exp(-testing::Real(a.v) * a.v / 2) / std::sqrt(2 * testing::kPi)) * a.d}; }
inline Dual log_ndtr(Dual a) { return {double(testing::log_normal_cdf(a.v)), ndtr({a.v, a.d}).d / double(testing::normal_cdf<testing::Real>(a.v))}; }
inline Dual ndtri(Dual a) {
  const testing::Real y = testing::normal_quantile(a.v);
  return {double(y), double(std::sqrt(2 * testing::kPi) * std::exp(y * y / 2)) * a.d};
}
inline Dual i0(Dual a) {
  const testing::Bessel b = testing::bessel_i(0, std::fabs(a.v), false);
  return {double(b.value), double(std::copysign(b.slope, testing::Real(a.v))) * a.d};
}
inline Dual i0e(Dual a) { return {double(testing::bessel_i(0, std::fabs(a.v), true).value), double(testing::i0e_slope(a.v)) * a.d}; }
inline Dual i1(Dual a) { return {double(testing::odd_bessel(a.v, false)), double(testing::bessel_i(1, std::fabs(a.v), false).slope) * a.d}; }
inline Dual i1e(Dual a) { return {double(testing::odd_bessel(a.v, true)), double(testing::i1e_slope(a.v)) * a.d}; }
inline Dual ldexp(Dual a, Dual b) {
  const double p = std::exp2(b.v);
  return {a.v * p, p * (a.d + a.v * b.d * std::log(2.0))};
}
inline Dual log1mexp(Dual a) { return a.v < 0 ? Dual(NAN) : Dual(double(testing::log1mexp_of(a.v)), 1 / std::expm1(a.v) * a.d); }

}  // namespace baracuda
