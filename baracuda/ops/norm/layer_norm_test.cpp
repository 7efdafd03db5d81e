#include "baracuda/ops/norm/layer_norm.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: plain loops in long double over row-major values. A mean is right to a rounding of the spread, so every xhat has an
// error of that order, whatever its own size.
struct Oracle { std::vector<double> y, mean, rstd, dx, dweight, dbias, y_scale, dx_scale, dweight_scale, dbias_scale; };
Oracle oracle(const LayerNormDescriptor& d, int64_t n, const Tensor& x, const Tensor* weight, const Tensor* bias, const Tensor* dy) {
  const int64_t rows = n ? d.shape.numel() / n : 0;
  Oracle o;
  for (auto* v : {&o.dweight, &o.dbias, &o.dweight_scale, &o.dbias_scale}) v->assign(size_t(n), 0);
  auto w = [&](int64_t i) { return weight ? weight->at(i) : 1; };
  for (int64_t r = 0; r < rows; ++r) {
    long double mean = 0, squares = 0, g_mean = 0, dot = 0, scale = 0;
    const long double first = x.at(r * n);
    for (int64_t i = 0; i < n; ++i) mean += x.at(r * n + i) - first;
    mean /= n;  // from the first element: whole, it would be rounded where it is large
    auto from_mean = [&](int64_t i) { return (x.at(r * n + i) - first) - mean; };
    for (int64_t i = 0; i < n; ++i) squares += from_mean(i) * from_mean(i);
    const long double rstd = 1 / std::sqrt(squares / n + (long double)(d.eps));
    o.mean.push_back(double(first + mean)), o.rstd.push_back(double(rstd));
    for (int64_t i = 0; i < n; ++i) {
      const long double xhat = from_mean(i) * rstd, b = bias ? bias->at(i) : 0;
      o.y.push_back(double(xhat * w(i) + b)), o.y_scale.push_back(double((1 + std::fabs(xhat)) * std::fabs(w(i)) + std::fabs(b)));
      if (!dy) continue;
      const long double e = dy->at(r * n + i), g = e * w(i);
      g_mean += g / n, dot += g * xhat / n, scale += std::fabs(g) * (1 + std::fabs(xhat)) / n;
      o.dweight[size_t(i)] += double(e * xhat), o.dweight_scale[size_t(i)] += double(std::fabs(e) * (1 + std::fabs(xhat)));
      o.dbias[size_t(i)] += double(e), o.dbias_scale[size_t(i)] += double(std::fabs(e));
    }
    for (int64_t i = 0; dy && i < n; ++i) {
      const long double xhat = from_mean(i) * rstd, g = dy->at(r * n + i) * w(i);
      o.dx.push_back(double(rstd * (g - g_mean - xhat * dot)));
      o.dx_scale.push_back(double(rstd * (std::fabs(g) + (1 + std::fabs(xhat)) * scale)));
    }
  }
  return o;
}
struct Case {
  LayerNormDescriptor d;
  bool weight = true, bias = true;
  Layout layout = Layout::dense;
  double mean = 0.3, std = 2;
  bool outlier = false;  // the second row begins 20 std from its mean
};
void check_values(const Case& c) {
  const LayerNormDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " weight ", c.weight, " bias ", c.bias, " layout ", int(c.layout)));
  const DType t = d.dtype, wt = d.weight_dtype.value_or(t);
  Shape outer, inner;
  for (int i = 0; i < d.shape.rank; ++i) (i < d.shape.rank - d.axes ? outer : inner).push_back(d.shape[i]);
  const int64_t n = inner.numel();
  Tensor x = Tensor::normal(t, d.shape, 1, c.mean, c.std, c.layout);
  if (c.outlier) x.set(n, c.mean + 20 * c.std);
  const Tensor dy = Tensor::normal(t, d.shape, 2, 0, 1, c.layout);
  const Tensor weight = c.weight ? Tensor::normal(wt, inner, 3, 1, 0.5) : Tensor(), bias = c.bias ? Tensor::normal(wt, inner, 4) : Tensor();
  Tensor y(t, d.shape, c.layout), mean(accumulator(t), outer), rstd(accumulator(t), outer), dx(t, d.shape, c.layout);
  Tensor dweight = c.weight ? Tensor(wt, inner) : Tensor(), dbias = c.bias ? Tensor(wt, inner) : Tensor();
  ASSERT_OK(run_plan<LayerNorm>(d, {x, weight, bias, y, mean, rstd}));
  const Oracle o = oracle(d, n, x, c.weight ? &weight : nullptr, c.bias ? &bias : nullptr, &dy);
  EXPECT_CLOSE(mean, o.mean, {.ulps = 1, .terms = double(n), .condition = c.std});
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1, .terms = double(n)});
  EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = double(n)}, &o.y_scale);
  EXPECT_TRUE(y.guards_intact() && mean.guards_intact() && rstd.guards_intact());
  for (bool saved : {true, false}) {
    dx.poison();
    if (c.weight) dweight.poison();
    if (c.bias) dbias.poison();
    ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, weight, saved ? mean.view() : TensorView(), saved ? rstd.view() : TensorView(), dx, dweight, dbias}));
    EXPECT_CLOSE(dx, o.dx, {.ulps = 1, .terms = double(n)}, &o.dx_scale);
    if (c.weight) EXPECT_CLOSE(dweight, o.dweight, {.ulps = 1, .terms = double(d.shape.numel())}, &o.dweight_scale);
    if (c.bias) EXPECT_CLOSE(dbias, o.dbias, {.ulps = 1, .terms = double(d.shape.numel())}, &o.dbias_scale);
    EXPECT_TRUE(dx.guards_intact() && (!c.weight || dweight.guards_intact()) && (!c.bias || dbias.guards_intact()));
  }
}

TEST(LayerNorm, ValuesForEveryDtype) {
  for (DType t : kDTypesHere)
    for (bool weight : {false, true})
      for (bool bias : {false, true}) {
        check_values({{.dtype = t, .shape = {5, 77}}, weight, bias});
        check_values({{.dtype = t, .shape = {3, 4, 5, 6}, .axes = 3, .weight_dtype = DType::f32}, weight, bias});
      }
}
TEST(LayerNorm, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed})
    for (const Shape& shape : {Shape{3}, Shape{31}, Shape{2, 32}, Shape{3, 33}, Shape{2, 3, 65}, Shape{100, 7}, Shape{2, 1, 3, 129}, Shape{1, 5000}})
      if (layout != Layout::outer_reversed || shape.rank > 1)
        check_values({{.dtype = shape.rank == 2 ? DType::bf16 : DType::f32, .shape = shape}, true, true, layout});
  check_values({{.dtype = DType::f32, .shape = {4, 3, 7}, .axes = 3}});
  check_values({{.dtype = DType::f32, .shape = {9000, 6}}});
  check_values({{.dtype = DType::bf16, .shape = {2, 20000}}});
  check_values({{.dtype = DType::f64, .shape = {2, 9001}}});
  if (on_cuda()) check_values({{.dtype = DType::f32, .shape = {2, 4300001}}, true, true, Layout::dense, 3, 2, true});  // more sums of chunks than a warp joins
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {  // one begins far from its mean
    check_values({{.dtype = t, .shape = {7, 40960}}, true, true, Layout::dense, 3, 2, true});
    check_values({{.dtype = t, .shape = {2, 3, 20488}, .weight_dtype = DType::f32}, true, true, Layout::padded, 3, 2, true});
  }
}
// Few rows of one warp's elements and more, not all a multiple of anything; one of them begins far from its mean, which halves are summed around then.
TEST(LayerNorm, FewRowsOfEveryWidth) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : {500, 640, 1024, 1025, 1280, 1500, 2047}) {
      check_values({{.dtype = t, .shape = {33, n}}, true, true, n % 8 ? Layout::padded : Layout::dense, 0.3, 2, true});
      check_values({{.dtype = t, .shape = {131, n}}, true, true, Layout::padded, 0.3, 2, true});
      check_values({{.dtype = t, .shape = {601, n}}, true, true, n % 8 ? Layout::padded : Layout::dense, 0.3, 2, true});
    }
}
// Dense rows, each of which begins elsewhere in 16 bytes and ends there; some lengths leave a warp one element, some rows the last block without a row for
// each of its teams.
TEST(LayerNorm, RowsOfEveryAlignment) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : {33, 70, 127, 257, 545, 577, 1023, 8193, 8269, 9217}) check_values({{.dtype = t, .shape = {n < 2000 ? 37 : 3, n}}, n % 2 == 1, n % 3 > 0});
  check_values({{.dtype = DType::bf16, .shape = {300, 1023}, .weight_dtype = DType::f32}, true, true, Layout::padded});
  check_values({{.dtype = DType::f32, .shape = {2, 19, 129}}, true, true, Layout::outer_reversed});
}
TEST(LayerNorm, SpecialRowsBesideOthers) {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t n : {40, 127, 1023}) {
      const LayerNormDescriptor d{.dtype = t, .shape = {11, n}};
      Tensor x = Tensor::normal(t, d.shape, 1), y(t, d.shape), dx(t, d.shape), with(t, d.shape), dx_with(t, d.shape);
      const Tensor dy = Tensor::normal(t, d.shape, 2);
      ASSERT_OK(run_plan<LayerNorm>(d, {x, {}, {}, y, {}, {}}));
      ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, {}, {}, {}, dx, {}, {}}));
      x.set(3 * n + n / 2, NAN), x.set(6 * n - 1, INFINITY), x.set(8 * n, t == DType::f32 ? 1e30 : 3e38);
      ASSERT_OK(run_plan<LayerNorm>(d, {x, {}, {}, with, {}, {}}));
      ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, {}, {}, {}, dx_with, {}, {}}));
      for (int64_t i = 0; i < 11 * n; ++i) {
        const int64_t row = i / n;
        if (row == 3 || row == 5) EXPECT_TRUE(std::isnan(with.at(i)) && std::isnan(dx_with.at(i))) << i;
        else if (row == 8) EXPECT_TRUE(std::isfinite(with.at(i))) << i;
        else EXPECT_TRUE(with.at(i) == y.at(i) && dx_with.at(i) == dx.at(i)) << i;
      }
    }
}
// Few rows that threads share: values, and the bits of the same rows in a batch that they do not share.
TEST(LayerNorm, RowsInPieces) {
  for (DType t : kDTypesHere) check_values({{.dtype = t, .shape = {1, 70001}}, true, true});
  check_values({{.dtype = DType::bf16, .shape = {3, 270000}, .weight_dtype = DType::f32}, true, false, Layout::padded});
  check_values({{.dtype = DType::f32, .shape = {2, 2, 270001}}, false, true, Layout::outer_reversed});
  check_values({{.dtype = DType::f64, .shape = {2, 3, 50000}, .axes = 2, .weight_dtype = DType::f32}, true, true});
  const int64_t n = 65600;
  for (const auto& [dtype, saved] : {std::pair{DType::bf16, false}, {DType::f32, false}, {DType::bf16, true}, {DType::f32, true}}) {
    const DType t = dtype;
    const bool statistics = saved;
    const auto kept = [statistics](const TensorView& v) { return statistics ? v : TensorView(); };
    const LayerNormDescriptor many{.dtype = t, .shape = {17, n}}, one{.dtype = t, .shape = {1, n}};
    const Tensor x = Tensor::normal(t, many.shape, 1, 3), dy = Tensor::normal(t, many.shape, 2), weight = Tensor::normal(t, {n}, 4, 1, 1), bias = Tensor::normal(t, {n}, 5);
    Tensor y(t, many.shape), mean(DType::f32, {17}), rstd(DType::f32, {17}), dx(t, many.shape), y1(t, one.shape), mean1(DType::f32, {1}), rstd1(DType::f32, {1});
    Tensor dx1(t, one.shape), dweight(t, {n}), dbias(t, {n});
    const auto row = [&](const Tensor& all) {
      TensorView v = all;
      v.shape = one.shape, v.data = all.view().as<char>() + 16 * n * int64_t(byte_size(t));
      return v;
    };
    ASSERT_OK(run_plan<LayerNorm>(many, {x, weight, bias, y, mean, rstd}));
    ASSERT_OK(run_plan<LayerNormBackward>(many, {dy, x, weight, kept(mean), kept(rstd), dx, {}, {}}));
    const LayerNorm::Args a{row(x), weight, bias, y1, mean1, rstd1};
    const LayerNormBackward::Args b{row(dy), row(x), weight, kept(mean1), kept(rstd1), dx1, dweight, dbias};
    ASSERT_OK(run_plan<LayerNorm>(one, a));
    ASSERT_OK(run_plan<LayerNormBackward>(one, b));
    EXPECT_TRUE(rstd1.at(0) == rstd.at(16) && mean1.at(0) == mean.at(16));
    EXPECT_EQ(std::memcmp(y1.view().data, row(y).data, size_t(n) * byte_size(t)), 0);
    EXPECT_EQ(std::memcmp(dx1.view().data, row(dx).data, size_t(n) * byte_size(t)), 0);
    check_repeat_bits<LayerNorm>(one, a);
    check_repeat_bits<LayerNormBackward>(one, b);
    check_contract<LayerNormBackward>(one, b);
    Tensor here(t, one.shape), grad(t, one.shape);
    std::memcpy(here.view().data, row(x).data, size_t(n) * byte_size(t)), std::memcpy(grad.view().data, row(dy).data, size_t(n) * byte_size(t));
    ASSERT_OK(run_plan<LayerNormBackward>(one, {grad, here, weight, kept(mean1), kept(rstd1), grad, {}, {}}));
    ASSERT_OK(run_plan<LayerNorm>(one, {here, weight, bias, here, {}, {}}));
    EXPECT_TRUE(here.same_bits(y1) && grad.same_bits(dx1));
  }
}
// Long rows that climb, so that no part of one stands for another; more rows than a GPU's blocks have at once.
TEST(LayerNorm, LongRowsThatClimb) {
  for (DType t : {DType::bf16, DType::f32}) {
    const int64_t rows = on_cuda() ? 150 : 3, n = 20488;
    const LayerNormDescriptor d{.dtype = t, .shape = {rows, n}};
    Tensor x = Tensor::normal(t, d.shape, 1);
    for (int64_t i = 0; i < rows * n; ++i) x.set(i, x.at(i) + 40 * double(i % n) / double(n));
    const Tensor dy = Tensor::normal(t, d.shape, 2), weight = Tensor::normal(t, {n}, 3, 1, 0.5), bias = Tensor::normal(t, {n}, 4);
    Tensor y(t, d.shape), mean(DType::f32, {rows}), rstd(DType::f32, {rows}), dx(t, d.shape), dweight(t, {n}), dbias(t, {n});
    ASSERT_OK(run_plan<LayerNorm>(d, {x, weight, bias, y, mean, rstd}));
    ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, weight, mean, rstd, dx, dweight, dbias}));
    const Oracle o = oracle(d, n, x, &weight, &bias, &dy);
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_NEAR(mean.at(r), o.mean[size_t(r)], 1e-5) << name(t) << " " << r;
      EXPECT_NEAR(rstd.at(r) / o.rstd[size_t(r)], 1, 2e-6) << name(t) << " " << r;
    }
    EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = double(n)}, &o.y_scale);
    EXPECT_CLOSE(dx, o.dx, {.ulps = 1, .terms = double(n)}, &o.dx_scale);
    EXPECT_CLOSE(dweight, o.dweight, {.ulps = 1, .terms = double(n)}, &o.dweight_scale);
    EXPECT_CLOSE(dbias, o.dbias, {.ulps = 1, .terms = double(n)}, &o.dbias_scale);
  }
}
TEST(LayerNorm, OneElementIsItsMean) {
  const Tensor x = Tensor::normal(DType::f32, {3, 1}, 1), bias = Tensor::normal(DType::f32, {1}, 2);
  Tensor y(DType::f32, {3, 1});
  ASSERT_OK(run_plan<LayerNorm>({.shape = {3, 1}}, {x, {}, bias, y, {}, {}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y.at(i), bias.at(0));
}
TEST(LayerNorm, LargeMeanCostsNothing) {  // the mean in two words: 1e4 and a spread of 1 in f32, 1e12 in f64
  check_values({.d = {.dtype = DType::f32, .shape = {7, 1000}}, .mean = 1e4, .std = 1});
  check_values({.d = {.dtype = DType::f64, .shape = {7, 1000}}, .mean = 1e12, .std = 1});
  check_values({.d = {.dtype = DType::f32, .shape = {7, 20000}}, .mean = 1e4, .std = 1});
}
TEST(LayerNorm, VarianceOutOfRange) {
  struct { DType t; double size; int64_t n; } const cases[] = {{DType::f32, 1e30, 100}, {DType::f32, 1e-30, 100}, {DType::f64, 1e200, 100}, {DType::f64, 1e-200, 100}, {DType::f16, 1e4, 100}, {DType::f32, 1e30, 101},
                                                                {DType::f32, 1e30, 1344}, {DType::bf16, 1e-30, 1344},
                                                                {DType::f32, 1e30, 20000}, {DType::f32, 1e-30, 20000}, {DType::bf16, 1e30, 40000}, {DType::f16, 1e4, 20480}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(name(c.t), " ", c.size, " ", c.n));
    const LayerNormDescriptor d{.dtype = c.t, .shape = {4, c.n}, .eps = 0};
    const Tensor x = Tensor::normal(c.t, d.shape, 1, 0, c.size);
    Tensor y(c.t, d.shape);
    ASSERT_OK(run_plan<LayerNorm>(d, {x, {}, {}, y, {}, {}}));
    const Oracle o = oracle(d, c.n, x, nullptr, nullptr, nullptr);
    EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = double(c.n)}, &o.y_scale);
  }
}
TEST(LayerNorm, ConstantRowsNaNAndInfinity) {
  for (DType t : {DType::f32, DType::f16})
    for (int64_t n : {40, 1344, 20480}) {
      Tensor x(t, {4, n}, std::vector<double>(size_t(4 * n), 3.3)), y(t, {4, n});
      x.set(n + n / 4, NAN), x.set(2 * n + n / 4, INFINITY);
      ASSERT_OK(run_plan<LayerNorm>({.dtype = t, .shape = {4, n}}, {x, {}, {}, y, {}, {}}));
      for (int64_t i = 0; i < 4 * n; ++i)
        if (i >= n && i < 3 * n) ASSERT_TRUE(std::isnan(y.at(i))) << i;
        else ASSERT_EQ(y.at(i), 0) << i;
    }
}
TEST(LayerNorm, EmptyShapes) {
  Tensor x(DType::f32, {0, 5}), y(DType::f32, {0, 5}), dweight(DType::f32, {5}), dbias(DType::f32, {5});
  ASSERT_OK(run_plan<LayerNorm>({.shape = {0, 5}}, {x, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<LayerNormBackward>({.shape = {0, 5}}, {x, x, {}, {}, {}, y, dweight, dbias}));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(dweight.at(i) == 0 && dbias.at(i) == 0);
  Tensor none(DType::f32, {3, 0}), out(DType::f32, {3, 0}), mean(DType::f32, {3}), rstd(DType::f32, {3});
  ASSERT_OK(run_plan<LayerNorm>({.shape = {3, 0}}, {none, {}, {}, out, mean, rstd}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(mean.at(i)) && std::isnan(rstd.at(i)));
}
TEST(LayerNorm, InPlaceAndSets) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : {50, 1300, 1344}) for (double size : {1.0, 3e-39}) {  // of subnormal halves, too
      const LayerNormDescriptor d{.dtype = t, .shape = {6, n}};
      const Tensor x = Tensor::normal(t, d.shape, 1), dy = Tensor::normal(t, d.shape, 2), w = Tensor::normal(t, {n}, 3, 0, size);
      Tensor y(t, d.shape), dx(t, d.shape);
      ASSERT_OK(run_plan<LayerNorm>(d, {x, w, {}, y, {}, {}}));
      ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, w, {}, {}, dx, {}, {}}));
      Tensor here = Tensor::normal(t, d.shape, 1), grad = Tensor::normal(t, d.shape, 2);
      ASSERT_OK(run_plan<LayerNormBackward>(d, {grad, here, w, {}, {}, grad, {}, {}}));
      EXPECT_TRUE(grad.same_bits(dx));
      ASSERT_OK(run_plan<LayerNorm>(d, {here, w, {}, here, {}, {}}));
      EXPECT_TRUE(here.same_bits(y));
      const Isa before = isa();
      for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
        limit_isa(set);
        Tensor other(t, d.shape), other_dx(t, d.shape);
        EXPECT_OK(run_plan<LayerNorm>(d, {x, w, {}, other, {}, {}}));
        EXPECT_OK(run_plan<LayerNormBackward>(d, {dy, x, w, {}, {}, other_dx, {}, {}}));
        EXPECT_TRUE(other.same_bits(y) && other_dx.same_bits(dx)) << name(set) << " " << name(t);
      }
      limit_isa(before);
    }
}
TEST(LayerNorm, RowsDoNotDependOnTheBatch) {
  const Tensor x = Tensor::normal(DType::bf16, {9, 333}, 1);
  Tensor all(DType::bf16, {9, 333}), one(DType::bf16, {1, 333});
  ASSERT_OK(run_plan<LayerNorm>({.dtype = DType::bf16, .shape = {9, 333}}, {x, {}, {}, all, {}, {}}));
  TensorView row = x;
  row.shape = {1, 333}, row.data = x.view().as<uint16_t>() + 7 * x.view().strides[0];
  ASSERT_OK(run_plan<LayerNorm>({.dtype = DType::bf16, .shape = {1, 333}}, {row, {}, {}, one, {}, {}}));
  for (int i = 0; i < 333; ++i) EXPECT_EQ(one.at(i), all.at(7 * 333 + i));
}
TEST(LayerNorm, DirectionalDerivative) {
  const LayerNormDescriptor d{.dtype = DType::f64, .shape = {3, 17}};
  Tensor x = Tensor::normal(DType::f64, d.shape, 1), w = Tensor::normal(DType::f64, {17}, 2), b = Tensor::normal(DType::f64, {17}, 3);
  const Tensor dy = Tensor::normal(DType::f64, d.shape, 4);
  Tensor dx(DType::f64, d.shape), dw(DType::f64, {17}), db(DType::f64, {17});
  ASSERT_OK(run_plan<LayerNormBackward>(d, {dy, x, w, {}, {}, dx, dw, db}));
  const auto loss = [&] {
    Tensor y(DType::f64, d.shape);
    EXPECT_OK(run_plan<LayerNorm>(d, {x, w, b, y, {}, {}}));
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += dy.at(i) * y.at(i);
    return sum;
  };
  check_directional(loss, x, dx, 5);
  check_directional(loss, w, dw, 6);
  check_directional(loss, b, db, 7);
}
TEST(LayerNorm, LargerThanTheCaches) {
  for (DType t : {DType::f32, DType::bf16}) {
    const LayerNormDescriptor d{.dtype = t, .shape = {t == DType::f32 ? 3100 : 6200, 2080}};
    Large x(t, d.shape), y(t, d.shape), off(t, d.shape, 1);
    EXPECT_TRUE(past_caches(y, x.view().data));
    ASSERT_OK(run_plan<LayerNorm>(d, {x, {}, {}, y, {}, {}}));
    ASSERT_OK(run_plan<LayerNorm>(d, {x, {}, {}, off, {}, {}}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
    ASSERT_OK(run_plan<LayerNormBackward>(d, {x, x, {}, {}, {}, y, {}, {}}));
    ASSERT_OK(run_plan<LayerNormBackward>(d, {x, x, {}, {}, {}, off, {}, {}}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
  }
}
TEST(LayerNorm, case_ln_large_mean) {
  const Tensor x(DType::f32, {4}, {40000, 40001, 40002, 40003});
  Tensor y(DType::f32, {4});
  ASSERT_OK(run_plan<LayerNorm>({.shape = {4}}, {x, {}, {}, y, {}, {}}));
  const std::vector<double> want = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
TEST(LayerNorm, case_ln_huge) {
  const Tensor x(DType::f32, {4}, {1e30, -1e30, 2e30, -2e30});
  Tensor y(DType::f32, {4});
  ASSERT_OK(run_plan<LayerNorm>({.shape = {4}}, {x, {}, {}, y, {}, {}}));
  const std::vector<double> want = {0.6324555, -0.6324555, 1.2649111, -1.2649111};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
// Gradients of the weights without atomics, in f32 partial sums: the same bits in every run, and no worse for more rows.
TEST(LayerNorm, case_norm_dweight_determinism) {
  const LayerNormDescriptor d{.dtype = DType::bf16, .shape = {2048, 96}};
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), dy = Tensor::normal(DType::bf16, d.shape, 2), w = Tensor::normal(DType::bf16, {96}, 3);
  Tensor dx(DType::bf16, d.shape), dw(DType::bf16, {96}), db(DType::bf16, {96});
  check_repeat_bits<LayerNormBackward>(d, {dy, x, w, {}, {}, dx, dw, db});
  const Oracle o = oracle(d, 96, x, &w, nullptr, &dy);
  EXPECT_CLOSE(dw, o.dweight, {.ulps = 1, .terms = 2048}, &o.dweight_scale);
  EXPECT_CLOSE(db, o.dbias, {.ulps = 1, .terms = 2048}, &o.dbias_scale);
}
TEST(LayerNorm, case_rms_3584) {  // a length that no vector width divides evenly, from memory that no vector is aligned to
  for (int64_t n : {3584, 1, 3, 7, 129, 5128}) check_values({{.dtype = DType::bf16, .shape = {2, n}}, true, true, Layout::padded});
}
TEST(LayerNorm, ContractAndBits) {
  for (DType t : {DType::bf16, DType::f32}) {
    const LayerNormDescriptor d{.dtype = t, .shape = {50, 3, 43}, .axes = 2};
    const Tensor x = Tensor::normal(t, d.shape, 1), dy = Tensor::normal(t, d.shape, 2), w = Tensor::normal(t, {3, 43}, 3), b = Tensor::normal(t, {3, 43}, 4);
    Tensor y(t, d.shape), mean(DType::f32, {50}), rstd(DType::f32, {50}), dx(t, d.shape), dw(t, {3, 43}), db(t, {3, 43});
    check_contract<LayerNorm>(d, {x, w, b, y, mean, rstd});
    check_repeat_bits<LayerNorm>(d, {x, w, b, y, mean, rstd});
    check_contract<LayerNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
    check_repeat_bits<LayerNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
  }
}
TEST(LayerNorm, Refusals) {
  const Stream cpu = Stream::cpu();
  auto refuse = [&](LayerNormDescriptor d, std::initializer_list<std::string_view> fragments) {
    expect_refused(LayerNormPlan::select(cpu, d).status(), Code::invalid_problem, fragments);
    expect_refused(LayerNormBackwardPlan::select(cpu, d).status(), Code::invalid_problem, fragments);
  };
  refuse({.shape = {}}, {"shape"});
  refuse({.shape = {2, 3}, .axes = 0}, {"axes 0", "[1, 2]"});
  refuse({.shape = {2, 3}, .axes = 3}, {"axes 3", "[1, 2]"});
  refuse({.shape = {2, 3}, .eps = -1}, {"eps -1"});
  refuse({.shape = {2, 3}, .eps = NAN}, {"eps"});
  refuse({.shape = {2, 3}, .weight_dtype = DType::f16}, {"weight_dtype f16", "f32"});
  const Tensor x = Tensor::normal(DType::f32, {4, 6}, 1), turned = Tensor::normal(DType::f32, {4, 6}, 1, 0, 1, Layout::transposed), mean(DType::f32, {4});
  const Tensor w = Tensor::normal(DType::f32, {6}, 1, 0, 1, Layout::every_other);
  Tensor y(DType::f32, {4, 6});
  expect_refused(run_plan<LayerNorm>({.shape = {4, 6}}, {turned, {}, {}, y, {}, {}}), Code::unsupported, {"x has stride", "axis 1", "dense"});
  expect_refused(run_plan<LayerNorm>({.shape = {4, 6}}, {x, w, {}, y, {}, {}}), Code::unsupported, {"weight", "dense"});
  expect_refused(run_plan<LayerNormBackward>({.shape = {4, 6}}, {x, x, {}, mean, {}, y, {}, {}}), Code::invalid_problem, {"rstd is missing"});
}

}  // namespace
}  // namespace baracuda
