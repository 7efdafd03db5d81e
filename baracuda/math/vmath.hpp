#pragma once
// exp expm1 exp2 log log1p log2 log10 tanh sigmoid erf pow sin cos for any Pack: the same operations for SIMD, scalar
// code and CUDA, so the same bits. Minimax polynomials (Sollya's fpminimax and remez), a float and a double set each;
// every fma is written out.
// Right for every argument: NaN, infinities, signed zeros, subnormal arguments and results. sin and cos: Cody-Waite in
// three words up to |x| = kSinLimit, beyond it Payne-Hanek lane by lane (right, slow).
// Largest error in ulp, f32 over all 2^32 arguments / f64 over 3 10^7: exp 1.10/1.07, expm1 1.26/1.34, exp2 1.23/1.19,
// log 0.85/0.84, log1p 1.39/1.35, log2 0.97/0.87, log10 0.78/0.75, tanh 1.00/1.05, sigmoid 2.41/2.38, erf 1.07/1.08,
// sin and cos 0.79/0.85; pow over 2 10^5: 1.2. The same sweep found no bit different between AVX2, AVX-512 and an H100.
#include "baracuda/math/pack.hpp"

namespace baracuda::inline BARACUDA_ISA {

template <class V> BARACUDA_HD V poly(V, double c) { return c; }
template <class V, class... C> BARACUDA_HD V poly(V x, double c, C... higher) { return fma(poly(x, higher...), x, V(c)); }
template <class V> BARACUDA_HD V clamp(V x, double lo, double hi) { return larger(V(lo), smaller(V(hi), x)); }  // lo <= hi; NaN and -0 stay
template <class V> inline constexpr double kMagic = V::kF32 ? 0x1.8p23 : 0x1.8p52;  // x + magic - magic rounds to integer
template <class V> BARACUDA_HD V pow2(typename V::Bits n) { return V::from_bits((n + V::kBias) << V::kMantissa); }
template <class V> BARACUDA_HD V from_int(typename V::Bits n) { return V::from_bits(n + bits(V(kMagic<V>))) - kMagic<V>; }

template <class V> struct TwoWords { V hi, lo; };  // a value as a sum whose second part is below an ulp of the first
template <class V> BARACUDA_HD TwoWords<V> reduce_ln2(V x, typename V::Bits& n) {  // x = n ln2 + hi + lo, |hi| <= ln2 / 2
  const V t = fma(x, V(0x1.71547652b82fep0), V(kMagic<V>)), k = t - kMagic<V>;
  n = bits(t) - bits(V(kMagic<V>));
  const V r = fma(k, V(V::kF32 ? -0x1.62e43p-1 : -0x1.62e42fefa39efp-1), x), low = V::kF32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56;
  const V hi = fma(k, low, r);
  return {hi, fma(k, low, r - hi)};
}
template <class V> BARACUDA_HD V exp_reduce_in_range(V x, typename V::Bits& n) { return reduce_ln2(x, n).hi; }
template <class V> BARACUDA_HD V exp_reduce(V x, typename V::Bits& n) {  // beyond the bounds, exp is 0 or inf anyway
  return exp_reduce_in_range(clamp(x, V::kF32 ? -104 : -746, V::kF32 ? 89 : 710), n);
}
template <class V> BARACUDA_HD V expm1_poly(V r) {  // (expm1(r) - r) / r^2, |r| <= ln2 / 2
  if constexpr (V::kF32) return poly(r, 0x1p-1, 0x1.5554dcp-3, 0x1.5554eap-5, 0x1.120c06p-7, 0x1.6d4bfcp-10);
  else return poly(r, 0x1.0000000000001p-1, 0x1.5555555555558p-3, 0x1.5555555553cd8p-5, 0x1.111111110f8dap-7, 0x1.6c16c178abcf5p-10,
                0x1.a01a01afb7c64p-13, 0x1.a019b8b60fbf6p-16, 0x1.71ddf78561022p-19, 0x1.2891d4728a892p-22, 0x1.af61c46fc2a81p-26);
}
template <class V> BARACUDA_HD V expm1_reduced(V r) { return fma(r * r, expm1_poly(r), r); }
// x 2^n, rounded once, for x = 0 and |x| >= 2^-100 (2^-960): in two steps, as 2^n alone may be out of range; the first is exact.
template <class V> BARACUDA_HD V scale(V x, typename V::Bits n) {
#if BARACUDA_VECTOR_BYTES == 64
  if constexpr (V::kVector && V::kF32) return V::of(decltype(x.v)(_mm512_scalef_ps(__m512(x.v), _mm512_cvtepi32_ps(__m512i(n)))));
  else if constexpr (V::kVector) return V::of(decltype(x.v)(_mm512_scalef_pd(__m512d(x.v), _mm512_cvtepi64_pd(__m512i(n)))));
#endif
  return x * pow2<V>(n >> 1) * pow2<V>(n - (n >> 1));
}
template <class V> BARACUDA_HD V exp(V x) {
  typename V::Bits n;
  const V r = exp_reduce(x, n);
  return scale(1 + expm1_reduced(r), n);
}
// exp(d) for d <= 0, times 2^24 (2^54 for f64): a normal number for every d, however small, with one multiplication less than
// exp takes. kDown undoes it, when a sum has divided or is done. f32: 2^(d log2 e) with a polynomial of relative error 2^-23.3,
// exact at 0, 1.4 ulp and 1.3e-8 |d| in all; the rounding of d = x - max is larger.
template <class V> inline constexpr int kUp = V::kF32 ? 24 : 54;
template <class V> inline constexpr double kDown = V::kF32 ? 0x1p-24 : 0x1p-54;
template <class V> BARACUDA_HD V exp_up(V d) {
  const V c = larger(V(V::kF32 ? -104 : -746), d);  // exp of these is below half of the least subnormal; NaN stays
  typename V::Bits n;
  if constexpr (V::kF32) {
    const V log2e = 0x1.715476p0, t = fma(c, log2e, V(kMagic<V>)), k = t - kMagic<V>, f = fma(c, log2e, -k);
    n = bits(t) - bits(V(kMagic<V>));
    return poly(f, 1, 0x1.62e42ap-1, 0x1.ebf9bap-3, 0x1.c6b69cp-5, 0x1.3ceb06p-7, 0x1.5bfc72p-10) * pow2<V>(n + kUp<V>);
  } else {
    const V r = exp_reduce_in_range(c, n);
    return (1 + expm1_reduced(r)) * pow2<V>(n + kUp<V>);
  }
}
// expm1 in two words: 2^n (1 + p) - 1 with p = expm1(r), what p and the sum round away kept. -40 <= x; n, p: for 2^n (1 + p).
template <class V> BARACUDA_HD TwoWords<V> expm1_parts(V x, typename V::Bits& n, V& p) {
  const TwoWords<V> r = reduce_ln2(x, n);
  const V z = r.hi * r.hi, q = expm1_poly(r.hi), s = pow2<V>(n), base = s - 1;
  p = fma(z, q, r.hi);
  const V hi = fma(s, p, base);
  return {hi, fma(s, fma(z, q, r.hi - p) + r.lo, fma(s, p, base - hi))};
}
template <class V> BARACUDA_HD V expm1(V x) {
  typename V::Bits n;
  V p;
  const TwoWords<V> e = expm1_parts(clamp(x, -40, V::kF32 ? 89 : 710), n, p);  // -1 + exp(-40) is -1, to both precisions
  const V far = scale(1 + p, n);  // from 2^29 (2^57) on, - 1 is below half an ulp
  return where(x == 0, x, where(x < (V::kF32 ? 20 : 40), e.hi + e.lo, far));
}
template <class V> BARACUDA_HD V exp2(V x) {  // x = n + r; r ln2 in two words; exact for integers
  const V c = clamp(x, V::kF32 ? -151 : -1076, V::kF32 ? 129 : 1025), t = c + kMagic<V>, r = c - (t - kMagic<V>);
  const V ln2 = V::kF32 ? 0x1.62e43p-1 : 0x1.62e42fefa39efp-1, ln2_low = V::kF32 ? -0x1.05c61p-29 : 0x1.abc9e3b39803fp-56;
  const V y = r * ln2, y_low = fma(r, ln2_low, fma(r, ln2, -y));
  return scale(1 + (expm1_reduced(y) + y_low), bits(t) - bits(V(kMagic<V>)));
}
template <class V> BARACUDA_HD TwoWords<V> two_sum(V a, V b) {  // Knuth: the sum and exactly what it rounds away
  const V s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
template <class V> BARACUDA_HD TwoWords<V> tanh_parts(V a) {  // t / (t + 2) with t = expm1(2 a), a >= 0
  typename V::Bits n;
  V p;
  const TwoWords<V> t = expm1_parts(clamp(2 * a, 0, 40), n, p), d = two_sum(t.hi, V(2));
  const V inverse = 1 / d.hi, q = t.hi * inverse;
  return {q, (fma(-q, d.hi, t.hi) + (t.lo - q * (d.lo + t.lo))) * inverse};
}
template <class V> BARACUDA_HD V tanh(V x) {
  const TwoWords<V> y = tanh_parts(abs(x));
  return copysign(y.hi + y.lo, x);
}
template <class V> BARACUDA_HD V inverse(V x) { return 1 / x; }
template <class V> BARACUDA_HD V sigmoid(V x) {
  const V t = exp(-abs(x));
  return where(x < 0, t, V(1)) / (1 + t);
}
template <class V> BARACUDA_HD typename V::Bits exponent(V x) {  // x = m 2^e, m in [sqrt(1/2), sqrt(2))
  return (bits(x) - bits(V(0x1.6a09e667f3bcdp-1))) >> V::kMantissa;
}
template <class V> BARACUDA_HD V normalize(V x, V& e) {  // x > 0 as m 2^e, subnormals too
  const auto tiny = x < (V::kF32 ? 0x1p-126 : 0x1p-1022);
  const V y = where(tiny, x * (V::kF32 ? 0x1p23 : 0x1p52), x);
  e = from_int<V>(exponent(y)) - where(tiny, V(V::kMantissa), V(0));
  return V::from_bits(bits(y) - (exponent(y) << V::kMantissa));
}
template <class V> BARACUDA_HD V log_poly(V f) {  // (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f in [sqrt(1/2), sqrt(2))
  if constexpr (V::kF32)
    return poly(f, 0x1.555554p-2, -0x1.ffffe6p-3, 0x1.999d2ap-3, -0x1.556288p-3, 0x1.23de3ep-3, -0x1.fbbf2ap-4, 0x1.dc7628p-4,
             -0x1.ddb316p-4, 0x1.2cb38cp-4);
  else
    return poly(f, 0x1.5555555555556p-2, -0x1.0000000000001p-2, 0x1.9999999998fefp-3, -0x1.5555555554bbap-3, 0x1.2492492539e7bp-3,
             -0x1.00000000e304ap-3, 0x1.c71c713d1659fp-4, -0x1.9999989e8c453p-4, 0x1.745d3370238ffp-4, -0x1.555596ec38ffcp-4,
             0x1.3b108920e0441p-4, -0x1.2489189b7a287p-4, 0x1.1143600f4091bp-4, -0x1.00ba3f25ac67ap-4, 0x1.dec9dabd4e227p-5,
             -0x1.b6a47371d5fc1p-5, 0x1.b385a94779299p-5, -0x1.f69ea53ff96d4p-5, 0x1.dd7f38e76a918p-5, -0x1.b190bed64bdep-6);
}
template <class V> BARACUDA_HD V log_reduced(V f, V e) {  // e ln2 + log(1 + f)
  const V z = f * f, low = fma(f * z, log_poly(f), e * V(V::kF32 ? -0x1.05c61p-29 : 0x1.abc9e3b39803fp-56));
  return fma(e, V(V::kF32 ? 0x1.62e43p-1 : 0x1.62e42fefa39efp-1), fma(z, V(-0.5), low) + f);
}
template <class V> BARACUDA_HD V log(V x) {
  V e;
  const V m = normalize(x, e), r = where(x < kInf, log_reduced(m - 1, e), x);  // +inf and NaN stay
  return where(x > 0, r, where(x == 0, V(-kInf), where(x < 0, V(kNaN), r)));
}
// log to another base: e c + m-part, in two words where it matters; exact for powers of the base 2.
template <class V> BARACUDA_HD V log_based(V x, double c, double c_low, double per_octave, double per_octave_low) {
  V e;
  const V f = normalize(x, e) - 1, z = f * f;
  const V q = fma(z, V(-0.5), f * z * log_poly(f)), hi = f + q, lo = (f - hi) + q;  // |q| < |f|
  const V t = hi * c, t_low = fma(hi, V(c), -t) + fma(lo, V(c), hi * c_low);
  const V b = e * per_octave, b_low = fma(e, V(per_octave), -b) + e * per_octave_low;
  const V s = b + t, s_low = (b - s) + t;  // b is 0 or larger than t
  const V r = where(x < kInf, s + (s_low + (t_low + b_low)), x);
  return where(x > 0, r, where(x == 0, V(-kInf), where(x < 0, V(kNaN), r)));
}
template <class V> BARACUDA_HD V log2(V x) {
  if constexpr (V::kF32) return log_based(x, 0x1.715476p0, 0x1.4ae0cp-26, 1, 0);
  else return log_based(x, 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56, 1, 0);
}
template <class V> BARACUDA_HD V log10(V x) {
  if constexpr (V::kF32) return log_based(x, 0x1.bcb7b2p-2, -0x1.5b235ep-27, 0x1.344136p-2, -0x1.ec10cp-27);
  else return log_based(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59);
}
template <class V> BARACUDA_HD V log1p(V x) {
  const auto big = x > (V::kF32 ? 0x1p100 : 0x1p200);  // 1 + x == x: scale down, so that 2^-e stays normal
  const V y = where(big, x * 0x1p-64, x);
  const auto e = exponent(1 + y);
  const V s = pow2<V>(-e), r = where(x < kInf, log_reduced(fma(y, s, s - 1), from_int<V>(e) + where(big, V(64), V(0))), x);
  return where(x == 0, x, where(x > -1, r, where(x == -1, V(-kInf), where(x < -1, V(kNaN), r))));
}
template <class V> BARACUDA_HD V erf_near(V x) {  // x + x P(x^2), |x| <= 1
  const V z = x * x;
  if constexpr (V::kF32)
    return fma(x, poly(z, 0x1.06eba6p-3, -0x1.8126f8p-2, 0x1.ce1df4p-4, -0x1.b6c27ep-6, 0x1.4890acp-8, -0x1.3fc37ap-11), x);
  else
    return fma(x, poly(z, 0x1.06eba8214db68p-3, -0x1.812746b0379b5p-2, 0x1.ce2f21a040b02p-4, -0x1.b82ce311f7069p-6, 0x1.565bccf908894p-8,
             -0x1.c02db03ff6859p-11, 0x1.f9a2bb4bba0e5p-14, -0x1.f4ca5bb28570cp-17, 0x1.b9807f2338cccp-20, -0x1.5c0bc31310e51p-23,
             0x1.d73d744d725f6p-27, -0x1.ac1a419750f6dp-31), x);
}
template <class V> BARACUDA_HD V erf(V x) {  // 1 - exp(-x - x Q(x)) above the split
  const V a = clamp(abs(x), 0, V::kF32 ? 4 : 6);
  V q;
  if constexpr (V::kF32) {
    q = poly(a, 0x1.0774eap-3, 0x1.453682p-1, 0x1.b2f1c8p-4, -0x1.84a1aap-6, 0x1.dadcf2p-9, -0x1.4d826cp-12, 0x1.6926b4p-17);
  } else {
    q = poly(a, 0x1.06eba039fbea5p-3, 0x1.45f317cc3cb15p-1, 0x1.a4f2e9c93dfecp-4, -0x1.3956c2c7a2a4bp-6, -0x1.bdb90c5f57e7bp-13,
             0x1.bbe1bd24645d8p-10, -0x1.2da3b012c4ad7p-11, -0x1.e27807a8b75cep-22, 0x1.8f26982d2bba6p-14, -0x1.d4c8d0f7da07cp-15,
             0x1.5473686458eb6p-16, -0x1.68387c82095f9p-18, 0x1.2052b734e30eap-20, -0x1.5c9356366712dp-23, 0x1.35eeebf1dec6bp-26,
             -0x1.7f4e684ce948dp-30, 0x1.26bc1a9d0aaeep-34, -0x1.a872e1b7d3fc4p-40);
  }
  return where(a < (V::kF32 ? 0.9 : 1.0), erf_near(x), copysign(1 - exp(-fma(q, a, a)), x));
}
template <class V> BARACUDA_HD V round_positive(V a) {
  const double whole = V::kF32 ? 0x1p23 : 0x1p52;  // from here on every value is an integer
  return where(a < whole, (a + whole) - whole, a);
}
template <class V> BARACUDA_HD V pow(V x, V y) {  // exp(y log|x|) with the logarithm in two words, then the sign
  typename V::Bits n;
  V e, w;
  const V a = abs(x), f = normalize(a, e) - 1;
  // s = f / (2 + f) and z = s^2 as high + low; log(1 + f) = 2 s + s z (2/3 + z W(z))
  const V d = f + 2, d_low = f - (d - 2), inverse = 1 / d;
  const V s = f * inverse, s_low = fma(-s, d_low, fma(-s, d, f)) * inverse;
  const V z = s * s, z_low = fma(s, s, -z) + 2 * s * s_low;
  if constexpr (V::kF32) w = poly(z, 0x1.99999ap-2, 0x1.24921p-2, 0x1.c7040ap-3, 0x1.827f72p-3);
  else w = poly(z, 0x1.999999999999ap-2, 0x1.24924924922fep-2, 0x1.c71c71c74c77ap-3, 0x1.745d173ce41bap-3, 0x1.3b13a9cbb9295p-3,
                0x1.111551154f6e8p-3, 0x1.e01971bc0ada5p-4, 0x1.daa559ed7685cp-4);
  const V c = V::kF32 ? 0x1.555556p-1 : 0x1.5555555555555p-1, c_low = V::kF32 ? -0x1.555556p-26 : 0x1.5555555555555p-55;
  const V u = fma(z, w, c), u_low = fma(z, w, c - u) + c_low;
  const V g = s * z, g_low = fma(s, z, -g) + fma(s, z_low, s_low * z);
  const V t = g * u, t_low = fma(g, u, -t) + fma(g, u_low, g_low * u);
  const V b = e * V(V::kF32 ? 0x1.62e4p-1 : 0x1.62e42fefa4p-1), b_low = e * V(V::kF32 ? 0x1.7f7d1cp-20 : -0x1.8432a1b0e2634p-43);
  const V h = b + 2 * s, i = h + t, low = ((h - i) + t) + (((b - h) + 2 * s) + (2 * s_low + (t_low + b_low)));
  const V l = i + low, l_low = (i - l) + low, p = y * l, p_low = fma(y, l, -p) + y * l_low;
  const V q = exp_reduce(p, n);
  V r = scale(1 + expm1_reduced(q + where(abs(p) < 1000, p_low, V(0))), n);
  // the special values of IEEE pow
  const V ay = abs(y), half = 0.5 * ay;
  const auto whole = round_positive(ay) == ay, odd = round_positive(half) != half;
  r = where(a == 0, where(y > 0, V(0), V(kInf)), where(a == kInf, where(y > 0, V(kInf), V(0)), r));
  r = where(a == 1, V(1), where(ay == kInf, where((a > 1) == (y > 0), V(kInf), V(0)), r));
  r = where(x < 0, where(whole, r, where(a == kInf, r, V(kNaN))), r);
  r = where(whole, where(odd, copysign(r, x), r), r);
  r = where(x == x, where(y == y, r, y), x);
  return where(y == 0, V(1), where(x == 1, V(1), r));
}
// ---- sin and cos: x = n pi/2 + r + low, |r| <= pi/4, low below an ulp of r
template <class V> struct Quarter { V r, low; typename V::Bits n; };
template <class V> inline constexpr double kSinLimit = V::kF32 ? 0x1p17 : 0x1p30;

struct QuarterOf { double r, low; int n; };
BARACUDA_HD QuarterOf reduce_huge(double x) {  // Payne and Hanek (1983): finite |x| >= 2^11; 190 bits behind the point
  constexpr uint64_t two_over_pi[] = {
      0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
      0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  using Wide = unsigned __int128;
  const uint64_t u = __builtin_bit_cast(uint64_t, x), m = (u & 0xfffffffffffff) | 0x10000000000000;
  // x = m 2^e. Bits of 2/pi above 2^(2-e) only add multiples of 4 to x 2/pi: begin there (64 for the leading zero word).
  const int from = int(u >> 52 & 0x7ff) - 1075 - 2 + 64, word = from >> 6, shift = from & 63;
  uint64_t w[3];
  for (int i = 0; i < 3; ++i)
    w[i] = shift ? two_over_pi[word + i] << shift | two_over_pi[word + i + 1] >> (64 - shift) : two_over_pi[word + i];
  const Wide p2 = Wide(m) * w[2], p1 = Wide(m) * w[1] + uint64_t(p2 >> 64);
  uint64_t a = m * w[0] + uint64_t(p1 >> 64), b = uint64_t(p1), c = uint64_t(p2);  // x 2/pi mod 4, as 2 + 190 bits
  const uint64_t n = (a + (uint64_t(1) << 61)) >> 62;
  a -= n << 62;
  bool negative = int64_t(a) < 0;
  if (negative) a = ~a, b = ~b, c = ~c;  // off by 2^-190
  int e = 64 - 126;
  for (; !(a >> 63); --e) a = a << 1 | b >> 63, b = b << 1 | c >> 63, c <<= 1;
  const double scale = __builtin_bit_cast(double, uint64_t(e + 1023) << 52);
  const double hi = double(a & ~uint64_t(0x7ff)) * scale, lo = double(int64_t((a & 0x7ff) << 52 | b >> 12)) * (scale * 0x1p-52);
  const double p = 0x1.921fb54442d18p0, p_low = 0x1.1a62633145c07p-54, r = hi * p;
  const double low = __builtin_fma(hi, p, -r) + __builtin_fma(hi, p_low, lo * p);
  negative ^= x < 0;
  return {negative ? -r : r, negative ? -low : low, int(x < 0 ? 0 - n : n)};
}
template <class V> BARACUDA_HD Quarter<V> reduce_quarter(V x) {
  using T = typename V::Scalar;
  const V t = fma(x, V(0x1.45f306dc9c883p-1), V(kMagic<V>)), k = t - kMagic<V>;
  const V mid = V::kF32 ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54, low = V::kF32 ? -0x1.ee59dap-50 : -0x1.f1976b7ed8fbcp-110;
  const V a = fma(k, V(V::kF32 ? -0x1.921fb6p0 : -0x1.921fb54442d18p0), x);  // exact: a multiple of the constant's last bit
  const V p = k * mid, p_low = fma(k, mid, -p), s = a - p, u = s - a, s_low = (a - (s - u)) - (p + u);  // a - p = s + s_low
  const V rest = fma(k, -low, s_low - p_low), r = s + rest;
  Quarter<V> q{r, (s - r) + rest, bits(t) - bits(V(kMagic<V>))};
  const V m = abs(x);
  if (any(where(m > kSinLimit<V>, m, V(kInf)) < kInf)) {
    for (int i = 0; i < V::kWidth; ++i) {
      if (!(m.lane(i) > T(kSinLimit<V>) && m.lane(i) < T(kInf))) continue;
      const QuarterOf h = reduce_huge(double(x.lane(i)));
      q.r.set_lane(i, T(h.r));
      q.low.set_lane(i, T((h.r - double(T(h.r))) + h.low));
      if constexpr (V::kWidth == 1) q.n = h.n;
      else q.n[i] = h.n;
    }
  }
  return q;
}
template <class V> struct SineCosine { V sine, cosine; };
template <class V> struct SineCosineParts { TwoWords<V> sine, cosine; };
template <class V> BARACUDA_HD SineCosineParts<V> sine_cosine_parts(Quarter<V> q) {  // of r + low
  const V z = q.r * q.r, h = 1 - 0.5 * z;
  V s, c;
  if constexpr (V::kF32) {
    s = poly(z, -0x1.555556p-3, 0x1.111198p-7, -0x1.a082acp-13, 0x1.873e66p-19);
    c = poly(z, 0x1.555554p-5, -0x1.6c1294p-10, 0x1.9bc0f4p-16);
  } else {
    s = poly(z, -0x1.5555555555555p-3, 0x1.1111111110c5dp-7, -0x1.a01a019e9677ap-13, 0x1.71de37a2f620cp-19,
             -0x1.ae60110e3571ep-26, 0x1.5e0bb46b46944p-33);
    c = poly(z, 0x1.5555555555555p-5, -0x1.6c16c16c168bbp-10, 0x1.a01a019f33e36p-16, -0x1.27e4f9fcca874p-22,
             0x1.1eeb512cf4093p-29, -0x1.906e975c67143p-37);
  }
  return {{q.r, fma(q.r * z, s, q.low * h)}, {h, ((1 - h) - 0.5 * z) + fma(z * z, c, -q.r * q.low)}};
}
template <class V> BARACUDA_HD SineCosine<V> sine_cosine(Quarter<V> q) {
  const SineCosineParts<V> p = sine_cosine_parts(q);
  return {p.sine.hi + p.sine.lo, p.cosine.hi + p.cosine.lo};
}
// sin(x + turn pi/2) of a reduced x
template <class V> BARACUDA_HD V sin_turned(Quarter<V> q, int turn) {
  const SineCosine<V> f = sine_cosine(q);
  const auto n = q.n + turn;
  const V y = where((n & 1) != 0, f.cosine, f.sine);
  return where((n & 2) != 0, -y, y);
}
template <class V> BARACUDA_HD V sin(V x) { return where(x == 0, x, sin_turned(reduce_quarter(x), 0)); }
template <class V> BARACUDA_HD V cos(V x) { return sin_turned(reduce_quarter(x), 1); }

}  // namespace baracuda
