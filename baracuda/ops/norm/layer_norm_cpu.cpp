// LayerNorm rows: a row comes from memory once, then from the caches for the sums of x, of x - mean and of its square, and for y.
// The floor is memory bandwidth: two streams forward, three backward. The order of a row's sums depends on n alone.
#include "baracuda/host/lane_sum.hpp"
#include "baracuda/ops/norm/layer_norm_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count, bool past) {
  if (count < N) store_tail<T, N>(p, v, count & (N - 1));
  else if (past) store_past<T, N>(p, v);
  else store<T, N>(p, v);
}
template <int N, class F> BARACUDA_HD void each_pack(int64_t n, F f) {
  int64_t i = 0;
  for (; i + N <= n; i += N) f(i, N);
  if (i < n) f(i, int(n - i));
}

// x - mean is (x - shift) - rest: the mean in two words.
struct Statistics { double shift, rest, rstd; };

// A variance that left the range of its type: f32 in f64, f64 times a power of two that brings the largest to about 1.
template <class T> Statistics statistics_out_of_range(const T* x, int64_t n, double eps) {
  double scale = 1;
  if constexpr (sizeof(T) == 8) {
    double most = 0;
    for (int64_t i = 0; i < n; ++i) most = __builtin_fabs(x[i]) > most ? __builtin_fabs(x[i]) : most;
    scale = most > 1 ? 0x1p-600 : 0x1p600;
  }
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mean += to_double(x[i]) * scale;
  mean /= double(n);
  for (int64_t i = 0; i < n; ++i) {
    const double d = to_double(x[i]) * scale - mean;
    squares += d * d;
  }
  const Acc<T> shift = Acc<T>(mean / scale);
  return {shift, mean / scale - double(shift), scale / __builtin_sqrt(squares / double(n) + eps * scale * scale)};
}
template <class T> double sum_from(const T* x, int64_t n, Acc<T> shift) {
  return double(tree_sum<Acc<T>>(n, [&](auto acc, int64_t i) __attribute__((always_inline)) {
    using V = decltype(acc);
    return acc + (load<V::kWidth>(x + i) - V::of(shift - Raw<Acc<T>, V::kWidth>{}));
  }));
}
template <class T> Statistics statistics(const T* x, int64_t n, double eps) {
  using A = Acc<T>;
  constexpr bool kF64 = sizeof(T) == 8;
  const double high = kF64 ? 0x1p1000 : 0x1p120, low = (kF64 ? 0x1p-900 : 0x1p-90) * double(n), small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  const A shift = A(sum_from<T>(x, n, 0) / double(n));
  const double rest = sum_from<T>(x, n, shift) / double(n);
  const double squares = double(tree_sum<A>(n, [&](auto acc, int64_t i) __attribute__((always_inline)) {
    using V = decltype(acc);
    const V d = load<V::kWidth>(x + i) - V::of(shift - Raw<A, V::kWidth>{});
    return fma(d, d, acc);
  }));
  const double variance = squares / double(n) - rest * rest;
  if (squares < high && (squares > low || eps > small_eps)) return {double(shift), rest, 1 / __builtin_sqrt((variance > 0 ? variance : 0) + eps)};
  return statistics_out_of_range(x, n, eps);
}

template <class T> void forward(const LayerNormRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  auto all = [](double c) __attribute__((always_inline)) { return V::of(A(c) - Raw<A, N>{}); };
  const A *w = static_cast<const A*>(p.weight), *b = static_cast<const A*>(p.bias);
  const bool past = p.past;
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const Statistics s = statistics(x, p.n, p.eps);
    if (p.mean) static_cast<A*>(p.mean)[r * p.mean_pitch] = A(s.shift + s.rest);
    if (p.rstd) static_cast<A*>(p.rstd)[r * p.rstd_pitch] = A(s.rstd);
    const V shift = all(s.shift), rest = all(s.rest), scale = all(s.rstd);
    each_pack<N>(p.n, [&](int64_t i, int count) __attribute__((always_inline)) {
      const V xhat = ((get<N>(x + i, count) - shift) - rest) * scale;
      put<N>(y + i, fma(xhat, get<N>(w + i, count), get<N>(b + i, count)), count, past);
    });
  }
  if (past) store_past_fence();
}

template <class T> void backward(const LayerNormBackwardRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  auto all = [](double c) __attribute__((always_inline)) { return V::of(A(c) - Raw<A, N>{}); };
  const A* w = static_cast<const A*>(p.weight);
  A *dw = static_cast<A*>(p.dweight), *db = static_cast<A*>(p.dbias);
  const int64_t n = p.n;
  const bool past = p.past;
  for (int64_t r = 0; r < p.rows; ++r) {
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *dy = static_cast<const T*>(p.dy) + r * p.dy_pitch;
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    Statistics s;
    if (p.rstd) {
      s.shift = static_cast<const A*>(p.mean)[r * p.mean_pitch], s.rstd = static_cast<const A*>(p.rstd)[r * p.rstd_pitch];
      s.rest = sum_from<T>(x, n, A(s.shift)) / double(n);
    } else s = statistics(x, n, p.eps);
    const A shift_one = A(s.shift), rest_one = A(s.rest), scale_one = A(s.rstd);
    const double g_sum = double(tree_sum<A>(n, [&](auto acc, int64_t i) __attribute__((always_inline)) {
      constexpr int W = decltype(acc)::kWidth;
      return fma(load<W>(dy + i), load<W>(w + i), acc);
    }));
    const double dot = double(tree_sum<A>(n, [&](auto acc, int64_t i) __attribute__((always_inline)) {
      constexpr int W = decltype(acc)::kWidth;
      using P = Pack<A, W>;
      auto each = [](A c) __attribute__((always_inline)) { return P::of(c - Raw<A, W>{}); };
      const P xhat = ((load<W>(x + i) - each(shift_one)) - each(rest_one)) * each(scale_one);
      return fma(load<W>(dy + i) * load<W>(w + i), xhat, acc);
    }));
    const V shift = all(s.shift), rest = all(s.rest), scale = all(s.rstd), mean_g = all(g_sum / double(n)), minus_dot = all(-dot / double(n));
    each_pack<N>(n, [&](int64_t i, int count) __attribute__((always_inline)) {
      const V e = get<N>(dy + i, count), xhat = ((get<N>(x + i, count) - shift) - rest) * scale;
      put<N>(dx + i, fma(xhat, minus_dot, fma(e, get<N>(w + i, count), -mean_g)) * scale, count, past);
      if (dw) put<N>(dw + i, fma(e, xhat, get<N>(dw + i, count)), count, false);
      if (db) put<N>(db + i, get<N>(db + i, count) + e, count, false);
    });
  }
  if (past) store_past_fence();
}

}  // namespace
extern constexpr LayerNormKernels layer_norm_kernels = {
    by_dtype<void (*)(const LayerNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
    by_dtype<void (*)(const LayerNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
