#include <cmath>
#include "baracuda/ops/scan/scan.hpp"
#include "baracuda/ops/scan/scan_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;
using scan_oracle::Axis;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr ScanKind kKinds[] = {ScanKind::cumsum, ScanKind::cumprod, ScanKind::cummax, ScanKind::cummin, ScanKind::logcumsumexp};
bool extremum(ScanKind k) { return k == ScanKind::cummax || k == ScanKind::cummin; }
Tensor data(ScanKind kind, DType t, const Shape& shape, uint64_t seed, Layout layout = Layout::dense) {
  if (kind == ScanKind::cumprod) return Tensor::uniform(t, shape, seed, 0.7, 1.37, layout);
  std::vector<double> v = Tensor::normal(t, shape, seed).values();
  if (extremum(kind))
    for (double& e : v) e = std::round(2 * e) / 2;
  return Tensor(t, shape, v, layout);
}

// From the definition: y_i is made of the first i (exclusive) or i + 1 elements in scan order.
struct Want { std::vector<double> dx, scale; };
Want want(const ScanDescriptor& d, const std::vector<double>& dy, const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& indices) {
  Want w{std::vector<double>(dy.size(), 0), std::vector<double>(dy.size(), 0)};
  const Axis axis(d.shape, d.axis);
  for (int64_t l = 0; l < axis.lanes; ++l) {
    auto place = [&](int64_t k) { return size_t(axis.start(l) + (d.reverse ? axis.n - 1 - k : k) * axis.inner); };
    std::vector<double> product(size_t(axis.n) + 1, 1), rest(size_t(axis.n) + 1, 0), size_rest(size_t(axis.n) + 1, 0);
    auto g = [&](int64_t k) { return !d.exclusive ? dy[place(k)] : k + 1 < axis.n ? dy[place(k + 1)] : 0; };  // of the sum of k + 1 elements
    for (int64_t k = 0; k < axis.n; ++k) product[size_t(k) + 1] = product[size_t(k)] * x[place(k)];
    for (int64_t k = axis.n - 1; k >= 0; --k) {
      const size_t j = size_t(k);
      const double factor = d.kind == ScanKind::cumprod && k + 1 < axis.n ? x[place(k + 1)] : 1;
      rest[j] = g(k) + factor * rest[j + 1], size_rest[j] = std::fabs(g(k)) + std::fabs(factor) * size_rest[j + 1];
      double &dx = w.dx[place(k)], &scale = w.scale[place(k)];
      if (d.kind == ScanKind::cumsum) dx = rest[j], scale = size_rest[j];
      else if (d.kind == ScanKind::cumprod) dx = product[j] * rest[j], scale = std::fabs(product[j]) * size_rest[j];
      else if (d.kind == ScanKind::logcumsumexp)
        for (int64_t i = k; i < axis.n; ++i) {
          const double e = !d.exclusive ? y[place(i)] : i + 1 < axis.n ? y[place(i + 1)] : INFINITY;
          const double p = x[place(k)] == -INFINITY ? 0 : g(i) * std::exp(x[place(k)] - e);
          dx += p, scale += std::fabs(p) * (1 + std::fabs(x[place(k)]));
        }
    }
    if (extremum(d.kind))
      for (int64_t k = 0; k < axis.n; ++k) {
        const double p = indices[place(k)];
        if (p < 0) continue;
        const size_t at = size_t(axis.start(l) + int64_t(p) * axis.inner);
        w.dx[at] += dy[place(k)], w.scale[at] += std::fabs(dy[place(k)]);
      }
  }
  return w;
}
struct Saved { Tensor y, indices; };
Saved forward(const ScanDescriptor& d, const Tensor& x, Layout layout = Layout::dense) {
  Saved s{Tensor(d.dtype, d.shape, layout), {}};
  if (extremum(d.kind)) s.indices = Tensor(DType::i64, d.shape, layout);
  EXPECT_OK(run_plan<Scan>(d, {x, s.y, s.indices}));
  return s;
}
// Only what reads() names.
ScanBackward::Args arguments(const ScanDescriptor& d, const Tensor& dy, const Tensor& x, const Saved& s, const Tensor& dx) {
  const auto r = ScanBackward::reads(d.kind);
  return {dy, r.x ? x.view() : TensorView{}, r.y ? s.y.view() : TensorView{}, r.indices ? s.indices.view() : TensorView{}, dx};
}
void check(const ScanDescriptor& d, Layout a = Layout::dense, Layout b = Layout::dense, uint64_t seed = 1) {
  SCOPED_TRACE(text(describe(d), " layouts ", int(a), " ", int(b)));
  const Tensor x = data(d.kind, d.dtype, d.shape, seed, a), dy = Tensor::normal(d.dtype, d.shape, seed + 1, 0.3, 1, b);
  const Saved s = forward(d, x, a);
  Tensor dx(d.dtype, d.shape, b);
  ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dx)));
  const Want w = want(d, dy.values(), x.values(), s.y.values(), extremum(d.kind) ? s.indices.values() : std::vector<double>());
  EXPECT_CLOSE(dx, w.dx, {.ulps = 1, .terms = double(Axis(d.shape, d.axis).n)}, &w.scale);
  EXPECT_TRUE(dx.guards_intact());
}

TEST(ScanBackward, EveryKindAndDtype) {
  for (ScanKind kind : kKinds)
    for (DType t : kFloats)
      for (bool reverse : {false, true})
        for (bool exclusive : {false, true})
          for (int axis : {0, 1, -1}) check({kind, t, {5, 131, 33}, axis, reverse, exclusive});
}
TEST(ScanBackward, Lengths) {
  for (int64_t n : {1, 2, 16, 63, 64, 65, 1023, 1024, 1025, 1600, 2500})
    for (ScanKind kind : kKinds)
      for (bool exclusive : {false, true}) {
        check({kind, DType::f32, {n}, 0, false, exclusive});
        check({kind, DType::f64, {3, n}, 1, true, exclusive, ScanTies::first});
        if (n < 2000) check({kind, DType::bf16, {n, 9}, 0, false, exclusive});
      }
}
TEST(ScanBackward, LongRows) {
  for (ScanKind kind : {ScanKind::cummax, ScanKind::cummin, ScanKind::logcumsumexp})
    for (DType t : {DType::f16, DType::bf16, DType::f32})
      for (bool reverse : {false, true}) check({kind, t, {2, t == DType::f32 ? 3324 : 4608}, 1, reverse});
}
TEST(ScanBackward, LongLines) {
  for (ScanKind kind : {ScanKind::cumsum, ScanKind::cumprod, ScanKind::cummax})
    for (const auto& [shape, axis] : {std::pair<Shape, int>{{2, 2200000}, 1}, {{70000, 40}, 0}}) {
      const ScanDescriptor d{kind, DType::f32, shape, axis};
      Tensor x = data(kind, d.dtype, shape, 1);
      if (kind == ScanKind::cumprod) {
        std::vector<double> signs = Tensor::normal(d.dtype, shape, 1).values();
        for (double& e : signs) e = e < 0 ? -1 : 1;
        x = Tensor(d.dtype, shape, signs);
      }
      const Tensor dy = Tensor::normal(d.dtype, shape, 2);
      const Saved s = forward(d, x);
      Tensor dx(d.dtype, shape);
      ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dx)));
      const Want w = want(d, dy.values(), x.values(), {}, extremum(kind) ? s.indices.values() : std::vector<double>());
      EXPECT_CLOSE(dx, w.dx, {.ulps = 1}, &w.scale);
    }
  // What is given to a sum of exponentials comes back whole: its derivatives add up to 1.
  for (const auto& [shape, axis] : {std::pair<Shape, int>{{1, 2200000}, 1}, {{70000, 8}, 0}}) {
    const ScanDescriptor d{ScanKind::logcumsumexp, DType::f32, shape, axis};
    const Tensor x = data(d.kind, d.dtype, shape, 1), dy = Tensor::uniform(d.dtype, shape, 2, 0, 1);
    const Saved s = forward(d, x);
    Tensor dx(d.dtype, shape);
    ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dx)));
    double given = 0, got = 0;
    for (int64_t i = 0; i < shape.numel(); ++i) given += dy.at(i), got += dx.at(i);
    EXPECT_NEAR(got, given, 2e-6 * given);
  }
}
TEST(ScanBackward, Layouts) {
  for (Layout a : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (Layout b : {Layout::dense, Layout::transposed, Layout::reversed})
      for (int axis : {0, 1, 2})
        for (ScanKind kind : kKinds) check({kind, DType::f32, {4, 37, 30}, axis, b == Layout::transposed, a == Layout::padded}, a, b);
}
TEST(ScanBackward, RowsEqualColumnsAndThreads) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA rows and columns have orders of their own";
  const int before = threads();
  for (ScanKind kind : kKinds)
    for (DType t : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(text(enum_name(kind), " ", t));
      const int64_t n = 3000, m = 21;
      const ScanDescriptor rows{kind, t, {m, n}, 1}, columns{kind, t, {n, m}, 0};
      const Tensor x = data(kind, t, rows.shape, 3), dy = Tensor::normal(t, rows.shape, 4);
      Tensor dx(t, rows.shape), turned_x(t, columns.shape), turned_dy(t, columns.shape), turned_dx(t, columns.shape);
      for (int64_t i = 0; i < m * n; ++i) turned_x.set(i % n * m + i / n, x.at(i)), turned_dy.set(i % n * m + i / n, dy.at(i));
      ASSERT_OK(run_plan<ScanBackward>(rows, arguments(rows, dy, x, forward(rows, x), dx)));
      ASSERT_OK(run_plan<ScanBackward>(columns, arguments(columns, turned_dy, turned_x, forward(columns, turned_x), turned_dx)));
      for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(turned_dx.at(i % n * m + i / n), dx.at(i)) << i;
      const ScanDescriptor one{kind, t, {n}, 0};
      Tensor row_x(t, {n}), row_dy(t, {n}), row_dx(t, {n});
      for (int64_t i = 0; i < n; ++i) row_x.set(i, x.at(5 * n + i)), row_dy.set(i, dy.at(5 * n + i));
      for (int team : {1, 4}) {
        set_threads(team);
        ASSERT_OK(run_plan<ScanBackward>(one, arguments(one, row_dy, row_x, forward(one, row_x), row_dx)));
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(row_dx.at(i), dx.at(5 * n + i)) << i;
      }
      set_threads(before);
    }
}
TEST(ScanBackward, DirectionalDifferences) {
  for (ScanKind kind : {ScanKind::cumsum, ScanKind::cumprod, ScanKind::logcumsumexp})
    for (bool exclusive : {false, true})
      for (int axis : {0, 1}) {
        const ScanDescriptor d{kind, DType::f64, {7, 90}, axis, axis == 0, exclusive};
        Tensor x = Tensor::normal(DType::f64, d.shape, 5, kind == ScanKind::cumprod ? 0.9 : 0, 0.2), y(DType::f64, d.shape), dx(DType::f64, d.shape);
        const Tensor dy = Tensor::normal(DType::f64, d.shape, 6);
        ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, forward(d, x), dx)));
        check_directional(
            [&] {
              EXPECT_OK(run_plan<Scan>(d, {x, y, {}}));
              double sum = 0;
              for (int64_t i = 0; i < y.numel(); ++i)
                if (std::isfinite(y.at(i))) sum += dy.at(i) * y.at(i);
              return sum;
            },
            x, dx, 7);
      }
}
Tensor gradient(const ScanDescriptor& d, const Tensor& x, const Tensor& dy) {
  Tensor dx(d.dtype, d.shape);
  EXPECT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, forward(d, x), dx)));
  return dx;
}
Tensor ones(DType t, int64_t n) { return Tensor(t, {n}, std::vector<double>(size_t(n), 1)); }
void expect_values(const Tensor& got, const std::vector<double>& want) {
  for (int64_t i = 0; i < got.numel(); ++i)
    EXPECT_TRUE(got.at(i) == want[size_t(i)] || (std::isnan(got.at(i)) && std::isnan(want[size_t(i)]))) << i << ": " << got.at(i) << ", want " << want[size_t(i)];
}
TEST(ScanBackward, case_cumprod_bwd_zero_middle) {
  for (DType t : kFloats) expect_values(gradient({ScanKind::cumprod, t, {4}, 0}, Tensor(t, {4}, {2, 0, 3, 4}), ones(t, 4)), {1, 32, 0, 0});
  std::vector<double> x(400, 10);  // products behind a zero may overflow; it hides them
  x[0] = 0;
  const Tensor dx = gradient({ScanKind::cumprod, DType::f32, {400}, 0}, Tensor(DType::f32, {400}, x), ones(DType::f32, 400));
  EXPECT_EQ(dx.at(1), 0);
  EXPECT_EQ(dx.at(399), 0);
}
TEST(ScanBackward, case_prod_bwd_range) {
  for (DType t : {DType::f32, DType::bf16}) {
    const Tensor x(t, {5}, {1e-30, 1e-30, 1e30, 1e30, 2}), dy(t, {5}, {0, 0, 0, 0, 1});
    const Tensor dx = gradient({ScanKind::cumprod, t, {5}, 0}, x, dy);
    std::vector<double> want;
    for (int j = 0; j < 5; ++j) {
      double p = 1;
      for (int i = 0; i < 5; ++i) p *= i == j ? 1 : x.at(i);
      want.push_back(p);
    }
    EXPECT_CLOSE(dx, want, {.ulps = 1});
  }
}
// f64 has no range to spare: right while products of neighbouring factors stay in f64, else 0 or infinite, and 0 beside a zero.
TEST(ScanBackward, CumprodRangeOfF64) {
  auto last = [](const std::vector<double>& x) {
    std::vector<double> dy(x.size());
    dy.back() = 1;
    return gradient({ScanKind::cumprod, DType::f64, {int64_t(x.size())}, 0}, Tensor(DType::f64, {int64_t(x.size())}, x), Tensor(DType::f64, {int64_t(x.size())}, dy));
  };
  EXPECT_CLOSE(last({1e-150, 1e-150, 1e150, 1e150, 2}), (std::vector<double>{2e150, 2e150, 2e-150, 2e-150, 1}), {.ulps = 4});
  expect_values(last({1e-200, 1e-200, 1e200, 1e200}), {INFINITY, INFINITY, 0, 0});
  expect_values(last({0, 1e200, 1e200, 1e200}), {INFINITY, 0, 0, 0});
}
TEST(ScanBackward, case_scan_bwd_empty) {
  for (ScanKind kind : kKinds)
    for (const Shape& shape : {Shape{2, 0}, Shape{0, 5}}) gradient({kind, DType::f32, shape, 1}, Tensor(DType::f32, shape), Tensor(DType::f32, shape));
}
TEST(ScanBackward, case_cummax_nan) {
  for (DType t : kFloats) expect_values(gradient({ScanKind::cummax, t, {5}, 0}, Tensor(t, {5}, {1, 3, NAN, 5, 4}), ones(t, 5)), {1, 1, 3, 0, 0});
}
TEST(ScanBackward, case_cummax_tie_index) {
  for (ScanKind kind : {ScanKind::cummax, ScanKind::cummin}) {
    expect_values(gradient({kind, DType::f32, {3}, 0}, ones(DType::f32, 3), ones(DType::f32, 3)), {1, 1, 1});
    expect_values(gradient({.kind = kind, .shape = {3}, .ties = ScanTies::first}, ones(DType::f32, 3), ones(DType::f32, 3)), {3, 0, 0});
  }
}
TEST(ScanBackward, case_logcumsumexp_prefix_neginf) {
  for (DType t : {DType::f32, DType::f64})
    EXPECT_CLOSE(gradient({ScanKind::logcumsumexp, t, {4}, 0}, Tensor(t, {4}, {-INFINITY, -INFINITY, 0, 1}), ones(t, 4)),
                 (std::vector<double>{0, 0, 1.2689414213699951, 0.7310585786300049}), {.ulps = 4});
  expect_values(gradient({ScanKind::logcumsumexp, DType::f32, {200}, 0}, Tensor(DType::f32, {200}, std::vector<double>(200, -INFINITY)), ones(DType::f32, 200)),
                std::vector<double>(200, 0));
}
TEST(ScanBackward, LogCumsumExpInfinities) {  // the gradient of a +inf goes to the last +inf up to it; NaN reaches all before
  const double inf = INFINITY;
  expect_values(gradient({ScanKind::logcumsumexp, DType::f32, {6}, 0}, Tensor(DType::f32, {6}, {-inf, inf, 0, inf, 1, 2}), ones(DType::f32, 6)), {0, 2, 0, 3, 0, 0});
  expect_values(gradient({ScanKind::logcumsumexp, DType::f32, {3}, 0}, Tensor(DType::f32, {3}, {0, NAN, 0}), ones(DType::f32, 3)), {NAN, NAN, NAN});
  std::vector<double> x(4096, 0), want(4096, 0);
  x[0] = x[1] = -inf, x[2] = x[1000] = x[3000] = inf, want[2] = 998, want[1000] = 2000, want[3000] = 1096;
  expect_values(gradient({ScanKind::logcumsumexp, DType::f32, {4096}, 0}, Tensor(DType::f32, {4096}, x), ones(DType::f32, 4096)), want);
  Tensor dy = ones(DType::f32, 4096);
  for (double v : {inf, -inf}) {  // in a gradient it reaches all before, too
    dy.set(2000, v);
    const Tensor dx = gradient({ScanKind::logcumsumexp, DType::f32, {4096}, 0}, Tensor(DType::f32, {4096}, std::vector<double>(4096, 0)), dy);
    double sum = 0;
    for (int i = 4095; i > 2000; --i) {
      sum += 1.0 / (i + 1);
      ASSERT_NEAR(dx.at(i), sum, 1e-5 * sum) << i;
    }
    for (int i = 2000; i >= 0; --i) ASSERT_EQ(dx.at(i), v) << i;
  }
}
TEST(ScanBackward, LogCumsumExpSteep) {  // chunks that go element by element, beside those that do not
  for (const auto& [t, n] : {std::pair<DType, int64_t>{DType::f32, 300}, {DType::f32, 3000}, {DType::f64, 300}})
    for (double step : {0.5, 5.0, 700.0})
      for (double start : {-40.0, 1e7}) {
        std::vector<double> v;
        for (int i = 0; i < n; ++i) v.push_back(i < 100 ? start + step * i : start + step * 100);
        const ScanDescriptor d{ScanKind::logcumsumexp, t, {n}, 0};
        const Tensor x(t, {n}, v), dy = Tensor::uniform(t, {n}, 3, 0.5, 1);
        const Saved s = forward(d, x);
        Tensor dx(t, {n});
        ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dx)));
        const Want w = want(d, dy.values(), x.values(), s.y.values(), {});
        EXPECT_CLOSE(dx, w.dx, {.ulps = 1, .terms = double(n)}, &w.scale);
      }
}
TEST(ScanBackward, InPlace) {
  for (ScanKind kind : kKinds)
    for (int axis : {0, 1}) {
      const ScanDescriptor d{kind, DType::f32, {40, 1300}, axis};
      const Tensor x = data(kind, d.dtype, d.shape, 9);
      Tensor dy = Tensor::normal(d.dtype, d.shape, 10), dx(d.dtype, d.shape);
      const Saved s = forward(d, x);
      ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dx)));
      ASSERT_OK(run_plan<ScanBackward>(d, arguments(d, dy, x, s, dy)));
      EXPECT_TRUE(dy.same_bits(dx)) << describe(d);
    }
}
TEST(ScanBackward, ContractAndBits) {
  for (ScanKind kind : kKinds)
    for (DType t : {DType::f32, DType::bf16}) {
      const ScanDescriptor d{kind, t, {2, 5000}, 1};
      const Tensor x = data(kind, t, d.shape, 1), dy = Tensor::normal(t, d.shape, 2);
      const Saved s = forward(d, x);
      Tensor dx(t, d.shape);
      check_repeat_bits<ScanBackward>(d, arguments(d, dy, x, s, dx), {}, 1);
      if (t == DType::f32) check_contract<ScanBackward>(d, arguments(d, dy, x, s, dx));
    }
  const Tensor x = Tensor::normal(DType::f32, {4}, 1);
  Tensor dx(DType::f32, {4});
  expect_refused(run_plan<ScanBackward>({ScanKind::cumprod, DType::f32, {4}, 0}, {x, {}, {}, {}, dx}), Code::invalid_problem, {"x is missing", "cumprod"});
  expect_refused(run_plan<ScanBackward>({ScanKind::cummin, DType::f32, {4}, 0}, {x, x, x, {}, dx}), Code::invalid_problem, {"indices is missing", "cummin"});
  expect_refused(ScanBackwardPlan::select(Stream::cpu(), {ScanKind::cumsum, DType::i32, {4}}).status(), Code::unsupported, {"no i32"});
}

}  // namespace
}  // namespace baracuda
