#pragma once
// From random words to numbers, for any V. Constants that do not fit the word are exact powers of two.
#include "baracuda/math/element.hpp"
#include "baracuda/math/vmath.hpp"
#include "baracuda/ops/elementwise/normal_math.hpp"
#include "baracuda/ops/random/philox.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace random {

// Signed and unsigned 32-bit words as floats, rounded once.
template <int N> BARACUDA_HD Pack<float, N> from_signed(Words<N> w) {
  if constexpr (N == 1) return Pack<float, N>::of(float(int32_t(w)));
  else return Pack<float, N>::of(__builtin_convertvector(Raw<int32_t, N>(w), Raw<float, N>));
}
// (w + 1/2) 2^-32, in (0, 1]: high 24 bits and low 8 bits are exact, their sum is rounded once.
template <int N> BARACUDA_HD Pack<float, N> open_unit(Words<N> w) {
  using V = Pack<float, N>;
  return fma(from_signed<N>(w >> 8), V(0x1p-24), fma(from_signed<N>(w & 0xff), V(0x1p-32), V(0x1p-33)));
}
// w 2^-32 in [0, 1), cut to 24 bits so that 1 cannot appear.
template <int N> BARACUDA_HD Pack<float, N> unit(Words<N> w) { return from_signed<N>(w >> 8) * 0x1p-24; }

// -log u > 0 for u in (0, 1]: what rounds to 1 stands for the half of the last place below it.
template <class V> BARACUDA_HD V exponential(V u) {
  const V e = -log(u);
  return where(e > 0, e, V(V::kF32 ? 0x1p-26 : 0x1p-54));
}

// The distance of u in (0, 1] to the nearer end, in (0, 1/2]: what rounds to the end 1 stands for half of the last place below it.
template <class V> BARACUDA_HD V to_nearer_end(V u) {
  const V t = where(u > 0.5, 1 - u, u);
  return where(t > 0, t, V(V::kF32 ? 0x1p-26 : 0x1p-54));
}
template <class V> BARACUDA_HD V towards(V u, V magnitude) { return where(u > 0.5, magnitude, -magnitude); }
template <class V> BARACUDA_HD V laplace(V u) { return towards(u, -log(2 * to_nearer_end(u))); }
template <class V> BARACUDA_HD V logistic(V u) {
  const V t = to_nearer_end(u);
  return towards(u, log((1 - t) / t));
}
template <class V> BARACUDA_HD V cauchy(V u) {
  const V a = to_nearer_end(u) * 3.14159265358979323846;
  return towards(u, cos(a) / sin(a));
}
// Phi^-1(low + span u) within [least, most]: a normal number given that it lies there.
template <class V> BARACUDA_HD V truncated(V u, double low, double span, double least, double most) {
  const V q = fma(u, V(span), V(low)), z = elementwise::ndtri(where(q < 1, q, V(V::kF32 ? 1 - 0x1p-24 : 1 - 0x1p-53)));
  return where(z < V(least), V(least), where(z > V(most), V(most), z));
}

// log(u) for u in (0, 1] that is a normal number: nothing else to look for.
template <class V> BARACUDA_HD V log_of_unit(V u) {
  const auto e = exponent(u);
  return log_reduced(V::from_bits(bits(u) - (e << V::kMantissa)) - 1, from_int<V>(e));
}
template <class V> struct Pair { V cosine, sine; };
// r (cos, sin) of the angle quarter pi/2 + a; |a| <= pi/4.
template <class V> BARACUDA_HD Pair<V> box_muller(V u, V a, typename V::Bits quarter) {
  const SineCosine<V> of_a = sine_cosine(Quarter<V>{a, 0, {}});
  const V r = sqrt(-2 * log_of_unit(u)), s = of_a.sine, c = of_a.cosine;
  const auto odd = (quarter & 1) != 0;
  const V x = where(odd, s, c), y = where(odd, c, s);
  return {r * where(((quarter + 1) & 2) != 0, -x, x), r * where((quarter & 2) != 0, -y, y)};
}

// Two words as a normal pair: the second is an angle.
template <int N> BARACUDA_HD Pair<Pack<float, N>> normal_pair(Words<N> radius, Words<N> angle) {
  const Words<N> quarter = (angle + 0x20000000u) >> 30, turn = angle - (quarter << 30);
  return box_muller(open_unit<N>(radius), from_signed<N>(turn) * 0x1.921fb54442d18p-30, __builtin_bit_cast(typename Pack<float, N>::Bits, quarter));
}

// 64 bits as doubles: 53 of them in [0, 1), or in (0, 1]; and a normal pair.
BARACUDA_HD Pack<double, 1> unit_f64(uint64_t w, bool open) { return Pack<double, 1>::of(double(int64_t(w >> 11) + open) * 0x1p-53); }
struct Angle { double a; int64_t quarter; };  // quarter pi/2 + a
BARACUDA_HD Angle angle_f64(uint64_t w) {
  const uint64_t q = (w + (uint64_t(1) << 61)) >> 62;
  return {double(int64_t(w - (q << 62))) * 0x1.921fb54442d18p-62, int64_t(q)};
}
BARACUDA_HD Pair<Pack<double, 1>> normal_pair(uint64_t radius, uint64_t angle) {
  const Angle t = angle_f64(angle);
  return box_muller(unit_f64(radius, true), Pack<double, 1>::of(t.a), t.quarter);
}

// --- ops that compare or scale words
BARACUDA_HD uint64_t both(uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; }
// Word `number` of the stream that stands behind the first one when an element needs another word: counter (block, attempt, 0).
BARACUDA_HD uint32_t further_word(uint64_t seed, uint64_t number, uint32_t attempt) {
  const uint64_t block = number / 4;
  const PhiloxBlock<1> b = philox<1>({{uint32_t(block), uint32_t(block >> 32), attempt, 0}}, seed);
  const bool odd = number & 1;
  return number & 2 ? (odd ? b.word[3] : b.word[2]) : odd ? b.word[1] : b.word[0];
}
// x factor where kept, else 0, whatever x is.
template <class T> BARACUDA_HD T dropped(T x, bool keep, Acc<T> factor) {
  if (!keep) return T{};
  T y;
  store<T, 1>(&y, load<1>(&x) * Pack<Acc<T>, 1>::of(factor));
  return y;
}
BARACUDA_HD bool below(uint32_t word, float p) { return double(word) < double(p) * 0x1p32; }
// The high half of word times range, of which each value is as often as the others: low halves below least = 2^bits mod range are those
// that some values have one more of, and are drawn again. e: the element's number.
BARACUDA_HD uint64_t below_range(uint32_t word, uint64_t range, uint64_t least, uint64_t seed, uint64_t e) {
  uint64_t m = word * range;
  for (uint32_t attempt = 1; uint32_t(m) < least; ++attempt) m = further_word(seed, e, attempt) * range;
  return m >> 32;
}
BARACUDA_HD uint64_t below_wide_range(uint64_t word, uint64_t range, uint64_t least, uint64_t seed, uint64_t e) {
  unsigned __int128 m = (unsigned __int128)word * range;
  for (uint32_t attempt = 1; uint64_t(m) < least; ++attempt) m = (unsigned __int128)both(further_word(seed, 2 * e, attempt), further_word(seed, 2 * e + 1, attempt)) * range;
  return uint64_t(m >> 64);
}
template <class T> BARACUDA_HD T from_integer(int64_t v) {
  if constexpr (std::is_integral_v<T>) return T(v);
  else return from_double<T>(double(v));
}

enum class Draw { uniform, normal, exponential, gumbel, laplace, cauchy, logistic, truncated_normal };
// One number from u: uniform takes [0, 1), the others (0, 1].
template <Draw kDraw, class V> BARACUDA_HD V number(double base, double factor, double most, V u) {
  if constexpr (kDraw == Draw::uniform) {
    const V v = fma(u, V(factor), V(base));
    return where(v > V(most), V(most), v);
  } else if constexpr (kDraw == Draw::exponential) return exponential(u) * V(factor);
  else if constexpr (kDraw == Draw::laplace) return fma(laplace(u), V(factor), V(base));
  else if constexpr (kDraw == Draw::cauchy) return fma(cauchy(u), V(factor), V(base));
  else if constexpr (kDraw == Draw::logistic) return fma(logistic(u), V(factor), V(base));
  else return fma(-log(exponential(u)), V(factor), V(base));
}
// The same with the numbers of a run, and a truncated normal.
template <Draw kDraw, class P, class V> BARACUDA_HD V drawn(const P& p, V u) {
  if constexpr (kDraw == Draw::truncated_normal) return fma(truncated(u, p.low, p.span, p.least, p.most), V(p.factor), V(p.base));
  else return number<kDraw>(p.base, p.factor, p.most, u);
}

}  // namespace random
}  // namespace baracuda
