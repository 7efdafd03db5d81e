#include "baracuda/ops/gated/gated_quantize.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kServed[] = {DType::f16, DType::bf16, DType::f32};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};

// libm in double, from the definition.
double value(const GatedDescriptor& d, double x, double u) {
  const double alpha = d.alpha_or_default(), limit = d.limit_or_default();
  switch (d.kind) {
    case GatedKind::swiglu: return x / (1 + std::exp(-x)) * u;
    case GatedKind::geglu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0)) * u;
    case GatedKind::geglu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * u;
    case GatedKind::reglu: return (std::isnan(x) ? x : std::max(x, 0.0)) * u;
    case GatedKind::glu: return u / (1 + std::exp(-x));
    default: {
      const double g = x > limit ? limit : x, v = u > limit ? limit : u < -limit ? -limit : u;
      return g / (1 + std::exp(-alpha * g)) * (v + 1);
    }
  }
}
// Of v, or of it divided by a scale. condition: what it is made of.
double value_error(double v, double condition) { return 0x1p-13 * std::fabs(v) + 0x1p-20 * condition + Tolerance{DType::f32}.bound(v); }
// v may be on the other side of a tie: y is within half a place of 8 bits and the error of v.
bool near(double got, double quotient, double condition) {
  if (std::isnan(quotient)) return std::isnan(got);
  const double want = std::clamp(quotient, -448.0, 448.0);
  const double place = std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(want), 0x1p-6)), -6) - 3);
  return std::fabs(got - want) <= place / 2 + value_error(want, condition);
}
TEST(GatedQuantize, GivenScale) {
  int turn = 0;
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (int kind = 0; kind < int(enum_names(GatedKind{}).size()); ++kind)
      for (DType t : kServed)
        for (const Shape& shape : {Shape{1}, Shape{0, 3}, Shape{3, 0}, Shape{257}, Shape{3, 5, 16}, Shape{2, 1, 1030}, Shape{70, 9}}) {
          const Layout layout = kLayouts[++turn % 6];
          const GatedDescriptor d{GatedKind(kind), t, shape};
          Tensor gate = Tensor::normal(t, shape, 1, 0, 3, layout), up = Tensor::normal(t, shape, 2, 0, 3, kLayouts[turn % 5]);
          if (shape.numel() > 200) gate.set(3, NAN), up.set(5, INFINITY), gate.set(5, 1.0), gate.set(6, 60000), up.set(6, -60000), gate.set(7, -INFINITY), up.set(7, 1);
          for (double scale : {1.0, 0.013, 3e-6}) {
            const Tensor s(DType::f32, {1}, {scale});
            Tensor y(DType::f8_e4m3fn, shape, kLayouts[turn % 4]);
            ASSERT_OK(run_plan<GatedQuantize>(d, {gate, up, s, y}));
            for (int64_t i = 0; i < shape.numel(); ++i) {
              const double g = gate.at(i), u = up.at(i), v = std::isinf(g) ? 0 : value(d, g, u);
              ASSERT_TRUE(near(y.at(i), v / s.at(0), (std::fabs(g * u) + std::fabs(g) + std::fabs(u)) / s.at(0))) << describe(d) << " " << g << ", " << u << " over " << scale << ": " << y.at(i) << " for " << v / scale;
            }
            ASSERT_TRUE(y.guards_intact());
          }
        }
  }
  limit_isa(Isa::avx512bf16);
  Tensor y(DType::f8_e4m3fn, {4});
  const Tensor x(DType::f32, {4}, {1, -2, NAN, 4});
  for (double scale : {0.0, -1.0, double(INFINITY), double(NAN)}) {
    ASSERT_OK(run_plan<GatedQuantize>({GatedKind::reglu, DType::f32, {4}}, {x, x, Tensor(DType::f32, {1}, {scale}), y}));
    for (int i : {0, 1, 3}) EXPECT_EQ(y.at(i), 0);
    EXPECT_TRUE(std::isnan(y.at(2)));
  }
}
TEST(GatedQuantize, ScaleOfEachRow) {
  int turn = 0;
  for (int kind = 0; kind < int(enum_names(GatedKind{}).size()); ++kind)
    for (DType t : kServed)
      for (const Shape& shape : {Shape{1}, Shape{0, 3}, Shape{3, 0}, Shape{257}, Shape{3, 5, 16}, Shape{2, 1, 1032}, Shape{70, 9}, Shape{2, 50000}}) {
        if (shape.numel() > 50000 && kind > 1) continue;
        const Layout layout = kLayouts[++turn % 6];
        const GatedDescriptor d{GatedKind(kind), t, shape};
        Tensor gate = Tensor::normal(t, shape, 1, 0, 3, layout), up = Tensor::normal(t, shape, 2, 0, 3, kLayouts[turn % 5]);
        if (shape.numel() > 200) gate.set(3, NAN), up.set(5, INFINITY), gate.set(5, 1.0);
        Shape rows = shape;
        rows.dim[--rows.rank] = 0;
        Tensor y(DType::f8_e4m3fn, shape, kLayouts[turn % 4]), scale(DType::f32, rows);
        ASSERT_OK(run_plan<GatedQuantizeDynamic>(d, {gate, up, y, scale}));
        const int64_t n = shape.last();
        for (int64_t r = 0; r < rows.numel(); ++r) {
          double most = 0, condition = 0;
          for (int64_t i = r * n; i < (r + 1) * n; ++i) {
            const double v = value(d, gate.at(i), up.at(i));
            if (std::isfinite(v)) most = std::max(most, std::fabs(v)), condition = std::max(condition, std::fabs(gate.at(i) * up.at(i)) + std::fabs(gate.at(i)) + std::fabs(up.at(i)));
          }
          const double want = most > 0 ? most / 448 : 1, s = scale.at(r);
          ASSERT_LE(std::fabs(s - want), value_error(want, condition / 448)) << describe(d) << " row " << r;
          for (int64_t i = r * n; i < (r + 1) * n; ++i) {
            const double g = gate.at(i), u = up.at(i);
            ASSERT_TRUE(near(y.at(i), value(d, g, u) / s, std::isfinite(g * u) ? (std::fabs(g * u) + std::fabs(g) + std::fabs(u)) / s : 0)) << describe(d) << " " << g << ", " << u << " over " << s << ": " << y.at(i);
          }
        }
        ASSERT_TRUE(y.guards_intact() && scale.guards_intact());
      }
  const Tensor zeros(DType::bf16, {2, 8}, std::vector<double>(16, 0)), tiny(DType::f32, {8}, std::vector<double>(8, 1e-20));
  Tensor y(DType::f8_e4m3fn, {2, 8}), scale(DType::f32, {2}), of_tiny(DType::f8_e4m3fn, {8}), one(DType::f32, {});
  ASSERT_OK(run_plan<GatedQuantizeDynamic>({GatedKind::swiglu, DType::bf16, {2, 8}}, {zeros, zeros, y, scale}));
  EXPECT_EQ(scale.values(), (std::vector<double>{1, 1}));
  ASSERT_OK(run_plan<GatedQuantizeDynamic>({GatedKind::reglu, DType::f32, {8}}, {tiny, tiny, of_tiny, one}));
  EXPECT_EQ(one.at(0), 0x1p-126);
}
// A code of f8_e4m3fn without its sign, and the code of the nearest value, of two the even one, up to the largest.
double value_of(int code) { return code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10); }
uint8_t nearest(double v) {
  const double m = std::fabs(v);
  int best = 0;
  for (int c = 1; c <= 0x7e; ++c) {
    const double d = std::fabs(value_of(c) - m) - std::fabs(value_of(best) - m);
    if (d < 0 || (d == 0 && c % 2 == 0) || std::isinf(m)) best = c;
  }
  return uint8_t(best | (std::signbit(v) ? 0x80 : 0));
}
// Of reglu v is exact, and so is v / scale for powers of two: every code, every tie of two codes and its neighbours in f32 go where the nearest value is.
TEST(GatedQuantize, EveryCodeAndTie) {
  std::vector<double> values;
  for (int c = 0; c < 0x7f; ++c) {
    const double here = value_of(c), next = value_of(c + 1);
    const float tie = float((here + next) / 2);
    for (float v : {float(here), std::nextafter(tie, 0.0f), tie, std::nextafter(tie, 1e30f)}) values.push_back(v), values.push_back(-v);
  }
  for (double v : {1e30, -1e30, double(INFINITY), -double(INFINITY), double(NAN), 1e-30, -0.0}) values.push_back(v);
  const Shape shape{int64_t(values.size())};
  const Tensor one(DType::f32, shape, std::vector<double>(values.size(), 1));
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    for (int power : {0, -100, 40}) {
      const double scale = std::ldexp(1.0, power);
      std::vector<double> scaled;
      for (double v : values) scaled.push_back(v * scale);
      if (power == 40) scaled[scaled.size() - 7] = scaled[scaled.size() - 6] = 0;  // beyond f32
      Tensor y(DType::f8_e4m3fn, shape);
      ASSERT_OK(run_plan<GatedQuantize>({GatedKind::reglu, DType::f32, shape}, {one, Tensor(DType::f32, shape, scaled), Tensor(DType::f32, {1}, {scale}), y}));
      for (int64_t i = 0; i < shape[0]; ++i) {
        if (power == 40 && scaled[i] == 0 && values[i] != 0) continue;
        if (std::isnan(values[i])) EXPECT_TRUE(std::isnan(y.at(i)));
        else EXPECT_EQ(bytes_of(y)[size_t(i)], nearest(values[size_t(i)])) << values[i] << " over 2^" << power;
      }
    }
  }
  limit_isa(Isa::avx512bf16);
  // A row whose largest magnitude is 448 has scale 1.
  const Shape finite{shape[0] - 7 - 6};  // those up to 448
  Tensor y(DType::f8_e4m3fn, finite), scale(DType::f32, {});
  ASSERT_OK(run_plan<GatedQuantizeDynamic>({GatedKind::reglu, DType::f32, finite}, {Tensor(DType::f32, finite, std::vector<double>(size_t(finite[0]), 1)), Tensor(DType::f32, finite, std::vector<double>(values.begin(), values.begin() + finite[0])), y, scale}));
  EXPECT_EQ(scale.at(0), 1);
}
TEST(GatedQuantize, SameBitsOnEveryInstructionSet) {
  if (on_cuda()) GTEST_SKIP() << "of the CPU";
  for (int kind = 0; kind < int(enum_names(GatedKind{}).size()); ++kind)
    for (DType t : kServed) {
      const GatedDescriptor d{GatedKind(kind), t, {3, 1111}};
      Tensor gate = Tensor::normal(t, d.shape, 1, 0, 20), up = Tensor::normal(t, d.shape, 2, 0, 3);
      for (int64_t i = 0; i < 1111; i += 5) gate.set(i, gate.at(i) * 40), gate.set(i + 1, gate.at(i + 1) / 300);
      std::vector<std::vector<uint8_t>> seen;
      for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
        limit_isa(set);
        Tensor y(DType::f8_e4m3fn, d.shape), scale(DType::f32, {3});
        ASSERT_OK(run_plan<GatedQuantizeDynamic>(d, {gate, up, y, scale}));
        seen.push_back(bytes_of(y));
        for (uint8_t b : bytes_of(scale)) seen.back().push_back(b);
      }
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(seen[0] == seen[1] && seen[1] == seen[2]) << describe(d);
    }
}
TEST(GatedQuantize, LargerThanTheCaches) {
  const int64_t rows = 1025, n = 24576;
  const GatedDescriptor d{GatedKind::swiglu, DType::bf16, {rows, n}};
  const Tensor one_gate = Tensor::normal(d.dtype, {1, n}, 1), one_up = Tensor::normal(d.dtype, {1, n}, 2);
  TensorView gate = one_gate, up = one_up;  // every row the same
  gate.shape = up.shape = d.shape, gate.strides = up.strides = Strides{0, 1};
  Tensor y(DType::f8_e4m3fn, d.shape), scale(DType::f32, {rows}), also(DType::f8_e4m3fn, d.shape);
  ASSERT_OK(run_plan<GatedQuantizeDynamic>(d, {gate, up, y, scale}));
  for (int64_t i = 0; i < n; ++i) {
    const double g = one_gate.at(i), u = one_up.at(i);
    ASSERT_TRUE(near(y.at(i), value(d, g, u) / scale.at(0), (std::fabs(g * u) + std::fabs(g) + std::fabs(u)) / scale.at(0))) << i;
  }
  const auto bytes = bytes_of(y);
  for (int64_t r = 1; r < rows; ++r) ASSERT_TRUE(scale.at(r) == scale.at(0) && std::equal(bytes.begin(), bytes.begin() + n, bytes.begin() + r * n)) << r;
  ASSERT_OK(run_plan<GatedQuantize>(d, {gate, up, Tensor(DType::f32, {1}, {scale.at(0)}), also}));
  EXPECT_TRUE(bytes_of(also) == bytes);
}
TEST(GatedQuantize, ContractAndRefusals) {
  const GatedDescriptor d{GatedKind::swiglu, DType::bf16, {300, 72}};
  const Tensor gate = Tensor::normal(d.dtype, d.shape, 1), up = Tensor::normal(d.dtype, d.shape, 2), one(DType::f32, {1}, {0.01});
  Tensor y(DType::f8_e4m3fn, d.shape), scale(DType::f32, {300});
  check_contract<GatedQuantize>(d, {gate, up, one, y}, {"scale"});
  check_repeat_bits<GatedQuantize>(d, {gate, up, one, y});
  check_contract<GatedQuantizeDynamic>(d, {gate, up, y, scale});
  check_repeat_bits<GatedQuantizeDynamic>(d, {gate, up, y, scale});
  const Stream s = Stream::cpu();
  expect_refused(GatedQuantizePlan::select(s, {GatedKind::swiglu, DType::f64, {2}}).status(), Code::unsupported, {"no f64"});
  expect_refused(GatedQuantizeDynamicPlan::select(s, {GatedKind::swiglu, DType::f32, {}}).status(), Code::invalid_problem, {"rank 0"});
  expect_refused(GatedQuantizePlan::select(s, {GatedKind::geglu, DType::f32, {2}, 1.0}).status(), Code::invalid_problem, {"geglu takes no alpha"});
}

}  // namespace
}  // namespace baracuda
