#pragma once
// One chunk of a sum-like reduction, along rows or down columns, in the tree of host/row_sum.hpp: element i is in lane i % 64, a
// lane takes its elements in order, lanes are folded l + (l + 32), then 16 ... 1. The tree depends on m alone, so rows, columns and
// every vector width give the same bits. The kinds are in reduce_kinds.hpp.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/host/lane_fold.hpp"
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/math/load_double.hpp"
#include "baracuda/ops/reduce/reduce_cpu.hpp"
#include "baracuda/ops/reduce/reduce_kinds.hpp"

#if BARACUDA_VECTOR_BYTES && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REDUCE_UNROLL _Pragma("GCC unroll 16")
#else
#define REDUCE_UNROLL  // one lane: memory is as good, and compiles faster
#endif

namespace baracuda::inline BARACUDA_ISA {
using namespace reduce_kinds;

template <class A, int N, class T> BARACUDA_HD Pack<A, N> lanes_of(const T* p) {
  if constexpr (std::is_same_v<A, double>) return load_double<N>(p);
  else return convert<A>(load<N>(p));
}
template <class A, int N, class T> BARACUDA_HD Pack<A, N> lanes_of(const T* p, int count, double fill) { return convert<A>(load_tail<N>(p, count, fill)); }
template <class V> BARACUDA_HD V spread(typename V::Scalar a) { return V::of(a - Raw<typename V::Scalar, V::kWidth>{}); }

template <int W, class F, class A, int N> BARACUDA_HD A fold_register(Pack<A, N> a) {
  if constexpr (W == 0) return a.lane(0);
  else return fold_register<W / 2, F>(F::of(a, Pack<A, N>::of(moved_down<W, A, N>(a.v, std::make_integer_sequence<int, N>{}))));
}
// State `state` of `packs` packs, in one.
template <class F, int packs, int S, class A, int N> BARACUDA_HD Pack<A, N> fold_packs(const Pack<A, N> (*s)[S], int state) {
  Pack<A, N> t[packs];
  REDUCE_UNROLL
  for (int k = 0; k < packs; ++k) t[k] = s[k][state];
  REDUCE_UNROLL
  for (int w = packs / 2; w; w /= 2)
    REDUCE_UNROLL
    for (int k = 0; k < w; ++k) t[k] = F::of(t[k], t[k + w]);
  return t[0];
}
template <class F, int packs, int S, class A, int N> BARACUDA_HD A fold_state(const Pack<A, N> (*s)[S], int state) {
  return fold_register<N / 2, F>(fold_packs<F, packs, S>(s, state));
}

// Up to G rows that are visited together, and those that are asked for meanwhile: rows some KiB long and far apart are not what the processor
// fetches ahead by itself.
template <class T, int G> struct RowsAt {
  const T *row[G], *next[G];
  int count = 0, more = 0;
  void add(const T* r) { row[count++] = r; }
  void ask(const T* r) { next[more++] = r; }
};
// Calls f(row, j) for packs of columns [j, j + N) of `g` rows; where fewer than N are left, `row` points to copies of them.
template <int N, int G, class T, class Count, class F> BARACUDA_HD void each_pack(const RowsAt<T, G>& rows, Count g, int width, F f) {
  int j = 0;
  const T* at[G];
  for (; j + N <= width; j += N) {
    if (j * int(sizeof(T)) % 64 == 0)
      for (int r = 0; r < rows.more; ++r) __builtin_prefetch(rows.next[r] + j, 0, 2);
    const int count = g;
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) at[r] = rows.row[r] + j;
    f(at, j);
  }
  if (j == width) return;
  T copy[G][N] = {};
  for (int r = 0; r < g; ++r) {
    for (int i = 0; i < width - j; ++i) copy[r][i] = rows.row[r][j + i];
    at[r] = copy[r];
  }
  f(at, j);
}

// A row's states, each in one register whose lanes are still to be folded.
template <class T, class K> struct RowOf {
  using A = typename K::A;
  static constexpr int N = kLanes<A>, packs = kSumLanes / N, S = K::kStates;
  using V = Pack<A, N>;
  template <int i> using Fold = typename K::template Fold<i>;
  const T* const x;
  const int m, full = m / kSumLanes, rest = m % kSumLanes;
  alignas(64) T tail[kSumLanes];

  BARACUDA_HD RowOf(const T* row, int length) : x(row), m(length) {}
  BARACUDA_HD void fill_tail(double pad) {
    const T e = from_double<T>(pad);
    for (int l = 0; l < kSumLanes; ++l) tail[l] = e;
    __builtin_memcpy(tail, x + int64_t(full) * kSumLanes, size_t(rest) * sizeof(T));
  }
  BARACUDA_HD V head() {  // of the sum of the first elements
    V s[packs][1];
    if (full == 0) fill_tail(-0.0);
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) s[k][0] = lanes_of<A, N>((full ? x : tail) + k * N);
    return fold_packs<Plus, packs, 1>(s, 0);
  }
  BARACUDA_HD void states(double shift, bool magnitude, V (&total)[S]) {
    V s[packs][S];
    if (rest) fill_tail(K::pad(shift));
    const Given<V> given(spread<V>(A(shift)), magnitude);
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k)
      for (int i = 0; i < S; ++i) s[k][i] = V(K::kStart[i]);
    auto take = [&](const T* from) __attribute__((always_inline)) {
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) K::step(s[k], lanes_of<A, N>(from + k * N), given);
    };
    for (int r = 0; r < full; ++r) {
      fetch_ahead<kSumLanes * int(sizeof(T))>(x + int64_t(r) * kSumLanes);
      take(x + int64_t(r) * kSumLanes);
      if constexpr (K::kTidy > 0)
        if (r % K::kTidy == K::kTidy - 1) {
          REDUCE_UNROLL
          for (int k = 0; k < packs; ++k) K::tidy(s[k]);
        }
    }
    if (rest) take(tail);
    if constexpr (K::kTidy > 0) {
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) K::settle(s[k]);
    }
    total[0] = fold_packs<Fold<0>, packs, S>(s, 0);
    if constexpr (S == 2) total[1] = fold_packs<Fold<1>, packs, S>(s, 1);
  }
  BARACUDA_HD void finish(const A* total, double shift, ReduceState& out) const {
    K::finish(total, m, shift, [&](int i) { return to_double(x[i]); }, out);
  }
};
template <class T, class K> BARACUDA_HD void reduce_row(const T* x, int m, bool magnitude, ReduceState& out) {
  using Row = RowOf<T, K>;
  constexpr int N = Row::N;
  Row row(x, m);
  double shift = 0;
  if constexpr (K::kHead) shift = double(origin<T>(fold_register<N / 2, Plus>(row.head()), m));
  typename Row::V s[Row::S];
  row.states(shift, magnitude, s);
  typename Row::A total[Row::S];
  total[0] = fold_register<N / 2, typename Row::template Fold<0>>(s[0]);
  if constexpr (Row::S == 2) total[1] = fold_register<N / 2, typename Row::template Fold<1>>(s[1]);
  row.finish(total, shift, out);
}
// The folds of short rows with a head take as long as the rows: those of as many rows as a register has lanes share their operations. (One fold a
// row hides behind the next row: sums, squares and products gained nothing.)
constexpr int kShortRow = 256;
template <class T, class K> BARACUDA_HD void reduce_short_rows(const ReduceRows& p, int64_t first) {
  using Row = RowOf<T, K>;
  using A = typename Row::A;
  using V = typename Row::V;
  constexpr int N = Row::N, S = Row::S;
  const auto row = [&](int r) __attribute__((always_inline)) { return Row(static_cast<const T*>(p.x) + (first + r) * p.pitch, p.m); };
  V all[S][N];
  alignas(64) A shift[N];
  for (int r = 0; r < N; ++r) all[0][r] = row(r).head();
  store<A, N>(shift, fold_registers<Plus>(all[0]));
  for (int r = 0; r < N; ++r) shift[r] = origin<T>(shift[r], p.m);
  for (int r = 0; r < N; ++r) {
    V s[S];
    row(r).states(double(shift[r]), p.magnitude, s);
    for (int i = 0; i < S; ++i) all[i][r] = s[i];
  }
  alignas(64) A total[2][N];
  store<A, N>(total[0], fold_registers<typename Row::template Fold<0>>(all[0]));
  if constexpr (S == 2) store<A, N>(total[1], fold_registers<typename Row::template Fold<1>>(all[1]));
  for (int r = 0; r < N; ++r) {
    const A own[2] = {total[0][r], S == 2 ? total[1][r] : A(0)};
    row(r).finish(own, double(shift[r]), p.state[first + r]);
  }
}
template <class T, class K> void reduce_rows(const ReduceRows& p) {
  int64_t r = 0;
  if constexpr (K::kHead && kLanes<typename K::A> > 1)
    if (p.m <= kShortRow)
      for (; r + kLanes<typename K::A> <= p.rows; r += kLanes<typename K::A>) reduce_short_rows<T, K>(p, r);
  for (; r < p.rows; ++r) reduce_row<T, K>(static_cast<const T*>(p.x) + r * p.pitch, p.m, p.magnitude, p.state[r]);
}

// Lane l, state i of column j is at lane[(l S + i) pitch + j]; behind them a row of shifts. A visit takes several elements of a lane at
// once, for the lanes lie in the second-level cache.
template <class T, class K> struct ReduceColumnsOf {
  using A = typename K::A;
  static constexpr int N = kLanes<A>, S = K::kStates, kLaneBytes = (kSumLanes * S + 1) * int(sizeof(A));
  static constexpr int kVisit = sizeof(A) * S > 8 ? 16 : 8;
  using V = Pack<A, N>;

  template <int G> static void visit(A* lane, int pitch, const A* shift, const RowsAt<T, kVisit>& rows, int width, bool magnitude) {
    each_pack<N>(rows, std::integral_constant<int, G>(), width, [&](const T* const* at, int j) __attribute__((always_inline)) {
      V s[S];
      for (int i = 0; i < S; ++i) s[i] = load<N>(lane + i * pitch + j);
      const Given<V> given(K::kHead ? V(load<N>(shift + j)) : V(0), magnitude);
      REDUCE_UNROLL
      for (int r = 0; r < G; ++r) {
        K::step(s, lanes_of<A, N>(at[r]), given);
        if constexpr (K::kTidy > 0)
          if (r % K::kTidy == K::kTidy - 1 || G == 1) K::tidy(s);
      }
      for (int i = 0; i < S; ++i) store<A, N>(lane + i * pitch + j, s[i]);
    });
  }
  template <class F> static void fold(A* lane, int used, int step, int pitch) {
    for (int w = kSumLanes / 2; w; w /= 2)
      for (int l = 0; l < w && l + w < used; ++l) {
        A *a = lane + l * step, *b = lane + (l + w) * step;
        for (int j = 0; j < pitch; j += N) store<A, N>(a + j, F::of(V(load<N>(a + j)), V(load<N>(b + j))));
      }
  }
  static void run(const ReduceColumns& p) {
    A* const lane = static_cast<A*>(p.lanes);
    const T* const x = static_cast<const T*>(p.x);
    const int pitch = reduce_pitch(p.width), step = S * pitch, used = p.m < kSumLanes ? p.m : kSumLanes, width = p.width;
    A* const shift = lane + kSumLanes * step;
    if constexpr (K::kHead) {
      for (int l = 0; l < used; ++l)
        for (int j = 0; j < width; ++j) lane[l * step + j] = A(to_double(x[p.offset[l] + j]));
      fold<Plus>(lane, used, step, pitch);
      for (int j = 0; j < width; ++j) shift[j] = origin<T>(lane[j], p.m);
    }
    for (int l = 0; l < used; ++l)
      for (int i = 0; i < S; ++i)
        for (int j = 0; j < pitch; ++j) lane[l * step + i * pitch + j] = A(K::kStart[i]);
    for (int base = 0; base < p.m; base += kVisit * kSumLanes)
      for (int l = 0; l < kSumLanes && base + l < p.m; ++l) {
        RowsAt<T, kVisit> rows;
        for (int r = base + l; rows.count < kVisit && r < p.m; r += kSumLanes) rows.add(x + p.offset[r]);
        for (int r = l + 1 < kSumLanes ? base + l + 1 : base + kVisit * kSumLanes; rows.more < kVisit && r < p.m; r += kSumLanes) rows.ask(x + p.offset[r]);
        if (rows.count == kVisit) visit<kVisit>(lane + l * step, pitch, shift, rows, width, p.magnitude);
        else
          for (int r = 0; r < rows.count; ++r) {
            RowsAt<T, kVisit> one;
            one.add(rows.row[r]);
            visit<1>(lane + l * step, pitch, shift, one, width, p.magnitude);
          }
      }
    if constexpr (K::kTidy > 0)
      for (int l = 0; l < used; ++l)
        for (int j = 0; j < pitch; j += N) {
          A* const at = lane + l * step + j;
          V s[S] = {load<N>(at), load<N>(at + pitch)};
          K::settle(s);
          for (int i = 0; i < S; ++i) store<A, N>(at + i * pitch, s[i]);
        }
    fold<typename K::template Fold<0>>(lane, used, step, pitch);
    if constexpr (S == 2) fold<typename K::template Fold<1>>(lane + pitch, used, step, pitch);
    for (int j = 0; j < width; ++j) {
      const A total[2] = {lane[j], S == 2 ? lane[pitch + j] : A(0)};
      K::finish(total, p.m, K::kHead ? double(shift[j]) : 0, [&](int i) { return to_double(x[p.offset[i] + j]); }, p.state[j]);
    }
  }
};

template <template <class> class K> constexpr ByDType<ReduceKernel> reduce_kernels() {
  return by_dtype<ReduceKernel>(Floating{}, []<class T>() {
    using Columns = ReduceColumnsOf<T, K<T>>;
    return ReduceKernel{reduce_rows<T, K<T>>, Columns::run, Columns::kLaneBytes};
  });
}

}  // namespace baracuda
