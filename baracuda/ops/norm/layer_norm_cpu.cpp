// Rows of LayerNorm, and the groups of GroupNorm forward. A chunk of a row comes into the first-level cache once for the sums of x,
// of x - mean and of its square, and once for y. The floor is memory bandwidth: two streams forward, three backward; a row that the
// second-level cache does not hold comes from memory twice. The order of a row's sums depends on n alone.
#include "baracuda/ops/norm/layer_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_short.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr bool kBeside = BARACUDA_VECTOR_BYTES == 64;
// Rows of one chunk: while one is written the next one's distances from its mean are summed, and the one after that, which comes from memory.
template <class T> void forward_beside(const LayerNormRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>, P = kPacksOfLine<T>, packs = kSumLanes / N;
  using V = Pack<A, N>;
  alignas(64) A buffer[kSumChunk];
  const A *w = static_cast<const A*>(p.weight), *b = static_cast<const A*>(p.bias);
  const int64_t n = p.n, rows = p.rows;
  const bool past = p.past;
  const auto x_of = [&](int64_t r) { return static_cast<const T*>(p.x) + r * p.x_pitch; };
  const auto keep = [&](int64_t r, const Statistics& s) {
    if (p.mean) static_cast<A*>(p.mean)[r * p.mean_pitch] = A(s.shift + s.rest);
    if (p.rstd) static_cast<A*>(p.rstd)[r * p.rstd_pitch] = A(s.rstd);
    return s;
  };
  const auto alone = [&](int64_t r) {
    Chunks<T> chunks{x_of(r), nullptr, buffer};
    return keep(r, statistics(n, p.eps, chunks));
  };
  const auto writer = [&](int64_t r, const Statistics& s) {
    const T *x = x_of(r), *next = row_to_fetch(x, p.x_pitch, 3, rows - r);
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    const V shift(s.shift), rest(s.rest), scale(s.rstd);
    return [=](int64_t i) __attribute__((always_inline)) {
      V v[P], weight[P], bias[P];
      get_dealt<T>(v, x + i, P * N), get_beside<T>(weight, w + i, P * N), get_beside<T>(bias, b + i, P * N);
      __builtin_prefetch(next + i, 0, 3);
#pragma GCC unroll 8
      for (int k = 0; k < P; ++k) v[k] = standardized(v[k], shift, rest, scale, weight[k], bias[k]);
      put_dealt<T>(y + i, v, P * N, past);
    };
  };
  const auto fold = [](V (&acc)[packs]) {
    put_in_order<T>(acc);
    return double(fold_lanes(acc));
  };
  Statistics found = alone(0);
  A mean = 0;
  if (rows > 2) chunk_moments(x_of(1), int(n), mean);
  int64_t r = 0;
  for (; r + 2 < rows; ++r) {
    const auto write = writer(r, found);
    const T *second = x_of(r + 1), *third = x_of(r + 2);
    const V point = double(mean);
    V sum[packs], distances[packs], squares[packs];
#pragma GCC unroll 64
    for (int k = 0; k < packs; ++k) sum[k] = distances[k] = squares[k] = -0.0;
    for (int64_t i = 0; i < n; i += kSumLanes)
#pragma GCC unroll 64
      for (int k = 0; k < packs; k += P) {
        V v[P];
        get_dealt<T>(v, third + i + k * N, P * N);
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j) sum[k + j] = sum[k + j] + v[j];
        get_dealt<T>(v, second + i + k * N, P * N);
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j) {
          const V d = v[j] - point;
          distances[k + j] = distances[k + j] + d, squares[k + j] = fma(d, d, squares[k + j]);
        }
        write(i + k * N);
      }
    Chunks<T> chunks{second, nullptr, buffer};
    const double rest = fold(distances);
    found = keep(r + 1, statistics_of(moments_of(rest, fold(squares), double(n)), double(mean), n, p.eps, chunks));
    mean = A(fold(sum) / double(n));
  }
  for (; r < rows; ++r) {
    if (r + 1 == rows && r > 0) found = alone(r);
    const auto write = writer(r, found);
    for (int64_t i = 0; i < n; i += P * N) write(i);
  }
  if (past) store_past_fence();
}
template <class T> void forward(const LayerNormRows& p) {
  if constexpr (kBeside && sizeof(Acc<T>) == 4)
    if (p.beside) return forward_beside<T>(p);
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A buffer[kSumChunk];
  alignas(64) T out[kSumChunk];
  const bool past = p.past && !p.y_lay, brief = !p.x_lay && p.n <= kShortRow && !p.known;
  const int64_t channels = p.n / p.span, most = brief ? short_rows<T>(p.n) : 1, ahead = p.x_lay ? 0 : rows_ahead<T>(p.n, most);
  int64_t group = p.first % p.groups;
  Statistics found[kShortRows<T>];
  for (int64_t r = 0, made = 0, in = 0; r < p.rows; ++r, ++in) {  // row `in` of the `made` whose statistics are known
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *next = row_to_fetch(x, p.x_pitch, ahead, p.rows - r);
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    Chunks<T> chunks{x, p.x_lay, buffer};
    if (in == made) {
      in = 0, made = p.rows - r < most ? p.rows - r : most;
      if (p.known) found[0] = *p.known;
      else if (brief) short_statistics(x, p.x_pitch, int(made), p.n, p.eps, found);
      else found[0] = statistics(p.n, p.eps, chunks);
      for (int64_t i = 0; i < made; ++i) {
        if (p.mean) static_cast<A*>(p.mean)[(r + i) * p.mean_pitch] = A(found[i].shift + found[i].rest);
        if (p.rstd) static_cast<A*>(p.rstd)[(r + i) * p.rstd_pitch] = A(found[i].rstd);
      }
    }
    const Statistics& s = found[in];
    const V shift(s.shift), rest(s.rest), scale(s.rstd);
    const A *w = static_cast<const A*>(p.weight) + group * channels, *b = static_cast<const A*>(p.bias) + group * channels;
    group = group + 1 < p.groups ? group + 1 : 0;
    const auto write = [&](const auto* from, T* to, int64_t first, int m) {
      if (p.span == 1)
        put_row(to, m, past, [&](int64_t i, int count) __attribute__((always_inline)) {
          __builtin_prefetch(next + first + i, 0, 2);
          return standardized(get<N>(from + i, count), shift, rest, scale, get<N>(w + first + i, count), get<N>(b + first + i, count));
        });
      else
        each_channel(first, m, p.span, [&](int64_t at, int64_t length, int64_t c) __attribute__((always_inline)) {
          const V weight(w[c]), bias(b[c]);
          put_row(to + at, length, past, [&](int64_t i, int count) __attribute__((always_inline)) {
            __builtin_prefetch(next + first + at + i, 0, 2);
            return standardized(get<N>(from + at + i, count), shift, rest, scale, weight, bias);
          });
        });
    };
    each_chunk(p.n, [&](int64_t first, int m) {
      T* to = p.y_lay ? out : y + first;
      if (p.x_lay) write(chunks(first, m), to, first, m);
      else write(x + first, to, first, m);
      if (p.y_lay) scatter(to, y, *p.y_lay, first, m);
    });
  }
  if (past) store_past_fence();
}

// What a row's dx is made with.
template <class A> struct GradientRow {
  A shift, rest, scale, mean_g, minus_dot;
  GradientRow() = default;
  GradientRow(const Statistics& s, const GradientMeans& g) : shift(A(s.shift)), rest(A(g.rest)), scale(A(s.rstd)), mean_g(A(g.mean_g)), minus_dot(A(g.minus_dot)) {}
};
// Longer rows of which a few are written together: weights are read, and their gradients read and written, once for all of them.
template <class T> int64_t rows_together(int64_t n) { return kShortRows<T> >= 4 && n * int64_t(sizeof(T)) <= 16384 ? 4 : 1; }
template <class T> void backward(const LayerNormBackwardRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  const A* w = static_cast<const A*>(p.weight);
  A *dw = static_cast<A*>(p.dweight), *db = static_cast<A*>(p.dbias);
  const int64_t n = p.n;
  const bool past = p.past, brief = n <= kShortRow && !p.known;
  const int64_t most = brief ? short_rows<T>(n) : rows_together<T>(n), ahead = rows_ahead<T>(n, most, 2);
  Statistics found[kShortRows<T>];
  GradientSums sums[kShortRows<T>];
  GradientRow<A> made[kShortRows<T>];
  for (int64_t r = 0; r < p.rows; r += most) {
    const int rows = int(p.rows - r < most ? p.rows - r : most);
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *dy = static_cast<const T*>(p.dy) + r * p.dy_pitch;
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    if (p.known) found[0] = p.known->found, sums[0] = {p.known->sums.a, p.known->sums.b, p.known->sums.c};
    else {
      if (p.rstd)
        for (int64_t i = 0; i < rows; ++i)
          found[i] = {static_cast<const A*>(p.mean)[(r + i) * p.mean_pitch], 0, static_cast<const A*>(p.rstd)[(r + i) * p.rstd_pitch]};
      else if (brief) short_statistics(x, p.x_pitch, rows, n, p.eps, found);
      if (brief) short_gradient_sums<true>(x, dy, p.x_pitch, p.dy_pitch, w, rows, n, found, 1, sums);
      else
        for (int64_t i = 0; i < rows; ++i) {
          Chunks<T> x_chunks{x + i * p.x_pitch, nullptr, x_buffer}, dy_chunks{dy + i * p.dy_pitch, nullptr, dy_buffer};
          if (!p.rstd) found[i] = statistics(n, p.eps, x_chunks);
          sums[i] = gradient_sums<true>(x_chunks, dy_chunks, w, 0, n, found[i].shift, found[i].rstd);
        }
    }
    for (int i = 0; i < rows; ++i) made[i] = {found[i], gradient_means(sums[i], p.known ? p.known->length : n, found[i].rstd)};
    const int64_t left = p.rows - r - rows + 1;
    const T *next_x = row_to_fetch(x, p.x_pitch, ahead, left), *next_dy = row_to_fetch(dy, p.dy_pitch, ahead, left);
    each_line<T>(n, [&]<int P>(std::integral_constant<int, P>, int64_t at, int elements) __attribute__((always_inline)) {
      const int count = elements / P;
      V weight[P], sum_w[P], sum_b[P];
      for (int k = 0; k < P; ++k) {
        const int64_t i = at + k * N;
        weight[k] = get<N>(w + i, count), sum_w[k] = dw ? get<N>(dw + i, count) : V(0), sum_b[k] = db ? get<N>(db + i, count) : V(0);
      }
      for (int row = 0; row < rows; ++row) {
        const GradientRow<A>& g = made[row];
        const V shift(g.shift), rest(g.rest), scale(g.scale), mean_g(g.mean_g), minus_dot(g.minus_dot);
        V out[P];
        __builtin_prefetch(next_x + row * p.x_pitch + at, 0, 2);
        __builtin_prefetch(next_dy + row * p.dy_pitch + at, 0, 2);
        for (int k = 0; k < P; ++k) {
          const int64_t i = at + k * N;
          const V e = get<N>(dy + row * p.dy_pitch + i, count), xhat = normalized(get<N>(x + row * p.x_pitch + i, count), shift, rest, scale);
          out[k] = input_gradient(e, weight[k], xhat, mean_g, minus_dot, scale);
          sum_w[k] = fma(e, xhat, sum_w[k]), sum_b[k] = sum_b[k] + e;
        }
        put_line<N>(dx + row * p.dx_pitch + at, out, elements, past);
      }
      for (int k = 0; k < P; ++k) {
        if (dw) put<N>(dw + at + k * N, sum_w[k], count);
        if (db) put<N>(db + at + k * N, sum_b[k], count);
      }
    });
  }
  if (past) store_past_fence();
}

template <class T> void moments(const LayerNormChunks& p) {
  each_chunk(p.n, [&](int64_t first, int m) {
    Acc<T> shift;
    const Moments part = chunk_moments<true>(static_cast<const T*>(p.x) + first, m, shift);
    p.sums[first / kSumChunk] = chunk_sums_of(part, double(shift));
  });
}
template <class T> void gradient(const LayerNormChunks& p) {
  each_chunk(p.n, [&](int64_t first, int m) {
    p.sums[first / kSumChunk] = chunk_sums_of(chunk_gradient_sums<true, true>(static_cast<const T*>(p.x) + first, static_cast<const T*>(p.dy) + first,
                                                                         static_cast<const Acc<T>*>(p.weight) + first, m, p.found->shift, p.found->rstd));
  });
}
template <class T> Statistics join_moments(const void* x, int64_t n, double eps, const ChunkSums* sums) {
  alignas(64) Acc<T> buffer[kSumChunk];
  Chunks<T> chunks{static_cast<const T*>(x), nullptr, buffer};
  return joined_statistics(sums, sum_chunks(n), kSumChunk, n, eps, chunks);
}

}  // namespace
extern constexpr LayerNormKernels layer_norm_kernels = {
    by_dtype<void (*)(const LayerNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
    by_dtype<void (*)(const LayerNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; }),
    by_dtype<void (*)(const LayerNormChunks&)>(Floating{}, []<class T>() { return &moments<T>; }),
    by_dtype<void (*)(const LayerNormChunks&)>(Floating{}, []<class T>() { return &gradient<T>; }),
    by_dtype<Statistics (*)(const void*, int64_t, double, const ChunkSums*)>(Floating{}, []<class T>() { return &join_moments<T>; }),
    [](const ChunkSums* sums, int64_t chunks) { return chunk_sums_of(joined_gradient(sums, chunks)); }, kBeside};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
