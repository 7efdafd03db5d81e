// Extrema of floats, where they are, and counts of elements that equal a number.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T, class K> struct OrderLoop {
  using E = T;
  using A = Acc<T>;
  using V = Pack<A, 1>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = 4;
  static constexpr int kStates = K::kStates;
  static constexpr double kStart[2] = {K::kStart[0], K::kStart[kStates - 1]};
  struct Lane { V s[kStates]; };
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    constexpr double start0 = kStart[0], start1 = kStart[1];
    Lane lane[L];
#pragma unroll
    for (int k = 0; k < L; ++k) {
      lane[k].s[0] = V(start0);
      if constexpr (kStates == 2) lane[k].s[1] = V(start1);
    }
    const Given<V> given(V::of(A(t.shift)), t.p.magnitude);
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int i) { K::step(lane[k].s, value(v[r][k]), V(0), given); });
    }
    const Lane all = t.fold(lane, [](Lane a, Lane c) {
      a.s[0] = K::template Fold<0>::of(a.s[0], c.s[0]);
      if constexpr (kStates == 2) a.s[1] = K::template Fold<1>::of(a.s[1], c.s[1]);
      return a;
    });
    A total[kStates];
#pragma unroll
    for (int k = 0; k < kStates; ++k) total[k] = all.s[k].v;
    ReduceState out;
    K::finish(total, out);
    return out;
  }
};
// Every lane keeps its first extremum; of equal ones the first index wins.
template <class T, bool kMax> struct ArgLoop {
  using E = T;
  using A = Acc<T>;
  using V = Pack<A, 1>;
  using K = Where<T, kMax>;
  static constexpr bool kIndex = true;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = 4;
  struct Lane { V s[2]; };  // extremum, index
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    Lane lane[L];
    const Given<V> given(V(0), false);
#pragma unroll
    for (int k = 0; k < L; ++k) lane[k] = {{V(kWorst<kMax>), V(double(t.index(0, 0, k)))}};
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int i) { K::step(lane[k].s, value(v[r][k]), V(double(i)), given); });
    }
    const Lane all = t.fold(lane, [](Lane a, Lane c) {
      const V x = a.s[0], y = c.s[0];
      const bool better = ((kMax ? y > x : y < x) | is_nan(y)) & !is_nan(x), same = (x == y) | (is_nan(x) & is_nan(y));
      return better || (same && c.s[1] < a.s[1]) ? c : a;
    });
    const A total[2] = {all.s[0].v, all.s[1].v};
    ReduceState out;
    K::finish(total, out);
    return out;
  }
};
template <class T> using Max = Extremum<T, true>;
template <class T> using Min = Extremum<T, false>;
template <template <class> class K> constexpr ByDType<ReduceLaunch> loops() {
  return device::floating<ReduceLaunch>(launch_loop<OrderLoop<f16, K<f16>>>, launch_loop<OrderLoop<bf16, K<bf16>>>, launch_loop<OrderLoop<float, K<float>>>,
                                        launch_loop<OrderLoop<double, K<double>>>);
}
template <bool kMax> constexpr ByDType<ReduceLaunch> arg_loops() {
  return device::floating<ReduceLaunch>(launch_loop<ArgLoop<f16, kMax>>, launch_loop<ArgLoop<bf16, kMax>>, launch_loop<ArgLoop<float, kMax>>, launch_loop<ArgLoop<double, kMax>>);
}
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::max)] = t.of[int(ReduceLoop::largest)] = loops<Max>();
  t.of[int(ReduceLoop::min)] = t.of[int(ReduceLoop::least)] = loops<Min>();
  t.of[int(ReduceLoop::minmax)] = loops<Extremes>();
  t.of[int(ReduceLoop::argmax)] = arg_loops<true>();
  t.of[int(ReduceLoop::argmin)] = arg_loops<false>();
  t.of[int(ReduceLoop::equal)] = t.of[int(ReduceLoop::equal_magnitude)] = loops<Equal>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_order = kTable;

}  // namespace baracuda
