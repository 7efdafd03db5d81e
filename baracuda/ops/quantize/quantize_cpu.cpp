// Maps of quantisation: 1 byte of code beside sizeof(T) of value; the floor is memory bandwidth. Elements that have a scale each are divided by it,
// those of a row multiplied with its reciprocal and set right: the same bits.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/math/bf16_instruction.hpp"
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
    Raw<int32_t, V::kWidth> i;
#if BARACUDA_VECTOR_BYTES == 64  // compilers take convertvector apart here
    if constexpr (V::kWidth == 16) i = Raw<int32_t, V::kWidth>(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)));
    else i = Raw<int32_t, V::kWidth>(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#elif BARACUDA_VECTOR_BYTES == 32
    if constexpr (V::kWidth == 8) i = Raw<int32_t, V::kWidth>(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
    else i = Raw<int32_t, V::kWidth>(_mm_cvtepu8_epi32(_mm_loadu_si32(p)));
#endif
    i = (i ^ flip) - flip;
    return V::of(__builtin_convertvector(i, Raw<typename V::Scalar, V::kWidth>));
  }
}
template <class V> BARACUDA_HD void store_code_bits(char* p, typename V::Bits b) {
  if constexpr (V::kWidth == 1) *p = char(uint8_t(b));
#if BARACUDA_VECTOR_BYTES == 64
  else if constexpr (V::kF32) _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(__m512i(b)));
  else _mm_storel_epi64((__m128i*)p, _mm512_cvtepi64_epi8(__m512i(b)));
#elif BARACUDA_VECTOR_BYTES == 32
  else if constexpr (V::kF32) {
    const __m256i low = _mm256_and_si256(__m256i(b), _mm256_set1_epi32(255));
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(words, words));
  } else {
    for (int k = 0; k < V::kWidth; ++k) p[k] = char(uint8_t(b[k]));
  }
#endif
}
template <class V> BARACUDA_HD void store_code(char* p, V code) { store_code_bits<V>(p, quantize::code_bits(code)); }
// 2 N codes, taken apart and put together as load_dealt() and store_dealt() do it with values of type T.
template <class T> BARACUDA_HD Twice<V<T>> load_codes(const char* p, int flip) {
  constexpr int N = V<T>::kWidth;
  if constexpr (kStep<T, N> == 2) {
    Raw<int32_t, N> pairs;
#if BARACUDA_VECTOR_BYTES == 64
    pairs = Raw<int32_t, N>(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)));
#elif BARACUDA_VECTOR_BYTES == 32
    pairs = Raw<int32_t, N>(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)));
#endif
    const auto value = [&](Raw<int32_t, N> code) __attribute__((always_inline)) { return V<T>::of(__builtin_convertvector((code ^ flip) - flip, Raw<float, N>)); };
    return {value(pairs & 255), value(pairs >> 8)};
  } else return {load_code<V<T>>(p, flip), load_code<V<T>>(p + N, flip)};
}
template <class T> BARACUDA_HD void store_codes(char* p, typename V<T>::Bits low, typename V<T>::Bits high) {
  constexpr int N = V<T>::kWidth;
  if constexpr (kStep<T, N> == 2) {
    const auto pairs = (low & 255) | (high & 255) << 8;
#if BARACUDA_VECTOR_BYTES == 64
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(__m512i(pairs)));
#elif BARACUDA_VECTOR_BYTES == 32
    _mm_storeu_si128((__m128i*)p, _mm_packus_epi32(_mm256_castsi256_si128(__m256i(pairs)), _mm256_extracti128_si256(__m256i(pairs), 1)));
#endif
  } else store_code_bits<V<T>>(p, low), store_code_bits<V<T>>(p + N, high);
}
template <class V> BARACUDA_HD V code_steps(const double* parameters, const char* code, V zero_point) {
  return load_code<V>(code, parameters[2] != 0 ? 128 : 0) - quantize::Codes<V>(parameters, zero_point).z;
}

// f(inputs, outputs, true) for the next N elements; what does not fill a vector goes through a buffer, with false. `size`: bytes of an element.
template <int N, int kIn, int kOut, class F>
BARACUDA_HD void each(const int (&size)[kIn + kOut], const void* const* in, void* const* out, int64_t n, F f) {
  const char* x[kIn];
  char* y[kOut];
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    for (int k = 0; k < kIn; ++k) x[k] = static_cast<const char*>(in[k]) + i * size[k];
    for (int k = 0; k < kOut; ++k) y[k] = static_cast<char*>(out[k]) + i * size[kIn + k];
    f(x, y, true);
  }
  if (i == n) return;
  alignas(64) char rest[kIn + kOut][N * 8] = {};
  for (int k = 0; k < kIn; ++k) {
    __builtin_memcpy(rest[k], static_cast<const char*>(in[k]) + i * size[k], size_t(n - i) * size_t(size[k]));
    x[k] = rest[k];
  }
  for (int k = 0; k < kOut; ++k) y[k] = rest[kIn + k];
  f(x, y, false);
  for (int k = 0; k < kOut; ++k)
    __builtin_memcpy(static_cast<char*>(out[k]) + i * size[kIn + k], rest[kIn + k], size_t(n - i) * size_t(size[kIn + k]));
}
template <class T> BARACUDA_HD V<T> get(const char* p) { return load<V<T>::kWidth>(reinterpret_cast<const T*>(p)); }
template <class T> BARACUDA_HD void set(char* p, V<T> v) { store<T, V<T>::kWidth>(reinterpret_cast<T*>(p), v); }
template <class T> BARACUDA_HD void set(char* p, V<T> v, bool past) {
  past ? store_past<T, V<T>::kWidth>(reinterpret_cast<T*>(p), v) : set<T>(p, v);
}

template <class T> BARACUDA_HD Twice<V<T>> get_dealt(const char* p) { return load_dealt<V<T>::kWidth>(reinterpret_cast<const T*>(p)); }
template <class T> BARACUDA_HD void set_dealt(char* p, V<T> low, V<T> high, bool past) { store_dealt_rounded<T, V<T>::kWidth>(reinterpret_cast<T*>(p), low, high, past); }

// --- the arithmetic: N values and codes x, their scale and zero point, to y. `size`: bytes of the elements of x and y. A Row has one scale; it
// takes 2 N elements.
template <class T> struct QuantizeOf {
  static constexpr int in = 1, out = 1, size[] = {sizeof(T), 1};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool) {
    const quantize::Codes<V<T>> c(parameters, z);
    store_code(y[0], quantize::steps(get<T>(x[0]), s, c.lo, c.hi) + c.z);
  }
  struct Row {
    quantize::Codes<V<T>> codes;
    quantize::Stepper<V<T>> step;
    BARACUDA_HD Row(V<T> s, V<T> z, const double* parameters) : codes(parameters, z), step(s, codes.lo, codes.hi) {}
    BARACUDA_HD auto code(V<T> x) const { return bits(step.raised(where(x == x, x, V<T>(0))) + codes.z); }
    BARACUDA_HD void run(const char* const* x, char* const* y, bool) const {
      const auto v = get_dealt<T>(x[0]);
      store_codes<T>(y[0], code(v.low), code(v.high));
    }
  };
};
template <class T> struct DequantizeOf {
  static constexpr int in = 1, out = 1, size[] = {1, sizeof(T)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool past) {
    set<T>(y[0], quantize::dequantized(code_steps(parameters, x[0], z), s), past);
  }
  struct Row {
    V<T> s, z;
    int flip;
    BARACUDA_HD Row(V<T> scale, V<T> zero, const double* parameters)
        : s(where(quantize::usable(scale), scale, V<T>(0))), z(quantize::Codes<V<T>>(parameters, zero).z), flip(parameters[2] != 0 ? 128 : 0) {}
    BARACUDA_HD V<T> value(V<T> code) const { return fma(code - z, s, V<T>(0)); }
    BARACUDA_HD void run(const char* const* x, char* const* y, bool past) const {
      const auto code = load_codes<T>(x[0], flip);
      set_dealt<T>(y[0], value(code.low), value(code.high), past);
    }
  };
};
template <class T> struct FakeOf {
  static constexpr int in = 1, out = 1, size[] = {sizeof(T), sizeof(T)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool past) {
    const quantize::Codes<V<T>> c(parameters, z);
    set<T>(y[0], quantize::dequantized(quantize::steps(get<T>(x[0]), s, c.lo, c.hi), s), past);
  }
  struct Row {
    V<T> s;
    quantize::Stepper<V<T>> step;
    BARACUDA_HD Row(V<T> scale, V<T> z, const double* parameters) : Row(scale, quantize::Codes<V<T>>(parameters, z)) {}
    BARACUDA_HD Row(V<T> scale, const quantize::Codes<V<T>>& c) : s(where(quantize::usable(scale), scale, V<T>(0))), step(scale, c.lo, c.hi) {}
    BARACUDA_HD V<T> value(V<T> x) const { return fma(step(x), s, V<T>(0)); }
    BARACUDA_HD void run(const char* const* x, char* const* y, bool past) const {
      const auto v = get_dealt<T>(x[0]);
      set_dealt<T>(y[0], value(v.low), value(v.high), past);
    }
  };
};
template <class T, bool kFake> struct ThroughOf {
  static constexpr int in = 2, out = 1, size[] = {sizeof(T), sizeof(T), sizeof(T)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool past) {
    const quantize::Codes<V<T>> c(parameters, z);
    const auto p = quantize::place(get<T>(x[1]), s, c.lo, c.hi);
    set<T>(y[0], kFake ? quantize::fake_dx(get<T>(x[0]), p) : quantize::quantize_dx(get<T>(x[0]), s, p), past);
  }
  struct Row {  // a step beyond the codes on either side is told from the codes
    V<T> s, least, greatest;
    quantize::Stepper<V<T>> step;
    BARACUDA_HD Row(V<T> scale, V<T> z, const double* parameters) : Row(scale, quantize::Codes<V<T>>(parameters, z)) {}
    BARACUDA_HD Row(V<T> scale, const quantize::Codes<V<T>>& c)
        : s(scale), least(where(quantize::usable(scale), c.lo + kMagic<V<T>>, V<T>(kInf))), greatest(c.hi + kMagic<V<T>>), step(scale, c.lo - 1, c.hi + 1) {}
    BARACUDA_HD V<T> slope(V<T> dy, V<T> x) const {
      const V<T> r = step.raised(x);  // of a NaN below the least
      return where((r >= least) & (r <= greatest), kFake ? dy : dy / s, V<T>(0));
    }
    BARACUDA_HD void run(const char* const* x, char* const* y, bool past) const {
      const auto dy = get_dealt<T>(x[0]), v = get_dealt<T>(x[1]);
      set_dealt<T>(y[0], slope(dy.low, v.low), slope(dy.high, v.high), past);
    }
  };
};
template <class T> struct DequantizeBackwardOf {
  static constexpr int in = 1, out = 1, size[] = {sizeof(T), sizeof(T)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T>, char* const* y, const double*, bool past) {
    set<T>(y[0], quantize::dequantize_dx(get<T>(x[0]), s), past);
  }
  struct Row {
    V<T> s;
    BARACUDA_HD Row(V<T> scale, V<T>, const double*) : s(scale) {}
    BARACUDA_HD void run(const char* const* x, char* const* y, bool past) const {
      const auto dy = get_dealt<T>(x[0]);
      set_dealt<T>(y[0], quantize::dequantize_dx(dy.low, s), quantize::dequantize_dx(dy.high, s), past);
    }
  };
};
template <class T, bool kFake> struct TermsOf {
  static constexpr int in = 2, out = 2, size[] = {sizeof(T), sizeof(T), sizeof(Acc<T>), sizeof(Acc<T>)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool) {
    const quantize::Codes<V<T>> c(parameters, z);
    const V<T> dy = get<T>(x[0]);
    const auto p = quantize::place(get<T>(x[1]), s, c.lo, c.hi);
    set<Acc<T>>(y[0], kFake ? quantize::fake_dscale(dy, p) : quantize::quantize_dscale(dy, s, p));
    set<Acc<T>>(y[1], kFake ? quantize::fake_dzero(dy, s, p) : quantize::quantize_dzero(dy, p));
  }
};
template <class T> struct DequantizeTermsOf {
  static constexpr int in = 2, out = 2, size[] = {sizeof(T), 1, sizeof(Acc<T>), sizeof(Acc<T>)};
  BARACUDA_HD static void run(const char* const* x, V<T> s, V<T> z, char* const* y, const double* parameters, bool) {
    const V<T> dy = get<T>(x[0]);
    set<Acc<T>>(y[0], quantize::dequantize_dscale(dy, code_steps(parameters, x[1], z), s));
    set<Acc<T>>(y[1], -quantize::dequantize_dx(dy, s));
  }
};

template <class F, class T> void map(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  int size[F::in + 2 + F::out];
  for (int k = 0; k < F::in; ++k) size[k] = F::size[k];
  size[F::in] = sizeof(Acc<T>), size[F::in + 1] = 4;
  for (int k = 0; k < F::out; ++k) size[F::in + 2 + k] = F::size[F::in + k];
  each<V<T>::kWidth, F::in + 2, F::out>(size, in, out, n, [&](const char* const* x, char* const* y, bool) __attribute__((always_inline)) {
    F::run(x, get<Acc<T>>(x[F::in]), load_int<V<T>>(x[F::in + 1]), y, parameters, false);
  });
}
template <class F, class T> void rows(const QuantizeRows& r) {
  constexpr int N = 2 * V<T>::kWidth, bytes = F::size[F::in];
  for (int64_t i = 0; i < r.rows; ++i) {
    const typename F::Row row(double(static_cast<const Acc<T>*>(r.scale)[i * r.scale_pitch]), double(r.zero_point[i * r.zero_pitch]), r.parameters);
    const void* in[F::in];
    for (int k = 0; k < F::in; ++k) in[k] = static_cast<const char*>(r.in[k]) + i * r.in_pitch[k] * F::size[k];
    void* out[] = {static_cast<char*>(r.out) + i * r.out_pitch * bytes};
    int64_t head = 0;  // up to where stores past the caches may begin
    if (r.past) head = int64_t((0 - uintptr_t(out[0])) % 64 / bytes);
    if (head > r.n) head = r.n;
    for (int part = head ? 0 : 1; part < 2; ++part) {
      const bool past = r.past && part == 1;
      each<N, F::in, 1>(F::size, in, out, part ? r.n - head : head, [&](const char* const* x, char* const* y, bool there) __attribute__((always_inline)) {
        fetch_ahead<N * F::size[0]>(x[0]);
        if constexpr (F::in == 2) fetch_ahead<N * F::size[1]>(x[1]);
        row.run(x, y, past && there);
      });
      if (part == 0)
        for (int k = 0; k < F::in; ++k) in[k] = static_cast<const char*>(in[k]) + head * F::size[k];
      if (part == 0) out[0] = static_cast<char*>(out[0]) + head * bytes;
    }
  }
  if (r.past) store_past_fence();
}

// Only finite elements widen a range.
template <class V> BARACUDA_HD void widen(V x, V& lo, V& hi) {
  const auto finite = abs(x) < kInf;
  lo = where(finite & (x < lo), x, lo), hi = where(finite & (x > hi), x, hi);
}
template <class T, int N> BARACUDA_HD T least_lane(Pack<T, N> v) {
  if constexpr (N == 1) return v.v;
  else return least_lane(smaller(v.half(0), v.half(1)));
}
template <class T, int N> BARACUDA_HD T greatest_lane(Pack<T, N> v) {
  if constexpr (N == 1) return v.v;
  else return greatest_lane(larger(v.half(0), v.half(1)));
}
template <class T> void range(const void* from, int64_t step, int64_t pitch, int64_t n, int64_t rows, void* low, void* high) {
  using W = V<T>;
  using One = Pack<Acc<T>, 1>;
  constexpr int N = W::kWidth;
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(from) + r * pitch;
    Acc<T>&lo = static_cast<Acc<T>*>(low)[r], &hi = static_cast<Acc<T>*>(high)[r];
    if (step == 1) {  // NaN is passed over; infinities show in the result, and it is made again without them
      W los[4], his[4];
      for (int k = 0; k < 4; ++k) los[k] = double(lo), his[k] = double(hi);
      int64_t i = 0;
      for (; i + 4 * N <= n; i += 4 * N) {
        fetch_ahead<4 * N * int(sizeof(T))>(x + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const W v = load<N>(x + i + k * N);
          los[k] = smaller(v, los[k]), his[k] = larger(v, his[k]);
        }
      }
      for (; i < n; i += N) {
        const W v = i + N <= n ? load<N>(x + i) : load_tail<N>(x + i, int(n - i) & (N - 1), kNaN);
        los[0] = smaller(v, los[0]), his[0] = larger(v, his[0]);
      }
      const Acc<T> l = least_lane(smaller(smaller(los[0], los[1]), smaller(los[2], los[3])));
      const Acc<T> h = greatest_lane(larger(larger(his[0], his[1]), larger(his[2], his[3])));
      if (l > -kInf && h < kInf) {
        lo = l, hi = h;
        continue;
      }
    }
    One l = double(lo), h = double(hi);
    for (int64_t i = 0; i < n; ++i) widen(load<1>(x + i * step), l, h);
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

template <template <class> class F> constexpr ByDType<QuantizeLoops> loops() {
  return by_dtype<QuantizeLoops>(Floating{}, []<class T>() { return QuantizeLoops{&map<F<T>, T>, &rows<F<T>, T>}; });
}
template <class T> using QuantizeBackwardOf = ThroughOf<T, false>;
template <class T> using FakeBackwardOf = ThroughOf<T, true>;

}  // namespace
extern constexpr QuantizeKernels quantize_kernels = {
    loops<QuantizeOf>(), loops<DequantizeOf>(), loops<FakeOf>(), loops<QuantizeBackwardOf>(), loops<DequantizeBackwardOf>(), loops<FakeBackwardOf>(),
    by_dtype<MapRun>(Floating{}, []<class T>() { return &map<TermsOf<T, false>, T>; }),
    by_dtype<MapRun>(Floating{}, []<class T>() { return &map<DequantizeTermsOf<T>, T>; }),
    by_dtype<MapRun>(Floating{}, []<class T>() { return &map<TermsOf<T, true>, T>; }),
    by_dtype<void (*)(const void*, int64_t, int64_t, int64_t, int64_t, void*, void*)>(Floating{}, []<class T>() { return &range<T>; }),
    by_dtype<void (*)(const void*, int64_t, int64_t, void*, void*, int64_t)>(Floating{}, []<class T>() { return &ranges<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
