#pragma once
// Products with mantissa and exponent apart, so that only the product itself can leave the range; for any V of doubles. Scaling by
// powers of two rounds nothing, so it does not matter when it is done.
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace product {

template <class V> BARACUDA_HD typename V::Mask outside(V m, double low, double high) { return (abs(m) < low) | mask_not(abs(m) < high); }
// m = m' 2^n with |m'| in [1, 2); n = 0 for zero, infinite and NaN ones. tiny: m may be subnormal.
template <bool tiny, class V> BARACUDA_HD typename V::Bits split(V& m) {
  using Bits = typename V::Bits;
  const Bits none = bits(V(0));
  const auto small = abs(m) < 0x1p-1022;
  const V y = tiny ? where(small, m * 0x1p54, m) : m;
  const auto whole = (y == 0) | mask_not(abs(y) < kInf);
  Bits n = ((bits(y) >> 52) & 0x7ff) - 1023;
  if constexpr (tiny) n = small ? n - 54 : n;
  m = where(whole, m, V::from_bits((bits(y) & ~(int64_t(0x7ff) << 52)) | int64_t(1023) << 52));
  return whole ? none : n;
}

}  // namespace product
}  // namespace baracuda
