#pragma once
// What an index means, and how elements that fall on one place are combined, the same everywhere.
#include <limits>
#include "baracuda/math/half.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace indexing {

// The place that index i names among `extent`, outside [0, extent) where it names none.
BARACUDA_HD int64_t place_of(int64_t i, int64_t extent, bool negative, bool clip) {
  if (negative && i < 0) i += extent;
  if (clip) i = i < 0 || extent == 0 ? 0 : i < extent ? i : extent - 1;  // 0 is none of an empty axis
  return i;
}

// What sums of a dtype are kept in: f32 for halves, else itself.
template <class T> using Sum = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;
template <class A, class T> BARACUDA_HD A sum_of(A a, T x, double alpha) {
  if constexpr (std::is_same_v<T, bool>) return a || (x && alpha != 0);
  else if constexpr (std::is_integral_v<T>) return A(uint64_t(a) + uint64_t(int64_t(alpha)) * uint64_t(x));
  else if constexpr (std::is_same_v<T, double>) return a + x * alpha;
  else return a + to_float(x) * float(alpha);
}
// A sum of n terms as their mean; rounded down for integers.
template <class T> BARACUDA_HD T mean_of(Sum<T> sum, int64_t n) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    const Wide all = Wide(sum), q = n > 1 ? all / Wide(n) : all;
    if constexpr (std::is_signed_v<T>)
      if (n > 1 && all < 0 && q * Wide(n) != all) return T(q - 1);
    return T(q);
  } else if constexpr (std::is_same_v<T, double>) return n > 1 ? sum / double(n) : sum;
  else return from_float<T>(n > 1 ? sum / float(n) : sum);
}
// Whether the challenger stays of two; NaN does.
template <class T> BARACUDA_HD bool beats(T challenger, T holder, bool largest) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) return beats(to_float(challenger), to_float(holder), largest);
  else if (holder != holder) return false;
  else return challenger != challenger || (largest ? challenger > holder : challenger < holder);
}
// What beats nothing.
template <class T> BARACUDA_HD T beaten(bool largest) {
  if constexpr (std::is_integral_v<T>) return largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  else return from_double<T>(largest ? -__builtin_inf() : __builtin_inf());
}

// Of gradients: whether an element is the one that stayed, NaN too, and dy's share among n, rounded once.
template <class T> BARACUDA_HD bool equal(T a, T b) {
  if constexpr (std::is_same_v<T, double>) return a == b || (a != a && b != b);
  else return to_float(a) == to_float(b) || (to_float(a) != to_float(a) && to_float(b) != to_float(b));
}
template <class T> BARACUDA_HD T share(T dy, double factor, int64_t n) {
  if constexpr (std::is_same_v<T, double>) return n > 1 ? dy / double(n) : dy * factor;
  else return from_float<T>(n > 1 ? to_float(dy) / float(n) : to_float(dy) * float(factor));
}

}  // namespace indexing
}  // namespace baracuda
