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

// Lanes l and l + N / 2 are added until one is left.
template <int N> BARACUDA_HD double fold_lanes(Pack<double, N> p) {
  if constexpr (N == 1) return p.v;
  else return fold_lanes(p.half(0) + p.half(1));
}
template <int M, int N> BARACUDA_HD void add_wide(Pack<double, M>* sum, Pack<float, N> t) {
  if constexpr (N == M) sum[0] = sum[0] + convert<double>(t);
  else {
    add_wide(sum, t.half(0));
    add_wide(sum + N / M / 2, t.half(1));
  }
}
// Sums of products over a row. f32: 64 lanes take eight products each in f32, then they are folded to 16 and added in f64:
// at most ten roundings in f32 on the way of any product. f64: 32 lanes in f64.
template <class A> struct RowSum;
template <> struct RowSum<float> {
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
    for (int k = 0; k < 16 / N; ++k) {
      const V t = (lane[k] + lane[k + kPacks / 2]) + (lane[k + kPacks / 4] + lane[k + 3 * kPacks / 4]);
      add_wide(sum + k * N / M, t);
    }
    for (auto& l : lane) l = 0;
  }
  BARACUDA_HD double total() {
    for (int w = kSums / 2; w; w /= 2)
      for (int k = 0; k < w; ++k) sum[k] = sum[k] + sum[k + w];
    return fold_lanes(sum[0]);
  }
};
template <> struct RowSum<double> {
  static constexpr int N = kLanes<double>, kLanesUsed = 32, kBlock = 8 * kLanesUsed, kPacks = kLanesUsed / N;
  using V = Pack<double, N>;
  V lane[kPacks];
  BARACUDA_HD RowSum() { for (auto& l : lane) l = 0; }
  BARACUDA_HD void add(int k, V a, V b) { lane[k] = fma(a, b, lane[k]); }
  BARACUDA_HD void end_block() {}
  BARACUDA_HD double total() {
    for (int w = kPacks / 2; w; w /= 2)
      for (int k = 0; k < w; ++k) lane[k] = lane[k] + lane[k + w];
    return fold_lanes(lane[0]);
  }
};
// The sum of f's products over a row: f(first element, lanes used, a, b) gives the two factors of a pack. The pack of a lane
// is a constant in every call, so that lanes stay in registers.
template <class A, class F, int... K> BARACUDA_HD double sum_products(int64_t n, F f, std::integer_sequence<int, K...>) {
  using S = RowSum<A>;
  constexpr int N = S::N;
  S s;
  auto add = [&](int64_t i, int k, int count) __attribute__((always_inline)) {
    Pack<A, N> a, b;
    f(i, count, a, b);
    s.add(k, a, b);
  };
  int64_t i = 0;
  if constexpr (N == 1) {  // unrolled 64 times, the portable unit took minutes to compile
    for (; i < n; ++i) {
      add(i, int(i % S::kLanesUsed), 1);
      if ((i + 1) % S::kBlock == 0) s.end_block();
    }
  } else {
    for (; i + S::kBlock <= n; i += S::kBlock) {
      for (int64_t j = i; j < i + S::kBlock; j += S::kLanesUsed) (add(j + K * N, K, N), ...);
      s.end_block();
    }
    for (; i + S::kLanesUsed <= n; i += S::kLanesUsed) (add(i + K * N, K, N), ...);
    ((i + K * N < n ? add(i + K * N, K, n - i - K * N < N ? int(n - i - K * N) : N) : void()), ...);
  }
  s.end_block();
  return s.total();
}
// By pieces, which are added in order.
template <class A, class F> BARACUDA_HD double sum_products(int64_t n, F f) {
  constexpr auto packs = std::make_integer_sequence<int, RowSum<A>::kPacks>{};
  double sum = 0;
  for (int64_t first = 0; first < n; first += kRowPiece)
    sum += sum_products<A>(n - first < kRowPiece ? n - first : kRowPiece,
                           [&](int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) { f(first + i, count, a, b); }, packs);
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

template <bool kNear = false, class T> double sum_of_squares(const T* x, int64_t n) {
  return sum_products<Acc<T>>(n, [&](int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) {
    if constexpr (kNear) fetch_near(x + i);
    a = b = get<kLanes<Acc<T>>>(x + i, count);
  });
}
// Of g and xhat, not of g and x: xhat is near 1 for any x. `next` is fetched meanwhile, where it is not what lies near.
template <bool kNear = false, class T, class A> double dot_of_gradient(const T* dy, const A* w, const T* x, A rstd, int64_t n, const T* next = nullptr) {
  constexpr int N = kLanes<A>;
  const Pack<A, N> scale = double(rstd);
  return sum_products<A>(n, [&](int64_t i, int count, auto& g, auto& xhat) __attribute__((always_inline)) {
    if constexpr (kNear) fetch_near(dy + i), fetch_near(x + i);
    else if (i * int64_t(sizeof(T)) % 64 == 0) __builtin_prefetch(next + i, 0, 2);
    g = get<N>(dy + i, count) * get<N>(w + i, count);
    xhat = get<N>(x + i, count) * scale;
  });
}

// h of the second pass, where it is not x: stored where the caller wants it, else in y (which may be x or residual).
template <class T> T* kept_of(const RmsNormRows& p, int64_t r) {
  return p.residual_out ? static_cast<T*>(p.residual_out) + r * p.residual_out_pitch : static_cast<T*>(p.y) + r * p.y_pitch;
}
template <class T, bool kResidual, bool kNear = false> double squares(const RmsNormRows& p, int64_t r) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
  if constexpr (!kResidual) return sum_of_squares<kNear>(x, p.n);
  const T* residual = static_cast<const T*>(p.residual) + r * p.residual_pitch;
  T* kept = kept_of<T>(p, r);
  return sum_products<A>(p.n, [&](int64_t i, int count, auto& a, auto& b) __attribute__((always_inline)) {
    if constexpr (kNear) fetch_near(x + i), fetch_near(residual + i);
    put<N>(kept + i, get<N>(x + i, count) + get<N>(residual + i, count), count);
    a = b = get<N>(kept + i, count);
  });
}
// Short rows of halves go by two at a time and are summed while the two before are written: the end of a sum waits for itself (short rows of f32
// wait for the memory). Longer rows go by two in the backward: weights are read, and their gradients read and written, once for both.
constexpr int kRowsAtOnce = 2;
constexpr int64_t kShortBytes = 4096, kLongBytes = 16384;
struct AtOnce { bool several, early; };
template <class T> AtOnce rows_at_once(int64_t n, bool backward) {
  const int64_t bytes = n * int64_t(sizeof(T));
  const bool packs = kLanes<Acc<T>> > 1, early = packs && kIsHalf<T> && bytes <= kShortBytes;
  return {early || (packs && backward && bytes > kShortBytes && bytes <= kLongBytes), early};
}
// How many rows later a row is fetched.
template <class T> int64_t rows_to_fetched(int64_t n, AtOnce at_once, int64_t streams) {
  const int64_t ahead = rows_ahead<T>(n, 1, streams);
  return ahead ? ahead + (at_once.several ? kRowsAtOnce - 1 : 0) + (at_once.early ? kRowsAtOnce : 0) : 0;
}
// What the second pass takes of R rows.
template <class A, int R> struct Summed { A rstd[R], minus_mean[R]; };
// sum(first row, summed), then write(first row, summed) for each.
template <class A, class Sum, class Write> BARACUDA_HD void each_rows(int64_t rows, AtOnce at_once, Sum sum, Write write) {
  int64_t r = 0;
  if constexpr (kLanes<A> > 1)
    if (at_once.several) {
      constexpr int R = kRowsAtOnce;
      Summed<A, R> now, next;
      if (at_once.early && R <= rows) sum(0, now);
      for (; r + R <= rows; r += R, now = next) {
        if (!at_once.early) sum(r, now);
        else if (r + 2 * R <= rows) sum(r + R, next);
        write(r, now);
      }
    }
  for (; r < rows; ++r) {
    Summed<A, 1> now;
    sum(r, now), write(r, now);
  }
}
// The lines of P packs.
template <int P, class T> BARACUDA_HD void fetch_packs(const T* x) {
#pragma GCC unroll 8
  for (int b = 0; b < P * kLanes<Acc<T>> * int(sizeof(T)); b += 64) __builtin_prefetch(reinterpret_cast<const char*>(x) + b, 0, 2);
}

template <class T, bool kResidual, class A, int R> void sum_forward(const RmsNormRows& p, int64_t first, Summed<A, R>& summed) {
  for (int j = 0; j < R; ++j) {
    const int64_t r = first + j;
    const T* h = kResidual ? kept_of<T>(p, r) : static_cast<const T*>(p.x) + r * p.x_pitch;
    summed.rstd[j] = A(p.known ? p.known->rstd : inverse_rms<T>(squares<T, kResidual>(p, r), h, p.n, p.eps));
    if (p.rstd) static_cast<A*>(p.rstd)[r * p.rstd_pitch] = summed.rstd[j];
  }
}
template <class T, bool kResidual, class A, int R> void write_forward(const RmsNormRows& p, int64_t first, int64_t ahead, const Summed<A, R>& summed) {
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const A* w = static_cast<const A*>(p.weight);
  const bool past = p.past;
  const T *h[R], *next[R];
  T* y[R];
  V scale[R];
#pragma GCC unroll 8
  for (int j = 0; j < R; ++j) {
    const int64_t r = first + j;
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    y[j] = static_cast<T*>(p.y) + r * p.y_pitch;
    h[j] = kResidual ? kept_of<T>(p, r) : x;
    scale[j] = V::of(summed.rstd[j] - Raw<A, N>{});
    next[j] = row_to_fetch(x, p.x_pitch, ahead, p.rows - r);
  }
  auto write = [&](auto f) __attribute__((always_inline)) {  // y = f(h rstd, w)
    each_line<T>(p.n, [&]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
      V v[R][P];
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) {
        const V weight = get<N>(w + i + k * N, count);
#pragma GCC unroll 8
        for (int j = 0; j < R; ++j) v[j][k] = f(get<N>(h[j] + i + k * N, count) * scale[j], weight);
      }
#pragma GCC unroll 8
      for (int j = 0; j < R; ++j) fetch_packs<P>(next[j] + i), put_line<N>(y[j] + i, v[j], count, past);
    });
  };
  if (p.cast_first) write([](V xhat, V weight) __attribute__((always_inline)) { return rounded_to<T>(xhat) * weight; });
  else write([](V xhat, V weight) __attribute__((always_inline)) { return xhat * weight; });
}
template <class T, bool kResidual> void forward_rows(const RmsNormRows& p) {
  const AtOnce at_once = rows_at_once<T>(p.n, false);
  const int64_t ahead = rows_to_fetched<T>(p.n, at_once, 1);
  each_rows<Acc<T>>(p.rows, at_once, [&](int64_t r, auto& summed) { sum_forward<T, kResidual>(p, r, summed); },
               [&](int64_t r, const auto& summed) { write_forward<T, kResidual>(p, r, ahead, summed); });
}
template <class T> void forward(const RmsNormRows& p) {
  p.residual ? forward_rows<T, true>(p) : forward_rows<T, false>(p);
  if (p.past) store_past_fence();
}

template <class T, class A, int R> void sum_backward(const RmsNormBackwardRows& p, int64_t first, int64_t ahead, Summed<A, R>& summed) {
  for (int j = 0; j < R; ++j) {
    const int64_t r = first + j, n = p.n;
    const T *dy = static_cast<const T*>(p.dy) + r * p.dy_pitch, *x = static_cast<const T*>(p.x) + r * p.x_pitch;
    const A rstd = A(p.known ? p.known->rstd : p.rstd ? static_cast<const A*>(p.rstd)[r * p.rstd_pitch] : A(inverse_rms<T>(sum_of_squares(x, n), x, n, p.eps)));
    const double dot = p.known ? p.known->dot : dot_of_gradient(dy, static_cast<const A*>(p.weight), x, rstd, n, row_to_fetch(dy, p.dy_pitch, ahead, p.rows - r));
    summed.rstd[j] = rstd, summed.minus_mean[j] = A(-dot / double(p.known ? p.known->n : n));
  }
}
template <class T, bool kCastFirst, bool kResidual, class A, int R>
void write_backward(const RmsNormBackwardRows& p, int64_t first, int64_t ahead, const Summed<A, R>& summed) {
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  A* dw = static_cast<A*>(p.dweight);
  const A* w = static_cast<const A*>(p.weight);
  const bool past = p.past;
  const T *dy[R], *x[R], *dh[R], *next[R];
  T* dx[R];
  V scale[R], minus_mean[R];
#pragma GCC unroll 8
  for (int j = 0; j < R; ++j) {
    const int64_t r = first + j;
    dy[j] = static_cast<const T*>(p.dy) + r * p.dy_pitch;
    x[j] = static_cast<const T*>(p.x) + r * p.x_pitch;
    dh[j] = kResidual ? static_cast<const T*>(p.dresidual_out) + r * p.dresidual_out_pitch : nullptr;
    dx[j] = static_cast<T*>(p.dx) + r * p.dx_pitch;
    scale[j] = V::of(summed.rstd[j] - Raw<A, N>{}), minus_mean[j] = V::of(summed.minus_mean[j] - Raw<A, N>{});
    next[j] = row_to_fetch(x[j], p.x_pitch, ahead, p.rows - r);  // dy was fetched while the sum was made
  }
  each_line<T>(p.n, [&]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
    V v[R][P];
#pragma GCC unroll 8
    for (int k = 0; k < P; ++k) {
      const int64_t at = i + k * N;
      const V weight = get<N>(w + at, count);
      V sum = dw ? get<N>(dw + at, count) : V(0);
#pragma GCC unroll 8
      for (int j = 0; j < R; ++j) {
        const V e = get<N>(dy[j] + at, count), xhat = get<N>(x[j] + at, count) * scale[j];
        v[j][k] = fma(xhat, minus_mean[j], e * weight) * scale[j];
        if constexpr (kResidual) v[j][k] = v[j][k] + get<N>(dh[j] + at, count);
        sum = fma(e, kCastFirst ? rounded_to<T>(xhat) : xhat, sum);
      }
      if (dw) put<N>(dw + at, sum, count);
    }
#pragma GCC unroll 8
    for (int j = 0; j < R; ++j) fetch_packs<P>(next[j] + i), put_line<N>(dx[j] + i, v[j], count, past);
  });
}
template <class T, bool kCastFirst, bool kResidual> void backward_rows(const RmsNormBackwardRows& p) {
  const AtOnce at_once = rows_at_once<T>(p.n, true);
  const int64_t ahead = rows_to_fetched<T>(p.n, at_once, 2);
  each_rows<Acc<T>>(p.rows, at_once, [&](int64_t r, auto& summed) { sum_backward<T>(p, r, ahead, summed); },
               [&](int64_t r, const auto& summed) { write_backward<T, kCastFirst, kResidual>(p, r, ahead, summed); });
}
template <class T> void backward(const RmsNormBackwardRows& p) {
  if (p.cast_first) p.dresidual_out ? backward_rows<T, true, true>(p) : backward_rows<T, true, false>(p);
  else p.dresidual_out ? backward_rows<T, false, true>(p) : backward_rows<T, false, false>(p);
  if (p.past) store_past_fence();
}

template <class T> double dot(const RmsNormBackwardRows& p) {
  using A = Acc<T>;
  return dot_of_gradient<true>(static_cast<const T*>(p.dy), static_cast<const A*>(p.weight), static_cast<const T*>(p.x), A(p.known->rstd), p.n);
}

template <class A, class T> void fold(const NormFold& p) {
  constexpr int M = kLanes<double>, N = kLanes<A>;
  const A* partial = static_cast<const A*>(p.partial);
  T* out = static_cast<T*>(p.out);
  if constexpr (std::is_same_v<Acc<T>, A>)
    if (p.count == 1 && p.out_stride == 1)
      return put_row(out + p.begin, p.end - p.begin, false, [&](int64_t i, int count) __attribute__((always_inline)) {
        return get<N>(partial + p.begin + i, count) + Pack<A, N>(0);
      });
  for (int64_t i = p.begin; i < p.end; i += M) {
    const int count = p.end - i < M ? int(p.end - i) : M;
    Pack<double, M> sum = 0;
    for (int64_t k = 0; k < p.count; ++k) sum = sum + convert<double>(get<M>(partial + k * p.n + i, count));
    for (int j = 0; j < count; ++j) out[(i + j) * p.out_stride] = from_double<T>(sum.lane(j));
  }
}

template <class T, class A> void spread(const NormSpread& p) {
  constexpr int N = kLanes<A>;
  const T* weight = static_cast<const T*>(p.weight);
  A* out = static_cast<A*>(p.out);
  const double more = p.one_plus ? 1 : -0.0;  // -0 changes nothing
  if (p.stride != 1)
    for (int64_t i = 0; i < p.n; ++i) out[i] = A(more) + A(to_double(weight[i * p.stride]));
  else
    put_row(out, p.n, false, [&](int64_t i, int count) __attribute__((always_inline)) { return convert<A>(get<N>(weight + i, count)) + Pack<A, N>(more); });
}

constexpr NormKernels make() {
  return {by_dtype<void (*)(const RmsNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
          by_dtype<void (*)(const RmsNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; }),
          by_dtype<double (*)(const RmsNormRows&)>(Floating{}, []<class T>() { return +[](const RmsNormRows& p) { return p.residual ? squares<T, true, true>(p, 0) : squares<T, false, true>(p, 0); }; }),
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
