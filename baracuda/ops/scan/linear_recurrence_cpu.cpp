// y_t = a_t y_(t-1) + x_t and its gradients, which are the same recurrence against the scan. Reads two or three tensors, writes
// one: the floor is the copy bandwidth. Two multiply-adds and a product per element, in f64.
#include "baracuda/ops/scan/scan_affine.hpp"
#include "baracuda/ops/scan/scan_engine.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

// r_i = a_i r_(i-1) + x_i. kGrad: of the neighbour's a, as a_(i-1) is what leads from i - 1 to i against the scan; kWeighted: times
// what the scan had before, which lies behind i in this direction, and r itself first where there are two outputs.
template <bool kWeighted> struct Outputs {};
template <> struct Outputs<true> { static constexpr bool kTwo = true; };
template <class E_, bool kGrad, bool kWeighted> struct Recurrence : AffineOp<E_>, Outputs<kWeighted> {
  using E = E_;
  using V = typename AffineOp<E>::V;
  template <bool kColumns> using Carry = typename AffineOp<E>::template Carry<kColumns>;
  static constexpr int N = V::kWidth, kIn = kWeighted ? 3 : 2, kShift[] = {0, kGrad, -1};
  BARACUDA_HD static E fill(int q) { return E(q == 1); }
  template <bool kColumns, class F, class Packs> BARACUDA_HD static bool solve(Packs& v, Carry<kColumns>& c, bool two) {
    constexpr int H = kRunPacks<kColumns, V>;
    V *const x = v[0], *const a = v[1];
    Pair<V> runs[H];
    V before[H];
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      runs[h] = {a[at(0)], x[at(0)]};
#pragma GCC unroll 8
      for (int j = 1; j < kRun; ++j) runs[h] = {F::mul(runs[h].a, a[at(j)]), F::mul_add(a[at(j)], runs[h].b, x[at(j)])};
    }
    c.own = joined<F>(c.own, before_runs<kColumns, F>(runs, c.r, before));
    V check = c.r;
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      V r = before[h];
#pragma GCC unroll 8
      for (int j = 0; j < kRun; ++j) {
        r = F::mul_add(a[at(j)], r, x[at(j)]), check += r;
        x[at(j)] = r;
        if constexpr (kWeighted) a[at(j)] = r * v[2][at(j)];
      }
      if (kWeighted && !two)
#pragma GCC unroll 8
        for (int j = 0; j < kRun; ++j) x[at(j)] = a[at(j)];
    }
    return any(is_nan(check)) || any(is_nan(c.own.a)) || any(is_nan(c.own.b));
  }
  template <bool kColumns, class Packs> [[gnu::noinline]] static void solve_careful(Packs& v, Carry<kColumns>& c, const Step<Recurrence>& s) {
    reload<Recurrence, kColumns>(v, s);
    solve<kColumns, Careful>(v, c, s.two);
  }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& carry, const Step<Recurrence>& s) {
    Carry<kColumns> c = carry;
    if (solve<kColumns, Plain>(v, c, s.two)) solve_careful<kColumns>(v, c = carry, s);
    carry = c;
  }
};

constexpr ScanKernels make() {
  using Run = void (*)(const ScanLanes&);
  using Carry = void (*)(const ScanCarries&);
  const auto carries = by_dtype<Carry>(Floating{}, []<class T>() { return &scan_carries<Recurrence<Acc<T>, false, false>>; });
  return {{by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<Recurrence<Acc<T>, false, false>>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<Recurrence<Acc<T>, true, false>>; }),
           by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<Recurrence<Acc<T>, true, true>>; }), {}, {}},
          {carries, carries, carries, {}, {}},
          {}};
}

}  // namespace
extern constexpr ScanKernels linear_recurrence_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
