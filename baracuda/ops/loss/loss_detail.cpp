#include "baracuda/ops/loss/loss_detail.hpp"

namespace baracuda {

Status validate_loss(std::string_view op, const LossOptions& o) {
  if (o.tokens < 0) return invalid(op, text("tokens is ", o.tokens, ", it must not be negative"));
  if (o.classes < 1) return invalid(op, text("classes is ", o.classes, ", at least 1 is needed"));
  if (!Shape{o.tokens, o.classes}.valid()) return invalid(op, text("tokens ", o.tokens, " times classes ", o.classes, " exceeds 2^63 - 1"));
  if (o.target_dtype != DType::i64 && o.target_dtype != DType::i32)
    return invalid(op, text("target_dtype is ", o.target_dtype, ", expected i64 or i32"));
  if (!valid_enum(o.reduction)) return invalid(op, text("reduction ", int(o.reduction), " is not a reduction"));
  if (!valid_enum(o.invalid_target)) return invalid(op, text("invalid_target ", int(o.invalid_target), " is not one of nan, zero"));
  if (!valid_enum(o.mean_over)) return invalid(op, text("mean_over ", int(o.mean_over), " is not one of tokens, weights"));
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
    return invalid(op, text("label_smoothing is ", o.label_smoothing, ", it must lie in [0, 1]"));
  if (!(o.z_loss >= 0 && std::isfinite(o.z_loss))) return invalid(op, text("z_loss is ", o.z_loss, ", it must be finite and not negative"));
  if (!(o.softcap >= 0 && std::isfinite(o.softcap))) return invalid(op, text("softcap is ", o.softcap, ", it must be finite and not negative"));
  return {};
}

Status expect_matrix(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, int64_t rows, int64_t n) {
  BARACUDA_TRY(expect(op, arg, v, dtype, {rows, n}));
  if (rows > 0 && n > 1 && v.strides[1] != 1) return invalid(op, text(arg, " has stride ", v.strides[1], " along its last axis, it must be dense"));
  return {};
}

Status check_loss(std::string_view op, const LossOptions& o, const TensorView& target, const TensorView& weights, const TensorView& dloss) {
  BARACUDA_TRY(expect_elements(op, "target", target, o.target_dtype, {o.tokens}));
  if (!weights.absent()) BARACUDA_TRY(expect_elements(op, "weights", weights, o.acc, {o.tokens}));
  if (!dloss.absent()) BARACUDA_TRY(expect_elements(op, "dloss", dloss, o.acc, loss_shape(o.reduction, o.tokens)));
  return {};
}

LossTokens::LossTokens(const LossOptions& o, const TensorView& target, const TensorView& weights, const TensorView& dloss, double scale)
    : o_(o), target_(target), weights_(weights), dloss_(dloss), scale_(scale) {
  double denominator = 0;
  for (int64_t i = 0; i < o.tokens; ++i) {
    const int64_t t = this->target(i);
    if (t == kIgnored) continue;
    kept_ += t >= 0;
    denominator += o.mean_over == MeanOver::weights ? weight(i) : 1;
  }
  if (o.reduction == Reduction::mean) factor_ = denominator == 0 ? 0 : 1 / denominator;
}

int64_t LossTokens::list(int64_t* rows, double* loss, double* z_part) const {
  int64_t n = 0;
  for (int64_t i = 0; i < o_.tokens; ++i) {
    const int64_t t = target(i);
    if (t >= 0) rows[n++] = i;
    else loss[i] = z_part[i] = t == kInvalid ? NAN : 0;
  }
  return n;
}

void LossTokens::reduce(const double* per_row, const TensorView& out) const {
  if (out.absent()) return;
  if (o_.reduction == Reduction::none) {
    for (int64_t i = 0; i < o_.tokens; ++i) write_acc(out, i, per_row[i]);
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < o_.tokens; ++i) sum += per_row[i];
  write_acc(out, 0, sum * factor_);
}

}  // namespace baracuda
