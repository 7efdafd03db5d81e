#pragma once
// The product of all elements of a row but one, on CUDA: the product of those that are finite and not 0, mantissa and exponent apart, and how many zeros,
// infinities and NaN there are; an element is taken out again by a division of mantissas. So zeros are exact here too, nothing leaves the range on the
// way, and a row is read twice however long it is.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_product_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace reduce_others {

using D = Pack<double, 1>;
inline constexpr int kZero = 1, kInfinite = 4, kNot = 16;  // two bits each: none, one, more
struct Total { double m; int64_t code; };                  // |m| in [1, 2); exponent 64 + what is not in it

BARACUDA_HD bool plain(double x) { return x != 0 && abs(D::of(x)).v < kInf; }
BARACUDA_HD int unit_of(double x) { return x != x ? kNot : x == 0 ? kZero : kInfinite; }
BARACUDA_HD double sign_of(double x) { return x != x ? 1 : copysign(D(1), D::of(x)).v; }
BARACUDA_HD int counted(int counts, int unit) { return (counts / unit & 3) < 2 ? counts + unit : counts; }
BARACUDA_HD int64_t split(double& m) {
  D v = D::of(m);
  const int64_t e = product::split<true>(v);
  m = v.v;
  return e;
}
BARACUDA_HD int either(Total a, Total b, int unit) {
  const int both = (int(a.code & 63) / unit & 3) + (int(b.code & 63) / unit & 3);
  return (both < 2 ? both : 2) * unit;
}
BARACUDA_HD Total joined(Total a, Total b) {
  double m = a.m * b.m;
  const int64_t e = split(m);
  const int counts = either(a, b, kZero) + either(a, b, kInfinite) + either(a, b, kNot);
  return {m, ((a.code >> 6) + (b.code >> 6) + e) * 64 + counts};
}
// The product of all but x, an element of the total.
BARACUDA_HD double without(Total t, double x) {
  int counts = int(t.code & 63);
  int64_t e = t.code >> 6;
  if (plain(x)) {
    e -= split(x);
    t.m = t.m / x;
  } else counts -= unit_of(x), t.m = t.m * sign_of(x);
  const bool zero = counts & 3, infinite = counts / kInfinite & 3;
  if (counts >= kNot || (zero && infinite)) return kNaN;
  if (zero || infinite) return t.m * (zero ? 0 : double(kInf));
  return scale(D::of(t.m), e < -2044 ? -2044 : e > 2044 ? 2044 : e).v;
}

}  // namespace reduce_others
}  // namespace baracuda
