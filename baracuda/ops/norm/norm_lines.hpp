#pragma once
// Rows by lines of packs. Where packs of bf16 are widened by the even and the odd elements of a register (math/twice.hpp), a row may be
// dealt: packs 2 k and 2 k + 1 of a line are the even and the odd ones of its 2 N elements from 2 k N on. Vectors in the accumulator type
// that stand beside such rows, weights and their gradients, lie dealt in memory, but for what is left behind whole pairs of packs.
#include "baracuda/math/bf16_instruction.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

// count & (N - 1): what count is anyway below N, in a form from which compilers see the bound.
template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count, bool past = false) {
  if (count < N) store_tail<T, N>(p, v, count & (N - 1));
  else if (past) store_past<T, N>(p, v);
  else store<T, N>(p, v);
}
// f(first element, lanes used) over a row.
template <int N, class F> BARACUDA_HD void each_pack(int64_t n, F f) {
  int64_t i = 0;
  for (; i + N <= n; i += N) f(i, N);
  if (i < n) f(i, int(n - i));
}

template <class T> inline constexpr bool kDealt = kStep<T, kLanes<Acc<T>>> == 2;
// Packs that go together in a dealt row.
template <class T> inline constexpr int kTogether = kDealt<T> ? 2 : 1;
// Packs that fill a line: what goes past the caches goes by whole lines, and halves are rounded two packs at a time.
template <class T> inline constexpr int kPacksOfLine = kLanes<Acc<T>> > 1 && kLanes<Acc<T>> * int(sizeof(T)) < 64 ? 64 / (kLanes<Acc<T>> * int(sizeof(T))) : 1;
// f(packs side by side, first element, elements) over a row, by lines, then by Q packs: fewer elements than packs have lanes come last.
template <class T, int Q = 1, class F> BARACUDA_HD void each_line(int64_t n, F f) {
  constexpr int N = kLanes<Acc<T>>, P = kPacksOfLine<T>;
  int64_t i = 0;
  if constexpr (P > Q)
    for (; i + P * N <= n; i += P * N) f(std::integral_constant<int, P>(), i, P * N);
  for (; i + Q * N <= n; i += Q * N) f(std::integral_constant<int, Q>(), i, Q * N);
  if (i < n) f(std::integral_constant<int, Q>(), i, int(n - i));
}
template <int N, class T, int P> BARACUDA_HD void put_line(T* p, const Pack<Acc<T>, N> (&v)[P], int count, bool past) {
  if constexpr (kIsHalf<T> && P % 2 == 0)
#pragma GCC unroll 8
    for (int k = 0; k < P; k += 2) store_twice_rounded<T, N>(p + k * N, v[k], v[k + 1], past);
  else
#pragma GCC unroll 8
    for (int k = 0; k < P; ++k) put<N>(p + k * N, v[k], count / P, past);
}
// to[i] = f(i, lanes used) over a row, by lines.
template <class T, class F> BARACUDA_HD void put_row(T* to, int64_t n, bool past, F f) {
  constexpr int N = kLanes<Acc<T>>;
  each_line<T>(n, [&]<int P>(std::integral_constant<int, P>, int64_t i, int count) __attribute__((always_inline)) {
    Pack<Acc<T>, N> v[P];
#pragma GCC unroll 8
    for (int k = 0; k < P; ++k) v[k] = f(i + k * N, count / P);
    put_line<N>(to + i, v, count, past);
  });
}

// --- dealt rows; rows of other types lie as they are

template <int N, class T> BARACUDA_HD Twice<Pack<Acc<T>, N>> load_apart_tail(const T* p, int count) {  // zeros from `count` on
#if BARACUDA_VECTOR_BYTES == 64
  using V = Pack<Acc<T>, N>;
  if constexpr (kIsBf16<T> && N == 16) {
    const auto pairs = typename V::Bits(_mm512_maskz_loadu_epi16(count < 32 ? (uint32_t(1) << count) - 1 : ~uint32_t(0), p));
    return {V::from_bits(pairs << 16), V::from_bits(pairs & int32_t(0xffff0000))};
  }
#endif
  alignas(64) T buffer[2 * N] = {};
  for (int i = 0; i < count; ++i) buffer[i] = p[i];
  return load_apart<N>(buffer);
}
template <class T, class F> BARACUDA_HD void each_dealt_line(int64_t n, F f) { each_line<T, kTogether<T>>(n, f); }
// P packs of a row; behind its end are zeros.
template <class T, int N, int P> BARACUDA_HD void get_dealt(Pack<Acc<T>, N> (&v)[P], const T* p, int count) {
  if constexpr (!kDealt<T>) {
#pragma GCC unroll 8
    for (int k = 0; k < P; ++k) v[k] = get<N>(p + k * N, count / P);
  } else {
#pragma GCC unroll 8
    for (int k = 0; k < P; k += 2) {
      const auto both = count == P * N ? load_dealt<N>(p + k * N) : load_apart_tail<N>(p, count);
      v[k] = both.low, v[k + 1] = both.high;
    }
  }
}
template <class T, int N, int P> BARACUDA_HD void put_dealt(T* p, const Pack<Acc<T>, N> (&v)[P], int count, bool past) {
  if constexpr (!kDealt<T>) put_line<N>(p, v, count, past);
  else if (count == P * N) {
#pragma GCC unroll 8
    for (int k = 0; k < P; k += 2) store_dealt_rounded<T, N>(p + k * N, v[k], v[k + 1], past);
  } else {
    alignas(64) T buffer[2 * N];
    store_dealt_rounded<T, N>(buffer, v[0], v[1], false);
    for (int i = 0; i < count; ++i) p[i] = buffer[i];
  }
}
template <int N> BARACUDA_HD int part_of(int count, int k) { return count <= k * N ? 0 : count - k * N < N ? count - k * N : N; }
// P packs of a vector beside rows of T.
template <class T, class A, int N, int P> BARACUDA_HD void get_beside(Pack<A, N> (&v)[P], const A* p, int count) {
  if constexpr (kDealt<T>)
    if (count < P * N) {
      const auto both = apart(get<N>(p, part_of<N>(count, 0)), get<N>(p + N, part_of<N>(count, 1)), std::make_integer_sequence<int, N>{});
      v[0] = both.low, v[P - 1] = both.high;
      return;
    }
#pragma GCC unroll 8
  for (int k = 0; k < P; ++k) v[k] = get<N>(p + k * N, count / P);
}
template <class T, class A, int N, int P> BARACUDA_HD void put_beside(A* p, const Pack<A, N> (&v)[P], int count) {
  if constexpr (kDealt<T>)
    if (count < P * N) {
      const auto both = by_turns(v[0], v[P - 1], std::make_integer_sequence<int, N>{});
      put<N>(p, both.low, part_of<N>(count, 0)), put<N>(p + N, both.high, part_of<N>(count, 1));
      return;
    }
#pragma GCC unroll 8
  for (int k = 0; k < P; ++k) put<N>(p + k * N, v[k], count / P);
}
// Sums of dealt packs in the order of the elements.
template <class T, int N, int P> BARACUDA_HD void put_in_order(Pack<Acc<T>, N> (&v)[P]) {
  if constexpr (kDealt<T>)
#pragma GCC unroll 8
    for (int k = 0; k < P; k += 2) {
      const auto both = by_turns(v[k], v[k + 1], std::make_integer_sequence<int, N>{});
      v[k] = both.low, v[k + 1] = both.high;
    }
}
// And back.
template <class T, int N, int P> BARACUDA_HD void deal(Pack<Acc<T>, N> (&v)[P]) {
  if constexpr (kDealt<T>)
#pragma GCC unroll 8
    for (int k = 0; k < P; k += 2) {
      const auto both = apart(v[k], v[k + 1], std::make_integer_sequence<int, N>{});
      v[k] = both.low, v[k + 1] = both.high;
    }
}
// Where element i of n stands in a vector beside dealt rows of N lanes.
template <int N> BARACUDA_HD int64_t dealt_place(int64_t i, int64_t n) {
  const int64_t first = i / (2 * N) * (2 * N), at = i - first;
  return N == 1 || first + 2 * N > n ? i : first + at / 2 + at % 2 * N;
}
// Which element stands there.
template <int N> BARACUDA_HD int64_t dealt_element(int64_t place, int64_t n) {
  const int64_t first = place / (2 * N) * (2 * N), at = place - first;
  return N == 1 || first + 2 * N > n ? place : first + at % N * 2 + at / N;
}

}  // namespace
}  // namespace BARACUDA_ISA
}  // namespace baracuda
