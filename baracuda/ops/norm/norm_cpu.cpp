// RmsNorm rows. Forward: h = x + residual, y = h rstd w'; reads x (and residual), writes y (and h). Backward: reads dy, x
// (and dresidual_out), writes dx. The floor is memory bandwidth: a row is read twice, the second time from the caches.
// A row is one worker's. Sums of a row: element i belongs to lane i mod 32, a lane adds in ascending order in f64, lanes
// are folded l + (l + 16), 8, 4, 2, 1: the same bits for any vector width. Products of two floats are exact in f64,
// so it does not matter whether they are fused.
#include <utility>
#include "baracuda/math/element.hpp"
#include "baracuda/ops/norm/norm_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kSumLanes = 32;

// count & (N - 1): what count is anyway below N, in a form from which compilers see the bound.
template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count) {
  if (count == N) store<T, N>(p, v);
  else store_tail<T, N>(p, v, count & (N - 1));
}
template <class T, int N> BARACUDA_HD Pack<Acc<T>, N> rounded_to(Pack<Acc<T>, N> v) {
  if constexpr (!kIsHalf<T>) return v;
  else if constexpr (!kIsF16<T>) return Pack<float, N>::from_bits(half_bits<T>(v) << 16);
  else {
    alignas(64) T buffer[N];
    store<T, N>(buffer, v);
    return load<N>(buffer);
  }
}

struct RowSum {
  static constexpr int M = kLanes<double>;
  Pack<double, M> lane[kSumLanes / M];
  BARACUDA_HD RowSum() { for (auto& l : lane) l = 0; }
  // Pack k of a block of 32 elements.
  template <class A, int N> BARACUDA_HD void add(int k, Pack<A, N> a, Pack<A, N> b) {
    if constexpr (sizeof(A) == 8) lane[k] = fma(a, b, lane[k]);
    else if constexpr (N == 1) lane[k] = lane[k] + convert<double>(a) * convert<double>(b);
    else {
      lane[2 * k] = fma(convert<double>(a.half(0)), convert<double>(b.half(0)), lane[2 * k]);
      lane[2 * k + 1] = fma(convert<double>(a.half(1)), convert<double>(b.half(1)), lane[2 * k + 1]);
    }
  }
  BARACUDA_HD double total() const {
    double l[kSumLanes];
    for (int k = 0; k < kSumLanes / M; ++k) store<double, M>(l + k * M, lane[k]);
    for (int w = kSumLanes / 2; w; w /= 2)
      for (int i = 0; i < w; ++i) l[i] += l[i + w];
    return l[0];
  }
};
// f(first element, pack in the block of 32, lanes used) over a row. The pack is a constant in every call, so that sums
// stay in registers.
template <int N, class F, int... K> BARACUDA_HD void each_pack(int64_t n, F f, std::integer_sequence<int, K...>) {
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) (f(i + K * N, K, N), ...);
  ((i + K * N < n ? f(i + K * N, K, n - i - K * N < N ? int(n - i - K * N) : N) : void()), ...);
}
template <int N, class F> BARACUDA_HD void each_pack(int64_t n, F f) { each_pack<N>(n, f, std::make_integer_sequence<int, kSumLanes / N>{}); }

// 1 / sqrt(sum / n + eps). Only f64 rows can leave the range of the sum; then they are summed again times a power of two.
template <class T> BARACUDA_HD double inverse_rms(double sum, const T* h, int64_t n, double eps) {
  if constexpr (sizeof(T) == 8) {
    const bool huge = sum > 0x1p1000, tiny = sum < 0x1p-900 && eps < 0x1p-200;
    if (huge || tiny) {
      const double scale = huge ? 0x1p-600 : 0x1p600;
      double s = 0;
      for (int64_t i = 0; i < n; ++i) s += (h[i] * scale) * (h[i] * scale);
      const double r = __builtin_sqrt(s / double(n) + eps * scale * scale);
      return scale / r;
    }
  }
  return 1 / __builtin_sqrt(sum / double(n) + eps);
}

template <class T, bool kResidual> void forward_row(const RmsNormRows& p, int64_t r) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
  const T* residual = kResidual ? static_cast<const T*>(p.residual) + r * p.residual_pitch : nullptr;
  T* y = static_cast<T*>(p.y) + r * p.y_pitch;
  const A* w = static_cast<const A*>(p.weight);
  const int64_t n = p.n;

  // h of the second pass: stored where the caller wants it, else in y (which may be x or residual), else x itself.
  T* kept = !kResidual ? nullptr : p.residual_out ? static_cast<T*>(p.residual_out) + r * p.residual_out_pitch : y;
  const T* h = kResidual ? kept : x;
  RowSum squares;
  each_pack<N>(n, [&](int64_t i, int k, int count) __attribute__((always_inline)) {
    V v = get<N>(x + i, count);
    if constexpr (kResidual) {
      v = rounded_to<T>(v + get<N>(residual + i, count));
      put<N>(kept + i, v, count);
    }
    squares.add(k, v, v);
  });
  const A rstd = A(inverse_rms<T>(squares.total(), h, n, p.eps));
  if (p.rstd) static_cast<A*>(p.rstd)[r * p.rstd_pitch] = rstd;
  const V scale = V::of(rstd - Raw<A, N>{});
  if (p.cast_first)
    each_pack<N>(n, [&](int64_t i, int, int count) __attribute__((always_inline)) {
      put<N>(y + i, rounded_to<T>(get<N>(h + i, count) * scale) * get<N>(w + i, count), count);
    });
  else
    each_pack<N>(n, [&](int64_t i, int, int count) __attribute__((always_inline)) {
      put<N>(y + i, get<N>(h + i, count) * scale * get<N>(w + i, count), count);
    });
}
template <class T> void forward(const RmsNormRows& p) {
  for (int64_t r = 0; r < p.rows; ++r)
    if (p.residual) forward_row<T, true>(p, r);
    else forward_row<T, false>(p, r);
}

template <class T, bool kCastFirst> void backward_row(const RmsNormBackwardRows& p, int64_t r) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const T* dy = static_cast<const T*>(p.dy) + r * p.dy_pitch;
  const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
  const T* dh = p.dresidual_out ? static_cast<const T*>(p.dresidual_out) + r * p.dresidual_out_pitch : nullptr;
  T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
  A* dw = static_cast<A*>(p.dweight);
  const A* w = static_cast<const A*>(p.weight);
  const int64_t n = p.n;

  A rstd;
  RowSum dots;
  if (p.rstd) {
    rstd = static_cast<const A*>(p.rstd)[r * p.rstd_pitch];
    each_pack<N>(n, [&](int64_t i, int k, int count) __attribute__((always_inline)) {
      dots.add(k, get<N>(dy + i, count) * get<N>(w + i, count), get<N>(x + i, count));
    });
  } else {
    RowSum squares;
    each_pack<N>(n, [&](int64_t i, int k, int count) __attribute__((always_inline)) {
      const V v = get<N>(x + i, count);
      dots.add(k, get<N>(dy + i, count) * get<N>(w + i, count), v);
      squares.add(k, v, v);
    });
    rstd = A(inverse_rms<T>(squares.total(), x, n, p.eps));
  }
  const A mean = A(double(rstd) * (dots.total() / double(n)));  // of g xhat
  const V scale = V::of(rstd - Raw<A, N>{}), minus_mean = V::of(-mean - Raw<A, N>{});
  each_pack<N>(n, [&](int64_t i, int, int count) __attribute__((always_inline)) {
    const V e = get<N>(dy + i, count), xhat = get<N>(x + i, count) * scale;
    V d = fma(xhat, minus_mean, e * get<N>(w + i, count)) * scale;
    if (dh) d = d + get<N>(dh + i, count);
    put<N>(dx + i, d, count);
    if (dw) put<N>(dw + i, fma(e, kCastFirst ? rounded_to<T>(xhat) : xhat, get<N>(dw + i, count)), count);
  });
}
template <class T> void backward(const RmsNormBackwardRows& p) {
  for (int64_t r = 0; r < p.rows; ++r)
    if (p.cast_first) backward_row<T, true>(p, r);
    else backward_row<T, false>(p, r);
}

template <class A, class T> void fold(const NormFold& p) {
  constexpr int M = kLanes<double>;
  const A* partial = static_cast<const A*>(p.partial);
  T* out = static_cast<T*>(p.out);
  for (int64_t i = p.begin; i < p.end; i += M) {
    const int count = p.end - i < M ? int(p.end - i) : M;
    Pack<double, M> sum = 0;
    for (int64_t k = 0; k < p.count; ++k) sum = sum + convert<double>(get<M>(partial + k * p.n + i, count));
    for (int j = 0; j < count; ++j) out[(i + j) * p.out_stride] = from_double<T>(sum.lane(j));
  }
}

constexpr NormKernels make() {
  return {by_dtype<void (*)(const RmsNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
          by_dtype<void (*)(const RmsNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; }),
          by_dtype<void (*)(const NormFold&)>(Floating{}, []<class T>() { return &fold<float, T>; }),
          by_dtype<void (*)(const NormFold&)>(Floating{}, []<class T>() { return &fold<double, T>; })};
}

}  // namespace
extern constexpr NormKernels norm_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
