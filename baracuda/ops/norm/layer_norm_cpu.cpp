// Rows of LayerNorm, and the groups of GroupNorm forward. A chunk of a row comes into the first-level cache once for the sums of x,
// of x - mean and of its square, and once for y. The floor is memory bandwidth: two streams forward, three backward; a row that the
// second-level cache does not hold comes from memory twice. The order of a row's sums depends on n alone.
#include "baracuda/ops/norm/layer_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_rows.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> void forward(const LayerNormRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A buffer[kSumChunk];
  alignas(64) T out[kSumChunk];
  const bool past = p.past && !p.y_lay;
  const int64_t channels = p.n / p.span;
  int64_t group = p.first % p.groups;
  const int64_t most = rows_at_once(p.n);
  Statistics found[kRowsAtOnce];
  for (int64_t r = 0; r < p.rows; ++r) {
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *next = p.x_lay ? x : row_to_fetch(x, p.x_pitch, r + 1 == p.rows, p.n);
    T* y = static_cast<T*>(p.y) + r * p.y_pitch;
    Chunks<T> chunks{x, p.x_lay, buffer};
    if (r % most == 0)
      for (int64_t i = 0; i < most && r + i < p.rows; ++i) {
        Chunks<T> row{x + i * p.x_pitch, p.x_lay, buffer};
        Statistics& s = found[i] = statistics(p.n, p.eps, row);
        if (p.mean) static_cast<A*>(p.mean)[(r + i) * p.mean_pitch] = A(s.shift + s.rest);
        if (p.rstd) static_cast<A*>(p.rstd)[(r + i) * p.rstd_pitch] = A(s.rstd);
        if (most == 1) chunks = row;  // which may hold the row
      }
    const Statistics& s = found[r % most];
    const V shift(s.shift), rest(s.rest), scale(s.rstd);
    const A *w = static_cast<const A*>(p.weight) + group * channels, *b = static_cast<const A*>(p.bias) + group * channels;
    group = group + 1 < p.groups ? group + 1 : 0;
    each_chunk(p.n, [&](int64_t first, int m) {
      const A* from = chunks(first, m);
      T* to = p.y_lay ? out : y + first;
      if (p.span == 1) {
        each_pack<N>(m, [&](int64_t i, int count) __attribute__((always_inline)) {
          __builtin_prefetch(next + first + i, 0, 2);
          put<N>(to + i, fma(normalized(get<N>(from + i, count), shift, rest, scale), get<N>(w + first + i, count), get<N>(b + first + i, count)), count, past);
        });
      } else {
        each_channel(first, m, p.span, [&](int64_t at, int64_t length, int64_t c) __attribute__((always_inline)) {
          const V weight(w[c]), bias(b[c]);
          each_pack<N>(length, [&](int64_t i, int count) __attribute__((always_inline)) {
            __builtin_prefetch(next + first + at + i, 0, 2);
            put<N>(to + at + i, fma(normalized(get<N>(from + at + i, count), shift, rest, scale), weight, bias), count, past);
          });
        });
      }
      if (p.y_lay) scatter(to, y, *p.y_lay, first, m);
    });
  }
  if (past) store_past_fence();
}

template <class T> void backward(const LayerNormBackwardRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  const A* w = static_cast<const A*>(p.weight);
  A *dw = static_cast<A*>(p.dweight), *db = static_cast<A*>(p.dbias);
  const int64_t n = p.n, most = rows_at_once(n);
  const bool past = p.past;
  Statistics found[kRowsAtOnce];
  GradientSums sums_found[kRowsAtOnce];
  for (int64_t r = 0; r < p.rows; ++r) {
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *dy = static_cast<const T*>(p.dy) + r * p.dy_pitch;
    const bool last = r + 1 == p.rows;
    const T *next_x = row_to_fetch(x, p.x_pitch, last, n), *next_dy = row_to_fetch(dy, p.dy_pitch, last, n);
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    Chunks<T> x_chunks{x, nullptr, x_buffer}, dy_chunks{dy, nullptr, dy_buffer};
    if (r % most == 0)
      for (int64_t i = 0; i < most && r + i < p.rows; ++i) {
        Chunks<T> x_row{x + i * p.x_pitch, nullptr, x_buffer}, dy_row{dy + i * p.dy_pitch, nullptr, dy_buffer};
        found[i] = p.rstd ? Statistics{static_cast<const A*>(p.mean)[(r + i) * p.mean_pitch], 0, static_cast<const A*>(p.rstd)[(r + i) * p.rstd_pitch]}
                          : statistics(n, p.eps, x_row);
        sums_found[i] = gradient_sums<true>(x_row, dy_row, w, 0, n, found[i].shift, found[i].rstd);
        if (most == 1) x_chunks = x_row, dy_chunks = dy_row;  // which may hold the row
      }
    const Statistics& s = found[r % most];
    const GradientSums& sums = sums_found[r % most];
    const V shift(s.shift), rest(sums.h / (double(n) * s.rstd)), scale(s.rstd), mean_g(sums.e / double(n));
    const V minus_dot((sums.h / double(n) * sums.e - sums.eh) / double(n));
    each_chunk(n, [&](int64_t first, int m) {
      const A *from = x_chunks(first, m), *e_from = dy_chunks(first, m);
      each_pack<N>(m, [&](int64_t i, int count) __attribute__((always_inline)) {
        const int64_t j = first + i;
        __builtin_prefetch(next_x + j, 0, 2);
        __builtin_prefetch(next_dy + j, 0, 2);
        const V e = get<N>(e_from + i, count), xhat = normalized(get<N>(from + i, count), shift, rest, scale);
        put<N>(dx + j, input_gradient(e, get<N>(w + j, count), xhat, mean_g, minus_dot, scale), count, past);
        if (dw) put<N>(dw + j, fma(e, xhat, get<N>(dw + j, count)), count);
        if (db) put<N>(db + j, get<N>(db + j, count) + e, count);
      });
    });
  }
  if (past) store_past_fence();
}

}  // namespace
extern constexpr LayerNormKernels layer_norm_kernels = {
    by_dtype<void (*)(const LayerNormRows&)>(Floating{}, []<class T>() { return &forward<T>; }),
    by_dtype<void (*)(const LayerNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
