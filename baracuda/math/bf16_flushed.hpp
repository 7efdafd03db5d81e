#pragma once
// Rounding of math/bf16_instruction.hpp without a look at each register for subnormal values, of which the instruction of AVX512-BF16 makes zeros: arithmetic
// runs in the processor's mode that makes zeros of them itself, and notes that it did. Where it did not, all bits are those of the usual mode.
#include "baracuda/math/bf16_instruction.hpp"

namespace baracuda::inline BARACUDA_ISA {

#if defined(__AVX512BF16__)
template <class T> inline constexpr bool kFlushes = kIsBf16<T>;
#else
template <class T> inline constexpr bool kFlushes = false;
#endif
// Runs f(p), which is not inlined; false where a result was subnormal, so that what was written is of no use.
template <class P> BARACUDA_HD bool ran_without_subnormals([[maybe_unused]] void (*f)(const P&), [[maybe_unused]] const P& p) {
#if defined(__AVX512BF16__)
  constexpr unsigned kModes = 0x6040, kMasked = 0x1f80, kFlush = 0x8000, kUnderflow = 0x10;  // of MXCSR; all of its notes begin as zeros
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & kModes) | kMasked | kFlush);
  f(p);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  return !(after & kUnderflow);
#else
  return false;
#endif
}
// kLook: as store_twice_rounded does.
template <bool kLook, class T, int N> BARACUDA_HD void store_twice_flushed(T* p, Pack<Acc<T>, N> a, Pack<Acc<T>, N> b, bool past) {
#if defined(__AVX512BF16__)
  if constexpr (!kLook && kIsBf16<T> && N == 16) {
    const __m512i r = __m512i(_mm512_cvtne2ps_pbh(__m512(b.v), __m512(a.v)));
    return past ? _mm512_stream_si512((__m512i*)p, r) : _mm512_storeu_si512(p, r);
  }
#endif
  store_twice_rounded<T, N>(p, a, b, past);
}

}  // namespace baracuda
