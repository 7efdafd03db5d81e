// RmsNorm rows. Forward: h = x + residual, y = h rstd w'; reads x (and residual), writes y (and h). Backward: reads dy, x
// (and dresidual_out), writes dx. The floor is memory bandwidth: a row is read twice, the second time from the caches.
// A row is one worker's. The order of its sums depends on n alone, so its bits do not depend on vector width or threads.
#include <utility>
#include "baracuda/ops/norm/norm_cpu.hpp"
#include "baracuda/ops/norm/norm_rows.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T, int N> BARACUDA_HD Pack<Acc<T>, N> rounded_to(Pack<Acc<T>, N> v) {
  if constexpr (!kIsHalf<T>) return v;
  else if constexpr (!kIsF16<T>) return Pack<float, N>::from_bits(half_bits<T>(v) << 16);
  else {
    alignas(64) T buffer[N];
    store<T, N>(buffer, v);
    return load<N>(buffer);
  }
}

template <int M, int N> BARACUDA_HD void add_wide(Pack<double, M>* sum, Pack<float, N> t) {
  if constexpr (N == 1) sum[0] = sum[0] + convert<double>(t);
  else {
    const auto wide = widen(t);
    sum[0] = sum[0] + wide.low, sum[1] = sum[1] + wide.high;
  }
}
// Sums of products over a row. f32: 64 lanes take eight products each in f32, then they are folded to 16 and added in f64:
// at most ten roundings in f32 on the way of any product. f64: 32 lanes in f64.
template <class T, class A = Acc<T>> struct RowSum;
template <class T> struct RowSum<T, float> {
  static constexpr int N = kLanes<float>, kLanesUsed = 64, kBlock = 8 * kLanesUsed, kPacks = kLanesUsed / N;
  static constexpr int M = kLanes<double>, kSums = 16 / M;
  using V = Pack<float, N>;
  V lane[kPacks];
  Pack<double, M> sum[kSums];
  BARACUDA_HD RowSum() {
    for (auto& s : sum) s = 0;
    for (auto& l : lane) l = 0;
  }
  BARACUDA_HD void add(int k, V a, V b) { lane[k] = fma(a, b, lane[k]); }
  BARACUDA_HD void end_block() {
    V half[kPacks / 2];
    for (int k = 0; k < kPacks / 2; ++k) half[k] = lane[k] + lane[k + kPacks / 2];
    put_in_order<T>(half);
    for (int k = 0; k < 16 / N; ++k) add_wide(sum + k * N / M, half[k] + half[k + kPacks / 4]);
    for (auto& l : lane) l = 0;
  }
  BARACUDA_HD double total() {
    for (int w = kSums / 2; w; w /= 2)
      for (int k = 0; k < w; ++k) sum[k] = sum[k] + sum[k + w];
    return fold_register<M / 2>(sum[0]);
  }
};
template <class T> struct RowSum<T, double> {
  static constexpr int N = kLanes<double>, kLanesUsed = 32, kBlock = 8 * kLanesUsed, kPacks = kLanesUsed / N;
  using V = Pack<double, N>;
  V lane[kPacks];
  BARACUDA_HD RowSum() { for (auto& l : lane) l = 0; }
  BARACUDA_HD void add(int k, V a, V b) { lane[k] = fma(a, b, lane[k]); }
  BARACUDA_HD void end_block() {}
  BARACUDA_HD double total() {
    for (int w = kPacks / 2; w; w /= 2)
      for (int k = 0; k < w; ++k) lane[k] = lane[k] + lane[k + w];
    return fold_register<N / 2>(lane[0]);
  }
};
// What is done beside a sum, line by line: nothing, or what comes a little later in the row is fetched.
struct Nothing { template <class P> BARACUDA_HD void operator()(P, int64_t, int) const {} };
struct Near : Nothing {};
template <class Beside> constexpr bool kAlone = std::is_base_of_v<Nothing, Beside>;

template <class Beside> BARACUDA_HD auto later_by(int64_t first, const Beside& beside) {
  if constexpr (kAlone<Beside>) return beside;
  else return [&, first](auto packs, int64_t i, int count) __attribute__((always_inline)) { beside(packs, first + i, count); };
}
// Adds to sums[r] that of f's products over the r-th of R rows: f(r, first element, elements, a, b) gives the two factors of packs side by side, beside()
// does what goes with their line. The place of a lane is a constant in every call, so that lanes stay in registers.
template <class T, int R, class F, class Beside, int... L, int... K>
BARACUDA_HD void sum_products(int64_t n, F f, const Beside& beside, double (&sums)[R], std::integer_sequence<int, L...>, std::integer_sequence<int, K...>) {
  using S = RowSum<T>;
  constexpr int N = S::N, P = kPacksOfLine<T>, Q = kTogether<T>;
  S s[R];
  auto add = [&]<int W>(std::integral_constant<int, W>, int64_t i, int k, int count) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Pack<Acc<T>, N> a[W], b[W];
      f(r, i, count, a, b);
      for (int q = 0; q < W; ++q) s[r].add(k + q, a[q], b[q]);
    }
  };
  auto end_block = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) s[r].end_block();
  };
  constexpr std::integral_constant<int, P> line;
  constexpr std::integral_constant<int, Q> together;
  int64_t i = 0;
  if constexpr (N == 1) {  // unrolled 64 times, the portable unit took minutes to compile
    for (; i < n; ++i) {
      add(line, i, int(i % S::kLanesUsed), 1);
      if ((i + 1) % S::kBlock == 0) end_block();
    }
  } else {
    for (; i + S::kLanesUsed <= n; i += S::kLanesUsed) {
      ((add(line, i + L * P * N, L * P, P * N), beside(line, i + L * P * N, P * N)), ...);
      if ((i + S::kLanesUsed) % S::kBlock == 0) end_block();
    }
    ((i + K * Q * N < n ? add(together, i + K * Q * N, K * Q, n - i - K * Q * N < Q * N ? int(n - i - K * Q * N) : Q * N) : void()), ...);
    if constexpr (!kAlone<Beside>)
      each_dealt_line<T>(n - i, [&](auto packs, int64_t at, int count) __attribute__((always_inline)) { beside(packs, i + at, count); });
  }
  end_block();
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] += s[r].total();
}
// By pieces, which are added in order.
template <class T, int R, class F, class Beside> BARACUDA_HD void sum_products(int64_t n, F f, const Beside& beside, double (&sums)[R]) {
  constexpr int packs = RowSum<T>::kPacks;
  for (double& sum : sums) sum = 0;
  for (int64_t first = 0; first < n; first += kRowPiece)
    sum_products<T>(n - first < kRowPiece ? n - first : kRowPiece,
                    [&](int r, int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) { f(r, first + i, count, a, b); },
                    later_by(first, beside), sums, std::make_integer_sequence<int, packs / kPacksOfLine<T>>{},
                    std::make_integer_sequence<int, packs / kTogether<T>>{});
}
// 1 / sqrt(mean(h^2) + eps) from the sum of squares, when that is in range for its type. If not, the row is summed again: f32
// in f64, f64 times a power of two.
template <class T> BARACUDA_HD double inverse_rms(double sum, const T* h, int64_t n, double eps) {
  constexpr bool kF64 = sizeof(T) == 8;
  const double high = kF64 ? 0x1p1000 : 0x1p120, low = (kF64 ? 0x1p-900 : 0x1p-90) * double(n), small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  if (sum < high && (sum > low || eps > small_eps)) return 1 / __builtin_sqrt(sum / double(n) + eps);
  const double scale = !kF64 ? 1 : sum < 1 ? 0x1p600 : 0x1p-600;
  double s = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = to_double(h[i]) * scale;
    s += v * v;
  }
  return scale / __builtin_sqrt(s / double(n) + eps * scale * scale);
}

// R rows side by side, the k-th of them `row` + k `step`; `left` such groups are to be written, each a row behind the one before.
struct Together {
  int64_t row, step, left;
  int64_t of(int k) const { return row + k * step; }
  Together later(int64_t groups) const { return {row + groups, step, left - groups}; }
};
template <class T, int R, class Beside> BARACUDA_HD void sums_of_squares(const T* const (&x)[R], int64_t n, const Beside& beside, double (&sums)[R]) {
  sum_products<T>(n, [&](int r, int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(x[r] + i);
    get_dealt<T>(a, x[r] + i, count), get_dealt<T>(b, x[r] + i, count);
  }, beside, sums);
}
// Of g and xhat, not of g and x: xhat is near 1 for any x.
template <class T, class A, class Beside> BARACUDA_HD double dot_of_gradient(const T* dy, const A* w, const T* x, A rstd, int64_t n, const Beside& beside) {
  const Pack<A, kLanes<A>> scale = double(rstd);
  double sum[1];
  sum_products<T>(n, [&]<int P>(int, int64_t i, int count, auto (&g)[P], auto& xhat) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(dy + i), fetch_near(x + i);
    Pack<A, kLanes<A>> weight[P];
    get_beside<T>(weight, w + i, count), get_dealt<T>(g, dy + i, count), get_dealt<T>(xhat, x + i, count);
    for (int k = 0; k < P; ++k) g[k] = g[k] * weight[k], xhat[k] = xhat[k] * scale;
  }, beside, sum);
  return sum[0];
}

// h of the second pass, where it is not x: stored where the caller wants it, else in y (which may be x or residual).
template <class T> T* kept_of(const RmsNormRows& p, int64_t r) {
  return p.residual_out ? static_cast<T*>(p.residual_out) + r * p.residual_out_pitch : static_cast<T*>(p.y) + r * p.y_pitch;
}
template <class T, bool kResidual, int R, class Beside> BARACUDA_HD void squares(const RmsNormRows& p, const Together& t, const Beside& beside, double (&sums)[R]) {
  const T *x[R], *residual[R];
  T* kept[R];
  for (int r = 0; r < R; ++r) {
    x[r] = static_cast<const T*>(p.x) + t.of(r) * p.x_pitch;
    if constexpr (kResidual) residual[r] = static_cast<const T*>(p.residual) + t.of(r) * p.residual_pitch, kept[r] = kept_of<T>(p, t.of(r));
  }
  if constexpr (!kResidual) return sums_of_squares(x, p.n, beside, sums);
  else sum_products<T>(p.n, [&]<int P, class V>(int r, int64_t i, int count, V (&a)[P], V (&b)[P]) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(x[r] + i), fetch_near(residual[r] + i);
    get_dealt<T>(a, x[r] + i, count), get_dealt<T>(b, residual[r] + i, count);
    for (int k = 0; k < P; ++k) a[k] = a[k] + b[k];
    put_dealt<T>(kept[r] + i, a, count, false);
    get_dealt<T>(a, kept[r] + i, count), get_dealt<T>(b, kept[r] + i, count);
  }, beside, sums);
}
// Sums of rows alone, once for all that calls them.
template <class T, bool kResidual, class Beside> __attribute__((noinline)) double squares_alone(const RmsNormRows& p, int64_t r) {
  double sum[1];
  squares<T, kResidual>(p, Together{r, 0, 0}, Beside(), sum);
  return sum[0];
}
template <class T, class Beside> __attribute__((noinline)) double sum_of_squares_alone(const T* x, int64_t n) {
  double sum[1];
  sums_of_squares({x}, n, Beside(), sum);
  return sum[0];
}
template <class T, class Beside, class A> __attribute__((noinline)) double dot_alone(const T* dy, const A* w, const T* x, A rstd, int64_t n) {
  return dot_of_gradient(dy, w, x, rstd, n, Beside());
}
// What the second pass takes of a row.
template <class A> struct Summed { A rstd, minus_mean; };
// Rows of up to kBesideBytes are summed line by line beside another that is written: arithmetic and memory are busy all the time then. Where rows
// are short one more lies between the two, so that nothing waits for the end of a sum.
constexpr int64_t kBesideBytes = 65536, kShortBytes = 4096, kFetchedBeside = 2048;
template <class T> int rows_later(int64_t n) {
  const int64_t bytes = n * int64_t(sizeof(T));
  return kLanes<Acc<T>> == 1 || bytes > kBesideBytes ? 0 : bytes > kShortBytes ? 1 : 2;
}
// Short rows of 16 or 8 lanes go four at a time: what ends a row is shared, and the processor has more lines under way. Gradients do not: with neighbours, two
// or four at a time, which keep the order of dweight, they are slower.
constexpr int kSideBySide = BARACUDA_VECTOR_BYTES == 64 ? 4 : 1;
template <class T> bool go_side_by_side(int64_t rows, int64_t n) { return n * int64_t(sizeof(T)) <= kShortBytes && rows >= 2 * kSideBySide; }
// sum(group, beside, that) makes what lines(group, that) takes to write lines of its rows.
template <class T, int R, class Sum, class Lines> BARACUDA_HD void each_group(int64_t n, const Together& all, Sum sum, Lines lines) {
  const int later = R > 1 ? 1 : rows_later<T>(n);
  Summed<Acc<T>> waiting[2][R];
  if (!later)
    for (int64_t g = 0; g < all.left; ++g) {
      sum(all.later(g), Near(), waiting[0]);
      each_dealt_line<T>(n, lines(all.later(g), waiting[0]));
    }
  else if constexpr (kLanes<Acc<T>> > 1) {
    for (int64_t g = 0; g < later && g < all.left; ++g) sum(all.later(g), Nothing(), waiting[g]);
    for (int64_t g = 0; g < all.left; ++g) {
      auto& summed = waiting[g & (later - 1)];
      const auto write = lines(all.later(g), summed);
      if (g + later < all.left) sum(all.later(g + later), write, summed);
      else each_dealt_line<T>(n, write);
    }
  }
}
// How many groups later than the one that is written rows are fetched.
template <class T, int R> int64_t groups_to_fetched(int64_t n, int64_t streams) {
  const int64_t later = R > 1 ? 1 : rows_later<T>(n), rows = R > 1 ? 1 : kFetchedBeside / (n * int64_t(sizeof(T)));
  return later ? later + (rows > 1 ? rows : 1) : rows_ahead<T>(n, 1, streams);
}
// The lines of P packs.
template <int P, class T> BARACUDA_HD void fetch_packs(const T* x) {
#pragma GCC unroll 8
  for (int b = 0; b < P * kLanes<Acc<T>> * int(sizeof(T)); b += 64) __builtin_prefetch(reinterpret_cast<const char*>(x) + b, 0, 3);
}

template <class T, bool kCastFirst, bool kResidual, int R> void forward_groups(const RmsNormRows& p, const Together& all) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const int64_t ahead = groups_to_fetched<T, R>(p.n, 1);
  const A* w = static_cast<const A*>(p.weight);
  const bool past = p.past;
  const auto h_of = [&](int64_t r) { return kResidual ? kept_of<T>(p, r) : static_cast<const T*>(p.x) + r * p.x_pitch; };
  const auto sum = [&](const Together& t, const auto& beside, Summed<A> (&out)[R]) __attribute__((always_inline)) {
    using Beside = std::remove_cvref_t<decltype(beside)>;
    double squared[R] = {};
    if (!p.known) {
      if constexpr (kAlone<Beside>)
        for (int r = 0; r < R; ++r) squared[r] = squares_alone<T, kResidual, Beside>(p, t.of(r));
      else squares<T, kResidual>(p, t, beside, squared);
    }
    for (int r = 0; r < R; ++r) {
      const A rstd = A(p.known ? p.known->rstd : inverse_rms<T>(squared[r], h_of(t.of(r)), p.n, p.eps));
      if (p.rstd) static_cast<A*>(p.rstd)[t.of(r) * p.rstd_pitch] = rstd;
      out[r] = {rstd, 0};
    }
  };
  each_group<T, R>(p.n, all, sum, [&](const Together& t, const Summed<A> (&summed)[R]) {
    const T *h[R], *next[R];
    T* y[R];
    V scale[R];
    for (int r = 0; r < R; ++r) {
      h[r] = h_of(t.of(r)), next[r] = row_to_fetch(static_cast<const T*>(p.x) + t.of(r) * p.x_pitch, p.x_pitch, ahead, t.left);
      y[r] = static_cast<T*>(p.y) + t.of(r) * p.y_pitch, scale[r] = double(summed[r].rstd);
    }
    return [=]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
      V v[P], weight[P];
      get_beside<T>(weight, w + i, count);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        get_dealt<T>(v, h[r] + i, count);
        fetch_packs<P>(next[r] + i);
#pragma GCC unroll 8
        for (int k = 0; k < P; ++k) {
          const V xhat = v[k] * scale[r];
          v[k] = (kCastFirst ? rounded_to<T>(xhat) : xhat) * weight[k];
        }
        put_dealt<T>(y[r] + i, v, count, past);
      }
    };
  });
}
// Rows side by side are a quarter of all rows apart.
template <class T, bool kCastFirst, bool kResidual> void forward_rows(const RmsNormRows& p) {
  int64_t done = 0;
  if constexpr (!kResidual && kSideBySide > 1)
    if (!p.known && go_side_by_side<T>(p.rows, p.n)) {
      const int64_t groups = p.rows / kSideBySide;
      forward_groups<T, kCastFirst, kResidual, kSideBySide>(p, {0, groups, groups});
      done = groups * kSideBySide;
    }
  forward_groups<T, kCastFirst, kResidual, 1>(p, {done, 0, p.rows - done});
}
template <class T> void forward(const RmsNormRows& p) {
  if (kIsHalf<T> && p.cast_first) p.residual ? forward_rows<T, kIsHalf<T>, true>(p) : forward_rows<T, kIsHalf<T>, false>(p);
  else p.residual ? forward_rows<T, false, true>(p) : forward_rows<T, false, false>(p);
  if (p.past) store_past_fence();
}

template <class T, bool kCastFirst, bool kResidual> void backward_rows(const RmsNormBackwardRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const int64_t ahead = groups_to_fetched<T, 1>(p.n, 2);
  const A* w = static_cast<const A*>(p.weight);
  A* dw = static_cast<A*>(p.dweight);
  const bool past = p.past;
  const auto dy_of = [&](int64_t r) { return static_cast<const T*>(p.dy) + r * p.dy_pitch; };
  const auto x_of = [&](int64_t r) { return static_cast<const T*>(p.x) + r * p.x_pitch; };
  const auto sum = [&](const Together& t, const auto& beside, Summed<A> (&out)[1]) __attribute__((always_inline)) {
    const int64_t r = t.row;
    const A rstd = A(p.known ? p.known->rstd : p.rstd ? static_cast<const A*>(p.rstd)[r * p.rstd_pitch] : A(inverse_rms<T>(sum_of_squares_alone<T, Nothing>(x_of(r), p.n), x_of(r), p.n, p.eps)));
    if (p.known) return (void)(out[0] = {rstd, A(-p.known->dot / double(p.known->n))});
    using Beside = std::remove_cvref_t<decltype(beside)>;
    double dot;
    if constexpr (kAlone<Beside>) dot = dot_alone<T, Beside>(dy_of(r), w, x_of(r), rstd, p.n);
    else dot = dot_of_gradient(dy_of(r), w, x_of(r), rstd, p.n, beside);
    out[0] = {rstd, A(-dot / double(p.n))};
  };
  each_group<T, 1>(p.n, {0, 0, p.rows}, sum, [&](const Together& t, const Summed<A> (&summed)[1]) {
    const int64_t r = t.row;
    const T *dy = dy_of(r), *x = x_of(r), *dh = kResidual ? static_cast<const T*>(p.dresidual_out) + r * p.dresidual_out_pitch : nullptr;
    const T *next_dy = row_to_fetch(dy, p.dy_pitch, ahead, t.left), *next_x = row_to_fetch(x, p.x_pitch, ahead, t.left);
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    const V scale = double(summed[0].rstd), minus_mean = double(summed[0].minus_mean);
    return [=]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
      V e[P], v[P], weight[P], dweight[P];
      get_dealt<T>(e, dy + i, count), get_dealt<T>(v, x + i, count), get_beside<T>(weight, w + i, count);
      fetch_packs<P>(next_dy + i), fetch_packs<P>(next_x + i);
      if (dw) get_beside<T>(dweight, dw + i, count);
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) {
        const V xhat = v[k] * scale;
        v[k] = fma(xhat, minus_mean, e[k] * weight[k]) * scale;
        dweight[k] = fma(e[k], kCastFirst ? rounded_to<T>(xhat) : xhat, dweight[k]);
      }
      if (dw) put_beside<T>(dw + i, dweight, count);
      if constexpr (kResidual) {
        get_dealt<T>(e, dh + i, count);
#pragma GCC unroll 8
        for (int k = 0; k < P; ++k) v[k] = v[k] + e[k];
      }
      put_dealt<T>(dx + i, v, count, past);
    };
  });
}
template <class T> void backward(const RmsNormBackwardRows& p) {
  if (kIsHalf<T> && p.cast_first) p.dresidual_out ? backward_rows<T, kIsHalf<T>, true>(p) : backward_rows<T, kIsHalf<T>, false>(p);
  else p.dresidual_out ? backward_rows<T, false, true>(p) : backward_rows<T, false, false>(p);
  if (p.past) store_past_fence();
}

template <class T> double dot(const RmsNormBackwardRows& p) {
  using A = Acc<T>;
  return dot_alone<T, Near>(static_cast<const T*>(p.dy), static_cast<const A*>(p.weight), static_cast<const T*>(p.x), A(p.known->rstd), p.n);
}

// f<rows' type>(packs, first element, elements) over a vector of n in A, beside dealt rows or others.
template <class A, class F> BARACUDA_HD void by_order(bool dealt, int64_t n, F f) {
  const auto go = [&]<class L>(L) __attribute__((always_inline)) {
    each_dealt_line<L>(n, [&]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
      Pack<A, kLanes<A>> v[P];
      f.template operator()<L>(v, i, count);
    });
  };
  if constexpr (std::is_same_v<A, float>)
    if (dealt) return go(bf16());
  go(A());
}
template <class A, class T> void fold(const NormFold& p) {
  constexpr int M = kLanes<double>, N = kLanes<A>;
  const A* partial = static_cast<const A*>(p.partial);
  T* out = static_cast<T*>(p.out);
  if constexpr (std::is_same_v<Acc<T>, A>)
    if (p.count == 1 && p.out_stride == 1) return by_order<A>(p.dealt, p.end - p.begin, [&]<class L, int P>(Pack<A, N> (&v)[P], int64_t i, int count) __attribute__((always_inline)) {
      get_beside<L>(v, partial + p.begin + i, count), put_in_order<L>(v);
      for (int k = 0; k < P; ++k) put<N>(out + p.begin + i + k * N, v[k] + Pack<A, N>(0), part_of<N>(count, k));
    });
  for (int64_t i = p.begin; i < p.end; i += M) {
    const int count = p.end - i < M ? int(p.end - i) : M;
    Pack<double, M> sum = 0;
    for (int64_t k = 0; k < p.count; ++k) sum = sum + convert<double>(get<M>(partial + k * p.n + i, count));
    for (int j = 0; j < count; ++j) out[(p.dealt ? dealt_element<N>(i + j, p.n) : i + j) * p.out_stride] = from_double<T>(sum.lane(j));
  }
}

template <class T, class A> void spread(const NormSpread& p) {
  constexpr int N = kLanes<A>;
  const T* weight = static_cast<const T*>(p.weight);
  A* out = static_cast<A*>(p.out);
  const double more = p.one_plus ? 1 : -0.0;  // -0 changes nothing
  if (p.stride != 1)
    for (int64_t i = 0; i < p.n; ++i) out[p.dealt ? dealt_place<N>(i, p.n) : i] = A(more) + A(to_double(weight[i * p.stride]));
  else
    by_order<A>(p.dealt, p.n, [&]<class L, int P>(Pack<A, N> (&v)[P], int64_t i, int count) __attribute__((always_inline)) {
      for (int k = 0; k < P; ++k) v[k] = convert<A>(get<N>(weight + i + k * N, part_of<N>(count, k))) + Pack<A, N>(more);
      deal<L>(v), put_beside<L>(out + i, v, count);
    });
}

constexpr NormKernels make() {
  return {by_dtype<void (*)(const RmsNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
          by_dtype<void (*)(const RmsNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; }),
          by_dtype<double (*)(const RmsNormRows&)>(Floating{}, []<class T>() { return +[](const RmsNormRows& p) { return p.residual ? squares_alone<T, true, Near>(p, 0) : squares_alone<T, false, Near>(p, 0); }; }),
          by_dtype<double (*)(const RmsNormBackwardRows&)>(Floating{}, []<class T>() { return &dot<T>; }),
          by_dtype<double (*)(double, const void*, int64_t, double)>(Floating{}, []<class T>() {
            return +[](double sum, const void* h, int64_t n, double eps) { return inverse_rms<T>(sum, static_cast<const T*>(h), n, eps); };
          }),
          by_dtype<void (*)(const NormFold&)>(Floating{}, []<class T>() { return &fold<float, T>; }),
          by_dtype<void (*)(const NormFold&)>(Floating{}, []<class T>() { return &fold<double, T>; }),
          by_dtype<void (*)(const NormSpread&)>(TypeList<f16, bf16, float>{}, []<class T>() { return &spread<T, float>; }),
          by_dtype<void (*)(const NormSpread&)>(TypeList<float, double>{}, []<class T>() { return &spread<T, double>; })};
}

}  // namespace
extern constexpr NormKernels norm_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
