// Channels of BatchNorm. Sums: a chunk of a channel comes into the first-level cache and is summed there, in an
// order that depends on n alone. What is written is made element by element, by rows of one channel or, where channels lie next to
// one another, by rows of all channels. The floor is two streams forward, three backward, where a group of channels fits into the
// caches; otherwise x (and dy) come from memory twice.
#include <array>
#include "baracuda/ops/norm/batch_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_rows.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> Chunks<T> chunks_of(const ChannelChunk::Rows& rows, int64_t c, Acc<T>* buffer) {
  return {static_cast<const T*>(rows.at) + c * rows.pitch, rows.lay, buffer};
}
// K sums of each of P packs of channels that lie next to one another.
template <class V, int K, int P> struct LaneSums {
  V sum[K][P];
  BARACUDA_HD friend LaneSums operator+(const LaneSums& a, const LaneSums& b) {
    LaneSums s;
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j)
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) s.sum[j][k] = a.sum[j][k] + b.sum[j][k];
    return s;
  }
};
// Down m rows in the order of chunk_sum(): a lane's rows l, l + 64 ..., and lanes in the order in which their tree joins them, so that nothing is
// kept but what waits for its neighbour. step(acc, row) adds one element of each channel; fetch(row) asks for a row of what comes next.
template <class V, int K, int P, class Step, class Fetch> BARACUDA_HD LaneSums<V, K, P> lane_sums(int m, const Step& step, const Fetch& fetch) {
  return sum_pairs<LaneSums<V, K, P>>(kSumLanes, [&](int64_t t) __attribute__((always_inline)) {
    LaneSums<V, K, P> s;
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j)
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) s.sum[j][k] = -0.0;
    int lane = 0;
    for (int bit = 1; bit < kSumLanes; bit *= 2) lane |= t & bit ? kSumLanes / 2 / bit : 0;
    for (int i = lane; i < m; i += kSumLanes) step(s.sum, i);
    for (int i = int(t) * m / kSumLanes; i < int(t + 1) * m / kSumLanes; ++i) fetch(i);
    return s;
  });
}
// f(packs side by side, first channel, lanes used of each), of a line's width where that many are left.
template <class T, class F> void each_lanes(int64_t channels, F f) {
  constexpr int N = kLanes<Acc<T>>, P = 4;
  int64_t c = 0;
  for (; c + P * N <= channels; c += P * N) f(std::integral_constant<int, P>(), c, N);
  for (; c < channels; c += N) f(std::integral_constant<int, 1>(), c, int(channels - c < N ? channels - c : N));
}
template <class T> BARACUDA_HD void fetch_row(const ChannelChunk::Rows& rows, int64_t i, int64_t c, int64_t count) {
  const char* const from = reinterpret_cast<const char*>(static_cast<const T*>(rows.next) + i * rows.pitch + c);
  for (int64_t b = 0; b < count * int64_t(sizeof(T)); b += 64) __builtin_prefetch(from + b, 0, 2);
}
template <class T> void lane_moments(const ChannelChunk& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  using D = Pack<double, N>;
  each_lanes<T>(p.channels, [&]<int P>(std::integral_constant<int, P>, int64_t c, int count) {
    const T* const x = static_cast<const T*>(p.x.at) + c;
    const auto at = [&](int i, int k) __attribute__((always_inline)) { return get<N>(x + i * p.x.pitch + k * N, count); };
    const auto fetch = [&](int i) __attribute__((always_inline)) { fetch_row<T>(p.x, i, c, (P - 1) * N + count); };
    const auto sums = lane_sums<V, 1, P>(int(p.m), [&](V (&acc)[1][P], int i) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) acc[0][k] = acc[0][k] + at(i, k);
    }, fetch);
    const D m = double(p.m);
    V shift[P];
    for (int k = 0; k < P; ++k) shift[k] = convert<A>(convert<double>(sums.sum[0][k]) / m);
    const auto moments = lane_sums<V, 2, P>(int(p.m), [&](V (&acc)[2][P], int i) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) {
        const V d = at(i, k) - shift[k];
        acc[0][k] = acc[0][k] + d, acc[1][k] = fma(d, d, acc[1][k]);
      }
    }, [](int) {});
    for (int k = 0; k < P; ++k) {
      const D rest = convert<double>(moments.sum[0][k]) / m;
      alignas(64) double a[N], b[N], e[N];
      store<double, N>(a, convert<double>(shift[k])), store<double, N>(b, rest), store<double, N>(e, convert<double>(moments.sum[1][k]) - m * (rest * rest));
      for (int l = 0; l < count; ++l) p.sums[(c + k * N + l) * p.chunks] = {a[l], b[l], e[l]};
    }
  });
}
template <class T> void lane_gradient(const ChannelChunk& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  each_lanes<T>(p.channels, [&]<int P>(std::integral_constant<int, P>, int64_t c, int count) {
    const T *const x = static_cast<const T*>(p.x.at) + c, *const dy = static_cast<const T*>(p.dy.at) + c;
    V shift[P], scale[P];
    for (int k = 0; k < P; ++k) {
      shift[k] = get<N>(static_cast<const A*>(p.shift) + c + k * N, count);
      scale[k] = get<N>(static_cast<const A*>(p.scale) + c + k * N, count);
    }
    const auto found = lane_sums<V, 3, P>(int(p.m), [&](V (&acc)[3][P], int i) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) {
        const V h = (get<N>(x + i * p.x.pitch + k * N, count) - shift[k]) * scale[k], e = get<N>(dy + i * p.dy.pitch + k * N, count);
        acc[0][k] = acc[0][k] + e, acc[1][k] = fma(e, h, acc[1][k]), acc[2][k] = acc[2][k] + h;
      }
    }, [&](int i) __attribute__((always_inline)) {
      fetch_row<T>(p.x, i, c, (P - 1) * N + count), fetch_row<T>(p.dy, i, c, (P - 1) * N + count);
    });
    for (int k = 0; k < P; ++k)
      for (int l = 0; l < count; ++l)
        p.sums[(c + k * N + l) * p.chunks] = {double(found.sum[0][k].lane(l)), double(found.sum[1][k].lane(l)), double(found.sum[2][k].lane(l))};
  });
}
template <class T> void moments(const ChannelChunk& p) {
  if (p.lanes) return lane_moments<T>(p);
  alignas(64) Acc<T> buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    Chunks<T> x = chunks_of<T>(p.x, c, buffer);
    Acc<T> shift;
    const Moments part = chunk_moments(x, p.x.first, int(p.m), shift);
    p.sums[c * p.chunks] = chunk_sums_of(part, double(shift));
  }
}
template <class T> void gradient(const ChannelChunk& p) {
  if (p.lanes) return lane_gradient<T>(p);
  using A = Acc<T>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    Chunks<T> x = chunks_of<T>(p.x, c, x_buffer), dy = chunks_of<T>(p.dy, c, dy_buffer);
    const GradientSums g = chunk_gradient_sums<false>(x, p.x.first, dy, p.dy.first, nullptr, int(p.m), static_cast<const A*>(p.shift)[c], static_cast<const A*>(p.scale)[c]);
    p.sums[c * p.chunks] = chunk_sums_of(g);
  }
}
template <class T> void join_moments(const ChannelJoin& p) {
  alignas(64) Acc<T> buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    Chunks<T> x{static_cast<const T*>(p.x) + c * p.x_pitch, p.x_lay, buffer};
    p.found[c] = joined_statistics(p.sums + c * p.chunks, p.chunks, kChannelChunk, p.n, p.eps, x);
  }
}
template <class T> void join_gradient(const ChannelJoin& p) {
  using A = Acc<T>;
  for (int64_t c = 0; c < p.channels; ++c) {
    const GradientSums all = joined_gradient(p.sums + c * p.chunks, p.chunks);
    p.total[c] = {all.e, all.eh, all.h};
    if (!p.mean_g) continue;
    const double w = static_cast<const A*>(p.weight)[c];
    const GradientMeans g = gradient_means({all.e * w, all.eh * w, all.h}, p.n, p.found[c].rstd);
    static_cast<A*>(p.rest)[c] = A(g.rest), static_cast<A*>(p.mean_g)[c] = A(g.mean_g), static_cast<A*>(p.minus_dot)[c] = A(g.minus_dot);
    p.total[c].b -= all.h / double(p.n) * all.e;  // h takes off the mean's first word alone
  }
}

// What all elements of a channel, or as many channels as lanes, are made with.
template <class V> struct Forward {
  V shift, rest, scale, weight, bias;
  template <class Get> Forward(const ChannelVectors& v, Get get) : shift(get(v.shift)), rest(get(v.rest)), scale(get(v.scale)), weight(get(v.weight)), bias(get(v.bias)) {}
  BARACUDA_HD V operator()(V x, V) const { return standardized(x, shift, rest, scale, weight, bias); }
};
template <class V> struct Backward {
  V shift, rest, scale, weight, mean_g, minus_dot;
  template <class Get> Backward(const ChannelVectors& v, Get get)
      : shift(get(v.shift)), rest(get(v.rest)), scale(get(v.scale)), weight(get(v.weight)), mean_g(get(v.mean_g)), minus_dot(get(v.minus_dot)) {}
  BARACUDA_HD V operator()(V x, V dy) const { return input_gradient(dy, weight, normalized(x, shift, rest, scale), mean_g, minus_dot, scale); }
};
template <class V> struct Scaled {  // the gradient where the statistics are constants
  V scale, weight;
  template <class Get> Scaled(const ChannelVectors& v, Get get) : scale(get(v.scale)), weight(get(v.weight)) {}
  BARACUDA_HD V operator()(V, V dy) const { return dy * weight * scale; }
};

template <class T, template <class> class F, bool kX, bool kDy> void by_rows(const ChannelRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  alignas(64) T out[kSumChunk];
  const bool past = p.past && !p.y_lay;
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t c = (p.channel + r) % p.channels;
    const F<V> f(p.of, [&](const void* v) { return V(double(static_cast<const A*>(v)[c])); });
    Chunks<T> x{static_cast<const T*>(p.x) + (kX ? r * p.x_pitch : 0), p.x_lay, x_buffer}, dy{static_cast<const T*>(p.dy) + (kDy ? r * p.dy_pitch : 0), p.dy_lay, dy_buffer};
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const auto write = [&](const auto* from, const auto* e_from, T* to, int m) {
      put_row(to, m, past, [&](int64_t i, int count) __attribute__((always_inline)) {
        const V none = 0;
        if (kX) fetch_near(from + i);
        if (kDy) fetch_near(e_from + i);
        return f(kX ? get<N>(from + i, count) : none, kDy ? get<N>(e_from + i, count) : none);
      });
    };
    each_chunk(p.n, [&](int64_t at, int m) {
      const int64_t first = p.first + at;
      T* to = p.y_lay ? out : y + first;
      if (!p.x_lay && !p.dy_lay) write(kX ? x.x + first : nullptr, kDy ? dy.x + first : nullptr, to, m);
      else write(kX ? x(first, m) : nullptr, kDy ? dy(first, m) : nullptr, to, m);
      if (p.y_lay) scatter(to, y, *p.y_lay, first, m);
    });
  }
  if (past) store_past_fence();
}
template <class T, template <class> class F, bool kX, bool kDy> void by_lanes(const ChannelRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  const T *x = static_cast<const T*>(p.x), *dy = static_cast<const T*>(p.dy);
  T* y = static_cast<T*>(p.y);
  constexpr int64_t kRows = 16;  // for which a channel's numbers stay in registers
  for (int64_t first = 0; first < p.rows; first += kRows) {
    const int64_t end = first + kRows < p.rows ? first + kRows : p.rows;
    each_line<T>(p.n, [&]<int P>(std::integral_constant<int, P>, int64_t at, int count) __attribute__((always_inline)) {
      const bool past = p.past && P == kPacksOfLine<T>;
      const auto make = [&]<int... K>(std::integer_sequence<int, K...>) __attribute__((always_inline)) {
        return std::array<F<V>, P>{F<V>(p.of, [&](const void* v) __attribute__((always_inline)) { return get<N>(static_cast<const A*>(v) + at + K * N, count / P); })...};
      };
      const auto f = make(std::make_integer_sequence<int, P>{});
      for (int64_t r = first; r < end; ++r) {
        const V none = 0;
        V out[P];
        if (kX) __builtin_prefetch(x + (r + kRows) * p.x_pitch + at, 0, 2);
        if (kDy) __builtin_prefetch(dy + (r + kRows) * p.dy_pitch + at, 0, 2);
#pragma GCC unroll 8
        for (int k = 0; k < P; ++k)
          out[k] = f[k](kX ? get<N>(x + r * p.x_pitch + at + k * N, count / P) : none, kDy ? get<N>(dy + r * p.dy_pitch + at + k * N, count / P) : none);
        put_line<N>(y + r * p.y_pitch + at, out, count, past);
      }
    });
  }
  if (p.past) store_past_fence();
}
template <class T> void forward(const ChannelRows& p) { p.lanes ? by_lanes<T, Forward, true, false>(p) : by_rows<T, Forward, true, false>(p); }
template <class T> void backward(const ChannelRows& p) {
  if (!p.x) p.lanes ? by_lanes<T, Scaled, false, true>(p) : by_rows<T, Scaled, false, true>(p);
  else p.lanes ? by_lanes<T, Backward, true, true>(p) : by_rows<T, Backward, true, true>(p);
}

}  // namespace
extern constexpr BatchNormKernels batch_norm_kernels = {
    by_dtype<void (*)(const ChannelChunk&)>(Floating{}, []<class T>() { return &moments<T>; }),
    by_dtype<void (*)(const ChannelChunk&)>(Floating{}, []<class T>() { return &gradient<T>; }),
    by_dtype<void (*)(const ChannelJoin&)>(Floating{}, []<class T>() { return &join_moments<T>; }),
    by_dtype<void (*)(const ChannelJoin&)>(Floating{}, []<class T>() { return &join_gradient<T>; }),
    by_dtype<void (*)(const ChannelRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
    by_dtype<void (*)(const ChannelRows&)>(Floating{}, []<class T>() { return &backward<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
