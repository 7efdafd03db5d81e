#include <cmath>
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

}  // namespace

Family norm_family() {
  static const Entry entries[] = {{"nn.functional.rms_norm", rms_norm}};
  static const Declined declined[] = {{"nn.functional.rms_norm", {1}, kNegativeEps}};
  static const Declined errors[] = {{"nn.functional.rms_norm", {0}, kNoAxes}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
