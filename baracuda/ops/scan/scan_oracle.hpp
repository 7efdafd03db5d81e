#pragma once
// What scans mean, in plain loops over doubles.
#include <cmath>
#include <vector>
#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/testing/tensor.hpp"

namespace baracuda::scan_oracle {

struct Result {
  std::vector<double> y, indices, magnitude;  // magnitude: what an element's rounding errors are measured by
};

// Positions of the lanes of a shape: element p of lane l is at start(l) + p * inner in row-major order.
struct Axis {
  int64_t n = 1, inner = 1, lanes = 1;
  Axis(const Shape& shape, int axis) {
    if (shape.rank == 0) return;
    if (axis < 0) axis += shape.rank;
    n = shape[axis], inner = shape.product(axis + 1, shape.rank), lanes = shape.product(0, axis) * inner;
  }
  int64_t start(int64_t lane) const { return lane / inner * n * inner + lane % inner; }
};
inline double log_add(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const double m = std::max(a, b);
  return std::isinf(m) ? m : m + std::log1p(std::exp(std::min(a, b) - m));
}
inline Result scan(const ScanDescriptor& d, const std::vector<double>& x, double least, double greatest) {
  Result r{x, x, x};
  const Axis axis(d.shape, d.axis);
  for (int64_t l = 0; l < axis.lanes; ++l) {
    double y = 0, index = -1, magnitude = 0;
    switch (d.kind) {
      case ScanKind::cumsum: break;
      case ScanKind::cumprod: y = 1; break;
      case ScanKind::cummax: y = least; break;
      case ScanKind::cummin: y = greatest; break;
      case ScanKind::logcumsumexp: y = -INFINITY; break;
    }
    for (int64_t k = 0; k < axis.n; ++k) {
      const int64_t p = d.reverse ? axis.n - 1 - k : k, at = axis.start(l) + p * axis.inner;
      const double e = x[size_t(at)];
      auto keep = [&] { r.y[size_t(at)] = y, r.indices[size_t(at)] = index, r.magnitude[size_t(at)] = magnitude; };
      if (d.exclusive) keep();
      switch (d.kind) {
        case ScanKind::cumsum: y += e, magnitude += std::fabs(e); break;
        case ScanKind::cumprod: y *= e, magnitude = std::fabs(y); break;
        case ScanKind::logcumsumexp: y = log_add(y, e), magnitude = 1 + std::fabs(y); break;
        default: {
          const bool better = d.kind == ScanKind::cummax ? e > y : e < y, same = e == y || (std::isnan(e) && std::isnan(y));
          if (index < 0 || better || (std::isnan(e) && !std::isnan(y)) || (same && d.ties == ScanTies::last)) y = e, index = double(p);
          magnitude = 0;
        }
      }
      if (!d.exclusive) keep();
    }
  }
  return r;
}

}  // namespace baracuda::scan_oracle
