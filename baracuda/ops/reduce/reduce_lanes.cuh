#pragma once
// Loops of the kinds of reduce_kinds.hpp whose state is one or two numbers a lane.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T, class K> constexpr bool kSums = requires { typename K::A; };  // of sums; else of extrema
template <class T, class K> struct AccumulatorOf { using Type = Acc<T>; };
template <class T, class K> requires kSums<T, K> struct AccumulatorOf<T, K> { using Type = typename K::A; };

template <class T, class K, ReduceLoop kLoop_> struct KindLoop {
  static constexpr ReduceLoop kLoop = kLoop_;  // or another that is joined and finished as this one
  using E = T;
  using A = typename AccumulatorOf<T, K>::Type;
  using V = Pack<A, 1>;
  static constexpr bool has_head() { if constexpr (kSums<T, K>) return K::kHead; else return false; }
  static constexpr int tidy_every() { if constexpr (kSums<T, K>) return K::kTidy; else return 0; }
  static constexpr int kStates = K::kStates, kWords = 16 / int(sizeof(T)) * kStates * int(sizeof(A)) / 4;  // of a thread's lanes in a row
  static constexpr bool kIndex = false, kHead = has_head(), kChecks = false, kPasses = false, kTidyEach = tidy_every() == 1;
  static constexpr bool kRows = true, kColumns = true;
  static constexpr int kUnroll = kWords <= 8 ? 16 : kWords <= 16 ? 8 : 4, kResident = 2, kShortResident = kWords <= 16 ? 4 : 3;
  static constexpr double kStart[2] = {K::kStart[0], K::kStart[kStates - 1]};
  static constexpr double kNoHead = -0.0;
  static __device__ A heads(A a, A b) { return a + b; }
  static __device__ A head(E e) { return convert<A>(value(e)).v; }
  static __device__ double origin(A sum, int m) { return double(reduce_kinds::origin<T>(sum, m)); }
  template <int N> struct Lanes {
    struct Lane {
      V s[kStates];
      static __device__ Lane chosen(bool yes, Lane a, const Lane& b) {
#pragma unroll
        for (int i = 0; i < kStates; ++i) a.s[i] = where(yes, a.s[i], b.s[i]);
        return a;
      }
    };
    Lane lane[N];
    Given<V> given{V(0), false};
    __device__ void begin(const ReduceCuda& p, double shift) {
      constexpr double start0 = kStart[0], start1 = kStart[1];
      given = Given<V>(V::of(A(shift)), p.magnitude);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        lane[k].s[0] = V(start0);
        if constexpr (kStates == 2) lane[k].s[1] = V(start1);
      }
    }
    __device__ void step(int k, E e, int) {
      if constexpr (kSums<T, K>) K::step(lane[k].s, convert<A>(value(e)), given);
      else K::step(lane[k].s, value(e), V(0), given);
    }
    __device__ void tidy() {
      if constexpr (tidy_every() > 0)
#pragma unroll
        for (int k = 0; k < N; ++k) K::tidy(lane[k].s);
    }
    __device__ void settle() {
      if constexpr (tidy_every() > 0)
#pragma unroll
        for (int k = 0; k < N; ++k) K::settle(lane[k].s);
    }
    static __device__ Lane join(Lane a, const Lane& b) {
      a.s[0] = K::template Fold<0>::of(a.s[0], b.s[0]);
      if constexpr (kStates == 2) a.s[1] = K::template Fold<1>::of(a.s[1], b.s[1]);
      return a;
    }
    // all: of Lanes of any N.
    template <class S, class At> static __device__ void finish(const ReduceCuda&, const S& all, int m, double shift, At at, ReduceState& out) {
      A total[kStates];
#pragma unroll
      for (int k = 0; k < kStates; ++k) total[k] = all.s[k].v;
      if constexpr (kSums<T, K>) K::finish(total, m, shift, [&](int i) { return double(value(at(i)).v); }, out);
      else K::finish(total, out);
    }
  };
};
template <template <class> class K, ReduceLoop kLoop> constexpr ByDType<ReduceLaunch> kind_loops() {
  return device::floating<ReduceLaunch>(launch_loop<KindLoop<f16, K<f16>, kLoop>>, launch_loop<KindLoop<bf16, K<bf16>, kLoop>>, launch_loop<KindLoop<float, K<float>, kLoop>>,
                                        launch_loop<KindLoop<double, K<double>, kLoop>>);
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
