#pragma once
// One element rounded by a random word; host and device. Values between two neighbours are numbered: the neighbour's code and the part of the way
// to the next one in 2^-32. A word is added to that part, and its carry makes the larger one.
#include "baracuda/math/element.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace stochastic {

// Codes without the sign: the largest finite one, what an overflow gives, NaN.
struct Format { int fraction, bias; uint32_t largest, overflow, nan; };
template <class T> inline constexpr Format kFormat = {kFloat8<T>.fraction, kFloat8<T>.bias, kFloat8<T>.largest, kFloat8<T>.overflow, kFloat8<T>.nan};
template <> inline constexpr Format kFormat<f16> = {10, 15, 0x7bff, 0x7c00, 0x7e00};
template <> inline constexpr Format kFormat<bf16> = {7, 127, 0x7f7f, 0x7f80, 0x7fc0};

struct Place { uint32_t code, part; };
// Of a number without sign, in f32 or f64.
template <class To, class C> BARACUDA_HD Place place_of(C a) {
  constexpr Format f = kFormat<To>;
  constexpr bool wide = sizeof(C) == 8;
  using U = std::conditional_t<wide, uint64_t, uint32_t>;
  constexpr int places = wide ? 52 : 23, shift = places - f.fraction;
  const U u = __builtin_bit_cast(U, a);
  if constexpr (!wide && f.bias == 127) return {u >> shift, u << (32 - shift)};  // the codes are those of f32, cut
  else {
    constexpr int bias = wide ? 1023 : 127;
    constexpr U normal = U(bias + 1 - f.bias) << places, scale = U(bias - 1 + f.bias + f.fraction) << places;
    const U t = u - normal + (U(1) << places);
    const auto small = [](C v) -> Place {
      const C units = v * __builtin_bit_cast(C, scale);  // of the least value above 0; exact
      const int32_t whole = int32_t(units);
      return {uint32_t(whole), uint32_t((units - C(whole)) * C(0x1p32))};
    };
#if defined(__CUDA_ARCH__)
    if (u < normal) return small(a);
#endif
    Place p;
    if constexpr (wide) p = {uint32_t(t >> shift), uint32_t(t >> (shift - 32))};
    else p = {t >> shift, t << (32 - shift)};
#if !defined(__CUDA_ARCH__)  // a choice by masks, which vectors can take
    const U chosen = U(0) - U(u < normal);
    const Place below = small(__builtin_bit_cast(C, u & chosen));
    p = {p.code ^ ((p.code ^ below.code) & uint32_t(chosen)), p.part ^ ((p.part ^ below.part) & uint32_t(chosen))};
#endif
    return p;
  }
}
template <class To, class From> BARACUDA_HD To rounded(From x, uint32_t word, bool saturate) {
  constexpr Format f = kFormat<To>;
  using C = Acc<From>;
  C v;
  if constexpr (kIsNarrow<From>) v = to_float(x);
  else v = x;
  const bool negative = __builtin_bit_cast(std::conditional_t<sizeof(C) == 8, int64_t, int32_t>, v) < 0;
  const Place p = place_of<To>(negative ? -v : v);
  uint32_t code = p.code + (uint32_t(p.part + word) < word);
  code = code > f.largest ? saturate ? f.largest : f.overflow : code;
  code = v != v ? f.nan : code;
  if constexpr (kIsFloat8<To>) return {uint8_t(kFloat8<To>.signed_zero || (code & 0x7f) ? code | (negative ? 0x80 : 0) : code)};
  else return {uint16_t(code | (negative ? 0x8000 : 0))};
}

}  // namespace stochastic
}  // namespace baracuda
