#include "baracuda/ops/norm/batch_norm.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: plain loops in long double over [N, C, S]. With `mean` and `var` these are constants. A mean is right to a rounding of the
// spread, so every xhat has an error of that order, whatever its own size.
struct Oracle { std::vector<double> y, mean, rstd, var, dx, dweight, dbias, y_scale, dx_scale, dweight_scale, dbias_scale; };
Oracle oracle(const BatchNormDescriptor& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor* dy, const Tensor* given_mean = nullptr,
              const Tensor* given_var = nullptr) {
  const int64_t channels = d.shape[1], span = d.shape.product(2, d.shape.rank);
  const size_t size = size_t(d.shape.numel());
  Oracle o;
  for (auto* v : {&o.y, &o.y_scale, &o.dx, &o.dx_scale}) v->resize(size);
  for (auto* v : {&o.dweight, &o.dbias, &o.dweight_scale, &o.dbias_scale}) v->assign(size_t(channels), 0);
  using Real = long double;
  for (int64_t c = 0; c < channels; ++c) {
    std::vector<int64_t> at;
    for (int64_t s = 0; s < d.shape[0]; ++s)
      for (int64_t i = 0; i < span; ++i) at.push_back((s * channels + c) * span + i);
    const Real n = Real(at.size()), w = weight.view().data ? weight.at(c) : 1, b = bias.view().data ? bias.at(c) : 0, first = given_mean ? given_mean->at(c) : x.at(at[0]);
    Real mean = 0, var = 0, g_mean = 0, dot = 0, scale = 0;
    if (given_var) var = given_var->at(c);
    else {
      for (int64_t i : at) mean += (x.at(i) - first) / n;  // from an element: whole, it would be rounded where it is large
      for (int64_t i : at) var += ((x.at(i) - first) - mean) * ((x.at(i) - first) - mean) / n;
    }
    const Real rstd = 1 / std::sqrt(var + Real(d.eps));
    auto xhat = [&](int64_t i) { return ((x.at(i) - first) - mean) * rstd; };
    o.mean.push_back(double(first + mean)), o.rstd.push_back(double(rstd)), o.var.push_back(double(var * n / (n - 1)));
    for (int64_t i : at) {
      o.y[size_t(i)] = double(xhat(i) * w + b), o.y_scale[size_t(i)] = double((1 + std::fabs(xhat(i))) * std::fabs(w) + std::fabs(b));
      if (!dy) continue;
      const Real e = dy->at(i);
      g_mean += e * w / n, dot += e * w * xhat(i) / n, scale += std::fabs(e * w) * (1 + std::fabs(xhat(i))) / n;
      o.dweight[size_t(c)] += double(e * xhat(i)), o.dweight_scale[size_t(c)] += double(std::fabs(e) * (1 + std::fabs(xhat(i))));
      o.dbias[size_t(c)] += double(e), o.dbias_scale[size_t(c)] += double(std::fabs(e));
    }
    for (int64_t i : at) {
      if (!dy) break;
      const Real e = dy->at(i) * w;
      o.dx[size_t(i)] = double(rstd * (given_var ? e : e - g_mean - xhat(i) * dot));
      o.dx_scale[size_t(i)] = double(rstd * (std::fabs(e) + (1 + std::fabs(xhat(i))) * scale));
    }
  }
  return o;
}

struct Case {
  BatchNormDescriptor d;
  Layout layout = Layout::dense;
  bool weight = true, bias = true;
  double mean = 0.3, std = 2, momentum = 0.1;
};
void check_values(const Case& c) {
  const BatchNormDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " weight ", c.weight, " bias ", c.bias, " layout ", int(c.layout)));
  const DType t = d.dtype, wt = d.weight_dtype.value_or(t), acc = accumulator(t);
  const Shape channels = {d.shape[1]};
  const double n = double(d.shape.numel()) / double(d.shape[1]);
  const Layout vector = c.layout == Layout::dense ? Layout::dense : Layout::every_other;
  const Tensor x = Tensor::normal(t, d.shape, 1, c.mean, c.std, c.layout), dy = Tensor::normal(t, d.shape, 2, 0, 1, c.layout);
  const Tensor weight = c.weight ? Tensor::normal(wt, channels, 3, 1, 0.5, vector) : Tensor(), bias = c.bias ? Tensor::normal(wt, channels, 4, 0, 1, vector) : Tensor();
  const Tensor old_mean = Tensor::normal(wt, channels, 5, c.mean, 1, vector), old_var = Tensor::uniform(wt, channels, 6, 0.5, 2, vector);
  Tensor running_mean = old_mean, running_var = old_var;
  Tensor y(t, d.shape, c.layout), mean(acc, channels, vector), rstd(acc, channels), dx(t, d.shape, c.layout), dweight(wt, channels, vector), dbias(wt, channels, vector);
  const auto intact = [&] { return y.guards_intact() && dx.guards_intact() && dweight.guards_intact() && dbias.guards_intact() && mean.guards_intact() && rstd.guards_intact(); };
  ASSERT_OK(run_plan<BatchNorm>(d, {x, weight, bias, running_mean, running_var, y, mean, rstd, c.momentum}));
  const Oracle o = oracle(d, x, weight, bias, &dy);
  EXPECT_CLOSE(mean, o.mean, {.ulps = 1, .terms = n, .condition = c.std});
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1, .terms = n});
  EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = n}, &o.y_scale);
  std::vector<double> want_mean, want_var, scale_mean, scale_var;
  for (int64_t i = 0; i < channels[0]; ++i) {
    const double m = c.momentum, a = (1 - m) * old_mean.at(i), b = m * o.mean[size_t(i)], v = (1 - m) * old_var.at(i), u = m * o.var[size_t(i)];
    want_mean.push_back(a + b), scale_mean.push_back(std::fabs(a) + std::fabs(b) + std::fabs(m) * c.std);
    want_var.push_back(v + u), scale_var.push_back(std::fabs(v) + std::fabs(u));
  }
  EXPECT_CLOSE(running_mean, want_mean, {.ulps = 1, .terms = n}, &scale_mean);
  EXPECT_CLOSE(running_var, want_var, {.ulps = 1, .terms = n}, &scale_var);
  EXPECT_TRUE(running_mean.guards_intact() && running_var.guards_intact());
  for (bool saved : {true, false}) {
    dx.poison(), dweight.poison(), dbias.poison();
    ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, x, weight, saved ? mean.view() : TensorView(), saved ? rstd.view() : TensorView(), dx, dweight, dbias}));
    EXPECT_CLOSE(dx, o.dx, {.ulps = 1, .terms = n}, &o.dx_scale);
    EXPECT_CLOSE(dweight, o.dweight, {.ulps = 1, .terms = n}, &o.dweight_scale);
    EXPECT_CLOSE(dbias, o.dbias, {.ulps = 1, .terms = n}, &o.dbias_scale);
  }
  // Inference.
  const Oracle k = oracle(d, x, weight, bias, &dy, &old_mean, &old_var);
  y.poison(), dx.poison(), dweight.poison(), dbias.poison();
  ASSERT_OK(run_plan<BatchNormInference>(d, {x, weight, bias, old_mean, old_var, y}));
  EXPECT_CLOSE(y, k.y, {.ulps = 1}, &k.y_scale);
  ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {dy, x, weight, old_mean, old_var, dx, dweight, dbias}));
  EXPECT_CLOSE(dx, k.dx, {.ulps = 1});
  EXPECT_CLOSE(dweight, k.dweight, {.ulps = 1, .terms = n}, &k.dweight_scale);
  EXPECT_CLOSE(dbias, k.dbias, {.ulps = 1, .terms = n}, &k.dbias_scale);
  Tensor dx_alone(t, d.shape), dbias_alone(wt, channels);
  ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {dy, {}, weight, old_mean, old_var, dx_alone, {}, dbias_alone}));
  EXPECT_TRUE(dx_alone.same_bits(dx) && dbias_alone.same_bits(dbias));
  EXPECT_TRUE(intact());
}

TEST(BatchNorm, ValuesForEveryDtype) {
  for (DType t : kDTypesHere)
    for (bool weight : {false, true})
      for (bool bias : {false, true}) check_values({{.dtype = t, .shape = {3, 6, 5, 7}}, Layout::dense, weight, bias});
  for (DType t : kDTypesHere) check_values({{.dtype = t, .shape = {2, 4, 33}, .weight_dtype = DType::f32}});
  for (double momentum : {0.0, 1.0, 0.75, -1.2}) check_values({.d = {.shape = {5, 3, 4}}, .momentum = momentum});
}
TEST(BatchNorm, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (DType t : {DType::f32, DType::bf16}) {
      check_values({{.dtype = t, .shape = {3, 4}}, layout});
      check_values({{.dtype = t, .shape = {70, 37}}, layout});  // several tiles of channels, the last one in part
      check_values({{.dtype = t, .shape = {2, 6, 1}}, layout});
      check_values({{.dtype = t, .shape = {1, 1, 17}}, layout});
      check_values({{.dtype = t, .shape = {2, 3, 4, 5, 3}}, layout});
      check_values({{.dtype = t, .shape = {5, 2, 3, 129}}, layout});
    }
  check_values({{.dtype = DType::bf16, .shape = {3, 4, 65, 31}}});  // several chunks, cut within samples
  check_values({{.shape = {2, 2, 1, 20001}}});                      // several pieces of what is written
  check_values({{.dtype = DType::f16, .shape = {3, 2, 3, 731}}, Layout::padded});
  check_values({{.dtype = DType::f64, .shape = {2, 3, 5000}}});
  check_values({{.dtype = DType::f64, .shape = {2100, 9}}});
}
// [N, C, H, W] whose channels lie next to one another: the bits of those that do not.
TEST(BatchNorm, ChannelsLast) {
  for (DType t : kDTypesHere) {
    const BatchNormDescriptor d{.dtype = t, .shape = {3, 70, 30, 13}};
    const Tensor x = Tensor::normal(t, d.shape, 1), dy = Tensor::normal(t, d.shape, 2), w = Tensor::normal(t, {70}, 3), b = Tensor::normal(t, {70}, 4);
    const Tensor mean = Tensor::normal(t, {70}, 5), var = Tensor::uniform(t, {70}, 6, 0.5, 2);
    const Shape turned_shape = {3, 30, 13, 70};
    auto last = [&](const Tensor& memory) {
      TensorView v = memory;
      v.shape = d.shape, v.strides = {30 * 13 * 70, 1, 13 * 70, 70};
      return v;
    };
    auto turned = [&](const Tensor& from) {
      Tensor to(t, turned_shape);
      for (int64_t n = 0; n < 3; ++n)
        for (int64_t c = 0; c < 70; ++c)
          for (int64_t s = 0; s < 390; ++s) to.set((n * 390 + s) * 70 + c, from.at((n * 70 + c) * 390 + s));
      return to;
    };
    const Tensor x_last = turned(x), dy_last = turned(dy);
    Tensor y(t, d.shape), y_last(t, turned_shape), dx(t, d.shape), dx_last(t, turned_shape), dw(t, {70}), dw_last(t, {70}), db(t, {70}), db_last(t, {70});
    const auto same = [&] { return turned(y).same_bits(y_last) && turned(dx).same_bits(dx_last) && dw.same_bits(dw_last) && db.same_bits(db_last); };
    ASSERT_OK(run_plan<BatchNorm>(d, {x, w, b, {}, {}, y, {}, {}}));
    ASSERT_OK(run_plan<BatchNorm>(d, {last(x_last), w, b, {}, {}, last(y_last), {}, {}}));
    ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, x, w, {}, {}, dx, dw, db}));
    ASSERT_OK(run_plan<BatchNormBackward>(d, {last(dy_last), last(x_last), w, {}, {}, last(dx_last), dw_last, db_last}));
    EXPECT_TRUE(same()) << name(t);
    dx.poison(), dx_last.poison();  // one tensor of each kind
    ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, last(x_last), w, {}, {}, dx, dw, db}));
    ASSERT_OK(run_plan<BatchNormBackward>(d, {last(dy_last), x, w, {}, {}, last(dx_last), dw_last, db_last}));
    EXPECT_TRUE(same()) << name(t);
    ASSERT_OK(run_plan<BatchNormInference>(d, {x, w, b, mean, var, y}));
    ASSERT_OK(run_plan<BatchNormInference>(d, {last(x_last), w, b, mean, var, last(y_last)}));
    ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {dy, x, w, mean, var, dx, dw, db}));
    ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {last(dy_last), last(x_last), w, mean, var, last(dx_last), dw_last, db_last}));
    EXPECT_TRUE(same()) << name(t);
    EXPECT_TRUE(y_last.guards_intact() && dx_last.guards_intact());
  }
}
TEST(BatchNorm, BroadcastInput) {
  const BatchNormDescriptor d{.shape = {3, 4, 10}};
  const Tensor one = Tensor::normal(DType::f32, {3, 4}, 1);
  TensorView wide = one;
  wide.shape = d.shape, wide.strides = {4, 1, 0};
  Tensor whole(DType::f32, d.shape), y(DType::f32, d.shape), want(DType::f32, d.shape);
  for (int64_t i = 0; i < 120; ++i) whole.set(i, one.at(i / 10));
  ASSERT_OK(run_plan<BatchNorm>(d, {wide, {}, {}, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<BatchNorm>(d, {whole, {}, {}, {}, {}, want, {}, {}}));
  EXPECT_TRUE(y.same_bits(want));
}
TEST(BatchNorm, LargeMeanCostsNothing) {
  check_values({.d = {.dtype = DType::f32, .shape = {4, 3, 1250}}, .mean = 1e4, .std = 1});
  check_values({.d = {.dtype = DType::f64, .shape = {4, 3, 1250}}, .mean = 1e12, .std = 1});
}
TEST(BatchNorm, SamplesFarFromOneAnother) {  // every chunk has a mean of its own
  const BatchNormDescriptor d{.shape = {20, 2, 1000}};
  Tensor x = Tensor::normal(DType::f32, d.shape, 1), y(DType::f32, d.shape), rstd(DType::f32, {2});
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, x.at(i) + 1000.0 * double(i / 2000));
  ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, {}, {}, {}, y, {}, rstd}));
  const Oracle o = oracle(d, x, {}, {}, nullptr);
  EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = 20000}, &o.y_scale);
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1, .terms = 1});
}
TEST(BatchNorm, VarianceOutOfRange) {
  struct { DType t; double size; } const cases[] = {{DType::f32, 1e30}, {DType::f32, 1e-30}, {DType::f64, 1e200}, {DType::f64, 1e-200}, {DType::f16, 1e4}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(name(c.t), " ", c.size));
    const BatchNormDescriptor d{.dtype = c.t, .shape = {2, 4, 3000}, .eps = 0};
    const Tensor x = Tensor::normal(c.t, d.shape, 1, 0, c.size);
    Tensor y(c.t, d.shape);
    ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, {}, {}, {}, y, {}, {}}));
    const Oracle o = oracle(d, x, {}, {}, nullptr);
    EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = 6000}, &o.y_scale);
  }
  // The running variance has its own range: f32 2^100 squared is an infinity, in f64 it is a number.
  for (DType t : {DType::f32, DType::f64}) {
    const Tensor x(t, {2, 1}, {0x1p100, -0x1p100});
    Tensor y(t, {2, 1}), var(t, {1}, {1});
    ASSERT_OK(run_plan<BatchNorm>({.dtype = t, .shape = {2, 1}}, {x, {}, {}, {}, var, y, {}, {}, 0.5}));
    EXPECT_EQ(var.at(0), t == DType::f32 ? INFINITY : 0x1p200 + 0.5);
    EXPECT_EQ(y.at(0), 1);
  }
}
TEST(BatchNorm, ConstantChannelsNaNAndInfinity) {  // a channel is NaN as a whole and its neighbours are not
  const BatchNormDescriptor d{.shape = {2, 4, 20}};
  Tensor x(DType::f32, d.shape, std::vector<double>(160, 3.3)), y(DType::f32, d.shape), dx(DType::f32, d.shape), running_mean(DType::f32, {4}, {1, 1, 1, 1});
  Tensor running_var(DType::f32, {4}, {1, 1, 1, 1});
  const Tensor bias = Tensor::normal(DType::f32, {4}, 1), dy = Tensor::normal(DType::f32, d.shape, 2);
  x.set(25, NAN), x.set(130, INFINITY);  // channels 1 and 2
  ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, bias, running_mean, running_var, y, {}, {}}));
  ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, x, {}, {}, {}, dx, {}, {}}));
  for (int i = 0; i < 160; ++i) {
    const int c = i / 20 % 4;
    const bool lost = c == 1 || c == 2;
    EXPECT_EQ(std::isnan(dx.at(i)), lost) << i;
    if (lost) EXPECT_TRUE(std::isnan(y.at(i))) << i;
    else EXPECT_EQ(y.at(i), bias.at(c)) << i;
  }
  for (int c = 0; c < 4; ++c) {
    EXPECT_EQ(std::isfinite(running_mean.at(c)), c == 0 || c == 3);
    EXPECT_EQ(std::isnan(running_var.at(c)), c == 1 || c == 2);
    if (c == 0) EXPECT_EQ(running_var.at(c), rounded(DType::f32, 0.9));
  }
  // Inference touches the element alone, and dx does not look at x.
  const Tensor zero(DType::f32, {4}, {0, 0, 0, 0}), one(DType::f32, {4}, {1, 1, 1, 1});
  ASSERT_OK(run_plan<BatchNormInference>(d, {x, {}, {}, zero, one, y}));
  ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {dy, x, {}, zero, one, dx, {}, {}}));
  for (int i = 0; i < 160; ++i) {
    EXPECT_EQ(std::isfinite(y.at(i)), i != 25 && i != 130) << i;
    EXPECT_TRUE(std::isfinite(dx.at(i))) << i;
  }
}
TEST(BatchNorm, EmptyShapes) {
  for (const Shape& shape : {Shape{0, 4, 5}, Shape{3, 4, 0}, Shape{0, 4}}) {
    Tensor x(DType::f32, shape), y(DType::f32, shape), mean(DType::f32, {4}), rstd(DType::f32, {4}), dweight(DType::f32, {4}), dbias(DType::f32, {4});
    Tensor running(DType::f32, {4}, {1, 2, 3, 4}), running_var = running;
    ASSERT_OK(run_plan<BatchNorm>({.shape = shape}, {x, {}, {}, running, running_var, y, mean, rstd}));
    for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(mean.at(i)) && std::isnan(rstd.at(i)) && running.at(i) == double(i + 1) && running_var.same_bits(running));
    ASSERT_OK(run_plan<BatchNormBackward>({.shape = shape}, {x, x, {}, {}, {}, y, dweight, dbias}));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(dweight.at(i) == 0 && dbias.at(i) == 0);
    dweight.poison(), dbias.poison();
    ASSERT_OK(run_plan<BatchNormInference>({.shape = shape}, {x, {}, {}, running, running, y}));
    ASSERT_OK(run_plan<BatchNormInferenceBackward>({.shape = shape}, {x, x, {}, running, running, y, dweight, dbias}));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(dweight.at(i) == 0 && dbias.at(i) == 0);
  }
  const Shape none = {2, 0, 3};
  Tensor x(DType::f32, none), y(DType::f32, none), vector(DType::f32, {0});
  ASSERT_OK(run_plan<BatchNorm>({.shape = none}, {x, {}, {}, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<BatchNormBackward>({.shape = none}, {x, x, {}, {}, {}, y, vector, vector}));
  ASSERT_OK(run_plan<BatchNormInference>({.shape = none}, {x, {}, {}, vector, vector, y}));
}
TEST(BatchNorm, InferenceOfOneElement) {
  const Tensor x(DType::f32, {1, 3}, {1, 2, 3}), mean(DType::f32, {3}, {1, 1, 1}), var(DType::f32, {3}, {4, 4, 4});
  Tensor y(DType::f32, {1, 3});
  ASSERT_OK(run_plan<BatchNormInference>({.shape = {1, 3}, .eps = 0}, {x, {}, {}, mean, var, y}));
  EXPECT_EQ(y.values(), (std::vector<double>{0, 0.5, 1}));
}
TEST(BatchNorm, MomentumOfOneOverKIsTheAverageOfAllBatches) {
  const BatchNormDescriptor d{.dtype = DType::f64, .shape = {10, 2, 3}};
  Tensor mean(DType::f64, {2}, {7, 7}), var(DType::f64, {2}, {7, 7}), y(DType::f64, d.shape);
  double means = 0, vars = 0;
  for (int k = 1; k <= 4; ++k) {
    const Tensor x = Tensor::normal(DType::f64, d.shape, uint64_t(k), k);
    ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, {}, mean, var, y, {}, {}, 1.0 / k}));
    const Oracle o = oracle(d, x, {}, {}, nullptr);
    means += o.mean[1] / 4, vars += o.var[1] / 4;
  }
  const Tolerance tolerance{.dtype = DType::f64, .terms = 120};
  EXPECT_NEAR(mean.at(1), means, tolerance.bound(means));
  EXPECT_NEAR(var.at(1), vars, tolerance.bound(vars));
}
TEST(BatchNorm, InPlaceAndSets) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (Layout layout : {Layout::dense, Layout::transposed})
      for (const Shape& shape : {Shape{3, 4, 5, 50}, Shape{90, 33}, Shape{70, 96}}) for (double size : {1.0, 3e-39}) {  // of subnormal halves, too
        const BatchNormDescriptor d{.dtype = t, .shape = shape};
        auto input = [&](uint64_t seed) { return Tensor::normal(t, d.shape, seed, 0, 1, layout); };
        const Tensor x = input(1), dy = input(2), w = Tensor::normal(t, {shape[1]}, 3, 0, size);
        Tensor y(t, d.shape, layout), dx(t, d.shape, layout), here = input(1), grad = input(2), other_dx = input(1);
        ASSERT_OK(run_plan<BatchNorm>(d, {x, w, {}, {}, {}, y, {}, {}}));
        ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, x, w, {}, {}, dx, {}, {}}));
        ASSERT_OK(run_plan<BatchNormBackward>(d, {grad, here, w, {}, {}, grad, {}, {}}));
        ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, other_dx, w, {}, {}, other_dx, {}, {}}));
        ASSERT_OK(run_plan<BatchNorm>(d, {here, w, {}, {}, {}, here, {}, {}}));
        EXPECT_TRUE(grad.same_bits(dx) && other_dx.same_bits(dx) && here.same_bits(y));
        const Isa before = isa();
        for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
          limit_isa(set);
          Tensor again(t, d.shape, layout), again_dx(t, d.shape, layout);
          EXPECT_OK(run_plan<BatchNorm>(d, {x, w, {}, {}, {}, again, {}, {}}));
          EXPECT_OK(run_plan<BatchNormBackward>(d, {dy, x, w, {}, {}, again_dx, {}, {}}));
          EXPECT_TRUE(again.same_bits(y) && again_dx.same_bits(dx)) << name(set);
        }
        limit_isa(before);
      }
}
TEST(BatchNorm, DirectionalDerivative) {
  for (const Shape& shape : {Shape{3, 4, 5, 2}, Shape{7, 4}}) {
    const BatchNormDescriptor d{.dtype = DType::f64, .shape = shape};
    Tensor x = Tensor::normal(DType::f64, shape, 1), w = Tensor::normal(DType::f64, {4}, 2), b = Tensor::normal(DType::f64, {4}, 3);
    const Tensor dy = Tensor::normal(DType::f64, shape, 4), mean = Tensor::normal(DType::f64, {4}, 5), var = Tensor::uniform(DType::f64, {4}, 6, 0.5, 2);
    Tensor dx(DType::f64, shape), dw(DType::f64, {4}), db(DType::f64, {4}), y(DType::f64, shape);
    const auto dot = [&] {
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += dy.at(i) * y.at(i);
      return sum;
    };
    const auto training = [&] { EXPECT_OK(run_plan<BatchNorm>(d, {x, w, b, {}, {}, y, {}, {}})); return dot(); };
    ASSERT_OK(run_plan<BatchNormBackward>(d, {dy, x, w, {}, {}, dx, dw, db}));
    check_directional(training, x, dx, 5, 1e-6, 1e-4);
    check_directional(training, w, dw, 6);
    check_directional(training, b, db, 7);
    const auto inference = [&] { EXPECT_OK(run_plan<BatchNormInference>(d, {x, w, b, mean, var, y})); return dot(); };
    ASSERT_OK(run_plan<BatchNormInferenceBackward>(d, {dy, x, w, mean, var, dx, dw, db}));
    check_directional(inference, x, dx, 5);
    check_directional(inference, w, dw, 6);
    check_directional(inference, b, db, 7);
  }
}
TEST(BatchNorm, LargerThanTheCaches) {
  for (DType t : {DType::f32, DType::bf16}) for (Shape shape : {Shape{4, 32, 1024, 52}, Shape{52 * 1024, 128}}) {
    if (t == DType::bf16) shape[0] *= 2;
    const BatchNormDescriptor d{.dtype = t, .shape = shape};
    Large x(t, shape), y(t, shape), off(t, shape, 1);
    ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, {}, {}, {}, y, {}, {}}));
    ASSERT_OK(run_plan<BatchNorm>(d, {x, {}, {}, {}, {}, off, {}, {}}));
    EXPECT_TRUE(y.same_bits(off));
    ASSERT_OK(run_plan<BatchNormBackward>(d, {x, x, {}, {}, {}, y, {}, {}}));
    ASSERT_OK(run_plan<BatchNormBackward>(d, {x, x, {}, {}, {}, off, {}, {}}));
    EXPECT_TRUE(y.same_bits(off));
  }
}
TEST(BatchNorm, InferenceOfSamplesDoesNotDependOnTheBatch) {
  const BatchNormDescriptor d{.dtype = DType::bf16, .shape = {5, 6, 333}};
  ASSERT_TRUE(BatchNormInferencePlan::select(Stream::cpu(), d)->precision_guarantee().batch_invariant);
  ASSERT_FALSE(BatchNormPlan::select(Stream::cpu(), d)->precision_guarantee().batch_invariant);
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), mean = Tensor::normal(DType::bf16, {6}, 2), var = Tensor::uniform(DType::bf16, {6}, 3, 0.5, 2);
  Tensor y(DType::bf16, d.shape), one(DType::bf16, {1, 6, 333});
  ASSERT_OK(run_plan<BatchNormInference>(d, {x, {}, {}, mean, var, y}));
  BatchNormDescriptor single = d;
  single.shape[0] = 1;
  for (int64_t s = 0; s < 5; ++s) {
    TensorView sample = x;
    sample.shape[0] = 1, sample.data = sample.as<uint16_t>() + s * sample.strides[0];
    ASSERT_OK(run_plan<BatchNormInference>(single, {sample, {}, {}, mean, var, one}));
    for (int64_t i = 0; i < one.numel(); ++i) ASSERT_EQ(one.at(i), y.at(s * one.numel() + i)) << s << " " << i;
  }
}
// Gradients of the weights without atomics: the same bits in every run.
TEST(BatchNorm, case_norm_dweight_determinism) {
  const BatchNormDescriptor d{.dtype = DType::bf16, .shape = {64, 32, 256}};
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), dy = Tensor::normal(DType::bf16, d.shape, 2);
  Tensor dx(DType::bf16, d.shape), dw(DType::bf16, {32}), db(DType::bf16, {32});
  check_repeat_bits<BatchNormBackward>(d, {dy, x, {}, {}, {}, dx, dw, db});
}
TEST(BatchNorm, case_ln_large_mean) {
  const Tensor x(DType::f32, {4, 1}, {40000, 40001, 40002, 40003});
  Tensor y(DType::f32, {4, 1});
  ASSERT_OK(run_plan<BatchNorm>({.shape = {4, 1}}, {x, {}, {}, {}, {}, y, {}, {}}));
  const std::vector<double> want = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
TEST(BatchNorm, case_ln_huge) {
  const Tensor x(DType::f32, {4, 1}, {1e30, -1e30, 2e30, -2e30});
  Tensor y(DType::f32, {4, 1});
  ASSERT_OK(run_plan<BatchNorm>({.shape = {4, 1}}, {x, {}, {}, {}, {}, y, {}, {}}));
  const std::vector<double> want = {0.6324555, -0.6324555, 1.2649111, -1.2649111};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
TEST(BatchNorm, ContractAndBits) {
  for (DType t : {DType::bf16, DType::f32})
    for (const Shape& shape : {Shape{25, 6, 3, 43}, Shape{1100, 40}}) {
      const BatchNormDescriptor d{.dtype = t, .shape = shape};
      const Shape c = {shape[1]};
      const Tensor x = Tensor::normal(t, shape, 1), dy = Tensor::normal(t, shape, 2), w = Tensor::normal(t, c, 3), b = Tensor::normal(t, c, 4);
      Tensor y(t, shape), mean(DType::f32, c), rstd(DType::f32, c), dx(t, shape), dw(t, c), db(t, c);
      Tensor running_mean = Tensor::normal(t, c, 5), running_var = Tensor::uniform(t, c, 6, 0.5, 2);
      check_contract<BatchNorm>(d, {x, w, b, running_mean, running_var, y, mean, rstd});
      check_repeat_bits<BatchNorm>(d, {x, w, b, running_mean, running_var, y, mean, rstd});
      check_contract<BatchNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
      check_repeat_bits<BatchNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
      check_contract<BatchNormInference>(d, {x, w, b, running_mean, running_var, y});
      check_repeat_bits<BatchNormInference>(d, {x, w, b, running_mean, running_var, y});
      check_contract<BatchNormInferenceBackward>(d, {dy, x, w, running_mean, running_var, dx, dw, db});
      check_repeat_bits<BatchNormInferenceBackward>(d, {dy, x, w, running_mean, running_var, dx, dw, db});
    }
}
TEST(BatchNorm, Refusals) {
  auto refuse = [&](BatchNormDescriptor d, std::initializer_list<std::string_view> fragments) {
    expect_refused(BatchNormPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
    expect_refused(BatchNormBackwardPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
  };
  refuse({.shape = {5}}, {"shape"});
  refuse({.shape = {1, 6}}, {"batch_norm", "[1, 6]", "1 value a channel"});
  refuse({.shape = {1, 6, 1, 1}}, {"[1, 6, 1, 1]", "at least 2"});
  refuse({.shape = {2, 6}, .eps = -1}, {"eps -1"});
  refuse({.shape = {2, 6}, .eps = NAN}, {"eps"});
  refuse({.shape = {2, 6}, .weight_dtype = DType::f16}, {"weight_dtype f16", "f32"});
  expect_refused(BatchNormInferencePlan::select(Stream::cpu(), {.shape = {5}}).status(), Code::invalid_problem, {"shape"});
  EXPECT_TRUE(BatchNormInferencePlan::select(Stream::cpu(), {.shape = {1, 6}}).ok());
  const Tensor x = Tensor::normal(DType::f32, {4, 6}, 1), vector(DType::f32, {6});
  Tensor y(DType::f32, {4, 6}), dw(DType::f32, {6});
  const BatchNormDescriptor d{.shape = {4, 6}};
  expect_refused(run_plan<BatchNormBackward>(d, {x, x, {}, vector, {}, y, {}, {}}), Code::invalid_problem, {"rstd is missing"});
  expect_refused(run_plan<BatchNorm>(d, {x, {}, {}, {}, {}, y, {}, {}, NAN}), Code::invalid_problem, {"momentum", "finite"});
  expect_refused(run_plan<BatchNormInference>(d, {x, {}, {}, vector, {}, y}), Code::invalid_problem, {"var", "missing"});
  expect_refused(run_plan<BatchNormInferenceBackward>(d, {x, {}, {}, vector, vector, y, dw, {}}), Code::invalid_problem, {"x is missing", "dweight"});
}

}  // namespace
}  // namespace baracuda
