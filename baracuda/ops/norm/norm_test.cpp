#include "baracuda/ops/norm/norm.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: plain loops in long double (a double oracle errs as f64 rows do) over row-major values; roundings of the contract are made where it names them.
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
    long double squares = 0, dot = 0;
    double dot_scale = 0;
    for (int64_t i = r * n; i < (r + 1) * n; ++i) {
      o.h.push_back(residual ? rounded(d.dtype, x.at(i) + residual->at(i)) : x.at(i));
      squares += static_cast<long double>(o.h.back()) * o.h.back();
    }
    const long double rstd = 1 / std::sqrt(squares / n + d.eps);
    o.rstd.push_back(double(rstd));
    for (int64_t i = 0; i < n; ++i) {
      const long double xhat = o.h[size_t(r * n + i)] * rstd, met = d.cast == NormCast::before_weight ? rounded(d.dtype, double(xhat)) : xhat;
      o.y.push_back(double(met * w(i)));
      if (!dy) continue;
      const double e = dy->at(r * n + i);
      dot += e * w(i) * xhat, dot_scale += std::fabs(double(e * w(i) * xhat));
      o.dweight[size_t(i)] += double(e * met), o.dweight_scale[size_t(i)] += std::fabs(double(e * met));
    }
    for (int64_t i = 0; dy && i < n; ++i) {
      const long double xhat = o.h[size_t(r * n + i)] * rstd;
      const double g = dy->at(r * n + i) * w(i), down = dh ? dh->at(r * n + i) : 0;
      o.dx.push_back(double(rstd * (g - xhat * dot / n) + down));
      o.dx_scale.push_back(double(rstd * (std::fabs(g) + std::fabs(xhat) * dot_scale / n)) + std::fabs(down));
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

TEST(RmsNorm, ValuesWithinTwoUlp) {
  const RmsNormDescriptor d{.shape = {64, 1000}};
  const Tensor x = Tensor::normal(DType::f32, d.shape, 1, 0, 3), weight = Tensor::normal(DType::f32, {1000}, 2, 1, 1);
  Tensor y(DType::f32, d.shape);
  ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, y, {}, {}}));
  const auto c = compare(y, oracle(d, x, nullptr, &weight, nullptr, nullptr).y, {.ulps = 4});
  EXPECT_TRUE(c) << c.message;
  EXPECT_LE(c.worst_ulp, 2);
}
TEST(RmsNorm, LongRowsAndManyRows) {
  check_values({{.dtype = DType::bf16, .shape = {2, 20000}}});
  check_values({{.dtype = DType::f32, .shape = {1, 100001}}});
  check_values({{.dtype = DType::f16, .shape = {7, 40960}, .cast = NormCast::before_weight}});
  check_values({{.dtype = DType::f32, .shape = {41, 16640}, .weight = NormWeight::one_plus}});
  check_values({{.dtype = DType::bf16, .shape = {2, 3, 20488}, .weight_dtype = DType::f32}, false, Layout::padded});
  check_values({{.dtype = DType::f32, .shape = {9000, 6}}});
  for (bool residual : {false, true}) check_values({{.dtype = DType::f32, .shape = {300, 8195}}, residual});
  if (on_cuda()) check_values({{.dtype = DType::bf16, .shape = {2, 4300001}}});  // more sums of chunks than a warp joins
}
TEST(RmsNorm, FewRowsOfEveryWidth) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : {500, 640, 1024, 1025, 1280, 1500, 2047}) {
      check_values({{.dtype = t, .shape = {33, n}}, n % 2 == 0, n % 8 ? Layout::padded : Layout::dense});
      check_values({{.dtype = t, .shape = {131, n}}, n % 2 == 0, Layout::padded});
      check_values({{.dtype = t, .shape = {601, n}}, n % 2 == 0, n % 8 ? Layout::padded : Layout::dense});
    }
}
// Dense rows, each of which begins elsewhere in 16 bytes and ends there; some lengths leave a warp one element, some rows the last block without a row for
// each of its teams.
TEST(RmsNorm, RowsOfEveryAlignment) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : {33, 70, 127, 257, 545, 577, 1023, 8193, 8269, 9217})
      for (bool residual : {false, true}) check_values({{.dtype = t, .shape = {n < 2000 ? 37 : 3, n}, .weight = n % 3 ? NormWeight::plain : NormWeight::one_plus}, residual});
  check_values({{.dtype = DType::bf16, .shape = {300, 1023}, .weight_dtype = DType::f32, .cast = NormCast::before_weight}, true, Layout::padded});
  check_values({{.dtype = DType::f32, .shape = {2, 19, 129}}, true, Layout::outer_reversed});
}
TEST(RmsNorm, SpecialRowsBesideOthers) {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t n : {40, 127, 1023}) {
      const RmsNormDescriptor d{.dtype = t, .shape = {11, n}, .weight = NormWeight::none};
      Tensor x = Tensor::normal(t, d.shape, 1), y(t, d.shape), dx(t, d.shape), with(t, d.shape), dx_with(t, d.shape);
      const Tensor dy = Tensor::normal(t, d.shape, 2);
      ASSERT_OK(run_plan<RmsNorm>(d, {x, {}, {}, y, {}, {}}));
      ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, {}, {}, {}, dx, {}}));
      x.set(3 * n + n / 2, NAN), x.set(8 * n, t == DType::f32 ? 1e30 : 3e38);
      ASSERT_OK(run_plan<RmsNorm>(d, {x, {}, {}, with, {}, {}}));
      ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, {}, {}, {}, dx_with, {}}));
      for (int64_t i = 0; i < 11 * n; ++i) {
        const int64_t row = i / n;
        if (row == 3) EXPECT_TRUE(std::isnan(with.at(i)) && std::isnan(dx_with.at(i))) << i;
        else if (row == 8) EXPECT_TRUE(std::isfinite(with.at(i))) << i;
        else EXPECT_TRUE(with.at(i) == y.at(i) && dx_with.at(i) == dx.at(i)) << i;
      }
    }
}
// Few rows that threads share: values, and the bits of the same rows in a batch that they do not share.
TEST(RmsNorm, RowsInPieces) {
  for (DType t : kDTypesHere) check_values({{.dtype = t, .shape = {1, 70001}}, true});
  check_values({{.dtype = DType::bf16, .shape = {3, 270000}, .weight = NormWeight::one_plus, .weight_dtype = DType::f32}, false, Layout::padded});
  check_values({{.dtype = DType::f32, .shape = {2, 2, 270001}, .weight = NormWeight::none, .cast = NormCast::before_weight}, true, Layout::outer_reversed});
  check_values({{.dtype = DType::f64, .shape = {2, 65537}, .weight_dtype = DType::f32}});
  const int64_t n = 65600;
  for (DType t : {DType::bf16, DType::f32})
    for (const auto& [with_residual, saved] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      const RmsNormDescriptor many{.dtype = t, .shape = {17, n}}, one{.dtype = t, .shape = {1, n}};
      const Tensor x = Tensor::normal(t, many.shape, 1), dy = Tensor::normal(t, many.shape, 2), r = Tensor::normal(t, many.shape, 3), weight = Tensor::normal(t, {n}, 4, 1, 1);
      Tensor y(t, many.shape), rstd(DType::f32, {17}), dx(t, many.shape), y1(t, one.shape), rstd1(DType::f32, {1}), dx1(t, one.shape), dweight(t, {n});
      const auto row = [&](const Tensor& all) {
        TensorView v = all;
        v.shape = one.shape, v.data = all.view().as<char>() + 16 * n * int64_t(byte_size(t));
        return v;
      };
      const bool residual = with_residual, statistics = saved;
      const auto given = [residual](const TensorView& v) { return residual ? v : TensorView(); };
      const auto kept = [statistics](const TensorView& v) { return statistics ? v : TensorView(); };
      ASSERT_OK(run_plan<RmsNorm>(many, {x, weight, given(r), y, {}, rstd}));
      ASSERT_OK(run_plan<RmsNormBackward>(many, {dy, x, weight, kept(rstd), given(r), dx, {}}));
      const RmsNorm::Args a{row(x), weight, given(row(r)), y1, {}, rstd1};
      const RmsNormBackward::Args b{row(dy), row(x), weight, kept(rstd1), given(row(r)), dx1, dweight};
      ASSERT_OK(run_plan<RmsNorm>(one, a));
      ASSERT_OK(run_plan<RmsNormBackward>(one, b));
      EXPECT_EQ(rstd1.at(0), rstd.at(16));
      EXPECT_EQ(std::memcmp(y1.view().data, row(y).data, size_t(n) * byte_size(t)), 0);
      EXPECT_EQ(std::memcmp(dx1.view().data, row(dx).data, size_t(n) * byte_size(t)), 0);
      check_repeat_bits<RmsNorm>(one, a);
      check_repeat_bits<RmsNormBackward>(one, b);
      check_contract<RmsNormBackward>(one, b);
      Tensor here(t, one.shape), grad(t, one.shape);
      std::memcpy(here.view().data, row(x).data, size_t(n) * byte_size(t)), std::memcpy(grad.view().data, row(dy).data, size_t(n) * byte_size(t));
      ASSERT_OK(run_plan<RmsNormBackward>(one, {grad, here, weight, kept(rstd1), given(row(r)), grad, {}}));
      ASSERT_OK(run_plan<RmsNorm>(one, {here, weight, given(row(r)), here, {}, {}}));
      EXPECT_TRUE(here.same_bits(y1) && grad.same_bits(dx1));
    }
}
TEST(RmsNorm, BroadcastAndReversedInputs) {
  const RmsNormDescriptor d{.shape = {6, 40}};
  const Tensor row = Tensor::normal(DType::f32, {40}, 1), weight = Tensor::normal(DType::f32, {40}, 2, 1, 1, Layout::reversed);
  TensorView wide = row;
  wide.shape = {6, 40}, wide.strides = {0, 1};
  Tensor y(DType::f32, d.shape), one(DType::f32, {40});
  ASSERT_OK(run_plan<RmsNorm>(d, {wide, weight, {}, y, {}, {}}));
  const Tensor dense_weight(DType::f32, {40}, weight.values());
  ASSERT_OK(run_plan<RmsNorm>({.shape = {40}}, {row, dense_weight, {}, one, {}, {}}));
  for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(y.at(i), one.at(i % 40));
  Tensor dweight(DType::f32, {40}, Layout::every_other), dense(DType::f32, {40}), dx(DType::f32, d.shape);
  const Tensor dy = Tensor::normal(DType::f32, d.shape, 3);
  ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, wide, weight, {}, {}, dx, dweight}));
  ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, wide, weight, {}, {}, dx, dense}));
  EXPECT_TRUE(dweight.same_bits(dense) && dweight.guards_intact());
}
TEST(RmsNorm, Empty) {
  Tensor x(DType::f32, {0, 4}), y(DType::f32, {0, 4}), rstd(DType::f32, {0}), dweight(DType::f32, {4});
  const Tensor weight(DType::f32, {4}, {1, 2, 3, 4});
  ASSERT_OK(run_plan<RmsNorm>({.shape = {0, 4}}, {x, weight, {}, y, {}, rstd}));
  ASSERT_OK(run_plan<RmsNormBackward>({.shape = {0, 4}}, {x, x, weight, {}, {}, y, dweight}));
  EXPECT_EQ(dweight.values(), std::vector<double>(4, 0));
  Tensor none(DType::f32, {3, 0}), out(DType::f32, {3, 0}), no_weight(DType::f32, {0}), three(DType::f32, {3});
  ASSERT_OK(run_plan<RmsNorm>({.shape = {3, 0}}, {none, no_weight, {}, out, {}, three}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(three.at(i)));
  ASSERT_OK(run_plan<RmsNormBackward>({.shape = {3, 0}}, {none, none, no_weight, {}, {}, out, no_weight}));
}
TEST(RmsNorm, SpecialValuesStayInTheirRow) {
  const Tensor x(DType::f32, {4, 3}, {NAN, 1, 2, INFINITY, 1, -2, -0.0, 3, 4, 0, 0, -0.0});
  Tensor y(DType::f32, {4, 3}), rstd(DType::f32, {4});
  ASSERT_OK(run_plan<RmsNorm>({.shape = {4, 3}, .weight = NormWeight::none}, {x, {}, {}, y, {}, rstd}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y.at(i)));
  EXPECT_TRUE(std::isnan(y.at(3)));
  EXPECT_EQ(y.at(4), 0);
  EXPECT_TRUE(y.at(5) == 0 && std::signbit(y.at(5)));
  EXPECT_TRUE(y.at(6) == 0 && std::signbit(y.at(6)));
  EXPECT_TRUE(y.at(9) == 0 && y.at(11) == 0 && std::signbit(y.at(11)));
  EXPECT_EQ(rstd.at(3), 1000);
}
TEST(RmsNorm, case_ln_huge_rms) {  // squares beyond f32, and beyond f64
  const std::vector<double> want = {0.63245553, -0.63245553, 1.26491106, -1.26491106};
  for (double scale : {1e30, 1e-30}) {
    Tensor x(DType::f32, {4}, {scale, -scale, 2 * scale, -2 * scale}), y(DType::f32, {4}), dx(DType::f32, {4});
    const Tensor dy(DType::f32, {4}, {1, 0, 0, 0});
    const RmsNormDescriptor d{.shape = {4}, .eps = 0, .weight = NormWeight::none};
    ASSERT_OK(run_plan<RmsNorm>(d, {x, {}, {}, y, {}, {}}));
    EXPECT_CLOSE(y, want, {.ulps = 4});
    ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, {}, {}, {}, dx, {}}));
    const double rstd = 1 / (std::sqrt(2.5) * scale);
    EXPECT_CLOSE(dx, (std::vector<double>{0.9 * rstd, 0.1 * rstd, -0.2 * rstd, 0.2 * rstd}), {.ulps = 4});
  }
  for (double scale : {1e200, 1e-200, 1e-300}) {
    const Tensor x(DType::f64, {4}, {scale, -scale, 2 * scale, -2 * scale});
    Tensor y(DType::f64, {4});
    ASSERT_OK(run_plan<RmsNorm>({.dtype = DType::f64, .shape = {4}, .eps = 0, .weight = NormWeight::none}, {x, {}, {}, y, {}, {}}));
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.at(i), want[size_t(i)], 1e-8) << scale;
    ASSERT_OK(run_plan<RmsNorm>({.dtype = DType::f64, .shape = {4}, .weight = NormWeight::none}, {x, {}, {}, y, {}, {}}));
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.at(i), scale > 1 ? want[size_t(i)] : 0, 1e-8) << scale;
  }
}
// What one piece of a long row holds reaches all of the row and no other; squares beyond f32 are summed all the same.
TEST(RmsNorm, SpecialValuesInLongRows) {
  for (DType t : {DType::bf16, DType::f32})
    for (double eps : {0.0, 1e-6}) {
      const int64_t n = 33000;
      Tensor x = Tensor::normal(t, {5, n}, 1), y(t, {5, n}), rstd(DType::f32, {5});
      x.set(n + 20000, NAN), x.set(2 * n, INFINITY);
      for (int64_t i = 0; i < n; ++i) x.set(3 * n + i, 1e30 * x.at(i)), x.set(4 * n + i, 1e-30 * x.at(i));
      const RmsNormDescriptor d{.dtype = t, .shape = {5, n}, .eps = eps, .weight = NormWeight::none};
      ASSERT_OK(run_plan<RmsNorm>(d, {x, {}, {}, y, {}, rstd}));
      const Oracle o = oracle(d, x, nullptr, nullptr, nullptr, nullptr);
      for (int64_t r : {0, 3, 4}) {
        EXPECT_NEAR(rstd.at(r) / o.rstd[size_t(r)], 1, 1e-6) << r;
        for (int64_t i = 0; i < n; i += 997) EXPECT_NEAR(y.at(r * n + i), o.y[size_t(r * n + i)], 1e-2 * std::fabs(o.y[size_t(r * n + i)])) << r << " " << i;
      }
      for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(std::isnan(y.at(n + i)) && (i == 0 ? std::isnan(y.at(2 * n)) : y.at(2 * n + i) == 0)) << i;
    }
}
TEST(RmsNorm, case_rms_f16_overflow) {
  const Tensor x(DType::f16, {8}, std::vector<double>(8, 300)), weight(DType::f16, {8}, std::vector<double>(8, 1));
  Tensor y(DType::f16, {8});
  ASSERT_OK(run_plan<RmsNorm>({.dtype = DType::f16, .shape = {8}}, {x, weight, {}, y, {}, {}}));
  EXPECT_EQ(y.values(), std::vector<double>(8, 1));
}
TEST(RmsNorm, case_rms_eps_default) {
  EXPECT_EQ(RmsNormDescriptor{}.eps, 1e-6);
  const Tensor x(DType::bf16, {32}, std::vector<double>(32, 0.058));
  Tensor y(DType::bf16, {32});
  const double v = rounded(DType::bf16, 0.058);
  for (double eps : {1e-6, 0.0078125}) {
    ASSERT_OK(run_plan<RmsNorm>({.dtype = DType::bf16, .shape = {32}, .eps = eps, .weight = NormWeight::none}, {x, {}, {}, y, {}, {}}));
    EXPECT_EQ(y.at(0), rounded(DType::bf16, v / std::sqrt(v * v + eps)));
    EXPECT_NEAR(y.at(0), eps < 1e-3 ? 0.99985 : 0.5486, 0.004);
  }
}
TEST(RmsNorm, case_rms_cast_order) {  // both orders are served, and differ where they should
  const Shape shape{3, 200};
  const Tensor x = Tensor::normal(DType::bf16, shape, 1), weight = Tensor::normal(DType::bf16, {200}, 2, 1, 0.3);
  Tensor end(DType::bf16, shape), before(DType::bf16, shape);
  RmsNormDescriptor d{.dtype = DType::bf16, .shape = shape};
  ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, end, {}, {}}));
  d.cast = NormCast::before_weight;
  ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, before, {}, {}}));
  int differ = 0;
  for (int64_t r = 0; r < 3; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < 200; ++i) squares += x.at(r * 200 + i) * x.at(r * 200 + i);
    const float rstd = float(1 / std::sqrt(squares / 200 + d.eps));
    for (int64_t i = 0; i < 200; ++i) {
      const float xhat = float(x.at(r * 200 + i)) * rstd, w = float(weight.at(i));
      EXPECT_EQ(end.at(r * 200 + i), rounded(DType::bf16, xhat * w));
      EXPECT_EQ(before.at(r * 200 + i), rounded(DType::bf16, float(rounded(DType::bf16, xhat)) * w));
      differ += end.at(r * 200 + i) != before.at(r * 200 + i);
    }
  }
  EXPECT_GT(differ, 0);
}
// Rows of plausible bf16 values, made fast: exponents around 1, any mantissa.
void fill_bf16(const Tensor& t, uint64_t seed) {
  Source source(seed);
  uint16_t* p = t.view().as<uint16_t>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const uint64_t r = source.next();
    p[i] = uint16_t((r & 0x807f) | (0x3e80 + (r >> 20) % 4 * 0x80));
  }
}
TEST(RmsNorm, case_rms_batch_invariance) {  // by the plan's own claim
  constexpr int64_t n = 4096;
  const Tensor weight = Tensor::normal(DType::bf16, {n}, 1, 1, 1);
  std::vector<uint8_t> first_y, first_dx;
  for (int64_t rows : {1, 255, 256, 4096}) {
    const RmsNormDescriptor d{.dtype = DType::bf16, .shape = {rows, n}};
    Tensor x(DType::bf16, d.shape), dy(DType::bf16, d.shape), y(DType::bf16, d.shape), dx(DType::bf16, d.shape);
    fill_bf16(x, uint64_t(rows)), fill_bf16(dy, uint64_t(rows) + 1);
    const int64_t at = rows / 2;
    Tensor row(DType::bf16, {n}), drow(DType::bf16, {n});
    fill_bf16(row, 99), fill_bf16(drow, 98);
    std::memcpy(x.view().as<uint16_t>() + at * n, row.view().data, n * 2);
    std::memcpy(dy.view().as<uint16_t>() + at * n, drow.view().data, n * 2);
    auto plan = RmsNormPlan::select(Stream::cpu(), d);
    ASSERT_TRUE(plan.ok() && plan->precision_guarantee().batch_invariant);
    EXPECT_TRUE(RmsNormPlan::select(Stream::cpu(), d, {.require_batch_invariant = true}).ok());
    ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, y, {}, {}}));
    ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, weight, {}, {}, dx, {}}));
    auto bytes = [&](const Tensor& t) {
      const uint8_t* p = t.view().as<uint8_t>() + at * n * 2;
      return std::vector<uint8_t>(p, p + n * 2);
    };
    if (first_y.empty()) first_y = bytes(y), first_dx = bytes(dx);
    EXPECT_TRUE(bytes(y) == first_y && bytes(dx) == first_dx) << rows;
  }
}
TEST(RmsNorm, case_rms_3584) {
  for (DType t : {DType::f16, DType::bf16})
    for (int64_t n : {3584, 1, 3, 7, 129, 5128}) check_values({{.dtype = t, .shape = {3, n}}, true});
}
TEST(RmsNorm, case_norm_dweight_determinism) {
  const RmsNormDescriptor d{.dtype = DType::bf16, .shape = {4096, 4096}, .weight_dtype = DType::f32};
  Tensor x(DType::bf16, d.shape), dy(DType::bf16, d.shape), dx(DType::bf16, d.shape), dweight(DType::f32, {4096}), first(DType::f32, {4096});
  fill_bf16(x, 1), fill_bf16(dy, 2);
  const Tensor weight = Tensor::normal(DType::f32, {4096}, 3, 1, 1);
  const int before = threads();
  for (int run = 0; run < 20; ++run) {
    set_threads(run % 4 + 1);
    Tensor& out = run == 0 ? first : dweight;
    out.poison();
    ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, weight, {}, {}, dx, out}));
    if (run) ASSERT_TRUE(dweight.same_bits(first)) << run;
  }
  set_threads(before);
  std::vector<double> rstd;
  for (int64_t r = 0; r < 4096; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < 4096; ++i) {
      const double v = __builtin_bit_cast(float, uint32_t(x.view().as<uint16_t>()[r * 4096 + i]) << 16);
      squares += v * v;
    }
    rstd.push_back(1 / std::sqrt(squares / 4096 + d.eps));
  }
  for (int64_t i : {0, 1, 2047, 4095}) {
    double want = 0, scale = 0;
    for (int64_t r = 0; r < 4096; ++r) {
      const double term = dy.at(r * 4096 + i) * x.at(r * 4096 + i) * rstd[size_t(r)];
      want += term, scale += std::fabs(term);
    }
    const Tolerance tolerance{.dtype = DType::f32, .terms = 4096, .condition = scale};
    EXPECT_NEAR(first.at(i), want, tolerance.bound(want));
  }
}

TEST(RmsNorm, FusedAddIsAddThenNorm) {
  for (DType t : kDTypesHere)
    for (NormCast cast : {NormCast::end, NormCast::before_weight}) {
      const RmsNormDescriptor d{.dtype = t, .shape = {5, 131}, .cast = cast};
      const Tensor x = Tensor::normal(t, d.shape, 1), residual = Tensor::normal(t, d.shape, 2, 0, 20), weight = Tensor::normal(t, {131}, 3);
      Tensor y(t, d.shape), h(t, d.shape), alone(t, d.shape), dropped(t, d.shape);
      ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, residual, y, h, {}}));
      ASSERT_OK(run_plan<RmsNorm>(d, {h, weight, {}, alone, {}, {}}));
      ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, residual, dropped, {}, {}}));
      EXPECT_TRUE(y.same_bits(alone) && y.same_bits(dropped)) << name(t);
    }
}
TEST(RmsNorm, InPlace) {
  const RmsNormDescriptor d{.dtype = DType::bf16, .shape = {3, 200}};
  const Tensor weight = Tensor::normal(DType::bf16, {200}, 3), dy = Tensor::normal(DType::bf16, d.shape, 4);
  auto x = [&] { return Tensor::normal(DType::bf16, d.shape, 1); };
  auto residual = [&] { return Tensor::normal(DType::bf16, d.shape, 2); };
  Tensor y(DType::bf16, d.shape), h(DType::bf16, d.shape), plain(DType::bf16, d.shape), dx(DType::bf16, d.shape);
  const Tensor x0 = x(), r0 = residual();
  ASSERT_OK(run_plan<RmsNorm>(d, {x0, weight, r0, y, h, {}}));
  ASSERT_OK(run_plan<RmsNorm>(d, {x0, weight, {}, plain, {}, {}}));
  ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x0, weight, {}, r0, dx, {}}));
  { Tensor a = x(); ASSERT_OK(run_plan<RmsNorm>(d, {a, weight, {}, a, {}, {}})); EXPECT_TRUE(a.same_bits(plain)); }
  { Tensor a = x(), r = residual(); ASSERT_OK(run_plan<RmsNorm>(d, {a, weight, r, a, r, {}})); EXPECT_TRUE(a.same_bits(y) && r.same_bits(h)); }
  { Tensor a = x(), r = residual(); ASSERT_OK(run_plan<RmsNorm>(d, {a, weight, r, r, a, {}})); EXPECT_TRUE(r.same_bits(y) && a.same_bits(h)); }
  { Tensor a = x(), r = residual(); ASSERT_OK(run_plan<RmsNorm>(d, {a, weight, r, a, {}, {}})); EXPECT_TRUE(a.same_bits(y)); }
  { Tensor a = x(), r = residual(); ASSERT_OK(run_plan<RmsNorm>(d, {a, weight, r, r, {}, {}})); EXPECT_TRUE(r.same_bits(y)); }
  { Tensor a = x(); ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, a, weight, {}, r0, a, {}})); EXPECT_TRUE(a.same_bits(dx)); }
  { Tensor e(DType::bf16, d.shape, dy.values()); ASSERT_OK(run_plan<RmsNormBackward>(d, {e, x0, weight, {}, r0, e, {}})); EXPECT_TRUE(e.same_bits(dx)); }
  { Tensor r = residual(); ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x0, weight, {}, r, r, {}})); EXPECT_TRUE(r.same_bits(dx)); }
}

// Of rows that go side by side: the bits of each alone, also in place.
TEST(RmsNorm, ShortRowsTogetherAndAlone) {
  if (on_cuda()) GTEST_SKIP() << "rows that go together are the CPU's";
  for (DType t : kDTypesHere)
    for (int64_t n : {1, 33, 192, 545, 2048})
      for (NormCast cast : {NormCast::end, NormCast::before_weight}) {
        constexpr int64_t rows = 27;
        const RmsNormDescriptor d{.dtype = t, .shape = {rows, n}, .cast = cast};
        Tensor x = Tensor::normal(t, d.shape, 1), y(t, d.shape), alone(t, d.shape);
        Tensor rstd(accumulator(t), {rows}), rstd_alone(accumulator(t), {rows});
        const Tensor weight = Tensor::normal(t, {n}, 2, 1, 1);
        x.set(5 * n, 0), x.set(9 * n + n - 1, NAN);
        ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, y, {}, rstd}));
        for (int64_t r = 0; r < rows; ++r) {
          const auto row = [&](const Tensor& v, int64_t m) {
            TensorView one = v.view();
            one.shape.dim[0] = 1, one.data = one.as<char>() + r * m * int64_t(byte_size(one.dtype));
            return one;
          };
          ASSERT_OK(run_plan<RmsNorm>({.dtype = t, .shape = {1, n}, .cast = cast}, {row(x, n), weight, {}, row(alone, n), {}, row(rstd_alone, 1)}));
        }
        EXPECT_TRUE(y.same_bits(alone) && rstd.same_bits(rstd_alone)) << name(t) << " " << n;
        ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, {}, x, {}, {}}));
        EXPECT_TRUE(x.same_bits(y)) << name(t) << " " << n;
      }
}

TEST(RmsNorm, GradientByDirections) {
  for (NormWeight mode : {NormWeight::plain, NormWeight::one_plus}) {
    const RmsNormDescriptor d{.dtype = DType::f64, .shape = {3, 37}, .eps = 1e-3, .weight = mode};
    Tensor x = Tensor::normal(DType::f64, d.shape, 1), residual = Tensor::normal(DType::f64, d.shape, 2), weight = Tensor::normal(DType::f64, {37}, 3);
    const Tensor dy = Tensor::normal(DType::f64, d.shape, 4), dh = Tensor::normal(DType::f64, d.shape, 5);
    Tensor y(DType::f64, d.shape), h(DType::f64, d.shape), rstd(DType::f64, {3}), dx(DType::f64, d.shape), dweight(DType::f64, {37});
    auto loss = [&] {
      EXPECT_OK(run_plan<RmsNorm>(d, {x, weight, residual, y, h, rstd}));
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += y.at(i) * dy.at(i) + h.at(i) * dh.at(i);
      return sum;
    };
    loss();
    ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, h, weight, rstd, dh, dx, dweight}));
    check_directional(loss, x, dx, 6);
    check_directional(loss, residual, dx, 7);
    check_directional(loss, weight, dweight, 8);
  }
}

TEST(RmsNorm, ContractAndBits) {
  for (DType t : kDTypesHere) {
    const RmsNormDescriptor d{.dtype = t, .shape = {70, 600}, .weight_dtype = DType::f32, .cast = NormCast::before_weight};
    const Tensor x = Tensor::normal(t, d.shape, 1), residual = Tensor::normal(t, d.shape, 2), weight = Tensor::normal(DType::f32, {600}, 3);
    const Tensor dy = Tensor::normal(t, d.shape, 4), dh = Tensor::normal(t, d.shape, 5);
    Tensor y(t, d.shape), h(t, d.shape), rstd(accumulator(t), {70}), dx(t, d.shape), dweight(DType::f32, {600});
    const RmsNorm::Args a{x, weight, residual, y, h, rstd};
    check_repeat_bits<RmsNorm>(d, a);
    ASSERT_OK(run_plan<RmsNorm>(d, a));
    const RmsNormBackward::Args b{dy, h, weight, rstd, dh, dx, dweight};
    check_repeat_bits<RmsNormBackward>(d, b);
    if (t != DType::bf16) continue;
    check_contract<RmsNorm>(d, a);
    check_contract<RmsNormBackward>(d, b);
  }
}
void same_bits_on_every_set(const RmsNormDescriptor& d, double size, bool with_residual, Layout weights = Layout::dense) {
  const Isa best = isa();
  const DType t = d.dtype, w = d.weight_dtype.value_or(t);
  const int64_t rows = d.shape[0], n = d.shape[1];
  const Tensor x = Tensor::normal(t, d.shape, 1, 0, 4), residual = Tensor::normal(t, d.shape, 4), weight = Tensor::normal(w, {n}, 2, 0, size, weights), dy = Tensor::normal(t, d.shape, 3);
  std::vector<uint8_t> first;
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16}) {
    limit_isa(set);
    Tensor y(t, d.shape), h(t, d.shape), rstd(accumulator(t), {rows}), dx(t, d.shape), dweight(w, {n}, weights);
    const auto given = [&](const Tensor& v) { return with_residual ? v.view() : TensorView(); };
    ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, given(residual), y, given(h), rstd}));
    ASSERT_OK(run_plan<RmsNormBackward>(d, {dy, x, weight, {}, given(residual), dx, dweight}));
    std::vector<uint8_t> bytes;
    for (const Tensor* o : {&y, &h, &rstd, &dx, &dweight}) {
      if (o == &h && !with_residual) continue;
      const auto more = o->element_bytes();
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << name(set) << " " << name(t) << " " << rows << " x " << n;
  }
  limit_isa(best);
}
TEST(RmsNorm, SameBitsOnEveryInstructionSet) {
  for (DType t : kDTypesHere) {
    for (NormCast cast : {NormCast::end, NormCast::before_weight})
      for (double size : {1.0, 3e-39}) same_bits_on_every_set({.dtype = t, .shape = {20, 213}, .cast = cast}, size, false);  // of subnormal halves, too
    for (int64_t n : {1, 15, 16, 31, 32, 33, 63, 65, 512, 545, 2101, 33001})
      same_bits_on_every_set({.dtype = t, .shape = {n < 1000 ? 7 : 3, n}, .weight = NormWeight::one_plus, .weight_dtype = n % 2 ? DType::f32 : t}, 1, n % 3 == 0,
                             n % 4 == 1 ? Layout::reversed : Layout::dense);
  }
}
TEST(RmsNorm, RefusesDescriptors) {
  const Stream cpu = Stream::cpu();
  auto refused = [&](const RmsNormDescriptor& d, Code code, std::initializer_list<std::string_view> words) {
    expect_refused(RmsNormPlan::select(cpu, d).status(), code, words);
    expect_refused(RmsNormBackwardPlan::select(cpu, d).status(), code, words);
  };
  refused({.shape = {}}, Code::invalid_problem, {"rms_norm", "shape []", "at least 1"});
  refused({.shape = {2, -3}}, Code::invalid_problem, {"shape [2, -3]"});
  refused({.shape = {4}, .eps = -1e-6}, Code::invalid_problem, {"eps", "not negative"});
  refused({.shape = {4}, .eps = NAN}, Code::invalid_problem, {"eps", "finite"});
  refused({.shape = {4}, .weight = NormWeight(7)}, Code::invalid_problem, {"weight 7"});
  refused({.shape = {4}, .cast = NormCast(7)}, Code::invalid_problem, {"cast 7"});
  refused({.dtype = DType::bf16, .shape = {4}, .weight_dtype = DType::f16}, Code::invalid_problem, {"weight_dtype f16", "bf16"});
  refused({.dtype = DType::i32, .shape = {4}}, Code::unsupported, {"no i32", "f16 bf16 f32 f64"});
}
TEST(RmsNorm, RefusesArguments) {
  const Tensor x = Tensor::normal(DType::f32, {3, 4}, 1), weight = Tensor::normal(DType::f32, {4}, 2);
  const Tensor strided = Tensor::normal(DType::f32, {3, 4}, 1, 0, 1, Layout::transposed);
  Tensor y(DType::f32, {3, 4}), dweight(DType::f32, {4});
  const RmsNormDescriptor d{.shape = {3, 4}}, bare{.shape = {3, 4}, .weight = NormWeight::none};
  expect_refused(run_plan<RmsNorm>(d, {x, {}, {}, y, {}, {}}), Code::invalid_problem, {"weight is missing", "plain"});
  expect_refused(run_plan<RmsNorm>(bare, {x, weight, {}, y, {}, {}}), Code::invalid_problem, {"weight is given", "none"});
  expect_refused(run_plan<RmsNorm>(d, {x, weight, {}, y, y, {}}), Code::invalid_problem, {"residual_out", "no residual"});
  expect_refused(run_plan<RmsNorm>(d, {strided, weight, {}, y, {}, {}}), Code::unsupported, {"x has stride 3", "last axis"});
  expect_refused(run_plan<RmsNormBackward>(bare, {x, x, {}, {}, {}, y, dweight}), Code::invalid_problem, {"dweight is given"});
  expect_refused(run_plan<RmsNormBackward>(d, {x, strided, weight, {}, {}, y, dweight}), Code::unsupported, {"x has stride 3"});
}

TEST(RmsNorm, LargerThanTheCaches) {
  for (DType t : {DType::f32, DType::bf16}) {
    const int64_t n = 2080;
    const RmsNormDescriptor d{.dtype = t, .shape = {t == DType::f32 ? 3100 : 6200, n}};
    for (bool with_residual : {false, true}) {
      Large x(t, d.shape), residual(t, d.shape), weight(t, {n}), y(t, d.shape), off(t, d.shape, 1), h(t, d.shape), dx(t, d.shape), dx_off(t, d.shape, 1);
      const TensorView r = with_residual ? residual.view() : TensorView(), out = with_residual ? h.view() : TensorView();
      EXPECT_TRUE(past_caches(y, x.view().data));
      ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, r, y, out, {}}));
      ASSERT_OK(run_plan<RmsNorm>(d, {x, weight, r, off, out, {}}));
      EXPECT_TRUE(y.same_bits(off)) << name(t);
      ASSERT_OK(run_plan<RmsNormBackward>(d, {y, x, weight, {}, r, dx, {}}));
      ASSERT_OK(run_plan<RmsNormBackward>(d, {y, x, weight, {}, r, dx_off, {}}));
      EXPECT_TRUE(dx.same_bits(dx_off)) << name(t);
    }
  }
}

}  // namespace
}  // namespace baracuda
