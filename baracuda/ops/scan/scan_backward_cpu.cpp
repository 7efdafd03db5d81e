// dx of cumprod, cummax, cummin and logcumsumexp: one recurrence each, which runs against the scan. Reads dy and what the
// formula needs, writes dx; cumprod looks at x twice. Rows and columns as in the forward.
#include "baracuda/ops/scan/scan_engine.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace scan;

// a b, and 0 where one is 0 and the other has overflowed.
template <class V> BARACUDA_HD V times(V a, V b) {
  const V p = a * b;
  if (!any(is_nan(p))) return p;
  return where((p == p) | (a != a) | (b != b), p, V(0));
}
BARACUDA_HD double times(double a, double b) { return times(Pack<double, 1>::of(a), Pack<double, 1>::of(b)).v; }

// R_i = dy_i + x_(i-1) R_(i-1), dx_i = P_i R_i. P, the product of what the scan took before i, lies behind i in this direction.
template <class E_> struct ProductGrad {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  using Index = int32_t;
  using Affine = Pair<V>;                  // r to b + a r
  struct State { double q, product; };     // x R of the last element; the product of all
  static constexpr int N = V::kWidth, W = kGroup<double>, kStep = kScanProducts, kIn = 2, kPlaces = -1;
  static constexpr bool kIndexed = false, kGradient = true, kLate[] = {true, false};
  template <bool> struct Carry { V r, x, q_total, product_total; };
  BARACUDA_HD static State identity() { return {0, 1}; }
  BARACUDA_HD static State join(State a, State b, bool) { return {b.q + times(b.product, a.q), a.product * b.product}; }
  BARACUDA_HD static E fill(int q) { return E(q); }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    alignas(64) double q[N];
    for (int l = 0; l < N; ++l) q[l] = s[kColumns ? l : 0].q;
    return {load<N>(q), 1, 0, 1};
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], {times(c.x.lane(l), c.q_total.lane(l)), c.x.lane(l) * c.product_total.lane(l)}, false);
  }
  // A product of factors of f32 stays within f64 in a group.
  BARACUDA_HD static V times_within(V a, V b) {
    if constexpr (sizeof(E) == 4) return a * b;
    else return times(a, b);
  }
  template <bool kColumns, class Packs> [[gnu::noinline]] static void scan(Packs& v, Carry<kColumns>& carry, const Step<ProductGrad>& s) {
    constexpr int K = kPacks<ProductGrad, kColumns>, G = kGroupPacks<ProductGrad, kColumns>;
    V before[K];  // P
    alignas(64) double after_of[N];
    for (int l = 0; l < N; ++l) after_of[l] = kColumns ? s.products[l * s.products_pitch] : *s.products;
    V after = load<N>(after_of);
    for (int g = K - G; g >= 0; g -= G) {
      V w[G], own[G];
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) w[k] = v[1][g + k];
      prefix<kColumns, W, true>(w, V(1), [](V a, V b) { return a * b; });
      const V all = total<kColumns, W, true>(w);
      advanced<kColumns>(w, own);
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) before[g + k] = after * own[k];
      after = after * all;
    }
    Carry<kColumns> c = carry;
    for (int g = 0; g < K; g += G) {
      Affine f[G];
      V x[G];
      delayed<kColumns, W>(v[1] + g, c.x, x);
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) f[k] = {x[k], v[0][g + k]};
      prefix<kColumns, W>(f, Affine{1, 0}, [](Affine a, Affine b) __attribute__((always_inline)) {
        return Affine{a.a * b.a, b.b + times_within(b.a, a.b)};
      });
      const Affine t = total<kColumns, W>(f);
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) v[0][g + k] = times(before[g + k], f[k].b + times_within(f[k].a, c.r));
      c.r = t.b + times_within(t.a, c.r);
      c.q_total = t.b + times(t.a, c.q_total), c.product_total = c.product_total * t.a;
      c.x = kColumns ? v[1][g + G - 1] : spread_lane<N - 1>(v[1][g + G - 1]);
    }
    carry = c;
  }
  // Each element's neighbour behind it, 1 behind the last.
  template <bool kColumns> BARACUDA_HD static void advanced(const V* v, V* to) {
    constexpr int G = kColumns ? W : W / N;
#pragma GCC unroll 16
    for (int k = 0; k < G; ++k) {
      const V next = k + 1 < G ? v[k + 1] : V(1);
      if constexpr (kColumns) to[k] = next;
      else to[k] = pick(v[k], next, [](int l) { return l + 1; });
    }
  }
  // Products of kStep elements, by place modulo W.
  static void products(const ScanLanes& p) {
    const int64_t pieces = (p.n + kStep - 1) / kStep, most = p.end * kScanBlock < p.n ? p.end * kScanBlock : p.n;
    const ScanPort& x = p.in[1];
    alignas(64) E buffer[kStep * kLeast];
    for (int64_t lane = 0; lane < p.lanes; lane += p.columns ? kLeast : 1) {
      const int lanes = !p.columns ? 1 : p.lanes - lane < kLeast ? int(p.lanes - lane) : kLeast;
      for (int64_t i = p.begin * kScanBlock; i < most; i += kStep) {
        const int n = most - i < kStep ? int(most - i) : kStep;
        const char* at = x.at + (lane * x.pitch + i * x.step) * x.size;
        double* const to = p.products + lane * pieces + i / kStep;
        if (!p.columns) {
          const Line<const E> line = line_of<E>(x, at, x.step, n, buffer);
          V w[W / N];
          for (V& e : w) e = 1;
          int k = 0;
          for (; k + W <= n; k += W)
#pragma GCC unroll 16
            for (int j = 0; j < W / N; ++j)
              w[j] = w[j] * (line.next > 0 ? fetch<V>(line.at + k + j * N) : reversed(fetch<V>(line.at - k - j * N - (N - 1))));
          for (int j = 0; k + j < n; ++j) w[j / N].set_lane(j % N, w[j / N].lane(j % N) * double(line.at[(k + j) * line.next]));
          prefix<false, W>(w, V(1), [](V a, V b) { return a * b; });
          *to = w[W / N - 1].lane(N - 1);
          continue;
        }
        const bool direct = x.pitch == 1 && lanes == kLeast && is_element<E>(x.dtype);
        const E* const from = direct ? reinterpret_cast<const E*>(at) : buffer;
        const int64_t next = direct ? x.step : kLeast;
        if (!direct)
          for (int k = 0; k < n; ++k) scan_stage.in[x.dtype](at + k * x.step * x.size, x.pitch, buffer + k * kLeast, lanes, 0);
        for (int l = 0; l < lanes; l += N) {
          V w[W];
          for (V& e : w) e = 1;
          if (direct && l == 0 && i + 2 * kStep <= most)
            for (int k = 0; k < kStep; ++k) __builtin_prefetch(from + (kStep + k) * next);
          for (int k = 0; k + W <= n; k += W)
#pragma GCC unroll 16
            for (int j = 0; j < W; ++j) w[j] = w[j] * fetch<V>(from + (k + j) * next + l);
          for (int k = n / W * W; k < n; ++k) w[k % W] = w[k % W] * fetch<V>(from + k * next + l);
          prefix<true, W>(w, V(1), [](V a, V b) { return a * b; });
          for (int j = 0; j < N && l + j < lanes; ++j) to[(l + j) * pieces] = w[W - 1].lane(j);
        }
      }
    }
  }
  static constexpr int kLeast = 64 / sizeof(E);  // columns abreast: a line
};

// r_i = dy_i + (what r_(i-1) was, unless an element pointed to i - 1); dx_i = r_i where one points to i: in[1] is 1, else 0.
template <class E_> struct ExtremumGrad {
  using E = E_;
  using V = Pack<double, kLanes<double>>;
  using Index = int32_t;
  using Gated = Pair<V>;                       // a: the sum; b: 1 if what came before belongs to it, else 0
  struct State { double sum; int64_t closed; };  // what has not found its element; closed: one was pointed to
  static constexpr int N = V::kWidth, W = kGroup<double>, kStep = W, kIn = 2, kPlaces = 1;
  static constexpr bool kIndexed = false, kGradient = true, kLate[] = {true, true};
  template <bool> struct Carry { V sum, flag, total, open; };
  BARACUDA_HD static State identity() { return {0, 0}; }
  BARACUDA_HD static State join(State a, State b, bool) { return {b.closed ? b.sum : b.sum + a.sum, a.closed | b.closed}; }
  BARACUDA_HD static E fill(int) { return 0; }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    alignas(64) double sum[N];
    for (int l = 0; l < N; ++l) sum[l] = s[kColumns ? l : 0].sum;
    return {load<N>(sum), 0, 0, 1};
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) {
      const bool taken = c.flag.lane(l) != 0;
      s[l] = join(s[l], {taken ? 0 : c.total.lane(l), taken || c.open.lane(l) == 0}, false);
    }
  }
  BARACUDA_HD static Gated join(Gated a, Gated b) { return {where(b.b != 0, b.a + a.a, b.a), a.b * b.b}; }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& c, const Step<ExtremumGrad>&) {
    constexpr int K = kPacks<ExtremumGrad, kColumns>, G = kGroupPacks<ExtremumGrad, kColumns>;
    V flag[K];
    delayed<kColumns, kColumns ? K : kRowStep>(v[1], c.flag, flag);
    for (int k = 0; k < K; k += G) {
      Gated g[G];
#pragma GCC unroll 16
      for (int j = 0; j < G; ++j) g[j] = {v[0][k + j], 1 - flag[k + j]};
      prefix<kColumns, W>(g, Gated{0, 1}, [](Gated a, Gated b) __attribute__((always_inline)) { return join(a, b); });
      const Gated t = total<kColumns, W>(g);
#pragma GCC unroll 16
      for (int j = 0; j < G; ++j) v[0][k + j] = where(v[1][k + j] != 0, where(g[j].b != 0, g[j].a + c.sum, g[j].a), V(0));
      c.sum = where(t.b != 0, t.a + c.sum, t.a), c.total = where(t.b != 0, t.a + c.total, t.a), c.open = c.open * t.b;
    }
    c.flag = kColumns ? v[1][K - 1] : spread_lane<N - 1>(v[1][K - 1]);
  }
};

// dx = exp(x) / 2^k S, S = the sum of dy exp(-y) 2^k over what the scan took from here on; 2^k from the step's least y. A step
// whose y rises by more than kRange or is beyond kLimit goes element by element in f64.
template <class E_> struct LogSumExpGrad {
  using E = E_;
  using Forward = LogSumExp<E>;
  using V = Pack<E, kLanes<E>>;
  using Index = int32_t;
  struct State { double sum; E y; int32_t k : 31, stop : 1; };  // sum of dy exp(base - y_i), base = k ln 2, or y beyond kLimit; stop: all before is cut off
  static constexpr int N = V::kWidth, W = kGroup<E>, kStep = 64, kIn = 3, kPlaces = -1;
  static constexpr bool kIndexed = false, kGradient = true, kLate[] = {true, false, true};
  template <bool kColumns> struct Carry { State block[kColumns ? N : 1], own[kColumns ? N : 1]; };
  BARACUDA_HD static State identity() { return {0, E(kInf), 0, 0}; }
  BARACUDA_HD static E fill(int q) { return q == 1 ? E(-kInf) : E(0); }
  BARACUDA_HD static double base(State s) { return Forward::tame(s.y) ? s.k * 0x1.62e42fefa39efp-1 : double(s.y); }
  static double gain(State from, State to) {  // exp(base(to) - base(from))
    if (from.sum == 0) return 0;
    if (Forward::tame(from.y) && Forward::tame(to.y)) return to.k <= from.k ? Forward::pow2(to.k - from.k) : Forward::exp1((to.k - from.k) * 0x1.62e42fefa39efp-1);
    const double a = base(to), b = base(from);
    return a == b ? 1 : Forward::exp1(a - b);
  }
  static State join(State a, State b, bool = false) {
    if (b.sum == 0 && !b.stop && b.y == E(kInf)) return a;
    if (!b.stop) b.sum += gain(a, b) * a.sum;
    b.stop |= a.stop;
    return b;
  }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    Carry<kColumns> c;
    for (int l = 0; l < (kColumns ? N : 1); ++l) c.block[l] = s[l], c.own[l] = identity();
    return c;
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], c.own[l]);
  }
  // One element on, in f64; dx of it.
  static double step(State& s, double dy, double x, double y) {
    State now{dy, E(y), Forward::power(y), s.stop};
    // Here sums are over exp(y) itself: base() and k meet at the borders of steps only.
    const double from = s.sum == 0 ? y : base(s), to = base(now);
    const double in = s.sum == 0 ? 0 : s.sum * (to == from ? 1 : Forward::exp1(to - from));
    now.sum = dy * (to == y || y != y ? 1 : Forward::exp1(to - y)) + in;
    const double weight = x == to ? 1 : Forward::exp1(x - to);
    const double dx = x == -kInf ? 0 : weight * now.sum;
    if (x == kInf) now.sum = 0, now.stop = 1;
    s = now;
    return dx;
  }
  template <bool kColumns, class Packs> [[gnu::noinline]] static void scan(Packs& v, Carry<kColumns>& carry, const Step<LogSumExpGrad>& t) {
    constexpr int K = kPacks<LogSumExpGrad, kColumns>, L = kColumns ? N : 1, G = kGroupPacks<LogSumExpGrad, kColumns>;
    alignas(64) E k_of[N], in[N], sum_of[N];
    E low[L];
    bool plain[L];
    for (int l = 0; l < L; ++l) {
      const E high = t.in[2][l];
      low[l] = t.in[2][(t.steps - 1) * t.next[2] + l];
      plain[l] = Forward::tame(high) && Forward::tame(low[l]) && high - low[l] <= Forward::kRange && low[l] - high <= 1;
      k_of[l] = E(Forward::power(low[l]));
    }
    const V p = Forward::template per_lane<kColumns>(k_of), minus = -p;
    V s = 0;
    {
      const V k_magic = minus + kMagic<V>, bottom = minus * 0x1.62e42fefa39efp-1 - kVanish<V>;
      for (int g = 0; g < K; g += G) {
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = v[0][k] * exp_over(-v[2][k], k_magic, bottom);
        prefix<kColumns, W>(v[0] + g, V(0), [](V a, V b) { return a + b; });
        const V own = total<kColumns, W>(v[0] + g);
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = s + v[0][k];
        s = s + own;
      }
    }
    store<E, N>(sum_of, s);
    State before[L];
    for (int l = 0; l < L; ++l) {
      before[l] = join(carry.block[l], carry.own[l]);
      State own{double(sum_of[l]), low[l], int32_t(k_of[l]), 0};
      in[l] = 0;
      if (plain[l]) in[l] = E(before[l].sum * gain(before[l], {1, low[l], int32_t(k_of[l]), 0}));
      else {
        own = identity();
        for (int i = 0; i < t.steps; ++i) step(own, t.in[0][i * t.next[0] + l], t.in[1][i * t.next[1] + l], t.in[2][i * t.next[2] + l]);
      }
      carry.own[l] = join(carry.own[l], own);
    }
    if (t.totals) return;
    {
      const V carried = Forward::template per_lane<kColumns>(in), k_magic = p + kMagic<V>, bottom = p * 0x1.62e42fefa39efp-1 - kVanish<V>;
      for (int k = 0; k < K; ++k) v[0][k] = where(v[1][k] == -kInf, V(0), exp_over(v[1][k], k_magic, bottom) * (carried + v[0][k]));
    }
    for (int l = 0; l < L; ++l) {
      if (plain[l]) continue;
      State now = before[l];
      for (int i = 0; i < t.steps; ++i) {
        const E dx = E(step(now, t.in[0][i * t.next[0] + l], t.in[1][i * t.next[1] + l], t.in[2][i * t.next[2] + l]));
        if constexpr (kColumns) v[0][i].set_lane(l, dx);
        else v[0][i / N].set_lane(i % N, dx);
      }
    }
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
