#pragma once
// Expands a complex functor into its entry, for the instruction-set units: a vector of real and one of imaginary parts, taken
// apart and joined in registers. 2 sizeof(T) bytes per complex stream and element; the floor is memory bandwidth.
#include <utility>
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/complex_streams_math.hpp"
#include "baracuda/ops/elementwise/map_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

// Lane i of the result is lane From(i) of the 2 N lanes of a and b.
template <class T, int N, class From, size_t... I> BARACUDA_HD Raw<T, N> shuffled(Raw<T, N> a, Raw<T, N> b, From, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, From::of(int(I), N)...);
}
struct Even { static constexpr int of(int i, int) { return 2 * i; } };
struct Odd { static constexpr int of(int i, int) { return 2 * i + 1; } };
struct LowPairs { static constexpr int of(int i, int n) { return i / 2 + i % 2 * n; } };
struct HighPairs { static constexpr int of(int i, int n) { return n / 2 + i / 2 + i % 2 * n; } };
template <int N, class T> BARACUDA_HD Complex<Pack<T, N>> load_complex(const T* p) {
  using V = Pack<T, N>;
  if constexpr (N == 1) return {V::of(p[0]), V::of(p[1])};
  else {
    const V a = load<N>(p), b = load<N>(p + N);
    return {V::of(shuffled<T, N>(a.v, b.v, Even{}, std::make_index_sequence<N>{})), V::of(shuffled<T, N>(a.v, b.v, Odd{}, std::make_index_sequence<N>{}))};
  }
}
template <class T, int N> BARACUDA_HD void store_complex(T* p, Complex<Pack<T, N>> x) {
  using V = Pack<T, N>;
  if constexpr (N == 1) p[0] = x.re.v, p[1] = x.im.v;
  else {
    store<T, N>(p, V::of(shuffled<T, N>(x.re.v, x.im.v, LowPairs{}, std::make_index_sequence<N>{})));
    store<T, N>(p + N, V::of(shuffled<T, N>(x.re.v, x.im.v, HighPairs{}, std::make_index_sequence<N>{})));
  }
}

// Every stream of the loops is complex; of one that is real in memory only the real part is moved.
template <bool complex, int N, class T> BARACUDA_HD Complex<Pack<T, N>> load_either(const T* p) {
  if constexpr (complex) return load_complex<N>(p);
  else return {load<N>(p), 0};
}
template <bool complex, class T, int N> BARACUDA_HD void store_either(T* p, Complex<Pack<T, N>> x) {
  if constexpr (complex) store_complex<T, N>(p, x);
  else store<T, N>(p, x.re);
}
template <class F, class T, class O, int k> BARACUDA_HD void load_stream(Complex<Pack<T, kLanes<T>>>* in, const T* const* x, int64_t i) {
  if constexpr (k < F::in) {
    if constexpr (F::needs(k)) in[k] = load_either<F::reads_complex(k), kLanes<T>>(x[k] + (F::reads_complex(k) ? 2 * i : i));
    load_stream<F, T, O, k + 1>(in, x, i);
  }
}
// n is a multiple of the vector's lanes; one copy of the formula serves whole vectors and the rest, as in map_cpu.hpp.
template <class F, class T, class O> __attribute__((noinline)) void complex_vectors(const F& f, const T* const (&x)[F::in], O* const (&y)[F::out], int64_t n) {
  constexpr int N = kLanes<T>;
#if BARACUDA_VECTOR_BYTES == 0
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; i += N) {
    Complex<Pack<T, N>> in[F::in] = {};
    load_stream<F, T, O, 0>(in, x, i);
    if constexpr (std::is_same_v<O, bool>) store_mask<N>(y[0] + i, f.value(in));
    else {
      Complex<Pack<T, N>> out[F::out];
      f(in, out);
      for (int k = 0; k < F::out; ++k) store_either<F::writes_complex, T, N>(y[k] + (F::writes_complex ? 2 * i : i), out[k]);
    }
  }
}
template <class F, class T, class O> void map_complex(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  constexpr int N = kLanes<T>, kNumbers = std::is_same_v<O, bool> || !F::writes_complex ? 1 : 2;
  F f;
  f.alpha = parameters[0], f.beta = parameters[1];
  const T* x[F::in];
  O* y[F::out];
  for (int k = 0; k < F::in; ++k) x[k] = static_cast<const T*>(in[k]);
  for (int k = 0; k < F::out; ++k) y[k] = static_cast<O*>(out[k]);
  const int64_t whole = n / N * N;
  if (whole) complex_vectors<F, T, O>(f, x, y, whole);
  if (whole == n) return;
  T x_rest[F::in][2 * N] = {};
  O y_rest[F::out][2 * N];
  const T* xs[F::in];
  O* ys[F::out];
  for (int k = 0; k < F::in; ++k) {
    const int64_t numbers = F::reads_complex(k) ? 2 : 1;
    if (F::needs(k)) for (int64_t j = numbers * whole; j < numbers * n; ++j) x_rest[k][j - numbers * whole] = x[k][j];
    xs[k] = x_rest[k];
  }
  for (int k = 0; k < F::out; ++k) ys[k] = y_rest[k];
  complex_vectors<F, T, O>(f, xs, ys, N);
  for (int k = 0; k < F::out; ++k)
    for (int64_t j = kNumbers * whole; j < kNumbers * n; ++j) y[k][j] = y_rest[k][j - kNumbers * whole];
}

template <class Op> constexpr ElementwiseEntry complex_kind() {
  using S = ComplexShape<Op, double>;
  ElementwiseEntry e{{}, {}, {Op::reads, Op::reads_b, Op::reads_c}, Op::parameters, Op::rule, {Op::defaults[0], Op::defaults[1], Op::defaults[2]}, Op::predicate, false, false, !Op::predicate && S::operands != S::result};
  auto loop = []<class T>() -> MapRun { return &map_complex<ComplexForward<Op, T>, T, std::conditional_t<Op::predicate, bool, T>>; };
  e.forward[S::operands ? DType::c64 : DType::f32] = loop.template operator()<float>();
  e.forward[S::operands ? DType::c128 : DType::f64] = loop.template operator()<double>();
  if constexpr (!Op::predicate)
    e.backward[0] = &map_complex<ComplexBackward<Op, float>, float, float>, e.backward[1] = &map_complex<ComplexBackward<Op, double>, double, double>;
  return e;
}
template <int N> constexpr ElementwiseTable<N> complex_table(const ElementwiseEntry (&entries)[N]) {
  ElementwiseTable<N> t{};
  for (int i = 0; i < N; ++i) t.kind[i] = entries[i];
  return t;
}

}  // namespace
}  // namespace baracuda
