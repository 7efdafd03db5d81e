#pragma once
// Unary special functions.
#include "baracuda/math/gamma.hpp"
#include "baracuda/ops/elementwise/bessel_math.hpp"
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/normal_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <> struct Unary<UnaryKind::sinc> : Sloped<Unary<UnaryKind::sinc>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return sinc(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return sinc_slope(x); }
};
template <> struct Unary<UnaryKind::lgamma> : Sloped<Unary<UnaryKind::lgamma>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return lgamma(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return digamma(x); }
};
template <> struct Unary<UnaryKind::digamma> : Sloped<Unary<UnaryKind::digamma>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return digamma(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return trigamma(x); }
};
template <> struct Unary<UnaryKind::erfinv> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return erfinv(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy / times(V(k2_SqrtPi), exp_minus_square(clamp(y, -40, 40))); }
};
template <> struct Unary<UnaryKind::ndtr> : Sloped<Unary<UnaryKind::ndtr>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return ndtr(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return times(V(kSqrt1_2Pi), normal_density(clamp(x, -40, 40))); }
};
template <> struct Unary<UnaryKind::ndtri> : Functor1<kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return ndtri(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V, V y) const { return dy / times(V(kSqrt1_2Pi), normal_density(clamp(y, -40, 40))); }
};
template <> struct Unary<UnaryKind::log_ndtr> : Sloped<Unary<UnaryKind::log_ndtr>> {  // the derivative is the density over ndtr
  template <class V> BARACUDA_HD V fwd(V x) const { return log_ndtr(x); }
  template <class V> BARACUDA_HD V slope(V x) const {
    const V z = abs(x), above = times(V(kSqrt1_2Pi), normal_density(clamp(z, 0, 40))) / ndtr(z);
    return where(x < 0, normal_hazard(z), above);
  }
};
template <> struct Unary<UnaryKind::i0> : Sloped<Unary<UnaryKind::i0>> {
  template <class V> BARACUDA_HD V fwd(V x) const { return i0(x); }
  template <class V> BARACUDA_HD V slope(V x) const { return i1(x); }
};
template <> struct Unary<UnaryKind::i0e> : Functor1<kX | kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return i0e(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V y) const { return dy * (i1e(x) - where(x == 0, V(0), copysign(y, x))); }
};
template <> struct Unary<UnaryKind::i1> : Functor1<kX | kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return i1(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V y) const {
    return dy * where(x == 0, V(0.5), where(abs(y) == kInf, V(kInf), i0(x) - y / x));
  }
};
template <> struct Unary<UnaryKind::i1e> : Functor1<kX | kY> {
  template <class V> BARACUDA_HD V fwd(V x) const { return i1e(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V y) const { return dy * where(x == 0, V(0.5), i0e(x) - abs(y) - y / x); }
};
template <> struct Unary<UnaryKind::entr> : Sloped<Unary<UnaryKind::entr>> {  // -x log x: 0 at 0, -inf below
  template <class V> BARACUDA_HD V fwd(V x) const { return where(x == 0, V(0), where(x < 0, V(-kInf), -x * log(x))); }
  template <class V> BARACUDA_HD V slope(V x) const { return -1 - log(x); }
};
template <> struct Unary<UnaryKind::log1mexp> : Functor1<kX> {  // log(1 - exp(-x))
  template <class V> BARACUDA_HD V fwd(V x) const { return log1mexp(x); }
  template <class V> BARACUDA_HD V bwd(V dy, V x, V) const { return where(x < 0, V(kNaN), dy / expm1(x)); }
};

}  // namespace elementwise
}  // namespace baracuda
