#pragma once
// What the plans of the family share: checks, per-token inputs, denominators, the reduction over rows. Baseline code.
#include <cmath>
#include "baracuda/ops/loss/loss.hpp"
#include "baracuda/ops/loss/loss_cpu.hpp"

namespace baracuda {

struct LossOptions {
  int64_t tokens, classes;
  DType target_dtype, acc;  // acc: of losses, weights and gradients of losses
  Reduction reduction;
  int64_t ignore_index;
  double label_smoothing, z_loss, softcap;
  InvalidTarget invalid_target;
  MeanOver mean_over;
};
template <class D> LossOptions loss_options(const D& d) {
  return {d.tokens, d.classes, d.target_dtype, accumulator(d.dtype), d.reduction, d.ignore_index, d.label_smoothing,
          d.z_loss, d.softcap, d.invalid_target, d.mean_over};
}
Status validate_loss(std::string_view op, const LossOptions& o);
// Of loss, z_part and dloss.
inline Shape loss_shape(Reduction r, int64_t tokens) { return r == Reduction::none ? Shape{tokens} : Shape{}; }
// [rows, n] with a dense last axis.
Status expect_matrix(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, int64_t rows, int64_t n);
// The tensors that every cross entropy has; absent optional ones pass.
Status check_loss(std::string_view op, const LossOptions& o, const TensorView& target, const TensorView& weights, const TensorView& dloss);

// Offset in elements of the i-th element in row-major order.
inline int64_t element_offset(const TensorView& v, int64_t i) {
  if (v.shape.rank == 1) return i * v.strides[0];
  int64_t at = 0;
  for (int a = v.shape.rank - 1; a >= 0; --a) at += i % v.shape[a] * v.strides[a], i /= v.shape[a];
  return at;
}
// f32 or f64.
inline double read_acc(const TensorView& v, int64_t i) {
  const int64_t at = element_offset(v, i);
  return v.dtype == DType::f64 ? v.as<double>()[at] : double(v.as<float>()[at]);
}
inline void write_acc(const TensorView& v, int64_t i, double x) {
  const int64_t at = element_offset(v, i);
  if (v.dtype == DType::f64) v.as<double>()[at] = x;
  else v.as<float>()[at] = float(x);
}

// The targets and factors of the rows, and what mean divides by; counted once, at the start of a run.
class LossTokens {
 public:
  LossTokens(const LossOptions& o, const TensorView& target, const TensorView& weights, const TensorView& dloss, double scale);
  static constexpr int64_t kIgnored = -1, kInvalid = -2;
  // In [0, classes), kIgnored or kInvalid.
  int64_t target(int64_t row) const {
    const int64_t at = element_offset(target_, row);
    const int64_t t = o_.target_dtype == DType::i32 ? target_.as<int32_t>()[at] : target_.as<int64_t>()[at];
    if (t == o_.ignore_index) return kIgnored;
    if (t >= 0 && t < o_.classes) return t;
    return o_.invalid_target == InvalidTarget::zero ? kIgnored : kInvalid;
  }
  double weight(int64_t row) const { return weights_.absent() ? 1 : read_acc(weights_, row); }
  // The gradient that arrives at the row's loss, weight included.
  double gradient(int64_t row) const {
    const double g = dloss_.absent() ? 1 : read_acc(dloss_, o_.reduction == Reduction::none ? row : 0);
    return weight(row) * (g * scale_) * factor_;
  }
  int64_t kept() const { return kept_; }
  // Lists the rows that count, their number; the others' losses are 0, or NaN where the target is invalid.
  int64_t list(int64_t* rows, double* loss, double* z_part) const;
  // Writes `per_row` [tokens] as the loss asks: as it is, or its sum in row order times the factor of the reduction.
  void reduce(const double* per_row, const TensorView& out) const;

 private:
  LossOptions o_;
  TensorView target_, weights_, dloss_;
  double scale_, factor_ = 1;  // 1 / denominator; 0 for the mean of nothing
  int64_t kept_ = 0;
};

}  // namespace baracuda
