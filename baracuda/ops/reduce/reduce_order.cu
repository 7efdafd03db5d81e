// Extrema of floats, where they are, and counts of elements that equal a number.
#include "baracuda/ops/reduce/reduce_lanes.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// Every lane keeps its first extremum; of equal ones the first index wins.
template <class T, bool kMax> struct ArgLoop {
  using E = T;
  using A = Acc<T>;
  using V = Pack<A, 1>;
  using K = Where<T, kMax>;
  static constexpr ReduceLoop kLoop = kMax ? ReduceLoop::argmax : ReduceLoop::argmin;
  static constexpr bool kIndex = true, kHead = false, kChecks = false, kPasses = false, kTidyEach = false, kRows = true, kColumns = true;
  static constexpr int kUnroll = 4, kResident = 3, kShortResident = 4;
  template <int N> struct Lanes {
    struct Lane {
      V s[2];  // extremum, index
      static __device__ Lane chosen(bool yes, const Lane& a, const Lane& b) { return {{where(yes, a.s[0], b.s[0]), where(yes, a.s[1], b.s[1])}}; }
    };
    Lane lane[N];
    __device__ void begin(const ReduceCuda&, double) {
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k] = {{V(kWorst<kMax>), V(kSumChunk)}};  // that index: no element is better
    }
    __device__ void step(int k, E e, int i) { K::step(lane[k].s, value(e), V::of(A(i)), Given<V>(V(0), false)); }
    __device__ void tidy() {}
    __device__ void settle() {}
    static __device__ Lane join(const Lane& a, const Lane& b) {
      const V x = a.s[0], y = b.s[0];
      const bool better = ((kMax ? y > x : y < x) | is_nan(y)) & !is_nan(x), same = (x == y) | (is_nan(x) & is_nan(y));
      return Lane::chosen(better || (same && b.s[1] < a.s[1]), b, a);
    }
    template <class S, class At> static __device__ void finish(const ReduceCuda&, const S& all, int, double, At, ReduceState& out) {
      const A total[2] = {all.s[0].v, all.s[1].v == kSumChunk ? 0 : all.s[1].v};
      K::finish(total, out);
    }
  };
};
template <class T> using Max = Extremum<T, true>;
template <class T> using Min = Extremum<T, false>;
template <bool kMax> constexpr ByDType<ReduceLaunch> arg_loops() {
  return device::floating<ReduceLaunch>(launch_loop<ArgLoop<f16, kMax>>, launch_loop<ArgLoop<bf16, kMax>>, launch_loop<ArgLoop<float, kMax>>, launch_loop<ArgLoop<double, kMax>>);
}
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::max)] = t.of[int(ReduceLoop::largest)] = kind_loops<Max, ReduceLoop::max>();
  t.of[int(ReduceLoop::min)] = t.of[int(ReduceLoop::least)] = kind_loops<Min, ReduceLoop::min>();
  t.of[int(ReduceLoop::minmax)] = kind_loops<Extremes, ReduceLoop::minmax>();
  t.of[int(ReduceLoop::argmax)] = arg_loops<true>();
  t.of[int(ReduceLoop::argmin)] = arg_loops<false>();
  t.of[int(ReduceLoop::equal)] = t.of[int(ReduceLoop::equal_magnitude)] = kind_loops<Equal, ReduceLoop::equal>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_order = kTable;

}  // namespace baracuda
