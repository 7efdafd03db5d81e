// Extrema, where they are, and how many elements equal one: sizeof(T) bytes read per element; the floor is memory. Nothing is rounded,
// so the order is free: several packs side by side along rows, one state a column down columns. Of 0 and -0 the result is 0.
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

// The states of m elements, in packs that are folded at the end. Padding: the last element again, but where equals are counted.
template <class T, class K> void states_of(const T* x, int m, const Given<PackOf<T>>& given, Acc<T>* total) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>, S = K::kStates, packs = N == 1 ? 1 : 4;
  using V = Pack<A, N>;
  V s[packs][S];
  for (int k = 0; k < packs; ++k)
    for (int i = 0; i < S; ++i) s[k][i] = V(K::kStart[i]);
  auto take = [&](V* state, V v) __attribute__((always_inline)) { K::step(state, v, V(0), given); };
  int i = 0;
  for (; i + packs * N <= m; i += packs * N) {
    fetch_ahead<packs * N * int(sizeof(T))>(x + i);
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) take(s[k], load<N>(x + i + k * N));
  }
  for (; i + N <= m; i += N) take(s[0], load<N>(x + i));
  if constexpr (N > 1)
    if (i < m) {
      alignas(64) T rest[N];
      const bool counts = std::is_same_v<K, Equal<T>>;
      const bool nan = given.shift.lane(0) != given.shift.lane(0);
      for (int l = 0; l < N; ++l) rest[l] = i + l < m ? x[i + l] : counts ? from_double<T>(nan ? 0 : kNaN) : x[m - 1];
      take(s[0], load<N>(rest));
    }
  total[0] = fold_state<typename K::template Fold<0>, packs, S>(s, 0);
  if constexpr (S == 2) total[1] = fold_state<typename K::template Fold<1>, packs, S>(s, 1);
}
template <class T, class K> void rows(const ReduceRows& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    Acc<T> total[K::kStates];
    states_of<T, K>(static_cast<const T*>(p.x) + r * p.pitch, p.m, {spread<PackOf<T>>(Acc<T>(p.shift ? p.shift[r] : 0)), p.magnitude}, total);
    K::finish(total, p.state[r]);
  }
}
template <class T, bool kMax> void where_rows(const ReduceRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* const x = static_cast<const T*>(p.x) + r * p.pitch;
    A best;
    states_of<T, Extremum<T, kMax>>(x, p.m, {V(0), false}, &best);
    auto is_best = [&]<class W>(W v) __attribute__((always_inline)) -> typename W::Mask {
      const W b = spread<W>(best);
      return (v == b) | (is_nan(v) & is_nan(b));
    };
    int i = 0;
    while (i + N <= p.m && !any(is_best(V(load<N>(x + i))))) i += N;
    while (!is_best(Pack<A, 1>(load<1>(x + i)))) ++i;
    p.state[r].a = best, p.state[r].at = i;
  }
}
template <class T, class K> struct Columns {
  using A = Acc<T>;
  static constexpr int N = kLanes<A>, S = K::kStates, kVisit = 8, kLaneBytes = (S + 1) * int(sizeof(A));
  using V = Pack<A, N>;
  static void run(const ReduceColumns& p) {
    A* const state = static_cast<A*>(p.lanes);
    const int pitch = reduce_pitch(p.width);
    A* const shift = state + S * pitch;
    for (int j = 0; j < pitch; ++j) {
      shift[j] = A(p.shift && j < p.width ? p.shift[j] : 0);
      for (int i = 0; i < S; ++i) state[i * pitch + j] = A(K::kStart[i]);
    }
    for (int base = 0; base < p.m; base += kVisit) {
      RowsAt<T, kVisit> rows;
      for (int r = base; r < p.m && rows.count < kVisit; ++r) rows.add(static_cast<const T*>(p.x) + p.offset[r]);
      for (int r = base + kVisit; r < p.m && rows.more < kVisit; ++r) rows.ask(static_cast<const T*>(p.x) + p.offset[r]);
      const auto visit = [&](auto g) __attribute__((always_inline)) {
        const int count = g;
        each_pack<N>(rows, g, p.width, [&](const T* const* at, int j) __attribute__((always_inline)) {
          V s[S];
          for (int i = 0; i < S; ++i) s[i] = load<N>(state + i * pitch + j);
          const Given<V> given(load<N>(shift + j), p.magnitude);
#pragma GCC unroll 8
          for (int r = 0; r < count; ++r) K::step(s, V(load<N>(at[r])), V(double(base + r)), given);
          for (int i = 0; i < S; ++i) store<A, N>(state + i * pitch + j, s[i]);
        });
      };
      if (rows.count == kVisit) visit(std::integral_constant<int, kVisit>());
      else visit(rows.count);
    }
    for (int j = 0; j < p.width; ++j) {
      A total[S];
      for (int i = 0; i < S; ++i) total[i] = state[i * pitch + j];
      K::finish(total, p.state[j]);
    }
  }
};

template <template <class> class K> constexpr ByDType<ReduceKernel> kernels() {
  return by_dtype<ReduceKernel>(Floating{}, []<class T>() { return ReduceKernel{rows<T, K<T>>, Columns<T, K<T>>::run, Columns<T, K<T>>::kLaneBytes}; });
}
template <bool kMax> constexpr ByDType<ReduceKernel> where_kernels() {
  return by_dtype<ReduceKernel>(Floating{}, []<class T>() {
    return ReduceKernel{where_rows<T, kMax>, Columns<T, Where<T, kMax>>::run, Columns<T, Where<T, kMax>>::kLaneBytes};
  });
}
template <class T> using Max = Extremum<T, true>;
template <class T> using Min = Extremum<T, false>;
constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::max)] = t.of[int(ReduceLoop::largest)] = kernels<Max>();
  t.of[int(ReduceLoop::min)] = t.of[int(ReduceLoop::least)] = kernels<Min>();
  t.of[int(ReduceLoop::minmax)] = kernels<Extremes>();
  t.of[int(ReduceLoop::argmax)] = where_kernels<true>();
  t.of[int(ReduceLoop::argmin)] = where_kernels<false>();
  t.of[int(ReduceLoop::equal)] = t.of[int(ReduceLoop::equal_magnitude)] = kernels<Equal>();
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_order_table = make();
}  // namespace baracuda
