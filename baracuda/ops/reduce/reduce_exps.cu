// Sums of exponentials and of powers of floats. exps: blocks of 256 elements against the largest so far of their chunk, one exponential an
// element; powers: the largest of a chunk first, then one power in f64 an element.
#include "baracuda/ops/reduce/reduce_engine.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace reduce_kinds;

template <class T> struct ExpLoop {
  using E = T;
  using A = Acc<T>;
  using V = Pack<A, 1>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = 4;
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    A s[L];
#pragma unroll
    for (int k = 0; k < L; ++k) s[k] = 0;
    V top = -kInf;
    int nan = 0;
    // Chunks of a block differ in length; all threads fold as often.
    for (int b = 0; b < kSumChunk; b += Tile::kBlock) {
      if (!__syncthreads_or(b < t.m)) break;
      E v[Tile::kRounds][L];
      t.load(b, v);
      V most = top;
      t.each(b, [&](int r, int k, int) {
        const V x = value(v[r][k]);
        most = larger(x, most), nan |= is_nan(x);
      });
      const V next = V::of(t.fold_one(most.v, [](A a, A c) { return larger(V::of(a), V::of(c)).v; })), base = base_of(next);
      if (b && b < t.m) {
        const V factor = exp_up(top - base) * V(kDown<V>);
#pragma unroll
        for (int k = 0; k < L; ++k) s[k] = s[k] * factor.v;
      }
      top = next;
      t.each(b, [&](int r, int k, int) { s[k] = s[k] + exp_up(value(v[r][k]) - base).v; });
    }
    const A sum = t.fold(s, [](A a, A c) { return a + c; });
    nan = t.fold_one(nan, [](int a, int c) { return a | c; });
    ReduceState out;
    out.a = (double(top.v) == kInf ? nan != 0 : sum != sum) ? kNaN : double(top.v), out.b = double(sum) * kDown<V>;
    return out;
  }
};
__device__ __noinline__ double power_of(double x, double best, double power) {
  using V = Pack<double, 1>;
  return pow(abs(V::of(x)) / V(best), V(power)).v;
}
template <class T> struct PowerLoop {
  using E = T;
  using V = Pack<double, 1>;
  static constexpr bool kIndex = false;
  static constexpr int kLanes = reduce_cuda_lanes(sizeof(T), false), kRounds = 1;
  template <class Tile> __device__ static ReduceState chunk(const Tile& t) {
    constexpr int L = Tile::kLanes;
    const bool most = t.p.power > 0;
    const auto take = [=](double a, double c) { return a != a || (c == c && (most ? a > c : a < c)) ? a : c; };  // NaN wins
    double best = most ? -1 : double(kInf);
    for (int b = 0; b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) { best = take(best, abs(V::of(double(value(v[r][k]).v))).v); });
    }
    best = t.fold_one(best, take);
    const bool plain = best > 0 && best < kInf;
    double s[L];
#pragma unroll
    for (int k = 0; k < L; ++k) s[k] = -0.0;
    for (int b = 0; plain && b < t.m; b += Tile::kBlock) {
      E v[Tile::kRounds][L];
      t.load(b, v);
      t.each(b, [&](int r, int k, int) { s[k] = s[k] + power_of(double(value(v[r][k]).v), best, t.p.power); });
    }
    const double sum = t.fold(s, [](double a, double c) { return a + c; });
    ReduceState out;
    out.a = best, out.b = plain ? sum : 1;
    return out;
  }
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
