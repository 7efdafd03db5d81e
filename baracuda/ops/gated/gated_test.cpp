#include "baracuda/ops/gated/gated.hpp"
#include <cmath>
#include "baracuda/host/gathers.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/host/half_table.hpp"
#include "baracuda/ops/elementwise/elementwise_dual.hpp"
#include "baracuda/ops/gated/gated_math.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: libm in double, from the definition.
double act(GatedKind kind, double x) {
  switch (kind) {
    case GatedKind::swiglu: return x / (1 + std::exp(-x));
    case GatedKind::geglu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case GatedKind::geglu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GatedKind::reglu: return std::isnan(x) ? x : x > 0 ? x : 0;
    case GatedKind::glu: return 1 / (1 + std::exp(-x));
    case GatedKind::swiglu_clamped: {
      const double g = x > 7 ? 7 : x;
      return g / (1 + std::exp(-1.702 * g));
    }
  }
  return NAN;
}
double slope(GatedKind kind, double x) {
  const double s = 1 / (1 + std::exp(-x));
  switch (kind) {
    case GatedKind::swiglu: return s * (1 + x * (1 - s));
    case GatedKind::geglu: return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case GatedKind::geglu_tanh: {
      const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case GatedKind::reglu: return x > 0;
    case GatedKind::glu: return s * (1 - s);
    case GatedKind::swiglu_clamped: {
      const double q = 1 / (1 + std::exp(-1.702 * x));
      return x > 7 ? 0 : q * (1 + 1.702 * x * (1 - q));
    }
  }
  return NAN;
}
double up_of(GatedKind kind, double u) { return kind == GatedKind::swiglu_clamped ? (u > 7 ? 7 : u < -7 ? -7 : u) + 1 : u; }
double up_slope(GatedKind kind, double u) { return kind == GatedKind::swiglu_clamped ? std::fabs(u) <= 7 : 1; }
struct Case { GatedKind kind; DType dtype; Shape shape; Layout layout; };
void check_values(const Case& c) {
  SCOPED_TRACE(text(enum_name(c.kind), " ", c.dtype, " ", c.shape, " layout ", int(c.layout)));
  const GatedDescriptor d{c.kind, c.dtype, c.shape};
  const Tensor gate = Tensor::normal(c.dtype, c.shape, 1, 0, 3, c.layout), up = Tensor::normal(c.dtype, c.shape, 2, 0, c.kind == GatedKind::swiglu_clamped ? 5 : 1, c.layout),
               dy = Tensor::normal(c.dtype, c.shape, 3);
  Tensor y(c.dtype, c.shape, c.layout), dgate(c.dtype, c.shape, c.layout), dup(c.dtype, c.shape);
  ASSERT_OK(run_plan<Gated>(d, {gate, up, y}));
  ASSERT_OK(run_plan<GatedBackward>(d, {dy, gate, up, dgate, dup}));
  std::vector<double> want_y, want_gate, want_up, scale_y, scale_gate, scale_up;
  for (int64_t i = 0; i < c.shape.numel(); ++i) {
    const double g = gate.at(i), u = up.at(i), e = dy.at(i);
    const double v = up_of(c.kind, u);
    want_y.push_back(act(c.kind, g) * v), scale_y.push_back(std::fabs(g * u) + std::fabs(g * v));
    want_gate.push_back(e * v * slope(c.kind, g)), scale_gate.push_back(std::fabs(e) * (std::fabs(u) + std::fabs(v)) * (1 + std::fabs(g)));
    want_up.push_back(e * act(c.kind, g) * up_slope(c.kind, u)), scale_up.push_back(std::fabs(e * g));
  }
  EXPECT_CLOSE(y, want_y, {.ulps = 1}, &scale_y);
  EXPECT_CLOSE(dgate, want_gate, {.ulps = 1}, &scale_gate);
  EXPECT_CLOSE(dup, want_up, {.ulps = 1}, &scale_up);
  EXPECT_TRUE(y.guards_intact() && dgate.guards_intact() && dup.guards_intact());
}

TEST(Gated, ValuesForEveryKindAndDtype) {
  for (int kind = 0; kind < int(enum_names(GatedKind{}).size()); ++kind)
    for (DType t : kDTypesHere) check_values({GatedKind(kind), t, {7, 301}, Layout::dense});
}
TEST(Gated, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{15}, Shape{257}, Shape{3, 5, 17}, Shape{2, 1, 255}, Shape{300, 2}, Shape{1, 40000}})
      check_values({GatedKind::swiglu, layout == Layout::reversed ? DType::bf16 : DType::f32, shape, layout});
}
TEST(Gated, BroadcastUp) {
  const Tensor gate = Tensor::normal(DType::f32, {5, 33}, 1), up = Tensor::normal(DType::f32, {33}, 2);
  TensorView wide = up;
  wide.shape = {5, 33}, wide.strides = {0, 1};
  Tensor y(DType::f32, {5, 33});
  ASSERT_OK(run_plan<Gated>({GatedKind::reglu, DType::f32, {5, 33}}, {gate, wide, y}));
  for (int64_t i = 0; i < 5 * 33; ++i) EXPECT_EQ(y.at(i), gate.at(i) > 0 ? double(float(gate.at(i)) * float(up.at(i % 33))) : 0.0 * up.at(i % 33));
}
TEST(Gated, PackedGateAndUp) {  // one [rows, 2 n] tensor as two views
  const Tensor packed = Tensor::normal(DType::bf16, {4, 2 * 70}, 9);
  TensorView gate = packed, up = packed;
  gate.shape[1] = up.shape[1] = 70;
  up.data = packed.view().as<bf16>() + 70;
  Tensor y(DType::bf16, {4, 70}), want(DType::bf16, {4, 70}), g(DType::bf16, {4, 70}), u(DType::bf16, {4, 70});
  for (int64_t i = 0; i < 4 * 70; ++i) g.set(i, packed.at(i / 70 * 140 + i % 70)), u.set(i, packed.at(i / 70 * 140 + 70 + i % 70));
  ASSERT_OK(run_plan<Gated>({GatedKind::geglu, DType::bf16, {4, 70}}, {gate, up, y}));
  ASSERT_OK(run_plan<Gated>({GatedKind::geglu, DType::bf16, {4, 70}}, {g, u, want}));
  EXPECT_TRUE(y.same_bits(want));
}
TEST(Gated, case_swiglu_extreme) {
  const std::vector<double> x = {-100, -20, 0, 20, 100, INFINITY, NAN};
  const Tensor gate(DType::f32, {7}, x), up(DType::f32, {7}, std::vector<double>(7, 1)), dy = up;
  Tensor y(DType::f32, {7}), dgate(DType::f32, {7}), dup(DType::f32, {7});
  ASSERT_OK(run_plan<Gated>({.shape = {7}}, {gate, up, y}));
  ASSERT_OK(run_plan<GatedBackward>({.shape = {7}}, {dy, gate, up, dgate, dup}));
  // At -100 sigmoid itself is subnormal: 27 units of 2^-149, known to half of one, times 100.
  const std::vector<double> near = {100 * 0x1p-149 / 0x1p-24 / 4, 0, 0, 0, 0, 0, 0};
  EXPECT_CLOSE(y, (std::vector<double>{-3.7200760e-42, -4.1223072e-8, 0, 20, 100, INFINITY, NAN}), {.ulps = 3}, &near);
  EXPECT_CLOSE(dgate, (std::vector<double>{-3.6828752e-42, -3.9161918e-8, 0.5, 1.0000000392, 1, 1, NAN}), {.ulps = 3}, &near);
}
TEST(Gated, InfiniteGates) {  // the limits of every activation and slope, for all kinds
  const Tensor gate(DType::f32, {2}, {-INFINITY, INFINITY}), one(DType::f32, {2}, {1, 1});
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(enum_name(GatedKind(kind)));
    Tensor y(DType::f32, {2}), dgate(DType::f32, {2});
    ASSERT_OK(run_plan<Gated>({GatedKind(kind), DType::f32, {2}}, {gate, one, y}));
    ASSERT_OK(run_plan<GatedBackward>({GatedKind(kind), DType::f32, {2}}, {one, gate, one, dgate, {}}));
    const bool bounded = GatedKind(kind) == GatedKind::glu;
    EXPECT_EQ(y.at(0), 0);
    EXPECT_EQ(y.at(1), bounded ? 1 : INFINITY);
    EXPECT_EQ(dgate.at(0), 0);
    EXPECT_EQ(dgate.at(1), bounded ? 0 : 1);
  }
}
TEST(Gated, case_swiglu_inplace) {  // the inputs survive unless the caller passes them as outputs
  const GatedDescriptor d{.shape = {3, 100}};
  const Tensor dy = Tensor::normal(DType::f32, d.shape, 1);
  Tensor gate = Tensor::normal(DType::f32, d.shape, 2), up = Tensor::normal(DType::f32, d.shape, 3);
  Tensor first_gate(DType::f32, d.shape), first_up(DType::f32, d.shape), again(DType::f32, d.shape), again_up(DType::f32, d.shape);
  ASSERT_OK(run_plan<GatedBackward>(d, {dy, gate, up, first_gate, first_up}));
  ASSERT_OK(run_plan<GatedBackward>(d, {dy, gate, up, again, again_up}));
  EXPECT_TRUE(first_gate.same_bits(again) && first_up.same_bits(again_up));
  ASSERT_OK(run_plan<GatedBackward>(d, {dy, gate, up, gate, up}));
  EXPECT_TRUE(gate.same_bits(first_gate) && up.same_bits(first_up));
}

template <class Act> void check_gradient(const char* name) {
  const Act a{};
  Source source(4);
  for (int i = 0; i < 1000; ++i) {
    const double g = 4 * source.normal(), u = 4 * source.normal(), dy = source.normal();
    const Dual by_gate = gated::gate(a.act(Dual(g, 1)), a.up(Dual(u))), by_up = gated::gate(a.act(Dual(g)), a.up(Dual(u, 1)));
    Dual dgate, dup;
    gated::gate_gradient(Dual(dy), a.up(Dual(u)), a.act(Dual(g)), a.slope(Dual(g)), dgate, dup);
    dup = a.up_gradient(dup, Dual(u));
    ASSERT_NEAR(dgate.v, dy * by_gate.d, 1e-13 * (1 + std::fabs(dgate.v))) << name << " at " << g;
    ASSERT_NEAR(dup.v, dy * by_up.d, 1e-13 * (1 + std::fabs(dup.v))) << name << " at " << g;
  }
}
template <class... A> void check_gradients(gated::Acts<A...>) {
  int kind = 0;
  (check_gradient<A>(enum_name(GatedKind(kind++)).data()), ...);
}
TEST(Gated, GradientsByDualNumbers) { check_gradients(gated::GatedActs{}); }

TEST(Gated, ContractAndBits) {
  for (DType t : kDTypesHere) {
    const GatedDescriptor d{GatedKind::geglu_tanh, t, {3, 20000}};
    const Tensor gate = Tensor::normal(t, d.shape, 1), up = Tensor::normal(t, d.shape, 2), dy = Tensor::normal(t, d.shape, 3);
    Tensor y(t, d.shape), dgate(t, d.shape), dup(t, d.shape);
    check_repeat_bits<Gated>(d, {gate, up, y});
    check_repeat_bits<GatedBackward>(d, {dy, gate, up, dgate, dup});
    if (t == DType::f32) {
      check_contract<Gated>(d, {gate, up, y});
      check_contract<GatedBackward>(d, {dy, gate, up, dgate, dup});
    }
  }
}
// gpt-oss: gate is cut from above, up on both sides, gradients pass at the bounds and stop beyond.
TEST(Gated, ClampedSwiglu) {
  const std::vector<double> gate{-INFINITY, -100, 3, 7, 7.5, INFINITY, NAN, 1, 1}, up{1, 1, -9, 7, 2, 3, 1, -7, NAN};
  const Tensor g(DType::f32, {9}, gate), u(DType::f32, {9}, up), dy(DType::f32, {9}, std::vector<double>(9, 1));
  for (double limit : {7.0, 2.0, double(INFINITY)}) {
    const GatedDescriptor d{GatedKind::swiglu_clamped, DType::f32, {9}, 1.5, limit};
    Tensor y(DType::f32, {9}), dgate(DType::f32, {9}), dup(DType::f32, {9});
    ASSERT_OK(run_plan<Gated>(d, {g, u, y}));
    ASSERT_OK(run_plan<GatedBackward>(d, {dy, g, u, dgate, dup}));
    std::vector<double> want, want_gate, want_up;
    for (size_t i = 0; i < 9; ++i) {
      const double c = gate[i] > limit ? limit : gate[i], s = 1 / (1 + std::exp(-1.5 * c)), v = (up[i] > limit ? limit : up[i] < -limit ? -limit : up[i]) + 1;
      const double a = std::isinf(c) && c < 0 ? 0 : c * s;
      want.push_back(a * v), want_gate.push_back(gate[i] > limit ? 0 * v : std::isinf(c) ? (c > 0) * v : v * s * (1 + 1.5 * c * (1 - s)));
      want_up.push_back(std::fabs(up[i]) > limit ? 0 : a);
    }
    SCOPED_TRACE(limit);
    EXPECT_CLOSE(y, want, {.ulps = 3});
    EXPECT_CLOSE(dgate, want_gate, {.ulps = 3});
    EXPECT_CLOSE(dup, want_up, {.ulps = 3});
  }
  const Stream s = Stream::cpu();
  expect_refused(GatedPlan::select(s, {GatedKind::glu, DType::f32, {2}, 1.0}).status(), Code::invalid_problem, {"gated", "kind glu takes no alpha"});
  expect_refused(GatedPlan::select(s, {GatedKind::reglu, DType::f32, {2}, {}, 1.0}).status(), Code::invalid_problem, {"kind reglu takes no limit"});
  expect_refused(GatedPlan::select(s, {GatedKind::swiglu_clamped, DType::f32, {2}, {}, 0.0}).status(), Code::invalid_problem, {"limit is 0"});
  expect_refused(GatedPlan::select(s, {GatedKind::swiglu_clamped, DType::f32, {2}, double(NAN)}).status(), Code::invalid_problem, {"alpha is nan", "finite"});
}
TEST(Gated, RefusesDescriptors) {
  expect_refused(GatedPlan::select(Stream::cpu(), {GatedKind(9), DType::f32, {2}}).status(), Code::invalid_problem, {"gated", "kind 9"});
  expect_refused(GatedPlan::select(Stream::cpu(), {GatedKind::glu, DType::i32, {2}}).status(), Code::unsupported,
                 {"gated.cpu.map", "no i32", "f16 bf16 f32 f64"});
  expect_refused(GatedPlan::select(Stream::cpu(), {GatedKind::glu, DType::f32, {2, -1}}).status(), Code::invalid_problem, {"shape", "[2, -1]"});
  expect_refused(GatedPlan::select(Stream::cpu(), {GatedKind::glu, DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}).status(), Code::invalid_problem,
                 {"rank 9"});
}
TEST(Gated, SameBitsOnEveryInstructionSet) {
  const GatedDescriptor d{GatedKind::geglu, DType::f32, {4, 777}};
  const Tensor gate = Tensor::normal(DType::f32, d.shape, 1, 0, 4), up = Tensor::normal(DType::f32, d.shape, 2);
  Tensor want(DType::f32, d.shape);
  const Isa best = isa();
  limit_isa(Isa::portable);
  ASSERT_OK(run_plan<Gated>(d, {gate, up, want}));
  for (Isa set : {Isa::avx2, Isa::avx512}) {
    limit_isa(set);
    Tensor y(DType::f32, d.shape);
    ASSERT_OK(run_plan<Gated>(d, {gate, up, y}));
    EXPECT_TRUE(y.same_bits(want)) << name(set);
  }
  limit_isa(best);
}

TEST(Gated, case_geglu_tail) {  // x Phi(x) keeps its digits where 1 + erf has none left
  std::vector<double> x;
  for (int i = 0; i < 256; ++i) x.push_back(double(float(-2 - i * (10.5 / 256))));
  for (GatedKind kind : {GatedKind::geglu, GatedKind::swiglu, GatedKind::glu}) {
    const GatedDescriptor d{kind, DType::f32, {256}};
    const Tensor gate(DType::f32, d.shape, x), one(DType::f32, d.shape, std::vector<double>(256, 1));
    Tensor y(DType::f32, d.shape), dgate(DType::f32, d.shape);
    ASSERT_OK(run_plan<Gated>(d, {gate, one, y}));
    ASSERT_OK(run_plan<GatedBackward>(d, {one, gate, one, dgate, {}}));
    std::vector<double> want, want_slope;
    for (double v : x) want.push_back(act(kind, v)), want_slope.push_back(slope(kind, v));
    SCOPED_TRACE(enum_name(kind));
    EXPECT_CLOSE(y, want, {.ulps = 3});
    EXPECT_CLOSE(dgate, want_slope, {.ulps = 4});
  }
}
// Large half tensors look results up: the same bits as small ones, which compute them, for every half.
TEST(Gated, TablesGiveTheSameBits) {
  for (bool gathers : {false, true}) for (DType t : {DType::f16, DType::bf16})
    for (int kind = 0; kind < int(enum_names(GatedKind{}).size()); ++kind) {
      limit_gathers(gathers);
      const Shape few{kHalves}, many{kTableFrom + 3};
      Tensor gate(t, few), up = Tensor::normal(t, few, 1), dy = Tensor::normal(t, few, 2), y(t, few), dgate(t, few), dup(t, few);
      for (int64_t i = 0; i < kHalves; ++i) gate.view().as<uint16_t>()[i] = uint16_t(i);
      ASSERT_OK(run_plan<Gated>({GatedKind(kind), t, few}, {gate, up, y}));
      ASSERT_OK(run_plan<GatedBackward>({GatedKind(kind), t, few}, {dy, gate, up, dgate, dup}));
      std::vector<uint16_t> in[3], out[3];
      for (auto& v : in) v.resize(size_t(many[0]));
      for (auto& v : out) v.resize(size_t(many[0]));
      const Tensor* from[3] = {&gate, &up, &dy};
      for (int k = 0; k < 3; ++k)
        for (size_t i = 0; i < in[k].size(); ++i) in[k][i] = from[k]->view().as<uint16_t>()[i % kHalves];
      auto view = [&](std::vector<uint16_t>& v) { return TensorView::dense(v.data(), t, many); };
      ASSERT_OK(run_plan<Gated>({GatedKind(kind), t, many}, {view(in[0]), view(in[1]), view(out[0])}));
      ASSERT_OK(run_plan<GatedBackward>({GatedKind(kind), t, many}, {view(in[2]), view(in[0]), view(in[1]), view(out[1]), view(out[2])}));
      const Tensor* want[3] = {&y, &dgate, &dup};
      for (int k = 0; k < 3; ++k)
        for (size_t i = 0; i < out[k].size(); ++i)
          ASSERT_EQ(out[k][i], want[k]->view().as<uint16_t>()[i % kHalves]) << enum_name(GatedKind(kind)) << " " << name(t) << " output " << k << " of half " << i % kHalves;
    }
}
TEST(Gated, LargerThanTheCaches) {
  for (GatedKind kind : {GatedKind::reglu, GatedKind::swiglu}) for (DType t : {DType::f32, DType::bf16}) {  // bf16 swiglu goes by the tables
    const Shape shape{t == DType::f32 ? 6500001 : 13000001};
    Large dy(t, shape), gate(t, shape), up(t, shape), y(t, shape), off(t, shape, 1), dgate(t, shape), dup(t, shape);
    EXPECT_TRUE(past_caches(y, gate.view().data));
    ASSERT_OK(run_plan<Gated>({kind, t, shape}, {gate, up, y}));
    ASSERT_OK(run_plan<Gated>({kind, t, shape}, {gate, up, off}));
    EXPECT_TRUE(y.same_bits(off)) << name(t);
    ASSERT_OK(run_plan<GatedBackward>({kind, t, shape}, {dy, gate, up, dgate, dup}));
    ASSERT_OK(run_plan<GatedBackward>({kind, t, shape}, {dy, gate, up, off, {}}));
    EXPECT_TRUE(dgate.same_bits(off)) << name(t);
    ASSERT_OK(run_plan<GatedBackward>({kind, t, shape}, {dy, gate, up, {}, off}));
    EXPECT_TRUE(dup.same_bits(off)) << name(t);
  }
}

}  // namespace
}  // namespace baracuda
