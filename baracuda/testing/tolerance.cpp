#include "baracuda/testing/tolerance.hpp"

namespace baracuda::testing {

Comparison compare(const Tensor& got, const std::vector<double>& want, Tolerance tolerance, const std::vector<double>* scale) {
  Comparison c;
  if (int64_t(want.size()) != got.numel()) {
    c.wrong = 1;
    c.message = text("got ", got.numel(), " elements, want ", want.size());
    return c;
  }
  tolerance.dtype = got.dtype();
  int64_t at = -1;
  for (int64_t i = 0, n = got.numel(); i < n; ++i) {
    const double w = want[size_t(i)], g = got.at(i);
    bool ok;
    double ratio = 0;
    if (std::isnan(w) || std::isnan(g)) ok = std::isnan(w) && std::isnan(g);
    else if (std::isinf(w) || std::isinf(g)) ok = g == w || g == rounded(got.dtype(), w);
    else {
      Tolerance t = tolerance;
      if (scale) t.condition = std::max(t.condition, (*scale)[size_t(i)]);
      const double error = std::fabs(g - w), bound = t.bound(w);
      ok = error <= bound;
      ratio = bound > 0 ? error / bound : error > 0 ? INFINITY : 0;
      if (is_floating(got.dtype()) && std::fabs(w) > 0)
        c.worst_ulp = std::max(c.worst_ulp, error / (2 * unit_roundoff(got.dtype()) * std::fabs(w)));
    }
    if (!ok && c.first < 0) c.first = i;
    c.wrong += !ok;
    if (!ok && (at < 0 || ratio > c.worst)) at = i;
    c.worst = std::max(c.worst, ratio);
  }
  if (c.wrong)
    c.message = text(c.wrong, " of ", want.size(), " elements of ", got.shape(), " ", got.dtype(), " are wrong; the first is ", c.first, " (got ",
                     got.at(c.first), ", want ", want[size_t(c.first)], "), the worst ", at, " (got ", got.at(at), ", want ",
                     want[size_t(at)], ", ", c.worst, " times its bound)");
  return c;
}

}  // namespace baracuda::testing
