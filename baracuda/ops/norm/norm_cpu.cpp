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
// The sum of f's products over a row: f(first element, elements, a, b) gives the two factors of packs side by side, beside() does what goes with
// their line. The place of a lane is a constant in every call, so that lanes stay in registers.
template <class T, class F, class Beside, int... L, int... K>
BARACUDA_HD double sum_products(int64_t n, F f, const Beside& beside, std::integer_sequence<int, L...>, std::integer_sequence<int, K...>) {
  using S = RowSum<T>;
  constexpr int N = S::N, P = kPacksOfLine<T>, Q = kTogether<T>;
  S s;
  auto add = [&]<int W>(std::integral_constant<int, W>, int64_t i, int k, int count) __attribute__((always_inline)) {
    Pack<Acc<T>, N> a[W], b[W];
    f(i, count, a, b);
    for (int q = 0; q < W; ++q) s.add(k + q, a[q], b[q]);
  };
  constexpr std::integral_constant<int, P> line;
  constexpr std::integral_constant<int, Q> together;
  int64_t i = 0;
  if constexpr (N == 1) {  // unrolled 64 times, the portable unit took minutes to compile
    for (; i < n; ++i) {
      add(line, i, int(i % S::kLanesUsed), 1);
      if ((i + 1) % S::kBlock == 0) s.end_block();
    }
  } else {
    for (; i + S::kLanesUsed <= n; i += S::kLanesUsed) {
      ((add(line, i + L * P * N, L * P, P * N), beside(line, i + L * P * N, P * N)), ...);
      if ((i + S::kLanesUsed) % S::kBlock == 0) s.end_block();
    }
    ((i + K * Q * N < n ? add(together, i + K * Q * N, K * Q, n - i - K * Q * N < Q * N ? int(n - i - K * Q * N) : Q * N) : void()), ...);
    if constexpr (!kAlone<Beside>)
      each_dealt_line<T>(n - i, [&](auto packs, int64_t at, int count) __attribute__((always_inline)) { beside(packs, i + at, count); });
  }
  s.end_block();
  return s.total();
}
// By pieces, which are added in order.
template <class T, class F, class Beside> BARACUDA_HD double sum_products(int64_t n, F f, const Beside& beside) {
  constexpr int packs = RowSum<T>::kPacks;
  double sum = 0;
  for (int64_t first = 0; first < n; first += kRowPiece)
    sum += sum_products<T>(n - first < kRowPiece ? n - first : kRowPiece,
                           [&](int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) { f(first + i, count, a, b); },
                           later_by(first, beside), std::make_integer_sequence<int, packs / kPacksOfLine<T>>{},
                           std::make_integer_sequence<int, packs / kTogether<T>>{});
  return sum;
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

template <class T, class Beside> BARACUDA_HD double sum_of_squares(const T* x, int64_t n, const Beside& beside) {
  return sum_products<T>(n, [&](int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(x + i);
    get_dealt<T>(a, x + i, count), get_dealt<T>(b, x + i, count);
  }, beside);
}
// Of g and xhat, not of g and x: xhat is near 1 for any x.
template <class T, class A, class Beside> BARACUDA_HD double dot_of_gradient(const T* dy, const A* w, const T* x, A rstd, int64_t n, const Beside& beside) {
  const Pack<A, kLanes<A>> scale = double(rstd);
  return sum_products<T>(n, [&]<int P>(int64_t i, int count, auto (&g)[P], auto& xhat) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(dy + i), fetch_near(x + i);
    Pack<A, kLanes<A>> weight[P];
    get_beside<T>(weight, w + i, count), get_dealt<T>(g, dy + i, count), get_dealt<T>(xhat, x + i, count);
    for (int k = 0; k < P; ++k) g[k] = g[k] * weight[k], xhat[k] = xhat[k] * scale;
  }, beside);
}

// h of the second pass, where it is not x: stored where the caller wants it, else in y (which may be x or residual).
template <class T> T* kept_of(const RmsNormRows& p, int64_t r) {
  return p.residual_out ? static_cast<T*>(p.residual_out) + r * p.residual_out_pitch : static_cast<T*>(p.y) + r * p.y_pitch;
}
template <class T, bool kResidual, class Beside> BARACUDA_HD double squares(const RmsNormRows& p, int64_t r, const Beside& beside) {
  const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
  if constexpr (!kResidual) return sum_of_squares(x, p.n, beside);
  const T* residual = static_cast<const T*>(p.residual) + r * p.residual_pitch;
  T* kept = kept_of<T>(p, r);
  return sum_products<T>(p.n, [&]<int P>(int64_t i, int count, auto (&a)[P], auto& b) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<Beside, Near>) fetch_near(x + i), fetch_near(residual + i);
    get_dealt<T>(a, x + i, count), get_dealt<T>(b, residual + i, count);
    for (int k = 0; k < P; ++k) a[k] = a[k] + b[k];
    put_dealt<T>(kept + i, a, count, false);
    get_dealt<T>(a, kept + i, count), get_dealt<T>(b, kept + i, count);
  }, beside);
}
// Sums of rows alone, once for all that calls them.
template <class T, bool kResidual, class Beside> __attribute__((noinline)) double squares_alone(const RmsNormRows& p, int64_t r) { return squares<T, kResidual>(p, r, Beside()); }
template <class T, class Beside> __attribute__((noinline)) double sum_of_squares_alone(const T* x, int64_t n) { return sum_of_squares(x, n, Beside()); }
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
// sum(row, beside) gives what line(row, that) takes to write lines.
template <class T, class Sum, class Line> BARACUDA_HD void each_rows(int64_t rows, int64_t n, Sum sum, Line line) {
  const int later = rows_later<T>(n);
  if (!later)
    for (int64_t r = 0; r < rows; ++r) each_dealt_line<T>(n, line(r, sum(r, Near())));
  else if constexpr (kLanes<Acc<T>> > 1) {
    Summed<Acc<T>> waiting[2];
    for (int64_t r = 0; r < later && r < rows; ++r) waiting[r] = sum(r, Nothing());
    for (int64_t r = 0; r < rows; ++r) {
      auto& summed = waiting[r & (later - 1)];
      const auto write = line(r, summed);
      if (r + later < rows) summed = sum(r + later, write);
      else each_dealt_line<T>(n, write);
    }
  }
}
// How many rows later than the one that is written a row is fetched.
template <class T> int64_t rows_to_fetched(int64_t n, int64_t streams) {
  const int64_t later = rows_later<T>(n), rows = kFetchedBeside / (n * int64_t(sizeof(T)));
  return later ? later + (rows > 1 ? rows : 1) : rows_ahead<T>(n, 1, streams);
}
// The lines of P packs.
template <int P, class T> BARACUDA_HD void fetch_packs(const T* x) {
#pragma GCC unroll 8
  for (int b = 0; b < P * kLanes<Acc<T>> * int(sizeof(T)); b += 64) __builtin_prefetch(reinterpret_cast<const char*>(x) + b, 0, 3);
}

template <class T, bool kCastFirst, bool kResidual> void forward_rows(const RmsNormRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const int64_t ahead = rows_to_fetched<T>(p.n, 1);
  const A* w = static_cast<const A*>(p.weight);
  const bool past = p.past;
  const auto h_of = [&](int64_t r) { return kResidual ? kept_of<T>(p, r) : static_cast<const T*>(p.x) + r * p.x_pitch; };
  const auto sum = [&](int64_t r, const auto& beside) __attribute__((always_inline)) {
    const auto squared = [&]() __attribute__((always_inline)) {
      using Beside = std::remove_cvref_t<decltype(beside)>;
      if constexpr (kAlone<Beside>) return squares_alone<T, kResidual, Beside>(p, r);
      else return squares<T, kResidual>(p, r, beside);
    };
    const A rstd = A(p.known ? p.known->rstd : inverse_rms<T>(squared(), h_of(r), p.n, p.eps));
    if (p.rstd) static_cast<A*>(p.rstd)[r * p.rstd_pitch] = rstd;
    return Summed<A>{rstd, 0};
  };
  each_rows<T>(p.rows, p.n, sum, [&](int64_t r, const Summed<A>& summed) {
    const T *h = h_of(r), *next = row_to_fetch(static_cast<const T*>(p.x) + r * p.x_pitch, p.x_pitch, ahead, p.rows - r);
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const V scale = double(summed.rstd);
    return [=]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
      V v[P], weight[P];
      get_dealt<T>(v, h + i, count), get_beside<T>(weight, w + i, count);
      fetch_packs<P>(next + i);
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) {
        const V xhat = v[k] * scale;
        v[k] = (kCastFirst ? rounded_to<T>(xhat) : xhat) * weight[k];
      }
      put_dealt<T>(y + i, v, count, past);
    };
  });
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
  const int64_t ahead = rows_to_fetched<T>(p.n, 2);
  const A* w = static_cast<const A*>(p.weight);
  A* dw = static_cast<A*>(p.dweight);
  const bool past = p.past;
  const auto dy_of = [&](int64_t r) { return static_cast<const T*>(p.dy) + r * p.dy_pitch; };
  const auto x_of = [&](int64_t r) { return static_cast<const T*>(p.x) + r * p.x_pitch; };
  const auto sum = [&](int64_t r, const auto& beside) __attribute__((always_inline)) {
    const A rstd = A(p.known ? p.known->rstd : p.rstd ? static_cast<const A*>(p.rstd)[r * p.rstd_pitch] : A(inverse_rms<T>(sum_of_squares_alone<T, Nothing>(x_of(r), p.n), x_of(r), p.n, p.eps)));
    if (p.known) return Summed<A>{rstd, A(-p.known->dot / double(p.known->n))};
    const auto dot = [&]() __attribute__((always_inline)) {
      using Beside = std::remove_cvref_t<decltype(beside)>;
      if constexpr (kAlone<Beside>) return dot_alone<T, Beside>(dy_of(r), w, x_of(r), rstd, p.n);
      else return dot_of_gradient(dy_of(r), w, x_of(r), rstd, p.n, beside);
    };
    return Summed<A>{rstd, A(-dot() / double(p.n))};
  };
  each_rows<T>(p.rows, p.n, sum, [&](int64_t r, const Summed<A>& summed) {
    const T *dy = dy_of(r), *x = x_of(r), *dh = kResidual ? static_cast<const T*>(p.dresidual_out) + r * p.dresidual_out_pitch : nullptr;
    const T *next_dy = row_to_fetch(dy, p.dy_pitch, ahead, p.rows - r), *next_x = row_to_fetch(x, p.x_pitch, ahead, p.rows - r);
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    const V scale = double(summed.rstd), minus_mean = double(summed.minus_mean);
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
