#include "baracuda/ops/reduce/reduce.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/reduce/reduce_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kWhole[] = {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};
constexpr ReduceKind kSmooth[] = {ReduceKind::sum,      ReduceKind::mean,  ReduceKind::max,          ReduceKind::min,    ReduceKind::prod,
                                  ReduceKind::norm2,    ReduceKind::logsumexp, ReduceKind::var,      ReduceKind::std,    ReduceKind::norm1,
                                  ReduceKind::norm_inf, ReduceKind::norm_neg_inf, ReduceKind::norm_p, ReduceKind::norm0, ReduceKind::nansum,
                                  ReduceKind::nanmean};  // with gradients
bool whole_number(ReduceKind k) { return k == ReduceKind::any || k == ReduceKind::all || k == ReduceKind::count_nonzero; }
bool product(ReduceKind k) { return k == ReduceKind::prod; }

Tensor data(const ReduceDescriptor& d, uint64_t seed, Layout layout = Layout::dense) {
  // Products of many factors: near 1 in size, so that they stay representable.
  if (product(d.kind)) return Tensor::uniform(d.dtype, d.shape, seed, 0.75, 1.33, layout);
  return Tensor::normal(d.dtype, d.shape, seed, 0.3, 2, layout);
}
std::vector<double> pick(const std::vector<double>& x, const std::vector<int64_t>& at) {
  std::vector<double> row;
  for (int64_t i : at) row.push_back(x[size_t(i)]);
  return row;
}
Tolerance tolerance_of(const ReduceDescriptor& d, double n) {
  const bool exact = d.kind == ReduceKind::max || d.kind == ReduceKind::min || d.kind == ReduceKind::norm_inf || d.kind == ReduceKind::norm_neg_inf || whole_number(d.kind);
  return exact ? Tolerance{.dtype = d.dtype, .ulps = d.out_dtype ? 1.0 : 0.0} : Tolerance{.dtype = d.dtype, .ulps = 1, .terms = n};
}

// Values of y, mean and dx.
void check_values(const ReduceDescriptor& d, Layout layout = Layout::dense, Layout out = Layout::dense) {
  SCOPED_TRACE(text(describe(d), " layout ", int(layout), " out ", int(out)));
  const Tensor x = data(d, 1, layout);
  const Shape ys = dy_shape(d);
  ASSERT_EQ(ys, oracle_shape(d.shape, d.axes, d.keepdim));
  const Layout y_layout = ys.rank >= 2 ? out : Layout::dense;
  const bool moments = d.kind == ReduceKind::var || d.kind == ReduceKind::std;
  Tensor y(y_dtype(d), ys, y_layout), mean = moments ? Tensor(accumulator(d.dtype), ys, y_layout) : Tensor();
  ASSERT_OK(run_plan<Reduce>(d, {x, y, mean}));
  const auto rows = oracle_rows(d.shape, d.axes);
  const std::vector<double> values = x.values();
  std::vector<double> want, scale, means;
  for (const auto& at : rows) {
    const Reduced r = oracle_row(d, pick(values, at));
    want.push_back(r.y), scale.push_back(r.scale), means.push_back(r.mean);
  }
  const double n = rows.empty() ? 0 : double(rows[0].size());
  EXPECT_CLOSE(y, want, tolerance_of(d, n), &scale);
  if (moments) EXPECT_CLOSE(mean, means, Tolerance{.dtype = d.dtype, .ulps = 1, .condition = 1});
  EXPECT_TRUE(y.guards_intact() && mean.guards_intact());
  if (whole_number(d.kind)) return;

  const Tensor dy = Tensor::normal(y_dtype(d), ys, 2, 0, 1, y_layout), saved(y_dtype(d), ys, want, y_layout);
  Tensor dx(d.dtype, d.shape, layout);
  const ReduceSaved reads = reduce_saved(d.kind, d.ties);
  ReduceBackward::Args a{dy, {}, {}, {}, dx};
  if (reads.x) a.x = x;
  if (reads.y) a.y = saved;
  ASSERT_OK(run_plan<ReduceBackward>(d, a));
  std::vector<double> gradient(values.size()), gradient_scale(values.size());
  for (size_t o = 0; o < rows.size(); ++o) {
    std::vector<double> g, s;
    const double y_read = reads.y ? saved.at(int64_t(o)) : want[o];
    oracle_gradient(d, pick(values, rows[o]), dy.at(int64_t(o)), y_read, g, s);
    for (size_t i = 0; i < g.size(); ++i) gradient[size_t(rows[o][i])] = g[i], gradient_scale[size_t(rows[o][i])] = s[i];
  }
  // A product of n factors has n roundings.
  EXPECT_CLOSE(dx, gradient, (Tolerance{.dtype = d.dtype, .ulps = 1, .terms = product(d.kind) ? n : 1}), &gradient_scale);
  EXPECT_TRUE(dx.guards_intact());
  if (!moments) return;
  const Tensor given(accumulator(d.dtype), ys, means, y_layout);
  a.mean = given;
  dx.poison();
  ASSERT_OK(run_plan<ReduceBackward>(d, a));
  for (size_t o = 0; o < rows.size(); ++o)
    for (int64_t i : rows[o]) gradient_scale[size_t(i)] += std::fabs(means[o] * gradient_scale[size_t(i)]) + std::fabs(dy.at(int64_t(o)) * means[o]);
  EXPECT_CLOSE(dx, gradient, (Tolerance{.dtype = d.dtype, .ulps = 1, .terms = 1}), &gradient_scale);
}

TEST(Reduce, EveryKindDtypeAndSetOfAxes) {
  for (ReduceKind kind : kSmooth)
    for (DType t : kFloats)
      for (const Dims& axes : {Dims{0}, Dims{1}, Dims{-1}, Dims{0, 1}, Dims{2, 0}, Dims{1, 2}, Dims{}})
        check_values({.kind = kind, .dtype = t, .shape = {3, 40, 11}, .axes = axes, .keepdim = axes.rank == 2});
}
TEST(Reduce, LengthsAroundLanesAndChunks) {
  for (ReduceKind kind : kSmooth)
    for (int64_t n : {1, 2, 16, 17, 63, 64, 65, 127, 500, 512, 513, 1100, 4096, 4097, 9000}) {
      if (product(kind) && n > 600) continue;  // the oracle's gradient is quadratic
      const DType t = n % 2 ? DType::f32 : n % 3 ? DType::bf16 : DType::f64;
      check_values({.kind = kind, .dtype = t, .shape = {3, n}, .axes = {1}});
      check_values({.kind = kind, .dtype = t, .shape = {n, 19}, .axes = {0}});
      check_values({.kind = kind, .dtype = t, .shape = {n, 3}, .axes = {0}});
    }
}
TEST(Reduce, Strides) {
  for (ReduceKind kind : kSmooth)
    for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
      for (const Dims& axes : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{}})
        check_values({.kind = kind, .dtype = kind == ReduceKind::max ? DType::bf16 : DType::f32, .shape = {3, 21, 70}, .axes = axes}, layout, layout);
}
TEST(Reduce, OutputDtypes) {
  for (ReduceKind kind : kSmooth) {
    check_values({.kind = kind, .dtype = DType::bf16, .shape = {5, 130}, .axes = {1}, .out_dtype = DType::f32});
    check_values({.kind = kind, .dtype = DType::f32, .shape = {5, 130}, .axes = {0}, .out_dtype = DType::f16});
  }
}
TEST(Reduce, TieRulesAndCorrections) {
  for (ReduceTies ties : {ReduceTies::split, ReduceTies::first, ReduceTies::last})
    for (ReduceKind kind : {ReduceKind::max, ReduceKind::min})
      for (const Dims& axes : {Dims{0}, Dims{1}, Dims{0, 2}}) {
        const ReduceDescriptor d{.kind = kind, .shape = {4, 90, 5}, .axes = axes, .ties = ties};
        check_values(d);
        const Tensor x = Tensor::integers(DType::f32, d.shape, 3, 0, 4);  // many ties
        Tensor y(DType::f32, dy_shape(d)), dx(DType::f32, d.shape);
        const Tensor dy = Tensor::normal(DType::f32, dy_shape(d), 4);
        ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
        ReduceBackward::Args a{dy, x, {}, {}, dx};
        if (ties == ReduceTies::split) a.y = y;
        ASSERT_OK(run_plan<ReduceBackward>(d, a));
        const auto rows = oracle_rows(d.shape, d.axes);
        const std::vector<double> values = x.values();
        for (size_t o = 0; o < rows.size(); ++o) {
          std::vector<double> g, s;
          oracle_gradient(d, pick(values, rows[o]), dy.at(int64_t(o)), y.at(int64_t(o)), g, s);
          for (size_t i = 0; i < g.size(); ++i) ASSERT_EQ(dx.at(rows[o][i]), rounded(DType::f32, g[i])) << o << ' ' << i;
        }
      }
  for (double correction : {0.0, 1.0, 2.5})
    for (ReduceKind kind : {ReduceKind::var, ReduceKind::std})
      check_values({.kind = kind, .shape = {6, 33}, .axes = {1}, .correction = correction});
}
TEST(Reduce, BroadcastInputs) {
  const Tensor row = Tensor::normal(DType::f32, {70}, 1);
  TensorView wide = row;
  wide.shape = {6, 70}, wide.strides = {0, 1};
  Tensor y(DType::f32, {6}), columns(DType::f32, {70}), one(DType::f32, {});
  ASSERT_OK(run_plan<Reduce>({.shape = {6, 70}, .axes = {1}}, {wide, y, {}}));
  ASSERT_OK(run_plan<Reduce>({.shape = {70}}, {row, one, {}}));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(y.at(i), one.at(0));
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::max, .shape = {6, 70}, .axes = {0}}, {wide, columns, {}}));
  EXPECT_EQ(columns.values(), row.values());
}

TEST(Reduce, IntegersAreExact) {
  for (DType t : kWhole)
    for (const Shape& shape : {Shape{3, 500}, Shape{500, 30}, Shape{4200, 9}, Shape{2, 9000}, Shape{5, 7}})
      for (int axis : {0, 1})
        for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed}) {
          const Tensor base = Tensor::integers(t, shape, 5, t == DType::boolean ? 0 : kDTypeFacts[size_t(t)].is_signed ? -9 : 0, t == DType::boolean ? 2 : 10);
          const Tensor x(t, shape, base.values(), layout);
          const auto rows = oracle_rows(shape, {axis});
          const std::vector<double> values = x.values();
          for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::any, ReduceKind::all, ReduceKind::count_nonzero}) {
            const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = shape, .axes = {axis}};
            Tensor y(y_dtype(d), dy_shape(d));
            ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
            for (size_t o = 0; o < rows.size(); ++o)
              ASSERT_EQ(y.at(int64_t(o)), oracle_row(d, pick(values, rows[o])).y) << describe(d) << ' ' << o << " layout " << int(layout);
          }
          for (ArgReduceKind kind : {ArgReduceKind::argmax, ArgReduceKind::argmin}) {
            Tensor at(DType::i64, {shape[1 - axis]}), best(t, {shape[1 - axis]});
            ASSERT_OK(run_plan<ArgReduce>({.kind = kind, .dtype = t, .shape = shape, .axis = axis}, {x, at, best}));
            for (size_t o = 0; o < rows.size(); ++o) {
              const auto row = pick(values, rows[o]);
              const auto it = kind == ArgReduceKind::argmax ? std::max_element(row.begin(), row.end()) : std::min_element(row.begin(), row.end());
              ASSERT_EQ(at.at(int64_t(o)), double(it - row.begin())) << name(t) << ' ' << to_string(shape) << ' ' << axis << " layout " << int(layout);
              ASSERT_EQ(best.at(int64_t(o)), *it);
            }
          }
        }
  int64_t big[] = {INT64_MAX, 5, INT64_MIN + 7}, y = 0;
  const Shape three{3}, none{};
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::max, .dtype = DType::i64, .shape = three}, {TensorView::dense(big, three), TensorView::dense(&y, none), {}}));
  EXPECT_EQ(y, INT64_MAX);
  ASSERT_OK(run_plan<Reduce>({.dtype = DType::i64, .shape = three}, {TensorView::dense(big, three), TensorView::dense(&y, none), {}}));
  EXPECT_EQ(y, 11);
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::prod, .dtype = DType::i64, .shape = {2}}, {TensorView::dense(big, {2}), TensorView::dense(&y, none), {}}));
  EXPECT_EQ(y, INT64_MAX - 4);  // modulo 2^64
  uint64_t huge[] = {3, UINT64_MAX, 9}, most = 0;
  ASSERT_OK(run_plan<Reduce>({.kind = ReduceKind::max, .dtype = DType::u64, .shape = three}, {TensorView::dense(huge, three), TensorView::dense(&most, none), {}}));
  EXPECT_EQ(most, UINT64_MAX);
}
TEST(Reduce, CountsOfFloats) {
  for (DType t : kFloats)
    for (const Shape& shape : {Shape{6}, Shape{6, 20}}) {
      Tensor x(t, shape);
      for (int64_t i = 0; i < x.numel(); ++i) x.set(i, std::vector<double>{0, -0.0, NAN, 1, -INFINITY, 0}[size_t(shape.rank == 1 ? i : i / 20)]);
      for (auto [kind, want] : {std::pair{ReduceKind::count_nonzero, 3}, {ReduceKind::any, 1}, {ReduceKind::all, 0}}) {
        const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = shape, .axes = {0}};
        Tensor y(y_dtype(d), dy_shape(d));
        ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
        for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(y.at(i), want) << name(t) << ' ' << enum_name(kind);
      }
    }
}

TEST(ArgReduce, FirstIndexEverywhere) {
  for (DType t : kFloats)
    for (const Shape& shape : {Shape{5, 700}, Shape{700, 21}, Shape{3, 9001}, Shape{5000, 9}, Shape{40, 6}})
      for (int axis : {0, 1})
        for (bool ties : {false, true})
          for (ArgReduceKind kind : {ArgReduceKind::argmax, ArgReduceKind::argmin}) {
            const Tensor x = ties ? Tensor::integers(t, shape, 3, 0, 5) : Tensor::normal(t, shape, 4);
            Tensor at(DType::i64, {shape[1 - axis]}), best(t, {shape[1 - axis]});
            ASSERT_OK(run_plan<ArgReduce>({.kind = kind, .dtype = t, .shape = shape, .axis = axis - 2}, {x, at, best}));
            const auto rows = oracle_rows(shape, {axis});
            const std::vector<double> values = x.values();
            for (size_t o = 0; o < rows.size(); ++o) {
              const auto row = pick(values, rows[o]);
              const auto it = kind == ArgReduceKind::argmax ? std::max_element(row.begin(), row.end()) : std::min_element(row.begin(), row.end());
              ASSERT_EQ(at.at(int64_t(o)), double(it - row.begin())) << name(t) << to_string(shape) << axis;
              ASSERT_EQ(best.at(int64_t(o)), *it);
            }
          }
}
TEST(ArgReduce, AllAxesNaNAndInfinities) {
  Tensor at(DType::i64, {});
  Tensor x = Tensor::normal(DType::f32, {3, 50, 40}, 1);
  x.set(2771, 100);
  ASSERT_OK(run_plan<ArgReduce>({.shape = x.shape()}, {x, at, {}}));
  EXPECT_EQ(at.at(0), 2771);
  x.set(5000, NAN), x.set(4321, NAN);
  for (ArgReduceKind kind : {ArgReduceKind::argmax, ArgReduceKind::argmin}) {
    ASSERT_OK(run_plan<ArgReduce>({.kind = kind, .shape = x.shape()}, {x, at, {}}));
    EXPECT_EQ(at.at(0), 4321);
  }
  for (int64_t n : {3, 70, 5000}) {
    const Tensor low(DType::f32, {n}, std::vector<double>(size_t(n), -INFINITY));
    ASSERT_OK(run_plan<ArgReduce>({.shape = {n}}, {low, at, {}}));
    EXPECT_EQ(at.at(0), 0);
  }
}

// --- bits
TEST(Reduce, BitsDoNotDependOnStridesThreadsOrInstructionSet) {
  const Isa best = isa();
  const int before = threads();
  for (ReduceKind kind : kSmooth)
    for (DType t : {DType::bf16, DType::f32, DType::f64})
      for (const Shape& shape : {Shape{40, 13}, Shape{70, 37}, Shape{256, 33}, Shape{700, 33}, Shape{4200, 17}}) {
        const ReduceDescriptor down{.kind = kind, .dtype = t, .shape = shape, .axes = {0}}, along{.kind = kind, .dtype = t, .shape = {shape[1], shape[0]}, .axes = {1}};
        const Tensor x = data(down, 7);
        Tensor turned(t, along.shape), first(t, {shape[1]});
        for (int64_t i = 0; i < x.numel(); ++i) turned.set(i % shape[1] * shape[0] + i / shape[1], x.at(i));
        const Tensor strided(t, shape, x.values(), Layout::every_other), lying(t, shape, x.values(), Layout::transposed);
        ASSERT_OK(run_plan<Reduce>(down, {x, first, {}}));
        for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512})
          for (int team : {1, 3}) {
            if (on_cuda() && (set != Isa::portable || team != 1)) continue;
            limit_isa(set), set_threads(team);
            for (const Tensor* from : {&x, &strided, &lying, static_cast<const Tensor*>(&turned)}) {
              Tensor y(t, {shape[1]});
              ASSERT_OK(run_plan<Reduce>(from == &turned ? along : down, {*from, y, {}}));
              EXPECT_TRUE(y.same_bits(first)) << enum_name(kind) << ' ' << name(t) << ' ' << to_string(shape) << ' ' << name(set) << ' ' << team;
            }
          }
        limit_isa(best), set_threads(before);
      }
}
// Gradients of halves: the same bits in rows that begin anywhere, past the caches and not, for every instruction set.
TEST(Reduce, GradientsOfHalvesInLargeRows) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA nothing is written past the caches";
  const Isa best = isa();
  for (DType t : {DType::f16, DType::bf16})
    for (ReduceKind kind : {ReduceKind::logsumexp, ReduceKind::norm2, ReduceKind::sum, ReduceKind::max, ReduceKind::var})
      for (int64_t n : {1001, 64}) {
        const int64_t rows = (int64_t(25) << 20) / (n * 2), few = 67;
        const ReduceDescriptor many{.kind = kind, .dtype = t, .shape = {rows, n}, .axes = {1}}, some{.kind = kind, .dtype = t, .shape = {few, n}, .axes = {1}};
        const Tensor pool = Tensor::normal(t, {few, n}, 1), slopes = Tensor::normal(t, {few}, 2);
        Tensor x(t, many.shape), dy(t, {rows}), y(t, {rows}), dx(t, many.shape), y_some(t, {few}), dx_some(t, some.shape);
        const size_t bytes = size_t(few * n) * 2;
        for (int64_t r = 0; r < rows; r += few) {
          const int64_t here = std::min(few, rows - r);
          std::memcpy(x.view().as<char>() + r * n * 2, pool.view().data, size_t(here * n) * 2);
          std::memcpy(dy.view().as<char>() + r * 2, slopes.view().data, size_t(here) * 2);
        }
        ASSERT_OK(run_plan<Reduce>(many, {x, y, {}}));
        ASSERT_OK(run_plan<ReduceBackward>(many, {dy, x, y, {}, dx}));
        ASSERT_OK(run_plan<Reduce>(some, {pool, y_some, {}}));
        for (Isa set : {best, Isa::avx2, Isa::portable}) {
          limit_isa(set);
          ASSERT_OK(run_plan<ReduceBackward>(some, {slopes, pool, y_some, {}, dx_some}));
          EXPECT_EQ(std::memcmp(dx.view().data, dx_some.view().data, bytes), 0) << enum_name(kind) << ' ' << name(t) << ' ' << n << ' ' << name(set);
          const int64_t last = (rows / few - 1) * few;
          EXPECT_EQ(std::memcmp(dx.view().as<char>() + last * n * 2, dx_some.view().data, bytes), 0) << enum_name(kind) << ' ' << name(t) << ' ' << n << ' ' << name(set);
        }
        limit_isa(best);
      }
}
void expect_bits_of_cpu(const ReduceDescriptor& d) {
  const Tensor x = data(d, 1);
  Tensor y(d.dtype, dy_shape(d)), on_cpu(d.dtype, dy_shape(d));
  ASSERT_OK(run_plan<Reduce>(d, {x, y, {}}));
  const auto cpu = ReducePlan::select(Stream::cpu(), d);
  ASSERT_OK(cpu.status());
  GuardedWorkspace workspace(cpu->workspace_size());
  ASSERT_OK(cpu->run(Stream::cpu(), workspace.get(), {x, on_cpu, {}}));
  EXPECT_TRUE(y.same_bits(on_cpu)) << describe(d);
}
TEST(Reduce, SameBitsOnCpuAndCuda) {
  if (!on_cuda()) GTEST_SKIP() << "needs a CUDA device";
  for (ReduceKind kind : kSmooth)
    for (DType t : kFloats)
      for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{7, 60}, 1}, {{5, 1000}, 1}, {{3, 9001}, 1}, {{1, 300000}, 1}, {{300, 70}, 0}, {{9000, 40}, 0}, {{700, 1040}, 0}, {{4, 90, 264}, 1}}) {
        const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = shape, .axes = {axis}};
        const auto plan = ReducePlan::select(test_stream(), d);
        ASSERT_OK(plan.status());
        if (plan->precision_guarantee().same_on_cpu_and_cuda) expect_bits_of_cpu(d);
      }
}
TEST(Reduce, SumsOfManyColumns) {
  if (!on_cuda()) GTEST_SKIP() << "needs a CUDA device";
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::mean, ReduceKind::norm1})
      for (const Shape& shape : {Shape{270, 9, 264}, Shape{300, 130, 24}}) expect_bits_of_cpu({.kind = kind, .dtype = t, .shape = shape, .axes = {1}});
  expect_bits_of_cpu({.kind = ReduceKind::sum, .dtype = DType::bf16, .shape = {272, 1030, 64}, .axes = {1}});
}
TEST(Reduce, ContractAndRepeats) {
  for (ReduceKind kind : kSmooth)
    for (const Dims& axes : {Dims{0}, Dims{1}}) {
      const ReduceDescriptor d{.kind = kind, .shape = {4500, 20}, .axes = axes};
      const Tensor x = data(d, 1), dy = Tensor::normal(DType::f32, dy_shape(d), 2);
      Tensor y(DType::f32, dy_shape(d)), dx(DType::f32, d.shape);
      check_repeat_bits<Reduce>(d, {x, y, {}}, {}, 1);
      check_contract<Reduce>(d, {x, y, {}});
      const ReduceBackward::Args a{dy, x, y, {}, dx};
      check_repeat_bits<ReduceBackward>(d, a, {}, 1);
      check_contract<ReduceBackward>(d, a);
    }
  const ArgReduceDescriptor d{.shape = {20, 4500}, .axis = 1};
  const Tensor x = Tensor::normal(DType::f32, d.shape, 1);
  Tensor at(DType::i64, {20}), best(DType::f32, {20});
  check_repeat_bits<ArgReduce>(d, {x, at, best}, {}, 1);
  check_contract<ArgReduce>(d, {x, at, best});
}
TEST(Reduce, ShortRowsOfSpecialValuesTogetherAndAlone) {
  for (ReduceKind kind : {ReduceKind::logsumexp, ReduceKind::var, ReduceKind::std})
    for (DType t : kFloats)
      for (int64_t n : {1, 5, 64, 70, 200}) {
        const ReduceDescriptor d{.kind = kind, .dtype = t, .shape = {40, n}, .axes = {1}}, one{.kind = kind, .dtype = t, .shape = {1, n}, .axes = {1}};
        Tensor x = data(d, 3);
        for (int64_t r = 0; r < 40; ++r)
          for (int64_t i = 0; i < n; ++i) {
            if (r % 8 == 3) x.set(r * n + i, -INFINITY);
            if (i == n - 1 && r % 8 < 3) x.set(r * n + i, r % 8 == 0 ? NAN : r % 8 == 1 ? INFINITY : -INFINITY);
          }
        Tensor all(t, {40});
        ASSERT_OK(run_plan<Reduce>(d, {x, all, {}}));
        const std::vector<double> values = x.values();
        for (int64_t r = 0; r < 40; ++r) {
          Tensor y(t, {1});
          ASSERT_OK(run_plan<Reduce>(one, {Tensor(t, {1, n}, {values.begin() + r * n, values.begin() + (r + 1) * n}), y, {}}));
          const bool same = y.at(0) == all.at(r) || (std::isnan(y.at(0)) && std::isnan(all.at(r)));
          EXPECT_TRUE(same) << enum_name(kind) << ' ' << name(t) << ' ' << n << ' ' << r << ' ' << y.at(0) << ' ' << all.at(r);
        }
      }
}
TEST(Reduce, RowsDoNotDependOnTheBatch) {
  for (ReduceKind kind : kSmooth)
    for (int64_t n : {12, 300, 5000}) {
      const ReduceDescriptor all{.kind = kind, .shape = {50, n}, .axes = {1}}, one{.kind = kind, .shape = {1, n}, .axes = {1}};
      auto plan = ReducePlan::select(Stream::cpu(), all);
      ASSERT_TRUE(plan.ok() && plan->precision_guarantee().batch_invariant);
      const Tensor x = data(all, 1);
      Tensor y(DType::f32, {50}), alone(DType::f32, {1});
      ASSERT_OK(run_plan<Reduce>(all, {x, y, {}}));
      for (int64_t r : {0, 31}) {
        ASSERT_OK(run_plan<Reduce>(one, {TensorView::dense(x.view().as<float>() + r * n, {1, n}), alone, {}}));
        EXPECT_EQ(alone.at(0), y.at(r)) << enum_name(kind) << ' ' << n;
      }
    }
}
TEST(Reduce, GradientsByDirections) {
  for (ReduceKind kind : kSmooth) {
    if (kind == ReduceKind::norm0) continue;  // its gradient is 0
    const ReduceDescriptor d{.kind = kind, .dtype = DType::f64, .shape = {3, 17, 4}, .axes = {1}, .p = 2.5};
    Tensor x = product(kind) ? data(d, 3) : Tensor::normal(DType::f64, d.shape, 3), y(DType::f64, dy_shape(d)), dx(DType::f64, d.shape);
    const Tensor dy = Tensor::normal(DType::f64, dy_shape(d), 4);
    auto loss = [&] {
      EXPECT_OK(run_plan<Reduce>(d, {x, y, {}}));
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += y.at(i) * dy.at(i);
      return sum;
    };
    loss();
    ASSERT_OK(run_plan<ReduceBackward>(d, {dy, x, y, {}, dx}));
    check_directional(loss, x, dx, 5);
  }
}

// --- refusals
TEST(Reduce, Refuses) {
  auto refused = [](const ReduceDescriptor& d, std::initializer_list<std::string_view> words) {
    expect_refused(ReducePlan::select(Stream::cpu(), d).status(), Code::invalid_problem, words);
  };
  refused({.shape = {2, 3}, .axes = {2}}, {"reduce", "axes [2]", "rank is 2"});
  refused({.shape = {2, 3}, .axes = {-3}}, {"axes [-3]"});
  refused({.shape = {2, 3}, .axes = {1, -1}}, {"axis 1 twice"});
  refused({.shape = {2, -3}}, {"shape [2, -3]"});
  refused({.kind = ReduceKind(40), .shape = {2}}, {"kind 40"});
  refused({.shape = {2}, .ties = ReduceTies(9)}, {"ties 9"});
  refused({.kind = ReduceKind::var, .shape = {2}, .correction = NAN}, {"correction", "finite"});
  refused({.kind = ReduceKind::mean, .dtype = DType::i32, .shape = {2}}, {"mean", "floating", "i32"});
  refused({.shape = {2}, .out_dtype = DType::f64}, {"out_dtype f64", "f32", "accumulator"});
  refused({.shape = {2}, .out_dtype = DType::i32}, {"out_dtype i32"});
  refused({.kind = ReduceKind::max, .dtype = DType::i32, .shape = {2}, .out_dtype = DType::i64}, {"out_dtype i64", "max"});
  expect_refused(ReduceBackwardPlan::select(Stream::cpu(), {.kind = ReduceKind::any, .shape = {2}}).status(), Code::unsupported, {"any", "no gradient"});
  expect_refused(ArgReducePlan::select(Stream::cpu(), {.shape = {2}, .axis = 1}).status(), Code::invalid_problem, {"arg_reduce", "rank is 1"});
  expect_refused(ArgReducePlan::select(Stream::cpu(), {.shape = {2, 0}, .axis = 1}).status(), Code::invalid_problem, {"argmax", "without elements"});
  const Tensor x(DType::f32, {4}, {1, 2, 3, 4});
  Tensor y(DType::f32, {}), mean(DType::f32, {}), dx(DType::f32, {4});
  expect_refused(run_plan<Reduce>({.shape = {4}}, {x, y, mean}), Code::invalid_problem, {"mean is given", "sum"});
  expect_refused(run_plan<ReduceBackward>({.kind = ReduceKind::prod, .shape = {4}}, {y, {}, {}, {}, dx}), Code::invalid_problem, {"x is missing", "prod"});
  expect_refused(run_plan<ReduceBackward>({.kind = ReduceKind::norm2, .shape = {4}}, {y, x, {}, {}, dx}), Code::invalid_problem, {"y is missing", "norm2"});
}

}  // namespace
}  // namespace baracuda
