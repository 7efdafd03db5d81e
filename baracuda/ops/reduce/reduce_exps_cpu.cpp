// Sums of exponentials and of powers. exps: sizeof(T) bytes read per element; memory and one exponential an element cost about the same
// in f32, in f64 and for halves the exponential is the floor. powers: one pow in f64 an element, far above memory.
// exps: blocks of 512 elements; a block's largest element is found first, what is already in the lanes is scaled to it where it is a
// new largest, and then every element costs one exponential. The lanes are those of host/row_sum.hpp.
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/reduce/reduce_tree_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

constexpr int kBlock = 8 * kSumLanes;

// The largest element does not see NaN, the sum does, but where the largest is infinite.
template <class Get> void finish(double top, double sum, int m, Get get, ReduceState& out) {
  bool nan = sum != sum;
  if (top == kInf) {
    nan = false;
    for (int i = 0; i < m; ++i) nan = nan || get(i) != get(i);
  }
  out.a = nan ? kNaN : top, out.b = sum;
}

template <class T> void exps_row(const T* const row, int m, ReduceState& out) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>, packs = kSumLanes / N;
  using V = Pack<A, N>;
  V s[packs];
  REDUCE_UNROLL
  for (int k = 0; k < packs; ++k) s[k] = 0;
  V top = -kInf;
  for (int begin = 0; begin < m; begin += kBlock) {
    const T* const x = row + begin;
    const int count = m - begin < kBlock ? m - begin : kBlock, full = count / kSumLanes, rest = count % kSumLanes;
    V t[4][1] = {{top}, {top}, {top}, {top}};
    int i = 0;
    for (; i + 4 * N <= count; i += 4 * N) {
      fetch_ahead<4 * N * int(sizeof(T))>(x + i);
      REDUCE_UNROLL
      for (int k = 0; k < 4; ++k) t[k][0] = larger(lanes_of<A, N>(x + i + k * N), t[k][0]);
    }
    for (; i + N <= count; i += N) t[0][0] = larger(lanes_of<A, N>(x + i), t[0][0]);
    if constexpr (N > 1)
      if (i < count) t[1][0] = larger(lanes_of<A, N>(x + i, count - i, -kInf), t[1][0]);
    const V next = spread<V>(fold_state<Larger, 4, 1>(t, 0)), base = base_of(next);
    if (begin) {
      const V factor = exp_up(top - base) * kDown<V>;
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) s[k] = s[k] * factor;
    }
    top = next;
    for (int r = 0; r < full; ++r)
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) s[k] = s[k] + exp_up(lanes_of<A, N>(x + r * kSumLanes + k * N) - base);
    if constexpr (N > 1) {
      for (int k = 0; k * N < rest; ++k) {
        const int left = rest - k * N;
        alignas(64) A e[N];
        store<A, N>(e, exp_up((left < N ? lanes_of<A, N>(x + full * kSumLanes + k * N, left, -kInf) : lanes_of<A, N>(x + full * kSumLanes + k * N)) - base));
        for (int l = left; l < N; ++l) e[l] = 0;
        s[k] = s[k] + V(load<N>(e));
      }
    } else {
      for (int l = 0; l < rest; ++l) s[l] = s[l] + exp_up(lanes_of<A, N>(x + full * kSumLanes + l) - base);
    }
  }
  finish(double(top.lane(0)), double(fold_lanes(s)) * kDown<V>, m, [&](int i) { return to_double(row[i]); }, out);
}
// As many rows of one block at once as a register has lanes, whose folds share their operations.
template <class T> void exps_short_rows(const ReduceRows& p, int64_t first) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>, packs = kSumLanes / N;
  using V = Pack<A, N>;
  const auto row = [&](int r) __attribute__((always_inline)) { return static_cast<const T*>(p.x) + (first + r) * p.pitch; };
  // f(pack of the row, its place)
  const auto each = [&](const T* x, double fill, const auto& f) __attribute__((always_inline)) {
    int i = 0;
    for (; i + kSumLanes <= p.m; i += kSumLanes)
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k) f(lanes_of<A, N>(x + i + k * N), k, N);
    if (i < p.m)
      REDUCE_UNROLL
      for (int k = 0; k < packs; ++k)
        if (const int left = p.m - i - k * N; left > 0) f(left < N ? lanes_of<A, N>(x + i + k * N, left, fill) : lanes_of<A, N>(x + i + k * N), k, left);
  };
  V all[N];
  for (int r = 0; r < N; ++r) {
    const T* const x = row(r);
    for (int i = 0; i < p.m; i += kSumLanes) fetch_ahead<kSumLanes * int(sizeof(T))>(x + i);
    V t[packs][1];
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) t[k][0] = -kInf;
    each(x, -kInf, [&](V v, int k, int) __attribute__((always_inline)) { t[k][0] = larger(v, t[k][0]); });
    all[r] = fold_packs<Larger, packs, 1>(t, 0);
  }
  const V top = fold_registers<Larger>(all), bases = base_of(top);
  for (int r = 0; r < N; ++r) {
    const V base = spread<V>(bases.lane(r));
    V s[packs][1];
    REDUCE_UNROLL
    for (int k = 0; k < packs; ++k) s[k][0] = 0;
    each(row(r), -kInf, [&](V v, int k, int count) __attribute__((always_inline)) {
      V e = exp_up(v - base);
      if (count < N) {
        alignas(64) A lane[N];
        store<A, N>(lane, e);
        for (int l = count; l < N; ++l) lane[l] = 0;
        e = load<N>(lane);
      }
      s[k][0] = s[k][0] + e;
    });
    all[r] = fold_packs<Plus, packs, 1>(s, 0);
  }
  const V sum = fold_registers<Plus>(all);
  for (int r = 0; r < N; ++r) {
    const T* const x = row(r);
    finish(double(top.lane(r)), double(sum.lane(r)) * kDown<V>, p.m, [&](int i) { return to_double(x[i]); }, p.state[first + r]);
  }
}
template <class T> void exps_rows(const ReduceRows& p) {
  constexpr int N = kLanes<Acc<T>>;
  int64_t r = 0;
  if constexpr (N > 1)
    if (p.m <= kShortRow)
      for (; r + N <= p.rows; r += N) exps_short_rows<T>(p, r);
  for (; r < p.rows; ++r) exps_row(static_cast<const T*>(p.x) + r * p.pitch, p.m, p.state[r]);
}
// Lane l of column j at lane[l pitch + j]; behind them the largest so far, the one subtracted, and the factor for what is in the lanes.
template <class T> void exps_columns(const ReduceColumns& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  A* const lane = static_cast<A*>(p.lanes);
  const T* const x = static_cast<const T*>(p.x);
  const int pitch = reduce_pitch(p.width), used = p.m < kSumLanes ? p.m : kSumLanes;
  A *const top = lane + kSumLanes * pitch, *const base = top + pitch, *const factor = base + pitch;
  for (int i = 0; i < used * pitch; ++i) lane[i] = 0;
  for (int j = 0; j < pitch; ++j) top[j] = A(-kInf);
  for (int begin = 0; begin < p.m; begin += kBlock) {
    const int end = p.m - begin < kBlock ? p.m : begin + kBlock;
    for (int j = 0; j < pitch; ++j) base[j] = top[j];
    for (int i = begin; i < end; i += 8) {
      RowsAt<T, 8> rows;
      for (int r = i; r < end && r < i + 8; ++r) rows.add(x + p.offset[r]);
      each_pack<N>(rows, rows.count, p.width, [&](const T* const* at, int j) __attribute__((always_inline)) {
        V t = load<N>(base + j);
        for (int r = 0; r < rows.count; ++r) t = larger(V(load<N>(at[r])), t);
        store<A, N>(base + j, t);
      });
    }
    for (int j = 0; j < pitch; j += N) {
      const V next = load<N>(base + j), b = base_of(next);
      store<A, N>(factor + j, exp_up(V(load<N>(top + j)) - b) * kDown<V>);
      store<A, N>(top + j, next), store<A, N>(base + j, b);
    }
    for (int l = 0; l < used; ++l) {
      A* const to = lane + l * pitch;
      RowsAt<T, 8> rows;  // and those of the next block, whose largest elements are to be found first
      for (int r = begin + l; r < end; r += kSumLanes) rows.add(x + p.offset[r]);
      for (int r = begin + kBlock + l; r < p.m && rows.more < 8; r += kSumLanes) rows.ask(x + p.offset[r]);
      if (begin)
        for (int j = 0; j < pitch; j += N) store<A, N>(to + j, V(load<N>(to + j)) * V(load<N>(factor + j)));
      each_pack<N>(rows, rows.count, rows.count ? p.width : 0, [&](const T* const* at, int j) __attribute__((always_inline)) {
        V s = load<N>(to + j);
        const V b = load<N>(base + j);
        for (int r = 0; r < rows.count; ++r) s = s + exp_up(V(load<N>(at[r])) - b);
        store<A, N>(to + j, s);
      });
    }
  }
  for (int w = kSumLanes / 2; w; w /= 2)
    for (int l = 0; l < w && l + w < used; ++l)
      for (int j = 0; j < pitch; ++j) lane[l * pitch + j] += lane[(l + w) * pitch + j];
  for (int j = 0; j < p.width; ++j)
    finish(double(top[j]), double(lane[j]) * kDown<V>, p.m, [&](int i) { return to_double(x[p.offset[i] + j]); }, p.state[j]);
}

// (|x| / a)^power with a the largest |x|, for a negative power the least: no term and no sum leaves the range.
void powers(const double* x, int m, double power, ReduceState& out) {
  double a = x[0];
  for (int i = 1; i < m; ++i) a = x[i] != x[i] || (power > 0 ? x[i] > a : x[i] < a) ? x[i] : a;
  out.a = a, out.b = 1;
  if (!(a > 0 && a < kInf)) return;
  out.b = chunk_sum<double>(0, m, [&](auto acc, int64_t i) __attribute__((always_inline)) {
    using V = decltype(acc);
    return acc + pow(V(load<V::kWidth>(x + i)) / V(a), V(power));
  });
}
template <class T> void power_rows(const ReduceRows& p) {
  double magnitude[kSumChunk];
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* const x = static_cast<const T*>(p.x) + r * p.pitch;
    bool nan = false;
    for (int i = 0; i < p.m; ++i) {
      const double v = to_double(x[i]);
      magnitude[i] = v < 0 ? -v : v, nan = nan || v != v;
    }
    powers(magnitude, p.m, p.power, p.state[r]);
    if (nan) p.state[r].a = kNaN;
  }
}

void log_sums(const ReduceState* state, double* y, int64_t count) {
  constexpr int N = kLanes<double>;
  using V = Pack<double, N>;
  for (int64_t i = 0; i < count; i += N) {
    V top = 0, sum = 1;
    const int used = count - i < N ? int(count - i) : N;
    for (int l = 0; l < used; ++l) top.set_lane(l, state[i + l].a), sum.set_lane(l, state[i + l].b);
    store_tail<double, N>(y + i, where(abs(top) < V(kInf), top + log(sum), top), used);
  }
}

constexpr ReduceTable make() {
  ReduceTable t;
  t.of[int(ReduceLoop::exps)] = by_dtype<ReduceKernel>(Floating{}, []<class T>() {
    return ReduceKernel{exps_rows<T>, exps_columns<T>, (kSumLanes + 3) * int(sizeof(Acc<T>)), 1024 / int(sizeof(T))};
  });
  t.of[int(ReduceLoop::powers)] = by_dtype<ReduceKernel>(Floating{}, []<class T>() { return ReduceKernel{power_rows<T>, nullptr, 0}; });
  return t;
}

}  // namespace
extern constexpr ReduceTable reduce_exps_table = make();
extern constexpr ReduceLogTable reduce_log_table = {log_sums};
}  // namespace baracuda
