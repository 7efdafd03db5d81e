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
template <class T> void moments(const ChannelChunk& p) {
  alignas(64) Acc<T> buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    Chunks<T> x = chunks_of<T>(p.x, c, buffer);
    Acc<T> shift;
    const Moments part = chunk_moments(x, p.x.first, int(p.m), shift);
    p.sums[c * p.chunks] = {double(shift), part.mean, part.squares};
  }
}
template <class T> void gradient(const ChannelChunk& p) {
  using A = Acc<T>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    Chunks<T> x = chunks_of<T>(p.x, c, x_buffer), dy = chunks_of<T>(p.dy, c, dy_buffer);
    const GradientSums g = chunk_gradient_sums<false>(x, p.x.first, dy, p.dy.first, nullptr, int(p.m), static_cast<const A*>(p.shift)[c], static_cast<const A*>(p.scale)[c]);
    p.sums[c * p.chunks] = {g.e, g.eh, g.h};
  }
}
template <class T> void join_moments(const ChannelJoin& p) {
  alignas(64) Acc<T> buffer[kSumChunk];
  for (int64_t c = 0; c < p.channels; ++c) {
    const ChannelSums* sums = p.sums + c * p.chunks;
    const double point = sums[0].a;
    const Moments all = sum_pairs<Moments>(p.chunks, [&](int64_t k) {
      const int64_t left = p.n - k * kChannelChunk;
      return Moments{double(left < kChannelChunk ? left : kChannelChunk), sums[k].b + (sums[k].a - point), sums[k].c};
    });
    Chunks<T> x{static_cast<const T*>(p.x) + c * p.x_pitch, p.x_lay, buffer};
    p.found[c] = statistics_of(all, point, p.n, p.eps, x);
  }
}
template <class T> void join_gradient(const ChannelJoin& p) {
  using A = Acc<T>;
  for (int64_t c = 0; c < p.channels; ++c) {
    const ChannelSums* sums = p.sums + c * p.chunks;
    const GradientSums all = sum_pairs<GradientSums>(p.chunks, [&](int64_t k) { return GradientSums{sums[k].a, sums[k].b, sums[k].c}; });
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
    each_chunk(p.n, [&](int64_t at, int m) {
      const int64_t first = p.first + at;
      const A *from = kX ? x(first, m) : nullptr, *e_from = kDy ? dy(first, m) : nullptr;
      T* to = p.y_lay ? out : y + first;
      put_row(to, m, past, [&](int64_t i, int count) __attribute__((always_inline)) {
        const V none = 0;
        return f(kX ? get<N>(from + i, count) : none, kDy ? get<N>(e_from + i, count) : none);
      });
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
        return std::array<F<V>, P>{F<V>(p.of, [&](const void* v) __attribute__((always_inline)) { return get<N>(static_cast<const A*>(v) + at + K * N, count); })...};
      };
      const auto f = make(std::make_integer_sequence<int, P>{});
      for (int64_t r = first; r < end; ++r) {
        const V none = 0;
        V out[P];
#pragma GCC unroll 8
        for (int k = 0; k < P; ++k)
          out[k] = f[k](kX ? get<N>(x + r * p.x_pitch + at + k * N, count) : none, kDy ? get<N>(dy + r * p.dy_pitch + at + k * N, count) : none);
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
