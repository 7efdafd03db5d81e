#pragma once
// What elements and states of scans become, for any V: SIMD pack, CUDA thread.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

// a b, and a b + c; the careful ones take a b as 0 where one is 0 and the other has overflowed, and are the others elsewhere.
struct Plain {
  template <class V> BARACUDA_HD static V mul(V a, V b) { return a * b; }
  template <class V> BARACUDA_HD static V mul_add(V a, V b, V c) { return fma(a, b, c); }
};
struct Careful {
  template <class V> BARACUDA_HD static V mul(V a, V b) {
    const V p = a * b;
    return where((p == p) | (a != a) | (b != b), p, V(0));
  }
  template <class V> BARACUDA_HD static V mul_add(V a, V b, V c) {
    const V r = fma(a, b, c);
    return where(r == r, r, mul(a, b) + c);
  }
};
// a is 1 or 0, and where it is 0, b counts for nothing, whatever it is.
struct Gate {
  template <class V> BARACUDA_HD static V mul(V a, V b) { return a * b; }
  template <class V> BARACUDA_HD static V mul_add(V a, V b, V c) { return where(a != 0, b + c, c); }
};
// Affine maps r to b + a r, one after the other.
template <class F, class A> BARACUDA_HD A joined(A first, A then) { return {F::mul(first.a, then.a), F::mul_add(then.a, first.b, then.b)}; }

// exp(x) / 2^k for |x| up to 2^20 (2^28 in f64), as exact as exp; k_magic is k + kMagic: its bits are k's. What is below
// `low`, 87 (700) under k ln2, gives 0, and so does -inf; x is at most a little larger than k ln2.
template <class V> inline constexpr double kBelow = V::kF32 ? 87 : 700;
template <class V> inline constexpr double kVanish = V::kF32 ? 110 : 760;
template <class V> BARACUDA_HD V exp_over_reduced(V x, V k_magic, typename V::Bits& n) {
  const V t = fma(x, V(0x1.71547652b82fep0), V(kMagic<V>)), m = t - kMagic<V>;
  n = bits(t) - bits(k_magic);
  const V r = fma(m, V(V::kF32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56), fma(m, V(V::kF32 ? -0x1.62e43p-1 : -0x1.62e42fefa39efp-1), x));
  return 1 + expm1_reduced(r);
}
template <class V> BARACUDA_HD V exp_near(V x, V k_magic, V low) {
  typename V::Bits n;
  const V e = exp_over_reduced(x, k_magic, n);
  return where(x < low, V(0), e * pow2<V>(n));
}
// The same without a bound above; what is below `low`, kVanish under k ln2, counts as low and vanishes.
template <class V> BARACUDA_HD V exp_over(V x, V k_magic, V low) {
  typename V::Bits n;
  const V e = exp_over_reduced(where(x < low, low, x), k_magic, n);
  return scale(e, n);
}

// log(sum of exp x) as a sum over a power of two, and over exp(most) where most is beyond kLimit. Whole powers of two shift sums exactly and
// enter log beside the exponent that it splits off, so nothing is lost where y is small beside the maximum.
template <class E_> struct LogSum {
  using E = E_;
  using One = Pack<double, 1>;
  struct State { double sum, most, k; };  // sum over 2^k, or over exp(most) where most is beyond kLimit; most = -inf: none
  static constexpr bool kF32 = sizeof(E) == 4;
  static constexpr double kRange = kF32 ? 60 : 600, kLimit = kF32 ? 0x1p20 : 0x1p28, kLog2E = 0x1.71547652b82fep0;
  static constexpr double kNone = -0x1p30;  // the k of no elements: far below any other
  template <class D> struct Sums { D sum, most, k; };
  BARACUDA_HD static State identity() { return {0, -kInf, kNone}; }
  BARACUDA_HD static bool tame(double m) { return m >= -kLimit && m <= kLimit; }
  template <class P> BARACUDA_HD static typename P::Mask tame(P m) { return abs(m) <= P(kLimit); }
  template <class P> BARACUDA_HD static P power(P m) { return where(tame(m), fma(m, P(kLog2E), P(kMagic<P>)) - kMagic<P>, P(kNone)); }
  template <class D> BARACUDA_HD static D shift(D k) { return where(k < -1022, D(0), pow2<D>(bits(k + kMagic<D>) - bits(D(kMagic<D>)))); }  // 2^k, k <= 0
  BARACUDA_HD static double base(State s) { return tame(s.most) ? s.k * 0x1.62e42fefa39efp-1 : s.most; }
  BARACUDA_HD static double exp1(double x) { return baracuda::exp(One::of(x)).v; }
  BARACUDA_HD static State of(double x) {
    State s{double(x != -kInf), double(E(x)), power(One::of(x)).v};
    if (tame(x)) s.sum = exp1(fma(One::of(-s.k), One(0x1.abc9e3b39803fp-56), fma(One::of(-s.k), One(0x1.62e42fefa39efp-1), One::of(x))).v);
    return s;
  }
  template <class D> BARACUDA_HD static Sums<D> join_tame(Sums<D> a, Sums<D> b) {  // none is as good as tame
    const D k = larger(a.k, b.k);
    return {fma(a.sum, shift(a.k - k), b.sum * shift(b.k - k)), larger(a.most, b.most), k};
  }
  BARACUDA_HD static State join_wild(State a, State b) {
    if (a.most == -kInf) return b;
    if (b.most == -kInf) return a;
    if (a.most != a.most || b.most != b.most) return {0, kNaN, kNone};
    State s{1, a.most > b.most ? a.most : b.most, kNone};
    if (s.most == kInf) return s;
    s.k = power(One::of(s.most)).v;
    s.sum = a.sum * exp1(base(a) - base(s)) + b.sum * exp1(base(b) - base(s));
    return s;
  }
  BARACUDA_HD static State join_in_range(State a, State b) {
    const Sums<One> s = join_tame<One>({One::of(a.sum), One::of(a.most), One::of(a.k)}, {One::of(b.sum), One::of(b.most), One::of(b.k)});
    return {s.sum.v, s.most.v, s.k.v};
  }
  BARACUDA_HD static State join(State a, State b, bool = false) { return tame(a.most) && tame(b.most) ? join_in_range(a, b) : join_wild(a, b); }
  template <class P> BARACUDA_HD static P log_scaled(P s, P k) {  // log(s 2^k) of a normal s; log(0) is -inf
    const auto e = exponent(s);
    return where(s == 0, P(-kInf), log_reduced(P::from_bits(bits(s) - (e << P::kMantissa)) - 1, from_int<P>(e) + k));
  }
  BARACUDA_HD static double precise(State s) {
    if (!(s.most < kInf) || s.most == -kInf) return s.most;
    if (tame(s.most)) return log_scaled(One::of(s.sum), One::of(s.k)).v;
    return s.most + baracuda::log(One::of(s.sum)).v;
  }
};

// Its gradient: dx = exp(x) / 2^k S, S = the sum of dy exp(-y) 2^k over what the scan took from here on.
template <class E_> struct LogSumGrad {
  using E = E_;
  using Forward = LogSum<E>;
  struct State { double sum, y; int32_t k, stop; };  // sum of dy exp(base - y_i), base = k ln 2, or y beyond kLimit; stop: all before is cut off
  template <class D> struct Sums { D sum, y, k; };
  BARACUDA_HD static State identity() { return {0, kInf, 0, 0}; }
  BARACUDA_HD static int32_t power(double y) { return Forward::tame(y) ? int32_t(Forward::power(Forward::One::of(y)).v) : 0; }
  BARACUDA_HD static double base(State s) { return Forward::tame(s.y) ? s.k * 0x1.62e42fefa39efp-1 : s.y; }
  // exp(base(to) - base(from)) where both are tame; a sum of 0 needs none. Right for differences up to kFar.
  static constexpr double kFar = 1000;
  template <class D> BARACUDA_HD static D gain_tame(D sum, D from, D to) {
    const D k = where(sum == 0, D(0), to - from);
    return where(sum == 0, D(0), pow2<D>(bits(k + kMagic<D>) - bits(D(kMagic<D>))));
  }
  BARACUDA_HD static double gain(State from, State to) {
    if (from.sum == 0) return 0;
    if (Forward::tame(from.y) && Forward::tame(to.y)) {
      const double k = double(to.k) - from.k;
      return k < -kFar || k > kFar ? Forward::exp1(k * 0x1.62e42fefa39efp-1)
                                   : gain_tame(typename Forward::One(from.sum), typename Forward::One(from.k), typename Forward::One(to.k)).v;
    }
    const double a = base(to), b = base(from);
    return a == b ? 1 : Forward::exp1(a - b);
  }
  BARACUDA_HD static State join(State a, State b, bool = false) {
    if (b.sum == 0 && !b.stop && b.y == kInf) return a;
    if (!b.stop) b.sum = b.sum + gain(a, b) * a.sum;
    b.stop |= a.stop;
    return b;
  }
  template <class D> BARACUDA_HD static Sums<D> join_tame(Sums<D> a, Sums<D> b) {
    const auto none = b.y == kInf;
    return {where(none, a.sum, b.sum + gain_tame(a.sum, a.k, b.k) * a.sum), where(none, a.y, b.y), where(none, a.k, b.k)};
  }
  // One element on, in f64; dx of it.
  BARACUDA_HD static double step(State& s, double dy, double x, double y) {
    State now{dy, y, power(y), s.stop};
    // Here sums are over exp(y) itself: base() and k meet at the borders of pieces only.
    const double from = s.sum == 0 ? y : base(s), to = base(now);
    const double in = s.sum == 0 ? 0 : s.sum * (to == from ? 1 : Forward::exp1(to - from));
    now.sum = dy * (to == y || y != y ? 1 : Forward::exp1(to - y)) + in;
    const double weight = x == to ? 1 : Forward::exp1(x - to);
    const double dx = x == -kInf ? 0 : weight * now.sum;
    if (x == kInf) now.sum = 0, now.stop = 1;
    s = now;
    return dx;
  }
};

}  // namespace scan
}  // namespace baracuda
