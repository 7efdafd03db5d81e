#pragma once
// The loop of every elementwise kernel: y... = f(x...) over tensors of one shape. A thread takes a unit of the walk: 16 bytes
// of the narrowest operand, at most 32 of the widest, where vectors are possible. Bytes per element: those of the operands, once;
// the floor is memory bandwidth. Where they are not, a thread takes an element; where that is likely, a warp takes a strip of a row, by a kernel of its own,
// so that its accesses are whole lines and offsets are made once for several elements. There are as many kernels as kinds times dtypes, so each is
// kept short: its units have 32-bit numbers, and more of them take several launches. The lanes of a unit go through the same one-lane
// formula, so that a vector changes no bit.
//
// F has in, out, needs(k), and operator()(const A* x, A* y), or value(x) where the only output is bool. Operand k, inputs before
// outputs, is stored as T (inputs) or O (outputs) unless F::Stored<k> says otherwise. F::rolled: a formula so long that it stands
// in the code once and lanes pass by it in registers.
#include <algorithm>
#include <utility>
#include "baracuda/device/half.cuh"
#include "baracuda/device/launch.cuh"
#include "baracuda/device/walk.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace device_map {

inline constexpr int kBlock = 256;
template <class T, int N> struct alignas(sizeof(T) * N) Vector { T lane[N]; };
// N elements as 32-bit words.
template <class E, int N> struct Words {
  static constexpr int count = int(sizeof(E)) * N / 4;
  uint32_t word[count];
};
// An element in memory and the value that formulas are written over; a family adds its own values.
template <class A> struct Lane;
template <class C> struct Lane<Pack<C, 1>> {
  using A = Pack<C, 1>;
  static __device__ __forceinline__ A zero() { return 0; }
  static __device__ __forceinline__ A of(bool e) { return e ? 1. : 0.; }
  template <class E> static __device__ __forceinline__ A of(E e) { return value(e); }
  template <class E> static __device__ __forceinline__ E as(A a) { return element<E>(a); }
};

template <> struct Lane<Pack<brief, 1>> {
  using A = Pack<brief, 1>;
  using Exact = Lane<Pack<float, 1>>;
  static __device__ __forceinline__ A zero() { return 0; }
  static __device__ __forceinline__ A of(f16 e) {  // a NaN may lose its sign
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(e.bits));
    return A::of(x);
  }
  template <class E> static __device__ __forceinline__ A of(E e) { return A::of(Exact::of(e).v); }
  template <class E> static __device__ __forceinline__ E as(A a) { return Exact::template as<E>(Pack<float, 1>::of(a.v)); }
};
// The values of functions that are computed briefly where results are halves.
template <class T> using Short = Pack<std::conditional_t<kIsHalf<T>, brief, Acc<T>>, 1>;

template <class F, class T, class O, int k> struct StoredAs { using Type = std::conditional_t<(k < F::in), T, O>; };
template <class F, class T, class O, int k> requires requires { typename F::template Stored<k>; } struct StoredAs<F, T, O, k> { using Type = typename F::template Stored<k>; };
template <class F, class T, class O, int k> using Stored = typename StoredAs<F, T, O, k>::Type;
template <class F> constexpr bool rolled() {
  if constexpr (requires { F::rolled; }) return F::rolled;
  else return false;
}
template <class F, class A> constexpr bool gives_bool() {
  if constexpr (requires(F f, const A* x) { f.value(x); }) return std::is_arithmetic_v<decltype(std::declval<F>().value(static_cast<const A*>(nullptr)))>;
  else return false;
}
// Lanes of a unit. Results that are wider than what is read are stored 16 bytes at a time: two such stores side by side are as slow as two lines.
template <class F, class T, class O> inline constexpr int kLanesOf = []<int... k>(std::integer_sequence<int, k...>) {
  int least = 16, most = 1, most_read = 1;
  for (const int bytes : {int(sizeof(Stored<F, T, O, k>))...}) least = bytes < least ? bytes : least, most = bytes > most ? bytes : most;
  for (const int bytes : {(k < F::in ? int(sizeof(Stored<F, T, O, k>)) : 1)...}) most_read = bytes > most_read ? bytes : most_read;
  const int by_least = 16 / least, by_most = (rolled<F>() || most > most_read ? 16 : 32) / most, lanes = by_least < by_most ? by_least : by_most;
  return lanes < 8 ? lanes : 8;
}(std::make_integer_sequence<int, F::in + F::out>{});

// What a thread reads where all is flat stands first: a small problem waits for every line of its parameters.
template <class F> struct Map {
  const void* x[F::in];  // null: not there, read as zeros
  void* y[F::out];       // null: not wanted
  int64_t units;         // of the walk
  bool flat;
  uint8_t rest;          // elements behind the last unit
  uint8_t spread;        // a bit for each operand all of whose lanes of a unit are one element
  F f;
  device::Walk<F::in + F::out> walk;
};

template <class E, int V, class A, int in> __device__ __forceinline__ void spread_lanes(const Vector<E, V>& x, int k, A (&v)[V][in]) {
  if constexpr (std::is_same_v<E, bf16> && V % 2 == 0 && requires(float f) { A::of(f); }) {  // one operation each
    const Words<E, V> e = __builtin_bit_cast(Words<E, V>, x);
#pragma unroll
    for (int j = 0; j < V; ++j) v[j][k] = A::of(__builtin_bit_cast(float, j % 2 ? e.word[j / 2] & 0xffff0000u : e.word[j / 2] << 16));
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) v[j][k] = Lane<A>::of(x.lane[j]);
  }
}
template <class F> __device__ __forceinline__ bool reads(const Map<F>& m, int k) { return F::needs(k) && m.x[k] != nullptr; }

// Unit i of a walk whose units have 32-bit numbers, or of one axis.
template <int K> __device__ __forceinline__ int64_t offsets_of(const device::Walk<K>& w, int64_t i, int64_t (&at)[K]) {
  if (w.rank == 1) return w.offsets(i, at);
  int64_t place = 0;
  uint32_t rest = uint32_t(i);
#pragma unroll
  for (int k = 0; k < K; ++k) at[k] = 0;
#pragma unroll 1
  for (int a = w.rank - 1; a >= 0; --a) {
    const uint32_t q = w.by[a].quotient(rest), r = rest - q * w.by[a].divisor;
#pragma unroll
    for (int k = 0; k < K; ++k) at[k] += int64_t(r) * w.stride[k][a];
    if (a == w.rank - 1) place = r;
    rest = q;
  }
  return place;
}
// --- V lanes side by side, or 32 elements apart in a strip; `count` of them are there
template <bool kStrips, int V, class F, class T, class O, class A, int k = 0>
__device__ __forceinline__ void load_lanes(const Map<F>& m, const int64_t (&at)[F::in + F::out], int count, A (&v)[V][F::in]) {
  if constexpr (k < F::in) {
    using E = Stored<F, T, O, k>;
    if (reads(m, k)) {
      const E* p = static_cast<const E*>(m.x[k]) + at[k];
      if constexpr (kStrips) {
#pragma unroll
        for (int j = 0; j < V; ++j) v[j][k] = j < count ? Lane<A>::of(p[j * 32 * m.walk.step[k]]) : Lane<A>::zero();
      } else if (V > 1 && m.spread >> k & 1) {
        const A one = Lane<A>::of(*p);
#pragma unroll
        for (int j = 0; j < V; ++j) v[j][k] = one;
      } else {
        const Vector<E, V> e = *reinterpret_cast<const Vector<E, V>*>(p);  // one load
        spread_lanes(e, k, v);
      }
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) v[j][k] = Lane<A>::zero();
    }
    load_lanes<kStrips, V, F, T, O, A, k + 1>(m, at, count, v);
  }
}
template <bool kStrips, int K, class E, int V> __device__ __forceinline__ void put_lanes(const device::Walk<K>& walk, int k, E* p, int count, const Vector<E, V>& e) {
  if constexpr (kStrips) {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (j < count) p[j * 32 * walk.step[k]] = e.lane[j];
  } else *reinterpret_cast<Vector<E, V>*>(p) = e;
}
template <bool kStrips, int V, class F, class T, class O, class A, int k = 0>
__device__ __forceinline__ void store_lanes(const Map<F>& m, const int64_t (&at)[F::in + F::out], int count, const A (&r)[V][F::out]) {
  if constexpr (k < F::out) {
    using E = Stored<F, T, O, F::in + k>;
    if (m.y[k]) {
      Vector<E, V> e;
#pragma unroll
      for (int j = 0; j < V; ++j) e.lane[j] = Lane<A>::template as<E>(r[j][k]);
      put_lanes<kStrips>(m.walk, F::in + k, static_cast<E*>(m.y[k]) + at[F::in + k], count, e);
    }
    store_lanes<kStrips, V, F, T, O, A, k + 1>(m, at, count, r);
  }
}
template <bool kStrips, int V, class F, class T, class O, class A> __device__ __forceinline__ void unit(const Map<F>& m, const int64_t (&at)[F::in + F::out], int count) {
  A v[V][F::in];
  load_lanes<kStrips, V, F, T, O, A>(m, at, count, v);
  if constexpr (gives_bool<F, A>()) {
    Vector<bool, V> e;
#pragma unroll
    for (int j = 0; j < V; ++j) e.lane[j] = m.f.value(v[j]);
    put_lanes<kStrips>(m.walk, F::in, static_cast<bool*>(m.y[0]) + at[F::in], count, e);
  } else {
    A r[V][F::out];
#pragma unroll
    for (int j = 0; j < V; ++j) m.f(v[j], r[j]);
    store_lanes<kStrips, V, F, T, O, A>(m, at, count, r);
  }
}

// --- lanes one group after another: G of them, a word of the narrowest, are taken from the low end of registers that move down
template <bool kStrips, int V, int G, class F, class T, class O, class A, int k = 0>
__device__ __forceinline__ void load_words(const Map<F>& m, const int64_t (&at)[F::in + F::out], bool one, int count, uint32_t (&w)[F::in][8]) {
  if constexpr (k < F::in) {
    using E = Stored<F, T, O, k>;
    if (reads(m, k)) {
      const E* p = static_cast<const E*>(m.x[k]) + at[k];
      if constexpr (kStrips) {
        Vector<E, V> some;
#pragma unroll
        for (int j = 0; j < V; ++j) some.lane[j] = p[j < count ? j * 32 * m.walk.step[k] : 0];
        const Words<E, V> e = __builtin_bit_cast(Words<E, V>, some);
#pragma unroll
        for (int i = 0; i < Words<E, V>::count; ++i) w[k][i] = e.word[i];
      } else if (one || m.spread >> k & 1) {
        Vector<E, G> same;
        const E element = *p;
#pragma unroll
        for (int j = 0; j < G; ++j) same.lane[j] = element;
        const Words<E, G> e = __builtin_bit_cast(Words<E, G>, same);
#pragma unroll
        for (int i = 0; i < Words<E, V>::count; ++i) w[k][i] = e.word[i % Words<E, G>::count];
      } else {
        const Words<E, V> e = __builtin_bit_cast(Words<E, V>, *reinterpret_cast<const Vector<E, V>*>(p));
#pragma unroll
        for (int i = 0; i < Words<E, V>::count; ++i) w[k][i] = e.word[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < Words<E, V>::count; ++i) w[k][i] = 0;
    }
    load_words<kStrips, V, G, F, T, O, A, k + 1>(m, at, one, count, w);
  }
}
template <int V, int G, class F, class T, class O, class A, int k = 0> __device__ __forceinline__ void take_group(uint32_t (&w)[F::in][8], A (&v)[G][F::in]) {
  if constexpr (k < F::in) {
    using E = Stored<F, T, O, k>;
    constexpr int n = Words<E, G>::count, all = Words<E, V>::count;
    Words<E, G> group;
#pragma unroll
    for (int i = 0; i < n; ++i) group.word[i] = w[k][i];
    const Vector<E, G> e = __builtin_bit_cast(Vector<E, G>, group);
#pragma unroll
    for (int j = 0; j < G; ++j) v[j][k] = Lane<A>::of(e.lane[j]);
#pragma unroll
    for (int i = 0; i + n < all; ++i) w[k][i] = w[k][i + n];
    take_group<V, G, F, T, O, A, k + 1>(w, v);
  }
}
template <int V, int G, class F, class T, class O, class A, int k = 0> __device__ __forceinline__ void put_group(uint32_t (&w)[F::out][8], const A (&r)[G][F::out]) {
  if constexpr (k < F::out) {
    using E = Stored<F, T, O, F::in + k>;
    constexpr int n = Words<E, G>::count, all = Words<E, V>::count;
    Vector<E, G> e;
#pragma unroll
    for (int j = 0; j < G; ++j) e.lane[j] = Lane<A>::template as<E>(r[j][k]);
    const Words<E, G> group = __builtin_bit_cast(Words<E, G>, e);
#pragma unroll
    for (int i = 0; i + n < all; ++i) w[k][i] = w[k][i + n];
#pragma unroll
    for (int i = 0; i < n; ++i) w[k][all - n + i] = group.word[i];
    put_group<V, G, F, T, O, A, k + 1>(w, r);
  }
}
template <bool kStrips, int V, int G, class F, class T, class O, class A, int k = 0>
__device__ __forceinline__ void store_words(const Map<F>& m, const int64_t (&at)[F::in + F::out], bool one, int count, const uint32_t (&w)[F::out][8]) {
  if constexpr (k < F::out) {
    using E = Stored<F, T, O, F::in + k>;
    if (m.y[k]) {
      E* p = static_cast<E*>(m.y[k]) + at[F::in + k];
      Words<E, V> e;
#pragma unroll
      for (int i = 0; i < Words<E, V>::count; ++i) e.word[i] = w[k][i];
      const Vector<E, V> lanes = __builtin_bit_cast(Vector<E, V>, e);
      if (one) *p = lanes.lane[V - G];  // the one group that was put stands at the top
      else put_lanes<kStrips>(m.walk, F::in + k, p, count, lanes);
    }
    store_words<kStrips, V, G, F, T, O, A, k + 1>(m, at, one, count, w);
  }
}
template <bool kStrips, int V, class F, class T, class O, class A> __device__ __forceinline__ void rolled_unit(const Map<F>& m, const int64_t (&at)[F::in + F::out], bool one, int count) {
  constexpr int G = sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1;
  static_assert(V % G == 0);
  uint32_t x[F::in][8], y[F::out][8] = {};
  load_words<kStrips, V, G, F, T, O, A>(m, at, one, count, x);
#pragma unroll 1
  for (int g = one ? V / G - 1 : 0; g < V / G; ++g) {
    A v[G][F::in], r[G][F::out];
    take_group<V, G, F, T, O, A>(x, v);
#pragma unroll
    for (int j = 0; j < G; ++j) m.f(v[j], r[j]);
    put_group<V, G, F, T, O, A>(y, r);
  }
  store_words<kStrips, V, G, F, T, O, A>(m, at, one, count, y);
}

// Halves in brief values, where all is flat: formulas take so long that one unit in flight a thread is not enough, so it loads two.
template <class A> inline constexpr bool kTwoAtOnce = std::is_same_v<A, Pack<brief, 1>>;
template <int V, class F, class T, class A> __device__ __forceinline__ void two_units(const Map<F>& m) {
  const int64_t units = m.units;
  for (int64_t i = int64_t(blockIdx.x) * (2 * kBlock) + threadIdx.x; i < units; i += int64_t(gridDim.x) * (2 * kBlock)) {
    Vector<T, V> x[2][F::in];
    const int n = i + kBlock < units ? 2 : 1;
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
      for (int k = 0; k < F::in; ++k)
        if (u < n && reads(m, k)) x[u][k] = reinterpret_cast<const Vector<T, V>*>(m.x[k])[i + u * kBlock];
        else x[u][k] = {};
#pragma unroll 1
    for (int u = 0; u < n; ++u) {
      A v[V][F::in], r[V][F::out];
#pragma unroll
      for (int k = 0; k < F::in; ++k) spread_lanes(x[0][k], k, v), x[0][k] = x[1][k];
#pragma unroll
      for (int j = 0; j < V; ++j) m.f(v[j], r[j]);
#pragma unroll
      for (int k = 0; k < F::out; ++k) {
        if (!m.y[k]) continue;
        Vector<T, V> e;
#pragma unroll
        for (int j = 0; j < V; ++j) e.lane[j] = Lane<A>::template as<T>(r[j][k]);
        reinterpret_cast<Vector<T, V>*>(m.y[k])[i + u * kBlock] = e;
      }
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < m.rest) {
    int64_t at[F::in + F::out];
#pragma unroll
    for (int k = 0; k < F::in + F::out; ++k) at[k] = units * V + threadIdx.x;
    unit<false, 1, F, T, T, A>(m, at, 1);
  }
}

template <class F, class T, class O, class A> __global__ void __launch_bounds__(kBlock) map_kernel(const __grid_constant__ Map<F> m) {
  constexpr int V = kLanesOf<F, T, O>;
  if constexpr (kTwoAtOnce<A>)
    if (m.flat) return two_units<V, F, T, A>(m);
  const int64_t all = m.units + m.rest;
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < all; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[F::in + F::out];
    bool one = false;
    if (m.flat) {
      one = i >= m.units;
      const int64_t place = one ? m.units * V + (i - m.units) : i * V;
#pragma unroll
      for (int k = 0; k < F::in + F::out; ++k) at[k] = place;
    } else {
      offsets_of(m.walk, i, at);
      one = m.walk.lanes == 1 || i >= m.units;
    }
    if constexpr (rolled<F>()) rolled_unit<false, V, F, T, O, A>(m, at, one, V);
    else if (one) unit<false, 1, F, T, O, A>(m, at, 1);
    else unit<false, V, F, T, O, A>(m, at, V);
  }
}
template <class F, class T, class O, class A> __global__ void __launch_bounds__(kBlock) strips_kernel(const __grid_constant__ Map<F> m) {
  constexpr int V = kLanesOf<F, T, O>;
  const int lane = int(threadIdx.x) & 31;
  for (int64_t i = (int64_t(blockIdx.x) * kBlock + threadIdx.x) >> 5; i < m.units; i += int64_t(gridDim.x) * kBlock >> 5) {
    int64_t at[F::in + F::out];
    const int64_t left = m.walk.strips - offsets_of(m.walk, i, at) * (32 * V) - lane;
    if (left <= 0) continue;
    const int count = left < 32 * V ? (int(left) + 31) >> 5 : V;
#pragma unroll
    for (int k = 0; k < F::in + F::out; ++k) at[k] += lane * m.walk.step[k];
    if constexpr (rolled<F>()) rolled_unit<true, V, F, T, O, A>(m, at, false, count);
    else unit<true, V, F, T, O, A>(m, at, count);
  }
}
// Strips are for f32 and halves, of one or two inputs.
template <class F, class T, class A> inline constexpr bool kHasStrips = (kIsHalf<T> || std::is_same_v<T, float>) && F::in <= 2 && F::out == 1 && requires(float f) { A::of(f); };

// go(m) for parts of the walk whose units have 32-bit numbers; bytes: of an element of each operand.
template <class F, class G> int in_parts(const Map<F>& m, const device::Operand* operand, G go) {
  constexpr int K = F::in + F::out;
  if (m.walk.rank == 1 || m.walk.narrow) return go(m);
  const int64_t inner = m.walk.units / m.walk.extent[0], most = std::max<int64_t>(1, INT32_MAX / inner);
  for (int64_t begin = 0; begin < m.walk.extent[0]; begin += most) {
    Map<F> p = m;
    const auto moved = [&](const void* data, int k) { return data ? static_cast<const char*>(data) + begin * m.walk.stride[k][0] * operand[k].bytes : nullptr; };
    for (int k = 0; k < F::in; ++k) p.x[k] = moved(m.x[k], k);
    for (int k = 0; k < F::out; ++k) p.y[k] = const_cast<char*>(moved(m.y[k], F::in + k));
    p.walk.extent[0] = std::min(most, m.walk.extent[0] - begin), p.walk.units = p.walk.extent[0] * inner;
    p.walk.narrow = p.walk.units < int64_t(1) << 31, p.units = p.walk.units;
    if (!p.walk.narrow) {  // one step of an axis that is dropped
      --p.walk.rank;
      for (int a = 0; a < p.walk.rank; ++a) {
        p.walk.extent[a] = m.walk.extent[a + 1];
        for (int k = 0; k < K; ++k) p.walk.stride[k][a] = m.walk.stride[k][a + 1];
      }
    } else
      for (int a = 0; a < p.walk.rank; ++a) p.walk.by[a] = device::Divisor::of(uint32_t(p.walk.extent[a]));
    if (const int e = in_parts(p, operand, go)) return e;
  }
  return 0;
}
// Queues y... = f(x...); operands: inputs, then outputs. A: the values of the formula.
template <class F, class T, class O = T, class A = Pack<Acc<T>, 1>> int map(const F& f, const Shape& shape, const device::Operand* operand, void* stream) {
  constexpr int K = F::in + F::out;
  static_assert(K <= 8);
  device::Operand all[K];
  Map<F> m{{}, {}, 0, false, 0, 0, f, {}};
  int order = -1;
  for (int k = 0; k < K; ++k) all[k] = operand[k];
  for (int k = 0; k < F::in; ++k) m.x[k] = all[k].data;
  for (int k = 0; k < F::out; ++k) m.y[k] = const_cast<void*>(all[F::in + k].data);
  for (int k = K - 1; k >= F::in; --k) if (all[k].data) order = k;
  if (order < 0) return 0;
  m.walk = device::walk<K>(shape, all, order, kLanesOf<F, T, O>, kHasStrips<F, T, A>);
  if (m.walk.threads() == 0) return 0;
  m.units = m.walk.units, m.flat = m.walk.flat, m.rest = uint8_t(m.walk.rest);
  for (int k = 0; k < K; ++k) m.spread |= uint8_t(int(m.walk.spread[k] && !m.walk.flat) << k);
  return in_parts(m, all, [stream](const Map<F>& p) {
    auto kernel = map_kernel<F, T, O, A>;
    if constexpr (kHasStrips<F, T, A>)
      if (p.walk.strips) kernel = strips_kernel<F, T, O, A>;
    const int64_t each = kTwoAtOnce<A> && p.walk.flat ? 2 * kBlock : kBlock;
    return device::launch(kernel, device::blocks_for(p.walk.threads(), each), kBlock, 0, stream, p);
  });
}

}  // namespace device_map
}  // namespace baracuda
