#pragma once
// The walk over a piece, two registers at a time: a dense block is used where it lies, a strided one or a tail goes through a buffer on the stack.
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/gated/gated_cpu.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace gated {

inline constexpr int kBlock = 256;
inline constexpr int64_t kAhead = 2048;  // bytes: look-ups leave too little in flight to hide what the next lines cost

// store_dealt by the processor's rounding of bf16: the same bits, but for subnormal values, which it would make zeros.
template <class T, int N> BARACUDA_HD void store_results(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if defined(__AVX512BF16__)
  if constexpr (kIsBf16<T> && N == 16) {
    constexpr int kSubnormal = 0x20;
    if (__builtin_expect((_mm512_fpclass_ps_mask(__m512(a.v), kSubnormal) | _mm512_fpclass_ps_mask(__m512(b.v), kSubnormal)) == 0, 1)) {
      const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
      const __m512i r = _mm512_permutexvar_epi16(turns, __m512i(_mm512_cvtne2ps_pbh(__m512(b.v), __m512(a.v))));
      return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
    }
  }
#endif
  store_dealt<T, N>(p, a, b, past);
}
// f(in, j, x, y) for the 2 N elements of a block from j on, which x holds, dealt, and which lie at in[k] + j.
template <class T, int kIn, int kOut, class F> void map_piece(const GatedPiece& p, F f) {
  constexpr int N = kLanes<Acc<T>>;
  alignas(64) T buffer[kIn + kOut][kBlock] = {};
  bool past[kOut];
  const bool p_past = p.past;
  for (int64_t i = 0; i < p.n; i += kBlock) {
    const int m = p.n - i < kBlock ? int(p.n - i) : kBlock;
    const T* in[kIn];
    T* out[kOut];
    for (int k = 0; k < kIn; ++k) {
      const T* from = static_cast<const T*>(p.in[k]) + i * p.in_stride[k];
      const bool direct = p.in_stride[k] == 1 && m == kBlock;
      in[k] = direct ? from : buffer[k];
      if (!direct) for (int j = 0; j < m; ++j) buffer[k][j] = from[j * p.in_stride[k]];
    }
    for (int k = 0; k < kOut; ++k) {
      const bool direct = p.out[k] && p.out_stride[k] == 1 && m == kBlock;
      out[k] = direct ? static_cast<T*>(p.out[k]) + i : buffer[kIn + k];
      past[k] = direct && p.past;
    }
    for (int j = 0; j < kBlock; j += 2 * N) {
      if (j >= m) break;
      Pack<Acc<T>, N> x[2][kIn], y[2][kOut];
      for (int k = 0; k < kIn; ++k) {
        if (kIsHalf<T> && p_past) __builtin_prefetch(reinterpret_cast<const char*>(in[k] + j) + kAhead);
        const auto both = load_dealt<N>(in[k] + j);
        x[0][k] = both.low, x[1][k] = both.high;
      }
      f(in, j, x, y);
      for (int k = 0; k < kOut; ++k) store_results<T, N>(out[k] + j, y[0][k], y[1][k], past[k]);
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
