// dx of cumprod, cummax, cummin and logcumsumexp: one recurrence each, which runs against the scan. Reads dy and what the
// formula needs, writes dx; cumprod looks at x twice. Rows and columns as in the forward.
#include "baracuda/ops/scan/scan_affine.hpp"
#include "baracuda/ops/scan/scan_engine.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

// R_i = dy_i + q_(i-1), q_i = x_i R_i, dx_i = P_i R_i. P, the product of what the scan took before i, lies behind i in this direction.
template <class E_> struct ProductGrad : AffineOp<E_> {
  using E = E_;
  using V = typename AffineOp<E>::V;
  template <bool kColumns> using Carry = typename AffineOp<E>::template Carry<kColumns>;  // of q
  static constexpr int N = V::kWidth, W = kRun, kStep = kScanProducts, kIn = 2;
  static constexpr bool kLate[] = {true, false};
  BARACUDA_HD static E fill(int q) { return E(q); }
  // Returns whether a NaN is among the results.
  template <bool kColumns, class F, class Packs> BARACUDA_HD static bool solve(Packs& v, Carry<kColumns>& c, const Step<ProductGrad>& s) {
    constexpr int H = kRunPacks<kColumns, V>;
    V *const dy = v[0], *const x = v[1];
    Pair<V> runs[H];
    V products[H], behind[H], q[H];
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      V r = dy[at(0)], p = x[at(0)];
#pragma GCC unroll 8
      for (int j = 1; j < kRun; ++j) r = F::mul_add(x[at(j - 1)], r, dy[at(j)]), p = F::mul(p, x[at(j)]);
      runs[h] = {p, F::mul(x[at(kRun - 1)], r)}, products[h] = p;
    }
    prefix<kColumns, kRun, true>(products, V(1), [](V a, V b) __attribute__((always_inline)) { return F::mul(a, b); });
    advanced<kColumns>(products, behind);
    alignas(64) double after_of[N];
    for (int l = 0; l < N; ++l) after_of[l] = s.products[kColumns && l < s.lanes ? l : 0];
    const V after = load<N>(after_of);
    c.own = joined<F>(c.own, before_runs<kColumns, F>(runs, c.r, q));
    V check = c.r;
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      V r[kRun], p = F::mul(after, behind[h]);
      r[0] = q[h] + dy[at(0)];
#pragma GCC unroll 8
      for (int j = 1; j < kRun; ++j) r[j] = F::mul_add(x[at(j - 1)], r[j - 1], dy[at(j)]);
#pragma GCC unroll 8
      for (int j = kRun - 1; j >= 0; --j) {
        dy[at(j)] = F::mul(p, r[j]), check += dy[at(j)];
        if (j) p = F::mul(p, x[at(j)]);
      }
    }
    return any(is_nan(check)) || any(is_nan(c.own.a)) || any(is_nan(c.own.b));
  }
  template <bool kColumns, class Packs> [[gnu::noinline]] static void solve_careful(Packs& v, Carry<kColumns>& c, const Step<ProductGrad>& s) {
    reload<ProductGrad, kColumns>(v, s);
    solve<kColumns, Careful>(v, c, s);
  }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& carry, const Step<ProductGrad>& s) {
    Carry<kColumns> c = carry;
    if (solve<kColumns, Plain>(v, c, s)) solve_careful<kColumns>(v, c = carry, s);
    carry = c;
  }
  template <bool kColumns> BARACUDA_HD static V product(const V* w) {
    constexpr int H = kRunPacks<kColumns, V>;
    V plain[H];
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) plain[h] = w[h];
    prefix<kColumns, W>(plain, V(1), [](V a, V b) __attribute__((always_inline)) { return a * b; });
    return any(is_nan(plain[H - 1])) ? product_careful<kColumns>(w) : plain[H - 1];
  }
  template <bool kColumns> [[gnu::noinline]] static V product_careful(const V* w) {
    constexpr int H = kRunPacks<kColumns, V>;
    V p[H];
    for (int h = 0; h < H; ++h) p[h] = w[h];
    prefix<kColumns, W>(p, V(1), [](V a, V b) __attribute__((always_inline)) { return Careful::mul(a, b); });
    return p[H - 1];
  }
  // Products of kStep elements, by place modulo W: eight factors of f32 stay within f64.
  using Factors = std::conditional_t<sizeof(E) == 4, Plain, Careful>;
  static void products(const ScanLanes& p) {
    const int64_t most = p.end * kScanBlock < p.n ? p.end * kScanBlock : p.n;
    const ScanPort& x = p.in[1];
    alignas(64) E buffer[kStep * kLeast];
    for (int64_t i = p.begin * kScanBlock; i < most; i += kStep) {
      const int n = most - i < kStep ? int(most - i) : kStep;
      double* const to = p.products + i / kStep * p.products_pitch;
      for (int64_t lane = 0; lane < p.lanes; lane += p.columns ? kLeast : 1) {
        const char* at = x.at + (lane * x.pitch + i * x.step) * x.size;
        if (!p.columns) {
          const Line<const E> line = line_of<E>(x, at, x.step, n, buffer, x.step == 1 || x.step == -1 ? x.step * kScanChunk * x.size : 0);
          V w[W / N];
          for (V& e : w) e = 1;
          int k = 0;
          for (; k + W <= n; k += W)
#pragma GCC unroll 16
            for (int j = 0; j < W / N; ++j)
              w[j] = Factors::mul(w[j], line.next > 0 ? fetch<V>(line.at + k + j * N) : reversed(fetch<V>(line.at - k - j * N - (N - 1))));
          for (int j = 0; k + j < n; ++j) w[j / N].set_lane(j % N, Careful::mul(Pack<double, 1>::of(w[j / N].lane(j % N)), Pack<double, 1>::of(double(line.at[(k + j) * line.next]))).v);
          to[lane] = product<false>(w).lane(N - 1);
          continue;
        }
        const int lanes = p.lanes - lane < kLeast ? int(p.lanes - lane) : kLeast;
        const bool direct = x.pitch == 1 && lanes == kLeast && is_element<E>(x.dtype);
        const E* const from = direct ? reinterpret_cast<const E*>(at) : buffer;
        const int64_t next = direct ? x.step : kLeast;
        if (direct && i + 2 * kStep <= most)
          for (int k = 0; k < kStep; ++k) __builtin_prefetch(from + (kStep + k) * next);
        if (!direct)
          for (int k = 0; k < n; ++k) scan_stage.in[x.dtype](at + k * x.step * x.size, x.pitch, buffer + k * kLeast, lanes, 0);
        for (int l = 0; l < lanes; l += N) {
          V w[W];
          for (V& e : w) e = 1;
          for (int k = 0; k + W <= n; k += W)
#pragma GCC unroll 16
            for (int j = 0; j < W; ++j) w[j] = Factors::mul(w[j], fetch<V>(from + (k + j) * next + l));
          for (int k = n / W * W; k < n; ++k) w[k % W] = Careful::mul(w[k % W], fetch<V>(from + k * next + l));
          const V all = product<true>(w);
          for (int j = 0; j < N && l + j < lanes; ++j) to[lane + l + j] = all.lane(j);
        }
      }
    }
  }
  static constexpr int kLeast = 256 / sizeof(E);  // columns abreast: four lines
};

// r_i = dy_i + (what r_(i-1) was, unless an element pointed to i - 1); dx_i = r_i where one points to i: in[1] is 1, else 0.
// What goes on is -0 behind an element that was pointed to: dy_i + -0 is dy_i.
template <class E_> struct ExtremumGrad {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  using Index = int32_t;
  struct State { double sum; int64_t closed; };  // what has not found its element; closed: one was pointed to
  static constexpr int N = V::kWidth, W = kRun, kStep = kRun * kRun, kIn = 2, kPlaces = 1;
  static constexpr bool kIndexed = false, kGradient = true, kTurned = true, kLate[] = {true, true};
  template <bool> struct Carry { V sum; Pair<V> own; };
  BARACUDA_HD static State identity() { return {-0.0, 0}; }
  BARACUDA_HD static State join(State a, State b, bool) { return {b.closed ? b.sum : b.sum + a.sum, a.closed | b.closed}; }
  BARACUDA_HD static E fill(int) { return 0; }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    alignas(64) double sum[N];
    for (int l = 0; l < N; ++l) sum[l] = s[kColumns ? l : 0].sum;
    return {load<N>(sum), {1, -0.0}};
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], {c.own.b.lane(l), c.own.a.lane(l) == 0}, false);
  }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& carry, const Step<ExtremumGrad>&) {
    constexpr int H = kRunPacks<kColumns, V>;
    V *const dy = v[0], *const flag = v[1];
    Carry<kColumns> c = carry;
    Pair<V> runs[H];
    V before[H];
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      V r = V(-0.0), flags = 0;
#pragma GCC unroll 8
      for (int j = 0; j < kRun; ++j) r = where(flag[at(j)] != 0, V(-0.0), r + dy[at(j)]), flags = flags + flag[at(j)];
      runs[h] = {where(flags == 0, V(1), V(0)), r};
    }
    c.own = joined<Gate>(c.own, before_runs<kColumns, Gate>(runs, c.sum, before));
    for (int h = 0; h < H; ++h) {
      auto at = [&](int j) { return run_place<kColumns, V>(j, h); };
      V r = before[h];
#pragma GCC unroll 8
      for (int j = 0; j < kRun; ++j) {
        const V sum = r + dy[at(j)];
        const auto found = flag[at(j)] != 0;
        dy[at(j)] = where(found, sum, V(0)), r = where(found, V(-0.0), sum);
      }
    }
    carry = c;
  }
};

// dx = exp(x) / 2^k S, S = the sum of dy exp(-y) 2^k over what the scan took from here on; 2^k from the piece's least y. A piece
// whose y rises by more than kRange or is beyond kLimit goes element by element in f64. Pieces as in the forward.
template <class E_> struct LogSumExpGrad : LogSumGrad<E_> {
  using Base = LogSumGrad<E_>;
  using E = E_;
  using Forward = LogSumExp<E>;
  using V = Pack<E, kLanes<E>>;
  using Index = int32_t;
  using typename Base::State;
  template <class D> using Sums = typename Base::template Sums<D>;
  using Base::kFar, Base::identity, Base::gain, Base::gain_tame, Base::join, Base::join_tame, Base::step;
  static constexpr int N = V::kWidth, W = kGroup<E>, kStep = 64, kPieces = 4, kIn = 3, kPlaces = -1;
  static constexpr bool kIndexed = false, kGradient = true, kLate[] = {true, false, true};
  template <int L> struct Lanes {
    alignas(64) double sum[L], y[L], k[L];
    int32_t stop[L];
    State get(int l) const { return {sum[l], y[l], int32_t(k[l]), stop[l]}; }
    void put(int l, State s) { sum[l] = s.sum, y[l] = s.y, k[l] = s.k, stop[l] = s.stop; }
    template <class D> BARACUDA_HD Sums<D> load_at(int l) const { return {load<D::kWidth>(sum + l), load<D::kWidth>(y + l), load<D::kWidth>(k + l)}; }
  };
  template <bool kColumns> struct Carry { Lanes<kColumns ? N : 1> block, own; bool stopped; };  // stopped: one of own is
  BARACUDA_HD static E fill(int q) { return q == 1 ? E(-kInf) : E(0); }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    Carry<kColumns> c;
    for (int l = 0; l < (kColumns ? N : 1); ++l) c.block.put(l, s[l]), c.own.put(l, identity());
    c.stopped = false;
    return c;
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], c.own.get(l));
  }
  struct Scaled { alignas(64) E high[N], low[N], k[N], sum[N], in[N]; };
  struct Odd { int piece, lane; State before; };
  template <bool kColumns, class Packs> [[gnu::noinline]] static void scan(Packs& v, Carry<kColumns>& carry, const Step<LogSumExpGrad>& t) {
    constexpr int K = kPacks<LogSumExpGrad, kColumns>, L = kColumns ? N : 1, G = kGroupPacks<LogSumExpGrad, kColumns>, Q = kColumns ? 1 : kPieces;
    using D = Pack<double, kColumns ? kLanes<double> : 1>;
    const int pieces = kColumns ? 1 : (t.steps + kStep - 1) / kStep;
    auto steps_of = [&](int q) { return kColumns || t.steps - q * kStep < kStep ? t.steps - q * kStep : kStep; };
    Scaled of_piece[Q];
    for (int q = 0; q < pieces; ++q) {
      Scaled& p = of_piece[q];
      const E *const first = t.in[2] + q * kStep * t.next[2], *const last = first + (steps_of(q) - 1) * t.next[2];
      for (int l = 0; l < L; ++l) p.high[l] = first[l], p.low[l] = last[l];
      const V k = Forward::power(Forward::template per_lane<kColumns>(p.low)), minus = -k;
      store<E, N>(p.k, k);
      const V k_magic = minus + kMagic<V>, bottom = minus * 0x1.62e42fefa39efp-1 - kVanish<V>;
      V s = 0;
      for (int g = q * K; g < q * K + K; g += G) {
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = v[0][k] * exp_over(-v[2][k], k_magic, bottom);
        prefix<kColumns, W>(v[0] + g, V(0), [](V a, V b) { return a + b; });
        const V own = total<kColumns, W>(v[0] + g);
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = s + v[0][k];
        s = s + own;
      }
      store<E, N>(p.sum, s);
    }
    Odd odd[Q * L];
    int odd_count = 0;
    for (int q = 0; q < pieces; ++q) {
      Scaled& p = of_piece[q];
      for (int h = 0; h < L; h += D::kWidth) {
        const Sums<D> block = carry.block.template load_at<D>(h), own = carry.own.template load_at<D>(h);
        const D high = Forward::template lanes_of<D>(p.high + h), low = Forward::template lanes_of<D>(p.low + h), k = Forward::template lanes_of<D>(p.k + h);
        const Sums<D> now{Forward::template lanes_of<D>(p.sum + h), low, k}, before = join_tame(block, own), after = join_tame(own, now);
        auto near = [](Sums<D> a, D k) { return (a.sum == 0) | (Forward::tame(a.y) & (abs(k - a.k) <= kFar)); };
        const auto fine = Forward::tame(high) & Forward::tame(low) & (high - low <= Forward::kRange) & (low - high <= 1) & near(block, k) & near(own, k) &
                          near(before, k) & ((own.y == kInf) | near(block, own.k));
        Forward::put_lanes(p.in + h, before.sum * gain_tame(before.sum, before.k, k));
        store<double, D::kWidth>(carry.own.sum + h, after.sum), store<double, D::kWidth>(carry.own.y + h, after.y), store<double, D::kWidth>(carry.own.k + h, after.k);
        if (!carry.stopped && all(typename D::Mask(fine))) continue;
        for (int l = 0; l < D::kWidth; ++l) {
          const bool plain = where(fine, D(1), D(0)).lane(l) != 0;
          if (plain && !carry.own.stop[h + l]) continue;
          const State was{own.sum.lane(l), own.y.lane(l), int32_t(own.k.lane(l)), carry.own.stop[h + l]};
          if (careful<kColumns>(p, carry, was, h + l, q, steps_of(q), t, odd[odd_count])) ++odd_count;
        }
      }
    }
    if (t.totals) return;
    for (int q = 0; q < pieces; ++q) {
      const V carried = Forward::template per_lane<kColumns>(of_piece[q].in), p = load<N>(of_piece[q].k);
      const V k_magic = p + kMagic<V>, bottom = p * 0x1.62e42fefa39efp-1 - kVanish<V>;
#pragma GCC unroll 4
      for (int k = q * K; k < q * K + K; ++k) v[0][k] = where(v[1][k] == -kInf, V(0), exp_over(v[1][k], k_magic, bottom) * (carried + v[0][k]));
    }
    for (int o = 0; o < odd_count; ++o) {
      const int l = odd[o].lane, from = kColumns ? 0 : odd[o].piece * kStep;
      State now = odd[o].before;
      for (int i = from; i < t.steps && i < from + kStep; ++i) {
        const E dx = E(step(now, t.in[0][i * t.next[0] + l], t.in[1][i * t.next[1] + l], t.in[2][i * t.next[2] + l]));
        if constexpr (kColumns) v[0][i].set_lane(l, dx);
        else v[0][i / N].set_lane(i % N, dx);
      }
    }
  }
  // A lane of a piece for which the vector's way is not right. True: its elements have to go one by one, from odd.before on.
  template <bool kColumns>
  [[gnu::noinline]] static bool careful(Scaled& p, Carry<kColumns>& carry, State was, int l, int q, int steps, const Step<LogSumExpGrad>& t, Odd& odd) {
    const double high = p.high[l], low = p.low[l];
    const bool plain = Forward::tame(high) && Forward::tame(low) && high - low <= Forward::kRange && low - high <= 1;
    const State before = join(carry.block.get(l), was);
    State own{double(p.sum[l]), low, plain ? int32_t(p.k[l]) : 0, 0};
    p.in[l] = plain ? E(before.sum * gain(before, {1, low, own.k, 0})) : E(0);
    if (!plain) {
      own = identity();
      auto at = [&](int in, int i) { return t.in[in][(q * kStep + i) * t.next[in] + l]; };
      for (int i = 0; i < steps; ++i) step(own, at(0, i), at(1, i), at(2, i));
      odd = {q, l, before};
    }
    own = join(was, own);
    carry.own.put(l, own);
    carry.stopped |= own.stop != 0;
    return !plain;
  }
};

constexpr ScanKernels make() {
  using Run = void (*)(const ScanLanes&);
  using Carry = void (*)(const ScanCarries&);
  const auto extremum = by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<ExtremumGrad<Acc<T>>>; });
  const auto extremum_carries = by_dtype<Carry>(Floating{}, []<class T>() { return &scan_carries<ExtremumGrad<Acc<T>>>; });
  return {{{}, by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<ProductGrad<Acc<T>>>; }), extremum, extremum,
           by_dtype<Run>(Floating{}, []<class T>() { return &scan_lanes<LogSumExpGrad<Acc<T>>>; })},
          {{}, by_dtype<Carry>(Floating{}, []<class T>() { return &scan_carries<ProductGrad<Acc<T>>>; }), extremum_carries, extremum_carries,
           by_dtype<Carry>(Floating{}, []<class T>() { return &scan_carries<LogSumExpGrad<Acc<T>>>; })},
          by_dtype<Run>(Floating{}, []<class T>() { return &ProductGrad<Acc<T>>::products; })};
}

}  // namespace
extern constexpr ScanKernels scan_grad_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
