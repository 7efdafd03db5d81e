#include "baracuda/ops/elementwise/elementwise.hpp"
#include <cmath>
#include <numeric>
#include "baracuda/host/gathers.hpp"
#include "baracuda/host/half_table.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/elementwise_oracle.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};
constexpr DType kIntegers[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};

bool of_numbers(UnaryKind k) { return takes(k, DType::f32) && result_dtype(k, DType::f32) == DType::f32; }
bool of_numbers(BinaryKind k) { return takes(k, DType::f32) && result_dtype(k, DType::f32) == DType::f32 && k != BinaryKind::nextafter; }
// Inside the domain where the function has one, else around 0.
Tensor input(UnaryKind k, DType t, const Shape& shape, Layout layout = Layout::dense) {
  switch (k) {
    case UnaryKind::log: case UnaryKind::log2: case UnaryKind::log10: case UnaryKind::log1p: case UnaryKind::sqrt: case UnaryKind::rsqrt:
    case UnaryKind::cbrt: case UnaryKind::pow_scalar: return Tensor::uniform(t, shape, 1, 0.05, 9, layout);
    case UnaryKind::lgamma: case UnaryKind::digamma: case UnaryKind::entr: case UnaryKind::log1mexp: return Tensor::uniform(t, shape, 1, 0.05, 9, layout);
    case UnaryKind::ndtri: return Tensor::uniform(t, shape, 1, 0.0625, 0.9375, layout);
    case UnaryKind::erfinv: return Tensor::uniform(t, shape, 1, -0.9, 0.9, layout);
    case UnaryKind::acosh: return Tensor::uniform(t, shape, 1, 1.25, 9, layout);
    case UnaryKind::asin: case UnaryKind::acos: case UnaryKind::atanh: return Tensor::uniform(t, shape, 1, -0.9, 0.9, layout);
    case UnaryKind::logit: return Tensor::uniform(t, shape, 1, 0.0625, 0.9375, layout);
    default: return Tensor::normal(t, shape, 1, 0, 3, layout);
  }
}

// ---- values
void check_unary(UnaryKind k, DType t, const Shape& shape, Layout layout) {
  SCOPED_TRACE(text(enum_name(k), " ", t, " ", shape, " layout ", int(layout)));
  const UnaryDescriptor d = describe(k, t, shape);
  const Parameters p = used_parameters(k);
  const Tensor x = input(k, t, shape, layout), dy = Tensor::normal(t, shape, 2);
  Tensor y(result_dtype(k, t), shape, layout), dx(t, shape, layout);
  ASSERT_OK(run_plan<Unary>(d, {x, y}));
  std::vector<double> want, want_dx, scale;
  for (int64_t i = 0; i < shape.numel(); ++i) want.push_back(double(oracle<long double>(k, x.at(i), p)));
  EXPECT_CLOSE(y, want, {});
  EXPECT_TRUE(y.guards_intact());
  if (!has_gradient(k, t)) return;
  const SavedTensors saved = saved_tensors(k);
  ASSERT_OK(run_plan<UnaryBackward>(d, {dy, saved.x ? x.view() : TensorView{}, saved.y ? y.view() : TensorView{}, dx}));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const double slope = slopes(k, {x.at(i)}, y.at(i))[0];
    want_dx.push_back(dy.at(i) * slope);
    scale.push_back(std::fabs(dy.at(i)) * (1 + std::fabs(x.at(i))) * (1 + std::fabs(slope)));
  }
  EXPECT_CLOSE(dx, want_dx, {}, &scale);
  EXPECT_TRUE(dx.guards_intact());
}
TEST(Elementwise, UnaryValuesForEveryKindAndDtype) {
  for (int k = 0; k < kUnaryKinds; ++k)
    for (DType t : kFloats)
      if (takes(UnaryKind(k), t)) check_unary(UnaryKind(k), t, {7, 301}, Layout::dense);
}
TEST(Elementwise, UnaryShapesAndStrides) {
  for (Layout layout : kLayouts)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{15}, Shape{257}, Shape{3, 5, 17}, Shape{2, 1, 255}, Shape{300, 2}, Shape{1, 40000}, Shape{2, 3, 2, 1, 3, 2, 2, 2}})
      check_unary(UnaryKind::gelu, layout == Layout::reversed ? DType::bf16 : DType::f32, shape, layout);
}
void check_binary(BinaryKind k, DType t, const Shape& sa, const Shape& sb, Layout layout) {
  SCOPED_TRACE(text(enum_name(k), " ", t, " ", sa, " ", sb, " layout ", int(layout)));
  const BinaryDescriptor d = describe(k, t, sa, sb);
  const Parameters p = used_parameters(k);
  const Shape shape = *broadcast_shape("test", sa, sb);
  const bool power = k == BinaryKind::pow, positive = k == BinaryKind::xlogy || k == BinaryKind::xlog1py;
  const Tensor a = power ? Tensor::uniform(t, sa, 1, 0.25, 3, layout) : Tensor::normal(t, sa, 1, 0, 2, layout),
               b = positive ? Tensor::uniform(t, sb, 2, 0.25, 3, layout) : Tensor::normal(t, sb, 2, 0, 2, layout), dy = Tensor::normal(t, shape, 3);
  Tensor y(result_dtype(k, t), shape, layout), da(t, sa, layout), db(t, sb, layout);
  ASSERT_OK(run_plan<Binary>(d, {a, b, y}));
  std::vector<double> want, scale, want_da(size_t(sa.numel())), want_db(size_t(sb.numel())), scale_da = want_da, scale_db = want_db;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const double u = a.at(index_of(shape, sa, i)), v = b.at(index_of(shape, sb, i));
    want.push_back(double(oracle<long double>(k, u, v, p)));
    scale.push_back(additive(k) ? std::fabs(p.alpha * u) + std::fabs(p.beta * v) + std::fabs(u) + std::fabs(v) : 0);
  }
  EXPECT_CLOSE(y, want, {}, &scale);
  EXPECT_TRUE(y.guards_intact());
  if (!has_gradient(k, t)) return;
  ASSERT_OK(run_plan<BinaryBackward>(d, {dy, a, b, y, da, db}));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t ia = index_of(shape, sa, i), ib = index_of(shape, sb, i);
    const double u = a.at(ia), v = b.at(ib);
    const auto g = slopes(k, {u, v}, y.at(i));
    // The rounding of b - 1 is in the exponent, that of u - v in the oracle's; atan2's slopes in double have as many roundings
    // as the kernel's.
    const double b_less_1 = power ? 1 + std::fabs(v * std::log(u)) : k == BinaryKind::logaddexp || k == BinaryKind::logaddexp2 ? 1 + std::fabs(u - v) : k == BinaryKind::atan2 ? 2 : 1;
    want_da[size_t(ia)] += dy.at(i) * g[0], scale_da[size_t(ia)] += std::fabs(dy.at(i) * g[0]) * b_less_1;
    want_db[size_t(ib)] += dy.at(i) * g[1], scale_db[size_t(ib)] += std::fabs(dy.at(i) * g[1]) * (power ? 1 : b_less_1);
  }
  EXPECT_CLOSE(da, want_da, {}, &scale_da);
  EXPECT_CLOSE(db, want_db, {}, &scale_db);
  EXPECT_TRUE(da.guards_intact() && db.guards_intact());
}
TEST(Elementwise, BinaryValuesForEveryKindAndDtype) {
  for (int k = 0; k < kBinaryKinds; ++k)
    for (DType t : kFloats) {
      if (!takes(BinaryKind(k), t) || is_complex(result_dtype(BinaryKind(k), t)) || k == int(BinaryKind::nextafter)) continue;
      check_binary(BinaryKind(k), t, {7, 301}, {7, 301}, Layout::dense);
      check_binary(BinaryKind(k), t, {7, 301}, {301}, Layout::dense);
    }
}
TEST(Elementwise, BroadcastAndItsGradients) {
  const struct { Shape a, b; } cases[] = {
      {{}, {}}, {{1}, {}}, {{5}, {1}}, {{3, 1}, {1, 4}}, {{4, 300}, {300}}, {{4, 300}, {4, 1}}, {{700, 3}, {3}}, {{700, 3}, {700, 1}}, {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 4, 5}, {3, 1, 5}}, {{2, 3, 4, 5}, {2, 1, 4, 1}}, {{6, 1, 7}, {1, 5, 1}}, {{0, 3}, {1, 3}}, {{3, 0}, {3, 1}}, {{0}, {1}}, {{20, 3000}, {1}},
      {{40000}, {1}}, {{2000, 33}, {33}}, {{3, 20000}, {3, 1}}, {{2, 1, 2, 1, 2, 1, 2, 3}, {2, 2, 1, 2, 2, 1, 1, 3}}};
  for (const auto& c : cases) {
    check_binary(BinaryKind::mul, DType::f32, c.a, c.b, Layout::dense);
    check_binary(BinaryKind::sub, DType::bf16, c.b, c.a, Layout::dense);
  }
  for (DType t : kFloats)
    for (BinaryKind kind : {BinaryKind::add, BinaryKind::sub, BinaryKind::mul})
      for (const Shape& operand : {Shape{163}, Shape{301, 1}, Shape{}}) check_binary(kind, t, {301, 163}, operand, Layout::dense);
  for (Layout layout : kLayouts) {
    check_binary(BinaryKind::div, DType::f32, {9, 130}, {130}, layout);
    check_binary(BinaryKind::mul, DType::f64, {9, 130}, {9, 1}, layout);
    check_binary(BinaryKind::maximum, DType::f16, {3, 1, 50}, {4, 1}, layout);
  }
}
TEST(Elementwise, GradientsOfOperandsThatLackAxesOfExtentOne) {
  for (DType t : {DType::f32, DType::bf16}) {
    const BinaryDescriptor d{.kind = BinaryKind::mul, .dtype = t, .a = {5}, .b = {1, 1, 5}};
    const Tensor a = Tensor::normal(t, d.a, 1), b = Tensor::normal(t, d.b, 2), dy = Tensor::normal(t, d.b, 3);
    Tensor da(t, d.a), db(t, d.b);
    ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a, .b = b, .da = da, .db = db}));
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(da.at(i), rounded(t, dy.at(i) * b.at(i)));
      EXPECT_EQ(db.at(i), rounded(t, dy.at(i) * a.at(i)));
    }
    EXPECT_TRUE(da.guards_intact());
  }
}
TEST(Elementwise, SumsAreAccurateAndDoNotDependOnStrides) {
  // 4096 ones in f16: an f16 sum stalls at 2048. Large and small terms in f32: f64 keeps the small ones.
  Tensor ones(DType::f16, {4096, 2}, std::vector<double>(8192, 1)), sum(DType::f16, {2});
  ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::add, DType::f16, {4096, 2}, {2}}, {.dy = ones, .db = sum}));
  EXPECT_EQ(sum.at(0), 4096);
  std::vector<double> mixed(3001, 1e-4);
  mixed[0] = 1e8, mixed[1500] = -1e8;
  const Tensor dy(DType::f32, {3001}, mixed);
  Tensor total(DType::f32, {1});
  ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::add, DType::f32, {3001}, {1}}, {.dy = dy, .db = total}));
  EXPECT_NEAR(total.at(0), 2999 * double(1e-4f), 3001 * 1e8 * 0x1p-53);  // an f32 sum loses every small term
  for (DType t : kFloats)  // rows of several blocks that lie dense are added where they are
    for (int64_t n : {37, 163})
      for (BinaryKind kind : {BinaryKind::add, BinaryKind::sub, BinaryKind::fmod}) {  // db is dy, -dy; fmod's da is dy
        if (n == 37 && kind != BinaryKind::add) continue;
        for (const Shape& operand : {Shape{n}, Shape{300, 1}, Shape{1}}) {
          Tensor want(t, operand);
          for (Layout layout : kLayouts) {
            const Tensor g = Tensor::normal(t, {300, n}, 5, 0, 1, layout);
            Tensor dx(t, operand);
            const TensorView out = layout == Layout::dense ? want : dx;
            if (kind == BinaryKind::fmod) ASSERT_OK(run_plan<BinaryBackward>({kind, t, operand, {300, n}}, {.dy = g, .da = out}));
            else ASSERT_OK(run_plan<BinaryBackward>({kind, t, {300, n}, operand}, {.dy = g, .db = out}));
            EXPECT_TRUE(layout == Layout::dense || dx.same_bits(want)) << name(t) << " " << n << " " << int(layout);
          }
        }
      }
}

// ---- gradients of the formulas themselves, and what they read
template <class Kind> void gradients_of_every_kind() {
  for (size_t k = 0; k < enum_names(Kind{}).size(); ++k)
    with_functor(Kind(k), [&]<class Op>(Op) {
      if constexpr (elementwise::kDifferentiable<Op, Dual>) check_gradient<Op>(enum_name(Kind(k)), used_parameters(Kind(k)));
      else if constexpr (std::is_same_v<Kind, BinaryKind>) EXPECT_TRUE(!has_gradient(Kind(k), DType::f64) || is_complex(result_dtype(Kind(k), DType::f64))) << enum_name(Kind(k));
      else EXPECT_FALSE(has_gradient(Kind(k), DType::f64)) << enum_name(Kind(k));
    });
}
TEST(Elementwise, UnaryGradientsByDualNumbers) { gradients_of_every_kind<UnaryKind>(); }
TEST(Elementwise, BinaryGradientsByDualNumbers) { gradients_of_every_kind<BinaryKind>(); }
TEST(Elementwise, BroadcastGradientDirectional) {
  Tensor a = Tensor::normal(DType::f64, {5, 1, 7}, 1), b = Tensor::uniform(DType::f64, {3, 1}, 2, 1, 2), y(DType::f64, {5, 3, 7}), da(DType::f64, {5, 1, 7}), db(DType::f64, {3, 1});
  const BinaryDescriptor d{BinaryKind::div, DType::f64, a.shape(), b.shape()};
  const Tensor dy = Tensor::normal(DType::f64, {5, 3, 7}, 3);
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a, .b = b, .da = da, .db = db}));
  auto loss = [&] {
    EXPECT_OK(run_plan<Binary>(d, {a, b, y}));
    double s = 0;
    for (int64_t i = 0; i < y.numel(); ++i) s += dy.at(i) * y.at(i);
    return s;
  };
  check_directional(loss, a, da, 4);
  check_directional(loss, b, db, 5);
}

// ---- special values
TEST(Elementwise, TiesAndKinks) {
  const Tensor a(DType::f32, {5}, {1, 2, 3, NAN, -0.0}), b(DType::f32, {5}, {1, 3, 2, 1, 0.0}), dy(DType::f32, {5}, {1, 1, 1, 1, 1});
  Tensor da(DType::f32, {5}), db(DType::f32, {5});
  ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::maximum, DType::f32, {5}, {5}}, {.dy = dy, .a = a, .b = b, .da = da, .db = db}));
  EXPECT_EQ(da.values(), (std::vector<double>{0.5, 0, 1, 1, 0.5}));
  EXPECT_EQ(db.values(), (std::vector<double>{0.5, 1, 0, 1, 0.5}));
  ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::minimum, DType::f32, {5}, {5}}, {.dy = dy, .a = a, .b = b, .da = da, .db = db}));
  EXPECT_EQ(da.values(), (std::vector<double>{0.5, 1, 0, 1, 0.5}));
  EXPECT_EQ(db.values(), (std::vector<double>{0.5, 0, 1, 1, 0.5}));
  const Tensor x(DType::f32, {4}, {-1, 0, 2, NAN}), g(DType::f32, {4}, {3, 3, 3, 3});
  Tensor y(DType::f32, {4}), dx(DType::f32, {4});
  ASSERT_OK(run_plan<Unary>({UnaryKind::relu, DType::f32, {4}}, {x, y}));
  ASSERT_OK(run_plan<UnaryBackward>({UnaryKind::relu, DType::f32, {4}}, {.dy = g, .y = y, .dx = dx}));
  EXPECT_CLOSE(y, (std::vector<double>{0, 0, 2, NAN}), {});
  EXPECT_CLOSE(dx, (std::vector<double>{0, 0, 3, 3}), {});
  ASSERT_OK(run_plan<UnaryBackward>({UnaryKind::abs, DType::f32, {4}}, {.dy = g, .x = x, .dx = dx}));
  EXPECT_CLOSE(dx, (std::vector<double>{-3, 0, 3, NAN}), {});
}
TEST(Elementwise, PowAtZero) {
  const Tensor a(DType::f64, {4}, {0, 0, 0, 2}), b(DType::f64, {4}, {2, 0, 1, 0}), dy(DType::f64, {4}, {1, 1, 1, 1});
  Tensor y(DType::f64, {4}), da(DType::f64, {4}), db(DType::f64, {4});
  const BinaryDescriptor d{BinaryKind::pow, DType::f64, {4}, {4}};
  ASSERT_OK(run_plan<Binary>(d, {a, b, y}));
  ASSERT_OK(run_plan<BinaryBackward>(d, {dy, a, b, y, da, db}));
  EXPECT_EQ(y.values(), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(da.values(), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_CLOSE(db, (std::vector<double>{0, 0, 0, std::log(2.0)}), {});
}
TEST(Elementwise, InfinitiesAndExtremes) {
  const double inf = INFINITY;
  const struct { UnaryKind kind; double x, y, slope; } cases[] = {
      {UnaryKind::silu, -inf, -0.0, 0}, {UnaryKind::silu, inf, inf, 1}, {UnaryKind::silu, -80, -80 * std::exp(-80.0), -79 * std::exp(-80.0)},
      {UnaryKind::gelu, -inf, -0.0, 0}, {UnaryKind::gelu, inf, inf, 1}, {UnaryKind::gelu, 1e30, 1e30, 1}, {UnaryKind::gelu, -1e30, -0.0, 0},
      {UnaryKind::gelu_tanh, -inf, -0.0, 0}, {UnaryKind::gelu_tanh, inf, inf, 1}, {UnaryKind::gelu_tanh, 1e30, 1e30, 1},
      {UnaryKind::softplus, -inf, 0, 0}, {UnaryKind::softplus, inf, inf, 1}, {UnaryKind::softplus, 1000, 1000, 1},
      {UnaryKind::sigmoid, -inf, 0, 0}, {UnaryKind::sigmoid, inf, 1, 0}, {UnaryKind::tanh, inf, 1, 0}, {UnaryKind::tanh, -inf, -1, 0},
      {UnaryKind::exp, -inf, 0, 0}, {UnaryKind::log, 0, -inf, inf}, {UnaryKind::sqrt, 0, 0, inf}, {UnaryKind::rsqrt, 0, inf, -inf},
      {UnaryKind::abs, -inf, inf, -1}, {UnaryKind::reciprocal, -0.0, -inf, -inf}, {UnaryKind::reciprocal, inf, 0, 0}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(enum_name(c.kind), " at ", c.x));
    const Tensor x(DType::f32, {1}, {c.x}), dy(DType::f32, {1}, {1});
    Tensor y(DType::f32, {1}), dx(DType::f32, {1});
    ASSERT_OK(run_plan<Unary>({c.kind, DType::f32, {1}}, {x, y}));
    ASSERT_OK(run_plan<UnaryBackward>({c.kind, DType::f32, {1}}, {dy, x, y, dx}));
    EXPECT_CLOSE(y, (std::vector<double>{c.y}), {});
    EXPECT_EQ(std::signbit(y.at(0)), std::signbit(c.y));
    EXPECT_CLOSE(dx, (std::vector<double>{c.slope}), {});
  }
  for (int k = 0; k < kUnaryKinds; ++k) {
    const Tensor x(DType::bf16, {1}, {NAN});
    Tensor y(DType::bf16, {1});
    if (!of_numbers(UnaryKind(k)) || k == int(UnaryKind::step) || k == int(UnaryKind::nan_to_num)) continue;
    ASSERT_OK(run_plan<Unary>(describe(UnaryKind(k), DType::bf16, {1}), {x, y}));
    EXPECT_TRUE(std::isnan(y.at(0))) << enum_name(UnaryKind(k));
  }
  for (int k = 0; k < kBinaryKinds; ++k) {
    const Tensor a(DType::f32, {2}, {NAN, 2}), b(DType::f32, {2}, {2, NAN});
    Tensor y(DType::f32, {2});
    const BinaryKind kind = BinaryKind(k);
    if (!of_numbers(kind) || kind == BinaryKind::fmax || kind == BinaryKind::fmin) continue;
    ASSERT_OK(run_plan<Binary>(describe(kind, DType::f32, {2}, {2}), {a, b, y}));
    const bool reads_b = kind != BinaryKind::copysign && kind != BinaryKind::heaviside && kind != BinaryKind::prelu;  // at a = 2
    EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1)) == reads_b) << enum_name(kind);
  }
}

// ---- contract
TEST(Elementwise, InPlaceAndAbsentOperands) {
  const Shape shape{5, 333};
  const Tensor a = Tensor::normal(DType::f32, shape, 1), b = Tensor::normal(DType::f32, shape, 2), dy = Tensor::normal(DType::f32, shape, 3);
  Tensor y(DType::f32, shape), da(DType::f32, shape), db(DType::f32, shape), alone(DType::f32, shape);
  const BinaryDescriptor d{BinaryKind::mul, DType::f32, shape, shape};
  ASSERT_OK(run_plan<Binary>(d, {a, b, y}));
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a, .b = b, .da = da, .db = db}));
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .b = b, .da = alone}));
  EXPECT_TRUE(alone.same_bits(da));
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a, .db = alone}));
  EXPECT_TRUE(alone.same_bits(db));
  Tensor a2(DType::f32, shape, a.values()), b2(DType::f32, shape, b.values());
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = a2, .b = b2, .da = a2, .db = b2}));
  EXPECT_TRUE(a2.same_bits(da) && b2.same_bits(db));
  for (Layout layout : kLayouts) {
    Tensor x(DType::f32, shape, a.values(), layout), want(DType::f32, shape);
    ASSERT_OK(run_plan<Unary>({UnaryKind::tanh, DType::f32, shape}, {x, want}));
    ASSERT_OK(run_plan<Unary>({UnaryKind::tanh, DType::f32, shape}, {x, x}));
    EXPECT_TRUE(x.same_bits(want) && x.guards_intact());
  }
}
// What a gradient does not read is not touched, also past the end of dy, which is half as long as its values in f32.
TEST(Elementwise, AbsentOperandsOfHalves) {
  for (DType t : kFloats)
    for (const Shape& shape : {Shape{65}, Shape{3, 130}}) {
      const TernaryDescriptor d{TernaryKind::addcdiv, t, shape, shape, {1}};
      const Tensor a = Tensor::normal(t, shape, 1), b = Tensor::normal(t, shape, 2), c = Tensor::uniform(t, {1}, 3, 1, 2), dy = Tensor::normal(t, shape, 4);
      Tensor da(t, shape), db(t, shape), dc(t, {1}), alone(t, shape), alone_c(t, {1});
      ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .a = a, .b = b, .c = c, .da = da, .db = db, .dc = dc}));
      ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .da = alone}));
      EXPECT_TRUE(alone.same_bits(da));
      ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .c = c, .db = alone}));
      EXPECT_TRUE(alone.same_bits(db));
      ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .b = b, .c = c, .dc = alone_c}));
      EXPECT_TRUE(alone_c.same_bits(dc));
    }
}
// Bits of everything that `run` writes, for each instruction set, against those of the portable loops.
template <class F> void same_bits_for_every_isa(std::string_view what, F run) {
  std::vector<std::vector<uint8_t>> want;
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    std::vector<std::vector<uint8_t>> now = run();
    if (set == Isa::portable) want = now;
    EXPECT_TRUE(now == want) << what << " " << name(set);
  }
  limit_isa(Isa::avx512bf16);
}
TEST(Elementwise, SameBitsForInstructionSets) {
  const Shape shape{3, 1001};
  for (DType t : kFloats) {
    const Tensor a = Tensor::normal(t, shape, 1, 0, 4), b = Tensor::normal(t, shape, 2, 0, 2), dy = Tensor::normal(t, shape, 3);
    for (int k = 0; k < kUnaryKinds; ++k) {
      const UnaryKind kind = UnaryKind(k);
      if (!takes(kind, t)) continue;
      same_bits_for_every_isa(text(enum_name(kind), " ", t), [&] {
        Tensor y(result_dtype(kind, t), shape), dx(t, shape, std::vector<double>(3003, 0));
        EXPECT_OK(run_plan<Unary>(describe(kind, t, shape), {a, y}));
        if (has_gradient(kind, t)) EXPECT_OK(run_plan<UnaryBackward>(describe(kind, t, shape), {dy, a, y, dx}));
        return std::vector{comparable_bytes(y), comparable_bytes(dx)};
      });
    }
    for (int k = 0; k < kBinaryKinds; ++k) {
      const BinaryKind kind = BinaryKind(k);
      if (!takes(kind, t) || is_complex(result_dtype(kind, t))) continue;
      same_bits_for_every_isa(text(enum_name(kind), " ", t), [&] {
        const std::vector<double> zeros(3003, 0);
        Tensor y(result_dtype(kind, t), shape), da(t, shape, zeros), db(t, shape, zeros);
        EXPECT_OK(run_plan<Binary>(describe(kind, t, shape, shape), {a, b, y}));
        if (has_gradient(kind, t)) EXPECT_OK(run_plan<BinaryBackward>(describe(kind, t, shape, shape), {dy, a, b, y, da, db}));
        return std::vector{comparable_bytes(y), comparable_bytes(da), comparable_bytes(db)};
      });
    }
  }
}
// Large half tensors look results up: the same bits as small ones, which compute them, for every half.
TEST(Elementwise, TablesGiveTheSameBits) {
  for (bool gathers : {false, true}) for (DType t : {DType::f16, DType::bf16}) {
    limit_gathers(gathers);
    const Shape few{kHalves}, many{kTableFrom + 5};
    Tensor x(t, few), dy = Tensor::normal(t, few, 2), y(t, few), dx(t, few);
    std::vector<uint16_t> large_x(kTableFrom + 5), large_dy = large_x, large_y = large_x;
    for (int64_t i = 0; i < kHalves; ++i) x.view().as<uint16_t>()[i] = uint16_t(i);
    for (size_t i = 0; i < large_x.size(); ++i) large_x[i] = uint16_t(i), large_dy[i] = dy.view().as<uint16_t>()[i % kHalves];
    auto view = [&](std::vector<uint16_t>& v) { return TensorView::dense(v.data(), t, many); };
    auto same = [&](const Tensor& want) {
      for (size_t i = 0; i < large_y.size(); ++i)
        if (large_y[i] != want.view().as<uint16_t>()[i % kHalves]) return ::testing::AssertionFailure() << "half " << i % kHalves;
      return ::testing::AssertionSuccess();
    };
    for (int k = 0; k < kUnaryKinds; ++k) {
      const UnaryKind kind = UnaryKind(k);
      if (!of_numbers(kind)) continue;
      ASSERT_OK(run_plan<Unary>(describe(kind, t, few), {x, y}));
      ASSERT_OK(run_plan<Unary>(describe(kind, t, many), {view(large_x), view(large_y)}));
      EXPECT_TRUE(same(y)) << enum_name(kind) << " " << name(t);
      if (!has_gradient(kind, t) || saved_tensors(kind).y) continue;
      ASSERT_OK(run_plan<UnaryBackward>(describe(kind, t, few), {dy, x, {}, dx}));
      ASSERT_OK(run_plan<UnaryBackward>(describe(kind, t, many), {view(large_dy), view(large_x), {}, view(large_y)}));
      EXPECT_TRUE(same(dx)) << enum_name(kind) << " " << name(t);
    }
  }
}
TEST(Elementwise, LargerThanTheCaches) {
  for (DType t : {DType::f32, DType::bf16}) {
    const int64_t n = t == DType::f32 ? 6500001 : 13000001;
    Large a(t, {n}), b(t, {n}), y(t, {n}), off(t, {n}, 1), da(t, {n}), db(t, {n});
    ASSERT_OK(run_plan<Binary>({BinaryKind::sub, t, {n}, {n}}, {a, b, y}));
    ASSERT_OK(run_plan<Binary>({BinaryKind::sub, t, {n}, {n}}, {a, b, off}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, t, {n}, {n}}, {y, a, b, {}, da, db}));
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, t, {n}, {n}}, {y, a, b, {}, off, {}}));
    EXPECT_TRUE(da.same_bits(off)) << name(t);
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::mul, t, {n}, {n}}, {y, a, b, {}, {}, off}));
    EXPECT_TRUE(db.same_bits(off)) << name(t);
    // Rows of a broadcast operand, and an operand that lies in another order.
    const Shape shape{n / 3000, 3000};
    Large row(t, {3000}), z(t, shape), z_off(t, shape, 1);
    TensorView turned = a;
    turned.shape = shape, turned.strides = {1, n / 3000};
    for (const TensorView& x : {TensorView::dense(a.view().data, t, shape), turned}) {
      ASSERT_OK(run_plan<Binary>({BinaryKind::sub, t, shape, {3000}}, {x, row, z}));
      ASSERT_OK(run_plan<Binary>({BinaryKind::sub, t, shape, {3000}}, {x, row, z_off}));
      EXPECT_TRUE(z.same_bits(z_off)) << name(t);
    }
  }
}
TEST(Elementwise, case_swiglu_extreme) {  // a derivative of silu by exp(-x) is inf / inf far out
  const Tensor x(DType::f32, {5}, {-100, -20, 0, 20, 100}), dy(DType::f32, {5}, {1, 1, 1, 1, 1});
  Tensor y(DType::f32, {5}), dx(DType::f32, {5});
  ASSERT_OK(run_plan<Unary>({UnaryKind::silu, DType::f32, {5}}, {x, y}));
  ASSERT_OK(run_plan<UnaryBackward>({UnaryKind::silu, DType::f32, {5}}, {.dy = dy, .x = x, .dx = dx}));
  EXPECT_CLOSE(y, (std::vector<double>{-100 * std::exp(-100.0), -20 * std::exp(-20.0) / (1 + std::exp(-20.0)), 0, 20 / (1 + std::exp(-20.0)), 100}), {});
  const double t = std::exp(-20.0), part = 20 * t / ((1 + t) * (1 + t));
  const double far = -99 * std::exp(-100.0);  // subnormal: exp(-100) is rounded there, then multiplied by 100
  EXPECT_LE(std::fabs(dx.at(0) - far), 100 * smallest_subnormal(DType::f32));
  EXPECT_CLOSE(dx, (std::vector<double>{dx.at(0), t / (1 + t) - part, 0.5, 1 / (1 + t) + part, 1}), {});
}
TEST(Elementwise, case_swiglu_inplace) {  // the inputs survive unless the caller passes them as outputs
  const Tensor x = Tensor::normal(DType::f32, {1000}, 1), dy = Tensor::normal(DType::f32, {1000}, 2);
  const std::vector<uint8_t> x_before = x.element_bytes(), dy_before = dy.element_bytes();
  Tensor dx(DType::f32, {1000});
  ASSERT_OK(run_plan<UnaryBackward>({UnaryKind::silu, DType::f32, {1000}}, {.dy = dy, .x = x, .dx = dx}));
  EXPECT_TRUE(x.element_bytes() == x_before && dy.element_bytes() == dy_before);
}
TEST(Elementwise, case_dlpack_negative_stride) {  // columns reversed: from the pointer at the last one backwards
  std::vector<double> memory(12), y(12);
  std::iota(memory.begin(), memory.end(), 0);
  const TensorView x{memory.data() + 3, DType::f64, {}, {3, 4}, {4, -1}};
  ASSERT_OK(run_plan<Unary>({UnaryKind::square, DType::f64, {3, 4}}, {x, TensorView::dense(y.data(), {3, 4})}));
  EXPECT_EQ(y, (std::vector<double>{9, 4, 1, 0, 49, 36, 25, 16, 121, 100, 81, 64}));
}
TEST(Elementwise, case_expanded_target) {  // an operand of stride 0 is what a copy of it would be
  const Tensor a = Tensor::normal(DType::f32, {8, 64}, 1), b = Tensor::normal(DType::f32, {8, 1}, 2);
  Tensor copy(DType::f32, {8, 64}, [&] { std::vector<double> v; for (int i = 0; i < 512; ++i) v.push_back(b.at(i / 64)); return v; }()), y(DType::f32, {8, 64}), want = y;
  TensorView expanded = b;
  expanded.shape = {8, 64}, expanded.strides = {1, 0};
  const BinaryDescriptor d{BinaryKind::atan2, DType::f32, {8, 64}, {8, 64}};
  Tensor da(DType::f32, {8, 64}), db(DType::f32, {8, 64}), want_da(DType::f32, {8, 64}), want_db(DType::f32, {8, 64});
  ASSERT_OK(run_plan<Binary>(d, {a, expanded, y}));
  ASSERT_OK(run_plan<Binary>(d, {a, copy, want}));
  ASSERT_OK(run_plan<BinaryBackward>(d, {a, a, expanded, {}, da, db}));
  ASSERT_OK(run_plan<BinaryBackward>(d, {a, a, copy, {}, want_da, want_db}));
  EXPECT_TRUE(y.same_bits(want) && da.same_bits(want_da) && db.same_bits(want_db));
}
TEST(Elementwise, ContractAndBits) {
  for (DType t : kFloats) {
    const Shape shape{3, 20000};
    const Tensor x = Tensor::normal(t, shape, 1), dy = Tensor::normal(t, shape, 2), b = Tensor::normal(t, {20000}, 3), c = Tensor::normal(t, {3, 1}, 4);
    Tensor y(t, shape), dx(t, shape), da(t, shape), db(t, {20000}), dc(t, {3, 1});
    const BinaryDescriptor columns{BinaryKind::mul, t, shape, {20000}}, rows{BinaryKind::mul, t, shape, {3, 1}};
    check_repeat_bits<Unary>({UnaryKind::gelu_tanh, t, shape}, {x, y});
    check_repeat_bits<UnaryBackward>({UnaryKind::gelu_tanh, t, shape}, {dy, x, {}, dx});
    check_repeat_bits<Binary>(columns, {x, b, y});
    check_repeat_bits<BinaryBackward>(columns, {dy, x, b, {}, da, db});
    check_repeat_bits<BinaryBackward>(rows, {dy, x, c, {}, da, dc});
    if (t != DType::f32) continue;
    check_contract<Unary>({UnaryKind::gelu_tanh, t, shape}, {x, y});
    check_contract<UnaryBackward>({UnaryKind::silu, t, shape}, {dy, x, {}, dx});
    check_contract<Binary>(columns, {x, b, y});
    check_contract<BinaryBackward>(rows, {dy, x, c, {}, da, dc});
  }
}
TEST(Elementwise, Refusals) {
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(UnaryPlan::select(s, {UnaryKind(255), DType::f32, {2}}).status(), bad, {"unary", "kind 255"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::exp, DType::f32, {2}, 2.0}).status(), bad, {"exp", "no alpha", "2"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::add, DType::f32, {2}, {2}, 1, 3}).status(), bad, {"add", "no beta", "3"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::scale, DType::f32, {2}, NAN}).status(), bad, {"NaN"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::exp, DType::i32, {2}}).status(), Code::unsupported, {"unary.cpu.map", "kind exp does not take i32"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::exp, DType::f32, {2, -1}}).status(), bad, {"shape", "[2, -1]"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::add, DType::f32, {2, 3}, {2}}).status(), bad, {"binary", "[2, 3]", "[2]", "do not broadcast"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::add, DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {2}}).status(), bad, {"rank 9"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::add, DType::f32, {int64_t(1) << 40, 1}, {1, int64_t(1) << 40}}).status(), bad, {"2^63"});
  const Tensor a = Tensor::normal(DType::f32, {8}, 1), dy = a;
  Tensor y(DType::f32, {8}), db(DType::f32, {1});
  expect_refused(run_plan<UnaryBackward>({UnaryKind::log, DType::f32, {8}}, {.dy = dy, .y = y, .dx = y}), bad, {"x is missing", "log reads it"});
  expect_refused(run_plan<UnaryBackward>({UnaryKind::exp, DType::f32, {8}}, {.dy = dy, .x = a, .dx = y}), bad, {"y is missing", "exp reads it"});
  expect_refused(run_plan<BinaryBackward>({BinaryKind::mul, DType::f32, {8}, {1}}, {.dy = dy, .b = db, .da = y, .db = db}), bad, {"a is missing", "mul reads it"});
  expect_refused(run_plan<BinaryBackward>({BinaryKind::mul, DType::f32, {8}, {1}}, {.dy = y, .a = a, .b = db, .da = y}), bad, {"da overlaps dy"});
  expect_refused(run_plan<BinaryBackward>({BinaryKind::add, DType::f32, {8}, {8}}, {.dy = dy, .da = y, .db = y}), bad, {"db overlaps da", "both are written"});
  Tensor long_one(DType::f32, {9});
  TensorView head = long_one, tail = long_one;
  head.shape = tail.shape = {8}, tail.data = long_one.view().as<float>() + 1;
  expect_refused(run_plan<Unary>({UnaryKind::exp, DType::f32, {8}}, {head, tail}), bad, {"y overlaps x"});
}

}  // namespace
}  // namespace baracuda
