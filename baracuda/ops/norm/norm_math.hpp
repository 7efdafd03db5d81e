#pragma once
// The formulas of LayerNorm, GroupNorm and BatchNorm, host and device.
#include "baracuda/math/pack.hpp"

namespace baracuda {

// Of a row: x - mean is (x - shift) - rest, the mean in two words.
struct Statistics { double shift, rest, rstd, variance = 0; };

inline namespace BARACUDA_ISA {

template <class V> BARACUDA_HD V normalized(V x, V shift, V rest, V scale) { return ((x - shift) - rest) * scale; }
template <class V> BARACUDA_HD V standardized(V x, V shift, V rest, V scale, V weight, V bias) { return fma(normalized(x, shift, rest, scale), weight, bias); }

// `count` elements: their mean, as a distance from a point that the parts of a row share, and the sum of squares around it. Joined by
// Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
struct Moments {
  double count, mean, squares;
  BARACUDA_HD friend Moments operator+(const Moments& a, const Moments& b) {
    const double n = a.count + b.count, d = b.mean - a.mean;
    return {n, a.mean + d * (b.count / n), a.squares + b.squares + d * d * (a.count * (b.count / n))};
  }
};
// Of m elements, from the sums of their distances from the point and of the squares of these.
BARACUDA_HD Moments moments_of(double distances, double squares, double m) {
  const double rest = distances / m;
  return {m, rest, squares - m * (rest * rest)};
}
// From the moments of all n elements, whose mean is counted from `point`; where the variance is in the range of A.
template <class A> BARACUDA_HD bool variance_in_range(double squares, double n, double eps) {
  constexpr bool kF64 = sizeof(A) == 8;
  const double high = kF64 ? 0x1p1000 : 0x1p120, low = (kF64 ? 0x1p-900 : 0x1p-90) * n, small_eps = kF64 ? 0x1p-800 : 0x1p-50;
  return squares < high && (squares > low || eps > small_eps);
}
template <class A> BARACUDA_HD Statistics statistics_of(const Moments& all, double point, double n, double eps) {
  const double shift = double(A(point + all.mean)), variance = all.squares > 0 ? all.squares / n : 0;
  return {shift, all.mean - (shift - point), 1 / __builtin_sqrt(variance + eps), variance};
}

// What the gradients of a row are made of, with h = (x - shift) scale: sums of e, e h and h, where e is dy or dy w.
struct GradientSums {
  double e, eh, h;
  BARACUDA_HD friend GradientSums operator+(const GradientSums& a, const GradientSums& b) { return {a.e + b.e, a.eh + b.eh, a.h + b.h}; }
};
// dx = rstd (g - mean(g) - xhat mean(g xhat)) for g = e w. rest: of the mean, whose first word alone h takes off.
struct GradientMeans { double rest, mean_g, minus_dot; };
BARACUDA_HD GradientMeans gradient_means(const GradientSums& g, int64_t n, double rstd) {
  const double rest_hat = g.h / double(n);
  return {rest_hat / rstd, g.e / double(n), (rest_hat * g.e - g.eh) / double(n)};
}
template <class V> BARACUDA_HD V input_gradient(V e, V w, V xhat, V mean_g, V minus_dot, V scale) {
  return fma(xhat, minus_dot, fma(e, w, -mean_g)) * scale;
}

}  // namespace BARACUDA_ISA
}  // namespace baracuda
