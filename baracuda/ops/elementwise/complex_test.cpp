// The kinds of complex numbers: values and gradients, strides, broadcasting, dtypes of real and complex results, contract.
#include "baracuda/ops/elementwise/complex_oracle.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kTypes[] = {DType::c64, DType::c128};
constexpr Layout kLayouts[] = {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other};
std::vector<UnaryKind> unary_kinds() {
  std::vector<UnaryKind> all;
  for (int k = 0; k < kUnaryKinds; ++k)
    if (takes(UnaryKind(k), DType::c64)) all.push_back(UnaryKind(k));
  return all;
}
struct Case { BinaryKind kind; DType operands; };
std::vector<Case> binary_cases() {
  std::vector<Case> all;
  for (int k = 0; k < kBinaryKinds; ++k)
    for (DType t : {DType::f32, DType::f64, DType::c64, DType::c128})
      if (takes(BinaryKind(k), t) && (is_complex(t) || is_complex(result_dtype(BinaryKind(k), t)))) all.push_back({BinaryKind(k), t});
  return all;
}
Tensor operand(DType t, const Shape& shape, uint64_t seed, Layout layout = Layout::dense) {
  return is_complex(t) ? complex_normal(t, shape, seed, 1, layout) : Tensor::normal(t, shape, seed, 0, 1, layout);
}
// Both parts within the bound of the magnitude of the number.
void expect_close(const TensorView& got, const std::vector<Number>& want, Tolerance tolerance, const std::vector<long double>& scale) {
  tolerance.dtype = part_of(got.dtype);
  for (size_t i = 0; i < want.size(); ++i) {
    const Number g = get(got, int64_t(i)), w = want[i];
    if (got.dtype == DType::boolean) {
      EXPECT_EQ(g, w) << "element " << i;
      continue;
    }
    tolerance.condition = double(std::max(std::abs(w), scale[i]));
    const double bound = tolerance.bound(double(std::abs(w)));
    EXPECT_LE(std::fabs(g.real() - w.real()), bound) << "element " << i << ": got " << g << ", want " << w;
    if (is_complex(got.dtype)) EXPECT_LE(std::fabs(g.imag() - w.imag()), bound) << "element " << i << ": got " << g << ", want " << w;
  }
}
// How far a gradient moves with its rounded argument, relative to itself.
long double sensitivity(UnaryKind k, Number dy, Number x) {
  const long double h = 1e-4L;
  const Number g = gradient(k, dy, x);
  return (std::abs(gradient(k, dy, x + h) - g) + std::abs(gradient(k, dy, x + h * kI) - g)) / h * std::abs(x) + std::abs(g);
}

void check_unary(UnaryKind k, DType t, const Shape& shape, Layout layout) {
  SCOPED_TRACE(text(enum_name(k), " ", t, " ", shape, " layout ", int(layout)));
  const UnaryDescriptor d{k, t, shape};
  const DType r = result_dtype(k, t);
  const Tensor x = complex_normal(t, shape, 1, 1, layout);
  Tensor y(r, shape, layout), dx(t, shape, layout);
  ASSERT_OK(run_plan<Unary>(d, {x, y}));
  std::vector<Number> want, want_dx;
  std::vector<long double> zeros(size_t(shape.numel())), scale;
  for (int64_t i = 0; i < shape.numel(); ++i) want.push_back(oracle(k, get(x, i)));
  expect_close(y, want, {}, zeros);
  EXPECT_TRUE(y.guards_intact());
  ASSERT_EQ(has_gradient(k, t), r != DType::boolean);
  if (r == DType::boolean) return;
  const Tensor dy = operand(r, shape, 2, layout);
  const SavedTensors saved = saved_tensors(k, t);
  ASSERT_OK(run_plan<UnaryBackward>(d, {dy, saved.x ? x.view() : TensorView{}, saved.y ? y.view() : TensorView{}, dx}));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    want_dx.push_back(gradient(k, get(dy, i), get(x, i)));
    scale.push_back(sensitivity(k, get(dy, i), get(x, i)));
  }
  expect_close(dx, want_dx, {}, scale);
  EXPECT_TRUE(dx.guards_intact());
}
TEST(Complex, UnaryValuesAndGradients) {
  for (UnaryKind k : unary_kinds())
    for (DType t : kTypes) check_unary(k, t, {3, 67}, Layout::dense);
}
TEST(Complex, UnaryShapesAndStrides) {
  for (Layout layout : kLayouts)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{15}, Shape{257}, Shape{3, 5, 17}, Shape{300, 2}, Shape{2, 3, 2, 1, 3, 2, 2, 2}})
      for (UnaryKind k : {UnaryKind::square, UnaryKind::abs, UnaryKind::isfinite})
        check_unary(k, layout == Layout::reversed ? DType::c128 : DType::c64, shape, layout);
}

int64_t index_of(const Shape& shape, const Shape& operand, int64_t i) {
  int64_t at = 0, step = 1;
  for (int axis = shape.rank - 1, own = operand.rank - 1; own >= 0; --axis, --own) {
    if (operand[own] != 1) at += i % shape[axis] * step;
    i /= shape[axis], step *= operand[own];
  }
  return at;
}
void check_binary(const Case& c, const Shape& sa, const Shape& sb, Layout layout) {
  const auto [k, t] = c;
  SCOPED_TRACE(text(enum_name(k), " ", t, " ", sa, " ", sb, " layout ", int(layout)));
  const BinaryDescriptor d{k, t, sa, sb};
  const Shape shape = *broadcast_shape("test", sa, sb);
  const DType r = result_dtype(k, t);
  const Tensor a = operand(t, sa, 1, layout), b = operand(t, sb, 2, layout);
  Tensor y(r, shape, layout), da(t, sa, layout), db(t, sb, layout);
  ASSERT_OK(run_plan<Binary>(d, {a, b, y}));
  std::vector<Number> want, want_da(size_t(sa.numel())), want_db(size_t(sb.numel()));
  std::vector<long double> scale, scale_da(want_da.size()), scale_db(want_db.size());
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const Number u = get(a, index_of(shape, sa, i)), v = get(b, index_of(shape, sb, i));
    want.push_back(oracle(k, u, v));
    const bool sum = k == BinaryKind::add || k == BinaryKind::sub || k == BinaryKind::scale_add || k == BinaryKind::lerp;
    scale.push_back(sum ? std::abs(u) + std::abs(v) : k == BinaryKind::pow ? std::abs(want.back()) * (1 + std::abs(v * std::log(u))) : 0);
  }
  expect_close(y, want, {}, scale);
  EXPECT_TRUE(y.guards_intact());
  if (r == DType::boolean) return;
  const Tensor dy = operand(r, shape, 3);
  ASSERT_OK(run_plan<BinaryBackward>(d, {dy, a, b, y, da, db}));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t ia = index_of(shape, sa, i), ib = index_of(shape, sb, i);
    const Number u = get(a, ia), v = get(b, ib);
    const Gradients g = gradient(k, get(dy, i), u, v);
    const long double grown = k == BinaryKind::pow ? 2 + std::abs(v * std::log(u)) + std::abs(std::log(u)) + 1 / std::abs(std::log(u)) : 1;
    const long double m = k == BinaryKind::polar ? std::abs(get(dy, i)) : 0;  // the two terms of its gradients may cancel
    want_da[size_t(ia)] += g.a, scale_da[size_t(ia)] += m + std::abs(g.a) * grown;
    want_db[size_t(ib)] += g.b, scale_db[size_t(ib)] += m * std::abs(u) + std::abs(g.b) * grown;
  }
  expect_close(da, want_da, {}, scale_da);
  expect_close(db, want_db, {}, scale_db);
  EXPECT_TRUE(da.guards_intact() && db.guards_intact());
  Tensor alone(t, sb);  // one gradient without the other, and without what it does not read
  const SavedPair saved = saved_for_db(k, t);
  const auto given = [](bool read, const Tensor& v) { return read ? v.view() : TensorView{}; };
  ASSERT_OK(run_plan<BinaryBackward>(d, {.dy = dy, .a = given(saved.a, a), .b = given(saved.b, b), .y = given(saved.y, y), .db = alone}));
  EXPECT_TRUE(alone.same_bits(db));
}
TEST(Complex, BinaryValuesAndGradients) {
  for (const Case& c : binary_cases()) check_binary(c, {3, 67}, {3, 67}, Layout::dense);
}
TEST(Complex, BroadcastAndItsGradients) {
  const struct { Shape a, b; } cases[] = {{{}, {}}, {{5}, {1}}, {{3, 1}, {1, 4}}, {{4, 300}, {300}}, {{4, 300}, {4, 1}}, {{700, 3}, {3}}, {{2, 3, 4, 5}, {2, 1, 4, 1}}, {{0, 3}, {1, 3}}, {{3, 0}, {3, 1}}, {{9000}, {1}}, {{700, 33}, {33}}, {{3, 9000}, {3, 1}}};
  for (const Case& c : binary_cases())
    for (const auto& s : cases)
      if (c.kind != BinaryKind::pow || s.a.numel() < 3000) check_binary(c, s.a, s.b, Layout::dense);
  for (Layout layout : kLayouts)
    for (const Case& c : {Case{BinaryKind::mul, DType::c64}, {BinaryKind::polar, DType::f64}, {BinaryKind::eq, DType::c128}}) {
      check_binary(c, {7, 60}, {7, 60}, layout);
      check_binary(c, {7, 60}, {60}, layout);
      check_binary(c, {7, 60}, {7, 1}, layout);
    }
}

// The oracle's gradients are the differences of its values: dL = Re(conj(dy) df).
template <class F> Number differences(F f, Number dy, Number x, bool complex) {
  const long double h = 1e-4L;
  const auto loss = [&](Number at) { const Number y = f(at); return y.real() * dy.real() + y.imag() * dy.imag(); };
  const auto along = [&](Number step) { return (8 * (loss(x + step) - loss(x - step)) - (loss(x + 2.0L * step) - loss(x - 2.0L * step))) / (12 * h); };
  return {along(h), complex ? along(h * kI) : 0};
}
TEST(Complex, GradientsAreDerivatives) {
  Source s(9);
  for (int i = 0; i < 300; ++i) {
    // Off the branch cuts: both parts away from 0.
    const auto part = [&] { const double v = s.normal(); return v + std::copysign(0.3, v); };
    const Number a{part(), part()}, b{part(), part()}, dy{s.normal(), s.normal()};
    const auto near = [](Number got, Number want) { return std::abs(got - want) <= 1e-9L * (1 + std::abs(want)); };
    for (UnaryKind k : unary_kinds()) {
      if (!has_gradient(k, DType::c64)) continue;
      const Number g = is_complex(result_dtype(k, DType::c64)) ? dy : dy.real(), want = differences([&](Number x) { return oracle(k, x); }, g, a, true);
      EXPECT_TRUE(near(gradient(k, g, a), want)) << enum_name(k) << " at " << a << ": " << gradient(k, g, a) << ", differences " << want;
    }
    for (const Case& c : binary_cases()) {
      if (!has_gradient(c.kind, c.operands)) continue;
      const bool complex = is_complex(c.operands);
      const Number u = complex ? a : a.real(), v = complex ? b : b.real();
      const Gradients g = gradient(c.kind, dy, u, v);
      EXPECT_TRUE(near(g.a, differences([&](Number x) { return oracle(c.kind, x, v); }, dy, u, complex))) << enum_name(c.kind) << " " << u << " " << v;
      EXPECT_TRUE(near(g.b, differences([&](Number x) { return oracle(c.kind, u, x); }, dy, v, complex))) << enum_name(c.kind) << " " << u << " " << v;
    }
  }
}
template <class T> std::vector<Number> run_backward(UnaryKind k, const std::vector<std::complex<T>>& dy, const std::vector<std::complex<T>>& x) {
  const DType t = sizeof(T) == 4 ? DType::c64 : DType::c128, r = result_dtype(k, t);
  const Shape shape{int64_t(x.size())};
  Tensor g(r, shape), at(t, shape), dx(t, shape);
  for (size_t i = 0; i < x.size(); ++i) put(g, int64_t(i), dy[i]), put(at, int64_t(i), x[i]);
  EXPECT_OK(run_plan<UnaryBackward>({k, t, shape}, {.dy = g, .x = at, .dx = dx}));
  std::vector<Number> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(get(dx, int64_t(i)));
  return out;
}
TEST(Complex, GradientsAtZeroAndAtTheEndsOfTheRange) {
  using C = std::complex<float>;
  for (UnaryKind k : {UnaryKind::abs, UnaryKind::angle, UnaryKind::sgn}) EXPECT_EQ(run_backward<float>(k, {C(1, 2)}, {C(0, -0.0f)}), std::vector<Number>{0}) << enum_name(k);
  const float huge = 0x1p127f, tiny = 0x1p-148f;
  const auto of_abs = run_backward<float>(UnaryKind::abs, {C(1), C(1), C(1)}, {C(huge, 0), C(huge, huge), C(tiny, -tiny)});
  EXPECT_EQ(of_abs[0], Number(1));
  EXPECT_NEAR(double(of_abs[1].imag()), std::sqrt(0.5), 1e-7);
  EXPECT_NEAR(double(of_abs[2].imag()), -std::sqrt(0.5), 1e-7);
  const auto of_angle = run_backward<float>(UnaryKind::angle, {C(huge), C(tiny)}, {C(huge, 0), C(tiny, 0)});  // the square of x is no number
  EXPECT_EQ(of_angle, (std::vector<Number>{kI, kI}));
  const auto of_tanh = run_backward<float>(UnaryKind::tanh, {C(1), C(1)}, {C(30, 1), C(-30, 1)});  // 1 - y^2 is 0
  for (const Number& g : of_tanh) EXPECT_NEAR(double(std::abs(g) / (4 * std::exp(-60.0L))), 1, 1e-5);
  const auto of_log = run_backward<float>(UnaryKind::log, {C(huge, huge)}, {C(huge, huge)});
  EXPECT_NEAR(double(std::abs(of_log[0])), 1, 1e-6);
}
TEST(Complex, PowersOfZeroAndOne) {
  const std::vector<Number> a = {0, 0, 0, 0, 0, {2, 1}, {2, 1}, {2, 1}, {INFINITY, 0}}, b = {0, {2, 0}, {2, 1}, {-1, 0}, {0, 1}, 0, 1, 2, 0};
  const std::vector<Number> want = {1, 0, 0, {INFINITY, NAN}, {NAN, NAN}, 1, {2, 1}, {3, 4}, 1};
  for (DType t : kTypes) {
    const Shape shape{int64_t(a.size())};
    Tensor u(t, shape), v(t, shape), y(t, shape), dy(t, shape), da(t, shape), db(t, shape);
    for (size_t i = 0; i < a.size(); ++i) put(u, int64_t(i), a[i]), put(v, int64_t(i), b[i]), put(dy, int64_t(i), 1);
    ASSERT_OK(run_plan<Binary>({BinaryKind::pow, t, shape, shape}, {u, v, y}));
    for (size_t i = 0; i < a.size(); ++i) {
      const Number g = get(y, int64_t(i));
      EXPECT_TRUE(same_kind(double(g.real()), double(want[i].real())) && same_kind(double(g.imag()), double(want[i].imag()))) << a[i] << "^" << b[i] << " = " << g;
    }
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::pow, t, shape, shape}, {dy, u, v, y, da, db}));
    EXPECT_EQ(get(da, 0), Number(0));
    EXPECT_EQ(get(db, 0), Number(0));
    EXPECT_EQ(get(da, 1), Number(0));
    EXPECT_EQ(get(db, 1), Number(0));
    EXPECT_EQ(get(da, 6), Number(1));
    EXPECT_EQ(get(da, 7), Number(4, -2));
  }
}
TEST(Complex, ProductsThatMustBeExact) {  // x conj(x) is real, products commute, x / r of a real r is one rounding
  const Shape shape{1000};
  for (DType t : kTypes) {
    const Tensor x = complex_normal(t, shape, 1), z = complex_normal(t, shape, 2);
    Tensor c(t, shape), p(t, shape), q(t, shape), real(t, shape);
    ASSERT_OK(run_plan<Unary>({UnaryKind::conj, t, shape}, {x, c}));
    ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, shape, shape}, {x, c, p}));
    for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(get(p, i).imag(), 0);
    ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, shape, shape}, {x, z, p}));
    ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, shape, shape}, {z, x, q}));
    EXPECT_TRUE(p.same_bits(q));
    for (int64_t i = 0; i < 1000; ++i) put(real, i, get(z, i).real());
    ASSERT_OK(run_plan<Binary>({BinaryKind::div, t, shape, shape}, {x, real, q}));
    for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(get(q, i).real(), t == DType::c64 ? float(get(x, i).real() / get(real, i).real()) : double(get(x, i).real()) / double(get(real, i).real()));
  }
}

TEST(Complex, ProductsKeepTheDigitsThatCancel) {
  Source s(3);
  const Shape shape{2000};
  Tensor x(DType::c64, shape), y(DType::c64, shape), p(DType::c64, shape);
  for (int64_t i = 0; i < 2000; ++i) {  // the real part of the product is what a rounded quotient leaves
    const double a = s.normal(), b = s.normal(), d = s.normal();
    put(x, i, {a, b});
    put(y, i, {double(get(x, i).imag()) * d / double(get(x, i).real()), d});
  }
  ASSERT_OK(run_plan<Binary>({BinaryKind::mul, DType::c64, shape, shape}, {x, y, p}));
  for (int64_t i = 0; i < 2000; ++i) {
    const Number u = get(x, i), v = get(y, i), g = get(p, i);
    const long double re = u.real() * v.real() - u.imag() * v.imag(), im = u.real() * v.imag() + u.imag() * v.real();  // exact: 48 bits each
    EXPECT_LE(std::fabs(g.real() - re), 2 * unit_roundoff(DType::f32) * std::fabs(re));
    EXPECT_LE(std::fabs(g.imag() - im), 2 * unit_roundoff(DType::f32) * std::fabs(im));
  }
}

// Annex G: finite / infinite is zero and infinite / finite infinite, also where the products of the parts overflow.
TEST(Complex, QuotientsOfHugeNumbersAndInfinities) {
  for (DType t : kTypes) {
    const double huge = t == DType::c64 ? 3e38 : 1e308;
    const double parts[4][4] = {{huge, huge, INFINITY, INFINITY}, {-huge, huge, INFINITY, -INFINITY}, {INFINITY, INFINITY, huge, huge}, {INFINITY, -INFINITY, huge, -huge}};
    Tensor a(t, {4}), b(t, {4}), y(t, {4});
    for (int i = 0; i < 4; ++i) put(a, i, {parts[i][0], parts[i][1]}), put(b, i, {parts[i][2], parts[i][3]});
    ASSERT_OK(run_plan<Binary>({BinaryKind::div, t, {4}, {4}}, {a, b, y}));
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(get(y, i).real() == 0 && get(y, i).imag() == 0) << name(t) << " " << i;
    for (int i = 2; i < 4; ++i) EXPECT_TRUE(std::isinf(get(y, i).real()) || std::isinf(get(y, i).imag())) << name(t) << " " << i;
  }
}
TEST(Complex, Parameters) {
  const Shape shape{101};
  for (DType t : kTypes) {
    const Tensor x = complex_normal(t, shape, 1), b = complex_normal(t, shape, 2), dy = complex_normal(t, shape, 3);
    const auto check = [&](auto value, const Tensor& y) {
      std::vector<Number> want;
      std::vector<long double> scale;
      for (int64_t i = 0; i < 101; ++i) want.push_back(value(get(x, i), get(b, i), get(dy, i))), scale.push_back(4 * (std::abs(get(x, i)) + std::abs(get(b, i)) + std::abs(get(dy, i))));
      expect_close(y, want, {}, scale);
    };
    Tensor y(t, shape), z(t, shape);
    ASSERT_OK(run_plan<Unary>({UnaryKind::scale, t, shape, -2.5}, {x, y}));
    check([](Number u, Number, Number) { return -2.5L * u; }, y);
    ASSERT_OK(run_plan<Unary>({UnaryKind::affine, t, shape, 3, 0.5}, {x, y}));
    check([](Number u, Number, Number) { return 3.0L * u + Number(0.5L); }, y);
    ASSERT_OK(run_plan<UnaryBackward>({UnaryKind::affine, t, shape, 3, 0.5}, {.dy = dy, .dx = y}));
    check([](Number, Number, Number g) { return 3.0L * g; }, y);
    ASSERT_OK(run_plan<Binary>({BinaryKind::scale_add, t, shape, shape, 2, -3}, {x, b, y}));
    check([](Number u, Number v, Number) { return 2.0L * u - 3.0L * v; }, y);
    ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::scale_add, t, shape, shape, 2, -3}, {.dy = dy, .da = y, .db = z}));
    check([](Number, Number, Number g) { return 2.0L * g; }, y), check([](Number, Number, Number g) { return -3.0L * g; }, z);
    for (double w : {0.0, 0.25, 0.75, 1.0}) {
      ASSERT_OK(run_plan<Binary>({BinaryKind::lerp, t, shape, shape, w}, {x, b, y}));
      check([&](Number u, Number v, Number) { return u + (long double)(w) * (v - u); }, y);
      ASSERT_OK(run_plan<BinaryBackward>({BinaryKind::lerp, t, shape, shape, w}, {.dy = dy, .da = y, .db = z}));
      check([&](Number, Number, Number g) { return (long double)(1 - w) * g; }, y), check([&](Number, Number, Number g) { return (long double)(w) * g; }, z);
    }
  }
}
// Values and gradients of the kinds of three operands, with sums over what is broadcast.
TEST(Complex, TernaryKinds) {
  struct Of { TernaryKind kind; Number (*value)(Number, Number, Number); Number (*da)(Number, Number, Number); Number (*db)(Number, Number, Number); Number (*dc)(Number, Number, Number); };
  const Of all[] = {
      {TernaryKind::lerp, [](Number a, Number b, Number c) { return a + c * (b - a); }, [](Number, Number, Number c) { return Number(1) - c; },
       [](Number, Number, Number c) { return c; }, [](Number a, Number b, Number) { return b - a; }},
      {TernaryKind::addcmul, [](Number a, Number b, Number c) { return a - 1.5L * b * c; }, [](Number, Number, Number) { return Number(1); },
       [](Number, Number, Number c) { return -1.5L * c; }, [](Number, Number b, Number) { return -1.5L * b; }},
      {TernaryKind::addcdiv, [](Number a, Number b, Number c) { return a - 1.5L * b / c; }, [](Number, Number, Number) { return Number(1); },
       [](Number, Number, Number c) { return -1.5L / c; }, [](Number, Number b, Number c) { return 1.5L * b / (c * c); }}};
  const Shape sa{7, 31}, sb{31}, sc{7, 1};
  for (DType t : kTypes)
    for (const Of& f : all) {
      SCOPED_TRACE(text(enum_name(f.kind), " ", t));
      TernaryDescriptor d{f.kind, t, sa, sb, sc};
      if (f.kind != TernaryKind::lerp) d.alpha = -1.5;
      const Tensor a = complex_normal(t, sa, 1), b = complex_normal(t, sb, 2), c = complex_normal(t, sc, 3), dy = complex_normal(t, sa, 4);
      Tensor y(t, sa), da(t, sa), db(t, sb), dc(t, sc);
      ASSERT_OK(run_plan<Ternary>(d, {a, b, c, y}));
      ASSERT_OK(run_plan<TernaryBackward>(d, {dy, a, b, c, da, db, dc}));
      std::vector<Number> want, want_da, want_db(31), want_dc(7);
      std::vector<long double> scale, scale_da, scale_db(31), scale_dc(7);
      for (int64_t i = 0; i < 7 * 31; ++i) {
        const Number u = get(a, i), v = get(b, i % 31), w = get(c, i / 31), g = get(dy, i);
        const Number slopes[] = {f.da(u, v, w), f.db(u, v, w), f.dc(u, v, w)};
        want.push_back(f.value(u, v, w)), scale.push_back(std::abs(u) * (1 + std::abs(slopes[0])) + 2 * std::abs(v * slopes[1]));
        want_da.push_back(g * std::conj(slopes[0])), scale_da.push_back(std::abs(g) * (1 + std::abs(slopes[0])));
        want_db[size_t(i % 31)] += g * std::conj(slopes[1]), scale_db[size_t(i % 31)] += std::abs(g * slopes[1]);
        want_dc[size_t(i / 31)] += g * std::conj(slopes[2]), scale_dc[size_t(i / 31)] += std::abs(g) * (std::abs(slopes[2]) + std::abs(u) + std::abs(v));
      }
      expect_close(y, want, {}, scale), expect_close(da, want_da, {}, scale_da), expect_close(db, want_db, {}, scale_db), expect_close(dc, want_dc, {}, scale_dc);
      check_repeat_bits<TernaryBackward>(d, {dy, a, b, c, da, db, dc});
    }
}
TEST(Complex, WhereAndItsGradient) {
  for (DType t : kTypes) {
    const Tensor a(DType::boolean, {2, 2}, {1, 0, 0, 1}), b = complex_normal(t, {2, 2}, 1), c = complex_normal(t, {2}, 2), dy = complex_normal(t, {2, 2}, 3);
    const TernaryDescriptor d{TernaryKind::where, t, {2, 2}, {2, 2}, {2}};
    Tensor y(t, {2, 2}), db(t, {2, 2}), dc(t, {2});
    ASSERT_OK(run_plan<Ternary>(d, {a, b, c, y}));
    ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .a = a, .db = db, .dc = dc}));
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(get(y, i), a.at(i) != 0 ? get(b, i) : get(c, i % 2));
      EXPECT_EQ(get(db, i), a.at(i) != 0 ? get(dy, i) : Number(0));
    }
    EXPECT_EQ(get(dc, 0), get(dy, 2));
    EXPECT_EQ(get(dc, 1), get(dy, 1));
  }
}
TEST(Complex, InPlace) {
  for (DType t : kTypes)
    for (Layout layout : {Layout::dense, Layout::every_other}) {
      Tensor x = complex_normal(t, {3, 50}, 1, 1, layout), y(t, {3, 50}, layout), z = complex_normal(t, {3, 50}, 2, 1, layout), p(t, {3, 50}, layout);
      ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, {3, 50}, {3, 50}}, {x, z, p}));
      ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, {3, 50}, {3, 50}}, {x, z, z}));
      EXPECT_TRUE(z.same_bits(p));
      ASSERT_OK(run_plan<Unary>({UnaryKind::exp, t, {3, 50}}, {x, y}));
      ASSERT_OK(run_plan<Unary>({UnaryKind::exp, t, {3, 50}}, {x, x}));
      EXPECT_TRUE(x.same_bits(y));
    }
}
std::vector<uint8_t> bits_of(const Tensor& v) {  // every NaN made the same
  std::vector<uint8_t> bytes = v.element_bytes();
  const DType t = part_of(v.dtype());
  for (size_t at = 0; at < bytes.size(); at += byte_size(t))
    if (is_floating(t) && std::isnan(read_element(t, &bytes[at]))) std::memset(&bytes[at], 0xff, byte_size(t));
  return bytes;
}
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
TEST(Complex, SameBitsForInstructionSets) {
  const Shape shape{3, 1001};
  for (DType t : kTypes)
    for (UnaryKind k : unary_kinds())
      same_bits_for_every_isa(text(enum_name(k), " ", t), [&] {
        const Tensor x = complex_normal(t, shape, 1, 30), dy = operand(result_dtype(k, t), shape, 2);
        Tensor y(result_dtype(k, t), shape), dx(t, shape);
        EXPECT_OK(run_plan<Unary>({k, t, shape}, {x, y}));
        if (has_gradient(k, t)) EXPECT_OK(run_plan<UnaryBackward>({k, t, shape}, {dy, x, y, dx}));
        return std::vector{bits_of(y), bits_of(dx)};
      });
  for (const auto& [k, t] : binary_cases())
    same_bits_for_every_isa(text(enum_name(k), " ", t), [&] {
      const Tensor a = operand(t, shape, 1), b = operand(t, shape, 2), dy = operand(result_dtype(k, t), shape, 3);
      Tensor y(result_dtype(k, t), shape), da(t, shape), db(t, shape);
      EXPECT_OK(run_plan<Binary>({k, t, shape, shape}, {a, b, y}));
      if (has_gradient(k, t)) EXPECT_OK(run_plan<BinaryBackward>({k, t, shape, shape}, {dy, a, b, y, da, db}));
      return std::vector{bits_of(y), bits_of(da), bits_of(db)};
    });
}
TEST(Complex, ContractAndBits) {
  const Shape shape{3, 20000}, row{20000}, column{3, 1};
  for (DType t : kTypes) {
    const DType r = counterpart(t);
    const Tensor x = complex_normal(t, shape, 1), dy = complex_normal(t, shape, 2), b = complex_normal(t, row, 3), c = complex_normal(t, column, 4), u = Tensor::normal(r, shape, 5), v = Tensor::normal(r, row, 6);
    Tensor y(t, shape), dx(t, shape), m(r, shape), db(t, row), dc(t, column), du(r, shape), dv(r, row), mask(DType::boolean, shape);
    const BinaryDescriptor columns{BinaryKind::mul, t, shape, row}, rows{BinaryKind::div, t, shape, column}, made{BinaryKind::polar, r, shape, row};
    check_repeat_bits<Unary>({UnaryKind::tanh, t, shape}, {x, y});
    check_repeat_bits<Unary>({UnaryKind::abs, t, shape}, {x, m});
    check_repeat_bits<UnaryBackward>({UnaryKind::abs, t, shape}, {u, x, {}, dx});
    check_repeat_bits<Binary>(columns, {x, b, y});
    check_repeat_bits<BinaryBackward>(columns, {dy, x, b, {}, dx, db});
    check_repeat_bits<BinaryBackward>(rows, {dy, x, c, {}, dx, dc});
    check_repeat_bits<Binary>(made, {u, v, y});
    check_repeat_bits<BinaryBackward>(made, {dy, u, v, {}, du, dv});
    if (t != DType::c64) continue;
    check_contract<Unary>({UnaryKind::tanh, t, shape}, {x, y});
    check_contract<Unary>({UnaryKind::abs, t, shape}, {x, m});
    check_contract<UnaryBackward>({UnaryKind::abs, t, shape}, {u, x, {}, dx});
    check_contract<BinaryBackward>(columns, {dy, x, b, {}, dx, db});
    check_contract<Binary>(made, {u, v, y});
    check_contract<BinaryBackward>(made, {dy, u, v, {}, du, dv});
    check_contract<Binary>({BinaryKind::eq, t, shape, shape}, {x, dy, mask});
  }
}
TEST(Complex, Refusals) {
  const Stream s = Stream::cpu();
  const auto no = Code::unsupported, bad = Code::invalid_problem;
  expect_refused(UnaryPlan::select(s, {UnaryKind::floor, DType::c64, {2}}).status(), no, {"unary.cpu.map", "kind floor does not take c64"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::imag, DType::f32, {2}}).status(), no, {"kind imag does not take f32"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::lt, DType::c128, {2}, {2}}).status(), no, {"kind lt does not take c128"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::complex, DType::bf16, {2}, {2}}).status(), no, {"kind complex does not take bf16"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::complex, DType::c64, {2}, {2}}).status(), no, {"kind complex does not take c64"});
  expect_refused(UnaryBackwardPlan::select(s, {UnaryKind::isnan, DType::c64, {2}}).status(), no, {"kind isnan has no gradient"});
  expect_refused(UnaryBackwardPlan::select(s, {UnaryKind::floor, DType::c64, {2}}).status(), no, {"kind floor has no gradient in c64"});
  expect_refused(TernaryPlan::select(s, {TernaryKind::fma, DType::c64, {2}, {2}, {2}}).status(), no, {"kind fma does not take c64"});
  const Tensor x = complex_normal(DType::c64, {4}, 1), dy = x;
  Tensor y(DType::c64, {4}), m(DType::f32, {4});
  expect_refused(run_plan<Unary>({UnaryKind::abs, DType::c64, {4}}, {x, y}), bad, {"y", "f32", "c64"});
  expect_refused(run_plan<Unary>({UnaryKind::exp, DType::c64, {4}}, {x, m}), bad, {"y", "c64", "f32"});
  expect_refused(run_plan<UnaryBackward>({UnaryKind::abs, DType::c64, {4}}, {.dy = dy, .x = x, .dx = y}), bad, {"dy", "f32", "c64"});
  expect_refused(run_plan<UnaryBackward>({UnaryKind::tanh, DType::c64, {4}}, {.dy = dy, .y = x, .dx = y}), bad, {"x is missing", "tanh reads it"});
}

}  // namespace
}  // namespace baracuda
