#include <cmath>
#include "baracuda/ops/loss/cross_entropy.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

// torch has the classes on axis 1 of [N, C, d1, ..]; ours reads rows of classes. The caller moves them.
struct Rows {
  int64_t n, classes, inner;
  explicit Rows(const Shape& s) : n(s.rank > 1 ? s[0] : 1), classes(s.rank > 1 ? s[1] : s[0]), inner(s.rank > 1 ? s.product(2, s.rank) : 1) {}
  int64_t tokens() const { return n * inner; }
  size_t place(int64_t token, int64_t c) const { return size_t((token / inner * classes + c) * inner + token % inner); }
};

Status cross_entropy(Replay& r, std::string_view) {
  const Held *x = r.input(), *target = r.tensor(0, "target"), *weight = r.tensor(1, "weight");
  if (is_floating(target->dtype())) return r.decline(kProbabilities);
  const double eps = r.value(6, "label_smoothing", 0.0);
  if (weight && eps != 0) return r.decline(kSmoothedWeights);
  const Rows rows(x->shape());
  CrossEntropyDescriptor d{.dtype = x->dtype(), .tokens = rows.tokens(), .classes = rows.classes, .target_dtype = target->dtype(),
                           .ignore_index = r.value<int64_t>(3, "ignore_index", -100), .label_smoothing = eps,
                           .mean_over = weight ? MeanOver::weights : MeanOver::tokens};
  BARACUDA_TRY(set_field(d, "reduction", r.value<std::string>(5, "reduction", "mean")));
  const bool one = d.reduction != Reduction::none;
  const DType acc = accumulator(d.dtype);
  const Values xv = x->values(), t = target->values();
  Tensor logits(d.dtype, {d.tokens, d.classes}), dlogits(d.dtype, {d.tokens, d.classes}), lse(acc, {d.tokens});
  for (int64_t i = 0; i < d.tokens; ++i)
    for (int64_t c = 0; c < d.classes; ++c) logits.set(i * d.classes + c, xv[rows.place(i, c)]);
  Tensor weights(acc, {d.tokens});
  for (int64_t i = 0; i < d.tokens; ++i)
    weights.set(i, !weight ? 1 : int64_t(t[size_t(i)]) == d.ignore_index ? 0 : weight->values().at(size_t(t[size_t(i)])));
  const TensorView w = weight ? weights.view() : TensorView{};
  Tensor loss(acc, one ? Shape{} : Shape{d.tokens});
  const TensorView targets = reshaped(*target, {d.tokens});
  BARACUDA_TRY(run_plan<CrossEntropy>(d, {.logits = logits, .target = targets, .weights = w, .loss = loss, .lse = lse}));
  r.output(0, loss);
  r.judge = {.ulps = 1, .terms = double(std::max(d.classes, d.tokens))};
  r.reference = [&r, x, rows, t, d, weight, one](const Inputs& in) {
    const Values& v = r.numbers(*x, in);
    Numbers n;
    double total = 0, size = 0, kept = 0;
    for (int64_t i = 0; i < d.tokens; ++i) {
      const int64_t c = int64_t(t[size_t(i)]);
      double most = -INFINITY, sum = 0, mean = 0, loss = 0;
      for (int64_t k = 0; k < d.classes; ++k) most = std::max(most, v[rows.place(i, k)]);
      for (int64_t k = 0; k < d.classes; ++k) sum += std::exp(v[rows.place(i, k)] - most), mean += v[rows.place(i, k)] / double(d.classes);
      const double lse = most + std::log(sum);
      if (c != d.ignore_index) {
        const double w = weight ? weight->values()[size_t(c)] : 1;
        loss = w * (lse - (1 - d.label_smoothing) * v[rows.place(i, c)] - d.label_smoothing * mean);
        size += w * (std::fabs(lse) + std::fabs(v[rows.place(i, c)]));
        kept += w, total += loss;
      }
      if (!one) n.y.push_back(loss), n.scale.push_back(std::fabs(lse) + std::fabs(mean));
    }
    const double over = d.reduction == Reduction::mean ? kept : 1;
    if (one) n.y = {total / over}, n.scale = {size / over};
    return n;
  };
  if (!r.has_gradients()) return {};
  Tensor dloss(acc, loss.shape(), r.dy().values());
  BARACUDA_TRY(run_plan<CrossEntropyBackward>(d, {.logits = logits, .target = targets, .weights = w, .lse = lse, .dloss = dloss, .dlogits = dlogits}));
  Values dx(xv.size()), scale(xv.size());
  double kept = 0;
  for (int64_t i = 0; i < d.tokens; ++i) kept += int64_t(t[size_t(i)]) == d.ignore_index ? 0 : weights.at(i);
  for (int64_t i = 0; i < d.tokens; ++i)
    for (int64_t c = 0; c < d.classes; ++c) {
      dx[rows.place(i, c)] = dlogits.at(i * d.classes + c);
      // softmax - onehot is a difference, and the softmax has the error of its exponent.
      const double g = std::fabs(dloss.at(one ? 0 : i)) * weights.at(i) / (d.reduction == Reduction::mean ? kept : 1);
      const double logit = xv[rows.place(i, c)];
      scale[rows.place(i, c)] = g * (std::exp(logit - lse.at(i)) * (1 + std::fabs(logit) + std::fabs(lse.at(i))) + (c == int64_t(t[size_t(i)])));
    }
  EXPECT_TRUE(dlogits.guards_intact());
  r.gradient(*x, dx);
  r.condition(*x, scale);
  return {};
}

}  // namespace

Family loss_family() {
  static const Entry entries[] = {{"nn.functional.cross_entropy", cross_entropy}};
  static const Declined declined[] = {{"nn.functional.cross_entropy", {1, 3, 5, 7, 9}, kProbabilities}};
  return {.adapters = entries, .declined = declined};
}

}  // namespace baracuda::golden
