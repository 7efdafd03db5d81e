// Rope: y_a = x_a c - x_b s, y_b = x_b c + x_a s. Reads x, writes y; the floor is memory bandwidth. The sines of 64 positions
// stay in the second-level cache while all heads that stand there are turned.
#include <utility>
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/position/position_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using D = Pack<double, kLanes<double>>;

template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count) {
  if (count == N) store<T, N>(p, v);
  else store_tail<T, N>(p, v, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count, bool past) {
  if (count == N && past) store_past<T, N>(p, v);
  else put<N>(p, v, count);
}
template <int N> BARACUDA_HD int width(int64_t left) { return left < N ? int(left) : N; }

// cos and sin of p f_i, f_i and the product in two words: out[half], out[half + half].
void sines(const RopeFrequencies& f, double p, double* out) {
  constexpr int N = D::kWidth;
  const D position = D::of(p - Raw<double, N>{});
  for (int64_t i = 0; i < f.half; i += N) {
    const int count = width<N>(f.half - i);
    const D high = get<N>(f.high + i, count), angle = position * high;
    const D low = fma(position, high, -angle) + position * get<N>(f.low + i, count);
    const D c = cos(angle), s = sin(angle);
    put<N>(out + i, c - low * s, count);
    put<N>(out + f.half + i, s + low * c, count);
  }
}
// Turns a and b of f_i in one: out = a b as complex numbers.
void multiply(int64_t half, const double* a, const double* b, double* out) {
  constexpr int N = D::kWidth;
  for (int64_t i = 0; i < half; i += N) {
    const int count = width<N>(half - i);
    const D ca = get<N>(a + i, count), sa = get<N>(a + half + i, count), cb = get<N>(b + i, count), sb = get<N>(b + half + i, count);
    put<N>(out + i, fma(ca, cb, -(sa * sb)), count);
    put<N>(out + half + i, fma(sa, cb, ca * sb), count);
  }
}
// Few sines and more products: a plan is made in microseconds.
void fill_digits(const RopeFrequencies& f) {
  auto row = [&](int k) { return f.digits + k * 2 * f.half; };
  for (int k : {0, 16})
    for (int64_t i = 0; i < 2 * f.half; ++i) row(k)[i] = i < f.half;
  for (int c = 1; c < 16; ++c)
    if (c < 4 || c % 4 == 0) sines(f, c, row(c));
    else multiply(f.half, row(c - c % 4), row(c % 4), row(c));
  for (int b = 1; b < 4; ++b) sines(f, 16 * b, row(16 + b));
}

// a and b by turns.
template <class A, int N, int... K> BARACUDA_HD void put_pairs(A* p, Pack<A, N> a, Pack<A, N> b, std::integer_sequence<int, K...>) {
  const Raw<A, 2 * N> pairs = __builtin_shufflevector(a.v, b.v, (K / 2 + K % 2 * N)...);
  __builtin_memcpy(p, &pairs, sizeof pairs);
}
template <class A, int N> BARACUDA_HD void put_pairs(A* p, Pack<A, N> a, Pack<A, N> b) {
  if constexpr (N > 1) put_pairs(p, a, b, std::make_integer_sequence<int, 2 * N>{});
}
template <class A> void table(const RopeTable& t) {
  constexpr int N = D::kWidth;
  const int64_t half = t.f.half;
  const double sign = t.inverse ? -1 : 1;
  double* group = t.coarse + 2 * half;  // of 16 positions
  int64_t last = 0;
  for (int64_t k = 0; k < t.count; ++k) {
    const int64_t p = t.positions[k];
    if (k == 0 || p >> 6 != last >> 6) sines(t.f, double(p & ~int64_t(63)), t.coarse);
    if (k == 0 || p >> 4 != last >> 4) multiply(half, t.coarse, t.f.digits + (16 + (p >> 4 & 3)) * 2 * half, group);
    last = p;
    const double* fine = t.f.digits + (p & 15) * 2 * half;
    A* out = static_cast<A*>(t.table) + k * (t.interleaved ? 4 : 2) * half;
    auto turn = [&](int64_t i, int count) __attribute__((always_inline)) {
      const D ca = get<N>(group + i, count), sa = get<N>(group + half + i, count);
      const D cb = get<N>(fine + i, count), sb = get<N>(fine + half + i, count);
      const auto c = convert<A>(fma(ca, cb, -(sa * sb))), s = convert<A>(sign * fma(sa, cb, ca * sb));
      if (!t.interleaved) {
        put<N>(out + i, c, count);
        put<N>(out + half + i, s, count);
      } else {
        A *cosine = out + 2 * i, *sine = cosine + 2 * half;
        if (N > 1 && count == N) {
          put_pairs(cosine, c, c);
          put_pairs(sine, -s, s);
        } else {
          for (int j = 0; j < count; ++j) {
            cosine[2 * j] = cosine[2 * j + 1] = c.lane(j);
            sine[2 * j] = -s.lane(j), sine[2 * j + 1] = s.lane(j);
          }
        }
      }
    };
    int64_t i = 0;
    for (; i + N <= half; i += N) turn(i, N);
    if (i < half) turn(i, int(half - i));
  }
}

template <class T> void copy_rest(const RopeRows& p, const T* x, T* y) {
  if (x != y)
    for (int64_t i = 2 * p.half; i < p.n; ++i) y[i] = x[i];
}
template <class T> void half_split(const RopeRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const int64_t half = p.half;
  const bool past = p.past;
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const A *cosine = static_cast<const A*>(p.table) + r * p.table_pitch, *sine = cosine + half;
    auto turn = [&](int64_t i, int count) __attribute__((always_inline)) {
      const V a = get<N>(x + i, count), b = get<N>(x + half + i, count), c = get<N>(cosine + i, count), s = get<N>(sine + i, count);
      put<N>(y + i, fma(a, c, -(b * s)), count, past);
      put<N>(y + half + i, fma(b, c, a * s), count, past);
    };
    int64_t i = 0;
    for (; i + N <= half; i += N) turn(i, N);
    if (i < half) turn(i, int(half - i));
    copy_rest(p, x, y);
  }
  if (past) store_past_fence();
}

#if BARACUDA_VECTOR_BYTES
template <class V, int... K> BARACUDA_HD V swap_pairs(V x, std::integer_sequence<int, K...>) {
  return V::of(__builtin_shufflevector(x.v, x.v, (K ^ 1)...));
}
#endif
template <class T> void interleaved(const RopeRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const int64_t m = 2 * p.half;
  [[maybe_unused]] const bool past = p.past;
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* x = static_cast<const T*>(p.x) + r * p.x_pitch;
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const A *cosine = static_cast<const A*>(p.table) + r * p.table_pitch, *sine = cosine + m;
    if constexpr (N == 1) {
      for (int64_t i = 0; i < m; i += 2) {
        const V a = load<1>(x + i), b = load<1>(x + i + 1);
        store<T, 1>(y + i, fma(a, load<1>(cosine + i), b * load<1>(sine + i)));
        store<T, 1>(y + i + 1, fma(b, load<1>(cosine + i + 1), a * load<1>(sine + i + 1)));
      }
    } else {
      auto turn = [&](int64_t i, int count) __attribute__((always_inline)) {
        const V v = get<N>(x + i, count), partner = swap_pairs(v, std::make_integer_sequence<int, N>{});
        put<N>(y + i, fma(v, get<N>(cosine + i, count), partner * get<N>(sine + i, count)), count, past);
      };
      int64_t i = 0;
      for (; i + N <= m; i += N) turn(i, N);
      if (i < m) turn(i, int(m - i));
    }
    copy_rest(p, x, y);
  }
  if (past) store_past_fence();
}

constexpr PositionKernels make() {
  return {&fill_digits, by_dtype<void (*)(const RopeTable&)>(Floating{}, []<class T>() { return &table<Acc<T>>; }),
          by_dtype<void (*)(const RopeRows&)>(Floating{}, []<class T>() { return &half_split<T>; }),
          by_dtype<void (*)(const RopeRows&)>(Floating{}, []<class T>() { return &interleaved<T>; })};
}

}  // namespace
extern constexpr PositionKernels position_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
