#pragma once
// One chunk of a reduction for any kind, along rows or down columns, in the tree of host/row_sum.hpp: element i is in lane
// i % 64, a lane takes its elements in order, lanes are folded l + (l + 32), then 16 ... 1. The tree depends on m alone, so rows,
// columns and every vector width give the same bits.
//
// A kind says in which type it computes (A), how many numbers a lane keeps (kStates, with kStart), and how it goes on:
//   step(s, x, shift, row)   takes one element; row: which element of its lane
//   or, with kGrouped, group(s, g, get)   takes up to 8 elements get(0) ... get(g - 1) of a lane at once
//   Fold<i>                  how state i of two lanes becomes one
//   settle(s, top, lane)     with kSettle: puts a lane's states to a common footing, once state 0 has been folded to top
//   finish(s, m, shift, get, out)   the state of the chunk; get(i): element i as a double
//   pad(shift)               an element that changes nothing
// kShift: no shift, one from the caller, or the mean of the first 64 elements.
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/ops/reduce/reduce_cpu.hpp"

#if BARACUDA_VECTOR_BYTES
#define REDUCE_UNROLL _Pragma("GCC unroll 16")
#else
#define REDUCE_UNROLL  // one lane: memory is as good, and compiles faster
#endif

namespace baracuda::inline BARACUDA_ISA {

struct Plus { template <class V> BARACUDA_HD static V of(V a, V b) { return a + b; } };
struct Times { template <class V> BARACUDA_HD static V of(V a, V b) { return a * b; } };
struct Larger { template <class V> BARACUDA_HD static V of(V a, V b) { return max_nan(a, b); } };
struct Smaller { template <class V> BARACUDA_HD static V of(V a, V b) { return min_nan(a, b); } };

enum class Shift { none, given, head };

template <class A, int N, class T> BARACUDA_HD Pack<A, N> lanes_of(const T* p) { return convert<A>(load<N>(p)); }
template <class A, int N, class T> BARACUDA_HD Pack<A, N> lanes_of(const T* p, int count) { return convert<A>(load_tail<N>(p, count)); }
template <class V> BARACUDA_HD V spread(typename V::Scalar a) { return V::of(a - Raw<typename V::Scalar, V::kWidth>{}); }

template <int W, class F, class A, int N> BARACUDA_HD A fold_register(Pack<A, N> a) {
  if constexpr (W == 0) return a.lane(0);
  else return fold_register<W / 2, F>(F::of(a, Pack<A, N>::of(moved_down<W, A, N>(a.v, std::make_integer_sequence<int, N>{}))));
}
template <class F, int S, class A, int N> BARACUDA_HD A fold_state(const Pack<A, N> (*s)[S], int state) {
  constexpr int packs = kSumLanes / N;
  Pack<A, N> t[packs];
  REDUCE_UNROLL
  for (int k = 0; k < packs; ++k) t[k] = s[k][state];
  REDUCE_UNROLL
  for (int w = packs / 2; w; w /= 2)
    REDUCE_UNROLL
    for (int k = 0; k < w; ++k) t[k] = F::of(t[k], t[k + w]);
  return fold_register<N / 2, F>(t[0]);
}

struct LaneNumbers {
  float f[kSumLanes];
  double d[kSumLanes];
  constexpr LaneNumbers() : f(), d() { for (int l = 0; l < kSumLanes; ++l) f[l] = float(l), d[l] = l; }
  template <class A> constexpr const A* of() const { if constexpr (sizeof(A) == 4) return f; else return d; }
};
inline constexpr LaneNumbers kLaneNumbers;

// The mean of the first elements, in T: an origin from which the spread of the data is not lost. sum / count <= 64 elements.
template <class T, class A> BARACUDA_HD A origin(A sum, int m) { return A(to_double(from_double<T>(sum / (m < kSumLanes ? m : kSumLanes)))); }

template <class T, class K> BARACUDA_HD void reduce_row(const T* x, int m, double shift, ReduceState& out) {
  using A = typename K::A;
  constexpr int N = kLanes<A>, packs = kSumLanes / N, S = K::kStates;
  using V = Pack<A, N>;
  const int full = m / kSumLanes, rest = m % kSumLanes, rows = full + (rest != 0);
  const T* const last = x + int64_t(full) * kSumLanes;
  alignas(64) T tail[kSumLanes];
  V s[packs][S];
  if constexpr (K::kShift == Shift::head) {
    if (full == 0)
      for (int l = 0; l < kSumLanes; ++l) tail[l] = l < rest ? x[l] : from_double<T>(-0.0);
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) s[k][0] = lanes_of<A, N>((full ? x : tail) + k * N);
    shift = double(origin<T>(fold_state<Plus, S>(s, 0), m));
  }
  if (rest) {
    const T pad = from_double<T>(K::pad(shift));
    for (int l = 0; l < kSumLanes; ++l) tail[l] = l < rest ? last[l] : pad;
  }
  const V origin = spread<V>(A(shift));
  REDUCE_UNROLL
  for (int k = 0; k < packs; ++k)
    for (int i = 0; i < S; ++i) s[k][i] = V(K::kStart[i]);
  if constexpr (K::kGrouped) {
    for (int r0 = 0; r0 < rows; r0 += 8)
      for (int k = 0; k < packs; ++k)
        K::group(s[k], rows - r0 < 8 ? rows - r0 : 8,
                 [&](int r) __attribute__((always_inline)) { return lanes_of<A, N>((r0 + r < full ? x + (r0 + r) * kSumLanes : tail) + k * N); });
  } else {
    for (int r = 0; r < full; ++r)
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) K::step(s[k], lanes_of<A, N>(x + r * kSumLanes + k * N), origin, r);
    if (rest)
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) K::step(s[k], lanes_of<A, N>(tail + k * N), origin, full);
  }
  A total[S];
  if constexpr (K::kSettle) {
    total[0] = fold_state<typename K::template Fold<0>, S>(s, 0);
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) K::settle(s[k], spread<V>(total[0]), load<N>(kLaneNumbers.of<A>() + k * N));
  } else {
    total[0] = fold_state<typename K::template Fold<0>, S>(s, 0);
  }
  if constexpr (S == 2) total[1] = fold_state<typename K::template Fold<1>, S>(s, 1);
  K::finish(total, m, shift, [&](int i) { return to_double(x[i]); }, out);
}
template <class T, class K> void reduce_rows(const ReduceRows& p) {
  for (int64_t r = 0; r < p.rows; ++r)
    reduce_row<T, K>(static_cast<const T*>(p.x) + r * p.pitch, p.m, K::kShift == Shift::given ? p.shift[r] : 0, p.state[r]);
}

// Lane l, state i of column j is at lane[(l S + i) pitch + j]; behind them a row of shifts and one of tops.
template <class T, class K> struct ReduceColumnsOf {
  using A = typename K::A;
  static constexpr int N = kLanes<A>, S = K::kStates, kLaneBytes = (kSumLanes * S + 2) * int(sizeof(A));
  using V = Pack<A, N>;

  // G elements of one lane (G = 0: g of them) enter the states of every column.
  template <int G> static void visit(A* lane, int pitch, const A* shift, const T* const* row, int g, int first, int width) {
    const int count = G ? G : g;
    for (int j = 0; j < width; j += N) {
      V s[S];
      for (int i = 0; i < S; ++i) s[i] = load<N>(lane + i * pitch + j);
      auto take = [&](auto get) __attribute__((always_inline)) {
        if constexpr (K::kGrouped) K::group(s, count, get);
        else {
          const V origin = K::kShift == Shift::none ? V(0) : load<N>(shift + j);
#pragma GCC unroll 8
          for (int r = 0; r < count; ++r) K::step(s, get(r), origin, first + r);
        }
      };
      if (width - j >= N) take([&](int r) __attribute__((always_inline)) { return lanes_of<A, N>(row[r] + j); });
      else if constexpr (N > 1) take([&](int r) __attribute__((always_inline)) { return lanes_of<A, N>(row[r] + j, width - j); });
      for (int i = 0; i < S; ++i) store<A, N>(lane + i * pitch + j, s[i]);
    }
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
    A *const shift = lane + kSumLanes * step, *const top = shift + pitch;
    if constexpr (K::kShift == Shift::head) {
      for (int l = 0; l < used; ++l)
        for (int j = 0; j < width; ++j) lane[l * step + j] = A(to_double(x[p.offset[l] + j]));
      fold<Plus>(lane, used, step, pitch);
      for (int j = 0; j < width; ++j) shift[j] = origin<T>(lane[j], p.m);
    } else if constexpr (K::kShift == Shift::given) {
      for (int j = 0; j < width; ++j) shift[j] = A(p.shift[j]);
    }
    for (int l = 0; l < used; ++l)
      for (int i = 0; i < S; ++i)
        for (int j = 0; j < pitch; ++j) lane[l * step + i * pitch + j] = A(K::kStart[i]);
    for (int base = 0; base < p.m; base += 8 * kSumLanes)
      for (int l = 0; l < kSumLanes && base + l < p.m; ++l) {
        const T* row[8];
        int g = 0;
        for (int r = base + l; g < 8 && r < p.m; r += kSumLanes) row[g++] = x + p.offset[r];
        if (g == 8) visit<8>(lane + l * step, pitch, shift, row, g, base / kSumLanes, width);
        else visit<0>(lane + l * step, pitch, shift, row, g, base / kSumLanes, width);
      }
    if constexpr (K::kSettle) {
      for (int j = 0; j < pitch; j += N) {
        V t = load<N>(lane + j);
        for (int l = 1; l < used; ++l) t = K::template Fold<0>::of(t, V(load<N>(lane + l * step + j)));
        store<A, N>(top + j, t);
      }
      for (int l = 0; l < used; ++l)
        for (int j = 0; j < pitch; j += N) {
          V s[S] = {load<N>(lane + l * step + j), load<N>(lane + l * step + pitch + j)};
          K::settle(s, V(load<N>(top + j)), V(double(l)));
          store<A, N>(lane + l * step + pitch + j, s[1]);
        }
    } else {
      fold<typename K::template Fold<0>>(lane, used, step, pitch);
    }
    if constexpr (S == 2) fold<typename K::template Fold<1>>(lane + pitch, used, step, pitch);
    for (int j = 0; j < width; ++j) {
      A total[2] = {K::kSettle ? top[j] : lane[j], S == 2 ? lane[pitch + j] : A(0)};
      K::finish(total, p.m, K::kShift == Shift::none ? 0 : double(shift[j]), [&](int i) { return to_double(x[p.offset[i] + j]); }, p.state[j]);
    }
  }
};

template <class T, class K> constexpr ReduceKernel reduce_kernel() {
  return {reduce_rows<T, K>, ReduceColumnsOf<T, K>::run, ReduceColumnsOf<T, K>::kLaneBytes};
}
template <template <class> class K> constexpr ByDType<ReduceKernel> reduce_kernels() {
  return by_dtype<ReduceKernel>(Floating{}, []<class T>() { return reduce_kernel<T, K<T>>(); });
}

}  // namespace baracuda
