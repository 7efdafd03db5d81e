#pragma once
// What the tests of the family know about each kind: the function from its definition on libm, its slope by dual
// numbers, the error bound. The switches have no default, so that a kind without an entry is a compile error.
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "baracuda/math/dual.hpp"
#include "baracuda/ops/elementwise/elementwise_math.hpp"
#include "baracuda/testing/tensor.hpp"

namespace baracuda {

// The pieces of gelu_math.hpp from libm.
inline elementwise::ExpParts<Dual> exp_parts(Dual hi, Dual lo) { return {0, exp(hi + lo), 1}; }
inline elementwise::Scaled<Dual> normal_tail(Dual z) {
  const double tail = 0.5 * std::erfc(z.v * 0.70710678118654752440), density = 0.39894228040143267794 * std::exp(-0.5 * z.v * z.v);
  return {z * Dual(tail, -density * z.d), 1, 1};
}
inline Dual mills(Dual z) { return 0.5 * std::erfc(z.v * 0.70710678118654752440) * std::exp(0.5 * z.v * z.v); }  // its slope is not used

namespace testing {

template <class L> L oracle(UnaryKind k, L x, L alpha) {
  const L pi = std::acos(L(-1));
  switch (k) {
    case UnaryKind::neg: return -x;
    case UnaryKind::abs: return std::fabs(x);
    case UnaryKind::exp: return std::exp(x);
    case UnaryKind::log: return std::log(x);
    case UnaryKind::sqrt: return std::sqrt(x);
    case UnaryKind::rsqrt: return 1 / std::sqrt(x);
    case UnaryKind::tanh: return std::tanh(x);
    case UnaryKind::sigmoid: return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case UnaryKind::relu: return std::isnan(x) ? x : x > 0 ? x : 0;
    case UnaryKind::gelu: return x < -1000 ? L(-0.0) : L(0.5) * x * std::erfc(-x / std::sqrt(L(2)));
    case UnaryKind::gelu_tanh: {
      const L u = 2 * std::sqrt(2 / pi) * (x + L(44715) / 1000000 * x * x * x);
      return x < -1000 ? L(-0.0) : x < 0 ? x * std::exp(u) / (1 + std::exp(u)) : x / (1 + std::exp(-u));
    }
    case UnaryKind::silu: return x < -20000 ? L(-0.0) : x < 0 ? x * std::exp(x) / (1 + std::exp(x)) : x / (1 + std::exp(-x));
    case UnaryKind::softplus: return (x > 0 ? x : std::isnan(x) ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
    case UnaryKind::square: return x * x;
    case UnaryKind::reciprocal: return 1 / x;
    case UnaryKind::scale: return alpha * x;
  }
  return NAN;
}
// Largest error of the forward function in ulp, f32 and f64.
struct UlpBound { double f32, f64; };
inline UlpBound ulp_bound(UnaryKind k) {
  switch (k) {
    case UnaryKind::neg: case UnaryKind::abs: case UnaryKind::relu: return {0, 0};
    case UnaryKind::sqrt: case UnaryKind::square: case UnaryKind::reciprocal: case UnaryKind::scale: return {0.5, 0.5};
    case UnaryKind::exp: return {1.11, 1.05};
    case UnaryKind::log: return {0.86, 0.85};
    case UnaryKind::rsqrt: return {1.5, 1.5};
    case UnaryKind::tanh: return {2.47, 2.45};
    case UnaryKind::sigmoid: return {2.41, 2.35};
    case UnaryKind::gelu: return {2.5, 2.8};  // f64: 2.5 above x = -33
    case UnaryKind::gelu_tanh: return {2.3, 2.3};
    case UnaryKind::silu: return {2.1, 2.1};
    case UnaryKind::softplus: return {1.7, 1.7};
  }
  return {};
}
template <class L> L oracle(BinaryKind k, L a, L b, L alpha, L beta) {
  switch (k) {
    case BinaryKind::add: return a + b;
    case BinaryKind::sub: return a - b;
    case BinaryKind::mul: return a * b;
    case BinaryKind::div: return a / b;
    case BinaryKind::maximum: return std::isnan(a) || std::isnan(b) ? L(NAN) : a > b ? a : b;
    case BinaryKind::minimum: return std::isnan(a) || std::isnan(b) ? L(NAN) : a < b ? a : b;
    case BinaryKind::pow: return std::pow(a, b);
    case BinaryKind::scale_add: return alpha * a + beta * b;
  }
  return NAN;
}
// Whose rounding is judged by the terms rather than by their sum.
inline bool additive(BinaryKind k) { return k == BinaryKind::scale_add; }

// Calls f with the functor of a kind.
template <class F, size_t... K> void with_unary(UnaryKind k, F f, std::index_sequence<K...>) {
  ((k == UnaryKind(K) ? f(elementwise::Unary<UnaryKind(K)>{}) : void()), ...);
}
template <class F, size_t... K> void with_binary(BinaryKind k, F f, std::index_sequence<K...>) {
  ((k == BinaryKind(K) ? f(elementwise::Binary<BinaryKind(K)>{}) : void()), ...);
}
inline int parameters(UnaryKind k) {
  int n = 0;
  with_unary(k, [&](auto op) { n = op.parameters; }, std::make_index_sequence<kUnaryKinds>{});
  return n;
}
inline int parameters(BinaryKind k) {
  int n = 0;
  with_binary(k, [&](auto op) { n = op.parameters; }, std::make_index_sequence<kBinaryKinds>{});
  return n;
}
// The gradient functors on doubles, from the same saved values as the kernel; check_gradient proves the functors.
inline double slope(UnaryKind k, double x, double y, double alpha) {
  double s = 0;
  with_unary(k, [&](auto op) { op.alpha = alpha, s = op.bwd(Dual(1), Dual(x), Dual(y)).v; }, std::make_index_sequence<kUnaryKinds>{});
  return s;
}
inline std::pair<double, double> slopes(BinaryKind k, double a, double b, double y, double alpha, double beta) {
  std::pair<double, double> s;
  with_binary(k, [&](auto op) {
    op.alpha = alpha, op.beta = beta;
    const auto g = op.bwd(Dual(1), Dual(a), Dual(b), Dual(y));
    s = {g.a.v, g.b.v};
  }, std::make_index_sequence<kBinaryKinds>{});
  return s;
}

// bwd against the derivative of fwd by dual numbers, at 1000 points; what it does not claim to read is NaN.
template <class Op> void check_gradient(std::string_view name) {
  Source source(4);
  Op op;
  op.alpha = 1.75, op.beta = -0.625;
  auto given = [](int reads, int bit, double v) { return Dual(reads & bit ? v : NAN); };
  int points = 0;
  for (int tries = 0; points < 1000 && tries < 10000; ++tries) {
    const double dy = source.normal(), x[2] = {2 * source.normal(), 2 * source.normal()};
    for (int k = 0; k < Op::inputs; ++k) {
      Dual y;
      double got = 0;
      if constexpr (Op::inputs == 1) {
        y = op.fwd(Dual(x[0], 1));
        got = op.bwd(Dual(dy), given(Op::reads, elementwise::kX, x[0]), given(Op::reads, elementwise::kY, y.v)).v;
      } else {
        y = op.fwd(Dual(x[0], k == 0), Dual(x[1], k == 1));
        const int reads = k == 0 ? Op::reads : Op::reads_b;
        const auto g = op.bwd(Dual(dy), given(reads, elementwise::kA, x[0]), given(reads, elementwise::kB, x[1]), given(reads, elementwise::kY, y.v));
        got = k == 0 ? g.a.v : g.b.v;
      }
      if (std::isnan(y.v)) continue;  // outside the domain
      const double want = dy * y.d;
      ASSERT_NEAR(got, want, 1e-13 * (1 + std::fabs(want))) << name << " operand " << k << " at " << x[0] << ", " << x[1];
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
