// Groups of GroupNorm's gradient: dy and x are read once for the sums over each channel, which are the channel's share of dweight and
// dbias and, weighted, what dx needs; then again, from the caches where the group fits, for dx. The floor is three streams.
#include "baracuda/ops/norm/group_norm_cpu.hpp"
#include "baracuda/ops/norm/norm_short.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> void backward(const GroupNormBackwardRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  using V = Pack<A, N>;
  alignas(64) A x_buffer[kSumChunk], dy_buffer[kSumChunk];
  alignas(64) T out[kSumChunk];
  const int64_t channels = p.n / p.span;
  const bool past = p.past && !p.dx_lay, dense = !p.x_lay && !p.dy_lay, brief = dense && p.span <= kShortRow;
  const int64_t most = brief ? short_rows<T>(p.span) : 1;  // channels
  GradientSums sums[kShortRows<T>];
  for (int64_t r = 0; r < p.rows; ++r) {
    const T *x = static_cast<const T*>(p.x) + r * p.x_pitch, *dy = static_cast<const T*>(p.dy) + r * p.dy_pitch;
    T* dx = static_cast<T*>(p.dx) + r * p.dx_pitch;
    const A* w = static_cast<const A*>(p.weight) + (p.first + r) % p.groups * channels;
    double *dw = p.dweight + (p.first + r) * channels, *db = p.dbias + (p.first + r) * channels;
    Chunks<T> x_chunks{x, p.x_lay, x_buffer}, dy_chunks{dy, p.dy_lay, dy_buffer};
    const Statistics s = p.rstd ? Statistics{static_cast<const A*>(p.mean)[r * p.mean_pitch], 0, static_cast<const A*>(p.rstd)[r * p.rstd_pitch]}
                          : statistics(p.n, p.eps, x_chunks);
    GradientSums all{0, 0, 0};
    for (int64_t c = 0; c < channels; c += most) {
      const int some = int(channels - c < most ? channels - c : most);
      if (brief) short_gradient_sums<false>(x + c * p.span, dy + c * p.span, p.span, p.span, nullptr, some, p.span, &s, 0, sums);
      else sums[0] = gradient_sums<false, T>(x_chunks, dy_chunks, nullptr, c * p.span, p.span, s.shift, s.rstd);
      for (int k = 0; k < some; ++k) {
        const double weight = double(w[c + k]);
        dw[c + k] = sums[k].eh, db[c + k] = sums[k].e;
        all = all + GradientSums{sums[k].e * weight, sums[k].eh * weight, sums[k].h};
      }
    }
    const GradientMeans g = gradient_means(all, p.n, s.rstd);
    for (int64_t c = 0; c < channels; ++c) dw[c] -= all.h / double(p.n) * db[c];  // h takes off the mean's first word alone
    const V shift(s.shift), rest(g.rest), scale(s.rstd), mean_g(g.mean_g), minus_dot(g.minus_dot);
    const auto write = [&](const auto* from, const auto* e_from, T* to, int64_t first, int m) {
      each_channel(first, m, p.span, [&](int64_t at, int64_t length, int64_t c) __attribute__((always_inline)) {
        const V weight(w[c]);
        put_row(to + at, length, past, [&](int64_t i, int count) __attribute__((always_inline)) {
          const V xhat = normalized(get<N>(from + at + i, count), shift, rest, scale);
          return input_gradient(get<N>(e_from + at + i, count), weight, xhat, mean_g, minus_dot, scale);
        });
      });
    };
    each_chunk(p.n, [&](int64_t first, int m) {
      T* to = p.dx_lay ? out : dx + first;
      if (dense) write(x + first, dy + first, to, first, m);
      else write(x_chunks(first, m), dy_chunks(first, m), to, first, m);
      if (p.dx_lay) scatter(to, dx, *p.dx_lay, first, m);
    });
  }
  if (past) store_past_fence();
}

}  // namespace
extern constexpr GroupNormKernels group_norm_kernels = {
    by_dtype<void (*)(const GroupNormBackwardRows&)>(Floating{}, []<class T>() { return &backward<T>; })};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
