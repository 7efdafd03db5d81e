#pragma once
// Dual: a value and its derivative, on libm. A functor written over V runs on it unchanged, which gives the exact
// derivative of its formula to compare a gradient functor with. Shares no code with vmath. For tests.
// At a kink (abs, where, max_nan at a tie) it takes the branch that the comparison takes.
#include <cmath>

namespace baracuda {

struct Dual {
  using Scalar = double;
  using Bits = int;
  static constexpr bool kF32 = false;
  static constexpr int kWidth = 1;
  double v, d;
  Dual(double v = 0, double d = 0) : v(v), d(d) {}

  friend Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
  friend Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
  friend Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend Dual operator/(Dual a, Dual b) { return {a.v / b.v, (a.d - a.v / b.v * b.d) / b.v}; }
  friend Dual operator-(Dual a) { return {-a.v, -a.d}; }
  Dual& operator+=(Dual b) { return *this = *this + b; }
  Dual& operator-=(Dual b) { return *this = *this - b; }
  Dual& operator*=(Dual b) { return *this = *this * b; }
  friend bool operator<(Dual a, Dual b) { return a.v < b.v; }
  friend bool operator>(Dual a, Dual b) { return a.v > b.v; }
  friend bool operator<=(Dual a, Dual b) { return a.v <= b.v; }
  friend bool operator>=(Dual a, Dual b) { return a.v >= b.v; }
  friend bool operator==(Dual a, Dual b) { return a.v == b.v; }
  friend bool operator!=(Dual a, Dual b) { return a.v != b.v; }

  friend Dual where(bool m, Dual a, Dual b) { return m ? a : b; }
  friend Dual max_nan(Dual a, Dual b) { return a.v > b.v || std::isnan(a.v) ? a : b; }
  friend Dual min_nan(Dual a, Dual b) { return a.v < b.v || std::isnan(a.v) ? a : b; }
  friend Dual larger(Dual a, Dual b) { return a.v > b.v ? a : b; }
  friend Dual smaller(Dual a, Dual b) { return a.v < b.v ? a : b; }
  friend Dual abs(Dual a) { return std::signbit(a.v) ? -a : a; }
  friend Dual copysign(Dual a, Dual s) { return std::signbit(a.v) == std::signbit(s.v) ? a : -a; }
  friend bool is_nan(Dual a) { return std::isnan(a.v); }
  friend bool sign_bit(Dual a) { return std::signbit(a.v); }
  friend Dual fma(Dual a, Dual b, Dual c) { return {std::fma(a.v, b.v, c.v), a.d * b.v + a.v * b.d + c.d}; }
  friend Dual sqrt(Dual a) { return {std::sqrt(a.v), a.d / (2 * std::sqrt(a.v))}; }
  friend Dual round_even(Dual a) { return {std::nearbyint(a.v), 0}; }
  friend Dual trunc(Dual a) { return {std::trunc(a.v), 0}; }
  friend Dual floor(Dual a) { return {std::floor(a.v), 0}; }
  friend Dual ceil(Dual a) { return {std::ceil(a.v), 0}; }

  friend Dual exp(Dual a) { return {std::exp(a.v), std::exp(a.v) * a.d}; }
  friend Dual expm1(Dual a) { return {std::expm1(a.v), std::exp(a.v) * a.d}; }
  friend Dual exp2(Dual a) { return {std::exp2(a.v), std::exp2(a.v) * kLn2 * a.d}; }
  friend Dual log(Dual a) { return {std::log(a.v), a.d / a.v}; }
  friend Dual log1p(Dual a) { return {std::log1p(a.v), a.d / (1 + a.v)}; }
  friend Dual log2(Dual a) { return {std::log2(a.v), a.d / (a.v * kLn2)}; }
  friend Dual log10(Dual a) { return {std::log10(a.v), a.d / (a.v * kLn10)}; }
  friend Dual tanh(Dual a) { return {std::tanh(a.v), a.d / (std::cosh(a.v) * std::cosh(a.v))}; }
  friend Dual sigmoid(Dual a) {
    const double t = std::exp(-std::fabs(a.v));
    return {(a.v < 0 ? t : 1) / (1 + t), t / ((1 + t) * (1 + t)) * a.d};
  }
  friend Dual erf(Dual a) { return {std::erf(a.v), 2 / kSqrtPi * std::exp(-a.v * a.v) * a.d}; }
  friend Dual sin(Dual a) { return {std::sin(a.v), std::cos(a.v) * a.d}; }
  friend Dual cos(Dual a) { return {std::cos(a.v), -std::sin(a.v) * a.d}; }
  friend Dual pow(Dual a, Dual b) {
    const double p = std::pow(a.v, b.v);
    return {p, (a.d != 0 ? b.v * std::pow(a.v, b.v - 1) * a.d : 0) + (b.d != 0 ? p * std::log(a.v) * b.d : 0)};
  }
  friend Dual tan(Dual a) { return {std::tan(a.v), a.d / (std::cos(a.v) * std::cos(a.v))}; }
  friend Dual asin(Dual a) { return {std::asin(a.v), a.d / std::sqrt(1 - a.v * a.v)}; }
  friend Dual acos(Dual a) { return {std::acos(a.v), -a.d / std::sqrt(1 - a.v * a.v)}; }
  friend Dual atan(Dual a) { return {std::atan(a.v), a.d / (1 + a.v * a.v)}; }
  friend Dual sinh(Dual a) { return {std::sinh(a.v), std::cosh(a.v) * a.d}; }
  friend Dual cosh(Dual a) { return {std::cosh(a.v), std::sinh(a.v) * a.d}; }
  friend Dual asinh(Dual a) { return {std::asinh(a.v), a.d / std::sqrt(1 + a.v * a.v)}; }
  friend Dual acosh(Dual a) { return {std::acosh(a.v), a.d / std::sqrt(a.v * a.v - 1)}; }
  friend Dual atanh(Dual a) { return {std::atanh(a.v), a.d / (1 - a.v * a.v)}; }
  friend Dual logit(Dual a) { return {std::log(a.v / (1 - a.v)), a.d / (a.v * (1 - a.v))}; }
  friend Dual erfc(Dual a) { return {std::erfc(a.v), -2 / kSqrtPi * std::exp(-a.v * a.v) * a.d}; }
  friend Dual cbrt(Dual a) { return {std::cbrt(a.v), a.d / (3 * std::cbrt(a.v) * std::cbrt(a.v))}; }
  friend Dual tanhshrink(Dual a) { return a - tanh(a); }
  friend Dual hypot(Dual a, Dual b) {
    const double h = std::hypot(a.v, b.v);
    return {h, (a.v * a.d + b.v * b.d) / h};
  }
  friend Dual atan2(Dual a, Dual b) { return {std::atan2(a.v, b.v), (b.v * a.d - a.v * b.d) / (a.v * a.v + b.v * b.v)}; }
  friend Dual fmod(Dual a, Dual b) { return {std::fmod(a.v, b.v), a.d - std::trunc(a.v / b.v) * b.d}; }
  friend Dual floor_divide(Dual a, Dual b) { return {std::floor(a.v / b.v), 0}; }
  friend Dual remainder(Dual a, Dual b) { return {a.v - std::floor(a.v / b.v) * b.v, a.d - std::floor(a.v / b.v) * b.d}; }

 private:
  static constexpr double kLn2 = 0.693147180559945309417, kLn10 = 2.302585092994045684018, kSqrtPi = 1.772453850905516027298;
};

}  // namespace baracuda
