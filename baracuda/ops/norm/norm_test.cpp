#include "baracuda/ops/norm/norm.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: plain loops in double over row-major values; roundings of the contract are made where it names them.
struct Oracle {
  std::vector<double> h, y, rstd, dx, dweight, dx_scale, dweight_scale;
};
Oracle oracle(const RmsNormDescriptor& d, const Tensor& x, const Tensor* residual, const Tensor* weight, const Tensor* dy, const Tensor* dh) {
  const int64_t n = d.shape.last(), rows = d.shape.numel() / std::max<int64_t>(n, 1);
  Oracle o;
  o.dweight.assign(size_t(n), 0), o.dweight_scale.assign(size_t(n), 0);
  auto w = [&](int64_t i) {
    return d.weight == NormWeight::none ? 1.0 : d.weight == NormWeight::plain ? weight->at(i) : 1 + weight->at(i);
  };
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0, dot = 0, dot_scale = 0;
    for (int64_t i = r * n; i < (r + 1) * n; ++i) {
      o.h.push_back(residual ? rounded(d.dtype, x.at(i) + residual->at(i)) : x.at(i));
      squares += o.h.back() * o.h.back();
    }
    const double rstd = 1 / std::sqrt(squares / double(n) + d.eps);
    o.rstd.push_back(rstd);
    for (int64_t i = 0; i < n; ++i) {
      const double xhat = o.h[size_t(r * n + i)] * rstd, met = d.cast == NormCast::before_weight ? rounded(d.dtype, xhat) : xhat;
      o.y.push_back(met * w(i));
      if (!dy) continue;
      const double e = dy->at(r * n + i);
      dot += e * w(i) * xhat, dot_scale += std::fabs(e * w(i) * xhat);
      o.dweight[size_t(i)] += e * met, o.dweight_scale[size_t(i)] += std::fabs(e * met);
    }
    for (int64_t i = 0; dy && i < n; ++i) {
      const double xhat = o.h[size_t(r * n + i)] * rstd, g = dy->at(r * n + i) * w(i), down = dh ? dh->at(r * n + i) : 0;
      o.dx.push_back(rstd * (g - xhat * dot / double(n)) + down);
      o.dx_scale.push_back(rstd * (std::fabs(g) + std::fabs(xhat) * dot_scale / double(n)) + std::fabs(down));
    }
  }
  return o;
}

struct Case {
  RmsNormDescriptor d;
  bool residual = false;
  Layout layout = Layout::dense;
};
void check_values(const Case& c) {
  const RmsNormDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " residual ", c.residual, " layout ", int(c.layout)));
  const DType t = d.dtype, wt = d.weight_dtype.value_or(t);
  const bool has_weight = d.weight != NormWeight::none;
  const Shape row = {d.shape.last()}, outer = [&] { Shape s = d.shape; --s.rank; return s; }();
  const Tensor x = Tensor::normal(t, d.shape, 1, 0.2, 2, c.layout), residual = Tensor::normal(t, d.shape, 2, 0, 1, c.layout);
  const Tensor dy = Tensor::normal(t, d.shape, 3, 0, 1, c.layout), dh = Tensor::normal(t, d.shape, 4, 0, 1, c.layout);
  const Tensor weight = has_weight ? Tensor::normal(wt, row, 5, 1, 0.5) : Tensor();
  Tensor y(t, d.shape, c.layout), h(t, d.shape, c.layout), rstd(accumulator(t), outer), dx(t, d.shape, c.layout);
  Tensor dweight = has_weight ? Tensor(wt, row) : Tensor();
  RmsNorm::Args a{x, weight, {}, y, {}, rstd};
  if (c.residual) a.residual = residual, a.residual_out = h;
  ASSERT_OK(run_plan<RmsNorm>(d, a));
  const Oracle o = oracle(d, x, c.residual ? &residual : nullptr, &weight, &dy, c.residual ? &dh : nullptr);
  if (c.residual) EXPECT_CLOSE(h, o.h, {.ulps = 0});
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1});
  // A rounding of xhat may fall the other way where the exact value is close to a tie: one more rounding of y.
  EXPECT_CLOSE(y, o.y, {.ulps = d.cast == NormCast::before_weight ? 3.0 : 1.0});
  EXPECT_TRUE(y.guards_intact() && h.guards_intact() && rstd.guards_intact());

  for (bool saved : {true, false}) {
    RmsNormBackward::Args b{dy, c.residual ? h : x, weight, {}, {}, dx, dweight};
    if (saved) b.rstd = rstd;
    if (c.residual) b.dresidual_out = dh;
    dx.poison();
    if (has_weight) dweight.poison();
    ASSERT_OK(run_plan<RmsNormBackward>(d, b));
    EXPECT_CLOSE(dx, o.dx, {.ulps = 1, .terms = 4}, &o.dx_scale);
    const double rounding = d.cast == NormCast::before_weight ? 2 * unit_roundoff(t) / unit_roundoff(accumulator(t)) : 0;
    if (has_weight) {
      std::vector<double> scale = o.dweight_scale;
      for (double& s : scale) s *= 1 + rounding;
      EXPECT_CLOSE(dweight, o.dweight, {.ulps = 1, .terms = double(d.shape.rows())}, &scale);
      EXPECT_TRUE(dweight.guards_intact());
    }
    EXPECT_TRUE(dx.guards_intact());
  }
}

TEST(RmsNorm, ValuesForEveryModeAndDtype) {
  for (DType t : kDTypesHere)
    for (NormWeight weight : {NormWeight::none, NormWeight::plain, NormWeight::one_plus})
      for (NormCast cast : {NormCast::end, NormCast::before_weight})
        for (bool residual : {false, true}) {
          check_values({{.dtype = t, .shape = {5, 77}, .weight = weight, .cast = cast}, residual});
          if (weight == NormWeight::plain)
            check_values({{.dtype = t, .shape = {5, 77}, .weight = weight, .weight_dtype = DType::f32, .cast = cast}, residual});
        }
}
TEST(RmsNorm, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed})
    for (const Shape& shape : {Shape{1}, Shape{3}, Shape{31}, Shape{2, 32}, Shape{3, 33}, Shape{2, 3, 65}, Shape{40, 1}, Shape{100, 7}, Shape{2, 1, 3, 129}, Shape{1, 5000}})
      if (layout != Layout::outer_reversed || shape.rank > 1)
        check_values({{.dtype = shape.rank == 2 ? DType::bf16 : DType::f32, .shape = shape, .eps = 1e-5}, shape[0] == 2, layout});
}

}  // namespace
}  // namespace baracuda
