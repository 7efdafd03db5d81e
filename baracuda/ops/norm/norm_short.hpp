#pragma once
// Sums over as many short rows at once as a register has lanes. A short row's sum is a chain of operations that ends in a fold of lanes
// and a few numbers in f64; here the folds of all rows share their operations, which are those of chunk_sum() for every row: the same
// bits. Elements are loaded in their own type.
#include "baracuda/host/lane_fold.hpp"
#include "baracuda/ops/norm/norm_rows.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int64_t kShortRow = 1024;
template <class T> inline constexpr int kShortRows = kLanes<Acc<T>>;  // at once, at most
template <class T> int64_t short_rows(int64_t n) { return n * kShortRows<T> > 8 * kShortRow ? 8 * kShortRow / n : kShortRows<T>; }  // what L1 holds

struct Added { template <class V> BARACUDA_HD static V of(V a, V b) { return a + b; } };
// K sums of each of `rows` rows of n elements; lane r of sums[j] is row r's. step(acc, row, i, count) adds `count` elements from i on.
template <class A, int K, class Step> BARACUDA_HD void short_sums(int rows, int64_t n, Pack<A, kLanes<A>> (&sums)[K], const Step& step) {
  constexpr int N = kLanes<A>, packs = kSumLanes / N;
  using V = Pack<A, N>;
  V total[K][N];
  for (int r = 0; r < N; ++r) {
    V acc[packs][K];
#pragma GCC unroll 64
    for (int k = 0; k < packs; ++k)
#pragma GCC unroll 8
      for (int j = 0; j < K; ++j) acc[k][j] = -0.0;
    if (r < rows) {
      int64_t i = 0;
      for (; i + kSumLanes <= n; i += kSumLanes)
#pragma GCC unroll 64
        for (int k = 0; k < packs; ++k) step(acc[k], r, i + k * N, N);
      if (i < n)
#pragma GCC unroll 64
        for (int k = 0; k < packs; ++k)
          if (i + k * N < n) step(acc[k], r, i + k * N, n - i - k * N < N ? int(n - i - k * N) : N);
    }
#pragma GCC unroll 64
    for (int w = packs / 2; w; w /= 2)
#pragma GCC unroll 64
      for (int k = 0; k < w; ++k)
#pragma GCC unroll 8
        for (int j = 0; j < K; ++j) acc[k][j] = acc[k][j] + acc[k + w][j];
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) total[j][r] = acc[0][j];
  }
#pragma GCC unroll 8
  for (int j = 0; j < K; ++j) sums[j] = fold_registers<Added>(total[j]);
}
// The first `count` lanes; the others are `fill`.
template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get_or(const T* p, int count, double fill) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1), fill);
}

// Of `rows` rows, at most kShortRows, a pitch apart.
template <class T> void short_statistics(const T* x, int64_t pitch, int rows, int64_t n, double eps, Statistics* found) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  if constexpr (N == 1) {
    A buffer[kShortRow];
    Chunks<T> chunks{x, nullptr, buffer};
    *found = statistics(n, eps, chunks);
  } else {
    using V = Pack<A, N>;
    V sum[1], sums[2];
    short_sums<A>(rows, n, sum, [&](V (&acc)[1], int r, int64_t i, int count) __attribute__((always_inline)) {
      acc[0] = acc[0] + get_or<N>(x + r * pitch + i, count, -0.0);
    });
    alignas(64) A shift[N];
    alignas(64) double rest[N], squares[N];
    const Pack<double, N> m = double(n);
    store<A, N>(shift, convert<A>(convert<double>(sum[0]) / m));
    short_sums<A>(rows, n, sums, [&](V (&acc)[2], int r, int64_t i, int count) __attribute__((always_inline)) {
      const V point = double(shift[r]), d = get_or<N>(x + r * pitch + i, count, double(shift[r])) - point;
      acc[0] = acc[0] + d, acc[1] = fma(d, d, acc[1]);
    });
    const Pack<double, N> mean = convert<double>(sums[0]) / m;
    store<double, N>(rest, mean), store<double, N>(squares, convert<double>(sums[1]) - m * (mean * mean));
    A buffer[kShortRow];
    for (int r = 0; r < rows; ++r) {
      Chunks<T> chunks{x + r * pitch, nullptr, buffer};
      found[r] = statistics_of({double(n), rest[r], squares[r]}, double(shift[r]), n, eps, chunks);
    }
  }
}
// The sums of gradient_sums() of `rows` rows: of dy, or dy w. Row r has the statistics s[r s_step].
template <bool kWeighted, class T>
void short_gradient_sums(const T* x, const T* dy, int64_t x_pitch, int64_t dy_pitch, const Acc<T>* w, int rows, int64_t n, const Statistics* s, int s_step,
                         GradientSums* found) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  if constexpr (N == 1) {
    A x_buffer[kShortRow], dy_buffer[kShortRow];
    Chunks<T> x_chunks{x, nullptr, x_buffer}, dy_chunks{dy, nullptr, dy_buffer};
    *found = gradient_sums<kWeighted>(x_chunks, dy_chunks, w, 0, n, s->shift, s->rstd);
  } else {
    using V = Pack<A, N>;
    V sums[3];
    short_sums<A>(rows, n, sums, [&](V (&acc)[3], int r, int64_t i, int count) __attribute__((always_inline)) {
      const double shift = s[r * s_step].shift;
      const V h = (get_or<N>(x + r * x_pitch + i, count, shift) - V(shift)) * V(s[r * s_step].rstd);
      V e = get_or<N>(dy + r * dy_pitch + i, count, -0.0);
      if constexpr (kWeighted) e = e * get_or<N>(w + i, count, 1);
      acc[0] = acc[0] + e, acc[1] = fma(e, h, acc[1]), acc[2] = acc[2] + h;
    });
    alignas(64) A e[N], eh[N], h[N];
    store<A, N>(e, sums[0]), store<A, N>(eh, sums[1]), store<A, N>(h, sums[2]);
    for (int r = 0; r < rows; ++r) found[r] = {double(e[r]), double(eh[r]), double(h[r])};
  }
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
