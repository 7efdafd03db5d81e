#include "baracuda/ops/scan/scan.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/scan/scan_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;
using scan_oracle::Result;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kIntegers[] = {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};
constexpr ScanKind kKinds[] = {ScanKind::cumsum, ScanKind::cumprod, ScanKind::cummax, ScanKind::cummin, ScanKind::logcumsumexp};
bool extremum(ScanKind k) { return k == ScanKind::cummax || k == ScanKind::cummin; }

double least(DType t) {
  if (is_floating(t)) return -INFINITY;
  return kDTypeFacts[size_t(t)].is_signed ? -std::ldexp(1, bit_size(t) - 1) : 0;
}
double greatest(DType t) {
  if (is_floating(t)) return INFINITY;
  if (t == DType::boolean) return 1;
  return std::ldexp(1, bit_size(t) - (kDTypeFacts[size_t(t)].is_signed ? 1 : 0)) - (bit_size(t) < 64);
}
Tensor data(ScanKind kind, DType t, const Shape& shape, uint64_t seed, Layout layout = Layout::dense) {
  if (!is_floating(t)) {
    const bool sign = kDTypeFacts[size_t(t)].is_signed, product = kind == ScanKind::cumprod;
    const Tensor dense = Tensor::integers(t, shape, seed, t == DType::boolean ? 0 : product ? (sign ? -1 : 1) : sign ? -9 : 0, t == DType::boolean || product ? 2 : 10);
    return Tensor(t, shape, dense.values(), layout);
  }
  if (kind == ScanKind::cumprod) return Tensor::uniform(t, shape, seed, 0.7, 1.37, layout);
  if (extremum(kind)) {  // few values, so that there are ties
    std::vector<double> v = Tensor::normal(t, shape, seed).values();
    for (double& e : v) e = std::round(2 * e) / 2;
    return Tensor(t, shape, v, layout);
  }
  return Tensor::normal(t, shape, seed, 0, 1, layout);
}
// Rounding: sums of f32 and all products are kept in f64, so that only the last rounding shows; halves are summed in f32.
Tolerance tolerance(const ScanDescriptor& d, int64_t n) {
  const bool half = d.dtype == DType::f16 || d.dtype == DType::bf16;
  if (!is_floating(d.dtype) || extremum(d.kind)) return {.ulps = 0};
  if ((d.kind == ScanKind::cumsum && !half) || (d.kind == ScanKind::cumprod && d.dtype != DType::f64)) return {.terms = d.dtype == DType::f64 ? double(n) : 0};
  return {.ulps = 1, .terms = double(n)};
}
struct Case { ScanDescriptor d; Layout layout = Layout::dense, y_layout = Layout::dense; uint64_t seed = 1; };
void check(const Case& c, const Tensor* given = nullptr) {
  SCOPED_TRACE(text(describe(c.d), " layouts ", int(c.layout), " ", int(c.y_layout)));
  const Tensor x = given ? *given : data(c.d.kind, c.d.dtype, c.d.shape, c.seed, c.layout);
  Tensor y(Scan::y_dtype(c.d), c.d.shape, c.y_layout), indices;
  if (extremum(c.d.kind)) indices = Tensor(DType::i64, c.d.shape, c.y_layout);
  ASSERT_OK(run_plan<Scan>(c.d, {x, y, indices}));
  const Result want = scan_oracle::scan(c.d, x.values(), least(c.d.dtype), greatest(c.d.dtype));
  const int64_t n = scan_oracle::Axis(c.d.shape, c.d.axis).n;
  const bool wide = c.d.dtype == DType::f32 && c.d.kind == ScanKind::cumsum;  // no allowance for the sum: f64 hides it
  EXPECT_CLOSE(y, want.y, tolerance(c.d, n), wide ? nullptr : &want.magnitude);
  EXPECT_TRUE(y.guards_intact());
  if (!extremum(c.d.kind)) return;
  EXPECT_CLOSE(indices, want.indices, {.ulps = 0});
  EXPECT_TRUE(indices.guards_intact());
  Tensor alone(c.d.dtype, c.d.shape, c.y_layout);
  ASSERT_OK(run_plan<Scan>(c.d, {x, alone, {}}));
  EXPECT_TRUE(alone.same_bits(y)) << "other values without indices";
}

TEST(Scan, EveryKindAndFloat) {
  for (ScanKind kind : kKinds)
    for (DType t : kFloats)
      for (bool reverse : {false, true})
        for (bool exclusive : {false, true})
          for (int axis : {0, 1, -1}) check({{kind, t, {5, 131, 33}, axis, reverse, exclusive}, Layout::dense, Layout::dense});
}
TEST(Scan, EveryKindAndInteger) {
  for (ScanKind kind : kKinds)
    for (DType t : kIntegers)
      for (bool reverse : {false, true})
        for (int axis : {0, 1, 2})
          if (kind != ScanKind::logcumsumexp) check({{kind, t, {3, 70, 19}, axis, reverse, reverse != (axis == 1)}});
}
TEST(Scan, Lengths) {
  for (int64_t n : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 1023, 1024, 1025, 1600, 2049, 4097, 20000})
    for (ScanKind kind : kKinds)
      for (DType t : {DType::f32, DType::bf16}) {
        check({{kind, t, {n}, 0}});
        check({{kind, t, {3, n}, 1, true}});
        check({{kind, t, {n, 17}, 0, false, n % 2 == 0, ScanTies::first}});
      }
}
TEST(Scan, Layouts) {
  for (Layout a : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (Layout b : {Layout::dense, Layout::transposed, Layout::reversed, Layout::every_other})
      for (int axis : {0, 1, 2})
        for (ScanKind kind : {ScanKind::cumsum, ScanKind::cummin, ScanKind::logcumsumexp})
          check({{kind, axis == 1 ? DType::f16 : DType::f32, {4, 37, 90}, axis, b == Layout::transposed}, a, b});
}
TEST(Scan, BroadcastInput) {
  const Tensor x = Tensor::normal(DType::f32, {1}, 3);
  TensorView wide = x;
  wide.shape = {20, 300}, wide.strides = {0, 0};
  Tensor y(DType::f32, {20, 300});
  ASSERT_OK(run_plan<Scan>({.shape = {20, 300}, .axis = 1}, {wide, y, {}}));
  for (int64_t i = 0; i < 6000; ++i) ASSERT_EQ(y.at(i), double(float(x.at(0) * double(i % 300 + 1)))) << i;
}
TEST(Scan, RandomProblems) {
  Source source(77);
  auto pick = [&](int64_t n) { return int64_t(source.uniform() * double(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    ScanDescriptor d;
    d.kind = kKinds[pick(5)];
    d.dtype = d.kind == ScanKind::logcumsumexp || pick(2) ? kFloats[pick(4)] : kIntegers[pick(9)];
    const int rank = int(pick(5));
    int64_t left = 20000;
    for (int i = 0; i < rank; ++i) {
      const int64_t e = pick(4) == 0 ? 1 + pick(left > 3000 ? 3000 : left) : 1 + pick(left > 20 ? 20 : left);
      d.shape.push_back(e), left /= e;
    }
    d.axis = rank ? int(pick(2 * rank)) - rank : int(pick(2)) - 1;
    d.reverse = pick(2), d.exclusive = pick(2), d.ties = ScanTies(pick(2));
    check({d, Layout(pick(6)), Layout(pick(6)), uint64_t(trial)});
  }
}
// The order does not show how a lane lies in memory, what is around it, or which threads there are.
TEST(Scan, RowsEqualColumnsEqualSplitRows) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA rows and columns have orders of their own";
  const int before = threads();
  for (ScanKind kind : kKinds)
    for (DType t : kFloats) {
      SCOPED_TRACE(text(enum_name(kind), " ", t));
      const int64_t n = 5000;
      const Tensor x = data(kind, t, {20, n}, 4);
      Tensor y(t, {20, n}), turned_y(t, {20, n}), one(t, {n});
      ASSERT_OK(run_plan<Scan>({kind, t, {20, n}, 1}, {x, y, {}}));
      Tensor turned(t, {n, 20}), columns(t, {n, 20});
      for (int64_t i = 0; i < 20 * n; ++i) turned.set(i % n * 20 + i / n, x.at(i));
      ASSERT_OK(run_plan<Scan>({kind, t, {n, 20}, 0}, {turned, columns, {}}));
      for (int64_t i = 0; i < 20 * n; ++i) turned_y.set(i, columns.at(i % n * 20 + i / n));
      EXPECT_TRUE(turned_y.same_bits(y)) << "columns";
      for (int team : {1, 8}) {
        set_threads(team);
        for (int64_t row : {0, 7}) {
          TensorView part = x.view();
          part.data = x.view().as<char>() + row * n * int64_t(byte_size(t));
          part.shape = {n}, part.strides = {1};
          ASSERT_OK(run_plan<Scan>({kind, t, {n}, 0}, {part, one, {}}));
          EXPECT_EQ(std::memcmp(one.view().data, y.view().as<char>() + row * n * int64_t(byte_size(t)), size_t(n) * byte_size(t)), 0) << "row " << row;
        }
      }
      set_threads(before);
    }
}
TEST(Scan, ThreadsHandOnTotals) {  // chunk by chunk: also where the greatest is a zero of either sign, and behind a NaN
  const int before = threads();
  for (ScanKind kind : kKinds)
    for (DType t : kFloats)
      for (const Shape& shape : {Shape{70000, 1}, Shape{70000, 3}, Shape{36000, 24}})
        for (int trial = 0; trial < 3; ++trial) {
          if (kind == ScanKind::logcumsumexp && trial) continue;
          const ScanDescriptor d{kind, t, shape, 0, trial == 1};
          std::vector<double> v = data(kind, t, shape, 6).values();
          if (trial == 2)
            for (size_t i = 0; i < v.size(); ++i) v[i] = i % 3 ? (kind == ScanKind::cummin ? std::fabs(v[i]) : -std::fabs(v[i])) : i % 2 ? 0. : -0.;
          if (trial == 1) v[v.size() / 3] = NAN;
          const Tensor x(t, shape, v);
          Tensor want(t, shape), y(t, shape);
          set_threads(1);
          ASSERT_OK(run_plan<Scan>(d, {x, want, {}}));
          for (int team : {2, 3}) {
            set_threads(team);
            ASSERT_OK(run_plan<Scan>(d, {x, y, {}}));
            EXPECT_TRUE(y.same_bits(want)) << describe(d) << " trial " << trial << " threads " << team;
          }
        }
  set_threads(before);
}
TEST(Scan, SameBitsOnEveryInstructionSet) {
  const Isa best = isa();
  for (ScanKind kind : kKinds)
    for (DType t : kFloats)
      for (int trial = 0; trial < 4; ++trial) {
        const ScanDescriptor d{kind, t, trial / 2 ? Shape{1500, 70} : Shape{3, 1500}, trial / 2 ? 0 : 1, trial % 2 == 1};
        const Tensor x = data(kind, t, d.shape, 5);
        Tensor want(t, d.shape), y(t, d.shape);
        limit_isa(Isa::portable);
        ASSERT_OK(run_plan<Scan>(d, {x, want, {}}));
        for (Isa set : {Isa::avx2, Isa::avx512, Isa::avx512bf16}) {
          limit_isa(set);
          ASSERT_OK(run_plan<Scan>(d, {x, y, {}}));
          EXPECT_TRUE(y.same_bits(want)) << describe(d) << " " << name(set);
        }
        limit_isa(best);
      }
}
TEST(Scan, ReverseTwiceAndExclusive) {
  for (ScanKind kind : kKinds)
    for (DType t : {DType::f32, DType::bf16, DType::i32}) {
      if (kind == ScanKind::logcumsumexp && t == DType::i32) continue;
      SCOPED_TRACE(text(enum_name(kind), " ", t));
      const int64_t n = 2500;
      const ScanDescriptor d{kind, t, {n}, 0}, back{kind, t, {n}, 0, true}, exclusive{kind, t, {n}, 0, false, true};
      const Tensor x = data(kind, t, {n}, 8);
      const DType out = Scan::y_dtype(d);
      Tensor y(out, {n}), z(out, {n}), e(out, {n});
      TensorView flipped = x, flipped_z = z;
      flipped.data = x.view().as<char>() + (n - 1) * int64_t(byte_size(t)), flipped.strides = {-1};
      flipped_z.data = z.view().as<char>() + (n - 1) * int64_t(byte_size(out)), flipped_z.strides = {-1};
      ASSERT_OK(run_plan<Scan>(d, {x, y, {}}));
      ASSERT_OK(run_plan<Scan>(back, {flipped, flipped_z, {}}));
      EXPECT_TRUE(z.same_bits(y));
      ASSERT_OK(run_plan<Scan>(exclusive, {x, e, {}}));
      const double apart = on_cuda() && kind == ScanKind::logcumsumexp ? 0x1p-21 : 0;  // sums there are over powers of two of their own
      for (int64_t i = 1; i < n; ++i) ASSERT_NEAR(e.at(i), y.at(i - 1), apart * (1 + std::fabs(y.at(i - 1)))) << i;
    }
}
TEST(Scan, SplitAndJoin) {  // the scan of the second half goes on from the last of the first
  const int64_t n = 3000, half = 1111;
  const Tensor x = Tensor::normal(DType::f64, {n}, 6);
  for (ScanKind kind : kKinds) {
    Tensor y(DType::f64, {n}), a(DType::f64, {half}), b(DType::f64, {n - half});
    TensorView second = x;
    second.data = x.view().as<double>() + half, second.shape = {n - half};
    TensorView first = x;
    first.shape = {half};
    ASSERT_OK(run_plan<Scan>({kind, DType::f64, {n}, 0}, {x, y, {}}));
    ASSERT_OK(run_plan<Scan>({kind, DType::f64, {half}, 0}, {first, a, {}}));
    ASSERT_OK(run_plan<Scan>({kind, DType::f64, {n - half}, 0}, {second, b, {}}));
    const double carry = a.at(half - 1);
    std::vector<double> want, scale;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = i < half ? a.at(i) : b.at(i - half);
      sum += std::fabs(x.at(i));
      scale.push_back(kind == ScanKind::cumsum ? sum : 1 + std::fabs(v));
      want.push_back(i < half ? v : kind == ScanKind::cumsum ? carry + v : kind == ScanKind::cumprod ? carry * v : kind == ScanKind::cummax ? std::max(carry, v)
                     : kind == ScanKind::cummin ? std::min(carry, v) : scan_oracle::log_add(carry, v));
    }
    EXPECT_CLOSE(y, want, {.ulps = 2, .terms = double(n)}, &scale);
  }
}
TEST(Scan, InPlace) {
  for (int axis : {0, 1})
    for (bool exclusive : {false, true})
      for (ScanKind kind : kKinds) {
        const ScanDescriptor d{kind, DType::f32, {70, 1300}, axis, false, exclusive};
        Tensor x = data(kind, d.dtype, d.shape, 9), y(d.dtype, d.shape);
        ASSERT_OK(run_plan<Scan>(d, {x, y, {}}));
        ASSERT_OK(run_plan<Scan>(d, {x, x, {}}));
        EXPECT_TRUE(x.same_bits(y)) << describe(d);
      }
}
TEST(Scan, LargeOutputs) {  // written past the caches: both directions and axes give what a small tensor gives
  for (DType t : {DType::f32, DType::bf16})
    for (bool reverse : {false, true})
      for (int axis : {0, 1}) {
        if (on_cuda() && axis == 0) continue;  // columns have an order of their own
        const Shape shape = axis ? Shape{t == DType::f32 ? 4200 : 8400, 1024} : Shape{1024, t == DType::f32 ? 4224 : 8448};
        Tensor x(t, shape), y(t, shape);
        const Tensor pattern = Tensor::normal(t, {1024}, 1);
        const size_t size = byte_size(t);
        for (int64_t i = 0; i < shape.numel(); ++i)
          std::memcpy(x.view().as<char>() + size_t(i) * size, pattern.view().as<char>() + size_t(axis ? i % 1024 : i / shape[1]) * size, size);
        ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, t, shape, axis, reverse}, {x, y, {}}));
        Tensor want(t, {1024});
        ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, t, {1024}, 0, reverse}, {pattern, want, {}}));
        int64_t wrong = 0;
        const char *got = y.view().as<char>(), *right = want.view().as<char>();
        for (int64_t i = 0; i < shape.numel(); ++i) wrong += std::memcmp(got + size_t(i) * size, right + size_t(axis ? i % 1024 : i / shape[1]) * size, size) != 0;
        EXPECT_EQ(wrong, 0) << name(t) << " axis " << axis << (reverse ? " reverse" : "");
      }
}
TEST(Scan, LongLines) {
  for (ScanKind kind : {ScanKind::cumsum, ScanKind::cummax, ScanKind::logcumsumexp}) {
    check({{kind, DType::f32, {2, 2200000}, 1, kind == ScanKind::cummax}});
    check({{kind, DType::bf16, {4600003}, 0, false, true}});
    check({{kind, DType::f32, {70000, 40}, 0, true}});
  }
}
TEST(Scan, ExtremaOfManyElements) {  // rows by tiles, in one and short, columns; ties, zeros of either sign, infinities, NaN
  struct Lines { Shape shape; int axis; };
  for (const Lines& l : {Lines{{2, 30001}, 1}, Lines{{3, 40960}, 1}, Lines{{70, 64}, 1}, Lines{{300, 384}, 0}, Lines{{2, 90, 256}, 1}})
    for (ScanKind kind : {ScanKind::cummax, ScanKind::cummin})
      for (DType t : {DType::f16, DType::bf16, DType::f32})
        for (ScanTies ties : {ScanTies::last, ScanTies::first}) {
          const double worst = kind == ScanKind::cummax ? -INFINITY : INFINITY;
          std::vector<double> v = data(kind, t, l.shape, 3).values();
          for (size_t i = 0; i < v.size(); ++i) v[i] = i % 11 == 0 ? worst : i % 7 == 0 ? -0. : i % 3 == 0 && std::fabs(v[i]) > 1 ? 0 : v[i];
          if (ties == ScanTies::last) v[v.size() * 2 / 3] = v[v.size() * 3 / 4] = NAN;
          const Tensor x(t, l.shape, v);
          const bool turned = (kind == ScanKind::cummin) != (t == DType::bf16);
          check({{kind, t, l.shape, l.axis, turned, t == DType::f16, ties}}, &x);
        }
  check({{ScanKind::cummin, DType::f32, {540, 2064}, 1}});
}
TEST(Scan, SpecialValues) {
  const double inf = INFINITY;
  const std::vector<double> values = {-0.0, 0, -inf, 1e-40, NAN, 3, inf, -1, 1e30, -inf, NAN, 2};
  for (ScanKind kind : kKinds)
    for (int64_t at : {0, 5, 63, 64, 1023, 1024, 1500})
      for (size_t v = 0; v < values.size(); ++v)
        for (DType t : {DType::f32, DType::f64}) {
          Tensor x = data(kind, t, {1600}, 2);
          x.set(at, values[v]);
          if (v % 2) x.set(at + 70, values[(v + 5) % values.size()]);
          check({{kind, t, {1600}, 0, false, v % 3 == 0, ScanTies(v % 2)}}, &x);
        }
}
TEST(Scan, LogCumsumExpRanges) {  // chunks that rise steeply, or lie far out, go another way
  for (DType t : {DType::f32, DType::f64})
    for (double step : {0.5, 3.0, 40.0, 700.0})
      for (double start : {-1e5, -40.0, 0.0, 1e7, 1e30}) {
        if (start == 1e30 && step < 700) continue;
        std::vector<double> up, down;
        for (int i = 0; i < 300; ++i) up.push_back(start + step * i), down.push_back(start - step * i);
        for (const auto& v : {up, down}) {
          const Tensor x(t, {300}, v);
          check({{ScanKind::logcumsumexp, t, {300}, 0}}, &x);
          check({{ScanKind::logcumsumexp, t, {300}, 0, false, true}}, &x);
        }
      }
  std::vector<double> v(400, -INFINITY);
  for (int i : {200, 201, 350}) v[size_t(i)] = i - 200;
  const Tensor x(DType::f32, {400}, v), none(DType::f32, {400}, std::vector<double>(400, -INFINITY));
  check({{ScanKind::logcumsumexp, DType::f32, {400}, 0}}, &x);
  check({{ScanKind::logcumsumexp, DType::f32, {400}, 0}}, &none);
}
// Near 0 an absolute error of a term is a large relative one of y: what exp and log leave is judged by |y| alone here.
TEST(Scan, LogCumsumExpKeepsSmallResults) {
  const Tensor x(DType::f32, {4}, {1e-3, -30, 25, 59}), up(DType::f64, {3}, {1e-9, -900, 590});
  Tensor y(DType::f32, {4}), z(DType::f64, {3});
  ASSERT_OK(run_plan<Scan>({ScanKind::logcumsumexp, DType::f32, {4}, 0}, {x, y, {}}));
  EXPECT_NEAR(y.at(0), x.at(0), 0x1p-22);
  EXPECT_NEAR(y.at(1), x.at(0), 0x1p-22);
  ASSERT_OK(run_plan<Scan>({ScanKind::logcumsumexp, DType::f64, {3}, 0}, {up, z, {}}));
  EXPECT_NEAR(z.at(0), 1e-9, 0x1p-51);
}

// --- known faults of other libraries
TEST(Scan, case_cummax_empty_axis) {
  for (ScanKind kind : kKinds)
    for (const Shape& shape : {Shape{3, 0}, Shape{0, 5}, Shape{0}}) {
      const Tensor x(DType::f32, shape);
      Tensor y(DType::f32, shape), indices;
      if (extremum(kind)) indices = Tensor(DType::i64, shape);
      ASSERT_OK(run_plan<Scan>({kind, DType::f32, shape, -1}, {x, y, indices}));
    }
}
void expect_values(const Tensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.numel(), int64_t(want.size()));
  for (int64_t i = 0; i < got.numel(); ++i)
    EXPECT_TRUE(got.at(i) == want[size_t(i)] || (std::isnan(got.at(i)) && std::isnan(want[size_t(i)]))) << i << ": " << got.at(i) << ", want " << want[size_t(i)];
}
TEST(Scan, case_cummax_nan) {
  for (DType t : kFloats)
    for (ScanKind kind : {ScanKind::cummax, ScanKind::cummin}) {
      const double sign = kind == ScanKind::cummax ? 1 : -1;
      const Tensor x(t, {5}, {sign, 3 * sign, NAN, 5 * sign, 4 * sign});
      Tensor y(t, {5}), indices(DType::i64, {5});
      ASSERT_OK(run_plan<Scan>({kind, t, {5}, 0}, {x, y, indices}));
      expect_values(y, {sign, 3 * sign, NAN, NAN, NAN});
      expect_values(indices, {0, 1, 2, 2, 2});
    }
}
TEST(Scan, case_cummax_tie_index) {
  for (ScanKind kind : {ScanKind::cummax, ScanKind::cummin}) {
    const Tensor x(DType::f32, {3}, {1, 1, 1});
    Tensor y(DType::f32, {3}), indices(DType::i64, {3});
    ASSERT_OK(run_plan<Scan>({kind, DType::f32, {3}, 0}, {x, y, indices}));
    expect_values(indices, {0, 1, 2});
    ASSERT_OK(run_plan<Scan>({.kind = kind, .shape = {3}, .ties = ScanTies::first}, {x, y, indices}));
    expect_values(indices, {0, 0, 0});
    expect_values(y, {1, 1, 1});
  }
}
TEST(Scan, case_cumsum_u32_overflow) {  // offsets beyond 2^32 elements: 1-byte elements of stride 0 would not show them, so a long stride does
  if (on_cuda()) GTEST_SKIP() << "the harness copies what lies between the elements";
  const int64_t rows = 3, n = 2, pitch = (int64_t(1) << 32) + 4096;
  std::vector<int8_t> unused(1);
  const ScanDescriptor d{ScanKind::cumsum, DType::i8, {309504, 1, 16384}, 1};
  EXPECT_OK(ScanPlan::select(Stream::cpu(), d).status());
  void* memory = std::aligned_alloc(4096, size_t(rows * pitch));  // touched in six places only
  if (!memory) GTEST_SKIP() << "no address space for " << rows * pitch << " bytes";
  TensorView x{memory, DType::i8, {}, {rows, n}, {pitch, 7}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) x.as<int8_t>()[r * pitch + 7 * i] = int8_t(10 * r + i + 1);
  Tensor y(DType::i64, {rows, n});
  EXPECT_OK(run_plan<Scan>({ScanKind::cumsum, DType::i8, {rows, n}, 1}, {x, y, {}}));
  expect_values(y, {1, 3, 11, 23, 21, 43});
  std::free(memory);
}
TEST(Scan, case_scan_many_columns) {
  const Tensor x = Tensor::normal(DType::f32, {2, 1280, 1280}, 1), z = Tensor::normal(DType::f32, {70000, 3}, 2);
  Tensor y(DType::f32, {2, 1280, 1280}), w(DType::f32, {70000, 3});
  ASSERT_OK(run_plan<Scan>({.shape = {2, 1280, 1280}, .axis = 0}, {x, y, {}}));
  const float *a = x.view().as<float>(), *b = y.view().as<float>();
  for (int64_t i = 0, m = 1280 * 1280; i < m; ++i) ASSERT_TRUE(b[i] == a[i] && b[m + i] == float(double(a[i]) + a[m + i])) << i;
  ASSERT_OK(run_plan<Scan>({.shape = {70000, 3}, .axis = 1}, {z, w, {}}));
  a = z.view().as<float>(), b = w.view().as<float>();
  for (int64_t i = 0; i < 70000; ++i) ASSERT_EQ(b[3 * i + 2], float(double(a[3 * i]) + a[3 * i + 1] + a[3 * i + 2])) << i;
}
TEST(Scan, case_cumsum_half_stall) {
  for (DType t : {DType::f16, DType::bf16}) {
    const Tensor x(t, {5000}, std::vector<double>(5000, 1));
    Tensor y(t, {5000});
    ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, t, {5000}, 0}, {x, y, {}}));
    EXPECT_EQ(y.at(4999), t == DType::f16 ? 5000 : 4992);
  }
}
TEST(Scan, case_cumsum_uint8) {
  const Tensor x(DType::u8, {3}, {200, 100, 50}), ones(DType::u8, {300}, std::vector<double>(300, 1));
  Tensor y(DType::i64, {3}), z(DType::i64, {300});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::u8, {3}, 0}, {x, y, {}}));
  expect_values(y, {200, 300, 350});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::u8, {300}, 0}, {ones, z, {}}));
  EXPECT_EQ(z.at(299), 300);
}
TEST(Scan, case_cumprod_int_widen) {
  const Tensor a(DType::i32, {3}, {0x1p30, 0x1p30, 5}), b(DType::u8, {3}, {200, 100, 50}), c(DType::boolean, {3}, {1, 1, 0});
  Tensor y(DType::i64, {3});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::i32, {3}, 0}, {a, y, {}}));
  expect_values(y, {1073741824, 2147483648, 2147483653});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumprod, DType::u8, {3}, 0}, {b, y, {}}));
  expect_values(y, {200, 20000, 1000000});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::boolean, {3}, 0}, {c, y, {}}));
  expect_values(y, {1, 2, 2});
}
TEST(Scan, WideIntegersAreExactAndWrap) {
  const std::vector<int64_t> v = {INT64_MAX, -5, INT64_MIN, (int64_t(1) << 60) + 1, 3};
  Tensor x(DType::i64, {5}), y(DType::i64, {5}), u(DType::u64, {5}), w(DType::u64, {5});
  std::memcpy(x.view().data, v.data(), 40), std::memcpy(u.view().data, v.data(), 40);
  uint64_t sum = 0, product = 1, most = 0;
  int64_t top = INT64_MIN, bottom = INT64_MAX;
  auto run = [&](ScanKind kind, const Tensor& from, const Tensor& to) { ASSERT_OK(run_plan<Scan>({kind, from.dtype(), {5}, 0}, {from, to, {}})); };
  auto expect = [&](const Tensor& got, int i, uint64_t want) { EXPECT_EQ(got.view().as<uint64_t>()[i], want) << i; };
  run(ScanKind::cumsum, x, y), run(ScanKind::cumsum, u, w);
  for (int i = 0; i < 5; ++i) sum += uint64_t(v[size_t(i)]), expect(y, i, sum), expect(w, i, sum);
  run(ScanKind::cumprod, x, y), run(ScanKind::cumprod, u, w);
  for (int i = 0; i < 5; ++i) product *= uint64_t(v[size_t(i)]), expect(y, i, product), expect(w, i, product);
  run(ScanKind::cummax, x, y), run(ScanKind::cummax, u, w);
  for (int i = 0; i < 5; ++i) top = std::max(top, v[size_t(i)]), most = std::max(most, uint64_t(v[size_t(i)])), expect(y, i, uint64_t(top)), expect(w, i, most);
  run(ScanKind::cummin, x, y);
  for (int i = 0; i < 5; ++i) bottom = std::min(bottom, v[size_t(i)]), expect(y, i, uint64_t(bottom));
}
TEST(Scan, case_logcumsumexp_prefix_neginf) {
  for (DType t : kFloats) {
    const Tensor x(t, {4}, {-INFINITY, -INFINITY, 0, 1});
    Tensor y(t, {4});
    ASSERT_OK(run_plan<Scan>({ScanKind::logcumsumexp, t, {4}, 0}, {x, y, {}}));
    EXPECT_CLOSE(y, (std::vector<double>{-INFINITY, -INFINITY, 0, 1.3132616875182228}), {.ulps = 1});
  }
}
TEST(Scan, case_exclusive_scan_identity) {
  for (DType t : {DType::f32, DType::bf16, DType::i8, DType::i64}) {
    const Tensor x(t, {4}, {-3, -1, -4, -5});
    for (ScanKind kind : kKinds) {
      const ScanDescriptor d{kind, t, {4}, 0, false, true};
      if (kind == ScanKind::logcumsumexp && !is_floating(t)) continue;
      Tensor y(Scan::y_dtype(d), {4});
      ASSERT_OK(run_plan<Scan>(d, {x, y, {}}));
      const double first[] = {0, 1, least(t), greatest(t), -INFINITY};
      if (t != DType::i64) EXPECT_EQ(y.at(0), first[int(kind)]);
      else if (extremum(kind)) EXPECT_EQ(y.view().as<int64_t>()[0], kind == ScanKind::cummax ? INT64_MIN : INT64_MAX);
      EXPECT_FALSE(std::signbit(y.at(0)) && y.at(0) == 0);
      Tensor all(Scan::y_dtype(d), {4});
      ASSERT_OK(run_plan<Scan>({kind, t, {4}, 0}, {x, all, {}}));
      for (int i = 1; i < 4; ++i) EXPECT_EQ(y.at(i), all.at(i - 1));
    }
  }
}
TEST(Scan, case_scan_tail_garbage) {  // poison behind each row: NaN in floats, the least value in integers
  for (int64_t n : {1, 31, 33, 127, 1025, 4097})
    for (ScanKind kind : {ScanKind::cummin, ScanKind::cumprod, ScanKind::logcumsumexp})
      for (DType t : {DType::f32, DType::i32}) {
        if (kind == ScanKind::logcumsumexp && t == DType::i32) continue;
        const ScanDescriptor d{kind, t, {3, n}, 1};
        Tensor padded(t, {3, n + 5}, std::vector<double>(size_t(3 * (n + 5)), t == DType::f32 ? NAN : -2147483648.0));
        const Tensor x = data(kind, t, d.shape, 3);
        for (int64_t i = 0; i < 3 * n; ++i) padded.set(i / n * (n + 5) + i % n, x.at(i));
        TensorView view = padded;
        view.shape = d.shape;
        Tensor y(Scan::y_dtype(d), d.shape), want(Scan::y_dtype(d), d.shape);
        ASSERT_OK(run_plan<Scan>(d, {view, y, {}}));
        ASSERT_OK(run_plan<Scan>(d, {x, want, {}}));
        EXPECT_TRUE(y.same_bits(want)) << describe(d);
        check({d}, &x);
      }
}
TEST(Scan, case_cumsum_determinism) {
  const int64_t n = 1000000;
  Tensor x(DType::f32, {n}), y(DType::f32, {n}), again(DType::f32, {n});
  float* p = x.view().as<float>();
  for (int64_t i = 0; i < n; ++i) p[i] = float(std::fmod(double(i) * M_PI, 1.0));
  const int before = threads();
  ASSERT_OK(run_plan<Scan>({.shape = {n}, .axis = 0}, {x, y, {}}));
  for (int r = 0; r < 20; ++r) {
    set_threads(1 + r % 5);
    ASSERT_OK(run_plan<Scan>({.shape = {n}, .axis = 0}, {x, again, {}}));
    EXPECT_EQ(std::memcmp(again.view().data, y.view().data, size_t(n) * 4), 0);
  }
  set_threads(before);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(p[i]);
  EXPECT_EQ(y.view().as<float>()[n - 1], float(sum));
}
TEST(Scan, case_dlpack_negative_stride) {
  std::vector<double> v(12);
  for (int i = 0; i < 12; ++i) v[size_t(i)] = i;
  const TensorView x{v.data() + 3, DType::f64, {}, {3, 4}, {4, -1}};
  Tensor y(DType::f64, {3, 4});
  ASSERT_OK(run_plan<Scan>({ScanKind::cumsum, DType::f64, {3, 4}, 1}, {x, y, {}}));
  expect_values(y, {3, 5, 6, 6, 7, 13, 18, 22, 11, 21, 30, 38});
}

TEST(Scan, ContractAndBits) {
  for (DType t : {DType::f32, DType::bf16, DType::f64, DType::i32})
    for (const Shape& shape : {Shape{3, 20000}, Shape{70, 300}})
      for (int axis : {0, 1})
        for (ScanKind kind : kKinds) {
          if (kind == ScanKind::logcumsumexp && (t == DType::i32 || t == DType::f64)) continue;
          const ScanDescriptor d{kind, t, shape, axis};
          const Tensor x = data(kind, t, shape, 1);
          Tensor y(Scan::y_dtype(d), shape), indices;
          if (extremum(kind)) indices = Tensor(DType::i64, shape);
          check_repeat_bits<Scan>(d, {x, y, indices}, {}, 1);
        }
  const ScanDescriptor d{ScanKind::cummax, DType::f32, {2, 3000}, 1};
  const Tensor x = data(d.kind, d.dtype, d.shape, 1);
  Tensor y(d.dtype, d.shape), indices(DType::i64, d.shape);
  check_contract<Scan>(d, {x, y, indices});
}
// Tiles, segments of a tile, pieces that begin anywhere; lines and strips of columns that are not full.
TEST(Scan, LongRowsAndWideColumns) {
  for (DType t : kFloats)
    for (int64_t n : {2049, 4096, 8192, 8193, 10240, 10248, 20481, 30000, 70003, 190000})
      for (int64_t rows : {1, 3}) {
        const ScanKind kind = n % 3 == 0 && n < 20000 ? ScanKind::cumprod : ScanKind::cumsum;
        const bool reverse = n % 2 == int64_t(rows == 1), exclusive = n % 16 != 0 && rows == 3;
        check({{kind, t, {rows, n}, 1, reverse, exclusive}});
        if (rows == 3) check({{kind, t, {rows, n}, 1, !reverse, exclusive}, n < 10000 ? Layout::padded : Layout::dense, n > 5000 ? Layout::padded : Layout::dense});
        if (rows == 3 && n < 20000) check({{kind, t, {rows, n}, 1, reverse, exclusive}, Layout::reversed, Layout::reversed});
      }
  for (DType t : kFloats)
    for (const Shape& shape : {Shape{2, 700, 256}, Shape{1, 130, 8192}, Shape{40, 33, 392}, Shape{3, 300, 1000}})
      for (bool reverse : {false, true}) check({{shape[1] == 130 ? ScanKind::cumprod : ScanKind::cumsum, t, shape, 1, reverse, shape[0] > 2}, Layout::dense, shape[0] == 3 ? Layout::padded : Layout::dense});
}
// A line has the same bits alone, where blocks of a cluster may have it, and among others.
TEST(Scan, LongRowsAlone) {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t n : {20000, 262144}) {
      const Tensor x = Tensor::normal(t, {9, n}, 5);
      Tensor y(t, {9, n}), one(t, {1, n});
      ASSERT_OK(run_plan<Scan>({.dtype = t, .shape = {9, n}}, {x, y, {}}));
      const int64_t bytes = n * byte_size(t);
      for (int64_t r = 0; r < 9; r += 4) {
        TensorView row = x;
        row.shape = {1, n}, row.data = static_cast<char*>(row.data) + r * bytes;
        ASSERT_OK(run_plan<Scan>({.dtype = t, .shape = {1, n}}, {row, one, {}}));
        EXPECT_EQ(std::memcmp(one.view().data, static_cast<const char*>(y.view().data) + r * bytes, size_t(bytes)), 0) << n << " row " << r;
      }
    }
}
TEST(Scan, Refusals) {
  auto refused = [](const ScanDescriptor& d, Code code, std::initializer_list<std::string_view> words) { expect_refused(ScanPlan::select(Stream::cpu(), d).status(), code, words); };
  refused({.shape = {2, 3}, .axis = 2}, Code::invalid_problem, {"scan", "axis 2", "[2, 3]", "[-2, 1]"});
  refused({.shape = {2, 3}, .axis = -3}, Code::invalid_problem, {"axis -3"});
  refused({.shape = {}, .axis = 1}, Code::invalid_problem, {"axis 1", "[-1, 0]"});
  refused({.kind = ScanKind(7), .shape = {2}}, Code::invalid_problem, {"kind 7"});
  refused({.shape = {2}, .ties = ScanTies(3)}, Code::invalid_problem, {"ties 3"});
  refused({.shape = {2, -1}}, Code::invalid_problem, {"shape", "[2, -1]"});
  refused({.kind = ScanKind::logcumsumexp, .dtype = DType::i32, .shape = {2}}, Code::unsupported, {"scan.cpu.tile", "logcumsumexp", "i32"});
  refused({.dtype = DType::c64, .shape = {2}}, Code::unsupported, {"no c64"});
  const Tensor x = Tensor::normal(DType::f32, {4}, 1);
  Tensor y(DType::f32, {4}), indices(DType::i64, {4});
  expect_refused(run_plan<Scan>({.shape = {4}}, {x, y, indices}), Code::invalid_problem, {"indices", "cumsum"});
}
TEST(Scan, RankZero) {
  for (ScanKind kind : kKinds)
    for (int axis : {0, -1}) check({{kind, DType::f32, {}, axis}});
}

}  // namespace
}  // namespace baracuda
