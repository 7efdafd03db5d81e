#pragma once
// What every functor of the family is made of. A functor is a formula and its gradient for any V (SIMD pack, CUDA thread,
// dual number, integer): fwd(x...) gives y, bwd(dy, x..., y) the gradients; a predicate has test(x...) instead, a mask. The
// base says what the gradients read, how many of alpha, beta, gamma the kind takes, and for which elements it is defined.
// The table of a device and the gradient check run over all kinds, so that a kind without a functor does not compile.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

enum Reads { kNothing = 0, kA = 1, kB = 2, kC = 4, kY = 8, kX = kA };
enum Types { kFloats = 1, kIntegers = 2, kBool = 4, kNumbers = kFloats | kIntegers, kAll = kNumbers | kBool };
// What alpha and beta must be; kNotNegative: both, kOrdered: alpha <= beta.
enum Rule { kAnyAlpha, kAlphaPositive, kAlphaNotNegative, kNotNegative, kOrdered };
template <int inputs_, int parameters_> struct Functor {
  static constexpr int inputs = inputs_, parameters = parameters_, reads_b = 0, reads_c = 0, types = kFloats;
  static constexpr double defaults[3] = {1, 1, 1};
  static constexpr Rule rule = kAnyAlpha;
  static constexpr bool predicate = false, piecewise = false;
  double alpha = 1, beta = 1, gamma = 1;
};
template <int reads_, int parameters_ = 0> struct Functor1 : Functor<1, parameters_> { static constexpr int reads = reads_; };
// Pieces of lines: cheaper to compute than to look up.
template <int parameters_ = 0> struct Piecewise : Functor1<kX, parameters_> { static constexpr bool piecewise = true; };
// dx = dy slope(x): a functor of this kind has slope() in place of bwd().
template <class Op, int parameters_ = 0> struct Sloped : Functor1<kX, parameters_> {
  static constexpr bool sloped = true;
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return dy * static_cast<const Op*>(this)->slope(x); }
};
// What da reads and what db reads; and dc.
template <int a, int b, int parameters_ = 0> struct Functor2 : Functor<2, parameters_> { static constexpr int reads = a, reads_b = b; };
template <int a, int b, int c, int parameters_ = 0> struct Functor3 : Functor<3, parameters_> {
  static constexpr int reads = a, reads_b = b, reads_c = c;
};
// No gradient: the values jump, or are no numbers.
template <int inputs_, int types_, int parameters_ = 0> struct Plain : Functor<inputs_, parameters_> {
  static constexpr int reads = kNothing, types = types_;
};
template <int inputs_, int types_ = kAll, int parameters_ = 0> struct Predicate : Plain<inputs_, types_, parameters_> {
  static constexpr bool predicate = true;
};
template <class V> struct Two { V a, b; };
template <class V> struct Three { V a, b, c; };
template <UnaryKind> struct Unary;
template <BinaryKind> struct Binary;
template <TernaryKind> struct Ternary;

// A parameter as V holds it and the rest of it.
template <class V> BARACUDA_HD V low_word(double c) { return V::kF32 ? c - double(float(c)) : 0; }
template <class V> BARACUDA_HD TwoWords<V> times_constant(double c, V x) {
  const V hi = c * x;
  return {hi, fma(V(c), x, -hi) + low_word<V>(c) * x};
}

template <class Op, class V> concept Differentiable1 = requires(Op op, V v) { op.bwd(v, v, v); };
template <class Op, class V> concept Differentiable2 = requires(Op op, V v) { op.bwd(v, v, v, v); };
template <class Op, class V> concept Differentiable3 = requires(Op op, V v) { op.bwd(v, v, v, v, v); };
template <class Op, class V> inline constexpr bool kDifferentiable =
    Op::inputs == 1 ? Differentiable1<Op, V> : Op::inputs == 2 ? Differentiable2<Op, V> : Differentiable3<Op, V>;

// Both directions as one shape, packs in and packs out, so that a device writes one loop.
template <class Op> struct Forward : Op {  // x... -> y
  static constexpr int in = Op::inputs, out = 1;
  static constexpr bool needs(int) { return true; }
  template <class V> BARACUDA_HD auto value(const V* x) const {
    if constexpr (Op::predicate && in == 1) return this->test(x[0]);
    else if constexpr (Op::predicate) return this->test(x[0], x[1]);
    else if constexpr (in == 1) return this->fwd(x[0]);
    else if constexpr (in == 2) return this->fwd(x[0], x[1]);
    else return this->fwd(x[0], x[1], x[2]);
  }
  template <class V> BARACUDA_HD void operator()(const V* x, V* y) const { y[0] = value(x); }
};
template <class Op> struct Backward : Op {  // dy, x..., y -> dx...
  static constexpr int in = Op::inputs + 2, out = Op::inputs;
  static constexpr bool needs(int k) {
    constexpr int reads = Op::reads | Op::reads_b | Op::reads_c;
    return k == 0 || (k == in - 1 ? reads & kY : reads & 1 << (k - 1)) != 0;
  }
  template <class V> BARACUDA_HD void operator()(const V* x, V* dx) const {
    if constexpr (out == 1) dx[0] = this->bwd(x[0], x[1], x[2]);
    else if constexpr (out == 2) {
      const auto g = this->bwd(x[0], x[1], x[2], x[3]);
      dx[0] = g.a, dx[1] = g.b;
    } else {
      const auto g = this->bwd(x[0], x[1], x[2], x[3], x[4]);
      dx[0] = g.a, dx[1] = g.b, dx[2] = g.c;
    }
  }
};

}  // namespace elementwise
}  // namespace baracuda
