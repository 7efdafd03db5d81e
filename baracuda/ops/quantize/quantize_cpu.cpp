// Maps of quantisation: one division per element, 1 byte of code beside sizeof(T) of value; the floor is memory bandwidth for f32 and
// f64, the division for halves.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/quantize/quantize_cpu.hpp"
#include "baracuda/ops/quantize/quantize_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> using V = PackOf<T>;

template <class V> BARACUDA_HD V load_int(const char* p) {
  if constexpr (V::kWidth == 1) return V::of(typename V::Scalar(*reinterpret_cast<const int32_t*>(p)));
  else {
    Raw<int32_t, V::kWidth> i;
    __builtin_memcpy(&i, p, sizeof i);
    return V::of(__builtin_convertvector(i, Raw<typename V::Scalar, V::kWidth>));
  }
}
template <class V> BARACUDA_HD V load_code(const char* p, int flip) {  // flip: 128 for i8, 0 for u8
  if constexpr (V::kWidth == 1) return V::of(typename V::Scalar((int(uint8_t(*p)) ^ flip) - flip));
  else {
    Raw<uint8_t, V::kWidth> b;
    __builtin_memcpy(&b, p, sizeof b);
    const auto i = (__builtin_convertvector(b, Raw<int32_t, V::kWidth>) ^ flip) - flip;
    return V::of(__builtin_convertvector(i, Raw<typename V::Scalar, V::kWidth>));
  }
}
// The low byte of an integer, which x + magic holds in its last bits.
template <class V> BARACUDA_HD void store_code(char* p, V code) {
  const auto b = bits(code + kMagic<V>);
  if constexpr (V::kWidth == 1) *p = char(uint8_t(b));
  else {
    const auto low = __builtin_convertvector(b, Raw<uint8_t, V::kWidth>);
    __builtin_memcpy(p, &low, sizeof low);
  }
}
template <class V> struct Codes {
  V z, lo, hi;
  BARACUDA_HD Codes(const double* parameters, const char* zero_point) {
    z = clamp(load_int<V>(zero_point), parameters[0], parameters[1]);
    lo = V(parameters[0]) - z, hi = V(parameters[1]) - z;
  }
};
template <class V> BARACUDA_HD V code_steps(const double* parameters, const char* code, const char* zero_point) {
  return load_code<V>(code, parameters[2] != 0 ? 128 : 0) - Codes<V>(parameters, zero_point).z;
}

// f(inputs, outputs) for the next N elements; what does not fill a vector goes through a buffer. `size`: bytes of an element.
template <int N, int kIn, int kOut, class F>
BARACUDA_HD void each(const int (&size)[kIn + kOut], const void* const* in, void* const* out, int64_t n, F f) {
  const char* x[kIn];
  char* y[kOut];
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    for (int k = 0; k < kIn; ++k) x[k] = static_cast<const char*>(in[k]) + i * size[k];
    for (int k = 0; k < kOut; ++k) y[k] = static_cast<char*>(out[k]) + i * size[kIn + k];
    f(x, y);
  }
  if (i == n) return;
  alignas(64) char rest[kIn + kOut][N * 8] = {};
  for (int k = 0; k < kIn; ++k) {
    __builtin_memcpy(rest[k], static_cast<const char*>(in[k]) + i * size[k], size_t(n - i) * size_t(size[k]));
    x[k] = rest[k];
  }
  for (int k = 0; k < kOut; ++k) y[k] = rest[kIn + k];
  f(x, y);
  for (int k = 0; k < kOut; ++k)
    __builtin_memcpy(static_cast<char*>(out[k]) + i * size[kIn + k], rest[kIn + k], size_t(n - i) * size_t(size[kIn + k]));
}
template <class T> BARACUDA_HD V<T> get(const char* p) { return load<V<T>::kWidth>(reinterpret_cast<const T*>(p)); }
template <class T> BARACUDA_HD void set(char* p, V<T> v) { store<T, V<T>::kWidth>(reinterpret_cast<T*>(p), v); }
template <class T> inline constexpr int kSize = sizeof(T);
template <class T> inline constexpr int kAccSize = sizeof(Acc<T>);

template <class T> void quantize_map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  each<V<T>::kWidth, 3, 1>({kSize<T>, kAccSize<T>, 4, 1}, in, out, n, [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    const Codes<V<T>> c(parameters, x[2]);
    store_code(y[0], quantize::steps(get<T>(x[0]), get<Acc<T>>(x[1]), c.lo, c.hi) + c.z);
  });
}
template <class T> void dequantize_map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  each<V<T>::kWidth, 3, 1>({1, kAccSize<T>, 4, kSize<T>}, in, out, n, [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    set<T>(y[0], quantize::dequantized(code_steps<V<T>>(parameters, x[0], x[2]), get<Acc<T>>(x[1])));
  });
}
template <class T> void fake_map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  each<V<T>::kWidth, 3, 1>({kSize<T>, kAccSize<T>, 4, kSize<T>}, in, out, n, [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    const Codes<V<T>> c(parameters, x[2]);
    const V<T> s = get<Acc<T>>(x[1]);
    set<T>(y[0], quantize::dequantized(quantize::steps(get<T>(x[0]), s, c.lo, c.hi), s));
  });
}
// F: dx from (dy, s, place).
template <class T, class F> BARACUDA_HD void through(const double* parameters, const void* const* in, void* const* out, int64_t n, F f) {
  each<V<T>::kWidth, 4, 1>({kSize<T>, kSize<T>, kAccSize<T>, 4, kSize<T>}, in, out, n, [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    const Codes<V<T>> c(parameters, x[3]);
    const V<T> s = get<Acc<T>>(x[2]);
    set<T>(y[0], f(get<T>(x[0]), s, quantize::place(get<T>(x[1]), s, c.lo, c.hi)));
  });
}
template <class T> void quantize_backward_map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  through<T>(parameters, in, out, n, [](auto dy, auto s, const auto& p) __attribute__((always_inline)) { return quantize::quantize_dx(dy, s, p); });
}
template <class T> void fake_backward_map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  through<T>(parameters, in, out, n, [](auto dy, auto, const auto& p) __attribute__((always_inline)) { return quantize::fake_dx(dy, p); });
}
template <class T> void dequantize_backward_map(const double*, const void* const* in, void* const* out, int64_t n) {
  const void* used[] = {in[0], in[2]};
  each<V<T>::kWidth, 2, 1>({kSize<T>, kAccSize<T>, kSize<T>}, used, out, n, [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    set<T>(y[0], quantize::dequantize_dx(get<T>(x[0]), get<Acc<T>>(x[1])));
  });
}
template <class T, bool kFake> void terms(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  each<V<T>::kWidth, 4, 2>({kSize<T>, kSize<T>, kAccSize<T>, 4, kAccSize<T>, kAccSize<T>}, in, out, n,
                           [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    const Codes<V<T>> c(parameters, x[3]);
    const V<T> dy = get<T>(x[0]), s = get<Acc<T>>(x[2]);
    const auto p = quantize::place(get<T>(x[1]), s, c.lo, c.hi);
    set<Acc<T>>(y[0], kFake ? quantize::fake_dscale(dy, p) : quantize::quantize_dscale(dy, s, p));
    set<Acc<T>>(y[1], kFake ? quantize::fake_dzero(dy, s, p) : quantize::quantize_dzero(dy, p));
  });
}
template <class T> void dequantize_terms(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  each<V<T>::kWidth, 4, 2>({kSize<T>, 1, kAccSize<T>, 4, kAccSize<T>, kAccSize<T>}, in, out, n,
                           [&](const char* const* x, char* const* y) __attribute__((always_inline)) {
    const V<T> dy = get<T>(x[0]), s = get<Acc<T>>(x[2]);
    set<Acc<T>>(y[0], quantize::dequantize_dscale(dy, code_steps<V<T>>(parameters, x[1], x[3]), s));
    set<Acc<T>>(y[1], -quantize::dequantize_dx(dy, s));
  });
}

// Only finite elements widen a range.
template <class V> BARACUDA_HD void widen(V x, V& lo, V& hi) {
  const auto finite = abs(x) < kInf;
  lo = where(finite & (x < lo), x, lo), hi = where(finite & (x > hi), x, hi);
}
template <class T> void range(const void* from, int64_t step, int64_t n, void* low, void* high) {
  using W = V<T>;
  constexpr int N = W::kWidth;
  const T* x = static_cast<const T*>(from);
  Acc<T>&lo = *static_cast<Acc<T>*>(low), &hi = *static_cast<Acc<T>*>(high);
  W los[4], his[4];
  for (int k = 0; k < 4; ++k) los[k] = double(lo), his[k] = double(hi);
  int64_t i = 0;
  if (step == 1) {
    for (; i + 4 * N <= n; i += 4 * N)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) widen(load<N>(x + i + k * N), los[k], his[k]);
    for (; i + N <= n; i += N) widen(load<N>(x + i), los[0], his[0]);
    if (i < n) widen(load_tail<N>(x + i, int(n - i), kNaN), los[1], his[1]), i = n;
  }
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < N; ++j) {
      lo = los[k].lane(j) < lo ? los[k].lane(j) : lo;
      hi = his[k].lane(j) > hi ? his[k].lane(j) : hi;
    }
  for (; i < n; ++i) {
    Pack<Acc<T>, 1> l = double(lo), h = double(hi);
    widen(load<1>(x + i * step), l, h);
    lo = l.v, hi = h.v;
  }
}
template <class T> void ranges(const void* from, int64_t step, int64_t n, void* low, void* high, int64_t range_step) {
  const T* x = static_cast<const T*>(from);
  Acc<T>*lo = static_cast<Acc<T>*>(low), *hi = static_cast<Acc<T>*>(high);
  int64_t i = 0;
  if (step == 1 && range_step == 1) {
    constexpr int N = V<T>::kWidth;
    for (; i + N <= n; i += N) {
      V<T> l = load<N>(lo + i), h = load<N>(hi + i);
      widen(load<N>(x + i), l, h);
      store<Acc<T>, N>(lo + i, l), store<Acc<T>, N>(hi + i, h);
    }
  }
  for (; i < n; ++i) {
    Pack<Acc<T>, 1> l = load<1>(lo + i * range_step), h = load<1>(hi + i * range_step);
    widen(load<1>(x + i * step), l, h);
    lo[i * range_step] = l.v, hi[i * range_step] = h.v;
  }
}

template <class Entry, class F> constexpr ByDType<Entry> all(F f) { return by_dtype<Entry>(Floating{}, f); }

}  // namespace
extern constexpr QuantizeKernels quantize_kernels = {
    all<MapRun>([]<class T>() { return &quantize_map<T>; }),
    all<MapRun>([]<class T>() { return &dequantize_map<T>; }),
    all<MapRun>([]<class T>() { return &fake_map<T>; }),
    all<MapRun>([]<class T>() { return &quantize_backward_map<T>; }),
    all<MapRun>([]<class T>() { return &dequantize_backward_map<T>; }),
    all<MapRun>([]<class T>() { return &fake_backward_map<T>; }),
    all<MapRun>([]<class T>() { return &terms<T, false>; }),
    all<MapRun>([]<class T>() { return &dequantize_terms<T>; }),
    all<MapRun>([]<class T>() { return &terms<T, true>; }),
    all<void (*)(const void*, int64_t, int64_t, void*, void*)>([]<class T>() { return &range<T>; }),
    all<void (*)(const void*, int64_t, int64_t, void*, void*, int64_t)>([]<class T>() { return &ranges<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
