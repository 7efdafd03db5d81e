#pragma once
// What ops share that carry one number by affine maps, in runs: r_i = a_i r_(i-1) + b_i. What came before is r; a block is the map
// from what comes in to what goes on.
#include "baracuda/ops/scan/scan_ops.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

template <class E_> struct AffineOp {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  using Index = int32_t;
  using One = Pack<double, 1>;
  struct State { double r, a; };                // where a block begins with 0, and the product of all a
  template <bool> struct Carry { V r; Pair<V> own; };  // own: the map of the block so far
  static constexpr int N = V::kWidth, W = kRun, kStep = kRun * kRun, kPlaces = -1;
  static constexpr bool kIndexed = false, kGradient = true, kTurned = true;
  BARACUDA_HD static State identity() { return {-0.0, 1}; }
  BARACUDA_HD static State join(State first, State then, bool = false) {
    const Pair<One> p = joined<Careful>(Pair<One>{One::of(first.a), One::of(first.r)}, Pair<One>{One::of(then.a), One::of(then.r)});
    return {p.b.v, p.a.v};
  }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    alignas(64) double r[N];
    for (int l = 0; l < N; ++l) r[l] = s[kColumns ? l : 0].r;
    return {load<N>(r), {1, -0.0}};
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], {c.own.b.lane(l), c.own.a.lane(l)});
  }
};
// A step's elements again, in runs.
template <class Op, bool kColumns, class Packs> void reload(Packs& v, const Step<Op>& s) {
  constexpr int N = Op::V::kWidth;
  for (int q = 0; q < Op::kIn; ++q)
    for (int i = 0; i < Op::kStep; ++i)
      for (int l = 0; l < (kColumns ? N : 1); ++l) {
        const double e = i < s.steps ? double(s.in[q][i * s.next[q] + l]) : double(Op::fill(q));
        if constexpr (kColumns) v[q][i].set_lane(l, e);
        else v[q][run_place<false, typename Op::V>(i % kRun, i / kRun / N)].set_lane(i / kRun % N, e);
      }
}

}  // namespace scan
}  // namespace baracuda
