// Values of a map into sums of f64, for one instruction set: in L1, or, where the map is its first operand, from memory, which is
// the floor: one stream read. An addition and a conversion for each value; halves add eight rows in f32 first.
#include "baracuda/math/element.hpp"
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class W> void add_row(double* acc, const void* x, int64_t n) {
  const W* v = static_cast<const W*>(x);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) acc[i] += double(v[i]);
}
void add_to_group(float* acc, const float* x, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) acc[i] += x[i];
}
template <class W> void add_short(double* acc, const void* x, int64_t n, int64_t phase) {
  constexpr int L = kLanesOfShortSum;
  const W* v = static_cast<const W*>(x);
  int64_t i = 0;
  for (; i < n && (phase + i) % L; ++i) acc[(phase + i) % L] += double(v[i]);
  double lane[L];
  for (int l = 0; l < L; ++l) lane[l] = acc[l];
  for (; i + L <= n; i += L)
    for (int l = 0; l < L; ++l) lane[l] += double(v[i + l]);
  for (int l = 0; l < L; ++l) acc[l] = lane[l];
  for (; i < n; ++i) acc[(phase + i) % L] += double(v[i]);
}

// A register of values is one or two of f64 sums.
template <class A> inline constexpr int kPacks = sizeof(A) == 4 && kLanes<A> > 1 ? 2 : 1;
template <class A> using Sums = Pack<double, kLanes<A> / kPacks<A>>;
template <class A, int N> BARACUDA_HD void add_wide(Sums<A>* acc, Pack<A, N> v) {
  if constexpr (kPacks<A> == 1) *acc = *acc + convert<double>(v);
  else {
    const auto d = widen(v);
    acc[0] = acc[0] + d.low, acc[1] = acc[1] + d.high;
  }
}
template <class T> void add_lanes(double* acc, const void* x, int64_t n, int64_t phase) {
  using A = Acc<T>;
  constexpr int L = kLanesOfSum, N = kLanes<A>, P = kPacks<A>, H = N / P;
  const T* v = static_cast<const T*>(x);
  auto one = [&](int64_t i) { acc[(phase + i) % L] += convert<double>(load<1>(v + i)).v; };
  int64_t i = 0;
  for (; i < n && (phase + i) % L; ++i) one(i);
  Sums<A> lane[L / H];
#pragma GCC unroll 32
  for (int k = 0; k < L / H; ++k) lane[k] = load<H>(acc + k * H);
  for (; i + L <= n; i += L)
#pragma GCC unroll 32
    for (int k = 0; k < L / N; ++k) add_wide<A>(lane + k * P, load<N>(v + i + k * N));
#pragma GCC unroll 32
  for (int k = 0; k < L / H; ++k) store<double, H>(acc + k * H, lane[k]);
  for (; i < n; ++i) one(i);
}
// C packs of columns at j; kRows: of as many rows, 0: of `count`.
template <class T, int C, int kRows> BARACUDA_HD void add_columns(double* acc, const void* const* rows, const void* const* next, int64_t count, int64_t j) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>, P = kPacks<A>, H = N / P;
  // A few short streams at a time are too many for the processor to see where they go: the next rows are fetched.
  auto at = [&](int64_t r, int c) __attribute__((always_inline)) {
    if (kRows && (c * N * int(sizeof(T))) % 64 == 0) __builtin_prefetch(static_cast<const T*>(next[r]) + j + c * N, 0, 2);
    return load<N>(static_cast<const T*>(rows[r]) + j + c * N);
  };
  Sums<A> sum[C * P];
#pragma GCC unroll 4
  for (int k = 0; k < C * P; ++k) sum[k] = load<H>(acc + j + k * H);
  const int64_t n = kRows ? kRows : count;
  if constexpr (kIsHalf<T>) {
    Pack<A, N> group[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) group[c] = at(0, c);
#pragma GCC unroll 8
    for (int64_t r = 1; r < n; ++r)
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) group[c] = group[c] + at(r, c);
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) add_wide<A>(sum + c * P, group[c]);
  } else {
#pragma GCC unroll 8
    for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) add_wide<A>(sum + c * P, at(r, c));
  }
#pragma GCC unroll 4
  for (int k = 0; k < C * P; ++k) store<double, H>(acc + j + k * H, sum[k]);
}
template <class T> void add_column(double* acc, const void* const* rows, int64_t count, int64_t j) {
  auto at = [&](int64_t r) { return load<1>(static_cast<const T*>(rows[r]) + j); };
  double sum = acc[j];
  if constexpr (kIsHalf<T>) {
    auto group = at(0);
    for (int64_t r = 1; r < count; ++r) group = group + at(r);
    sum += double(group.v);
  } else {
    for (int64_t r = 0; r < count; ++r) sum += double(at(r).v);
  }
  acc[j] = sum;
}
template <class T, int kRows> void add_some_rows(double* acc, const void* const* rows, const void* const* next, int64_t count, int64_t n) {
  constexpr int N = kLanes<Acc<T>>;
  int64_t j = 0;
  for (; j + 2 * N <= n; j += 2 * N) add_columns<T, 2, kRows>(acc, rows, next, count, j);
  for (; j + N <= n; j += N) add_columns<T, 1, kRows>(acc, rows, next, count, j);
  for (; j < n; ++j) add_column<T>(acc, rows, count, j);
}
template <class T> void add_rows(double* acc, const void* const* rows, int64_t count, int64_t n) {
  constexpr int kAtOnce = kIsHalf<T> ? kGroupOfHalves : 4;
  for (; count >= kAtOnce; count -= kAtOnce, rows += kAtOnce) add_some_rows<T, kAtOnce>(acc, rows, rows + (count >= 2 * kAtOnce ? kAtOnce : 0), kAtOnce, n);
  if (count > 0) add_some_rows<T, 0>(acc, rows, rows, count, n);
}
constexpr BroadcastSumKernels make() {
  return {{add_row<float>, add_row<double>}, add_to_group, {add_short<float>, add_short<double>},
          by_dtype<void (*)(double*, const void*, int64_t, int64_t)>(Floating{}, []<class T>() { return &add_lanes<T>; }),
          by_dtype<void (*)(double*, const void* const*, int64_t, int64_t)>(Floating{}, []<class T>() { return &add_rows<T>; })};
}

}  // namespace
extern constexpr BroadcastSumKernels broadcast_sum_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
