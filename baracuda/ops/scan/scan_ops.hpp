#pragma once
// The ops of scans, for ISA units. An op takes kStep elements of N lanes side by side at a time (columns), or kRowStep of one lane (rows):
//   E, V, W         an element in memory or staged; the packs it computes in; elements of a group
//   State           what a lane's elements amount to; join(earlier, later, first), identity(), value(state)
//   Carry<columns>  what goes on from step to step within a block: enter() from what came before the block, leave() takes the
//                   block's total into it. The total is independent of what came before, so blocks may be taken apart
//   scan<columns>(v, carry, step)  v[0] becomes y. Elements behind the lane's end are fill(). With kTurned, rows come in runs
#include <type_traits>
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/scan/scan_cpu.hpp"
#include "baracuda/ops/scan/scan_runs.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace scan {

// f32 in memory as f64 and back; g++ takes the plain conversion apart.
BARACUDA_HD Pack<double, kLanes<double>> widen(const float* p) {
#if BARACUDA_VECTOR_BYTES == 64
  return Pack<double, 8>::of(Raw<double, 8>(_mm512_cvtps_pd(_mm256_loadu_ps(p))));
#else
  return convert<double>(load<kLanes<double>>(p));
#endif
}
template <class V, class E> BARACUDA_HD V widened(Pack<E, V::kWidth> e) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (!std::is_same_v<E, typename V::Scalar>) return V::of(decltype(V::v)(_mm512_cvtps_pd(__m256(e.v))));
#endif
  return convert<typename V::Scalar>(e);
}
template <class E, class A, int N> BARACUDA_HD Pack<E, N> narrow(Pack<A, N> v) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<A, double> && std::is_same_v<E, float>) return Pack<E, N>::of(Raw<E, N>(_mm512_cvtpd_ps(__m512d(v.v))));
#endif
  return convert<E>(v);
}
template <class V, class E> BARACUDA_HD V fetch(const E* p) {
  if constexpr (std::is_same_v<typename V::Scalar, E>) return load<V::kWidth>(p);
  else return widen(p);
}

// What a step is told besides the packs.
template <class Op> struct Step {
  const typename Op::E* in[3];  // element i of lane l is in[q][i * next[q] + l]
  int64_t next[3];
  int steps, start;             // elements that are there; the first one's place in the block
  bool first, totals, two;      // ties; y is not wanted; a second output is
  typename Op::Index* at;       // where the steps of extrema go, -1 for what came before the block
  int64_t at_next;
  const double* products;       // of cumprod's gradient, of each lane
  int lanes;                    // of a column's pack that are there
};
// Elements of a row's piece, and of the pieces that an op takes at a time; packs of a piece; packs of a group.
inline constexpr int kRowStep = 64;
template <class Op> constexpr int row_elements() {
  if constexpr (requires { Op::kPieces; }) return kRowStep * Op::kPieces;
  else return kRowStep;
}
template <class Op, bool kColumns> inline constexpr int kPacks = kColumns ? Op::kStep : kRowStep / Op::V::kWidth;
template <class Op, bool kColumns> inline constexpr int kGroupPacks = kColumns ? Op::W : Op::W / Op::V::kWidth;

// b in the other lanes.
template <uint32_t kLanes, class V> BARACUDA_HD V only(V b, V joined) {
  constexpr int N = V::kWidth;
  return pick(b, joined, [](int l) { return kLanes >> l & 1 ? N + l : l; });
}
struct Add {
  static constexpr double kIdentity = -0.0, kEmpty = 0;
  template <class V> BARACUDA_HD static V of(V a, V b) { return a + b; }
  template <class V> BARACUDA_HD V operator()(V a, V b) const { return a + b; }
  template <uint32_t kLanes, class V> BARACUDA_HD V in(V a, V b) const {
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (std::is_same_v<V, Pack<float, 16>>) return V::of(Raw<float, 16>(_mm512_mask_add_ps(__m512(b.v), kLanes, __m512(a.v), __m512(b.v))));
    if constexpr (std::is_same_v<V, Pack<double, 8>>) return V::of(Raw<double, 8>(_mm512_mask_add_pd(__m512d(b.v), kLanes, __m512d(a.v), __m512d(b.v))));
#endif
    return only<kLanes>(b, a + b);
  }
};
struct Mul {
  static constexpr double kIdentity = 1, kEmpty = 1;
  template <class V> BARACUDA_HD static V of(V a, V b) { return a * b; }
  template <class V> BARACUDA_HD V operator()(V a, V b) const { return a * b; }
  template <uint32_t kLanes, class V> BARACUDA_HD V in(V a, V b) const {
#if BARACUDA_VECTOR_BYTES == 64
    if constexpr (std::is_same_v<V, Pack<double, 8>>) return V::of(Raw<double, 8>(_mm512_mask_mul_pd(__m512d(b.v), kLanes, __m512d(a.v), __m512d(b.v))));
#endif
    return only<kLanes>(b, a * b);
  }
};

// Two groups of a row, its even elements in v[0] and its odd ones in v[1]. Those that come second in their pair take the sums of pairs and hand them on to
// both, which is the network's way. c, what came before, becomes what goes on.
template <class V> struct TwoGroups { V first, second; };  // their totals
template <bool kDown, class V, class J> BARACUDA_HD TwoGroups<V> by_turns(V* v, V& c, const J& join) {
  constexpr int N = V::kWidth;
  constexpr uint32_t kUpper = ((1u << N / 2) - 1) << N / 2, kSecond = kDown ? kUpper >> N / 2 : kUpper;
  V &one = v[kDown], &two = v[!kDown];
  two = join(one, two);
  auto round = [&]<int d>() __attribute__((always_inline)) {
    const V from = source<d, kDown>(two);
    one = join.template in<kTakers<d, kDown, N>>(from, one), two = join.template in<kTakers<d, kDown, N>>(from, two);
  };
  round.template operator()<1>(), round.template operator()<2>(), round.template operator()<4>();
  const TwoGroups<V> t{spread_lane<kDown ? N / 2 : N / 2 - 1>(two), spread_lane<kDown ? 0 : N - 1>(two)};
  const V then = join(c, t.first), before = only<kSecond>(c, then);
  v[0] = join(before, v[0]), v[1] = join(before, v[1]);
  c = join(then, t.second);
  return t;
}

// Sums (-0 is the neutral element: 0 would turn -0 into 0) and products of E, kept in A.
template <class E_, class A, class F> struct Fold {
  using E = E_;
  using State = A;
  using Index = int32_t;
  using V = Pack<A, kLanes<A>>;
  static constexpr int N = V::kWidth, W = kGroup<A>, kStep = W, kIn = 1, kPlaces = -1;
  static constexpr bool kIndexed = false, kGradient = false, kIsFold = true;
  using Join = F;
  template <bool> struct Carry { V c, total; };
  BARACUDA_HD static State identity() { return A(F::kIdentity); }
  BARACUDA_HD static State join(State a, State b, bool) { return F::of(a, b); }
  BARACUDA_HD static E value(State s) { return E(s); }
  BARACUDA_HD static E empty(int64_t) { return E(F::kEmpty); }
  BARACUDA_HD static E fill(int) { return E(F::kIdentity); }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    if constexpr (kColumns) return {load<N>(s), F::kIdentity};
    else return {spread<V>(*s), F::kIdentity};
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = F::of(s[l], c.total.lane(l));
  }
  // kPacks packs, whole groups; kDown: from the last element of the last pack to the first.
  template <bool kColumns, int kPacks, bool kDown = false> BARACUDA_HD static void take(V* v, Carry<kColumns>& c, bool) {
    constexpr int G = kGroupPacks<Fold, kColumns>;
#pragma GCC unroll 8
    for (int i = 0; i < kPacks; i += G) {
      V* const g = v + (kDown ? kPacks - G - i : i);
      prefix<kColumns, W, kDown>(g, V(F::kIdentity), F{});
      const V t = total<kColumns, W, kDown>(g);
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) g[k] = F::of(c.c, g[k]);
      c.c = F::of(c.c, t), c.total = F::of(c.total, t);
    }
  }
  // The total alone, of a column's group.
  template <int kPacks> BARACUDA_HD static void count(V* v, Carry<true>& c, bool) {
#pragma GCC unroll 4
    for (int d = 1; d < kPacks; d *= 2)
#pragma GCC unroll 16
      for (int k = 0; k < kPacks; k += 2 * d) v[k] = F::of(v[k], v[k + d]);
    c.total = F::of(c.total, v[0]);
  }
  template <int kPacks, bool kDown> BARACUDA_HD static bool take_by_turns(V* v, Carry<false>& c, bool) {
#pragma GCC unroll 4
    for (int i = 0; i < kPacks; i += 2) {
      const TwoGroups<V> t = by_turns<kDown>(v + (kDown ? kPacks - 2 - i : i), c.c, F{});
      c.total = F::of(F::of(c.total, t.first), t.second);
    }
    return true;
  }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& c, const Step<Fold>& s) {
    take<kColumns, kPacks<Fold, kColumns>>(v[0], c, s.first);
  }
};

// Maxima and minima. An element takes over when it is larger, or NaN and the first one, or, with the last of equals, as large
// or NaN. Which element y is, is the last place up to here where an element took over.
template <class E_, bool kMax, bool kIndexed_> struct Extremum {
  using E = E_;
  using V = Pack<E, kLanes<E>>;
  using Index = typename V::Int;
  using I = Pack<Index, V::kWidth>;
  using Mask = typename V::Mask;
  struct State { E v; int64_t index; };  // index < 0: nothing yet
  static constexpr int N = V::kWidth, W = kGroup<E>, kStep = W, kIn = 1, kPlaces = -1;
  static constexpr bool kIndexed = kIndexed_, kGradient = false, kWhole = std::is_integral_v<E>, kIsFold = false;
  template <bool> struct Carry { V c; I at, nothing; };  // nothing: -1 where no element came before the block
  BARACUDA_HD static E empty(int64_t least) { return kWhole ? E(least) : E(kMax ? -kInf : kInf); }
  BARACUDA_HD static E fill(int) {
    if constexpr (!kWhole) return E(kMax ? -kInf : kInf);
    else {
      constexpr E top = std::is_signed_v<E> ? E(~uint64_t(0) >> 1) : E(~uint64_t(0));
      return kMax ? E(~top) : top;
    }
  }
  BARACUDA_HD static State identity() { return {fill(0), -1}; }
  BARACUDA_HD static E value(State s) { return s.v; }
  template <class P, class M> BARACUDA_HD static M takes(P x, P over, M last) {
    M more;
    if constexpr (kMax) more = x > over;
    else more = x < over;
    if constexpr (kWhole) return more | (last & (x == over));
    else return more | (last & ((x == over) | is_nan(x))) | (is_nan(x) & (over == over));
  }
  static State join(State a, State b, bool first) {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    return takes(Pack<E, 1>::of(b.v), Pack<E, 1>::of(a.v), !first) ? b : a;
  }
  BARACUDA_HD static Mask mask(bool b) {
    if constexpr (N == 1) return b;
    else return typename V::Bits{} - Index(b);
  }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    alignas(64) E v[N];
    alignas(64) Index nothing[N];
    for (int l = 0; l < N; ++l) v[l] = s[kColumns ? l : 0].v, nothing[l] = -Index(s[kColumns ? l : 0].index < 0);
    Carry<kColumns> c{load<N>(v), spread<I>(-1), I(0)};
    __builtin_memcpy(&c.nothing.v, nothing, sizeof c.nothing.v);
    return c;
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t start) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) {  // without indices, any place will do
      const int64_t at = kIndexed ? c.at.lane(l) : 0;
      s[l] = {c.c.lane(l), at < 0 ? s[l].index : start + at};
    }
  }
  BARACUDA_HD static V over(V a, V b) {  // the later of equal ones; NaN counts for nothing
    if constexpr (!kWhole) return kMax ? larger(a, b) : smaller(a, b);
    else if constexpr (kMax) return where(a > b, a, b);
    else return where(a < b, a, b);
  }
  struct Over {
    BARACUDA_HD V operator()(V a, V b) const { return over(a, b); }
    template <uint32_t kLanes> BARACUDA_HD V in(V a, V b) const {
#if BARACUDA_VECTOR_BYTES == 64
      if constexpr (std::is_same_v<V, Pack<float, 16>>) {
        const __m512 x = __m512(a.v), y = __m512(b.v);
        return V::of(Raw<float, 16>(kMax ? _mm512_mask_max_ps(y, kLanes, x, y) : _mm512_mask_min_ps(y, kLanes, x, y)));
      }
#endif
      return only<kLanes>(b, over(a, b));
    }
  };
  template <bool kColumns, int kPacks, bool kDown = false, class J> BARACUDA_HD static void fold(V* v, V& c, const J& join) {
    constexpr int G = kGroupPacks<Extremum, kColumns>;
#pragma GCC unroll 8
    for (int i = 0; i < kPacks; i += G) {
      V* const g = v + (kDown ? kPacks - G - i : i);
      prefix<kColumns, W, kDown>(g, spread<V>(fill(0)), join);
      const V t = total<kColumns, W, kDown>(g);
#pragma GCC unroll 16
      for (int k = 0; k < G; ++k) g[k] = join(c, g[k]);
      c = join(c, t);
    }
  }
  template <bool kColumns, int kPacks, bool kDown = false> [[gnu::noinline]] static void fold_careful(V* v, V& c, bool first) {
    const Mask last = mask(!first);
    fold<kColumns, kPacks, kDown>(v, c, [&](V a, V b) __attribute__((always_inline)) { return where(takes(b, a, last), b, a); });
  }
  template <int kPacks> BARACUDA_HD static bool is_careful(const V* v, V c, bool first) {
    if constexpr (kWhole) return false;
    else {
      V sum = c;  // NaN where one of them is, and where infinities meet, which only takes longer
#pragma GCC unroll 16
      for (int k = 0; k < kPacks; ++k) sum = sum + v[k];
      return first || any(is_nan(sum));
    }
  }
  template <bool kColumns, int kPacks, bool kDown = false> BARACUDA_HD static void take(V* v, Carry<kColumns>& c, bool first) {
    if (is_careful<kPacks>(v, c.c, first)) fold_careful<kColumns, kPacks, kDown>(v, c.c, first);
    else fold<kColumns, kPacks, kDown>(v, c.c, Over{});
  }
  template <int kPacks> BARACUDA_HD static void count(V* v, Carry<true>& c, bool first) {
    if (is_careful<kPacks>(v, c.c, first)) return fold_careful<true, kPacks>(v, c.c, first);
#pragma GCC unroll 16
    for (int k = 0; k < kPacks; ++k) c.c = over(c.c, v[k]);
  }
  template <int kPacks, bool kDown> BARACUDA_HD static bool take_by_turns(V* v, Carry<false>& c, bool first) {
    if (is_careful<kPacks>(v, c.c, first)) return false;
#pragma GCC unroll 4
    for (int i = 0; i < kPacks; i += 2) by_turns<kDown>(v + (kDown ? kPacks - 2 - i : i), c.c, Over{});
    return true;
  }
  template <bool kColumns, class Packs> BARACUDA_HD static void scan(Packs& v, Carry<kColumns>& c, const Step<Extremum>& s) {
    constexpr int K = kPacks<Extremum, kColumns>, G = kGroupPacks<Extremum, kColumns>;
    V x[K];
    const V before = c.c;
    if constexpr (kIndexed)
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k) x[k] = v[0][k];
    if constexpr (kIndexed) {  // with a neutral element beside them registers are shifted in fewer operations than with themselves
      if (is_careful<K>(v[0], c.c, s.first)) fold_careful<kColumns, K>(v[0], c.c, s.first);
      else fold<kColumns, K>(v[0], c.c, [](V a, V b) __attribute__((always_inline)) { return over(a, b); });
    } else take<kColumns, K>(v[0], c, s.first);
    if constexpr (kIndexed) {
      V earlier[K];
      I at[K];
      if (s.first) delayed<kColumns, kColumns ? K : kRowStep>(v[0], before, earlier);
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k) {
        Mask took;
        if (s.first) {
          I none = k ? I(0) : c.nothing;
          if constexpr (!kColumns && N > 1)
            if (k == 0) none = pick(none, I(0), [](int l) { return l ? N + l : 0; });
          took = takes(x[k], earlier[k], mask(false)) | (none.v != 0);
        } else if constexpr (kWhole) took = x[k] == v[0][k];
        else took = (x[k] == v[0][k]) | is_nan(x[k]);
        at[k] = where(took, place<kColumns>(s.start, k), I(-1));
      }
      if (s.first) c.nothing = I(0);
      auto further = [](I a, I b) __attribute__((always_inline)) { return where(a > b, a, b); };
#pragma GCC unroll 8
      for (int g = 0; g < K; g += G) {
        prefix<kColumns, W>(at + g, I(-1), further);
        const I t = total<kColumns, W>(at + g);
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) {
          const I out = further(c.at, at[k]);
          __builtin_memcpy(s.at + (kColumns ? k * s.at_next : k * N), &out.v, sizeof out.v);
        }
        c.at = further(c.at, t);
      }
    }
  }
  template <bool kColumns> BARACUDA_HD static I place(int start, int k) {
    I at = spread<I>(Index(start + (kColumns ? k : k * N)));
    if constexpr (!kColumns && N > 1) {
      I lane;
      for (int l = 0; l < N; ++l) lane.set_lane(l, Index(l));
      at = at + lane;
    }
    return at;
  }
};

// log(sum of exp x). A piece of 64 elements becomes exp(x) / 2^k, k = round(max / ln 2); with s their running sum and what came
// before as a sum c over the same power of two, y = log(c + s) + k ln 2. Whole powers of two shift sums exactly and enter log
// beside the exponent that it splits off, so nothing is lost where y is small beside the maximum. This holds while the
// maximum rises by less than kRange over what came first and stays below kLimit; other pieces (infinities and NaN too) go
// element by element in f64. A row takes kPieces at a time, each stage for all of them, so that none waits for the one before.
template <class E_> struct LogSumExp : LogSum<E_> {
  using Base = LogSum<E_>;
  using E = E_;
  using V = Pack<E, kLanes<E>>;
  using typename Base::One, typename Base::State;
  template <class D> using Sums = typename Base::template Sums<D>;
  using Base::kRange, Base::kNone, Base::identity, Base::tame, Base::power, Base::shift, Base::of, Base::join, Base::join_tame, Base::log_scaled, Base::precise;
  using Index = int32_t;
  static constexpr int N = V::kWidth, kStep = 64, kPieces = 4, kIn = 1, kPlaces = -1, W = kGroup<E>;
  static constexpr bool kIndexed = false, kGradient = false;
  template <int L> struct Lanes {
    alignas(64) double sum[L], most[L], k[L];
    State get(int l) const { return {sum[l], most[l], k[l]}; }
    void put(int l, State s) { sum[l] = s.sum, most[l] = s.most, k[l] = s.k; }
    template <class D> BARACUDA_HD Sums<D> load_at(int l) const { return {load<D::kWidth>(sum + l), load<D::kWidth>(most + l), load<D::kWidth>(k + l)}; }
  };
  template <bool kColumns> struct Carry { Lanes<kColumns ? N : 1> block, own; };
  BARACUDA_HD static E empty(int64_t) { return E(-kInf); }
  BARACUDA_HD static E fill(int) { return E(-kInf); }
  BARACUDA_HD static E value(State s) { return E(precise(s)); }
  template <bool kColumns> BARACUDA_HD static Carry<kColumns> enter(const State* s) {
    Carry<kColumns> c;
    for (int l = 0; l < (kColumns ? N : 1); ++l) c.block.put(l, s[l]), c.own.put(l, identity());
    return c;
  }
  template <bool kColumns> BARACUDA_HD static void leave(const Carry<kColumns>& c, State* s, int64_t) {
    for (int l = 0; l < (kColumns ? N : 1); ++l) s[l] = join(s[l], c.own.get(l));
  }
  template <int d> BARACUDA_HD static V most_of_lanes(V v) {  // in every lane
    if constexpr (d == 0) return v;
    else {
      const V other = pick(v, v, [](int l) { return l ^ d; });
      return most_of_lanes<d / 2>(where(other > v, other, v));
    }
  }
  // Each lane's number, for packs: a row's in all lanes.
  template <bool kColumns> BARACUDA_HD static V per_lane(const E* p) {
    if constexpr (kColumns) return load<N>(p);
    else return spread<V>(*p);
  }
  // DW numbers of E as f64, and back.
  template <class D> BARACUDA_HD static D lanes_of(const E* p) {
    if constexpr (D::kWidth == 1) return D::of(double(*p));
    else return fetch<D>(p);
  }
  template <class D> BARACUDA_HD static void put_lanes(E* p, D d) {
    if constexpr (D::kWidth == 1) *p = E(d.v);
    else store<E, D::kWidth>(p, narrow<E>(d));
  }
  // What the logarithm of a piece is made of, per lane: y = log(c + f s) + k ln 2.
  struct Scaled { alignas(64) E most[N], sum[N], k[N], c[N], f[N]; };
  struct Odd { int piece, lane; State before; };
  // A lane of a piece for which the vector's way is not right. True: its elements have to go one by one.
  template <bool kColumns> [[gnu::noinline]] static bool careful(Scaled& p, Carry<kColumns>& carry, const State& own, int l, const E* x, int64_t next, int steps, State& before) {
    State t{double(p.sum[l]), double(p.most[l]), double(p.k[l])};
    if (!((tame(t.most) || t.most == -kInf) && t.sum == t.sum)) {
      t = identity();
      for (int i = 0; i < steps; ++i) t = join(t, of(x[i * next + l]));
    }
    before = join(carry.block.get(l), own);
    carry.own.put(l, join(own, t));
    const bool none = before.most == -kInf, nothing = t.most == -kInf;
    const double highest = none || t.most > before.most ? t.most : before.most;
    double low = before.most;
    for (int i = 0; none && i < steps && low == -kInf; ++i) low = x[i * next + l];
    const bool fine = (none && nothing) || (tame(highest) && highest - low <= kRange && (none || tame(before.most)) && (nothing || tame(t.most)));
    const One k = One::of(before.k > t.k ? before.k : t.k);
    p.c[l] = fine ? E(before.sum * shift(One::of(before.k) - k).v) : E(0);
    p.f[l] = fine ? E(shift(One::of(t.k) - k).v) : E(0);
    p.k[l] = E(k.v);
    return !fine;
  }
  template <bool kColumns, class Packs> [[gnu::noinline]] static void scan(Packs& v, Carry<kColumns>& carry, const Step<LogSumExp>& x) {
    constexpr int K = kPacks<LogSumExp, kColumns>, L = kColumns ? N : 1, G = kGroupPacks<LogSumExp, kColumns>, Q = kColumns ? 1 : kPieces;
    using D = Pack<double, kColumns ? kLanes<double> : 1>;
    const int pieces = kColumns ? 1 : (x.steps + kStep - 1) / kStep;
    Scaled of_piece[Q];
    for (int q = 0; q < pieces; ++q) {
      V most[2] = {V(-kInf), V(-kInf)};  // NaN is left to the sum; two chains hide the latency
      for (int k = 0; k < K; ++k) most[k & 1] = where(v[0][q * K + k] > most[k & 1], v[0][q * K + k], most[k & 1]);
      most[0] = where(most[0] > most[1], most[0], most[1]);
      if constexpr (!kColumns) most[0] = most_of_lanes<N / 2>(most[0]);
      store<E, N>(of_piece[q].most, most[0]), store<E, N>(of_piece[q].k, power(most[0]));
    }
    for (int q = 0; q < pieces; ++q) {
      const V p = load<N>(of_piece[q].k), k_magic = p + kMagic<V>, low = p * 0x1.62e42fefa39efp-1 - kBelow<V>;
      V s = 0;
      for (int g = q * K; g < q * K + K; g += G) {
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = exp_near(v[0][k], k_magic, low);
        prefix<kColumns, W>(v[0] + g, V(0), [](V a, V b) { return a + b; });
        const V own = total<kColumns, W>(v[0] + g);
#pragma GCC unroll 16
        for (int k = g; k < g + G; ++k) v[0][k] = s + v[0][k];
        s = s + own;
      }
      store<E, N>(of_piece[q].sum, s);
    }
    Odd odd[Q * L];
    int odd_count = 0;
    for (int q = 0; q < pieces; ++q) {
      Scaled& p = of_piece[q];
      const int steps = kColumns ? x.steps : x.steps - q * kStep < kStep ? x.steps - q * kStep : kStep;
      for (int h = 0; h < L; h += D::kWidth) {
        const Sums<D> block = carry.block.template load_at<D>(h), own = carry.own.template load_at<D>(h);
        const Sums<D> t{lanes_of<D>(p.sum + h), lanes_of<D>(p.most + h), lanes_of<D>(p.k + h)}, before = join_tame(block, own), now = join_tame(own, t);
        auto usable = [](D most) { return tame(where(most == -kInf, D(0), most)); };
        // Where nothing came before, it rises from the first element; should that be -inf, the difference is infinite, or no number.
        const D first = lanes_of<D>(x.in[0] + q * kStep * x.next[0] + h), low = where(before.most == -kInf, first, before.most);
        const auto fine = usable(block.most) & usable(own.most) & usable(t.most) & (t.sum == t.sum) & (larger(t.most, before.most) - low <= kRange);
        const D k = larger(before.k, t.k);
        put_lanes(p.c + h, before.sum * shift(before.k - k)), put_lanes(p.f + h, shift(t.k - k));
        store<double, D::kWidth>(carry.own.sum + h, now.sum), store<double, D::kWidth>(carry.own.most + h, now.most), store<double, D::kWidth>(carry.own.k + h, now.k);
        if (all(typename D::Mask(fine))) {
          put_lanes(p.k + h, k);
          continue;
        }
        for (int l = 0; l < D::kWidth; ++l) {
          if (where(fine, D(1), D(0)).lane(l) != 0) p.k[h + l] = E(k.lane(l));
          else if (State s; careful<kColumns>(p, carry, {own.sum.lane(l), own.most.lane(l), own.k.lane(l)}, h + l, x.in[0] + q * kStep * x.next[0], x.next[0], steps, s))
            odd[odd_count++] = {q, h + l, s};
        }
      }
    }
    if (x.totals) return;
    for (int q = 0; q < pieces; ++q) {
      const V carried = per_lane<kColumns>(of_piece[q].c), f = per_lane<kColumns>(of_piece[q].f), p = per_lane<kColumns>(of_piece[q].k);
#pragma GCC unroll 4
      for (int k = q * K; k < q * K + K; ++k) v[0][k] = log_scaled(fma(v[0][k], f, carried), p);
    }
    for (int o = 0; o < odd_count; ++o) {
      const int l = odd[o].lane, from = kColumns ? 0 : odd[o].piece * kStep;
      State s = odd[o].before;
      for (int i = from; i < x.steps && i < from + kStep; ++i) {
        s = join(s, of(x.in[0][i * x.next[0] + l]));
        if constexpr (kColumns) v[0][i].set_lane(l, value(s));
        else v[0][i / N].set_lane(i % N, value(s));
      }
    }
  }
};

}  // namespace scan
}  // namespace baracuda
