#pragma once
// The losses in double from their definition, for tests: plain loops, libm, no kernel code. `scale` vectors are the
// magnitudes that errors are judged against.
#include <cmath>
#include <vector>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda::testing {

struct LossCase {
  int64_t tokens, classes;
  std::vector<double> logits;           // before softcap
  std::vector<int64_t> target;
  std::vector<double> weights, dloss;   // empty: ones
  int reduction = 1;                    // none, mean, sum
  int64_t ignore_index = -100;
  double smoothing = 0, z = 0, softcap = 0;
  bool drop_invalid = false, mean_over_weights = false;
};
struct LossWant {
  std::vector<double> loss, z_part, lse, dlogits;
  std::vector<double> loss_scale, dlogits_scale;
};
inline LossWant loss_oracle(const LossCase& c) {
  LossWant w;
  w.dlogits.assign(size_t(c.tokens * c.classes), 0), w.dlogits_scale = w.dlogits;
  double denominator = 0;
  std::vector<int> state;  // 0 counted, 1 ignored, 2 invalid
  for (int64_t i = 0; i < c.tokens; ++i) {
    const int64_t t = c.target[size_t(i)];
    int s = t == c.ignore_index ? 1 : t < 0 || t >= c.classes ? 2 : 0;
    if (s == 2 && c.drop_invalid) s = 1;
    state.push_back(s);
    if (s != 1) denominator += c.mean_over_weights && !c.weights.empty() ? c.weights[size_t(i)] : 1;
  }
  const double factor = c.reduction == 1 ? (denominator == 0 ? 0 : 1 / denominator) : 1;
  double loss = 0, z_part = 0, loss_scale = 0;
  for (int64_t i = 0; i < c.tokens; ++i) {
    const double weight = c.weights.empty() ? 1 : c.weights[size_t(i)];
    double row = 0, row_z = 0, lse = 0, row_scale = 0;
    if (state[size_t(i)] == 2) row = row_z = lse = NAN;
    if (state[size_t(i)] == 0) {
      const int64_t t = c.target[size_t(i)];
      std::vector<double> x(c.logits.begin() + i * c.classes, c.logits.begin() + (i + 1) * c.classes), slope(x.size(), 1);
      if (c.softcap > 0)
        for (size_t j = 0; j < x.size(); ++j) {
          const double th = std::tanh(x[j] / c.softcap);
          x[j] = c.softcap * th, slope[j] = 1 - th * th;
        }
      double m = -INFINITY;
      for (double e : x) m = std::isnan(e) || e > m ? e : m;
      double sum = 0, mean = 0, size = 0;
      for (double e : x) sum += std::exp(e - m), mean += e / double(c.classes), size = std::max(size, std::isfinite(e) ? std::fabs(e) : 0);
      lse = m + std::log(sum);
      const double ce = c.smoothing == 0 ? lse - x[size_t(t)] : (1 - c.smoothing) * (lse - x[size_t(t)]) + c.smoothing * (lse - mean);
      row_z = weight * c.z * lse * lse;
      row = weight * ce + row_z;
      row_scale = std::fabs(weight) * (1 + size + c.z * (1 + size) * (1 + size));
      const double g = weight * factor * (c.dloss.empty() ? 1 : c.dloss[c.reduction == 0 ? size_t(i) : 0]);
      for (int64_t j = 0; j < c.classes; ++j) {
        const double p = std::exp(x[size_t(j)] - lse), hit = j == t ? 1 - c.smoothing : 0, even = c.smoothing / double(c.classes);
        const double chain = 1 + 2 * c.z * lse;
        w.dlogits[size_t(i * c.classes + j)] = g * (chain * p - even - hit) * slope[size_t(j)];
        w.dlogits_scale[size_t(i * c.classes + j)] = std::fabs(g) * ((1 + 2 * c.z * (1 + size)) * p * (2 + 2 * size) + even + hit);
      }
    }
    w.lse.push_back(lse);
    if (c.reduction == 0) w.loss.push_back(row), w.z_part.push_back(row_z), w.loss_scale.push_back(row_scale);
    else loss += row, z_part += row_z, loss_scale += row_scale;
  }
  if (c.reduction != 0) w.loss = {loss * factor}, w.z_part = {z_part * factor}, w.loss_scale = {loss_scale * factor};
  return w;
}

// Targets in [0, classes), about one in `every` of them ignored.
inline std::vector<int64_t> some_targets(int64_t tokens, int64_t classes, uint64_t seed, int every, int64_t ignore_index = -100) {
  Source source(seed);
  std::vector<int64_t> t;
  for (int64_t i = 0; i < tokens; ++i)
    t.push_back(every && source.next() % uint64_t(every) == 0 ? ignore_index : int64_t(source.next() % uint64_t(classes)));
  return t;
}
inline Tensor target_tensor(const std::vector<int64_t>& t, DType dtype = DType::i64) {
  Tensor out(dtype, {int64_t(t.size())});
  for (size_t i = 0; i < t.size(); ++i) out.set(int64_t(i), double(t[i]));
  return out;
}

}  // namespace baracuda::testing
