#pragma once
// The walk over a piece, two registers at a time: what is dense is used where it lies, a strided block or a tail goes through a buffer on the stack.
#include "baracuda/math/bf16_instruction.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

inline constexpr int kBlock = 256;
// Neither look-ups nor long formulas leave enough in flight to hide what the next lines cost: they are fetched so many bytes ahead into the
// second-level cache, which takes more at once, and from there into the first; halves, whose look-ups take all loads there are, once.
inline constexpr int64_t kFarAhead = 8192, kAhead = 1024, kHalvesAhead = 2048;
template <int kElements, class T> BARACUDA_HD void fetch_ahead(const T* p) {
  for (size_t b = 0; b < kElements * sizeof(T); b += 64) {
    const char* line = reinterpret_cast<const char*>(p) + b;
    if constexpr (kIsHalf<T>) __builtin_prefetch(line + kHalvesAhead);
    else __builtin_prefetch(line + kFarAhead, 0, 2), __builtin_prefetch(line + kAhead);
  }
}

// f(in, j, x, y) for the 2 N elements of a block from j on, which x holds, dealt, and which lie at in[k] + j.
template <class T, int kIn, int kOut, class F> void map_piece(const GatedPiece& p, F f) {
  constexpr int N = kLanes<Acc<T>>;
  alignas(64) T buffer[kIn + kOut][kBlock] = {};
  bool past[kOut];
  const bool p_past = p.past;
  bool dense = true;
  for (int k = 0; k < kIn; ++k) dense = dense && p.in_stride[k] == 1;
  for (int k = 0; k < kOut; ++k) dense = dense && p.out[k] && p.out_stride[k] == 1;
  const int64_t whole = dense ? p.n / (2 * N) * (2 * N) : 0;
  for (int64_t i = 0, m; i < p.n; i += m) {
    m = i < whole ? whole : p.n - i < kBlock ? p.n - i : kBlock;
    const bool full = i < whole || m == kBlock;
    const T* in[kIn];
    T* out[kOut];
    for (int k = 0; k < kIn; ++k) {
      const T* from = static_cast<const T*>(p.in[k]) + i * p.in_stride[k];
      const bool direct = p.in_stride[k] == 1 && full;
      in[k] = direct ? from : buffer[k];
      if (!direct) for (int j = 0; j < m; ++j) buffer[k][j] = from[j * p.in_stride[k]];
    }
    for (int k = 0; k < kOut; ++k) {
      const bool direct = p.out[k] && p.out_stride[k] == 1 && full;
      out[k] = direct ? static_cast<T*>(p.out[k]) + i : buffer[kIn + k];
      past[k] = direct && p.past;
    }
    for (int64_t j = 0; j < m; j += 2 * N) {
      Pack<Acc<T>, N> x[2][kIn], y[2][kOut];
      for (int k = 0; k < kIn; ++k) {
        if (p_past) fetch_ahead<2 * N>(in[k] + j);
        const auto both = load_dealt<N>(in[k] + j);
        x[0][k] = both.low, x[1][k] = both.high;
      }
      f(in, j, x, y);
      for (int k = 0; k < kOut; ++k) store_dealt_rounded<T, N>(out[k] + j, y[0][k], y[1][k], past[k]);
    }
    for (int k = 0; k < kOut; ++k)
      if (p.out[k] && out[k] == buffer[kIn + k]) {
        T* to = static_cast<T*>(p.out[k]) + i * p.out_stride[k];
        for (int j = 0; j < m; ++j) to[j * p.out_stride[k]] = buffer[kIn + k][j];
      }
  }
  if (p.past) store_past_fence();
}

}  // namespace gated
}  // namespace baracuda
