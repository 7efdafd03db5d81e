#pragma once
// One functor per kind: the formula and its gradient, for any V (SIMD pack, CUDA thread, dual number). The table of a
// device and the gradient check run over all kinds, so that a kind without a functor, or without a check, does not
// compile. fwd(x...) gives y; bwd(dy, x..., y) the gradients. The base says what the gradients read, and how many of
// alpha and beta the kind takes.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

enum Reads { kNothing = 0, kX = 1, kA = 1, kB = 2, kY = 4 };
template <int reads_, int parameters_ = 0> struct Functor1 {
  static constexpr int inputs = 1, reads = reads_, reads_b = 0, parameters = parameters_;
  double alpha = 1, beta = 1;
};
// What da reads and what db reads.
template <int reads_a_, int reads_b_, int parameters_ = 0> struct Functor2 {
  static constexpr int inputs = 2, reads = reads_a_, reads_b = reads_b_, parameters = parameters_;
  double alpha = 1, beta = 1;
};
template <class V> struct Two { V a, b; };
template <UnaryKind> struct Unary;
template <BinaryKind> struct Binary;

inline constexpr double kSqrt2_Pi = 0.79788456080286535588, kSqrt1_2Pi = 0.39894228040143267794;
inline constexpr double kCubic = 0.044715;

template <> struct Unary<UnaryKind::neg> : Functor1<kNothing> {
  template <class V> BARACUDA_HD V fwd(V x) const { return -x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return -dy; }
};
template <> struct Unary<UnaryKind::abs> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return abs(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x > 0, dy, where(x < 0, -dy, x)); }  // 0 and NaN stay
};
template <> struct Unary<UnaryKind::exp> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return exp(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * y; }
};
template <> struct Unary<UnaryKind::log> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return log(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy / x; }
};
template <> struct Unary<UnaryKind::sqrt> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sqrt(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return 0.5 * dy / y; }
};
template <> struct Unary<UnaryKind::rsqrt> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return 1 / sqrt(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return -0.5 * dy * y * y * y; }
};
template <> struct Unary<UnaryKind::tanh> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return tanh(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * ((1 - y) * (1 + y)); }
};
template <> struct Unary<UnaryKind::sigmoid> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sigmoid(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy * (y * (1 - y)); }
};
template <> struct Unary<UnaryKind::relu> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x <= 0, V(0), x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return where(y <= 0, V(0), dy); }
};
// In the three below the factor exp(-...) of a negative x comes last. |x| is cut where that is 0: 0 inf is not wanted.
template <> struct Unary<UnaryKind::gelu> : Functor1<kX> {  // x Phi(x)
  template <class V> BARACUDA_HD V fwd(V x) const {
    const V z = clamp(abs(x), 0, 40);
    const auto tail = normal_tail(z);
    return where(x < 0, V(-0.0), x) - tail.m * tail.a * tail.b;
  }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    const V z = clamp(abs(x), 0, 40);
    const V slope = times(fma(z, V(kSqrt1_2Pi), -mills(z)), normal_density(z));  // beside that of max(x, 0), by |x|
    return dy * where(x < 0, -slope, 1 + slope);
  }
};
template <> struct Unary<UnaryKind::gelu_tanh> : Functor1<kX> {  // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u))
  template <class V> BARACUDA_HD V fwd(V x) const { return times_sigmoid(x, 40, [](V z) { return exp_minus_gelu_argument(z); }); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    const V z = clamp(abs(x), 0, 40), t = times(V(1), exp_minus_gelu_argument(z)), d = 1 / (1 + t);
    const V part = z * (t * d * d) * (2 * kSqrt2_Pi * fma(3 * kCubic * z, z, V(1)));
    return dy * where(x < 0, t * d - part, d + part);
  }
};
template <> struct Unary<UnaryKind::silu> : Functor1<kX> {  // x / (1 + exp(-x))
  template <class V> BARACUDA_HD V fwd(V x) const { return times_sigmoid(x, 1000, [](V z) { return exp_parts(-z, V(0)); }); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const {
    const V z = clamp(abs(x), 0, 1000), t = times(V(1), exp_parts(-z, V(0))), d = 1 / (1 + t), part = z * (t * d * d);
    return dy * where(x < 0, t * d - part, d + part);
  }
};
template <> struct Unary<UnaryKind::softplus> : Functor1<kX> {  // log(1 + exp(x)), without overflow
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x < 0, V(0), x) + log1p(exp(-abs(x))); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * sigmoid(x); }
};
template <> struct Unary<UnaryKind::square> : Functor1<kX> {
  template <class V> BARACUDA_HD V fwd(V x) const { return x * x; }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * (x + x); }
};
template <> struct Unary<UnaryKind::reciprocal> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return 1 / x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return -(dy * y) * y; }
};
template <> struct Unary<UnaryKind::scale> : Functor1<kNothing, 1> {
  template <class V> BARACUDA_HD V fwd(V x) const { return alpha * x; }
  template <class V> BARACUDA_HD V bwd(V dy, V, V) const { return alpha * dy; }
};

template <> struct Binary<BinaryKind::add> : Functor2<kNothing, kNothing> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a + b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {dy, dy}; }
};
template <> struct Binary<BinaryKind::sub> : Functor2<kNothing, kNothing> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a - b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {dy, -dy}; }
};
template <> struct Binary<BinaryKind::mul> : Functor2<kB, kA> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a * b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy * b, dy * a}; }
};
template <> struct Binary<BinaryKind::div> : Functor2<kB, kA | kB> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a / b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy / b, -dy * (a / b) / b}; }
};
template <> struct Binary<BinaryKind::maximum> : Functor2<kA | kB, kA | kB> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return max_nan(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V shared = where(a == b, 0.5 * dy, dy);
    return {where(a < b, V(0), shared), where(b < a, V(0), shared)};
  }
};
template <> struct Binary<BinaryKind::minimum> : Functor2<kA | kB, kA | kB> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return min_nan(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V shared = where(a == b, 0.5 * dy, dy);
    return {where(a > b, V(0), shared), where(b > a, V(0), shared)};
  }
};
template <> struct Binary<BinaryKind::pow> : Functor2<kA | kB, kA | kY> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return pow(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V y) const {
    const V log_a = where(a == 0, where(b < 0, log(a), V(0)), log(a));
    return {where(b == 0, V(0), dy * b * pow(a, b - 1)), dy * y * log_a};
  }
};
template <> struct Binary<BinaryKind::scale_add> : Functor2<kNothing, kNothing, 2> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return fma(V(alpha), a, beta * b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {alpha * dy, beta * dy}; }
};

// Both directions as one shape, packs in and packs out, so that a device writes one loop.
template <class Op> struct Forward : Op {  // x... -> y
  static constexpr int in = Op::inputs, out = 1;
  static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD void operator()(const V* x, V* y) const {
    if constexpr (in == 1) y[0] = this->fwd(x[0]);
    else y[0] = this->fwd(x[0], x[1]);
  }
};
template <class Op> struct Backward : Op {  // dy, x..., y -> dx...
  static constexpr int in = Op::inputs + 2, out = Op::inputs;
  static constexpr bool needs(int k) {
    constexpr int reads = Op::reads | Op::reads_b;
    return k == 0 || (k == in - 1 ? reads & kY : reads & 1 << (k - 1)) != 0;
  }
  template <class V> BARACUDA_HD void operator()(const V* x, V* dx) const {
    if constexpr (out == 1) dx[0] = this->bwd(x[0], x[1], x[2]);
    else {
      const auto g = this->bwd(x[0], x[1], x[2], x[3]);
      dx[0] = g.a, dx[1] = g.b;
    }
  }
};

}  // namespace elementwise
}  // namespace baracuda
