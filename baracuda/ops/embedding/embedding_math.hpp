#pragma once
// The order of the sums of dweight, the same everywhere: occurrences of a row are added in order 64 at a time, then 64 of those
// sums, then the rest, so that the error grows with the logarithm of the count.
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace embedding {

inline constexpr int kGroup = 64;
// Sums of groups in order; the first one is number 1.
template <class V> struct GroupSum {
  V high = -0.0, middle = -0.0;  // sums of 64 * 64 and of 64
  BARACUDA_HD void add(V group, int64_t number) {
    middle = middle + group;
    if (number % kGroup == 0) high = high + middle, middle = -0.0;
  }
  BARACUDA_HD V sum() const { return high + middle; }
};
// The sum as dweight, rounded once; after the old value is added where it accumulates.
template <class G, class A> BARACUDA_HD G result(Pack<A, 1> sum, bool accumulate, G old) {
  if constexpr (sizeof(A) == 8 && sizeof(G) == 4) return G(accumulate ? double(old) + sum.v : sum.v);
  else {
    G g;
    store<G, 1>(&g, accumulate ? load<1>(&old) + sum : sum);
    return g;
  }
}

}  // namespace embedding
}  // namespace baracuda
