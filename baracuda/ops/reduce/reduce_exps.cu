// Sums of exponentials and of powers of floats. exps: against a number of each lane that is at most 30 below its largest: the largest of the chunk's first 64 elements,
// until one is farther above; one exponential an element, short for halves. powers: the largest of a chunk first, then one power in f64 an element.
#include "baracuda/math/brief.hpp"
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T> struct ExpLoop {
  using E = T;
  using A = Acc<T>;
  using V = Pack<A, 1>;
  static constexpr ReduceLoop kLoop = ReduceLoop::exps;
  static constexpr bool kIndex = false, kHead = true, kChecks = true, kPasses = false, kTidyEach = false, kRows = true, kColumns = true;
  static constexpr int kUnroll = 4, kResident = 2, kShortResident = 4;
  static constexpr double kRoom = 30, kNoHead = -kInf;
  static __device__ A head(E e) {
    const V x = value(e);
    return where(x < V(kInf), x, V(-kInf)).v;
  }
  static __device__ A heads(A a, A b) { return larger(V::of(a), V::of(b)).v; }
  static __device__ double origin(A largest, int) { return double(largest); }
  static __device__ A above(V d) {  // exp(d) for d <= kRoom, times 2^kUp
    if constexpr (kIsHalf<T>) return falling_power_of_two(fma(Brief<1>::of(d.v), Brief<1>(kLog2E), Brief<1>(24))).v;
    else return exp_up(d).v;
  }
  struct State {
    A sum, base, limit;  // limit: base + kRoom; -inf: no element yet; inf, NaN: there was one
    static __device__ State chosen(bool yes, const State& a, const State& b) { return {yes ? a.sum : b.sum, yes ? a.base : b.base, yes ? a.limit : b.limit}; }
  };
  // Rare, and so not inlined: an element above the limit; states of two bases.
  static __device__ __noinline__ State risen(State l, A x) {
    if (x <= l.limit || l.limit != l.limit) return l;
    if (!(abs(V::of(x)).v < kInf)) return {l.sum, l.base, x};
    return {l.limit == -kInf ? 0 : l.sum * above(V::of(l.base - x)) * A(kDown<V>), x, x + A(kRoom)};
  }
  static __device__ __noinline__ State joined(State a, State b) {
    if (a.limit == -kInf) return b;
    if (b.limit == -kInf) return a;
    const A base = larger(V::of(a.base), V::of(b.base)).v;
    return {a.sum * above(V::of(a.base - base)) * A(kDown<V>) + b.sum * above(V::of(b.base - base)) * A(kDown<V>), base, max_nan(V::of(a.limit), V::of(b.limit)).v};
  }
  template <int N> struct Lanes {
    using Lane = State;
    Lane lane[N];
    __device__ void begin(const ReduceCuda&, double first) {
      const bool finite = abs(V::of(A(first))).v < kInf;
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k] = {0, finite ? A(first) : A(0), finite ? A(first) + A(kRoom) : A(-kInf)};
    }
    __device__ bool over(int k, E e) const { return !(value(e).v <= lane[k].limit); }
    __device__ void rise(int k, E e) { lane[k] = risen(lane[k], value(e).v); }
    __device__ void step(int k, E e, int) { lane[k].sum = lane[k].sum + above(value(e) - V::of(lane[k].base)); }
    __device__ void tidy() {}
    __device__ void settle() {}
    static __device__ Lane join(const Lane& a, const Lane& b) { return a.limit == b.limit ? Lane{a.sum + b.sum, a.base, a.limit} : joined(a, b); }
    template <class S, class At> static __device__ void finish(const ReduceCuda&, const S& all, int, double, At, ReduceState& out) {
      out.a = all.limit - all.limit == 0 ? double(all.base) : double(all.limit), out.b = double(all.sum) * kDown<V>;
    }
  };
};
__device__ __noinline__ double power_of(double x, double best, double power) {
  using V = Pack<double, 1>;
  return pow(abs(V::of(x)) / V(best), V(power)).v;
}
template <class T> struct PowerLoop {
  using E = T;
  using A = double;
  static constexpr ReduceLoop kLoop = ReduceLoop::powers;
  static constexpr bool kIndex = false, kHead = false, kChecks = false, kPasses = true, kTidyEach = false, kRows = false, kColumns = false;
  template <int N> struct Lanes {
    struct Lane { double s; };
    Lane lane[N];
    double best_one, power;
    __device__ void begin(const ReduceCuda& p, double) {
      power = p.power;
#pragma unroll
      for (int k = 0; k < N; ++k) lane[k].s = -0.0;
    }
    static __device__ bool plain(double best) { return best > 0 && best < kInf; }
    template <class Each, class Fold> __device__ double best(Each each, Fold fold) {
      const bool most = power > 0;
      const auto take = [=](double a, double c) { return a != a || (c == c && (most ? a > c : a < c)) ? a : c; };  // NaN wins
      best_one = most ? -1 : double(kInf);
      each([&](E e) { best_one = take(best_one, abs(Pack<double, 1>::of(double(value(e).v))).v); });
      return best_one = fold(best_one, take);
    }
    __device__ void step(int k, E e, int) {
      if (plain(best_one)) lane[k].s = lane[k].s + power_of(double(value(e).v), best_one, power);
    }
    __device__ void tidy() {}
    __device__ void settle() {}
    static __device__ Lane join(const Lane& a, const Lane& b) { return {a.s + b.s}; }
    template <class S, class At> static __device__ void finish(const ReduceCuda&, const S& all, int, double best, At, ReduceState& out) {
      out.a = best, out.b = plain(best) ? all.s : 1;
    }
  };
};
template <template <class> class L> constexpr ByDType<ReduceLaunch> loops() {
  return device::floating<ReduceLaunch>(launch_loop<L<f16>>, launch_loop<L<bf16>>, launch_loop<L<float>>, launch_loop<L<double>>);
}
constexpr ReduceCudaTable make() {
  ReduceCudaTable t;
  t.of[int(ReduceLoop::exps)] = loops<ExpLoop>();
  t.of[int(ReduceLoop::powers)] = loops<PowerLoop>();
  return t;
}
constexpr ReduceCudaTable kTable = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ReduceCudaTable reduce_cuda_exps = kTable;

}  // namespace baracuda
