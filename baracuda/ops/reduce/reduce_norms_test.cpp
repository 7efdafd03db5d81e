// norms of any power, sums without NaN, aminmax, trace, and tensors that are larger than a slice or the caches.
#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/reduce/reduce_oracle.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;
using Values = std::vector<double>;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

Values row_of(const Values& x, const std::vector<int64_t>& at) {
  Values row;
  for (int64_t i : at) row.push_back(x[size_t(i)]);
  return row;
}
// y and dx of x against the oracle; y of the forward is what the backward reads.
void check(const ReduceDescriptor& d, const Tensor& x, double terms = 1, bool side_by_side = false) {
  SCOPED_TRACE(describe(d));
  Tensor y(y_dtype(d), dy_shape(d)), dx(d.dtype, d.shape);
  const Tensor dy = Tensor::normal(y_dtype(d), dy_shape(d), 9);
  ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
  const ReduceSaved reads = reduce_saved(d.kind, d.ties);
  ASSERT_OK(run_plan<ReduceBackward>(d, {dy, reads.x ? x.view() : TensorView{}, reads.y ? y.view() : TensorView{}, {}, dx}));
  const auto rows = oracle_rows(d.shape, d.axes);
  const Values values = x.values();
  Values want, scale, gradient(values.size()), gradient_scale(values.size());
  for (size_t o = 0; o < rows.size(); ++o) {
    const Values row = row_of(values, rows[o]);
    const Reduced r = oracle_row(d, row);
    want.push_back(r.y), scale.push_back(r.scale);
    Values g, s;
    if (!side_by_side) oracle_gradient(d, row, dy.at(int64_t(o)), y.at(int64_t(o)), g, s);
    else {  // a product's gradient from the products before and behind
      long double before = dy.at(int64_t(o));
      for (double v : row) g.push_back(double(before)), before *= v;
      long double behind = 1;
      for (size_t i = row.size(); i-- > 0; behind *= row[i]) g[i] = double(g[i] * behind);
      s.assign(row.size(), 0);
    }
    for (size_t i = 0; i < g.size(); ++i) gradient[size_t(rows[o][i])] = g[i], gradient_scale[size_t(rows[o][i])] = s[i];
  }
  EXPECT_CLOSE(y, want, (Tolerance{.dtype = d.dtype, .ulps = 1, .terms = double(rows[0].size())}), &scale);
  EXPECT_CLOSE(dx, gradient, (Tolerance{.dtype = d.dtype, .ulps = 1, .terms = terms}), &gradient_scale);
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact());
}

TEST(ReduceNorms, EveryPower) {
  for (double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, -0.5, -1.0, -3.0, double(INFINITY), -double(INFINITY)})
    for (DType t : kFloats)
      for (const Shape& shape : {Shape{5, 70}, Shape{70, 11}, Shape{4500, 3}}) {
        if (shape[0] > 1000 && t != DType::f32) continue;
        Tensor x = Tensor::normal(t, shape, 3);
        for (int64_t i = 0; i < x.numel(); ++i)
          if (std::fabs(x.at(i)) < 0.01) x.set(i, 0.01);  // the oracle's sums of negative powers
        for (int axis : {0, 1}) {
          ReduceDescriptor d{.kind = ReduceKind::norm_p, .dtype = t, .shape = shape, .axes = {axis}, .p = p};
          if (std::isinf(p)) {  // the oracle's gradient goes by the kind's name
            Tensor named(t, dy_shape(d)), powered(t, dy_shape(d));
            ASSERT_OK(run_plan<Reduce>(d, {x, powered, {}}));
            d.kind = p > 0 ? ReduceKind::norm_inf : ReduceKind::norm_neg_inf;
            ASSERT_OK(run_plan<Reduce>(d, {x, named, {}}));
            EXPECT_TRUE(named.same_bits(powered));
          } else if (p == 0) d.kind = ReduceKind::norm0;
          check(d, x);
        }
      }
}
TEST(ReduceNorms, RangeZerosAndNaN) {
  auto norm = [](double p, const Values& x, DType t = DType::f32) {
    const ReduceDescriptor d{.kind = ReduceKind::norm_p, .dtype = t, .shape = {int64_t(x.size())}, .p = p};
    Tensor y(t, {});
    EXPECT_OK(run_plan<Reduce>(d, {Tensor(t, d.shape, x), y, {}}));
    return y.at(0);
  };
  auto gradient = [](double p, const Values& values) {
    const ReduceDescriptor d{.kind = ReduceKind::norm_p, .shape = {int64_t(values.size())}, .p = p};
    const Tensor x(DType::f32, d.shape, values), dy(DType::f32, {}, {1});
    Tensor y(DType::f32, {}), dx(DType::f32, d.shape);
    EXPECT_OK(run_plan<Reduce>(d, {x, y, {}}));
    EXPECT_OK(run_plan<ReduceBackward>(d, {dy, x, y, {}, dx}));
    return dx.values();
  };
  for (double p : {0.5, 3.0, 40.0, -3.0}) {
    for (double s : {1e-40, 1e-30, 1e30}) EXPECT_NEAR(norm(p, {2 * s, 2 * s}) / s, 2 * std::pow(2, 1 / p), s < 1e-37 ? 1e-3 : 1e-5) << p << ' ' << s;
    for (double s : {1e-300, 1e300}) EXPECT_NEAR(norm(p, {2 * s, 2 * s}, DType::f64) / s, 2 * std::pow(2, 1 / p), 1e-12) << p << ' ' << s;
    EXPECT_TRUE(std::isnan(norm(p, {1, NAN, 0, INFINITY})));
    EXPECT_EQ(norm(p, {0, 0}), 0);
    EXPECT_EQ(gradient(p, {0, 0}), Values(2, 0));
  }
  Values far(9000, 0);
  far[5] = 3e30, far[8000] = 4e30;  // in two chunks
  EXPECT_NEAR(norm(3, far) / 1e30, std::cbrt(91.0), 1e-5);
  EXPECT_EQ(norm(3, {1, -INFINITY}), INFINITY);
  EXPECT_EQ(norm(-1, {1, 0}), 0);
  EXPECT_EQ(norm(-1, {2, INFINITY}), 2);
  EXPECT_EQ(gradient(INFINITY, {3, -3, 1}), (Values{0.5, -0.5, 0}));
  EXPECT_EQ(gradient(1, {3, -2, 0}), (Values{1, -1, 0}));
  EXPECT_EQ(gradient(0.5, {0, 4}), (Values{0, 1}));
  expect_refused(ReducePlan::select(Stream::cpu(), {.kind = ReduceKind::norm_p, .shape = {2}, .p = NAN}).status(), Code::invalid_problem, {"p must not be NaN"});
  for (double p : {-1.0, double(INFINITY)})
    expect_refused(ReducePlan::select(Stream::cpu(), {.kind = ReduceKind::norm_p, .shape = {2, 0}, .axes = {1}, .p = p}).status(), Code::invalid_problem,
                   {"norm_p", "without elements"});
  EXPECT_EQ(norm(3, {}), 0);
}
TEST(ReduceNorms, NaNIsNotSummed) {
  for (ReduceKind kind : {ReduceKind::nansum, ReduceKind::nanmean})
    for (DType t : kFloats)
      for (const Shape& shape : {Shape{6, 130}, Shape{130, 21}, Shape{3, 9000}, Shape{4200, 9}})
        for (int axis : {0, 1}) {
          Tensor x = Tensor::normal(t, shape, 4);
          for (int64_t i = 0; i < x.numel(); i += 3) x.set(i, i % 2 ? NAN : -NAN);
          check({.kind = kind, .dtype = t, .shape = shape, .axes = {axis}}, x);
        }
  for (auto [kind, want] : {std::pair{ReduceKind::nansum, 0.0}, {ReduceKind::nanmean, NAN}}) {
    const ReduceDescriptor d{.kind = kind, .shape = {70}};
    Tensor y(DType::f32, {}), dx(DType::f32, d.shape);
    const Tensor x(DType::f32, d.shape, Values(70, NAN)), dy(DType::f32, {}, {1});
    ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
    EXPECT_TRUE(y.at(0) == want || (std::isnan(want) && std::isnan(y.at(0))));
    ASSERT_OK(run_plan<ReduceBackward>(d, {dy, x, {}, {}, dx}));
    EXPECT_EQ(dx.values(), Values(70, 0));
  }
}

TEST(Aminmax, AsMaxAndMin) {
  for (DType t : {DType::boolean, DType::i8, DType::u8, DType::i64, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const Shape& shape : {Shape{5, 700}, Shape{700, 21}, Shape{3, 9001}, Shape{5000, 9}, Shape{40, 6}})
      for (int axis : {0, 1}) {
        const Tensor x = is_floating(t) ? Tensor::normal(t, shape, 2) : Tensor::integers(t, shape, 2, t == DType::boolean || !kDTypeFacts[size_t(t)].is_signed ? 0 : -90, t == DType::boolean ? 2 : 90);
        const Shape out{shape[1 - axis]};
        Tensor low(t, out), high(t, out), min(t, out), max(t, out);
        const AminmaxDescriptor d{.dtype = t, .shape = shape, .axes = {axis}};
        ASSERT_OK(run_plan<Aminmax>(d, {x, low, high}));
        ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::min, .dtype = t, .shape = shape, .axes = {axis}}, {x, min, {}}));
        ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::max, .dtype = t, .shape = shape, .axes = {axis}}, {x, max, {}}));
        EXPECT_TRUE(low.same_bits(min) && high.same_bits(max)) << name(t) << ' ' << to_string(shape) << ' ' << axis;
        const Values values = x.values();
        const auto rows = oracle_rows(shape, {axis});
        for (size_t o = 0; o < rows.size(); ++o) {
          const Values row = row_of(values, rows[o]);
          ASSERT_EQ(low.at(int64_t(o)), *std::min_element(row.begin(), row.end()));
          ASSERT_EQ(high.at(int64_t(o)), *std::max_element(row.begin(), row.end()));
        }
      }
  Tensor low(DType::f32, {}), high(DType::f32, {});
  ASSERT_OK(run_plan<Aminmax>({.shape = {3}}, {Tensor(DType::f32, {3}, {1, NAN, -1}), low, high}));
  EXPECT_TRUE(std::isnan(low.at(0)) && std::isnan(high.at(0)));
  ASSERT_OK(run_plan<Aminmax>({.shape = {2}}, {Tensor(DType::f32, {2}, {-0.0, -0.0}), low, high}));
  EXPECT_TRUE(!std::signbit(low.at(0)) && !std::signbit(high.at(0)));
  expect_refused(AminmaxPlan::select(Stream::cpu(), {.shape = {2, 0}, .axes = {1}}).status(), Code::invalid_problem, {"aminmax", "without elements"});
  const AminmaxDescriptor d{.shape = {20, 4500}, .axes = {1}};
  const Tensor x = Tensor::normal(DType::f32, d.shape, 1);
  Tensor a(DType::f32, {20}), b(DType::f32, {20});
  check_repeat_bits<Aminmax>(d, {x, a, b}, {}, 1);
  check_contract<Aminmax>(d, {x, a, b});
}

TEST(Trace, DiagonalsOfAnyAxes) {
  for (DType t : {DType::i32, DType::bf16, DType::f32, DType::f64})
    for (auto [axis1, axis2] : {std::pair{0, 1}, {1, 0}, {-1, 0}, {1, -1}})
      for (int64_t offset : {-9, -3, -1, 0, 1, 4, 9})
        for (Layout layout : {Layout::dense, Layout::reversed, Layout::transposed}) {
          const TraceDescriptor d{.dtype = t, .shape = {4, 5, 7}, .offset = offset, .axis1 = axis1, .axis2 = axis2};
          SCOPED_TRACE(describe(d));
          const Tensor x(t, d.shape, Tensor::integers(t, d.shape, 3, -20, 20).values(), layout);
          const int i = axis1 < 0 ? axis1 + 3 : axis1, j = axis2 < 0 ? axis2 + 3 : axis2, k = 3 - i - j;
          const int64_t kept = d.shape[k];
          Tensor y(t == DType::i32 ? DType::i64 : t, {kept});
          ASSERT_OK(run_plan<Trace>(d, {x, y}));
          Values want(size_t(kept), 0), gradient(140, 0);
          for (int64_t e = 0; e < 140; ++e) {
            const int64_t at[] = {e / 35, e / 7 % 5, e % 7};
            if (at[j] - at[i] != offset) continue;
            want[size_t(at[k])] += x.at(e), gradient[size_t(e)] = double(at[k] + 1);
          }
          EXPECT_EQ(y.values(), want);
          if (t == DType::i32) continue;
          Tensor dy(t, {kept}), dx(t, d.shape, layout);
          for (int64_t o = 0; o < kept; ++o) dy.set(o, double(o + 1));
          ASSERT_OK(run_plan<TraceBackward>(d, {dy, dx}));
          EXPECT_EQ(dx.values(), gradient);
          EXPECT_TRUE(dx.guards_intact());
        }
}
TEST(Trace, ContractAndRefusals) {
  const TraceDescriptor d{.shape = {5000, 5001}};
  const Tensor x(DType::f32, d.shape);
  Tensor y(DType::f32, {});
  check_repeat_bits<Trace>(d, {x, y}, {}, 1);
  check_contract<Trace>(d, {x, y});
  const TraceDescriptor few{.shape = {30, 20}};
  Tensor dx(DType::f32, few.shape);
  check_repeat_bits<TraceBackward>(few, {y, dx}, {}, 1);
  check_contract<TraceBackward>(few, {y, dx});
  auto refused = [](const TraceDescriptor& d, std::initializer_list<std::string_view> words) {
    expect_refused(TracePlan::select(Stream::cpu(), d).status(), Code::invalid_problem, words);
  };
  refused({.shape = {4}}, {"trace", "shape"});
  refused({.shape = {4, 4}, .axis2 = 2}, {"axis2 2", "rank is 2"});
  refused({.shape = {4, 4}, .axis2 = -2}, {"axis1 0", "axis2 -2", "same"});
  refused({.shape = {4, 4}, .out_dtype = DType::f64}, {"out_dtype f64"});
  Tensor none(DType::f32, {0, 3}), zero(DType::f32, {});
  ASSERT_OK(run_plan<Trace>({.shape = {0, 3}}, {none, zero}));
  EXPECT_EQ(zero.at(0), 0);
}

// Gradients that read x twice, slice by slice, and products of several chunks, along rows and down columns.
TEST(ReduceNorms, SlicesAndChunks) {
  for (DType t : {DType::bf16, DType::f32, DType::f64})
    for (int axis : {0, 1}) {
      const Shape shape{400, 700};
      for (ReduceKind kind : {ReduceKind::max, ReduceKind::var, ReduceKind::norm_inf}) check({.kind = kind, .dtype = t, .shape = shape, .axes = {axis}}, Tensor::normal(t, shape, 5));
      const Shape long_shape = axis ? Shape{9, 9000} : Shape{9000, 41};
      check({.kind = ReduceKind::prod, .dtype = t, .shape = long_shape, .axes = {axis}}, Tensor::uniform(t, long_shape, 5, 0.75, 1.33), 9000, true);
    }
  const Shape tall{2100, 600};  // two slices of columns
  check({.kind = ReduceKind::max, .dtype = DType::f64, .shape = tall, .axes = {0}}, Tensor::normal(DType::f64, tall, 5));
  const Shape deep{3, 5000, 40};
  check({.kind = ReduceKind::max, .dtype = DType::f64, .shape = deep, .axes = {1}}, Tensor::normal(DType::f64, deep, 5));
  check({.kind = ReduceKind::std, .dtype = DType::f64, .shape = deep, .axes = {0, 1}}, Tensor::normal(DType::f64, deep, 5));
}
TEST(ReduceNorms, PastTheCaches) {
  for (auto [kind, shape] : {std::pair{ReduceKind::sum, Shape{2500, 3001}}, {ReduceKind::norm1, Shape{2500, 3001}}}) {
    const ReduceDescriptor d{.kind = kind, .shape = shape, .axes = {1}};
    const Large x(DType::f32, shape), dy(DType::f32, {2500});
    const TensorView saved = reduce_saved(kind).x ? x.view() : TensorView{};
    Large past(DType::f32, shape), shifted(DType::f32, shape, 1);
    ASSERT_OK(run_plan<ReduceBackward>(d, {dy, saved, {}, {}, past}));
    ASSERT_OK(run_plan<ReduceBackward>(d, {dy, saved, {}, {}, shifted}));
    EXPECT_TRUE(past.same_bits(shifted));
    const float* const dx = past.view().as<float>();
    for (int64_t i : {int64_t(0), int64_t(3000), int64_t(3001), int64_t(4000000), int64_t(2500) * 3001 - 1}) {
      const double g = dy.view().as<float>()[i / 3001], v = x.view().as<float>()[i];
      EXPECT_EQ(dx[i], kind == ReduceKind::sum ? g : v < 0 ? -g : g) << i;
    }
  }
}
// The kinds that skip an order of their own: zeros of both signs give 0 along rows and down columns.
TEST(ReduceNorms, SignsOfZero) {
  const Shape shape{20, 20};
  Tensor x(DType::f32, shape, Values(400, -0.0));
  for (int64_t i = 0; i < 400; i += 7) x.set(i, 0.0);
  for (ReduceKind kind : {ReduceKind::max, ReduceKind::min})
    for (int axis : {0, 1}) {
      Tensor y(DType::f32, {20});
      ASSERT_OK(run_plan<Reduce>({.kind = kind, .shape = shape, .axes = {axis}}, {x, y, {}}));
      for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(y.at(i) == 0 && !std::signbit(y.at(i)));
    }
}

}  // namespace
}  // namespace baracuda
