#include <cmath>
#include "baracuda/ops/norm/batch_norm.hpp"
#include "baracuda/ops/norm/group_norm.hpp"
#include "baracuda/ops/norm/layer_norm.hpp"
#include "baracuda/ops/norm/norm.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

// torch normalises the last axes that normalized_shape names; ours sees them as one.
Status rms_norm(Replay& r, std::string_view) {
  const Held *x = r.input(), *weight = r.tensor(1, "weight");
  const Json& normalized = r.argument(0, "normalized_shape")->at("list");
  const int axes = int(normalized.size());
  if (axes == 0) return r.decline(kNoAxes);
  int64_t n = 1;
  for (const Json& e : normalized) n *= e.get<int64_t>();
  // torch's default is the epsilon of the type that it computes in.
  const double eps = r.value(2, "eps", x->dtype() == DType::f64 ? 0x1p-52 : 0x1p-23);
  if (eps < 0) {
    const Status refused = RmsNorm::validate({.dtype = x->dtype(), .shape = {1, n}, .eps = eps});
    EXPECT_EQ(refused.code(), Code::invalid_problem) << "a negative eps is not refused";
    return r.decline(kNegativeEps);
  }
  const RmsNormDescriptor d{.dtype = x->dtype(), .shape = with(without_last(x->shape(), axes), {n}), .eps = eps,
                            .weight = weight ? NormWeight::plain : NormWeight::none};
  const TensorView x_rows = reshaped(*x, with(without_last(x->shape(), axes), {x->shape().product(x->shape().rank - axes, x->shape().rank)}));
  const TensorView w = weight ? reshaped(*weight, {weight->shape().numel()}) : TensorView{};
  Tensor y(d.dtype, d.shape), rstd(accumulator(d.dtype), without_last(d.shape, 1));
  BARACUDA_TRY(run_plan<RmsNorm>(d, {.x = x_rows, .weight = w, .y = y, .rstd = rstd}));
  r.output(0, y);
  const int64_t rows = d.shape.rows();
  r.judge = {.ulps = 1, .terms = double(std::max(n, rows))};
  r.reference = [&r, x, weight, n, rows, eps](const Inputs& in) {
    const Values& v = r.numbers(*x, in);
    Numbers out;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += v[size_t(i * n + j)] * v[size_t(i * n + j)];
      for (int64_t j = 0; j < n; ++j) {
        const double w = weight ? r.numbers(*weight, in)[size_t(j)] : 1;
        out.y.push_back(v[size_t(i * n + j)] * w / std::sqrt(sum / double(n) + eps));
      }
    }
    return out;
  };
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, d.shape), dweight(d.dtype, {n});
  BARACUDA_TRY(run_plan<RmsNormBackward>(d, {.dy = reshaped(r.dy(), d.shape), .x = x_rows, .weight = w, .rstd = rstd, .dx = dx,
                                             .dweight = weight ? dweight.view() : TensorView{}}));
  r.gradient(*x, dx);
  if (weight) r.gradient(*weight, dweight);
  // dx = rstd (g - xhat mean(g xhat)) is a difference.
  const Values xv = x->values(), dy = r.dy().values();
  Values scale(xv.size());
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < n; ++j) sum += xv[size_t(i * n + j)] * xv[size_t(i * n + j)] / double(n);
    const double s = 1 / std::sqrt(sum + eps);
    auto g = [&](int64_t j) { return std::fabs(dy[size_t(i * n + j)] * (weight ? weight->values()[size_t(j)] : 1)); };
    for (int64_t j = 0; j < n; ++j) mean += g(j) * std::fabs(xv[size_t(i * n + j)]) * s / double(n);
    for (int64_t j = 0; j < n; ++j) scale[size_t(i * n + j)] = s * (g(j) + std::fabs(xv[size_t(i * n + j)]) * s * mean);
  }
  r.condition(*x, scale);
  return {};
}

// Rows of n elements with a mean and a variance each; `span` neighbours share a weight, and rows take the weights of `groups` in turn.
// `across`: a row is a channel of all samples, which has one weight, and its mean and variance may be given.
struct Standardized {
  const Held *x, *weight, *bias;
  int64_t n, span, groups;
  double eps;
  bool across = false;
  const Held *given_mean = nullptr, *given_var = nullptr;

  int64_t rows() const { return n ? x->shape().numel() / n : 0; }
  size_t place(int64_t row, int64_t i) const { return size_t(across ? (i / span * rows() + row) * span + i % span : row * n + i); }
  size_t vector(int64_t row, int64_t i) const { return size_t(across ? row : row % groups * (n / span) + i / span); }
  // f(row, mean, 1 / std) for every row.
  template <class F> void each_row(const Values& v, F f) const {
    for (int64_t r = 0; r < rows(); ++r) {
      double mean = 0, squares = 0;
      if (given_var) mean = given_mean->values()[size_t(r)], squares = given_var->values()[size_t(r)];
      else {
        for (int64_t i = 0; i < n; ++i) mean += v[place(r, i)] / double(n);
        for (int64_t i = 0; i < n; ++i) squares += (v[place(r, i)] - mean) * (v[place(r, i)] - mean) / double(n);
      }
      f(r, mean, 1 / std::sqrt(squares + eps));
    }
  }
  Numbers forward(const Values& v, const Values& w, const Values& b) const {
    Numbers out{Values(v.size()), Values(v.size())};
    each_row(v, [&](int64_t r, double mean, double rstd) {
      for (int64_t i = 0; i < n; ++i) {
        const size_t at = place(r, i), k = vector(r, i);
        const double xhat = (v[at] - mean) * rstd, scale = w.empty() ? 1 : w[k], shift = b.empty() ? 0 : b[k];
        out.y[at] = xhat * scale + shift, out.scale[at] = (1 + std::fabs(xhat)) * std::fabs(scale) + std::fabs(shift);
      }
    });
    return out;
  }
  // dx, dweight and dbias are sums whose terms may cancel: the sizes of the terms.
  void conditions(Replay& r) const {
    const Values v = x->values(), e = r.dy().values(), w = weight ? weight->values() : Values{};
    Values dx(v.size()), dweight(weight ? w.size() : 0), dbias(bias ? size_t(bias->shape().numel()) : 0);
    each_row(v, [&](int64_t row, double mean, double rstd) {
      auto size = [&](int64_t i) { return 1 + std::fabs(v[place(row, i)] - mean) * rstd; };
      auto g = [&](int64_t i) { return std::fabs(e[place(row, i)] * (weight ? w[vector(row, i)] : 1)); };
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += g(i) * size(i) / double(n);
      for (int64_t i = 0; i < n; ++i) {
        const double term = std::fabs(e[place(row, i)]);
        dx[place(row, i)] = rstd * (g(i) + size(i) * sum);
        if (weight) dweight[vector(row, i)] += term * size(i);
        if (bias) dbias[vector(row, i)] += term;
      }
    });
    r.condition(*x, dx);
    if (weight) r.condition(*weight, dweight);
    if (bias) r.condition(*bias, dbias);
  }
};
void judge_standardized(Replay& r, const Standardized& s) {
  r.judge = {.ulps = 1, .terms = double(std::max(s.n, s.rows()))};
  r.reference = [&r, s](const Inputs& in) {
    return s.forward(r.numbers(*s.x, in), s.weight ? r.numbers(*s.weight, in) : Values{}, s.bias ? r.numbers(*s.bias, in) : Values{});
  };
}
// Descriptor and arguments of the ops are alike; `vectors` is the shape of weight and bias, `statistics` that of mean and rstd.
template <class Op, class Backward>
Status replay_standardized(Replay& r, const typename Op::Descriptor& d, const Standardized& s, const Shape& vectors, const Shape& statistics,
                           bool with_statistics = false) {
  if (d.eps < 0) {
    EXPECT_EQ(Op::validate(d).code(), Code::invalid_problem) << "a negative eps is not refused";
    return r.decline(kNegativeEps);
  }
  if (s.n == 1 && s.rows() > 0 && s.weight) return r.decline(kOneElement);
  const TensorView weight = s.weight ? s.weight->view() : TensorView{}, bias = s.bias ? s.bias->view() : TensorView{};
  Tensor y(d.dtype, d.shape), mean(accumulator(d.dtype), statistics), rstd(accumulator(d.dtype), statistics);
  BARACUDA_TRY(run_plan<Op>(d, {.x = *s.x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd}));
  r.output(0, y);
  auto as_wanted = [&](size_t k, const Tensor& statistic) {
    Values v = statistic.values();
    for (double& e : v) e = testing::rounded(r.wanted(k).dtype(), e);
    r.output(k, v);
  };
  if (with_statistics) {
    as_wanted(1, mean), as_wanted(2, rstd);
    s.each_row(s.x->values(), [&](int64_t, double m, double scale) { r.references[1].push_back(m), r.references[2].push_back(scale); });
  }
  judge_standardized(r, s);
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, d.shape), dweight(d.dtype, vectors), dbias(d.dtype, vectors);
  BARACUDA_TRY(run_plan<Backward>(d, {.dy = r.dy(), .x = *s.x, .weight = weight, .mean = mean, .rstd = rstd, .dx = dx,
                                      .dweight = s.weight ? dweight.view() : TensorView{}, .dbias = s.bias ? dbias.view() : TensorView{}}));
  r.gradient(*s.x, dx);
  if (s.weight) r.gradient(*s.weight, dweight);
  if (s.bias) r.gradient(*s.bias, dbias);
  s.conditions(r);
  return {};
}
Status layer_norm(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const Json& normalized = r.argument(0, "normalized_shape")->at("list");
  const int axes = int(normalized.size());
  if (axes == 0) return r.decline(kNoAxes);
  const Shape outer = without_last(x->shape(), axes);
  LayerNormDescriptor d{.dtype = x->dtype(), .shape = outer, .axes = axes, .eps = r.value(3, "eps", 1e-5)};
  Shape inner;
  for (const Json& e : normalized) d.shape.push_back(e.get<int64_t>()), inner.push_back(e.get<int64_t>());
  const Standardized s{x, r.tensor(1, "weight"), r.tensor(2, "bias"), inner.numel(), 1, 1, d.eps};
  return replay_standardized<LayerNorm, LayerNormBackward>(r, d, s, inner, outer, op == "native_layer_norm");
}
Status group_norm(Replay& r, std::string_view) {
  const Held* x = r.input();
  const GroupNormDescriptor d{.dtype = x->dtype(), .shape = x->shape(), .groups = r.value(0, "num_groups", int64_t(1)), .eps = r.value(3, "eps", 1e-5)};
  BARACUDA_TRY(d.eps < 0 ? Status() : GroupNorm::validate(d));
  const Shape channels = {x->shape()[1]};
  const int64_t span = x->shape().product(2, x->shape().rank);
  const Standardized s{x, r.tensor(1, "weight"), r.tensor(2, "bias"), channels[0] / d.groups * span, span, d.groups, d.eps};
  return replay_standardized<GroupNorm, GroupNormBackward>(r, d, s, channels, {x->shape()[0], d.groups});
}
// Running statistics are only updated by it, unless use_input_stats is false.
Status instance_norm(Replay& r, std::string_view) {
  const Held* x = r.input();
  if (!r.value(4, "use_input_stats", true)) return r.decline(kRunning);
  const Shape channels = {x->shape()[1]};
  const GroupNormDescriptor d{.dtype = x->dtype(), .shape = x->shape(), .groups = channels[0], .eps = r.value(6, "eps", 1e-5)};
  const int64_t span = x->shape().product(2, x->shape().rank);
  const Standardized s{x, r.tensor(2, "weight"), r.tensor(3, "bias"), span, span, channels[0], d.eps};
  return replay_standardized<GroupNorm, GroupNormBackward>(r, d, s, channels, {x->shape()[0], channels[0]});
}
// By the statistics of the batch, or by given ones.
Status batch_norm(Replay& r, std::string_view op) {
  const Held* x = r.input();
  if (x->shape().rank < 2) return r.decline(kNoChannels);
  const bool functional = op == "nn.functional.batch_norm", update = op == "_batch_norm_with_update";
  const bool bare = r.argument(2, "running_mean") && r.argument(2, "running_mean")->is_boolean();  // without running statistics
  const size_t weights = functional ? 2 : 0, running = functional ? 0 : 2, flag = bare ? 2 : 4, eps = update ? 5 : flag + 2;
  const bool training = update || r.value(flag, "training", false);
  const BatchNormDescriptor d{.dtype = x->dtype(), .shape = x->shape(), .eps = r.value(eps, "eps", 1e-5)};
  const Shape channels = {x->shape()[1]};
  const int64_t span = x->shape().product(2, x->shape().rank);
  Standardized s{x, r.tensor(weights, "weight"), r.tensor(weights + 1, "bias"), x->shape()[0] * span, span, 1, d.eps, true};
  if (training) {
    BARACUDA_TRY((replay_standardized<BatchNorm, BatchNormBackward>(r, d, s, channels, channels, !functional)));
    if (update) r.output(3, Values{});  // scratch for another backward
    return {};
  }
  s.given_mean = r.tensor(running, "running_mean"), s.given_var = r.tensor(running + 1, "running_var");
  const TensorView weight = s.weight ? s.weight->view() : TensorView{}, bias = s.bias ? s.bias->view() : TensorView{};
  Tensor y(d.dtype, d.shape), dx(d.dtype, d.shape), dweight(d.dtype, channels), dbias(d.dtype, channels);
  BARACUDA_TRY(run_plan<BatchNormInference>(d, {.x = *x, .weight = weight, .bias = bias, .mean = *s.given_mean, .var = *s.given_var, .y = y}));
  r.output(0, y);
  if (!functional) r.output(1, Values{}), r.output(2, Values{});  // statistics that nobody asks for
  judge_standardized(r, s);
  BARACUDA_TRY(run_plan<BatchNormInferenceBackward>(d, {.dy = r.dy(), .x = *x, .weight = weight, .mean = *s.given_mean, .var = *s.given_var, .dx = dx,
                                                        .dweight = dweight, .dbias = dbias}));
  r.gradient(*x, dx);
  if (s.weight) r.gradient(*s.weight, dweight);
  if (s.bias) r.gradient(*s.bias, dbias);
  s.conditions(r);
  return {};
}

}  // namespace

Family norm_family() {
  static const Entry entries[] = {{"nn.functional.rms_norm", rms_norm},
                                  {"nn.functional.layer_norm", layer_norm},
                                  {"native_layer_norm", layer_norm},
                                  {"nn.functional.group_norm", group_norm},
                                  {"nn.functional.instance_norm", instance_norm},
                                  {"nn.functional.batch_norm", batch_norm},
                                  {"native_batch_norm", batch_norm},
                                  {"_native_batch_norm_legit", batch_norm},
                                  {"_batch_norm_with_update", batch_norm}};
  static const Declined declined[] = {{"nn.functional.rms_norm", {1}, kNegativeEps},
                                      {"nn.functional.layer_norm", {2}, kOneElement},
                                      {"native_layer_norm", {8}, kOneElement},
                                      {"nn.functional.layer_norm", {1}, kNegativeEps},
                                      {"native_layer_norm", {4, 5, 6, 7}, kNegativeEps},
                                      {"nn.functional.group_norm", {4, 5, 6, 7}, kNegativeEps},
                                      {"nn.functional.batch_norm", {3, 4}, kNoChannels}};
  static const Declined errors[] = {{"nn.functional.rms_norm", {0}, kNoAxes}, {"native_layer_norm", {0}, kNoAxes}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
