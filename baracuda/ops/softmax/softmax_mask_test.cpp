// Softmax with a scale and a mask.
#include <cmath>
#include "baracuda/ops/softmax/softmax.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr SoftmaxKind kKinds[] = {SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::softmin, SoftmaxKind::safe_softmax};

// Along axis 1 of [outer, n, inner]; scale: how far the terms of an element are from it.
struct Values { std::vector<double> y, y_scale, dx, dx_scale; };
Values oracle(const SoftmaxDescriptor& d, const std::vector<double>& x, const std::vector<double>& keep, const std::vector<double>& dy,
              const std::vector<double>& saved) {
  const int64_t outer = d.shape[0], n = d.shape[1], inner = d.shape[2];
  const bool log = d.kind == SoftmaxKind::log_softmax;
  const double factor = d.kind == SoftmaxKind::softmin ? -d.scale : d.scale;
  Values o;
  for (auto* v : {&o.y, &o.y_scale, &o.dx, &o.dx_scale}) v->resize(x.size());
  for (int64_t l = 0; l < outer * inner; ++l) {
    auto at = [&](int64_t r) { return size_t((l / inner * n + r) * inner + l % inner); };
    double top = -INFINITY, sum = 0, dot = 0, magnitude = 0;
    for (int64_t r = 0; r < n; ++r)
      if (keep[at(r)] != 0) top = std::max(top, factor * x[at(r)]);
    for (int64_t r = 0; r < n; ++r)
      if (keep[at(r)] != 0) {
        sum += std::exp(factor * x[at(r)] - top);
        const double term = log ? dy[at(r)] : dy[at(r)] * saved[at(r)];
        dot += term, magnitude += std::fabs(term);
      }
    for (int64_t r = 0; r < n; ++r) {
      const size_t i = at(r);
      const double t = factor * x[i] - top, slack = 1 + std::fabs(t) + std::fabs(factor * x[i]);
      if (keep[i] == 0) {
        o.y[i] = log ? -INFINITY : 0;
        continue;
      }
      o.y[i] = log ? t - std::log(sum) : std::exp(t) / sum;
      o.y_scale[i] = log ? slack + std::log(sum) : o.y[i] * slack;
      const double p = log ? std::exp(saved[i]) : saved[i];
      o.dx[i] = log ? d.scale * (dy[i] - p * dot) : factor * p * (dy[i] - dot);
      o.dx_scale[i] = std::fabs(d.scale) * (log ? std::fabs(dy[i]) + p * magnitude : p * (std::fabs(dy[i]) + magnitude));
    }
  }
  return o;
}
void check(const SoftmaxDescriptor& d, Layout layout, bool broadcast) {
  SCOPED_TRACE(text(describe(d), " layout ", int(layout), " broadcast ", broadcast));
  const DType out = d.out_dtype.value_or(d.dtype);
  Tensor x = Tensor::normal(d.dtype, d.shape, 1, 0, 2, layout), dy = Tensor::normal(out, d.shape, 2, 0.3, 1, layout), y(out, d.shape, layout),
         dx(d.dtype, d.shape, layout);
  const int64_t inner = d.shape[2], n = d.shape[1];
  Tensor mask = Tensor::integers(DType::boolean, d.shape, 3, 0, 2);
  for (int64_t i = 0; i < mask.numel(); ++i) {  // no line without an element; the same for every outer index if it is broadcast
    const int64_t within = i % (n * inner);
    if (broadcast && i >= n * inner) mask.set(i, mask.at(within));
    if (within / inner == n / 2) mask.set(i, 1);
  }
  const std::vector<double> keep = mask.values();
  TensorView seen = mask;
  if (broadcast) seen.strides[0] = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (keep[size_t(i)] == 0) x.set(i, i % 3 ? NAN : INFINITY), dy.set(i, i % 2 ? NAN : -INFINITY);  // nothing of it is seen
  ASSERT_OK(run_plan<Softmax>(d, {x, y, seen}));
  ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx, seen}));
  const Values want = oracle(d, x.values(), keep, dy.values(), y.values());
  EXPECT_CLOSE(y, want.y, {.ulps = 1, .terms = double(n)}, &want.y_scale);
  EXPECT_CLOSE(dx, want.dx, {.ulps = 1, .terms = double(n)}, &want.dx_scale);
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact());
}
TEST(SoftmaxMask, ValuesAndGradients) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (SoftmaxKind kind : kKinds)
      for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed}) {
        check({kind, t, {3, 37, 19}, 1, {}, 0.25}, layout, false);
        check({kind, t, {3, 5, 40}, -2, {}, -1.5}, layout, true);
        check({kind, t, {4, 70, 1}, 1, {}, 1}, layout, true);
      }
  check({SoftmaxKind::softmax, DType::bf16, {2, 33, 40}, 1, DType::f32, 2}, Layout::padded, false);
  for (SoftmaxKind kind : kKinds) {
    check({kind, DType::f32, {2, 9000, 1}, 1, {}, 0.5}, Layout::dense, true);
    check({kind, DType::bf16, {1, 5000, 40}, 1, {}, 2}, Layout::dense, false);
    check({kind, DType::f32, {1, 140000, 1}, 1, {}, 2}, Layout::dense, false);
  }
}
TEST(SoftmaxMask, ScaleAloneIsATemperature) {
  for (DType t : {DType::bf16, DType::f32, DType::f64})
    for (SoftmaxKind kind : kKinds)
      for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{6, 300}, 1}, {{300, 70}, 0}, {{2, 9000}, 1}}) {
        const SoftmaxDescriptor d{kind, t, shape, axis, {}, 0.25}, unscaled{kind, t, shape, axis};
        const Tensor x = Tensor::normal(t, shape, 1, 0, 3), dy = Tensor::normal(t, shape, 2);
        Tensor quarter(t, shape), y(t, shape), want(t, shape), dx(t, shape), dwant(t, shape);
        for (int64_t i = 0; i < x.numel(); ++i) quarter.set(i, 0.25 * x.at(i));  // exact
        ASSERT_OK(run_plan<Softmax>(d, {x, y}));
        ASSERT_OK(run_plan<Softmax>(unscaled, {quarter, want}));
        EXPECT_TRUE(y.same_bits(want)) << describe(d);
        ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
        ASSERT_OK(run_plan<SoftmaxBackward>(unscaled, {dy, y, dwant}));
        for (int64_t i = 0; i < dx.numel(); ++i) ASSERT_EQ(dx.at(i), rounded(t, 0.25 * dwant.at(i))) << describe(d) << " " << i;
      }
}
// A mask that is true everywhere changes no bit.
TEST(SoftmaxMask, TrueEverywhere) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA masked rows are summed in another order";
  for (int64_t axis : {0, 1})
    for (SoftmaxKind kind : kKinds) {
      const SoftmaxDescriptor d{kind, DType::f32, {90, 110}, axis};
      const Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2), mask(DType::boolean, {}, {1});
      TensorView all = mask;
      all.shape = d.shape, all.strides = {};
      all.strides.push_back(0), all.strides.push_back(0);
      Tensor y(DType::f32, d.shape), masked(DType::f32, d.shape), dx(DType::f32, d.shape), dmasked(DType::f32, d.shape);
      ASSERT_OK(run_plan<Softmax>(d, {x, y}));
      ASSERT_OK(run_plan<Softmax>(d, {x, masked, all}));
      EXPECT_TRUE(masked.same_bits(y));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dmasked, all}));
      EXPECT_TRUE(dmasked.same_bits(dx));
    }
}
TEST(SoftmaxMask, case_fully_masked_row) {
  for (SoftmaxKind kind : kKinds) {
    const SoftmaxDescriptor d{kind, DType::f32, {2, 20}};
    const Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2);
    Tensor mask(DType::boolean, d.shape, std::vector<double>(40, 0)), y(DType::f32, d.shape), dx(DType::f32, d.shape);
    mask.set(27, 1);  // one element: its softmax is constant
    ASSERT_OK(run_plan<Softmax>(d, {x, y, mask}));
    ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx, mask}));
    const bool log = kind == SoftmaxKind::log_softmax;
    for (int64_t i = 0; i < 20; ++i) {
      if (kind == SoftmaxKind::safe_softmax) EXPECT_TRUE(y.at(i) == 0 && dx.at(i) == 0) << i;
      else EXPECT_TRUE(std::isnan(y.at(i))) << i;
      EXPECT_EQ(y.at(20 + i), i == 7 ? (log ? 0 : 1) : (log ? -INFINITY : 0)) << i;
      EXPECT_EQ(dx.at(20 + i), 0) << enum_name(kind) << " " << i;
    }
  }
}
TEST(SoftmaxMask, case_masked_nan_leak) {
  for (SoftmaxKind kind : kKinds)
    for (int64_t axis : {0, 1}) {
      const SoftmaxDescriptor d{kind, DType::f32, {40, 40}, axis};
      Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2), y(DType::f32, d.shape), want(DType::f32, d.shape),
             dx(DType::f32, d.shape), dwant(DType::f32, d.shape), mask(DType::boolean, d.shape, std::vector<double>(1600, 1));
      for (int64_t i = 0; i < 1600; i += 7) mask.set(i, 0), x.set(i, 5), dy.set(i, -5);
      ASSERT_OK(run_plan<Softmax>(d, {x, want, mask}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, want, dwant, mask}));
      for (int64_t i = 0; i < 1600; i += 7) x.set(i, NAN), dy.set(i, NAN);
      ASSERT_OK(run_plan<Softmax>(d, {x, y, mask}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, want, dx, mask}));
      EXPECT_TRUE(y.same_bits(want) && dx.same_bits(dwant));
    }
}
TEST(SoftmaxMask, GradientIsTheDerivative) {
  for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::softmin}) {
    const SoftmaxDescriptor d{kind, DType::f64, {6, 11}, 1, {}, -0.75};
    Tensor x = Tensor::normal(DType::f64, d.shape, 1), y(DType::f64, d.shape), dx(DType::f64, d.shape), dy = Tensor::normal(DType::f64, d.shape, 2);
    Tensor mask = Tensor::integers(DType::boolean, d.shape, 4, 0, 2);
    for (int64_t r = 0; r < 6; ++r) mask.set(r * 11 + 3, 1);
    ASSERT_OK(run_plan<Softmax>(d, {x, y, mask}));
    ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx, mask}));
    check_directional([&] {
      Tensor now(DType::f64, d.shape);
      EXPECT_OK(run_plan<Softmax>(d, {x, now, mask}));
      double sum = 0;
      for (int64_t i = 0; i < now.numel(); ++i)
        if (mask.at(i) != 0) sum += dy.at(i) * now.at(i);
      return sum;
    }, x, dx, 3);
  }
}
TEST(SoftmaxMask, ContractAndRefusals) {
  const SoftmaxDescriptor d{SoftmaxKind::log_softmax, DType::bf16, {9, 50}, 1, {}, 0.125};
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), dy = Tensor::normal(DType::bf16, d.shape, 2), mask = Tensor::integers(DType::boolean, d.shape, 3, 0, 2);
  Tensor y = Tensor::uniform(DType::bf16, d.shape, 3, -3, 0), dx(DType::bf16, d.shape);
  check_contract<SoftmaxBackward>(d, {dy, y, dx, mask});
  check_repeat_bits<SoftmaxBackward>(d, {dy, y, dx, mask});
  check_contract<Softmax>(d, {x, y, mask});
  check_repeat_bits<Softmax>(d, {x, y, mask});
  for (double scale : {double(INFINITY), double(NAN)})
    expect_refused(SoftmaxPlan::select(Stream::cpu(), {.shape = {2}, .scale = scale}).status(), Code::invalid_problem, {"scale", "finite"});
  expect_refused(run_plan<Softmax>({.shape = {2, 3}}, {Tensor(DType::f32, {2, 3}), Tensor(DType::f32, {2, 3}), Tensor(DType::boolean, {3})}),
                 Code::invalid_problem, {"mask", "[3]", "[2, 3]"});
}

}  // namespace
}  // namespace baracuda
