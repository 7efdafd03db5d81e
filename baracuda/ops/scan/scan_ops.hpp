#pragma once
// The ops of a scan, for ISA units. An op works on a tile of kScanSteps x kScanLanes elements E; a lane is a chunk.
//   State                   what a lane's elements amount to; join(earlier, later) is the op, identity() its neutral element
//   totals(tile, steps, t)  t[lane] = the lane's elements in order; kMaps: also changes the tile to what apply() wants
//   apply(tile, steps, c, t)  each element becomes y: c[lane], what came before the chunk, op the chunk's elements so far;
//                           reads t with kMaps, else writes it, as totals() does
// Elements of a lane beyond its count lie behind all others and only spoil totals that nobody reads.
#include <type_traits>
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/scan/scan_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

constexpr int kL = kScanSteps, kW = kScanLanes;

// Original elements of a tile, for the rare lanes that go element by element.
struct Source {
  double (*at)(const void*, int64_t);
  char* const* lane;
  const int* count;
  int64_t step;
  double operator()(int l, int i) const { return at(lane[l], i * step); }
};

struct Add { static constexpr double kIdentity = -0.0, kEmpty = 0; template <class V> BARACUDA_HD static V of(V a, V b) { return a + b; } };
struct Mul { static constexpr double kIdentity = 1, kEmpty = 1; template <class V> BARACUDA_HD static V of(V a, V b) { return a * b; } };

// f32 in memory as f64 and back; g++ takes the plain conversion apart.
BARACUDA_HD Pack<double, kLanes<double>> widen(const float* p) {
#if BARACUDA_VECTOR_BYTES == 64
  return Pack<double, 8>::of(Raw<double, 8>(_mm512_cvtps_pd(_mm256_loadu_ps(p))));
#else
  return convert<double>(load<kLanes<double>>(p));
#endif
}
template <class E, class A, int N> BARACUDA_HD Pack<E, N> narrow(Pack<A, N> v) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<A, double> && std::is_same_v<E, float>) return Pack<E, N>::of(Raw<E, N>(_mm512_cvtpd_ps(__m512d(v.v))));
#endif
  return convert<E>(v);
}

// Sums (-0 is the neutral element: 0 would turn -0 into 0) and products of E, kept in A.
template <class E_, class A, class F> struct Fold {
  using E = E_;
  using State = A;
  using Index = int32_t;
  static constexpr int N = kLanes<A>, kPacks = kW / N;
  static constexpr bool kMaps = false, kIndexed = false;
  using V = Pack<A, N>;
  BARACUDA_HD static State identity() { return A(F::kIdentity); }
  BARACUDA_HD static State join(State a, State b) { return F::of(a, b); }
  BARACUDA_HD static E empty(int64_t) { return E(F::kEmpty); }
  BARACUDA_HD static void move(State&, int64_t) {}
  BARACUDA_HD static V get(const E* p) {
    if constexpr (std::is_same_v<E, A>) return load<N>(p);
    else return widen(p);
  }
  static void totals(E* tile, int steps, State* t, const Source&) {
    V s[kPacks];
    for (int k = 0; k < kPacks; ++k) s[k] = V(F::kIdentity);
    for (int i = 0; i < steps; ++i)
      for (int k = 0; k < kPacks; ++k) s[k] = F::of(s[k], get(tile + i * kW + k * N));
    for (int k = 0; k < kPacks; ++k) store<A, N>(t + k * N, s[k]);
  }
  template <bool kExclusive> static void apply(E* tile, Index*, int steps, const State* before, State* t, bool, const Source&) {
    V s[kPacks], c[kPacks], last[kPacks];
    for (int k = 0; k < kPacks; ++k) s[k] = V(F::kIdentity), last[k] = c[k] = load<N>(before + k * N);
    for (int i = 0; i < steps; ++i)
      for (int k = 0; k < kPacks; ++k) {
        E* p = tile + i * kW + k * N;
        s[k] = F::of(s[k], get(p));
        const V y = F::of(c[k], s[k]);
        store<E, N>(p, narrow<E>(kExclusive ? last[k] : y));
        last[k] = y;
      }
    for (int k = 0; k < kPacks; ++k) store<A, N>(t + k * N, s[k]);
  }
};

// Maxima and minima. An element takes over when it is larger, or NaN and the first one, or, with the last of equals, as
// large or NaN. index: the step within the chunk that y is, -1 for c's.
template <class E_, bool kMax, bool kIndexed_> struct Extremum {
  using E = E_;
  struct State { E v; int64_t index; };  // index < 0: nothing yet
  using V = Pack<E, kLanes<E>>;
  using Index = typename V::Int;
  static constexpr int N = kLanes<E>, kPacks = kW / N;
  static constexpr bool kMaps = false, kIndexed = kIndexed_;
  using Bits = typename V::Bits;
  using Mask = typename V::Mask;
  BARACUDA_HD static State identity() { return {E(0), -1}; }
  template <class P, class M> BARACUDA_HD static M takes(P x, P over, M last) {
    M more;
    if constexpr (kMax) more = x > over;
    else more = x < over;
    if constexpr (std::is_integral_v<E>) return more | (last & (x == over));
    else return more | (last & ((x == over) | is_nan(x))) | (is_nan(x) & (over == over));
  }
  static State join(State a, State b, bool first) {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    return takes(Pack<E, 1>::of(b.v), Pack<E, 1>::of(a.v), !first) ? b : a;
  }
  BARACUDA_HD static E empty(int64_t least) { return std::is_integral_v<E> ? E(least) : E(kMax ? -kInf : kInf); }
  BARACUDA_HD static void move(State& s, int64_t start) { s.index += start; }
  BARACUDA_HD static Mask mask(bool b) {
    if constexpr (N == 1) return b;
    else return Bits{} - typename V::Int(b);
  }
  BARACUDA_HD static void keep(State* t, V s, Bits at) {
    alignas(64) E v[N];
    alignas(64) Index i[N];
    store<E, N>(v, s);
    __builtin_memcpy(i, &at, sizeof at);
    for (int l = 0; l < N; ++l) t[l] = {v[l], i[l]};
  }
  static void totals(E* tile, int steps, State* t, bool first) {
    const Mask last = mask(!first);
    V s[kPacks];
    Bits at[kPacks];
    for (int k = 0; k < kPacks; ++k) s[k] = load<N>(tile + k * N), at[k] = Bits{};
    for (int i = 1; i < steps; ++i)
      for (int k = 0; k < kPacks; ++k) {
        const V x = load<N>(tile + i * kW + k * N);
        const Mask m = takes(x, s[k], last);
        s[k] = where(m, x, s[k]);
        if constexpr (kIndexed) at[k] = m ? Bits{} + Index(i) : at[k];
      }
    for (int k = 0; k < kPacks; ++k) keep(t + k * N, s[k], at[k]);
  }
  template <bool kExclusive> static void apply(E* tile, Index* index, int steps, const State* before, State* t, bool first, const Source&) {
    const Mask last = mask(!first);
    for (int k = 0; k < kPacks; ++k) {  // one pack of lanes after the other: few registers, and the chain of a maximum is short
      alignas(64) E cv[N];
      alignas(64) Index empty[N];
      for (int l = 0; l < N; ++l) cv[l] = before[k * N + l].v, empty[l] = before[k * N + l].index < 0;
      Bits none;
      __builtin_memcpy(&none, empty, sizeof none);
      const V c = load<N>(cv);
      V s = c, y_last = c;
      Bits at{}, at_last = Bits{} - 1;
      for (int i = 0; i < steps; ++i) {
        E* p = tile + i * kW + k * N;
        const V x = load<N>(p);
        const Mask m = i == 0 ? mask(true) : takes(x, s, last);
        s = where(m, x, s);
        if constexpr (kIndexed) at = m ? Bits{} + Index(i) : at;
        const Mask own = takes(s, c, last) | (none != 0);
        const V y = where(own, s, c);
        store<E, N>(p, kExclusive ? y_last : y);
        y_last = y;
        if constexpr (kIndexed) {
          const Bits now = own ? at : Bits{} - 1, out = kExclusive ? at_last : now;
          __builtin_memcpy(index + i * kW + k * N, &out, sizeof out);
          at_last = now;
        }
      }
      keep(t + k * N, s, at);
    }
  }
};

// exp(x) / 2^k for |x| up to 2^20 (2^28 in f64), as exact as exp; what is below `low`, 110 (760) under k ln 2, counts as low and
// vanishes. k_magic is k + kMagic: its bits are k's.
template <class V> inline constexpr double kVanish = V::kF32 ? 110 : 760;
template <class V> BARACUDA_HD V exp_over(V x, V k_magic, V low) {
  x = where(x < low, low, x);
  const V t = fma(x, V(0x1.71547652b82fep0), V(kMagic<V>)), n = t - kMagic<V>;
  const V r = fma(n, V(V::kF32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56), fma(n, V(V::kF32 ? -0x1.62e43p-1 : -0x1.62e42fefa39efp-1), x));
  return scale(1 + expm1_reduced(r), bits(t) - bits(k_magic));
}

// log(sum of exp x). A chunk's elements become exp(x) / 2^k, k = round(max / ln 2); with s their running sum and what came
// before as a sum c over the same power of two, y = log(c + s) + k ln 2. Whole powers of two shift sums exactly and enter log
// beside the exponent that it splits off, so nothing is lost where y is small beside the maximum. This holds while the
// maximum rises by less than kRange over what came first and stays below kLimit; other chunks (infinities and NaN too) go
// element by element in f64.
template <class E_> struct LogSumExp {
  using E = E_;
  using V = Pack<E, kLanes<E>>;
  using D = Pack<double, 1>;
  using Index = int32_t;
  struct State { double sum; E most; int32_t k; };  // sum over 2^k, or over exp(most) where most is beyond kLimit; most = -inf: none
  static constexpr int N = kLanes<E>, kPacks = kW / N;
  static constexpr bool kMaps = true, kIndexed = false;
  static constexpr double kRange = V::kF32 ? 60 : 600, kLimit = V::kF32 ? 0x1p20 : 0x1p28, kLog2E = 0x1.71547652b82fep0;
  BARACUDA_HD static State identity() { return {0, E(-kInf), 0}; }
  BARACUDA_HD static void move(State&, int64_t) {}
  BARACUDA_HD static E empty(int64_t) { return E(-kInf); }
  BARACUDA_HD static bool tame(double m) { return m >= -kLimit && m <= kLimit; }
  BARACUDA_HD static int32_t power(double m) {
    const double p = m * kLog2E;
    return tame(m) ? int32_t(p + (p < 0 ? -0.5 : 0.5)) : 0;
  }
  BARACUDA_HD static double pow2(int32_t k) { return k < -1022 ? 0.0 : __builtin_bit_cast(double, int64_t(k + 1023) << 52); }  // k <= 0
  BARACUDA_HD static double base(State s) { return tame(s.most) ? s.k * 0x1.62e42fefa39efp-1 : double(s.most); }
  BARACUDA_HD static double exp1(double x) { return baracuda::exp(D::of(x)).v; }
  static State of(double x) {
    State s{1, E(x), power(x)};
    if (x == -kInf) s.sum = 0;
    if (tame(x)) s.sum = exp1(fma(D::of(-double(s.k)), D(0x1.abc9e3b39803fp-56), fma(D::of(-double(s.k)), D(0x1.62e42fefa39efp-1), D::of(x))).v);
    return s;
  }
  static State join(State a, State b, bool = false) {
    if (a.most == E(-kInf)) return b;
    if (b.most == E(-kInf)) return a;
    if (tame(a.most) && tame(b.most)) {
      const int32_t k = a.k > b.k ? a.k : b.k;
      return {a.sum * pow2(a.k - k) + b.sum * pow2(b.k - k), a.most > b.most ? a.most : b.most, k};
    }
    if (a.most != a.most || b.most != b.most) return {0, E(kNaN), 0};
    State s{1, a.most > b.most ? a.most : b.most, 0};
    if (s.most == E(kInf)) return s;
    s.k = power(s.most);
    s.sum = a.sum * exp1(base(a) - base(s)) + b.sum * exp1(base(b) - base(s));
    return s;
  }
  template <class P> BARACUDA_HD static P log_scaled(P s, P k) {  // log(s 2^k) of a normal s; log(0) is -inf
    const auto e = exponent(s);
    return where(s == 0, P(-kInf), log_reduced(P::from_bits(bits(s) - (e << P::kMantissa)) - 1, from_int<P>(e) + k));
  }
  static double value(State s) {
    if (!(s.most < E(kInf)) || s.most == E(-kInf)) return double(s.most);
    if (tame(s.most)) return log_scaled(D::of(s.sum), D::of(double(s.k))).v;
    return double(s.most) + baracuda::log(D::of(s.sum)).v;
  }

  static void totals(E* tile, int steps, State* t, const Source& x) {
    alignas(64) E m[kW], power_of[kW], total[kW];
    for (int k = 0; k < kPacks; ++k) {  // NaN is left to the sum; two chains hide the latency
      V most[2] = {V(-kInf), V(-kInf)};
      for (int i = 0; i < steps; ++i) {
        const V e = load<N>(tile + i * kW + k * N);
        most[i & 1] = where(e > most[i & 1], e, most[i & 1]);
      }
      store<E, N>(m + k * N, where(most[0] > most[1], most[0], most[1]));
    }
    for (int l = 0; l < kW; ++l) {
      t[l] = {0, m[l], power(m[l])};
      power_of[l] = E(t[l].k);
    }
    for (int k = 0; k < kPacks; ++k) {
      const V p = load<N>(power_of + k * N), k_magic = p + kMagic<V>, low = p * 0x1.62e42fefa39efp-1 - kVanish<V>;
      V s = 0;
      for (int i = 0; i < steps; ++i) {
        E* at = tile + i * kW + k * N;
        const V e = exp_over(load<N>(at), k_magic, low);
        store<E, N>(at, e);
        s = s + e;
      }
      store<E, N>(total + k * N, s);
    }
    for (int l = 0; l < kW; ++l) {
      t[l].sum = total[l];
      if ((tame(m[l]) || m[l] == E(-kInf)) && total[l] == total[l]) continue;
      t[l] = identity();
      for (int i = 0; i < x.count[l]; ++i) t[l] = join(t[l], of(x(l, i)));
    }
  }
  template <bool kExclusive> static void apply(E* tile, Index*, int steps, const State* before, const State* t, bool, const Source& x) {
    alignas(64) E c[kW], factor[kW], power_of[kW];
    int odd[kW], odd_count = 0;
    for (int l = 0; l < kW; ++l) {
      const State &a = before[l], &b = t[l];
      const bool none = a.most == E(-kInf), nothing = b.most == E(-kInf);
      const double most = none || b.most > a.most ? b.most : a.most;
      double low = a.most;
      if (none)
        for (int i = 0; i < x.count[l] && low == -kInf; ++i) low = x(l, i);
      const bool fine = (none && nothing) || (tame(most) && most - low <= kRange && (none || tame(a.most)) && (nothing || tame(b.most)));
      if (!fine) odd[odd_count++] = l;
      const int32_t k = none ? b.k : nothing || a.k > b.k ? a.k : b.k;
      c[l] = none || !fine ? E(0) : E(a.sum * pow2(a.k - k));
      factor[l] = nothing || !fine ? E(0) : E(pow2(b.k - k));
      power_of[l] = E(k);
    }
    alignas(64) E kept[kL];
    for (int k = 0; k < kPacks; ++k) {
      const V carried = load<N>(c + k * N), f = load<N>(factor + k * N), p = load<N>(power_of + k * N);
      V s = 0;
      for (int i = 0; i < steps; ++i) {
        E* at = tile + i * kW + k * N;
        const V now = s + load<N>(at);
        store<E, N>(at, log_scaled(fma(kExclusive ? s : now, f, carried), p));
        s = now;
      }
    }
    for (int o = 0; o < odd_count; ++o) {
      const int l = odd[o];
      State s = before[l];
      for (int i = 0; i < x.count[l]; ++i) {
        if (kExclusive) kept[i] = E(value(s));
        s = join(s, of(x(l, i)));
        if (!kExclusive) kept[i] = E(value(s));
      }
      for (int i = 0; i < x.count[l]; ++i) tile[i * kW + l] = kept[i];
    }
  }
};

}  // namespace scan
}  // namespace baracuda
