#pragma once
// Kinds that ask and kinds that work on bits: predicates, comparisons, logic, shifts. None has a gradient.
#include "baracuda/ops/elementwise/functor_math.hpp"
#include "baracuda/ops/elementwise/integer_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace elementwise {

template <class V> BARACUDA_HD auto finite(V x) { return x - x == V(0); }

template <> struct Unary<UnaryKind::logical_not> : Predicate<1> {
  template <class V> BARACUDA_HD auto test(V x) const { return x == V(0); }
};
template <> struct Unary<UnaryKind::isnan> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return x != x; }
};
template <> struct Unary<UnaryKind::isinf> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return mask_not(finite(x)) & (x == x); }
};
template <> struct Unary<UnaryKind::isfinite> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return finite(x); }
};
template <> struct Unary<UnaryKind::isposinf> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return mask_not(finite(x)) & (x > V(0)); }
};
template <> struct Unary<UnaryKind::isneginf> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return mask_not(finite(x)) & (x < V(0)); }
};
template <> struct Unary<UnaryKind::isreal> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return (x == x) | (x != x); }
};
template <> struct Unary<UnaryKind::signbit> : Predicate<1, kNumbers> {
  template <class V> BARACUDA_HD auto test(V x) const { return sign_bit(x); }
};
template <> struct Unary<UnaryKind::bitwise_not> : Plain<1, kIntegers | kBool> {
  template <class V> BARACUDA_HD V fwd(V x) const { return complement(x); }
};
template <> struct Unary<UnaryKind::population_count> : Plain<1, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V x) const { return population_count(x); }
};
template <> struct Unary<UnaryKind::clz> : Plain<1, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V x) const { return clz(x); }
};
template <> struct Unary<UnaryKind::ctz> : Plain<1, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V x) const { return ctz(x); }
};

template <> struct Binary<BinaryKind::eq> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a == b; }
};
template <> struct Binary<BinaryKind::ne> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a != b; }
};
template <> struct Binary<BinaryKind::lt> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a < b; }
};
template <> struct Binary<BinaryKind::le> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a <= b; }
};
template <> struct Binary<BinaryKind::gt> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a > b; }
};
template <> struct Binary<BinaryKind::ge> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return a >= b; }
};
// |a - b| <= beta + alpha |b|; equal infinities are close, with gamma = 1 two NaN too.
template <> struct Binary<BinaryKind::isclose> : Predicate<2, kFloats, 3> {
  static constexpr double defaults[3] = {1e-5, 1e-8, 0};
  static constexpr Rule rule = kNotNegative;
  template <class V> BARACUDA_HD auto test(V a, V b) const {
    const auto near = (abs(a - b) <= beta + alpha * abs(b)) & finite(a) & finite(b);
    const auto both_nan = (a != a) & (b != b) & (V(gamma) != V(0));
    return near | (a == b) | both_nan;
  }
};
template <> struct Binary<BinaryKind::logical_and> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return (a != V(0)) & (b != V(0)); }
};
template <> struct Binary<BinaryKind::logical_or> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return (a != V(0)) | (b != V(0)); }
};
template <> struct Binary<BinaryKind::logical_xor> : Predicate<2> {
  template <class V> BARACUDA_HD auto test(V a, V b) const { return (a != V(0)) ^ (b != V(0)); }
};
template <> struct Binary<BinaryKind::bitwise_and> : Plain<2, kIntegers | kBool> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a & b; }
};
template <> struct Binary<BinaryKind::bitwise_or> : Plain<2, kIntegers | kBool> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a | b; }
};
template <> struct Binary<BinaryKind::bitwise_xor> : Plain<2, kIntegers | kBool> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return a ^ b; }
};
template <> struct Binary<BinaryKind::bitwise_left_shift> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return shift_left(a, b); }
};
template <> struct Binary<BinaryKind::bitwise_right_shift> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return shift_right(a, b); }
};
template <> struct Binary<BinaryKind::shift_right_logical> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return shift_right_logical(a, b); }
};
template <> struct Binary<BinaryKind::mulhi> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return mulhi(a, b); }
};
template <> struct Binary<BinaryKind::gcd> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return gcd(a, b); }
};
template <> struct Binary<BinaryKind::lcm> : Plain<2, kIntegers> {
  template <class V> BARACUDA_HD V fwd(V a, V b) const { return lcm(a, b); }
};

}  // namespace elementwise
}  // namespace baracuda
