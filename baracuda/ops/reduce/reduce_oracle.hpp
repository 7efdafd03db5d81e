#pragma once
// Reductions and their gradients by the definition, for the tests: in double, sums and products in long double, so that long rows
// of f64 are judged too.
#include <algorithm>
#include <cmath>
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/testing/tolerance.hpp"

namespace baracuda::testing {

// The elements of each row, by their row-major number in x.
inline std::vector<std::vector<int64_t>> oracle_rows(const Shape& shape, const Dims& axes) {
  bool reduced[kMaxRank] = {};
  for (int i = 0; i < shape.rank; ++i) reduced[i] = axes.rank == 0;
  for (int i = 0; i < axes.rank; ++i) reduced[axes[i] < 0 ? axes[i] + shape.rank : axes[i]] = true;
  int64_t outputs = 1;
  for (int i = 0; i < shape.rank; ++i) outputs *= reduced[i] ? 1 : shape[i];
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(outputs));
  for (int64_t e = 0; e < shape.numel(); ++e) {
    int64_t rest = e, o = 0, step = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
      const int64_t at = rest % shape[i];
      rest /= shape[i];
      if (!reduced[i]) o += at * step, step *= shape[i];
    }
    rows[size_t(o)].push_back(e);
  }
  return rows;
}
inline Shape oracle_shape(const Shape& shape, const Dims& axes, bool keepdim) {
  Shape s;
  for (int i = 0; i < shape.rank; ++i) {
    bool reduced = axes.rank == 0;
    for (int k = 0; k < axes.rank; ++k) reduced = reduced || axes[k] == i || axes[k] + shape.rank == i;
    if (!reduced) s.push_back(shape[i]);
    else if (keepdim) s.push_back(1);
  }
  return s;
}

struct Reduced { double y, mean, scale; };  // scale: the magnitude of what was added
inline Reduced oracle_row(const ReduceDescriptor& d, const std::vector<double>& x) {
  const double n = double(x.size());
  double magnitude = 0, largest = -INFINITY, smallest = INFINITY, squares = 0, count = 0;
  long double sum = 0, product = 1;
  bool nan = false;
  double numbers = 0, magnitudes = 0, most = 0, least = INFINITY;
  long double number_sum = 0, powers = 0;
  for (double v : x) {
    if (!std::isnan(v)) ++numbers, number_sum += v, magnitudes += std::fabs(v);
    most = std::max(most, std::fabs(v)), least = std::min(least, std::fabs(v)), powers += std::pow((long double)std::fabs(v), (long double)d.p);
    sum += v, magnitude += std::fabs(v), largest = std::max(largest, v), smallest = std::min(smallest, v), product *= v;
    nan = nan || std::isnan(v), count += v != 0;
  }
  const double mean = double(sum / n);
  switch (d.kind) {
    case ReduceKind::sum: return {double(sum), 0, magnitude};
    case ReduceKind::mean: return {mean, 0, magnitude / n};
    case ReduceKind::max: return {nan ? NAN : largest, 0, 0};
    case ReduceKind::min: return {nan ? NAN : smallest, 0, 0};
    case ReduceKind::prod: return {double(product), 0, std::fabs(double(product))};
    case ReduceKind::norm2:
      for (double v : x) squares = std::hypot(squares, v);
      return {squares, 0, squares};
    case ReduceKind::logsumexp: {
      if (nan || std::isinf(largest)) return {nan ? NAN : largest, 0, 0};
      for (double v : x) squares += std::exp(v - largest);
      return {largest + std::log(squares), 0, std::fabs(largest) + std::log(squares)};
    }
    case ReduceKind::var: case ReduceKind::std: {
      long double spread = 0;
      for (double v : x) spread += (v - sum / n) * (v - sum / n);
      const double free = n - d.correction, var = free > 0 ? double(spread / free) : NAN;
      const double y = d.kind == ReduceKind::var ? var : std::sqrt(std::max(var, 0.0) + (var - var));
      return {y, mean, std::fabs(y)};
    }
    case ReduceKind::any: return {double(count > 0), 0, 0};
    case ReduceKind::all: return {double(count == n), 0, 0};
    case ReduceKind::count_nonzero: case ReduceKind::norm0: return {count, 0, 0};
    case ReduceKind::norm1: return {nan ? NAN : magnitudes, 0, magnitude};
    case ReduceKind::norm_inf: return {nan ? NAN : most, 0, 0};
    case ReduceKind::norm_neg_inf: return {nan ? NAN : least, 0, 0};
    case ReduceKind::norm_p: {
      const double y = std::isinf(d.p) ? d.p > 0 ? most : least : d.p == 0 ? count : double(std::pow(powers, 1 / (long double)d.p));
      return {nan ? NAN : y, 0, y};
    }
    case ReduceKind::nansum: return {double(number_sum), 0, magnitudes};
    case ReduceKind::nanmean: return {double(number_sum / numbers), 0, magnitudes / numbers};
  }
  return {};
}
// The gradient of a row from the y that the backward is given; scale: of each element.
inline void oracle_gradient(const ReduceDescriptor& d, const std::vector<double>& x, double dy, double y, std::vector<double>& dx, std::vector<double>& scale) {
  const double n = double(x.size()), free = n - d.correction;
  const Reduced average = oracle_row({.kind = ReduceKind::mean}, x);
  const double mean = average.y;
  const bool infinite = d.kind == ReduceKind::logsumexp && std::isinf(y);
  const bool magnitude = d.kind == ReduceKind::norm_inf || d.kind == ReduceKind::norm_neg_inf;
  const auto hit = [&](double v) { return (magnitude ? std::fabs(v) : v) == y || (std::isnan(v) && std::isnan(y)); };
  const auto sign = [](double v) { return double(v > 0) - double(v < 0); };
  double hits = 0, numbers = 0;
  for (double v : x) numbers += !std::isnan(v);
  size_t first = x.size(), last = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (hit(x[i])) ++hits, first = std::min(first, i), last = i;
  for (size_t i = 0; i < x.size(); ++i) {
    double g = dy, s = 0;
    switch (d.kind) {
      case ReduceKind::mean: g = dy / n; break;
      case ReduceKind::max: case ReduceKind::min:
        g = d.ties == ReduceTies::split ? hit(x[i]) ? dy / hits : 0 : i == (d.ties == ReduceTies::first ? first : last) ? dy : 0;
        break;
      case ReduceKind::prod: {
        long double product = dy;
        for (size_t j = 0; j < x.size(); ++j) product *= j == i ? 1 : x[j];
        g = double(product);
        break;
      }
      case ReduceKind::norm0: g = 0; break;
      case ReduceKind::norm1: g = dy * sign(x[i]); break;
      case ReduceKind::norm_inf: case ReduceKind::norm_neg_inf: g = hit(x[i]) ? dy * sign(x[i]) / hits : 0; break;
      case ReduceKind::norm_p:
        g = y == 0 || x[i] == 0 ? 0 : dy * sign(x[i]) * std::pow(std::fabs(x[i]) / y, d.p - 1);
        s = std::fabs(g) * (1 + std::fabs((d.p - 1) * std::log(std::fabs(x[i]) / y)));
        break;
      case ReduceKind::nansum: g = std::isnan(x[i]) ? 0 : dy; break;
      case ReduceKind::nanmean: g = std::isnan(x[i]) ? 0 : dy / numbers; break;
      case ReduceKind::norm2: g = y == 0 ? 0 : dy * (x[i] / y); break;
      case ReduceKind::logsumexp:
        g = infinite ? y > 0 && x[i] == y ? dy / hits : 0 : dy * std::exp(x[i] - y);
        s = std::fabs(g) * (1 + std::fabs(x[i]) + std::fabs(y));
        break;
      case ReduceKind::var: g = free > 0 ? dy * 2 * (x[i] - mean) / free : NAN; break;
      case ReduceKind::std: g = !(free > 0) ? NAN : y == 0 ? 0 : dy * (x[i] - mean) / (free * y); break;
      default: break;
    }
    // The mean of both is a double: what that leaves of a small distance.
    if ((d.kind == ReduceKind::var || d.kind == ReduceKind::std) && free > 0) s = std::fabs(dy) * 2 / free / (d.kind == ReduceKind::std && y != 0 ? 2 * y : 1) * (std::fabs(x[i] - mean) + (d.dtype == DType::f64 ? 1 : 1e-9) * average.scale);
    dx.push_back(g), scale.push_back(std::isfinite(s) ? s : 0);
  }
}

}  // namespace baracuda::testing
