#pragma once
// Steps of 64 elements as 8 runs of 8, for recurrences r_i = b_i + a_i r_(i-1) in f64. A run goes element by element, its total as
// an affine map (a, b), r to b + a r; totals are joined by Sklansky's network, and each run goes again from what came before it. Rows are turned by
// register transposes, so that a pack holds an element of every run; in columns it holds an element of one run, and its neighbours
// are other columns. Both take the same steps, so the bits are the same.
#include "baracuda/ops/scan/scan_group.hpp"
#include "baracuda/ops/scan/scan_math.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

inline constexpr int kRun = 8;  // elements of a run, and runs of a step
template <bool kColumns, class V> inline constexpr int kRunPacks = kColumns ? kRun : kRun / V::kWidth;  // packs that hold one element of every run

// Lane l of pack i and lane i of pack l change places, in a block of packs that lie `gap` apart.
template <int d, int gap, class V> BARACUDA_HD void transpose(V* v) {
  constexpr int N = V::kWidth;
  if constexpr (d < N) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      if (i & d) continue;
      const V a = v[i * gap], b = v[(i | d) * gap];
      v[i * gap] = pick(a, b, [](int l) { return l & d ? V::kWidth + (l ^ d) : l; });
      v[(i | d) * gap] = pick(a, b, [](int l) { return l & d ? V::kWidth + l : l ^ d; });
    }
    transpose<2 * d, gap>(v);
  }
}
// A step from memory's order into runs, and back.
template <class V> BARACUDA_HD void turn(V* v) {
  constexpr int N = V::kWidth, G = kRun / N;
  if constexpr (N > 1)
#pragma GCC unroll 2
    for (int h = 0; h < G; ++h)
#pragma GCC unroll 2
      for (int part = 0; part < G; ++part) transpose<1, G>(v + N * h * G + part);
}
// Where a turned step has element j of the h-th pack of runs.
template <bool kColumns, class V> BARACUDA_HD constexpr int run_place(int j, int h) {
  constexpr int N = kColumns ? 1 : V::kWidth;
  return (N * h + j % N) * (kRun / N) + j / N;
}
// Each run's neighbour behind it, 1 behind the last.
template <bool kColumns, class V> BARACUDA_HD void advanced(const V* v, V* to) {
  constexpr int H = kRunPacks<kColumns, V>;
#pragma GCC unroll 8
  for (int h = 0; h < H; ++h) {
    const V next = h + 1 < H ? v[h + 1] : V(1);
    if constexpr (kColumns) to[h] = next;
    else to[h] = pick(v[h], next, [](int l) { return l + 1; });
  }
}
// What each run of a step begins with, from the runs' maps and r, what the step begins with; r becomes what it ends with.
// Returns the map of the step.
template <bool kColumns, class F, class V> BARACUDA_HD Pair<V> before_runs(Pair<V>* runs, V& r, V* before) {
  constexpr int H = kRunPacks<kColumns, V>;
  prefix<kColumns, kRun>(runs, Pair<V>{1, 0}, [](Pair<V> a, Pair<V> b) __attribute__((always_inline)) { return joined<F>(a, b); });
  V after[H];
#pragma GCC unroll 8
  for (int h = 0; h < H; ++h) after[h] = F::mul_add(runs[h].a, r, runs[h].b);
  delayed<kColumns, kRun>(after, r, before);
  const Pair<V> all = total<kColumns, kRun>(runs);
  r = F::mul_add(all.a, r, all.b);
  return all;
}

}  // namespace scan
}  // namespace baracuda
