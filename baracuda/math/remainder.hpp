#pragma once
// Exact remainders for any Pack: fmod (sign of the dividend), remainder (sign of the divisor), floor_divide. Quotients up to
// 2^23 (2^52) take one fma; larger ones go lane by lane through long division (right, slow).
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {

BARACUDA_HD double fmod_long(double x, double y) {  // x >= y > 0, finite: 11 bits of the quotient at a time
  const uint64_t ux = __builtin_bit_cast(uint64_t, x), uy = __builtin_bit_cast(uint64_t, y), implicit = uint64_t(1) << 52;
  const int ex = int(ux >> 52), ey = int(uy >> 52);
  const uint64_t my = ey ? (uy & (implicit - 1)) | implicit : uy;
  uint64_t r = (ex ? (ux & (implicit - 1)) | implicit : ux) % my;
  for (int n = (ex ? ex : 1) - (ey ? ey : 1), step; n > 0; n -= step) step = n < 11 ? n : 11, r = (r << step) % my;
  const int e = (ey ? ey : 1) - 1075, half = e / 2;
  return double(r) * __builtin_bit_cast(double, uint64_t(half + 1023) << 52) * __builtin_bit_cast(double, uint64_t(e - half + 1023) << 52);
}
template <class V> BARACUDA_HD V fmod(V a, V b) {
  using T = typename V::Scalar;
  const V x = abs(a), y = abs(b), q = trunc(x / y);
  V r = fma(-q, y, x);
  r = where(r < 0, r + y, r);  // a quotient that rounded up
  const double most = V::kF32 ? 0x1p23 : 0x1p52;
  const V divisor = where(y > 0, y, V(kInf)), dividend = where(x < kInf, x, V(0));  // of the lanes that a long division helps
  if (any(where(divisor < kInf, dividend / divisor, V(0)) > most)) {
    for (int i = 0; i < V::kWidth; ++i)
      if (divisor.lane(i) < T(kInf) && dividend.lane(i) / divisor.lane(i) > T(most))
        r.set_lane(i, T(fmod_long(double(dividend.lane(i)), double(divisor.lane(i)))));
  }
  return copysign(where(y == kInf, where(x < kInf, x, V(kNaN)), where(y == 0, V(kNaN), r)), a);
}
template <class V> BARACUDA_HD V remainder(V a, V b) {
  const V r = fmod(a, b);
  return where(r == 0, r, where((r < 0) != (b < 0), r + b, r));
}
// The largest integer not above a / b, from the exact remainder; a / b where b = 0.
template <class V> BARACUDA_HD V floor_divide(V a, V b) {
  const V r = fmod(a, b), q = (a - r) / b, whole = where(r == 0, q, where((r < 0) != (b < 0), q - 1, q));
  const V f = floor(whole), nearest = where(whole - f > 0.5, f + 1, f);
  return where(b == 0, a / b, where(whole == 0, copysign(V(0), a / b), nearest));
}

}  // namespace baracuda
