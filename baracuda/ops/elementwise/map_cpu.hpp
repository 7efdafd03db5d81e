#pragma once
// The arithmetic loop of a map, for instruction-set units: vectors over dense memory; the rest that does not fill a
// vector goes through the same code in a buffer, so that every element takes the same operations.
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <int N, class M> BARACUDA_HD void store_mask(bool* y, M m) {
  if constexpr (N == 1) *y = m;
  else {
    const Raw<int8_t, N> bytes = -__builtin_convertvector(m, Raw<int8_t, N>);
    __builtin_memcpy(y, &bytes, sizeof bytes);
  }
}
// n is a multiple of the vector's lanes. Not inlined: one copy of the formula serves whole vectors and the rest.
template <class F, class T, class O>
__attribute__((noinline)) void map_vectors(const F& f, const T* const (&x)[F::in], O* const (&y)[F::out], int64_t n) {
  constexpr int N = kLanes<Acc<T>>;
#if BARACUDA_VECTOR_BYTES == 0
#pragma GCC ivdep  // one lane: the compiler vectorises where it can
#endif
  for (int64_t i = 0; i < n; i += N) {
    Pack<Acc<T>, N> in[F::in] = {};
    for (int k = 0; k < F::in; ++k)
      if (F::needs(k)) in[k] = load<N>(x[k] + i);
    if constexpr (std::is_same_v<O, bool>) store_mask<N>(y[0] + i, f.value(in));
    else {
      Pack<Acc<T>, N> out[F::out];
      f(in, out);
      for (int k = 0; k < F::out; ++k) store<O, N>(y[k] + i, out[k]);
    }
  }
}
template <class F> BARACUDA_HD F with_parameters(const double* parameters) {
  F f;
  f.alpha = parameters[0], f.beta = parameters[1];
  if constexpr (requires { f.gamma; }) f.gamma = parameters[2];
  return f;
}
// F: in, out, needs(k), alpha, beta (gamma), operator()(const V* x, V* y). T is read, O written: T, its accumulator, or bool
// for the mask that value(x) gives.
template <class F, class T, class O> void map_dense(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  constexpr int N = kLanes<Acc<T>>;
  const F f = with_parameters<F>(parameters);
  const T* x[F::in];
  O* y[F::out];
  for (int k = 0; k < F::in; ++k) x[k] = static_cast<const T*>(in[k]);
  for (int k = 0; k < F::out; ++k) y[k] = static_cast<O*>(out[k]);
  const int64_t whole = n / N * N;
  if (whole) map_vectors<F, T, O>(f, x, y, whole);
  if (whole == n) return;
  T x_rest[F::in][N] = {};
  O y_rest[F::out][N];
  const T* xs[F::in];
  O* ys[F::out];
  for (int k = 0; k < F::in; ++k) {
    if (F::needs(k)) for (int64_t j = whole; j < n; ++j) x_rest[k][j - whole] = x[k][j];
    xs[k] = x_rest[k];
  }
  for (int k = 0; k < F::out; ++k) ys[k] = y_rest[k];
  map_vectors<F, T, O>(f, xs, ys, N);
  for (int k = 0; k < F::out; ++k)
    for (int64_t j = whole; j < n; ++j) y[k][j] = y_rest[k][j - whole];
}

}  // namespace
}  // namespace baracuda
