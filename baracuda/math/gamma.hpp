#pragma once
// lgamma digamma trigamma for any Pack, by the rules of vmath.hpp (polynomials of Chebyshev's nodes, rounded one coefficient after
// the other). Above 3: Stirling's series as a polynomial in 1 / x^2. Below: a polynomial around 2 (3/2) and the recurrence. Negative
// arguments: reflection, whose two terms cancel beside the zeros, so that errors there are of the larger term.
// Largest error in ulp, f32 / f64: lgamma 1.5/1.4 (below -2 of 1 at least), digamma 2/2.3; trigamma serves gradients, a few.
#include "baracuda/math/hyperbolic.hpp"
#include "baracuda/math/trigonometric.hpp"

namespace baracuda::inline BARACUDA_ISA {

// lgamma(2 + d), |d| <= 1/2, in two words: d (1 - gamma + d P(d)).
template <class V> BARACUDA_HD TwoWords<V> lgamma_at_2(V d) {
  V p;
  if constexpr (V::kF32) p = poly(d, 0x1.4a34ccp-2, -0x1.13ep-4, 0x1.51332p-6, -0x1.e40adcp-8, 0x1.7a7316p-9, -0x1.3753c4p-10,
      0x1.134ab4p-11, -0x1.067152p-12, 0x1.50c914p-14);
  else p = poly(d, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557606p-4, 0x1.51322ac7d86e1p-6, -0x1.e404fc218f9c1p-8, 0x1.7add6ead959c6p-9,
      -0x1.38ac5c2be604ap-10, 0x1.0b36af82041b3p-11, -0x1.d3fd4c637dc04p-13, 0x1.a127bca738b32p-14, -0x1.78de6988ea184p-15,
      0x1.580aaf372eec4p-16, -0x1.3cb94bc6ca9acp-17, 0x1.25fe6107b9041p-18, -0x1.121a6d7b9889ep-19, 0x1.f2afc04e99ec1p-21,
      -0x1.d486f5dad8e22p-22, 0x1.225f94deadf4bp-22, -0x1.142c2c40f67fep-23);
  const double c = V::kF32 ? 0x1.b0ee6p-2 : 0x1.b0ee6072093cep-2, c_low = V::kF32 ? 0x1.c824f385b2e42p-28 : 0x1.6cb90701fbfabp-58;
  const V u = fma(d, p, V(c)), u_low = fma(d, p, c - u) + c_low, y = d * u;
  return {y, fma(d, u, -y) + d * u_low};
}
template <class V> BARACUDA_HD V stirling_poly(V u) {  // x (lgamma(x) - (x - 1/2)(log x - 1) - log(2 pi) / 2 + 1/2), u = 1 / x^2 <= 1/9
  if constexpr (V::kF32) return poly(u, 0x1.555556p-4, -0x1.6c18p-9, 0x1.9d969ep-11, -0x1.f2e738p-12);
  else return poly(u, 0x1.5555555555555p-4, -0x1.6c16c16c11051p-9, 0x1.a01a0179c21bap-11, -0x1.38136738c5486p-11, 0x1.b94890532d22ap-11,
      -0x1.f5a809588c89bp-10, 0x1.9addef53dc49p-8, -0x1.a977aeaae1e5ap-6, 0x1.ce3d2ba39fd3ep-4, -0x1.aac69fac23399p-2, 0x1.0cf9d45323706p0,
      -0x1.4855beb6fc1b7p0);
}
// lgamma(x) for x > -1/2.
template <class V> BARACUDA_HD TwoWords<V> lgamma_right(V x) {
  const auto first = x < 0.5, second = x < 1.5, third = x < 2.5, near = x < 3;
  const V d = where(first, x, where(second, x - 1, where(third, x - 2, x - 3)));  // exact
  // Gamma(x) = Gamma(2 + d) / (x (x + 1)), / x, 1, (x - 1)
  const V a = abs(x);
  const TwoWords<V> next = two_sum(V(1), x);
  const V product = a * next.hi, product_low = fma(a, next.hi, -product) + a * next.lo;
  const V factor = where(first, product, where(second, x, where(third, V(1), x - 1)));
  const TwoWords<V> l = log_parts(TwoWords<V>{where(near, factor, x), where(first, product_low, V(0))});
  const TwoWords<V> g = lgamma_at_2(d), sum = two_sum(g.hi, where(second, -l.hi, l.hi));
  // (x - 1/2)(log x - 1) + log(2 pi) / 2 - 1/2 + ...
  const double c = V::kF32 ? 0x1.acfe3ap-2 : 0x1.acfe390c97d69p-2, c_low = V::kF32 ? -0x1.e6d052p-27 : 0x1.3494bc9001442p-56;
  const V inverse = 1 / x, m = x - 0.5;
  const TwoWords<V> l1 = two_sum(l.hi, V(-1));
  const V p = m * l1.hi, p_low = fma(m, l1.hi, -p) + m * (l1.lo + l.lo);
  const TwoWords<V> s = two_sum(p, V(c));
  const V rest = (s.lo + p_low) + fma(inverse, stirling_poly(inverse * inverse), V(c_low));
  return {where(near, sum.hi, s.hi), where(near, sum.lo + (g.lo + where(second, -l.lo, l.lo)), rest)};
}
template <class V> BARACUDA_HD V lgamma(V x) {  // log |Gamma(x)|: inf at 0, -1, -2 ... and at -inf
  const V a = abs(x);
  const auto left = x < -0.5;
  const TwoWords<V> r = lgamma_right(where(left, a, x));
  V y = r.hi + r.lo;
  if (any(left)) {  // log pi - log(a |sin pi a|) - lgamma(a)
    const V s = abs(sinpi(a)), t = a * s;
    const TwoWords<V> l = log_parts(TwoWords<V>{t, fma(a, s, -t)}), u = two_sum(V(V::kF32 ? 0x1.250d04p0 : 0x1.250d048e7a1bdp0), -l.hi), w = two_sum(u.hi, -r.hi);
    const V reflected = w.hi + ((w.lo + u.lo) + (V(V::kF32 ? 0x1.1cf438p-25 : 0x1.7abf2ad8d5088p-57) - (l.lo + r.lo)));
    y = where(left, where(s == 0, V(kInf), reflected), y);
  }
  return where(x == 0, V(kInf), where(a > (V::kF32 ? 0x1.895f1ap121 : 0x1.754d9278b51a7p1014), V(kInf), y));
}

template <class V> BARACUDA_HD V digamma_poly(V d) {  // digamma(y) / (y - zero), d = y - 3/2, |d| <= 1/2
  if constexpr (V::kF32) return poly(d, 0x1.e6f0ccp-1, -0x1.b1cb68p-2, 0x1.eca134p-3, -0x1.2febcap-3, 0x1.851f46p-4, -0x1.fc5a2cp-5,
      0x1.4d6efcp-5, -0x1.a699f8p-6, 0x1.223d56p-6, -0x1.0c12b6p-6, 0x1.4850a2p-7);
  else return poly(d, 0x1.e6f0cbb873617p-1, -0x1.b1cb63005ee97p-2, 0x1.eca189b8e6b6p-3, -0x1.2feeeb98a7c0cp-3, 0x1.8512e59075768p-4,
      -0x1.fb442029de80bp-5, 0x1.4de9a9fe47d1ap-5, -0x1.b9f8b13160c11p-6, 0x1.2564772e56ffap-6, -0x1.8635604abdd7ep-7,
      0x1.03bfe663add42p-7, -0x1.5a070637cf2cp-8, 0x1.cd42923ff0042p-9, -0x1.33678a05002aap-9, 0x1.97e31f6b116fbp-10,
      -0x1.0ff4137bdc196p-10, 0x1.7c5706ff83459p-11, -0x1.fa57e6529f0fdp-12, 0x1.d4a8e11dcfdcap-13, -0x1.3b22890d48f92p-13,
      0x1.134d654940fe5p-12, -0x1.6d010dd458889p-13);
}
template <class V> BARACUDA_HD V digamma_far(V x) {  // x >= 3
  const V inverse = 1 / x, u = inverse * inverse;
  V g;  // (log x - 1 / (2 x) - digamma(x)) / u
  if constexpr (V::kF32) g = poly(u, 0x1.555556p-4, -0x1.1112bcp-7, 0x1.041b6p-8, -0x1.074a62p-8, 0x1.2ff0e8p-8);
  else g = poly(u, 0x1.5555555555555p-4, -0x1.111111110d198p-7, 0x1.041040f22d035p-8, -0x1.111101eaab2e5p-8, 0x1.f07579496a9a2p-8,
      -0x1.592514aaf22d6p-6, 0x1.506e5c2ca7249p-4, -0x1.9f94def97ab1fp-2, 0x1.1857afd133262p1, -0x1.5b10c12bd4b19p3, 0x1.4df62f434a10dp5,
      -0x1.a23fd53a5cb74p6, 0x1.efeee57cf205dp6);
  return log(x) - fma(u, g, 0.5 * inverse);
}
// digamma(x), or where `left` digamma(1 + x), x >= 0; without the sum 1 + x while it would be rounded.
template <class V, class M> BARACUDA_HD V digamma_right(V x, M left) {
  const V last = where(left, V(2), V(3));
  const auto below = x < 1, above = x >= last - 1;
  const V y = where(above, where(left, x, x - 1), x), d = y - where(below, V(0.5), V(1.5));
  // The zero 1.4616... in two words; below 1 that of digamma(1 + x).
  const double zero = V::kF32 ? 0x1.762d86p0 : 0x1.762d86356be3fp0, zero_low = V::kF32 ? 0x1.ab5f1fb70d4e4p-27 : 0x1.b86a722197829p-54;
  const V w = y - where(below, V(zero - 1), V(zero)), p = digamma_poly(d), v = w * p, v_low = fma(w, p, -v) - zero_low * p;
  // plus or minus 1 / y
  const V sign = where(below, where(left, V(0), V(-1)), where(above, V(1), V(0))), r = sign / y;
  const TwoWords<V> sum = two_sum(v, r);
  const V near = sum.hi + where(abs(r) < kInf, sum.lo + (v_low + fma(-r, y, sign) / y), V(0));
  return where(x < last, near, digamma_far(where(left, 1 + x, x)));
}
template <class V> BARACUDA_HD V digamma(V x) {  // -inf at 0, inf at -0; NaN at negative integers and -inf
  const auto left = x < 0;
  V y = digamma_right(where(left, -x, x), left);
  if (any(left)) {  // digamma(1 - x) - pi / tan(pi x)
    const Quarter<V> n = reduce_quarter_pi(x);
    const SineCosineParts<V> f = sine_cosine_parts(n);
    const auto odd = (n.n & 1) != 0;
    const V c = where(odd, -f.sine.hi, f.cosine.hi), c_low = where(odd, -f.sine.lo, f.cosine.lo);
    const V s = where(odd, f.cosine.hi, f.sine.hi), s_low = where(odd, f.cosine.lo, f.sine.lo), t = s + s_low;
    const V q = (c + c_low) / t, q_low = (fma(-q, s, c) + (c_low - q * s_low)) / t, pi = 2 * kHalfPi<V>, slope = q * pi;
    const TwoWords<V> sum = two_sum(y, -slope);
    const V rest = sum.lo - (fma(q, pi, -slope) + (q * (2 * kHalfPiLow<V>) + q_low * pi));
    y = where(left, where(t == 0, V(kNaN), sum.hi + where(abs(slope) < kInf, rest, V(0))), y);
  }
  return y;
}

template <class V> BARACUDA_HD V trigamma_right(V x) {  // x >= 0
  const auto below = x < 1, above = x >= 2;
  const V y = where(above, x - 1, x), d = y - where(below, V(0.5), V(1.5)), r = 1 / y, inverse = 1 / x, u = inverse * inverse;
  V p, h;  // trigamma(3/2 + d); (trigamma(x) - 1 / x - u / 2) x / u
  if constexpr (V::kF32) {
    p = poly(d, 0x1.de9e64p-1, -0x1.a85808p-1, 0x1.68baacp-1, -0x1.287868p-1, 0x1.da09f4p-2, -0x1.72c354p-2, 0x1.1ed7dcp-2, -0x1.b13c28p-3,
        0x1.24852p-3, -0x1.b5bdecp-4, 0x1.09c664p-3, -0x1.79e6f8p-4);
    h = poly(u, 0x1.555554p-3, -0x1.110c5ep-5, 0x1.83e328p-6, -0x1.eb601ap-6, 0x1.25aabp-5);
  } else {
    p = poly(d, 0x1.de9e64df22ef3p-1, -0x1.a85808a40abb7p-1, 0x1.68ba30a4208e4p-1, -0x1.287825428ca46p-1, 0x1.da2d963d06bb3p-2,
        -0x1.72d7487db0948p-2, 0x1.1cc1377a11d3ap-2, -0x1.aeb6f0c57d303p-3, 0x1.41a51c2be4be6p-3, -0x1.db4da354e7d6p-4,
        0x1.5c0839fa0c231p-4, -0x1.f9c31a55cc22ep-5, 0x1.6d165b25d621ap-5, -0x1.062fdb7313a28p-5, 0x1.765960c5929e6p-6,
        -0x1.0805812a111abp-6, 0x1.7747909641a43p-7, -0x1.1c38633dd7962p-7, 0x1.88651454c8398p-8, -0x1.4cd508dcd6714p-9,
        0x1.02a6d58f87ab7p-9, -0x1.0945eefde8ab9p-8, 0x1.5f130a0f2e3f2p-9);
    h = poly(u, 0x1.555555555554ep-3, -0x1.11111110f9a3ep-5, 0x1.86186124e3eddp-6, -0x1.1110e92a877d6p-5, 0x1.3644f243c7f85p-4,
        -0x1.029ef77f9e9a1p-2, 0x1.245601958fc58p0, -0x1.9413e34d328fdp2, 0x1.25d26fc7560bcp5, -0x1.7c92af01b0912p7, 0x1.77f7d51cf2086p9,
        -0x1.de3fa674d79bdp10, 0x1.1e4470e6d085ap11);
  }
  return where(x < 3, where(below, fma(r, r, p), where(above, fma(-r, r, p), p)), inverse + u * fma(inverse, h, V(0.5)));
}
template <class V> BARACUDA_HD V trigamma(V x) {  // the derivative of digamma
  const auto left = x < 0;
  V y = trigamma_right(where(left, 1 - x, x));
  if (any(left)) {  // (pi / sin(pi x))^2 - trigamma(1 - x)
    const V c = (2 * kHalfPi<V>) / sinpi(x);
    y = where(left, fma(c, c, -y), y);
  }
  return y;
}

}  // namespace baracuda
