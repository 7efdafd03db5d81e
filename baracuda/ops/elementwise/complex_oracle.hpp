#pragma once
// What the tests know about the kinds of complex numbers: functions and gradients from their definitions, in complex long double
// of the C library, and errors in ulp of the magnitude.
#include <gtest/gtest.h>
#include <bit>
#include <cmath>
#include <complex>
#include <functional>
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda::testing {

using Number = std::complex<long double>;
constexpr Number kI{0, 1};

// ---- elements
inline DType part_of(DType t) { return is_complex(t) ? counterpart(t) : t; }
inline char* element(const TensorView& v, int64_t i) {
  int64_t at = 0;
  for (int a = v.shape.rank - 1; a >= 0; --a) at += i % v.shape[a] * v.strides[a], i /= v.shape[a];
  return v.as<char>() + at * int64_t(byte_size(v.dtype));
}
inline Number get(const TensorView& v, int64_t i) {
  const char* p = element(v, i);
  if (!is_complex(v.dtype)) return read_element(v.dtype, p);
  const DType t = part_of(v.dtype);
  return {read_element(t, p), read_element(t, p + byte_size(t))};
}
inline void put(const TensorView& v, int64_t i, Number z) {
  char* p = element(v, i);
  const DType t = part_of(v.dtype);
  write_element(t, p, double(z.real()));
  if (is_complex(v.dtype)) write_element(t, p + byte_size(t), double(z.imag()));
}
inline Tensor complex_normal(DType t, const Shape& shape, uint64_t seed, double std = 1, Layout layout = Layout::dense) {
  Tensor x(t, shape, layout);
  Source source(seed);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double re = std * source.normal(), im = std * source.normal();
    put(x, i, {re, im});
  }
  return x;
}

// e^x e^(i pi half_turns) - 1: the angle is taken to less than half a turn, in two words of pi, and near 0 the series is summed.
inline Number turned_exp_minus_one(Number x, int half_turns) {
  constexpr long double kPi = 3.14159265358979323851L, kPiLow = -5.01655761266833202355e-20L;
  if (std::fabs(x.imag()) < 1000) {
    const long double turns = std::nearbyint((x.imag() / kPi + half_turns) / 2) * 2 - half_turns;
    x = {x.real(), std::fma(-turns, kPi, x.imag()) - turns * kPiLow};
  } else if (half_turns) return -std::exp(x) - Number(1);
  if (std::abs(x) > 0.5L) return std::exp(x) - Number(1);
  Number sum = 0, term = 1;
  for (int n = 1; n < 30; ++n) term = term * x / (long double)(n), sum += term;
  return sum;
}
inline Number log_one_plus(Number x) {
  if (std::abs(x) > 0.5L) return std::log(Number(1 + x.real(), x.imag()));  // the sign of a zero counts
  const Number z = x / (Number(2) + x), zz = z * z;  // 2 atanh(z)
  Number sum = 0, power = z;
  for (int n = 1; n < 80; n += 2) sum += power / (long double)(n), power *= zz;
  return 2.0L * sum;
}
inline Number power_of_two(Number x) {
  constexpr long double kLn2 = 0.693147180559945309417L, kLn2Low = -1.14583527267987328e-20L;
  const Number hi = kLn2 * x, lo{std::fma(kLn2, x.real(), -hi.real()) + kLn2Low * x.real(), std::fma(kLn2, x.imag(), -hi.imag()) + kLn2Low * x.imag()};
  const Number y = std::exp(hi);
  return std::isfinite(std::abs(y)) ? y * (Number(1) + lo) : y;
}
inline Number logistic(Number x) {  // by the exponential that is small
  const Number e = std::exp(x.real() > 0 ? -x : x), d = -turned_exp_minus_one(x.real() > 0 ? -x : x, 1);
  return (x.real() > 0 ? Number(1) : e) / d;
}

// ---- values of the kinds with their default parameters; a predicate gives 0 or 1
inline Number oracle(UnaryKind k, Number x) {
  const bool nan = std::isnan(x.real()) || std::isnan(x.imag()), inf = std::isinf(x.real()) || std::isinf(x.imag());
  switch (k) {
    case UnaryKind::neg: return -x;
    case UnaryKind::abs: return std::hypot(x.real(), x.imag());
    case UnaryKind::square: return x * x;
    case UnaryKind::sqrt: return std::sqrt(x);
    case UnaryKind::reciprocal: return Number(1) / x;
    case UnaryKind::sgn: return x == Number(0) ? x : x / std::hypot(x.real(), x.imag());
    case UnaryKind::real: return x.real();
    case UnaryKind::imag: return x.imag();
    case UnaryKind::conj: return std::conj(x);
    case UnaryKind::angle: return std::atan2(x.imag(), x.real());
    case UnaryKind::logical_not: return x.real() == 0 && x.imag() == 0;
    case UnaryKind::isnan: return nan;
    case UnaryKind::isinf: return inf;
    case UnaryKind::isfinite: return !nan && !inf;
    case UnaryKind::isreal: return x.imag() == 0;
    case UnaryKind::exp: return std::exp(x);
    case UnaryKind::log: return std::log(x);
    case UnaryKind::exp2: return power_of_two(x);
    case UnaryKind::expm1: return turned_exp_minus_one(x, 0);
    case UnaryKind::log2: return std::log(x) / std::log(2.0L);
    case UnaryKind::log10: return std::log(x) / std::log(10.0L);
    case UnaryKind::log1p: return log_one_plus(x);
    case UnaryKind::sigmoid: return logistic(x);
    case UnaryKind::rsqrt: return Number(1) / std::sqrt(x);
    case UnaryKind::cube: return x * x * x;
    case UnaryKind::scale: case UnaryKind::affine: return x;
    case UnaryKind::sin: return std::sin(x);
    case UnaryKind::cos: return std::cos(x);
    case UnaryKind::tan: return std::tan(x);
    case UnaryKind::sinh: return std::sinh(x);
    case UnaryKind::cosh: return std::cosh(x);
    case UnaryKind::tanh: return std::tanh(x);
    case UnaryKind::asin: return std::asin(x);
    case UnaryKind::acos: return std::acos(x);
    case UnaryKind::atan: return std::atan(x);
    case UnaryKind::asinh: return std::asinh(x);
    case UnaryKind::acosh: return std::acosh(x);
    case UnaryKind::atanh: return std::atanh(x);
    default: ADD_FAILURE() << "no complex " << enum_name(k); return NAN;
  }
}
inline Number power(Number a, Number b) {
  if (b == Number(0)) return 1;
  if (a == Number(0)) return b.real() > 0 ? Number(0) : Number(b.real() < 0 ? INFINITY : NAN, NAN);
  return std::exp(b * std::log(a));
}
inline Number oracle(BinaryKind k, Number a, Number b) {
  switch (k) {
    case BinaryKind::add: return a + b;
    case BinaryKind::scale_add: return a + b;
    case BinaryKind::lerp: return 0.5L * (a + b);
    case BinaryKind::logical_and: return a != Number(0) && b != Number(0);
    case BinaryKind::logical_or: return a != Number(0) || b != Number(0);
    case BinaryKind::logical_xor: return (a != Number(0)) != (b != Number(0));
    case BinaryKind::sub: return a - b;
    case BinaryKind::mul: return a * b;
    case BinaryKind::div: return a / b;
    case BinaryKind::pow: return power(a, b);
    case BinaryKind::eq: return a == b;
    case BinaryKind::ne: return a != b;
    case BinaryKind::complex: return {a.real(), b.real()};
    case BinaryKind::polar: return {a.real() * std::cos(b.real()), a.real() * std::sin(b.real())};
    default: ADD_FAILURE() << "no complex " << enum_name(k); return NAN;
  }
}
// ---- gradients, as PyTorch defines them: dL/d re + i dL/d im for a real loss L
inline Number gradient(UnaryKind k, Number dy, Number x) {
  const Number one = 1;
  const auto slope = [&](Number s) { return dy * std::conj(s); };
  const long double m = std::abs(x), inner = dy.real();
  switch (k) {
    case UnaryKind::neg: return -dy;
    case UnaryKind::conj: return std::conj(dy);
    case UnaryKind::real: return dy.real();
    case UnaryKind::imag: return kI * inner;
    case UnaryKind::abs: return m == 0 ? 0 : inner * x / m;
    case UnaryKind::angle: return m == 0 ? 0 : kI * inner * x / (m * m);
    case UnaryKind::sgn: return m == 0 ? 0 : kI * x / (m * m) * std::imag(std::conj(x / m) * dy);
    case UnaryKind::square: return slope(2.0L * x);
    case UnaryKind::sqrt: return slope(0.5L / std::sqrt(x));
    case UnaryKind::reciprocal: return slope(-one / (x * x));
    case UnaryKind::exp: return slope(std::exp(x));
    case UnaryKind::log: return slope(one / x);
    case UnaryKind::exp2: return slope(std::log(2.0L) * power_of_two(x));
    case UnaryKind::expm1: return slope(std::exp(x));
    case UnaryKind::log2: return slope(one / (x * std::log(2.0L)));
    case UnaryKind::log10: return slope(one / (x * std::log(10.0L)));
    case UnaryKind::log1p: return slope(one / (one + x));
    case UnaryKind::sigmoid: return slope(logistic(x) * logistic(-x));
    case UnaryKind::rsqrt: return slope(-0.5L / (x * std::sqrt(x)));
    case UnaryKind::cube: return slope(3.0L * x * x);
    case UnaryKind::scale: case UnaryKind::affine: return dy;
    case UnaryKind::sin: return slope(std::cos(x));
    case UnaryKind::cos: return slope(-std::sin(x));
    case UnaryKind::tan: return slope(one / (std::cos(x) * std::cos(x)));
    case UnaryKind::sinh: return slope(std::cosh(x));
    case UnaryKind::cosh: return slope(std::sinh(x));
    case UnaryKind::tanh: return slope(one / (std::cosh(x) * std::cosh(x)));
    case UnaryKind::asin: return slope(one / std::sqrt(one - x * x));
    case UnaryKind::acos: return slope(-one / std::sqrt(one - x * x));
    case UnaryKind::atan: return slope(one / (one + x * x));
    case UnaryKind::asinh: return slope(one / std::sqrt(one + x * x));
    case UnaryKind::acosh: return slope(one / (std::sqrt(x - one) * std::sqrt(x + one)));
    case UnaryKind::atanh: return slope(one / (one - x * x));
    default: ADD_FAILURE() << "no complex gradient of " << enum_name(k); return NAN;
  }
}
struct Gradients { Number a, b; };
inline Gradients gradient(BinaryKind k, Number dy, Number a, Number b) {
  switch (k) {
    case BinaryKind::add: return {dy, dy};
    case BinaryKind::scale_add: return {dy, dy};
    case BinaryKind::lerp: return {0.5L * dy, 0.5L * dy};
    case BinaryKind::sub: return {dy, -dy};
    case BinaryKind::mul: return {dy * std::conj(b), dy * std::conj(a)};
    case BinaryKind::div: return {dy * std::conj(Number(1) / b), dy * std::conj(-a / (b * b))};
    case BinaryKind::pow: return {b == Number(0) ? 0 : dy * std::conj(b * power(a, b - Number(1))), a == Number(0) && b.real() >= 0 ? 0 : dy * std::conj(power(a, b) * std::log(a))};
    case BinaryKind::complex: return {dy.real(), dy.imag()};
    case BinaryKind::polar: {
      const long double c = std::cos(b.real()), s = std::sin(b.real());
      return {dy.real() * c + dy.imag() * s, a.real() * (dy.imag() * c - dy.real() * s)};
    }
    default: ADD_FAILURE() << "no complex gradient of " << enum_name(k); return {};
  }
}

// ---- errors
// Of one part of a number whose magnitude is `magnitude`: in ulp of that; infinite where a NaN or an infinity is wrong.
template <class T> double part_error(T got, long double want, long double magnitude) {
  using L = std::numeric_limits<T>;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  const long double most = std::ldexp(1.0L, L::max_exponent);
  if (std::isinf(got)) return std::fabs(want) >= most * (1 - std::ldexp(1.0L, 1 - L::digits)) && std::signbit(want) == std::signbit(got) ? 0 : INFINITY;
  if (std::isinf(want)) return INFINITY;
  int e = 0;
  std::frexp(std::isfinite(magnitude) ? magnitude : std::fabs(want), &e);
  return double(std::ldexp(std::fabs(got - want), L::digits - std::max(e, L::min_exponent)));
}
template <class T> double ulp_error(std::complex<T> got, Number want) {
  const long double m = std::hypot(want.real(), want.imag());
  const double re = part_error(got.real(), want.real(), m), im = part_error(got.imag(), want.imag(), m);
  return std::hypot(re, im);
}
// Same class of value, and the same sign where it is an infinity or a zero, unless that is left open.
template <class T> bool same_kind(T got, T want, bool any_infinity = false, bool any_zero = false) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (want == 0) return got == 0 && (any_zero || std::signbit(got) == std::signbit(want));
  if (std::isinf(want)) return std::isinf(got) && (any_infinity || got == want);
  return std::fabs(got - want) <= 8 * std::numeric_limits<T>::epsilon() * std::fabs(want);
}

}  // namespace baracuda::testing
