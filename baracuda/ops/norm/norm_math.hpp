#pragma once
// The formulas of LayerNorm, GroupNorm and BatchNorm, host and device. R: what sums are joined in, double on the CPU.
#include "baracuda/math/pack.hpp"

namespace baracuda {

// Of a row: x - mean is (x - shift) - rest, the mean in two words.
template <class R> struct StatisticsOf { R shift, rest, rstd, variance = 0; };
using Statistics = StatisticsOf<double>;

inline namespace BARACUDA_ISA {

// In f32 on a GPU within 2 ulp and within one: each thread of a team makes them for its row, as quickly as it reads 32 elements.
BARACUDA_HD double quotient(double a, double b) { return a / b; }
BARACUDA_HD double inverse_root(double x) { return 1 / __builtin_sqrt(x); }
#if defined(__CUDA_ARCH__)
BARACUDA_HD float quotient(float a, float b) { return __fdividef(a, b); }
BARACUDA_HD float inverse_root(float x) {
  const float r = rsqrtf(x), t = x * r, e = __builtin_fmaf(-t, r, 1.f) - __builtin_fmaf(x, r, -t) * r;
  return e == e ? __builtin_fmaf(0.5f * r, e, r) : r;  // 0, infinity, NaN
}
#else
BARACUDA_HD float quotient(float a, float b) { return a / b; }
BARACUDA_HD float inverse_root(float x) { return 1 / __builtin_sqrtf(x); }
#endif

template <class V> BARACUDA_HD V normalized(V x, V shift, V rest, V scale) { return ((x - shift) - rest) * scale; }
template <class V> BARACUDA_HD V standardized(V x, V shift, V rest, V scale, V weight, V bias) { return fma(normalized(x, shift, rest, scale), weight, bias); }

// `count` elements: their mean, as a distance from a point that the parts of a row share, and the sum of squares around it. Joined by
// Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
template <class R> struct MomentsOf {
  R count, mean, squares;
  BARACUDA_HD friend MomentsOf operator+(const MomentsOf& a, const MomentsOf& b) {
    const R n = a.count + b.count, d = b.mean - a.mean;
    return {n, a.mean + d * (b.count / n), a.squares + b.squares + d * d * (a.count * (b.count / n))};
  }
};
using Moments = MomentsOf<double>;
// Of m elements, from the sums of their distances from the point and of the squares of these.
template <class R = double> BARACUDA_HD MomentsOf<R> moments_of(std::type_identity_t<R> distances, std::type_identity_t<R> squares, std::type_identity_t<R> m) {
  const R rest = quotient(distances, m);
  return {m, rest, squares - m * (rest * rest)};
}
// From the moments of all n elements, whose mean is counted from `point`; where the variance is in the range of A.
template <class A, class R> BARACUDA_HD bool variance_in_range(R squares, R n, double eps) {
  constexpr bool kF64 = sizeof(A) == 8;
  const R high = R(kF64 ? 0x1p1000 : 0x1p120), low = R(kF64 ? 0x1p-900 : 0x1p-90) * n;
  const double small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  return squares < high && (squares > low || eps > small_eps);
}
template <class A, class R> BARACUDA_HD StatisticsOf<R> statistics_of(const MomentsOf<R>& all, std::type_identity_t<R> point, std::type_identity_t<R> n, double eps) {
  const R shift = R(A(point + all.mean)), variance = all.squares > 0 ? quotient(all.squares, n) : 0;
  return {shift, all.mean - (shift - point), inverse_root(variance + R(eps)), variance};
}

// What the gradients of a row are made of, with h = (x - shift) scale: sums of e, e h and h, where e is dy or dy w.
template <class R> struct GradientSumsOf {
  R e, eh, h;
  BARACUDA_HD friend GradientSumsOf operator+(const GradientSumsOf& a, const GradientSumsOf& b) { return {a.e + b.e, a.eh + b.eh, a.h + b.h}; }
};
using GradientSums = GradientSumsOf<double>;
// dx = rstd (g - mean(g) - xhat mean(g xhat)) for g = e w. rest: of the mean, whose first word alone h takes off.
template <class R> struct GradientMeansOf { R rest, mean_g, minus_dot; };
using GradientMeans = GradientMeansOf<double>;
template <class R = double> BARACUDA_HD GradientMeansOf<R> gradient_means(const GradientSumsOf<R>& g, int64_t n, std::type_identity_t<R> rstd) {
  const R rest_hat = quotient(g.h, R(n));
  return {quotient(rest_hat, rstd), quotient(g.e, R(n)), quotient(rest_hat * g.e - g.eh, R(n))};
}
template <class V> BARACUDA_HD V input_gradient(V e, V w, V xhat, V mean_g, V minus_dot, V scale) {
  return fma(xhat, minus_dot, fma(e, w, -mean_g)) * scale;
}

}  // namespace BARACUDA_ISA
}  // namespace baracuda
