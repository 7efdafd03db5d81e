#include "baracuda/ops/quantize/quantize.hpp"
#include <cmath>
#include <limits>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/quantize/quantize_math.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr QuantizeBy kWays[] = {QuantizeBy::tensor, QuantizeBy::channel, QuantizeBy::token, QuantizeBy::group};

double least(const QuantizeDescriptor& d) { return d.qmin ? double(*d.qmin) : d.qdtype == DType::i8 ? -128 : 0; }
double greatest(const QuantizeDescriptor& d) { return d.qmax ? double(*d.qmax) : d.qdtype == DType::i8 ? 127 : 255; }
Shape scales_of(const QuantizeDescriptor& d) {
  Shape s = d.shape;
  if (d.by == QuantizeBy::tensor) return {};
  if (d.by == QuantizeBy::channel) return {d.shape[int(d.axis < 0 ? d.axis + d.shape.rank : d.axis)]};
  if (d.by == QuantizeBy::group) s[s.rank - 1] /= d.group_size;
  else --s.rank, s.dim[s.rank] = 0;
  return s;
}
// Index of the scale of row-major element i.
int64_t scale_at(const QuantizeDescriptor& d, int64_t i) {
  if (d.by == QuantizeBy::tensor) return 0;
  if (d.by == QuantizeBy::token) return i / d.shape.last();
  if (d.by == QuantizeBy::group) return i / d.group_size;
  const int axis = int(d.axis < 0 ? d.axis + d.shape.rank : d.axis);
  return i / d.shape.product(axis + 1, d.shape.rank) % d.shape[axis];
}
// The contract's quotient: a true division in the computing type.
double quotient(DType t, double x, double s) { return t == DType::f64 ? x / s : double(float(x) / float(s)); }
double code_of(const QuantizeDescriptor& d, double x, double s, double z) {
  if (!(s > 0 && std::isfinite(s)) || std::isnan(x)) return z;
  return std::clamp(std::nearbyint(quotient(d.dtype, x, s)) + z, least(d), greatest(d));
}
struct Gradients { std::vector<double> dx, dscale, dzero, dscale_size, dzero_size; };
enum class Op { quantize, dequantize, fake };
Gradients gradients(const QuantizeDescriptor& d, Op op, const std::vector<double>& dy, const std::vector<double>& x, const std::vector<double>& s,
                    const std::vector<double>& z) {
  Gradients g;
  for (auto* v : {&g.dscale, &g.dzero, &g.dscale_size, &g.dzero_size}) v->assign(s.size(), 0);
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t k = size_t(scale_at(d, int64_t(i)));
    const bool usable = s[k] > 0 && std::isfinite(s[k]);
    double dx = 0, ds = 0, dz = 0;
    if (usable && op == Op::dequantize) dx = dy[i] * s[k], ds = dy[i] * (x[i] - z[k]), dz = -dy[i] * s[k];
    else if (usable && !std::isnan(x[i])) {
      const double v = quotient(d.dtype, x[i], s[k]), r = std::nearbyint(v) + z[k];
      const bool inside = r >= least(d) && r <= greatest(d);
      if (op == Op::quantize && inside) dx = dy[i] / s[k], ds = -dy[i] * x[i] / s[k] / s[k], dz = dy[i];
      if (op == Op::fake) {
        dx = inside ? dy[i] : 0;
        ds = dy[i] * (inside ? r - z[k] - v : (r < least(d) ? least(d) : greatest(d)) - z[k]);
        dz = inside ? 0 : -dy[i] * s[k];
      }
    }
    g.dx.push_back(dx);
    g.dscale[k] += ds, g.dzero[k] += dz, g.dscale_size[k] += std::fabs(ds), g.dzero_size[k] += std::fabs(dz);
  }
  return g;
}

struct Case {
  QuantizeDescriptor d;
  Layout layout = Layout::dense;
  bool zero_points = true, gradients = true;
};
void check_values(const Case& c) {
  const QuantizeDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " layout ", int(c.layout), " zero points ", c.zero_points));
  const Shape scales = scales_of(d);
  const DType wide = accumulator(d.dtype);
  const Tensor x = Tensor::normal(d.dtype, d.shape, 1, 0.2, 2, c.layout), dy = Tensor::normal(d.dtype, d.shape, 2, 0, 1, c.layout);
  const Tensor scale = Tensor::uniform(wide, scales, 3, 0.01, 0.05);
  const Tensor zero = c.zero_points ? Tensor::integers(DType::i32, scales, 4, int64_t(least(d)), int64_t(greatest(d)) + 1) : Tensor();
  const std::vector<double> xs = x.values(), ss = scale.values(), zs = c.zero_points ? zero.values() : std::vector<double>(ss.size(), double(d.zero_point));
  Tensor q(d.qdtype, d.shape, c.layout), y(d.dtype, d.shape, c.layout), fake(d.dtype, d.shape, c.layout);
  ASSERT_OK(run_plan<Quantize>(d, {x, scale, zero, q}));
  ASSERT_OK(run_plan<Dequantize>(d, {q, scale, zero, y}));
  ASSERT_OK(run_plan<FakeQuantize>(d, {x, scale, zero, fake}));
  std::vector<double> codes, values;
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t k = size_t(scale_at(d, int64_t(i)));
    codes.push_back(code_of(d, xs[i], ss[k], zs[k]));
    const double product = (codes.back() - zs[k]) * ss[k];
    values.push_back(rounded(d.dtype, d.dtype == DType::f64 ? product : double(float(product))));
  }
  EXPECT_EQ(q.values(), codes);
  EXPECT_EQ(y.values(), values);
  EXPECT_TRUE(fake.same_bits(y));
  EXPECT_TRUE(q.guards_intact() && y.guards_intact() && fake.guards_intact());

  if (!c.gradients) return;
  for (Op op : {Op::quantize, Op::dequantize, Op::fake}) {
    Tensor dx(d.dtype, d.shape, c.layout), dscale(wide, scales), dzero(wide, scales);
    const Gradients g = gradients(d, op, dy.values(), op == Op::dequantize ? codes : xs, ss, zs);
    if (op == Op::quantize) ASSERT_OK(run_plan<QuantizeBackward>(d, {dy, x, scale, zero, dx, dscale, dzero}));
    if (op == Op::dequantize) ASSERT_OK(run_plan<DequantizeBackward>(d, {dy, q, scale, zero, dx, dscale, dzero}));
    if (op == Op::fake) ASSERT_OK(run_plan<FakeQuantizeBackward>(d, {dy, x, scale, zero, dx, dscale, dzero}));
    EXPECT_CLOSE(dx, g.dx, {.ulps = 1});
    EXPECT_CLOSE(dscale, g.dscale, {.ulps = 1}, &g.dscale_size);
    EXPECT_CLOSE(dzero, g.dzero, {.ulps = 1}, &g.dzero_size);
    EXPECT_TRUE(dx.guards_intact() && dscale.guards_intact() && dzero.guards_intact());
  }
}

TEST(Quantize, ValuesForEveryWayTypeAndStride) {
  for (DType t : kDTypesHere)
    for (DType q : {DType::i8, DType::u8})
      for (QuantizeBy by : kWays)
        for (bool zero_points : {true, false}) check_values({{t, {3, 5, 24}, q, by, 1, 8}, Layout::dense, zero_points});
  for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (QuantizeBy by : kWays)
      for (int64_t axis : {0, 1, -1}) check_values({{axis ? DType::f32 : DType::bf16, {4, 7, 30}, DType::u8, by, axis, 10}, layout, axis != 1});
}
TEST(Quantize, ScalesAlongManyRows) {
  for (DType t : kDTypesHere)
    for (DType q : {DType::i8, DType::u8})
      for (const Shape& shape : {Shape{133, 48}, Shape{3, 70, 16}, Shape{64, 40}})
        for (bool zero_points : {true, false}) check_values({{t, shape, q, QuantizeBy::channel, -1, 8}, Layout::dense, zero_points, t != DType::f64});  // the oracle's own long sums are f64
}
TEST(Quantize, ShapesAndRanges) {
  for (const Shape& shape : {Shape{1}, Shape{3}, Shape{1000}, Shape{2, 1}, Shape{300, 3}, Shape{5, 1027}, Shape{2, 3, 1, 2, 1, 2, 12}, Shape{70000}})
    for (QuantizeBy by : kWays) check_values({{DType::f32, shape, DType::i8, by, 0, shape.last() % 3 ? 1 : 3}});
  check_values({{.dtype = DType::f32, .shape = {50, 20}, .zero_point = -3, .qmin = -8, .qmax = 7}, Layout::dense, false});
  check_values({{.dtype = DType::bf16, .shape = {50, 20}, .qdtype = DType::u8, .by = QuantizeBy::token, .zero_point = 8, .qmin = 0, .qmax = 15}, Layout::dense, false});
  check_values({{DType::f32, {8, 1, 1, 1, 1, 1, 2, 2}, DType::i8, QuantizeBy::channel, 0}});
}
TEST(Quantize, HostScaleEqualsTensorScale) {
  for (DType t : kDTypesHere) {
    const Tensor x = Tensor::normal(t, {7, 33}, 1), scale(accumulator(t), {}, {0.025}), zero(DType::i32, {}, {-7});
    Tensor a(DType::i8, {7, 33}), b(DType::i8, {7, 33}), ya(t, {7, 33}), yb(t, {7, 33});
    const QuantizeDescriptor host{.dtype = t, .shape = {7, 33}, .scale = 0.025, .zero_point = -7}, given{.dtype = t, .shape = {7, 33}};
    ASSERT_OK(run_plan<Quantize>(host, {x, {}, {}, a}));
    ASSERT_OK(run_plan<Quantize>(given, {x, scale, zero, b}));
    ASSERT_OK(run_plan<Dequantize>(host, {a, {}, {}, ya}));
    ASSERT_OK(run_plan<Dequantize>(given, {b, scale, zero, yb}));
    EXPECT_TRUE(a.same_bits(b) && ya.same_bits(yb));
  }
}
TEST(Quantize, SameBitsOnEveryInstructionSet) {
  const Tensor x = Tensor::normal(DType::f32, {9, 1001}, 1), dy = Tensor::normal(DType::f32, {9, 1001}, 2), scale = Tensor::uniform(DType::f32, {9}, 3, 0.01, 0.1);
  const QuantizeDescriptor d{.dtype = DType::f32, .shape = {9, 1001}, .by = QuantizeBy::token};
  std::vector<std::vector<uint8_t>> first;
  for (Isa most : {Isa::avx512, Isa::avx2, Isa::portable}) {
    limit_isa(most);
    Tensor q(DType::i8, d.shape), y(DType::f32, d.shape), dx(DType::f32, d.shape), dscale(DType::f32, {9}), made(DType::f32, {9}), codes(DType::i8, d.shape);
    ASSERT_OK(run_plan<Quantize>(d, {x, scale, {}, q}));
    ASSERT_OK(run_plan<FakeQuantize>(d, {x, scale, {}, y}));
    ASSERT_OK(run_plan<QuantizeBackward>(d, {dy, x, scale, {}, dx, dscale, {}}));
    ASSERT_OK(run_plan<QuantizeDynamic>({.dtype = DType::f32, .shape = d.shape}, {x, codes, made, {}}));
    std::vector<std::vector<uint8_t>> now;
    for (const Tensor* t : {&q, &y, &dx, &dscale, &made, &codes}) now.push_back(t->element_bytes());
    if (first.empty()) first = now;
    EXPECT_TRUE(now == first) << name(most);
  }
  limit_isa(Isa::avx512bf16);
}

// One tensor with one scale.
std::vector<double> quantized(DType qdtype, double scale, double zero, const std::vector<double>& x, DType t = DType::f32) {
  const Shape shape{int64_t(x.size())};
  const Tensor in(t, shape, x), s(accumulator(t), {}, {scale}), z(DType::i32, {}, {zero});
  Tensor q(qdtype, shape);
  EXPECT_OK(run_plan<Quantize>({.dtype = t, .shape = shape, .qdtype = qdtype}, {in, s, z, q}));
  return q.values();
}
std::vector<double> dequantized(DType qdtype, double scale, double zero, const std::vector<double>& x) {
  const Shape shape{int64_t(x.size())};
  const Tensor in(qdtype, shape, x), s(DType::f32, {}, {scale}), z(DType::i32, {}, {zero});
  Tensor y(DType::f32, shape);
  EXPECT_OK(run_plan<Dequantize>({.shape = shape, .qdtype = qdtype}, {in, s, z, y}));
  return y.values();
}
using Values = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Quantize, case_quant_half_even) {
  for (DType t : kDTypesHere) EXPECT_EQ(quantized(DType::i8, 1, 0, {0.5, 1.5, 2.5, -0.5, -1.5}, t), (Values{0, 2, 2, 0, -2}));
}
TEST(Quantize, case_quant_divide_or_reciprocal) {  // a true division, in the vector and in what is left over
  EXPECT_EQ(quantized(DType::i8, 0.621999979019165, 0, Values(37, 50.692996978759766)), Values(37, 82));
}
TEST(Quantize, case_quant_saturate) {
  for (DType t : {DType::f32, DType::f64}) EXPECT_EQ(quantized(DType::i8, 1, 0, {127.6, -128.6, 300, -300, 1e30, -1e30}, t), (Values{127, -128, 127, -128, 127, -128}));
  EXPECT_EQ(quantized(DType::i8, 1e-30, 0, {1e30, -1e30}), (Values{127, -128}));  // the quotient is beyond f32
  const Tensor x(DType::f32, {2}, {300, -300}), s(DType::f32, {}, {1});
  Tensor q(DType::i8, {2});
  ASSERT_OK(run_plan<Quantize>({.shape = {2}, .qmin = -127}, {x, s, {}, q}));
  EXPECT_EQ(q.values(), (Values{127, -127}));
}
TEST(Quantize, case_quant_inf) {
  EXPECT_EQ(quantized(DType::i8, 0.1, 0, {1, kInfinity, -kInfinity, 26}), (Values{10, 127, -128, 127}));
  const double s = float(0.1);
  EXPECT_EQ(dequantized(DType::i8, 0.1, 0, {10, 127, -128, 127}), (Values{float(10 * s), float(127 * s), float(-128 * s), float(127 * s)}));
  EXPECT_EQ(quantized(DType::u8, 1, 133, {kInfinity, -kInfinity, NAN, -NAN}), (Values{255, 0, 133, 133}));
  EXPECT_EQ(quantized(DType::u8, 1, 133, Values(35, NAN), DType::f16), Values(35, 133));
}
TEST(Quantize, case_quant_zero_row) {
  const Tensor x(DType::f32, {2, 4}, {0, 0, 0, 0, 1, -2, 3, -4});
  Tensor q(DType::i8, {2, 4}), s(DType::f32, {2}), z(DType::i32, {2}), y(DType::f32, {2, 4});
  ASSERT_OK(run_plan<QuantizeDynamic>({.shape = {2, 4}}, {x, q, s, z}));
  EXPECT_EQ(q.values(), (Values{0, 0, 0, 0, 32, -64, 95, -127}));
  EXPECT_EQ(s.values(), (Values{1, float(4.0 / 127)}));
  EXPECT_EQ(z.values(), (Values{0, 0}));
  ASSERT_OK(run_plan<Dequantize>({.shape = {2, 4}, .by = QuantizeBy::token}, {q, s, {}, y}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.at(i), 0);
}
TEST(Quantize, case_quant_invalid_scale) {
  for (double s : {0.0, -1.0, double(NAN), kInfinity, -3.4e38, 1e-60, 1e39}) {
    if (s != 1e-60 && s != 1e39) {
      EXPECT_EQ(quantized(DType::i8, s, 5, {1, -100, NAN, kInfinity}), Values(4, 5)) << s;
      EXPECT_EQ(dequantized(DType::i8, s, 5, {1, -100, 127}), Values(3, 0)) << s;
      const Tensor x(DType::f32, {3}, {1, 2, 300}), scale(DType::f32, {}, {s});
      Tensor y(DType::f32, {3}), dx(DType::f32, {3}), dscale(DType::f32, {}), dzero(DType::f32, {});
      ASSERT_OK(run_plan<FakeQuantize>({.shape = {3}}, {x, scale, {}, y}));
      EXPECT_EQ(y.values(), Values(3, 0));
      const auto zeros = [&](Status status) {
        ASSERT_OK(status);
        EXPECT_EQ(dx.values(), Values(3, 0));
        EXPECT_TRUE(dscale.at(0) == 0 && dzero.at(0) == 0);
      };
      zeros(run_plan<QuantizeBackward>({.shape = {3}}, {x, x, scale, {}, dx, dscale, dzero}));
      zeros(run_plan<FakeQuantizeBackward>({.shape = {3}}, {x, x, scale, {}, dx, dscale, dzero}));
      const Tensor codes(DType::i8, {3}, {1, 2, 3});
      zeros(run_plan<DequantizeBackward>({.shape = {3}}, {x, codes, scale, {}, dx, dscale, dzero}));
    }
    expect_refused(QuantizePlan::select(Stream::cpu(), {.shape = {3}, .scale = s}).status(), Code::invalid_problem, {"quantize", "scale", "finite and positive"});
  }
  EXPECT_TRUE(QuantizePlan::select(Stream::cpu(), {.dtype = DType::f64, .shape = {3}, .scale = 1e-60}).ok());
}
TEST(Quantize, case_ste_boundary) {
  const Tensor x(DType::f32, {7}, {-12.9, -12.8, 0, 12.7, 12.74, 12.76, 26}), dy(DType::f32, {7}, Values(7, 1)), s(DType::f32, {}, {0.1});
  Tensor dx(DType::f32, {7}), dscale(DType::f32, {}), dzero(DType::f32, {});
  ASSERT_OK(run_plan<FakeQuantizeBackward>({.shape = {7}}, {dy, x, s, {}, dx, dscale, dzero}));
  EXPECT_EQ(dx.values(), (Values{0, 1, 1, 1, 1, 0, 0}));
  EXPECT_NEAR(dzero.at(0), -0.3, 1e-6);
  EXPECT_NEAR(dscale.at(0), -128 + 127 + 127 - 0.4, 1e-4);  // 127 - 127.4 inside
  ASSERT_OK(run_plan<QuantizeBackward>({.shape = {7}}, {dy, x, s, {}, dx, {}, {}}));
  const double inverse = float(1 / float(0.1));
  EXPECT_EQ(dx.values(), (Values{0, inverse, inverse, inverse, inverse, 0, 0}));
}
// As torch's _fake_quantize_learnable_per_tensor_affine and per_channel_affine, whose zero point the caller rounds.
TEST(Quantize, GradientsTimesAFactor) {
  for (DType t : kDTypesHere)
    for (QuantizeBy by : kWays) {
      const QuantizeDescriptor one{t, {6, 5, 24}, DType::i8, by, 1, 8, {}, 0, -8, 7};
      QuantizeDescriptor d = one;
      d.grad_factor = 1 / std::sqrt(720.0 * 7);
      const Shape scales = scales_of(d);
      const DType wide = accumulator(t);
      const Tensor x = Tensor::normal(t, d.shape, 1, 0, 2), dy = Tensor::normal(t, d.shape, 2), s = Tensor::uniform(wide, scales, 3, 0.1, 0.5);
      const Tensor z = Tensor::integers(DType::i32, scales, 4, -8, 8);
      Tensor dx(t, d.shape), dx1(t, d.shape), ds(wide, scales, scales.rank ? Layout::reversed : Layout::dense), dz(wide, scales), ds1(wide, scales), dz1(wide, scales);
      ASSERT_OK(run_plan<FakeQuantizeBackward>(one, {dy, x, s, z, dx1, ds1, dz1}));
      ASSERT_OK(run_plan<FakeQuantizeBackward>(d, {dy, x, s, z, dx, ds, dz}));
      EXPECT_TRUE(dx.same_bits(dx1));
      for (int64_t i = 0; i < ds.numel(); ++i) {
        const double f = t == DType::f64 ? d.grad_factor : double(float(d.grad_factor));
        EXPECT_EQ(ds.at(i), rounded(wide, ds1.at(i) * f));
        EXPECT_EQ(dz.at(i), rounded(wide, dz1.at(i) * f));
      }
    }
  expect_refused(FakeQuantizeBackwardPlan::select(Stream::cpu(), {.shape = {2}, .grad_factor = NAN}).status(), Code::invalid_problem, {"grad_factor nan"});
}
TEST(Quantize, case_quant_channel_axis) {  // equals the slices by tensor
  const Shape shape{2, 3, 5};
  for (Layout layout : {Layout::dense, Layout::transposed})
    for (int64_t axis : {0, 1, 2}) {
      Tensor x = Tensor::normal(DType::f32, shape, 1, 0, 3, layout);
      x.set(7, NAN), x.set(11, INFINITY), x.set(20, -INFINITY);
      const Tensor scale = Tensor::uniform(DType::f32, {shape[int(axis)]}, 2, 0.01, 0.1), zero = Tensor::integers(DType::i32, {shape[int(axis)]}, 3, -20, 20);
      Tensor q(DType::i8, shape, layout);
      const QuantizeDescriptor d{.shape = shape, .by = QuantizeBy::channel, .axis = axis};
      ASSERT_OK(run_plan<Quantize>(d, {x, scale, zero, q}));
      for (int64_t i = 0; i < 30; ++i) {
        const int64_t k = scale_at(d, i);
        EXPECT_EQ(q.at(i), quantized(DType::i8, scale.at(k), zero.at(k), {x.at(i)})[0]) << i;
      }
    }
}
TEST(Quantize, case_quant_cpu_rounding) {
  EXPECT_EQ(quantized(DType::i8, 1, 0, {12.5, 13.5, -12.5, 4.5}), (Values{12, 14, -12, 4}));
  std::vector<double> x, want;
  for (int acc = -1000; acc <= 1000; acc += 8) x.push_back(acc + 4), want.push_back(std::clamp(std::nearbyint((acc + 4) * 0.125), -128.0, 127.0));
  EXPECT_EQ(quantized(DType::i8, 8, 0, x), want);
}
TEST(Quantize, ZeroPointsBeyondTheCodesAreClamped) {
  EXPECT_EQ(quantized(DType::i8, 1, 1000, {0, -1, 5, NAN}), (Values{127, 126, 127, 127}));
  EXPECT_EQ(quantized(DType::u8, 1, -2147483648.0, {0, 3}), (Values{0, 3}));
  EXPECT_EQ(dequantized(DType::u8, 2, 1000, {255, 254}), (Values{0, -2}));
}

// One division for all that share a scale: the same codes as a division each, ties and the ends of the range included.
template <class A> void check_divider() {
  using V = Pack<A, 1>;
  constexpr double least = std::numeric_limits<A>::denorm_min(), most = std::numeric_limits<A>::max();
  Source source(7);
  const auto between = [&](double a, double b) { return a + (b - a) * source.uniform(); };
  int64_t quotients = 0;
  for (int round = 0; round < 20000; ++round) {
    const double exponent = round % 4 ? between(-8, 8) : between(std::log2(least), std::log2(most));
    const V s = V::of(A(std::clamp(std::exp2(exponent), least, most)));
    const quantize::Divider<V> over(s);
    const int low = round % 3 ? -128 : -8, high = round % 3 ? 127 : 7;
    const quantize::Stepper<V> steps(s, V(low), V(high));
    for (int k = 0; k < 20; ++k) {
      const double near = k % 2 ? std::floor(between(-600, 600)) / 2 : between(-300, 300);
      A x = A(std::clamp(near * double(s.v), -most, most));
      if (k % 5 == 0) x = std::nextafter(x, A(k % 2 ? most : -most));
      if (k == 3) x = A(std::clamp(between(-1, 1) * std::exp2(between(std::log2(least), std::log2(most))), -most, most));
      const V v = V::of(x), q = over(v);
      const A code = quantize::steps(v, s, V(low), V(high)).v;
      ASSERT_EQ(quantize::steps_at(q, s, V(low), V(high)).v, code) << double(v.v) << " / " << double(s.v);
      ASSERT_EQ(steps(v).v, code) << double(v.v) << " / " << double(s.v);
      const double want = double((v / s).v);
      if (std::fabs(want) < 0x1p-10 || std::fabs(want) > 0x1p19) continue;
      ASSERT_EQ(double(q.v), want) << double(v.v) << " / " << double(s.v);
      ++quotients;
    }
  }
  EXPECT_GT(quotients, 300000);
  for (double s : {least, 1.0, most, 0.0, -1.0, kInfinity, double(NAN)})
    for (double x : {kInfinity, -kInfinity, double(NAN), most, -most, 0.0}) {
      const V v = V::of(A(x)), scale = V::of(A(s));
      EXPECT_EQ(quantize::steps_at(quantize::Divider<V>(scale)(v), scale, V(-128), V(127)).v, quantize::steps(v, scale, V(-128), V(127)).v) << x << " / " << s;
      EXPECT_EQ(quantize::Stepper<V>(scale, V(-128), V(127))(v).v, quantize::steps(v, scale, V(-128), V(127)).v) << x << " / " << s;
    }
}
TEST(Quantize, OneDivisionForAScaleGivesTheSameCodes) {
  check_divider<float>();
  check_divider<double>();
}

// --- dynamic
void check_dynamic(const QuantizeDynamicDescriptor& d, Layout layout = Layout::dense) {
  SCOPED_TRACE(text(describe(d), " layout ", int(layout)));
  QuantizeDescriptor s{d.dtype, d.shape, d.qdtype, d.by, d.axis, d.group_size, {}, 0, d.qmin, d.qmax};
  const DType wide = accumulator(d.dtype);
  const Tensor x = Tensor::normal(d.dtype, d.shape, 1, d.range == QuantizeRange::minmax ? 1 : 0, 2, layout);
  Tensor q(d.qdtype, d.shape, layout), scale(wide, scales_of(s)), zero(DType::i32, scales_of(s)), again(d.qdtype, d.shape, layout);
  ASSERT_OK(run_plan<QuantizeDynamic>(d, {x, q, scale, zero}));
  const size_t n = size_t(scale.numel());
  std::vector<double> lo(n, 0), hi(n, 0), scales, zeros;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const size_t k = size_t(scale_at(s, i));
    lo[k] = std::min(lo[k], x.at(i)), hi[k] = std::max(hi[k], x.at(i));
  }
  const double bottom = least(s), top = greatest(s), middle = std::ceil((bottom + top) / 2);
  for (size_t k = 0; k < n; ++k) {
    double v = d.range == QuantizeRange::absmax ? std::max(-lo[k], hi[k]) / (top - middle) : (hi[k] - lo[k]) / (top - bottom);
    v = rounded(wide, v == 0 ? 1 : v);
    scales.push_back(v);
    zeros.push_back(d.range == QuantizeRange::absmax ? middle : std::clamp(bottom - std::nearbyint(lo[k] / v), bottom, top));
  }
  EXPECT_EQ(scale.values(), scales);
  EXPECT_EQ(zero.values(), zeros);
  ASSERT_OK(run_plan<Quantize>(s, {x, scale, zero, again}));
  EXPECT_TRUE(q.same_bits(again));
  EXPECT_TRUE(q.guards_intact() && scale.guards_intact() && zero.guards_intact());
}
TEST(QuantizeDynamic, EveryWay) {
  for (DType t : kDTypesHere)
    for (DType q : {DType::i8, DType::u8})
      for (QuantizeBy by : kWays)
        for (QuantizeRange range : {QuantizeRange::absmax, QuantizeRange::minmax}) check_dynamic({t, {3, 5, 24}, q, by, 1, 8, range});
  for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (QuantizeBy by : kWays)
      for (int64_t axis : {0, 1, -1}) check_dynamic({DType::f32, {4, 7, 30}, DType::u8, by, axis, 10, QuantizeRange::minmax}, layout);
  for (QuantizeBy by : kWays) {
    check_dynamic({DType::bf16, {1, 100003}, DType::i8, by, 1, 1});
    check_dynamic({DType::f32, {500, 65}, DType::i8, by, 1, 13});
  }
  check_dynamic({.shape = {6, 50}, .range = QuantizeRange::minmax, .qmin = -8, .qmax = 7});
  check_dynamic({.shape = {6, 50}, .qmin = -127});
}
// Rows that lie on chip whole, and columns of them, beside elements that are not finite.
TEST(QuantizeDynamic, RowsAndColumnsOfAnyLength) {
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t n : {8, 40, 128, 1000, 2056, 8192, 33000})
      for (DType q : {DType::i8, DType::u8}) {
        const QuantizeDynamicDescriptor d{t, {7, n}, q};
        check_dynamic(d);
        Tensor x = Tensor::normal(t, d.shape, 1);
        for (int64_t i = 0; i < n; ++i) x.set(2 * n + i, i % 2 ? NAN : -kInfinity), x.set(3 * n + i, 0);
        x.set(0, kInfinity), x.set(n + n / 2, NAN), x.set(6 * n - 1, -kInfinity), x.set(7 * n - 1, NAN);
        Tensor y(q, d.shape), again(q, d.shape), scale(DType::f32, {7}), zero(DType::i32, {7});
        ASSERT_OK(run_plan<QuantizeDynamic>(d, {x, y, scale, zero}));
        ASSERT_OK(run_plan<Quantize>({t, d.shape, q, QuantizeBy::token}, {x, scale, zero, again}));
        EXPECT_TRUE(y.same_bits(again)) << describe(d);
        EXPECT_EQ(scale.at(2), 1);
        EXPECT_EQ(scale.at(3), 1);
        for (int64_t row : {0, 1, 5, 6}) {
          double most = 0;
          for (int64_t i = row * n; i < (row + 1) * n; ++i)
            if (std::isfinite(x.at(i))) most = std::max(most, std::fabs(x.at(i)));
          EXPECT_EQ(scale.at(row), double(float(most / 127))) << describe(d) << " row " << row;
        }
      }
    check_dynamic({t, {37, 1280}, DType::i8, QuantizeBy::group, -1, 128});
    for (const Shape& shape : {Shape{3, 520}, Shape{70, 264}, Shape{700, 1032}}) {
      const QuantizeDynamicDescriptor d{t, shape, DType::i8, QuantizeBy::channel, 1};
      check_dynamic(d);
      Tensor x = Tensor::normal(t, shape, 1);
      x.set(0, kInfinity), x.set(shape[1] + 9, NAN), x.set(x.numel() - 1, -kInfinity);
      Tensor y(DType::i8, shape), scale(DType::f32, {shape[1]});
      ASSERT_OK(run_plan<QuantizeDynamic>(d, {x, y, scale}));
      for (int64_t c : {int64_t(0), int64_t(1), int64_t(9), shape[1] - 1}) {
        double most = 0;
        for (int64_t r = 0; r < shape[0]; ++r)
          if (const double v = std::fabs(x.at(r * shape[1] + c)); std::isfinite(v)) most = std::max(most, v);
        EXPECT_EQ(scale.at(c), double(float(most / 127))) << describe(d) << " column " << c;
      }
    }
  }
}
TEST(QuantizeDynamic, RangesOfUnusualData) {
  // No finite element; infinities beside finite ones; NaN beside finite ones; below the normal range; one sign only.
  const double inf = kInfinity;
  const Tensor x(DType::f32, {5, 3}, {NAN, inf, -inf, inf, 1, -2, NAN, 0.5, 0.25, 1e-45, 0, 0, 3, 2, 1});
  Tensor q(DType::i8, {5, 3}), s(DType::f32, {5}), z(DType::i32, {5});
  ASSERT_OK(run_plan<QuantizeDynamic>({.shape = {5, 3}}, {x, q, s, z}));
  EXPECT_EQ(s.values(), (Values{1, float(2.0 / 127), float(0.5 / 127), 0x1p-126, float(3.0 / 127)}));
  EXPECT_EQ(q.values(), (Values{0, 127, -128, 127, 64, -127, 0, 127, 64, 0, 0, 0, 127, 85, 42}));
  ASSERT_OK(run_plan<QuantizeDynamic>({.shape = {5, 3}, .range = QuantizeRange::minmax}, {x, q, s, z}));
  EXPECT_EQ(z.values(), (Values{-128, 42, -128, -128, -128}));
  EXPECT_EQ(q.at(14), -128 + 85);
  const Tensor wide(DType::f64, {2}, {1.7e308, -1.7e308});
  Tensor codes(DType::u8, {2}), scale(DType::f64, {}), zero(DType::i32, {});
  ASSERT_OK(run_plan<QuantizeDynamic>({.dtype = DType::f64, .shape = {2}, .qdtype = DType::u8, .by = QuantizeBy::tensor, .range = QuantizeRange::minmax}, {wide, codes, scale, zero}));
  EXPECT_TRUE(std::isfinite(scale.at(0)));
  EXPECT_EQ(codes.values(), (Values{255, 0}));
}
TEST(Quantize, Empty) {
  for (const Shape& shape : {Shape{0}, Shape{0, 4}, Shape{3, 0}})
    for (QuantizeBy by : kWays) {
      const QuantizeDescriptor d{DType::f32, shape, DType::i8, by, 0, 2};
      const Shape scales = scales_of(d);
      Tensor x(DType::f32, shape), q(DType::i8, shape), s = Tensor::uniform(DType::f32, scales, 1, 1, 2), ds(DType::f32, scales), dz(DType::f32, scales), made(DType::f32, scales);
      EXPECT_OK(run_plan<Quantize>(d, {x, s, {}, q}));
      EXPECT_OK(run_plan<Dequantize>(d, {q, s, {}, x}));
      EXPECT_OK(run_plan<FakeQuantizeBackward>(d, {x, x, s, {}, x, ds, dz}));
      EXPECT_EQ(ds.values(), Values(size_t(ds.numel()), 0));
      EXPECT_EQ(dz.values(), Values(size_t(dz.numel()), 0));
      EXPECT_OK(run_plan<QuantizeDynamic>({DType::f32, shape, DType::i8, by, 0, 2}, {x, q, made, {}}));
      EXPECT_EQ(made.values(), Values(size_t(made.numel()), 1));
    }
}
TEST(Quantize, InPlace) {
  const QuantizeDescriptor d{.shape = {6, 70}, .by = QuantizeBy::token};
  const Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2), s = Tensor::uniform(DType::f32, {6}, 3, 0.01, 0.1);
  Tensor y(DType::f32, d.shape), dx(DType::f32, d.shape), ds(DType::f32, {6}), ds_again(DType::f32, {6});
  ASSERT_OK(run_plan<FakeQuantize>(d, {x, s, {}, y}));
  ASSERT_OK(run_plan<FakeQuantizeBackward>(d, {dy, x, s, {}, dx, ds, {}}));
  Tensor same(DType::f32, d.shape, x.values()), grad(DType::f32, d.shape, dy.values()), other(DType::f32, d.shape, x.values());
  ASSERT_OK(run_plan<FakeQuantize>(d, {same, s, {}, same}));
  EXPECT_TRUE(same.same_bits(y));
  ASSERT_OK(run_plan<FakeQuantizeBackward>(d, {grad, x, s, {}, grad, ds_again, {}}));
  EXPECT_TRUE(grad.same_bits(dx) && ds_again.same_bits(ds));
  ASSERT_OK(run_plan<FakeQuantizeBackward>(d, {dy, other, s, {}, other, ds_again, {}}));
  EXPECT_TRUE(other.same_bits(dx) && ds_again.same_bits(ds));
}
// Written past the caches, also where rows do not begin at cache lines: the bits of its halves, which are not.
TEST(Quantize, LargerThanTheCaches) {
  for (int64_t off : {0, 1}) {
    const Shape shape{3200, 2081}, half{1600, 2081};
    const Large x(DType::f32, shape), y(DType::f32, shape, off), parts(DType::f32, shape);
    ASSERT_GE(shape.numel() * 4, kPastCaches);
    const Tensor scale = Tensor::uniform(DType::f32, {3200}, 1, 0.01, 0.1);
    ASSERT_OK(run_plan<FakeQuantize>({.shape = shape, .by = QuantizeBy::token}, {x, scale, {}, y}));
    for (int64_t k : {0, 1}) {
      const auto part = [&](const TensorView& v) { return TensorView::dense(v.as<float>() + k * half.numel(), half); };
      ASSERT_OK(run_plan<FakeQuantize>({.shape = half, .by = QuantizeBy::token}, {part(x), TensorView::dense(scale.view().as<float>() + k * 1600, {1600}), {}, part(parts)}));
    }
    EXPECT_TRUE(y.same_bits(parts)) << off;
  }
}
TEST(Quantize, ContractAndRepeatedBits) {
  for (QuantizeBy by : kWays) {
    const QuantizeDescriptor d{DType::bf16, {50, 4, 96}, DType::u8, by, 1, 32};
    const Shape scales = scales_of(d);
    const Tensor x = Tensor::normal(d.dtype, d.shape, 1), dy = Tensor::normal(d.dtype, d.shape, 2), s = Tensor::uniform(DType::f32, scales, 3, 0.01, 0.1);
    const Tensor z = Tensor::integers(DType::i32, scales, 4, 0, 256), codes = Tensor::integers(DType::u8, d.shape, 5, 0, 256);
    Tensor q(DType::u8, d.shape), y(d.dtype, d.shape), dx(d.dtype, d.shape), ds(DType::f32, scales), dz(DType::f32, scales), made(DType::f32, scales), zero(DType::i32, scales);
    check_repeat_bits<Quantize>(d, {x, s, z, q});
    check_repeat_bits<Dequantize>(d, {codes, s, z, y});
    check_repeat_bits<FakeQuantize>(d, {x, s, z, y});
    check_repeat_bits<QuantizeBackward>(d, {dy, x, s, z, dx, ds, dz});
    check_repeat_bits<DequantizeBackward>(d, {dy, codes, s, z, dx, ds, dz});
    check_repeat_bits<FakeQuantizeBackward>(d, {dy, x, s, z, dx, ds, dz});
    const QuantizeDynamicDescriptor dynamic{d.dtype, d.shape, d.qdtype, by, 1, 32, QuantizeRange::minmax};
    check_repeat_bits<QuantizeDynamic>(dynamic, {x, q, made, zero});
    const QuantizeDescriptor small{DType::f32, {3, 4}, DType::i8, by, 1, 2};
    const Shape few = scales_of(small);
    const Tensor a = Tensor::normal(DType::f32, {3, 4}, 1), b = Tensor::uniform(DType::f32, few, 2, 1, 2), c = Tensor::integers(DType::i32, few, 3, 0, 3);
    const Tensor k = Tensor::integers(DType::i8, {3, 4}, 4, -5, 5);
    Tensor out(DType::i8, {3, 4}), value(DType::f32, {3, 4}), db(DType::f32, few), dc(DType::f32, few), made_zero(DType::i32, few);
    check_contract<Quantize>(small, {a, b, c, out});
    check_contract<Dequantize>(small, {k, b, c, value});
    check_contract<FakeQuantize>(small, {a, b, c, value});
    check_contract<QuantizeBackward>(small, {a, a, b, c, value, db, dc});
    check_contract<DequantizeBackward>(small, {a, k, b, c, value, db, dc});
    check_contract<FakeQuantizeBackward>(small, {a, a, b, c, value, db, dc});
    check_contract<QuantizeDynamic>({DType::f32, {3, 4}, DType::i8, by, 1, 2}, {a, out, db, made_zero});
  }
  EXPECT_TRUE(QuantizePlan::select(Stream::cpu(), {.shape = {4, 8}}, {.require_batch_invariant = true}).ok());
  EXPECT_TRUE(QuantizeDynamicPlan::select(Stream::cpu(), {.shape = {4, 8}}, {.require_batch_invariant = true}).ok());
  EXPECT_FALSE(QuantizeDynamicPlan::select(Stream::cpu(), {.shape = {4, 8}, .by = QuantizeBy::tensor}, {.require_batch_invariant = true}).ok());
}
TEST(Quantize, TokensDoNotDependOnTheBatch) {
  const Tensor row = Tensor::normal(DType::bf16, {1, 300}, 1);
  std::vector<uint8_t> first;
  for (int64_t rows : {1, 7, 400}) {
    Tensor x = Tensor::normal(DType::bf16, {rows, 300}, uint64_t(rows)), q(DType::i8, {rows, 300}), s(DType::f32, {rows});
    for (int64_t i = 0; i < 300; ++i) x.set((rows - 1) * 300 + i, row.at(i));
    ASSERT_OK(run_plan<QuantizeDynamic>({.dtype = DType::bf16, .shape = {rows, 300}}, {x, q, s, {}}));
    std::vector<uint8_t> now = q.element_bytes();
    now.erase(now.begin(), now.end() - 300);
    if (first.empty()) first = now;
    EXPECT_TRUE(now == first) << rows;
  }
}
TEST(Quantize, Refusals) {
  const auto refused = [](QuantizeDescriptor d, Code code, std::initializer_list<std::string_view> fragments) {
    expect_refused(QuantizePlan::select(Stream::cpu(), d).status(), code, fragments);
    expect_refused(DequantizeBackwardPlan::select(Stream::cpu(), d).status(), code, fragments);
  };
  for (DType q : {DType::i16, DType::u16, DType::i32, DType::f32, DType::i4, DType::boolean})
    refused({.shape = {4}, .qdtype = q}, Code::invalid_problem, {"qdtype", name(q), "i8 and u8"});
  refused({.dtype = DType::i32, .shape = {4}}, Code::unsupported, {"no i32"});
  refused({.shape = {2, 3}, .by = QuantizeBy::channel, .axis = 2}, Code::invalid_problem, {"axis 2", "[-2, 2)"});
  refused({.shape = {2, 7}, .by = QuantizeBy::group, .group_size = 2}, Code::invalid_problem, {"group_size 2", "[2, 7]"});
  refused({.shape = {2, 8}, .by = QuantizeBy::group}, Code::invalid_problem, {"group_size 0"});
  refused({.shape = {1, 1, 1, 1, 1, 1, 1, 8}, .by = QuantizeBy::group, .group_size = 2}, Code::invalid_problem, {"by group", "rank 1 to 7"});
  refused({.shape = {}, .by = QuantizeBy::token}, Code::invalid_problem, {"by token"});
  refused({.shape = {2}, .zero_point = 128}, Code::invalid_problem, {"zero_point 128", "[-128, 127]"});
  refused({.shape = {2}, .qmin = -200}, Code::invalid_problem, {"qmin -200", "[-128, 127]"});
  refused({.shape = {2}, .qmin = 5, .qmax = 5}, Code::invalid_problem, {"qmin 5", "qmax 5"});
  refused({.shape = {2}, .by = QuantizeBy::token, .scale = 0.5}, Code::invalid_problem, {"scale 0.5", "by = tensor"});
  expect_refused(QuantizeDynamicPlan::select(Stream::cpu(), {.shape = {2}, .qmin = 0, .qmax = 1}).status(), Code::invalid_problem, {"absmax", "[0, 1]"});

  const Tensor x = Tensor::normal(DType::f32, {3}, 1), s(DType::f32, {}, {0.5}), z(DType::i32, {}, {1});
  Tensor q(DType::i8, {3}), y(DType::f32, {3}), ds(DType::f32, {});
  expect_refused(run_plan<Quantize>({.shape = {3}}, {x, {}, {}, q}), Code::invalid_problem, {"scale is missing"});
  expect_refused(run_plan<Quantize>({.shape = {3}, .scale = 0.5}, {x, s, {}, q}), Code::invalid_problem, {"scale is given twice"});
  expect_refused(run_plan<Quantize>({.shape = {3}, .zero_point = 2}, {x, s, z, q}), Code::invalid_problem, {"zero_point is given twice"});
  expect_refused(run_plan<DequantizeBackward>({.shape = {3}}, {x, {}, s, {}, y, ds, {}}), Code::invalid_problem, {"dscale", "x"});
  expect_refused(run_plan<QuantizeDynamic>({.shape = {3}, .by = QuantizeBy::tensor, .range = QuantizeRange::minmax}, {x, q, ds, {}}), Code::invalid_problem, {"zero_point is missing"});
}

}  // namespace
}  // namespace baracuda
