#pragma once
// The loops of predicates of floats, for instruction-set units: elements are taken as they lie, halves too. With AVX-512 the masks of 64 elements
// become bytes at once, and what lies 4 KiB further is asked for, as results are so small that memory is the limit.
#include "baracuda/host/fetch_ahead.hpp"
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace {

template <class F, class T> void map_predicate(const double* parameters, const void* const* in, void* const* out, int64_t n) {
  int64_t i = 0;
#if BARACUDA_VECTOR_BYTES == 64
  constexpr int N = kLanes<Acc<T>>, kAtOnce = 64;
  constexpr int64_t kFew = 4096;  // elements: these are in the first-level cache, or a block of it
  const F f = with_parameters<F>(parameters);
  for (; i + kAtOnce <= n; i += kAtOnce) {
    uint64_t mask = 0;
    for (int k = 0; n > kFew && k < F::in; ++k) fetch_ahead<kAtOnce * int(sizeof(T))>(static_cast<const T*>(in[k]) + i);
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; j += N) {
      Pack<Acc<T>, N> x[F::in];
#pragma GCC unroll 2
      for (int k = 0; k < F::in; ++k) x[k] = load<N>(static_cast<const T*>(in[k]) + i + j);
      const __m512i m = __m512i(f.value(x));
      if constexpr (N == 16) mask |= uint64_t(_mm512_movepi32_mask(m)) << j;
      else mask |= uint64_t(_mm512_movepi64_mask(m)) << j;
    }
    _mm512_storeu_si512(static_cast<bool*>(out[0]) + i, _mm512_maskz_mov_epi8(mask, _mm512_set1_epi8(1)));
  }
#endif
  const void* rest[F::in];
  for (int k = 0; k < F::in; ++k) rest[k] = static_cast<const T*>(in[k]) + i;
  void* to = static_cast<bool*>(out[0]) + i;
  map_dense<F, T, bool>(parameters, rest, &to, n - i);
}
template <class Op> constexpr ElementwiseEntry logic_entry() {
  ElementwiseEntry e = entry<Op>();
  if constexpr (Op::predicate && (Op::types & elementwise::kFloats) != 0)
    [&]<class... T>(TypeList<T...>) { ((e.forward[kDTypeOf<T>] = &map_predicate<elementwise::Forward<Op>, T>), ...); }(Floating{});
  return e;
}

}  // namespace
}  // namespace baracuda
