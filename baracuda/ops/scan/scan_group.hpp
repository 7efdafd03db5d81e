#pragma once
// Groups of W neighbouring elements of a lane, the leaves of every scan's tree, in rows or in columns: a row's group lies in the
// lanes of one or more registers, a column's has a register for each element, and in its lanes the columns beside it. Both
// take the same steps, whatever the width of a register, so the bits are the same.
//
// prefix() is Sklansky's (1960): in round d = 1, 2, 4 ... each upper half of 2 d elements is joined with the last of the lower
// half. join(earlier, later); down: from the last element to the first.
#include <utility>
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

template <class A> inline constexpr int kGroup = 64 / int(sizeof(A));  // W for sums in A

template <class V> BARACUDA_HD V spread(typename V::Scalar s) { return V::of(s - Raw<typename V::Scalar, V::kWidth>{}); }
// Lane l becomes lane f(l) of a and, behind it, b.
template <class F, class V, int... L> BARACUDA_HD V pick(V a, V b, std::integer_sequence<int, L...>) {
  if constexpr (V::kWidth == 1) return F{}(0) ? b : a;
  else return V::of(__builtin_shufflevector(a.v, b.v, F{}(L)...));
}
template <class V, class F> BARACUDA_HD V pick(V a, V b, F) { return pick<F>(a, b, std::make_integer_sequence<int, V::kWidth>{}); }

// Two packs that are joined as one.
template <class V> struct Pair {
  using First = V;
  static constexpr int kWidth = V::kWidth;
  V a, b;
};
template <class S> inline constexpr bool kIsPair = requires(S s) { s.b; };

template <class S> BARACUDA_HD S reversed(S v) { return pick(v, v, [](int l) { return S::kWidth - 1 - l; }); }
template <int at, class S> BARACUDA_HD S spread_lane(S v) {
  if constexpr (S::kWidth == 1) return v;
  else if constexpr (kIsPair<S>) return {spread_lane<at>(v.a), spread_lane<at>(v.b)};
  else return pick(v, v, [](int) { return at; });
}
// Each lane that takes in round d, the one that it takes; `none` in the others.
template <int d, bool kDown, class V> BARACUDA_HD V taken(V v, V none) {
  return pick(v, none, [](int l) { return kDown ? (l & d ? V::kWidth + l : (l | (d - 1)) + 1) : l & d ? (l & ~(d - 1)) - 1 : V::kWidth + l; });
}
template <int d, bool kDown, class V> BARACUDA_HD V merged(V v, V joined) {  // `joined` where a lane takes
  return pick(v, joined, [](int l) { return bool(l & d) != kDown ? V::kWidth + l : l; });
}
// The lanes that take, as bits; each lane that takes, the one that it takes, and in the others the lane itself.
template <int d, bool kDown, int N> inline constexpr uint32_t kTakers = [] {
  uint32_t m = 0;
  for (int l = 0; l < N; ++l) m |= uint32_t(bool(l & d) != kDown) << l;
  return m;
}();
template <int d, bool kDown, class V> BARACUDA_HD V source(V v) {
  return pick(v, v, [](int l) { return bool(l & d) == kDown ? l : kDown ? (l | (d - 1)) + 1 : (l & ~(d - 1)) - 1; });
}
// join has in<lanes>(a, b) where it can leave the other lanes of b as they are.
template <int d, bool kDown, int kPacks, class S, class J> BARACUDA_HD void rounds(S* v, S none, const J& join) {
  if constexpr (d < S::kWidth) {
#pragma GCC unroll 16
    for (int k = 0; k < kPacks; ++k) {
      if constexpr (requires { join.template in<1u>(v[k], v[k]); }) v[k] = join.template in<kTakers<d, kDown, S::kWidth>>(source<d, kDown>(v[k]), v[k]);
      else if constexpr (kIsPair<S>) {  // there is no neutral pair where an element may be infinite
        const S j = join(S{taken<d, kDown>(v[k].a, v[k].a), taken<d, kDown>(v[k].b, v[k].b)}, v[k]);
        v[k] = {merged<d, kDown>(v[k].a, j.a), merged<d, kDown>(v[k].b, j.b)};
      } else v[k] = join(taken<d, kDown>(v[k], none), v[k]);
    }
    rounds<2 * d, kDown, kPacks>(v, none, join);
  }
}
template <bool kColumns, int W, bool kDown = false, class S, class J> BARACUDA_HD void prefix(S* v, S none, const J& join) {
  constexpr int N = kColumns ? 1 : S::kWidth;
  if constexpr (!kColumns) rounds<1, kDown, W / N>(v, none, join);
#pragma GCC unroll 5
  for (int d = N; d < W; d *= 2)
#pragma GCC unroll 16
    for (int i = 0; i < W; i += N) {
      if (bool(i & d) == kDown) continue;
      const S from = v[(kDown ? (i | (d - 1)) + 1 : (i & ~(d - 1)) - 1) / N];
      if constexpr (kColumns) v[i] = join(from, v[i]);
      else v[i / N] = join(spread_lane<kDown ? 0 : N - 1>(from), v[i / N]);
    }
}
// The group's last element after prefix(), or with kDown its first: for all lanes of a row.
template <bool kColumns, int W, bool kDown = false, class S> BARACUDA_HD S total(const S* v) {
  constexpr int N = kColumns ? 1 : S::kWidth;
  if constexpr (kColumns) return v[kDown ? 0 : W - 1];
  else return spread_lane<kDown ? 0 : N - 1>(v[kDown ? 0 : W / N - 1]);
}
// Each element's neighbour before it; the first one's is `before`, of which a row reads any lane.
template <bool kColumns, int W, class V> BARACUDA_HD void delayed(const V* v, V before, V* to) {
  constexpr int N = kColumns ? 1 : V::kWidth;
#pragma GCC unroll 16
  for (int k = 0; k < W / N; ++k) {
    const V last = k ? v[k - 1] : before;
    if constexpr (kColumns) to[k] = last;
    else to[k] = pick(last, v[k], [](int l) { return l ? V::kWidth + l - 1 : V::kWidth - 1; });
  }
}

}  // namespace scan
}  // namespace baracuda
