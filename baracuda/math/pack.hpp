#pragma once
// Pack<T, N>: N lanes of float or double and the few operations that formulas are made of. N = 1 is a CUDA thread or
// the portable CPU path, kLanes<T> a full vector register; other N > 1 work and are compiled to several registers.
// Each operation is one IEEE operation per lane and is never contracted (-ffp-contract=off, -fmad=false), so a lane's
// bits depend neither on N nor on the device, quotients of brief lanes aside. NaN payloads are not part of that
// promise.
#include <cstdint>
#include <type_traits>

#include "baracuda/math/config.hpp"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpsabi"  // packs wider than a register are never passed: everything here is inlined
#endif
#if BARACUDA_VECTOR_BYTES
#pragma GCC diagnostic push  // g++ 12 takes the deliberately undefined pass-through operands there for mistakes
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace baracuda::inline BARACUDA_ISA {

// In place of float: lanes of float whose functions are good for results in f16 or bf16 alone (math/brief.hpp).
struct brief { float v; };
template <class T> struct ScalarOf { using Type = T; };
template <> struct ScalarOf<brief> { using Type = float; };
template <class T, int N> struct RawOf { typedef typename ScalarOf<T>::Type Type __attribute__((vector_size(sizeof(T) * N))); };
template <class T> struct RawOf<T, 1> { using Type = typename ScalarOf<T>::Type; };
template <class T, int N> using Raw = typename RawOf<T, N>::Type;
// Lanes of a full register for a computing type (float, double).
template <class T> inline constexpr int kLanes = BARACUDA_VECTOR_BYTES ? BARACUDA_VECTOR_BYTES / int(sizeof(T)) : 1;

inline constexpr double kInf = __builtin_inf(), kNaN = __builtin_nan("");
// An instruction of a GPU with an f32 result; on the host the expression.
#if defined(__CUDA_ARCH__)
#define BARACUDA_INSTRUCTION(expression, instruction, ...) [&] { float r_; asm(instruction : "=f"(r_) : __VA_ARGS__); return r_; }()
#else
#define BARACUDA_INSTRUCTION(expression, instruction, ...) (expression)
#endif

template <class T, int N> struct Pack {
  using Scalar = typename ScalarOf<T>::Type;
  using Int = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using Bits = Raw<Int, N>;                             // a lane's bits as a signed integer
  using Mask = std::conditional_t<N == 1, bool, Bits>;  // combine with & and |, negate with mask_not
  static constexpr int kWidth = N;
  static constexpr bool kF32 = sizeof(T) == 4, kBrief = std::is_same_v<T, brief>;
  static constexpr bool kVector = N > 1 && N * sizeof(T) == BARACUDA_VECTOR_BYTES;
  static constexpr bool kWide = N > 1 && BARACUDA_VECTOR_BYTES && N * sizeof(T) > BARACUDA_VECTOR_BYTES;
  static constexpr int kMantissa = kF32 ? 23 : 52, kBias = kF32 ? 127 : 1023;
  static constexpr Int kSign = Int(1) << (8 * sizeof(T) - 1);
  Raw<T, N> v;

  Pack() = default;
  BARACUDA_HD Pack(double c) : v(Scalar(c) - Raw<T, N>{}) {}  // a constant: rounded to T and spread over the lanes
  BARACUDA_HD static Pack of(Raw<T, N> raw) { Pack p; p.v = raw; return p; }
  BARACUDA_HD static Pack from_bits(Bits b) { return of(__builtin_bit_cast(Raw<T, N>, b)); }
  BARACUDA_HD friend Bits bits(Pack a) { return __builtin_bit_cast(Bits, a.v); }
  BARACUDA_HD Scalar lane(int i) const { if constexpr (N == 1) return v; else return v[i]; }
  BARACUDA_HD void set_lane(int i, Scalar value) { if constexpr (N == 1) v = value; else v[i] = value; }

  BARACUDA_HD friend Pack operator+(Pack a, Pack b) { return of(a.v + b.v); }
  BARACUDA_HD friend Pack operator-(Pack a, Pack b) { return of(a.v - b.v); }
  BARACUDA_HD friend Pack operator*(Pack a, Pack b) { return of(a.v * b.v); }
  BARACUDA_HD friend Pack operator/(Pack a, Pack b) {  // brief, on a GPU: within 2 ulp
    if constexpr (kBrief && N == 1) return of(BARACUDA_INSTRUCTION(a.v / b.v, "div.full.f32 %0, %1, %2;", "f"(a.v), "f"(b.v)));
    else return of(a.v / b.v);
  }
  BARACUDA_HD friend Pack operator-(Pack a) { return of(-a.v); }
  BARACUDA_HD Pack& operator+=(Pack b) { v = v + b.v; return *this; }
  BARACUDA_HD Pack& operator-=(Pack b) { v = v - b.v; return *this; }
  BARACUDA_HD Pack& operator*=(Pack b) { v = v * b.v; return *this; }
  BARACUDA_HD friend Mask operator<(Pack a, Pack b) { return a.v < b.v; }
  BARACUDA_HD friend Mask operator>(Pack a, Pack b) { return a.v > b.v; }
  BARACUDA_HD friend Mask operator<=(Pack a, Pack b) { return a.v <= b.v; }
  BARACUDA_HD friend Mask operator>=(Pack a, Pack b) { return a.v >= b.v; }
  BARACUDA_HD friend Mask operator==(Pack a, Pack b) { return a.v == b.v; }
  BARACUDA_HD friend Mask operator!=(Pack a, Pack b) { return a.v != b.v; }

  // There is no bare min or max: what they do with NaN and -0 differs between machines; where() does not.
  BARACUDA_HD friend Pack where(Mask m, Pack a, Pack b) { return of(m ? a.v : b.v); }
  BARACUDA_HD friend Pack max_nan(Pack a, Pack b) { return where(a > b, a, where(a != a, a, b)); }  // NaN wins, ties give b
  BARACUDA_HD friend Pack min_nan(Pack a, Pack b) { return where(a < b, a, where(a != a, a, b)); }
  BARACUDA_HD friend Pack abs(Pack a) { return from_bits(bits(a) & ~kSign); }
  BARACUDA_HD friend Pack copysign(Pack a, Pack s) { return from_bits((bits(a) & ~kSign) | (bits(s) & kSign)); }
  BARACUDA_HD friend Mask is_nan(Pack a) { return a.v != a.v; }
  BARACUDA_HD friend Mask sign_bit(Pack a) { return bits(a) < 0; }

#if BARACUDA_VECTOR_BYTES  // operations that vectors have no operator for
#define BARACUDA_LANES(name, ...)                                                                      \
  if constexpr (kVector && kF32) return of(Raw<T, N>(BARACUDA_VECTOR_OP(name##_ps)(__VA_ARGS__)));     \
  else if constexpr (kVector) return of(Raw<T, N>(BARACUDA_VECTOR_OP(name##_pd)(__VA_ARGS__)));        \
  else
#else
#define BARACUDA_LANES(name, ...)
#endif
  BARACUDA_HD friend Pack fma(Pack a, Pack b, Pack c) {
    BARACUDA_LANES(fmadd, a.v, b.v, c.v)
    if constexpr (N == 1 && kF32) return of(__builtin_fmaf(a.v, b.v, c.v));
    else if constexpr (N == 1) return of(__builtin_fma(a.v, b.v, c.v));
    else if constexpr (kWide)
      return join(fma(a.half(0), b.half(0), c.half(0)), fma(a.half(1), b.half(1), c.half(1)));
    else {
      Pack r;
      for (int i = 0; i < N; ++i) r.v[i] = fma(Pack<T, 1>::of(a.v[i]), Pack<T, 1>::of(b.v[i]), Pack<T, 1>::of(c.v[i])).v;
      return r;
    }
  }
  BARACUDA_HD friend Pack sqrt(Pack a) {
    BARACUDA_LANES(sqrt, a.v)
    if constexpr (N == 1 && kF32) return of(__builtin_sqrtf(a.v));
    else if constexpr (N == 1) return of(__builtin_sqrt(a.v));
    else if constexpr (kWide) return join(sqrt(a.half(0)), sqrt(a.half(1)));
    else {
      Pack r;
      for (int i = 0; i < N; ++i) r.v[i] = sqrt(Pack<T, 1>::of(a.v[i])).v;
      return r;
    }
  }
  BARACUDA_HD friend Pack larger(Pack a, Pack b) {  // a > b ? a : b, NaN in b stays, in a it does not: what max is on x86
    BARACUDA_LANES(max, a.v, b.v)
    return where(a > b, a, b);
  }
  BARACUDA_HD friend Pack smaller(Pack a, Pack b) {  // a < b ? a : b, likewise
    BARACUDA_LANES(min, a.v, b.v)
    return where(a < b, a, b);
  }
#undef BARACUDA_LANES

  using HalfPack = Pack<T, (N > 1 ? N / 2 : 1)>;
  BARACUDA_HD HalfPack half(int i) const {
    HalfPack h;
    __builtin_memcpy(&h.v, (const char*)&v + i * sizeof h.v, sizeof h.v);
    return h;
  }
  BARACUDA_HD static Pack join(HalfPack a, HalfPack b) {
    Pack p;
    __builtin_memcpy(&p.v, &a.v, sizeof a.v);
    __builtin_memcpy((char*)&p.v + sizeof a.v, &b.v, sizeof b.v);
    return p;
  }

  // To an integer: |x| from 2^23 (2^52) on is one already. NaN and infinities stay, -0 and the sign of zero results too.
  BARACUDA_HD friend Pack round_even(Pack a) {  // half to even
    const Pack whole = kF32 ? 0x1p23 : 0x1p52, m = abs(a);
    return where(m < whole, copysign((m + whole) - whole, a), a);
  }
  BARACUDA_HD friend Pack trunc(Pack a) {
    const Pack m = abs(a), r = round_even(m);
    return copysign(where(r > m, r - Pack(1), r), a);
  }
  BARACUDA_HD friend Pack floor(Pack a) {
    const Pack r = round_even(a);
    return copysign(where(r > a, r - Pack(1), r), a);
  }
  BARACUDA_HD friend Pack ceil(Pack a) {
    const Pack r = round_even(a);
    return copysign(where(r < a, r + Pack(1), r), a);
  }
};

// Masks of any width. A mask's lanes are all ones or all zeros.
BARACUDA_HD bool any(bool m) { return m; }
BARACUDA_HD bool all(bool m) { return m; }
BARACUDA_HD bool mask_not(bool m) { return !m; }
#if !defined(__CUDACC__)
template <class M> BARACUDA_HD M mask_not(M m) { return ~m; }
template <class M> BARACUDA_HD bool any(M m) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (sizeof(M) == 64) return _mm512_test_epi64_mask(__m512i(m), __m512i(m)) != 0;
#elif BARACUDA_VECTOR_BYTES == 32
  if constexpr (sizeof(M) == 32) return !_mm256_testz_si256(__m256i(m), __m256i(m));
#endif
  auto some = m[0];
  for (unsigned i = 1; i < sizeof(M) / sizeof(m[0]); ++i) some |= m[i];
  return some != 0;
}
template <class M> BARACUDA_HD bool all(M m) { return !any(mask_not(m)); }
#endif

// The same lanes in the other computing type (rounded to nearest).
template <class To, class T, int N> BARACUDA_HD Pack<To, N> convert(Pack<T, N> a) {
  if constexpr (std::is_same_v<To, T>) return a;
  else if constexpr (N == 1) return Pack<To, 1>::of(To(a.v));
  else return Pack<To, N>::of(__builtin_convertvector(a.v, Raw<To, N>));
}

}  // namespace baracuda
