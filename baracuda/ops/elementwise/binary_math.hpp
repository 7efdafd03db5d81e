#pragma once
// Kinds of two operands that give a number.
#include "baracuda/math/element.hpp"
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/math/remainder.hpp"
#include "baracuda/math/roots.hpp"
#include "baracuda/math/trigonometric.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/gelu_math.hpp"
#include "baracuda/ops/elementwise/integer_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <> struct Binary<BinaryKind::add> : Functor2<kNothing, kNothing> {
  static constexpr int types = kAll;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a + b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {dy, dy}; }
};
template <> struct Binary<BinaryKind::sub> : Functor2<kNothing, kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a - b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {dy, -dy}; }
};
template <> struct Binary<BinaryKind::mul> : Functor2<kB, kA> {
  static constexpr int types = kAll;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a * b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy * b, dy * a}; }
};
template <> struct Binary<BinaryKind::div> : Functor2<kB, kA | kB> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a / b; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy / b, -dy * (a / b) / b}; }
};
template <> struct Binary<BinaryKind::maximum> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kAll;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return max_nan(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V shared = where(a == b, 0.5 * dy, dy);
    return {where(a < b, V(0), shared), where(b < a, V(0), shared)};
  }
};
template <> struct Binary<BinaryKind::minimum> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kAll;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return min_nan(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V shared = where(a == b, 0.5 * dy, dy);
    return {where(a > b, V(0), shared), where(b > a, V(0), shared)};
  }
};
template <> struct Binary<BinaryKind::scale_add> : Functor2<kNothing, kNothing, 2> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return fma(V(alpha), a, beta * b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {alpha * dy, beta * dy}; }
};
template <class V> BARACUDA_HD V interpolate(V a, V b, V w) {  // exact at w = 0 and 1
  const V d = b - a;
  return where(abs(w) < 0.5, fma(w, d, a), fma(w - 1, d, b));
}
template <> struct Binary<BinaryKind::lerp> : Functor2<kNothing, kNothing, 1> {
  static constexpr double defaults[3] = {0.5, 1, 1};
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return interpolate(a, b, V(alpha)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V, V) const { return {(1 - V(alpha)) * dy, alpha * dy}; }
};
// A single NaN loses. Equal operands: the first has the gradient.
template <> struct Binary<BinaryKind::fmax> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a >= b, a, where(b == b, b, a)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const auto first = (a >= b) | (b != b);
    return {where(first, dy, V(0)), where(first, V(0), dy)};
  }
};
template <> struct Binary<BinaryKind::fmin> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a <= b, a, where(b == b, b, a)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const auto first = (a <= b) | (b != b);
    return {where(first, dy, V(0)), where(first, V(0), dy)};
  }
};
// maximum and minimum as bounds: at equality the gradient goes to a.
template <> struct Binary<BinaryKind::clamp_min> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return max_nan(b, a); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {where(a < b, V(0), dy), where(a < b, dy, V(0))}; }
};
template <> struct Binary<BinaryKind::clamp_max> : Functor2<kA | kB, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return min_nan(b, a); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {where(a > b, V(0), dy), where(a > b, dy, V(0))}; }
};
template <class V> BARACUDA_HD V div_trunc(V a, V b) { return trunc(a / b); }
template <> struct Binary<BinaryKind::div_trunc> : Functor2<kNothing, kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return div_trunc(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V, V, V, V) const { return {0, 0}; }
};
template <> struct Binary<BinaryKind::floor_divide> : Functor2<kNothing, kNothing> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return floor_divide(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V, V, V, V) const { return {0, 0}; }
};
template <> struct Binary<BinaryKind::fmod> : Functor2<kNothing, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return fmod(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy, -dy * div_trunc(a, b)}; }
};
template <> struct Binary<BinaryKind::remainder> : Functor2<kNothing, kA | kB> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return remainder(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {dy, -dy * floor_divide(a, b)}; }
};
template <> struct Binary<BinaryKind::prelu> : Functor2<kA | kB, kA> {  // b is the slope below 0
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a > 0, a, b * a); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const { return {where(a > 0, dy, b * dy), where(a > 0, V(0), a * dy)}; }
};
template <> struct Binary<BinaryKind::copysign> : Functor2<kA | kB, kNothing> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return copysign(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    return {where(a == 0, V(0), dy * copysign(V(1), a) * copysign(V(1), b)), 0};
  }
};
template <> struct Binary<BinaryKind::heaviside> : Plain<2, kNumbers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a == V(0), b, where(a > V(0), V(1), where(a < V(0), V(0), a))); }
};

template <> struct Binary<BinaryKind::pow> : Functor2<kA | kB, kA | kY> {
  static constexpr int types = kNumbers;
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return pow(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V y) const {
    const V log_a = where(a == 0, where(b < 0, log(a), V(0)), log(a));
    return {where(b == 0, V(0), dy * b * pow(a, b - 1)), dy * y * log_a};
  }
};
template <> struct Binary<BinaryKind::atan2> : Functor2<kA | kB, kA | kB> {  // the angle of (b, a); gradient 0 at the origin
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return atan2(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V h = hypot(a, b), s = dy / h;
    return {where(h == 0, V(0), s * (b / h)), where(h == 0, V(0), -s * (a / h))};
  }
};
template <> struct Binary<BinaryKind::hypot> : Functor2<kA | kY, kB | kY> {  // gradient 0 at the origin
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return hypot(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V y) const {
    return {where(y == 0, V(0), dy * (a / y)), where(y == 0, V(0), dy * (b / y))};
  }
};
// exp(-|a - b|), the rounding of the difference kept.
template <class V> BARACUDA_HD V exp_minus_distance(V a, V b) {
  const TwoWords<V> d = two_sum(a, -b);
  const V hi = where(a == b, V(0), abs(d.hi));  // equal infinities are no distance apart
  return times(V(1), exp_parts(-hi, where(hi == 0, V(0), where(d.hi < 0, d.lo, -d.lo))));
}
template <> struct Binary<BinaryKind::logaddexp> : Functor2<kA | kB, kA | kB> {  // log(exp(a) + exp(b))
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return max_nan(a, b) + log1p(exp_minus_distance(a, b)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V t = exp_minus_distance(a, b), more = dy / (1 + t), less = more * t;
    return {where(a < b, less, more), where(a < b, more, less)};
  }
};
template <> struct Binary<BinaryKind::logaddexp2> : Functor2<kA | kB, kA | kB> {  // log2(2^a + 2^b)
  template <class V> BARACUDA_HD V power(V a, V b) const {  // 2^-|a - b|, the rounding of the difference kept
    const TwoWords<V> d = two_sum(a, -b);
    const V hi = where(a == b, V(0), abs(d.hi)), lo = where(d.hi < 0, -d.lo, d.lo), t = exp2(-hi);
    return fma(t, where(abs(d.hi) < kInf, lo * -0.69314718055994530942, V(0)), t);
  }
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return max_nan(a, b) + log1p(power(a, b)) * 1.44269504088896340736; }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V t = power(a, b), more = dy / (1 + t), less = more * t;
    return {where(a < b, less, more), where(a < b, more, less)};
  }
};
// a 2^b: exact for an integer b but for the rounding of a subnormal result. As a product where b is infinite.
template <class V> BARACUDA_HD V ldexp(V a, V b) {
  const double near = V::kF32 ? 0x1p60 : 0x1p500, shift = V::kF32 ? 80 : 600, most = V::kF32 ? 310 : 2200, last = V::kF32 ? 230 : 1700;
  const auto big = abs(a) > near, small = abs(a) < 1 / near;  // brought to where scale() rounds once
  const V m = a * where(big, V(V::kF32 ? 0x1p-80 : 0x1p-600), where(small, V(V::kF32 ? 0x1p80 : 0x1p600), V(1)));
  const V c = clamp(b, -most, most), whole = round_even(c), n = clamp(whole + where(big, V(shift), where(small, V(-shift), V(0))), -last, last);
  const V y = scale(m * exp2(c - whole), bits(n + kMagic<V>) - bits(V(kMagic<V>)));
  return where(abs(b) == kInf, a * exp2(b), y);
}
template <> struct Binary<BinaryKind::ldexp> : Functor2<kB, kY> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return ldexp(a, b); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V, V b, V y) const { return {ldexp(dy, b), dy * y * 0.69314718055994530942}; }
};
// The next stored value of a towards b: not of the type that is computed in, so that this kind has loops of its own.
template <> struct Binary<BinaryKind::nextafter> : Plain<2, kFloats> {
  template <class T> BARACUDA_HD static T next(T a, T b) {
    using U = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    const auto x = load<1>(&a).v, y = load<1>(&b).v;
    const U sign = U(U(1) << (8 * sizeof(T) - 1)), u = __builtin_bit_cast(U, a), v = __builtin_bit_cast(U, b);
    const U step = (x < y) == (x > 0) ? U(u + 1) : U(u - 1);
    return x != x ? a : y != y || x == y ? b : __builtin_bit_cast(T, x == 0 ? U((v & sign) | 1) : step);
  }
};
template <> struct Binary<BinaryKind::xlogy> : Functor2<kA | kB, kA | kB> {  // a log(b), 0 at a = 0 unless b is NaN
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a == 0, where(b == b, V(0), b), a * log(b)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    return {where(a == 0, where(b <= 0, V(0), dy * log(b)), dy * log(b)), dy * a / b};
  }
};
template <> struct Binary<BinaryKind::xlog1py> : Functor2<kA | kB, kA | kB> {  // a log(1 + b), 0 at a = 0 unless b is NaN
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return where(a == 0, where(b == b, V(0), b), a * log1p(b)); }
  template <class V> BARACUDA_HD Two<V> bwd(V dy, V a, V b, V) const {
    const V slope = dy * log1p(b);
    return {where(a == 0, where(b <= -1, V(0), slope), slope), dy * a / (1 + b)};
  }
};

// Of real operands a complex result: complex_math.hpp.
template <> struct Binary<BinaryKind::complex> : Plain<2, 0> {};
template <> struct Binary<BinaryKind::polar> : Plain<2, 0> {};

}  // namespace elementwise
}  // namespace baracuda
