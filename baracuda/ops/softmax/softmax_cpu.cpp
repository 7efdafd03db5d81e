// Passes over a block of lines that stays in the first or second-level cache: load (and the maximum), exp (and its sum), finish.
// Memory sees sizeof(in) + sizeof(out) bytes per element; the passes make about 30 operations, 18 of them for exp. The
// gradient loads dy and y, sums and finishes. Sums are those of row_sum.hpp, the same bits for rows and for columns.
#include "baracuda/host/lane_fold.hpp"
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/ops/softmax/softmax_lanes.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using namespace softmax;

template <class A> inline constexpr int kTile = kSoftmaxTile / int(sizeof(A));       // columns
template <class A> inline constexpr int kTilePacks = kTile<A> / kLanes<A>;

// --- rows
template <class T, class A, bool kNegate> void load_rows(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>;
  using V = Full<A>;
  constexpr double kPadding = kNegate ? kInf : -kInf;
  for (int c = 0; c < b.count; ++c) {
    const T* x = static_cast<const T*>(b.in) + c * b.pitch;
    A* to = buffer_of<A>(b, 0, c);
    V top[4] = {-kInf, -kInf, -kInf, -kInf};
    auto take = [&](V v, int i, V& t) __attribute__((always_inline)) {
      if constexpr (kNegate) v = -v;
      store<A, N>(to + i, v);
      t = larger(v, t);
    };
    int i = 0;
    bool packs = false;
    if constexpr (std::is_same_v<Acc<T>, A>) packs = b.step == 1;
    if (packs) {
      if constexpr (std::is_same_v<Acc<T>, A>) {
        for (; i + 4 * N <= b.m; i += 4 * N)
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) take(load<N>(x + i + k * N), i + k * N, top[k]);
        for (; i + N <= b.m; i += N) take(load<N>(x + i), i, top[0]);
        if (i < b.m) take(load_tail<N>(x + i, b.m - i, kPadding), i, top[1]);
      }
    } else {
      for (int j = 0; j < b.m; ++j) to[j] = widened<A>(x[j * b.step]);
      for (int j = b.m; j % N; ++j) to[j] = A(kPadding);
      for (; i < b.m; i += N) take(load<N>(to + i), i, top[0]);
    }
    static_cast<A*>(b.max)[c] = top_lane(larger(larger(top[0], top[1]), larger(top[2], top[3])));
  }
}
// The padding adds exp(-inf) = 0, which changes no bit.
template <class T, class A, bool kKeep> void exp_sum_rows(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>;
  for (int c = 0; c < b.count; ++c) {
    A* x = buffer_of<A>(b, 0, c);
    const double base = softmax::base(Pack<A, 1>::of(at<A>(b.max, c))).v;
    const char* next = static_cast<const char*>(b.next) + c * b.next_line;
    static_cast<A*>(b.sum)[c] = chunk_sum<A>(0, (b.m + N - 1) / N * N, [&](auto acc, int64_t i) __attribute__((always_inline)) {
      __builtin_prefetch(next + i * b.next_step, 0, 2);
      constexpr int W = decltype(acc)::kWidth;
      const auto e = exp_up_for<T>(load<W>(x + i) - Pack<A, W>(base));
      if constexpr (kKeep) store<A, W>(x + i, e);
      return acc + e;
    });
  }
}
template <class A, bool kPlain> void sum_rows(const SoftmaxBlock& b) {
  for (int c = 0; c < b.count; ++c) {
    const A *x = buffer_of<A>(b, 0, c), *y = buffer_of<A>(b, 1, c);
    static_cast<A*>(b.sum)[c] = chunk_sum<A>(0, b.m, [&](auto acc, int64_t i) __attribute__((always_inline)) {
      constexpr int W = decltype(acc)::kWidth;
      if constexpr (kPlain) return acc + load<W>(x + i);
      else return fma(load<W>(x + i), load<W>(y + i), acc);
    });
  }
}
template <SoftmaxFinish F, bool kOnce, class A, class U> BARACUDA_HD void finish_row(const SoftmaxBlock& b, int c) {
  constexpr int N = kLanes<A>;
  using V = Full<A>;
  const A *x = buffer_of<A>(b, 0, c), *y = kBackward<F> ? buffer_of<A>(b, 1, c) : x;
  U* out = static_cast<U*>(b.out) + c * b.pitch;
  const V sum = double(at<A>(b.sum, c)), max = kBackward<F> ? 0.0 : double(at<A>(b.max, c)), sign = b.sign;
  auto element = [&](int i, int count) __attribute__((always_inline)) {
    const V v = get<A, N>(x + i, count);
    return finished<F, kOnce>(v, kBackward<F> ? get<A, N>(y + i, count) : v, max, sum, sign);
  };
  int i = 0;
  auto put_up_to = [&](int end) __attribute__((always_inline)) {
    for (; i < end; i += N) put<U>(out + i * b.step, element(i, end - i < N ? end - i : N), end - i < N ? end - i : N, b.step);
    i = end;
  };
  if constexpr (std::is_same_v<Acc<U>, A>) {
    if (b.step == 1) {
      const bool past = b.past && b.m >= 2 * N;
      if (past) put_up_to(head_of<U, N>(out));
      for (; i + 2 * N <= b.m; i += 2 * N) store_twice_rounded<U, N>(out + i, element(i, N), element(i + N, N), past);
    }
  }
  put_up_to(b.m);
}
template <SoftmaxFinish F, class A, class U> void finish_rows(const SoftmaxBlock& b) {
  for (int c = 0; c < b.count; ++c)
    if (F == SoftmaxFinish::value && at<A>(b.max, c) != 1) finish_row<F, false, A, U>(b, c);
    else finish_row<F, true, A, U>(b, c);
  if (b.past) store_past_fence();
}

// A chunk whose sum is known: its maximum, and then what finish makes of it, from memory to memory. The steps are 1.
template <class T, bool kNegate, SoftmaxFinish F> void again_rows(const SoftmaxBlock& b) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Full<A>;
  for (int c = 0; c < b.count; ++c) {
    const T* x = static_cast<const T*>(b.in) + c * b.pitch;
    T* y = static_cast<T*>(b.out) + c * b.pitch;
    const char* next = static_cast<const char*>(b.next) + c * b.next_line;
    auto value = [&](int i, int count) __attribute__((always_inline)) {
      const V v = count == N ? load<N>(x + i) : load_tail<N>(x + i, count & (N - 1), kNegate ? kInf : -kInf);
      return kNegate ? -v : v;
    };
    V top[4] = {-kInf, -kInf, -kInf, -kInf};
    int i = 0;
    if constexpr (F == SoftmaxFinish::value) {
      for (; i + 4 * N <= b.m; i += 4 * N)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) top[k] = larger(value(i + k * N, N), top[k]);
      for (; i < b.m; i += N) top[0] = larger(value(i, b.m - i < N ? b.m - i : N), top[0]);
    }
    const V base = softmax::base(Pack<A, 1>::of(top_lane(larger(larger(top[0], top[1]), larger(top[2], top[3]))))).v;
    const V sum = double(at<A>(b.sum, c)), max = double(at<A>(b.max, c));
    auto element = [&](int i, int count) __attribute__((always_inline)) {
      __builtin_prefetch(next + i * b.next_step, 0, 2);
      const V v = value(i, count);
      return finished<F, false>(F == SoftmaxFinish::value ? exp_up_for<T>(v - base) : v, v, max, sum, V(1));
    };
    auto put_up_to = [&](int end) __attribute__((always_inline)) {
      for (; i < end; i += N) put<T>(y + i, element(i, end - i < N ? end - i : N), end - i < N ? end - i : N, 1);
      i = end;
    };
    i = 0;
    const bool past = b.past && b.m >= 2 * N;
    if (past) put_up_to(head_of<T, N>(y));
    for (; i + 2 * N <= b.m; i += 2 * N) {
      const V first = element(i, N);
      store_twice_rounded<T, N>(y + i, first, element(i + N, N), past);
    }
    put_up_to(b.m);
  }
  if (b.past) store_past_fence();
}

// Rows of at most kSumLanes elements, as many at a time as a register has lanes: these share the folds of lanes and what a row's numbers are made of.
template <class T, bool kNegate, bool kLog, bool kFull> void short_rows_of(const SoftmaxBlock& b) {  // kFull: of kSumLanes
  using A = Acc<T>;
  constexpr int N = kLanes<A>, kMost = kSumLanes / N;
  using V = Full<A>;
  struct Largest { BARACUDA_HD static V of(V a, V b) { return larger(a, b); } };
  struct Sum { BARACUDA_HD static V of(V a, V b) { return a + b; } };
  const int m = kFull ? kSumLanes : b.m, packs = (m + N - 1) / N, last = m - (packs - 1) * N;
  const bool past = b.past && reinterpret_cast<uintptr_t>(b.out) % 64 == 0 && m * sizeof(T) % 64 == 0 && b.pitch * sizeof(T) % 64 == 0;
  alignas(64) A e[N][kSumLanes];
  for (int c = 0; c < b.count; c += N) {
    const int rows = b.count - c < N ? b.count - c : N;
    const T* const x = static_cast<const T*>(b.in) + c * b.pitch;
    T* const y = static_cast<T*>(b.out) + c * b.pitch;
    auto value = [&](int r, int k) __attribute__((always_inline)) {
      const T* const p = x + r * b.pitch + k * N;
      const V v = k + 1 < packs || last == N ? load<N>(p) : load_tail<N>(p, last & (N - 1), kNegate ? kInf : -kInf);
      return kNegate ? -v : v;
    };
    V row[N];
    for (int r = 0; r < N; ++r) {
      row[r] = -kInf;
      for (int k = 0; r < rows && k < packs; ++k) row[r] = larger(value(r, k), row[r]);
    }
    const V top = fold_registers<Largest>(row), base = softmax::base(top);
    alignas(64) A first_of[N], second_of[N];
    store<A, N>(first_of, base);
    for (int r = 0; r < N; ++r) {
      V sum[kMost];
      const V own = double(first_of[r]);
      const char* const next = reinterpret_cast<const char*>(x + (N + r) * b.pitch);
      for (int k = 0; k < m * int(sizeof(T)); k += 64) __builtin_prefetch(next + k);
#pragma GCC unroll 64
      for (int k = 0; k < kMost; ++k) {
        sum[k] = -0.0;
        if (r >= rows || k >= packs) continue;
        sum[k] = exp_up_for<T>(value(r, k) - own);
        if constexpr (!kLog) store<A, N>(e[r] + k * N, sum[k]);
      }
#pragma GCC unroll 64
      for (int w = kMost / 2; w; w /= 2)
#pragma GCC unroll 64
        for (int k = 0; k < w; ++k) sum[k] += sum[k + w];
      row[r] = sum[0];
    }
    const V all = fold_registers<Sum>(row);
    bool once = true;
    if constexpr (kLog) store<A, N>(first_of, top), store<A, N>(second_of, softmax::log_sum(top, all));
    else {
      V first, second;
      softmax::factor(top, softmax::weight(top, base), all, b.safe, first, second);
      store<A, N>(first_of, first), store<A, N>(second_of, second);
      once = baracuda::all(second == 1);
    }
    for (int r = 0; r < rows; ++r) {
      const V first = double(first_of[r]), second = double(second_of[r]);
      auto element = [&](int k) __attribute__((always_inline)) {
        if constexpr (kLog) return softmax::log_value(value(r, k), first, second);
        const V v = load<N>(e[r] + k * N);
        return once ? v * first : softmax::value(v, first, second);
      };
      T* const to = y + r * b.pitch;
      int k = 0;
      for (; (k + 2) * N <= m; k += 2) store_twice_rounded<T, N>(to + k * N, element(k), element(k + 1), past);
      for (; k < packs; ++k) put<T>(to + k * N, element(k), k + 1 < packs ? N : last, 1);
    }
  }
  if (past) store_past_fence();
}
template <class T, bool kNegate, bool kLog> void short_rows(const SoftmaxBlock& b) {
  b.m == kSumLanes ? short_rows_of<T, kNegate, kLog, true>(b) : short_rows_of<T, kNegate, kLog, false>(b);
}

// What scale and mask make of the buffer. The padding of rows stays what it was.
template <class A, bool kGradient> BARACUDA_HD A adjusted(A x, A scale, bool keep) { return keep ? kGradient ? x : x * scale : kGradient ? A(0) : A(-kInf); }
template <class A, bool kGradient> void adjust_rows(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>;
  const A scale = A(b.scale);
  for (int c = 0; c < b.count; ++c) {
    A* const __restrict x = buffer_of<A>(b, 0, c);
    const uint8_t* const mask = static_cast<const uint8_t*>(b.mask) + c * b.mask_pitch;
    auto all = [&](auto keep) __attribute__((always_inline)) {
      for (int i = 0; i < b.m; ++i) x[i] = adjusted<A, kGradient>(x[i], scale, keep(i));
    };
    if (!b.mask) all([](int) { return true; });
    else if (b.mask_step == 1) all([&](int i) { return mask[i] != 0; });
    else all([&](int i) { return mask[i * b.mask_step] != 0; });
    if constexpr (!kGradient) {
      Full<A> top = -kInf;
      for (int i = 0; i < b.m; i += N) top = larger(load<N>(x + i), top);
      static_cast<A*>(b.max)[c] = top_lane(top);
    }
  }
}
template <class A, bool kGradient> void adjust_columns(const SoftmaxBlock& b) {
  const A scale = A(b.scale);
  A top[kTile<A>];
  for (A& t : top) t = A(-kInf);
  for (int r = 0; r < b.m; ++r) {
    A* const __restrict x = static_cast<A*>(b.buffer[0]) + r * kTile<A>;
    const uint8_t* const mask = static_cast<const uint8_t*>(b.mask) + r * b.mask_step;
    for (int c = 0; c < b.count; ++c) {
      x[c] = adjusted<A, kGradient>(x[c], scale, !b.mask || mask[c * b.mask_pitch] != 0);
      top[c] = x[c] > top[c] ? x[c] : top[c];
    }
  }
  for (int c = 0; !kGradient && c < b.count; ++c) static_cast<A*>(b.max)[c] = top[c];
}

// --- columns: a row of the block is one tile
template <class T, class A, bool kNegate> void load_columns(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>, P = kTilePacks<A>;
  using V = Full<A>;
  V top[P];
  for (V& t : top) t = -kInf;
  auto take = [&](V v, A* to, V& t) __attribute__((always_inline)) {
    if constexpr (kNegate) v = -v;
    store<A, N>(to, v);
    t = larger(v, t);
  };
  bool packs = false;
  if constexpr (std::is_same_v<Acc<T>, A>) packs = b.pitch == 1;
  for (int r = 0; r < b.m; ++r) {
    const T* x = static_cast<const T*>(b.in) + r * b.step;
    A* to = static_cast<A*>(b.buffer[0]) + r * kTile<A>;
    if (packs) {
      if constexpr (std::is_same_v<Acc<T>, A>) {
        if (b.count == kTile<A>)
          for (int k = 0; k < P; ++k) take(load<N>(x + k * N), to + k * N, top[k]);
        else
          for (int k = 0; k < P; ++k) {
            const int left = b.count - k * N;
            take(left >= N ? load<N>(x + k * N) : left > 0 ? load_tail<N>(x + k * N, left & (N - 1)) : V(0), to + k * N, top[k]);
          }
      }
    } else {
      for (int j = 0; j < b.count; ++j) to[j] = widened<A>(x[j * b.pitch]);
      for (int j = b.count; j < kTile<A>; ++j) to[j] = 0;
      for (int k = 0; k < P; ++k) take(load<N>(to + k * N), to + k * N, top[k]);
    }
  }
  for (int k = 0; k < P; ++k)
    if (const int left = b.count - k * N; left > 0) put<A>(static_cast<A*>(b.max) + k * N, top[k], left < N ? left : N, 1);
}
// f(r, k, acc) adds row r, pack k to the lane; the lanes are folded as in lane_sum.hpp.
template <class A, class F> BARACUDA_HD void sum_columns(const SoftmaxBlock& b, const F& f) {
  constexpr int N = kLanes<A>, P = kTilePacks<A>;
  using V = Full<A>;
  alignas(64) A lane[kSumLanes][kTile<A>];
  const int used = b.m < kSumLanes ? b.m : kSumLanes;  // the other lanes are -0, which changes nothing
  for (int l = 0; l < used; ++l)
    for (int k = 0; k < P; ++k) store<A, N>(lane[l] + k * N, V(-0.0));
  for (int r = 0; r < b.m; ++r)
    for (int k = 0; k < P; ++k) {
      A* l = lane[r % kSumLanes] + k * N;
      store<A, N>(l, f(r, k, load<N>(l)));
    }
  for (int w = kSumLanes / 2; w; w /= 2)
    for (int l = 0; l < w && l + w < used; ++l)
      for (int k = 0; k < P; ++k) store<A, N>(lane[l] + k * N, load<N>(lane[l] + k * N) + load<N>(lane[l + w] + k * N));
  for (int j = 0; j < b.count; ++j) static_cast<A*>(b.sum)[j] = lane[0][j];
}
template <class A> BARACUDA_HD void get_tile(const void* line, int count, Full<A> (&v)[kTilePacks<A>]) {
  constexpr int N = kLanes<A>;
  for (int k = 0; k < kTilePacks<A>; ++k)
    v[k] = count - k * N <= 0 ? Full<A>(0) : get<A, N>(static_cast<const A*>(line) + k * N, count - k * N < N ? count - k * N : N);
}
template <class T, class A, bool kKeep> void exp_sum_columns(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>;
  Full<A> base[kTilePacks<A>];
  get_tile<A>(b.max, b.count, base);
  for (auto& e : base) e = softmax::base(e);
  const char* next = static_cast<const char*>(b.next);
  sum_columns<A>(b, [&](int r, int k, Full<A> acc) __attribute__((always_inline)) {
    A* x = static_cast<A*>(b.buffer[0]) + r * kTile<A> + k * N;
    __builtin_prefetch(next + r * b.next_step + k * N * b.next_line, 0, 2);
    const Full<A> e = exp_up_for<T>(load<N>(x) - base[k]);
    if constexpr (kKeep) store<A, N>(x, e);
    return acc + e;
  });
}
template <class A, bool kPlain> void sum_products_columns(const SoftmaxBlock& b) {
  constexpr int N = kLanes<A>;
  sum_columns<A>(b, [&](int r, int k, Full<A> acc) __attribute__((always_inline)) {
    const int64_t i = r * kTile<A> + k * N;
    const Full<A> x = load<N>(static_cast<const A*>(b.buffer[0]) + i);
    if constexpr (kPlain) return acc + x;
    else return fma(x, load<N>(static_cast<const A*>(b.buffer[1]) + i), acc);
  });
}
template <SoftmaxFinish F, bool kOnce, class A, class U> void finish_tile(const SoftmaxBlock& b, const Full<A>* max, const Full<A>* sum) {
  constexpr int N = kLanes<A>, P = kTilePacks<A>;
  using V = Full<A>;
  const V sign = b.sign;
  const bool whole = b.pitch == 1 && b.count == kTile<A>;
  const bool past = whole && b.past && (uintptr_t(b.out) | uintptr_t(b.step) * sizeof(U)) % (kTogether<U, N> * sizeof(U)) == 0;
  for (int r = 0; r < b.m; ++r) {
    U* out = static_cast<U*>(b.out) + r * b.step;
    auto element = [&](int k) __attribute__((always_inline)) {
      const int64_t i = r * kTile<A> + k * N;
      const V v = load<N>(static_cast<const A*>(b.buffer[0]) + i);
      return finished<F, kOnce>(v, kBackward<F> ? load<N>(static_cast<const A*>(b.buffer[1]) + i) : v, max[k], sum[k], sign);
    };
    if constexpr (std::is_same_v<Acc<U>, A> && P % 2 == 0)
      if (whole) {
        for (int k = 0; k < P; k += 2) store_twice_rounded<U, N>(out + k * N, element(k), element(k + 1), past);
        continue;
      }
    for (int k = 0; k < P && k * N < b.count; ++k) put<U>(out + k * N * b.pitch, element(k), b.count - k * N < N ? b.count - k * N : N, b.pitch);
  }
  if (past) store_past_fence();
}
template <SoftmaxFinish F, class A, class U> void finish_columns(const SoftmaxBlock& b) {
  constexpr int P = kTilePacks<A>;
  Full<A> max[P], sum[P];
  get_tile<A>(b.sum, b.count, sum);
  for (auto& m : max) m = 1;
  if constexpr (!kBackward<F>) get_tile<A>(b.max, b.count, max);
  if constexpr (F == SoftmaxFinish::value)
    for (int c = 0; c < b.count; ++c)
      if (at<A>(b.max, c) != 1) return finish_tile<F, false, A, U>(b, max, sum);
  finish_tile<F, true, A, U>(b, max, sum);
}

// --- chunks
// f(line, lanes used) for the lines of a join, a pack at a time.
template <class A, class F> BARACUDA_HD void each_line(const SoftmaxJoin& p, F f) {
  constexpr int N = kLanes<A>;
  for (int64_t i = 0; i < p.count; i += N) f(i, p.count - i < N ? int(p.count - i) : N);
}
template <class A, bool kLog> void join(const SoftmaxJoin& p) {
  constexpr int N = kLanes<A>;
  using V = Full<A>;
  A *max = static_cast<A*>(p.max), *sum = static_cast<A*>(p.sum);
  each_line<A>(p, [&](int64_t i, int count) __attribute__((always_inline)) {
    V top = -kInf;
    for (int64_t c = 0; c < p.chunks; ++c) top = larger(get<A, N>(max + c * p.pitch + i, count), top);
    const V base = softmax::base(top);
    auto weight = [&](int64_t c) __attribute__((always_inline)) {  // of the only chunk, if it has a finite maximum, exp_up(0)
      return p.chunks == 1 ? where(abs(top) < kInf, V(1 / softmax::kDown<V>), V(kNaN)) : softmax::weight(get<A, N>(max + c * p.pitch + i, count), base);
    };
    const V all = p.chunks == 1 ? get<A, N>(sum + i, count) : sum_pairs<V>(p.chunks, [&](int64_t c) __attribute__((always_inline)) {
      return get<A, N>(sum + c * p.pitch + i, count) * (weight(c) * softmax::kDown<V>);
    });
    if constexpr (kLog) {
      const V log_sum = softmax::log_sum(top, all);
      for (int64_t c = 0; c < p.chunks; ++c) {
        put<A>(max + c * p.pitch + i, top, count, 1);
        put<A>(sum + c * p.pitch + i, log_sum, count, 1);
      }
    } else {
      for (int64_t c = 0; c < p.chunks; ++c) {
        V first, second;
        softmax::factor(top, weight(c), all, p.safe, first, second);
        put<A>(sum + c * p.pitch + i, first, count, 1);
        put<A>(max + c * p.pitch + i, second, count, 1);
      }
    }
  });
}
template <class A> void join_sums(const SoftmaxJoin& p) {
  constexpr int N = kLanes<A>;
  A* sum = static_cast<A*>(p.sum);
  each_line<A>(p, [&](int64_t i, int count) __attribute__((always_inline)) {
    const Full<A> all = sum_pairs<Full<A>>(p.chunks, [&](int64_t c) __attribute__((always_inline)) { return get<A, N>(sum + c * p.pitch + i, count); });
    for (int64_t c = 0; c < p.chunks; ++c) put<A>(sum + c * p.pitch + i, all, count, 1);
  });
}

template <SoftmaxLay L, class T, class A> constexpr SoftmaxPass load_pass() {
  if constexpr (sizeof(Acc<T>) > sizeof(A)) return nullptr;
  else if constexpr (L == SoftmaxLay::rows) return [](const SoftmaxBlock& b) { b.negate ? load_rows<T, A, true>(b) : load_rows<T, A, false>(b); };
  else return [](const SoftmaxBlock& b) { b.negate ? load_columns<T, A, true>(b) : load_columns<T, A, false>(b); };
}
template <SoftmaxLay L, SoftmaxFinish F, class A, class U> constexpr SoftmaxPass finish_pass() {
  if constexpr (sizeof(Acc<U>) > sizeof(A) || (!kBackward<F> && !std::is_same_v<Acc<U>, A>)) return nullptr;
  else if constexpr (F == SoftmaxFinish::log_slope_of_halves && !(kIsHalf<U> && std::is_same_v<A, float>)) return nullptr;
  else if constexpr (L == SoftmaxLay::rows) return &finish_rows<F, A, U>;
  else return &finish_columns<F, A, U>;
}
using Computing = TypeList<float, double>;
template <SoftmaxLay L, SoftmaxFinish F> constexpr ByDType<ByDType<SoftmaxPass>> finishes() {
  return by_dtype<ByDType<SoftmaxPass>>(Computing{}, []<class A>() {
    return by_dtype<SoftmaxPass>(Floating{}, []<class U>() { return finish_pass<L, F, A, U>(); });
  });
}
template <SoftmaxLay L, class Table> constexpr void fill(Table& t) {
  constexpr bool rows = L == SoftmaxLay::rows;
  t.load = by_dtype<ByDType<SoftmaxPass>>(Floating{}, []<class T>() {
    return by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return load_pass<L, T, A>(); });
  });
  t.adjust[0] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &adjust_rows<A, false> : &adjust_columns<A, false>; });
  t.adjust[1] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &adjust_rows<A, true> : &adjust_columns<A, true>; });
  t.exp_sum[0] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &exp_sum_rows<A, A, false> : &exp_sum_columns<A, A, false>; });
  t.exp_sum_of_halves[0] = by_dtype<SoftmaxPass>(TypeList<f16, bf16>{}, []<class T>() { return rows ? &exp_sum_rows<T, float, false> : &exp_sum_columns<T, float, false>; });
  t.exp_sum[1] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &exp_sum_rows<A, A, true> : &exp_sum_columns<A, A, true>; });
  t.exp_sum_of_halves[1] = by_dtype<SoftmaxPass>(TypeList<f16, bf16>{}, []<class T>() { return rows ? &exp_sum_rows<T, float, true> : &exp_sum_columns<T, float, true>; });
  t.sum[0] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &sum_rows<A, false> : &sum_products_columns<A, false>; });
  t.sum[1] = by_dtype<SoftmaxPass>(Computing{}, []<class A>() { return rows ? &sum_rows<A, true> : &sum_products_columns<A, true>; });
  t.finish[0] = finishes<L, SoftmaxFinish::value>();
  t.finish[1] = finishes<L, SoftmaxFinish::log_value>();
  t.finish[2] = finishes<L, SoftmaxFinish::slope>();
  t.finish[3] = finishes<L, SoftmaxFinish::log_slope>();
  t.finish[4] = finishes<L, SoftmaxFinish::log_slope_of_halves>();
  if constexpr (rows) {
    t.again[0] = by_dtype<SoftmaxPass>(Floating{}, []<class T>() -> SoftmaxPass {
      return [](const SoftmaxBlock& b) { b.negate ? again_rows<T, true, SoftmaxFinish::value>(b) : again_rows<T, false, SoftmaxFinish::value>(b); };
    });
    t.again[1] = by_dtype<SoftmaxPass>(Floating{}, []<class T>() -> SoftmaxPass { return &again_rows<T, false, SoftmaxFinish::log_value>; });
  }
}
constexpr SoftmaxKernels make() {
  SoftmaxKernels k{};
  fill<SoftmaxLay::rows>(k.lay[0]);
  fill<SoftmaxLay::columns>(k.lay[1]);
  k.short_rows[0] = by_dtype<SoftmaxPass>(Floating{}, []<class T>() -> SoftmaxPass {
    if constexpr (kLanes<Acc<T>> == 1) return nullptr;
    else return [](const SoftmaxBlock& b) { b.negate ? short_rows<T, true, false>(b) : short_rows<T, false, false>(b); };
  });
  k.short_rows[1] = by_dtype<SoftmaxPass>(Floating{}, []<class T>() -> SoftmaxPass {
    if constexpr (kLanes<Acc<T>> == 1) return nullptr;
    else return &short_rows<T, false, true>;
  });
  using Join = void (*)(const SoftmaxJoin&);
  k.join = by_dtype<Join>(Computing{}, []<class A>() { return &join<A, false>; });
  k.join_log = by_dtype<Join>(Computing{}, []<class A>() { return &join<A, true>; });
  k.join_sums = by_dtype<Join>(Computing{}, []<class A>() { return &join_sums<A>; });
  return k;
}

}  // namespace
extern constexpr SoftmaxKernels softmax_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
