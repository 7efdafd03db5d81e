#include "baracuda/ops/scan/linear_recurrence.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/scan/scan_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;
using scan_oracle::Axis;
using Backward = LinearRecurrenceBackward;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
Tensor decays(DType t, const Shape& shape, uint64_t seed, Layout layout = Layout::dense) { return Tensor::uniform(t, shape, seed, -0.4, 1.02, layout); }

// Element by element in double, with the sum of magnitudes that rounding is measured by.
struct Want { std::vector<double> y, scale; };
Want forward(const LinearRecurrenceDescriptor& d, const std::vector<double>& a, const std::vector<double>& x) {
  Want w{x, x};
  const Axis axis(d.shape, d.axis);
  for (int64_t l = 0; l < axis.lanes; ++l) {
    double y = 0, scale = 0;
    for (int64_t k = 0; k < axis.n; ++k) {
      const size_t at = size_t(axis.start(l) + (d.reverse ? axis.n - 1 - k : k) * axis.inner);
      y = a[at] * y + x[at], scale = std::fabs(a[at]) * scale + std::fabs(x[at]);
      w.y[at] = y, w.scale[at] = scale;
    }
  }
  return w;
}
struct WantGradient { std::vector<double> dx, da, dx_scale, da_scale; };
WantGradient gradient(const LinearRecurrenceDescriptor& d, const std::vector<double>& dy, const std::vector<double>& a, const std::vector<double>& y) {
  WantGradient w{dy, dy, dy, dy};
  const Axis axis(d.shape, d.axis);
  for (int64_t l = 0; l < axis.lanes; ++l) {
    auto place = [&](int64_t k) { return size_t(axis.start(l) + (d.reverse ? axis.n - 1 - k : k) * axis.inner); };
    double g = 0, scale = 0;
    for (int64_t k = axis.n - 1; k >= 0; --k) {
      const double next = k + 1 < axis.n ? a[place(k + 1)] : 0, before = k ? y[place(k - 1)] : 0;
      g = dy[place(k)] + next * g, scale = std::fabs(dy[place(k)]) + std::fabs(next) * scale;
      w.dx[place(k)] = g, w.dx_scale[place(k)] = scale, w.da[place(k)] = g * before, w.da_scale[place(k)] = scale * std::fabs(before);
    }
  }
  return w;
}
void check(const LinearRecurrenceDescriptor& d, Layout in = Layout::dense, Layout out = Layout::dense, uint64_t seed = 1) {
  SCOPED_TRACE(text(describe(d), " layouts ", int(in), " ", int(out)));
  const Tensor a = decays(d.dtype, d.shape, seed, in), x = Tensor::normal(d.dtype, d.shape, seed + 1, 0, 1, in), dy = Tensor::normal(d.dtype, d.shape, seed + 2, 0, 1, in);
  Tensor y(d.dtype, d.shape, out), dx(d.dtype, d.shape, out), da(d.dtype, d.shape, out), alone(d.dtype, d.shape, out);
  const Tolerance tolerance{.ulps = 1, .terms = d.dtype == DType::f64 ? double(Axis(d.shape, d.axis).n) : 0};
  ASSERT_OK(run_plan<LinearRecurrence>(d, {a, x, y}));
  const Want w = forward(d, a.values(), x.values());
  EXPECT_CLOSE(y, w.y, tolerance, &w.scale);
  ASSERT_OK(run_plan<Backward>(d, {dy, a, y, dx, da}));
  const WantGradient g = gradient(d, dy.values(), a.values(), y.values());
  EXPECT_CLOSE(dx, g.dx, tolerance, &g.dx_scale);
  EXPECT_CLOSE(da, g.da, tolerance, &g.da_scale);
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact() && da.guards_intact());
  ASSERT_OK(run_plan<Backward>(d, {dy, a, {}, alone, {}}));
  EXPECT_TRUE(alone.same_bits(dx));
  ASSERT_OK(run_plan<Backward>(d, {dy, a, y, {}, alone}));
  EXPECT_TRUE(alone.same_bits(da));
}

TEST(LinearRecurrence, EveryDtypeAndAxis) {
  for (DType t : kFloats)
    for (bool reverse : {false, true})
      for (int axis : {0, 1, -1}) check({t, {5, 131, 33}, axis, reverse});
}
TEST(LinearRecurrence, Lengths) {
  for (int64_t n : {1, 2, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 4097})
    for (DType t : {DType::f32, DType::bf16}) check({t, {n}, 0}), check({t, {3, n}, 1, true}), check({t, {n, 21}, 0, n % 2 == 0});
}
TEST(LinearRecurrence, Layouts) {
  for (Layout a : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (Layout b : {Layout::dense, Layout::transposed, Layout::reversed})
      for (int axis : {0, 1, 2}) check({axis == 1 ? DType::f16 : DType::f32, {4, 37, 90}, axis, b == Layout::transposed}, a, b);
}
TEST(LinearRecurrence, Empty) {
  for (const Shape& shape : {Shape{2, 0}, Shape{0, 5}}) check({DType::f32, shape, 1});
}
TEST(LinearRecurrence, ConstantDecay) {  // zero strides; a of 1 sums, of 0 copies
  const int64_t n = 3000;
  const Tensor x = Tensor::normal(DType::f64, {n}, 3);
  for (double decay : {0.0, 1.0}) {
    const Tensor one(DType::f64, {1}, {decay});
    TensorView a = one;
    a.shape = {n}, a.strides = {0};
    Tensor y(DType::f64, {n}), sums(DType::f64, {n});
    ASSERT_OK(run_plan<LinearRecurrence>({DType::f64, {n}}, {a, x, y}));
    ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::f64, {n}}, {x, sums, {}}));
    const std::vector<double> scale = forward({DType::f64, {n}}, std::vector<double>(size_t(n), decay), x.values()).scale;
    EXPECT_CLOSE(y, (decay ? sums : x).values(), {.ulps = 1, .terms = double(n)}, &scale);
  }
}
TEST(LinearRecurrence, NaNAndOverflow) {
  std::vector<double> a(200, 1), x(200, 1);
  x[70] = NAN, a[130] = 0;  // a NaN stays
  Tensor y(DType::f32, {200});
  ASSERT_OK(run_plan<LinearRecurrence>({DType::f32, {200}}, {Tensor(DType::f32, {200}, a), Tensor(DType::f32, {200}, x), y}));
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(std::isnan(y.at(i)), i >= 70) << i;
  for (int64_t i = 0; i < 200; ++i) a[size_t(i)] = i < 150 ? 1e30 : i == 150 ? 0 : 1, x[size_t(i)] = 1;  // beyond f64, and what is behind a 0 begins anew
  ASSERT_OK(run_plan<LinearRecurrence>({DType::f32, {200}}, {Tensor(DType::f32, {200}, a), Tensor(DType::f32, {200}, x), y}));
  for (int64_t i = 1; i < 200; ++i) EXPECT_EQ(y.at(i), i == 1 ? double(float(1e30)) : i < 150 ? INFINITY : double(i - 149)) << i;
}
TEST(LinearRecurrence, RowsEqualColumnsAndThreads) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA rows and columns are summed in another order";
  const int before = threads();
  for (DType t : {DType::f32, DType::bf16}) {
    const int64_t n = 3000, m = 21;
    const Tensor a = decays(t, {m, n}, 3), x = Tensor::normal(t, {m, n}, 4), dy = Tensor::normal(t, {m, n}, 5);
    auto turned = [&](const Tensor& v) {
      Tensor out(t, {n, m});
      for (int64_t i = 0; i < m * n; ++i) out.set(i % n * m + i / n, v.at(i));
      return out;
    };
    auto row = [&](const Tensor& v) {
      Tensor out(t, {n});
      for (int64_t i = 0; i < n; ++i) out.set(i, v.at(5 * n + i));
      return out;
    };
    struct Out { Tensor y, dx, da; };
    auto all = [&](const LinearRecurrenceDescriptor& d, const Tensor& a, const Tensor& x, const Tensor& dy) {
      Out o{Tensor(t, d.shape), Tensor(t, d.shape), Tensor(t, d.shape)};
      EXPECT_OK(run_plan<LinearRecurrence>(d, {a, x, o.y}));
      EXPECT_OK(run_plan<Backward>(d, {dy, a, o.y, o.dx, o.da}));
      return o;
    };
    const Out rows = all({t, {m, n}, 1}, a, x, dy), columns = all({t, {n, m}, 0}, turned(a), turned(x), turned(dy));
    EXPECT_TRUE(turned(rows.y).same_bits(columns.y) && turned(rows.dx).same_bits(columns.dx) && turned(rows.da).same_bits(columns.da));
    for (int team : {1, 4}) {
      set_threads(team);
      const Out one = all({t, {n}, 0}, row(a), row(x), row(dy));
      EXPECT_TRUE(row(rows.y).same_bits(one.y) && row(rows.dx).same_bits(one.dx) && row(rows.da).same_bits(one.da)) << team << " threads";
    }
    set_threads(before);
  }
}
TEST(LinearRecurrence, SameBitsOnEveryInstructionSet) {
  const Isa best = isa();
  const LinearRecurrenceDescriptor d{DType::f32, {3, 1500}, 1};
  const Tensor a = decays(d.dtype, d.shape, 1), x = Tensor::normal(d.dtype, d.shape, 2);
  Tensor want(d.dtype, d.shape), y(d.dtype, d.shape), want_da(d.dtype, d.shape), da(d.dtype, d.shape);
  limit_isa(Isa::portable);
  ASSERT_OK(run_plan<LinearRecurrence>(d, {a, x, want}));
  ASSERT_OK(run_plan<Backward>(d, {x, a, want, {}, want_da}));
  for (Isa set : {Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    ASSERT_OK(run_plan<LinearRecurrence>(d, {a, x, y}));
    ASSERT_OK(run_plan<Backward>(d, {x, a, y, {}, da}));
    EXPECT_TRUE(y.same_bits(want) && da.same_bits(want_da)) << name(set);
  }
  limit_isa(best);
}
TEST(LinearRecurrence, DirectionalDifferences) {
  for (bool reverse : {false, true}) {
    const LinearRecurrenceDescriptor d{DType::f64, {7, 90}, reverse ? 0 : 1, reverse};
    Tensor a = decays(d.dtype, d.shape, 5), x = Tensor::normal(d.dtype, d.shape, 6), y(d.dtype, d.shape), dx(d.dtype, d.shape), da(d.dtype, d.shape);
    const Tensor dy = Tensor::normal(d.dtype, d.shape, 7);
    auto value = [&] {
      EXPECT_OK(run_plan<LinearRecurrence>(d, {a, x, y}));
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += dy.at(i) * y.at(i);
      return sum;
    };
    value();
    ASSERT_OK(run_plan<Backward>(d, {dy, a, y, dx, da}));
    check_directional(value, x, dx, 8);
    check_directional(value, a, da, 9);
  }
}
TEST(LinearRecurrence, InPlace) {
  for (int axis : {0, 1}) {
    const LinearRecurrenceDescriptor d{DType::f32, {70, 1300}, axis};
    Tensor a = decays(d.dtype, d.shape, 1), x = Tensor::normal(d.dtype, d.shape, 2), dy = Tensor::normal(d.dtype, d.shape, 3), y(d.dtype, d.shape), dx(d.dtype, d.shape);
    ASSERT_OK(run_plan<LinearRecurrence>(d, {a, x, y}));
    ASSERT_OK(run_plan<LinearRecurrence>(d, {a, x, x}));
    EXPECT_TRUE(x.same_bits(y));
    ASSERT_OK(run_plan<Backward>(d, {dy, a, {}, dx, {}}));
    ASSERT_OK(run_plan<Backward>(d, {dy, a, {}, dy, {}}));
    EXPECT_TRUE(dy.same_bits(dx));
  }
}
TEST(LinearRecurrence, ContractAndBits) {
  for (DType t : {DType::f32, DType::bf16}) {
    const LinearRecurrenceDescriptor d{t, {2, 5000}, 1};
    const Tensor a = decays(t, d.shape, 1), x = Tensor::normal(t, d.shape, 2);
    Tensor y(t, d.shape), dx(t, d.shape), da(t, d.shape);
    check_repeat_bits<LinearRecurrence>(d, {a, x, y}, {}, 1);
    check_repeat_bits<Backward>(d, {x, a, x, dx, da}, {}, 1);
    if (t == DType::bf16) continue;
    check_contract<LinearRecurrence>(d, {a, x, y});
    check_contract<Backward>(d, {x, a, x, dx, da});
  }
  const Tensor x = Tensor::normal(DType::f32, {4}, 1);
  Tensor da(DType::f32, {4});
  expect_refused(run_plan<Backward>({DType::f32, {4}, 0}, {x, x, {}, {}, da}), Code::invalid_problem, {"y is missing"});
  expect_refused(LinearRecurrencePlan::select(Stream::cpu(), {DType::f32, {4}, 2}).status(), Code::invalid_problem, {"linear_recurrence", "axis 2"});
  expect_refused(LinearRecurrencePlan::select(Stream::cpu(), {DType::i32, {4}, 0}).status(), Code::unsupported, {"no i32"});
}

}  // namespace
}  // namespace baracuda
