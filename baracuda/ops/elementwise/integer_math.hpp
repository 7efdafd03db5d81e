#pragma once
// Int<T>: an integer or a bool as the value that formulas are written over. Sums, differences and products wrap; of bools + is
// or, * is and. Constants are rounded towards zero and saturate.
#include <limits>
#include <type_traits>
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class T> struct Int {
  static constexpr bool kSigned = std::is_signed_v<T>, kBool = std::is_same_v<T, bool>;
  static constexpr int kBits = 8 * sizeof(T);
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // wide enough that nothing overflows on promotion
  using Mask = bool;
  T v;

  Int() = default;
  BARACUDA_HD Int(int c) : v(T(c)) {}
  BARACUDA_HD Int(double c)
      : v(c <= double(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min() : c >= double(std::numeric_limits<T>::max()) ? std::numeric_limits<T>::max() : T(c)) {}
  BARACUDA_HD static Int of(T raw) { Int i; i.v = raw; return i; }
  BARACUDA_HD friend Int operator+(Int a, Int b) { return of(T(U(a.v) + U(b.v))); }
  BARACUDA_HD friend Int operator-(Int a, Int b) { return of(T(U(a.v) - U(b.v))); }
  BARACUDA_HD friend Int operator*(Int a, Int b) { return of(T(U(a.v) * U(b.v))); }
  BARACUDA_HD friend Int operator-(Int a) { return of(T(0 - U(a.v))); }
  BARACUDA_HD friend Int operator&(Int a, Int b) { return of(T(a.v & b.v)); }
  BARACUDA_HD friend Int operator|(Int a, Int b) { return of(T(a.v | b.v)); }
  BARACUDA_HD friend Int operator^(Int a, Int b) { return of(T(a.v ^ b.v)); }
  BARACUDA_HD friend bool operator<(Int a, Int b) { return a.v < b.v; }
  BARACUDA_HD friend bool operator>(Int a, Int b) { return a.v > b.v; }
  BARACUDA_HD friend bool operator<=(Int a, Int b) { return a.v <= b.v; }
  BARACUDA_HD friend bool operator>=(Int a, Int b) { return a.v >= b.v; }
  BARACUDA_HD friend bool operator==(Int a, Int b) { return a.v == b.v; }
  BARACUDA_HD friend bool operator!=(Int a, Int b) { return a.v != b.v; }
  BARACUDA_HD friend Int where(bool m, Int a, Int b) { return m ? a : b; }
  BARACUDA_HD friend Int max_nan(Int a, Int b) { return where(a > b, a, b); }
  BARACUDA_HD friend Int min_nan(Int a, Int b) { return where(a < b, a, b); }
  BARACUDA_HD friend Int abs(Int a) { return where(a.v < T(0), -a, a); }
  BARACUDA_HD friend Int floor(Int a) { return a; }
  BARACUDA_HD friend Int ceil(Int a) { return a; }
  BARACUDA_HD friend Int round_even(Int a) { return a; }
  BARACUDA_HD friend Int trunc(Int a) { return a; }
  BARACUDA_HD friend bool sign_bit(Int a) { return a.v < T(0); }

  // Division never traps: by 0 the quotient is all ones (-1) and the remainder the dividend, min / -1 wraps to min.
  BARACUDA_HD friend Int div_trunc(Int a, Int b) {
    if constexpr (kSigned) if (b.v == T(-1)) return -a;
    return b.v == T(0) ? of(T(-1)) : of(T(a.v / b.v));
  }
  BARACUDA_HD friend Int fmod(Int a, Int b) {
    if constexpr (kSigned) if (b.v == T(-1)) return of(T(0));
    return b.v == T(0) ? a : of(T(a.v % b.v));
  }
  BARACUDA_HD friend Int floor_divide(Int a, Int b) {
    const Int q = div_trunc(a, b), r = a - q * b;
    return b.v != T(0) && r.v != T(0) && (r.v < T(0)) != (b.v < T(0)) ? q - of(T(1)) : q;
  }
  BARACUDA_HD friend Int remainder(Int a, Int b) {
    const Int r = fmod(a, b);
    return b.v != T(0) && r.v != T(0) && (r.v < T(0)) != (b.v < T(0)) ? r + b : r;
  }
  BARACUDA_HD friend Int pow(Int a, Int b) {  // b < 0: 1 / a^-b cut towards zero, so 0 unless |a| is 1; 0 for a = 0
    if (b.v < T(0)) return a.v == T(1) ? a : kSigned && a.v == T(-1) ? where((b.v & 1) != 0, a, -a) : of(T(0));
    Int y = of(T(1));
    for (auto n = std::make_unsigned_t<std::conditional_t<kBool, char, T>>(b.v); n; n >>= 1, a = a * a)
      if (n & 1) y = y * a;
    return y;
  }
  // A shift by the width or more, or by a negative count, moves everything out: 0, or -1 for a negative dividend to the right.
  BARACUDA_HD friend Int shift_left(Int a, Int b) { return b.v < T(0) || b.v >= T(kBits) ? of(T(0)) : of(T(U(a.v) << U(b.v))); }
  BARACUDA_HD friend Int shift_right(Int a, Int b) {
    if (b.v < T(0) || b.v >= T(kBits)) return of(a.v < T(0) ? T(-1) : T(0));
    return of(T(a.v >> b.v));
  }
  BARACUDA_HD friend Int shift_right_logical(Int a, Int b) {
    return b.v < T(0) || b.v >= T(kBits) ? of(T(0)) : of(T(a.unsigned_bits() >> b.v));
  }
  BARACUDA_HD friend Int mulhi(Int a, Int b) {  // the upper half of the product
    using Wide = std::conditional_t<sizeof(T) == 8, std::conditional_t<kSigned, __int128, unsigned __int128>, std::conditional_t<kSigned, int64_t, uint64_t>>;
    return of(T(Wide(a.v) * Wide(b.v) >> kBits));
  }
  BARACUDA_HD friend Int complement(Int a) {
    if constexpr (kBool) return of(!a.v);
    else return of(T(~a.v));
  }
  BARACUDA_HD uint64_t unsigned_bits() const { return std::make_unsigned_t<T>(v); }
  BARACUDA_HD friend Int population_count(Int a) { return of(T(__builtin_popcountll(a.unsigned_bits()))); }
  BARACUDA_HD friend Int clz(Int a) { return of(a.v == T(0) ? T(kBits) : T(__builtin_clzll(a.unsigned_bits()) - (64 - kBits))); }
  BARACUDA_HD friend Int ctz(Int a) { return of(a.v == T(0) ? T(kBits) : T(__builtin_ctzll(a.unsigned_bits()))); }
  BARACUDA_HD friend Int gcd(Int a, Int b) {  // not negative, except that of (min, 0) and (min, min), which wraps
    using M = std::make_unsigned_t<std::conditional_t<kBool, char, T>>;
    M x = M(abs(a).v), y = M(abs(b).v);
    while (y) {
      const M r = M(x % y);
      x = y, y = r;
    }
    return of(T(x));
  }
  BARACUDA_HD friend Int lcm(Int a, Int b) {
    const Int g = gcd(a, b);
    return g.v == T(0) ? g : abs(div_trunc(a, g) * b);
  }
};

}  // namespace baracuda
