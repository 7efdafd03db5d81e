#include "baracuda/ops/norm/group_norm.hpp"
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/norm/layer_norm.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: plain loops in long double over [N, C, S]. A mean is right to a rounding of the spread, so every xhat has an error of
// that order, whatever its own size.
struct Oracle { std::vector<double> y, mean, rstd, dx, dweight, dbias, y_scale, dx_scale, dweight_scale, dbias_scale; };
Oracle oracle(const GroupNormDescriptor& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor* dy) {
  const int64_t samples = d.shape[0], channels = d.shape[1], span = d.shape.product(2, d.shape.rank), each = channels / d.groups;
  const size_t size = size_t(d.shape.numel());
  Oracle o;
  for (auto* v : {&o.y, &o.y_scale, &o.dx, &o.dx_scale}) v->resize(size);
  for (auto* v : {&o.dweight, &o.dbias, &o.dweight_scale, &o.dbias_scale}) v->assign(size_t(channels), 0);
  using Real = long double;
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t g = 0; g < d.groups; ++g) {
      std::vector<int64_t> at;  // the elements of the group
      for (int64_t c = g * each; c < (g + 1) * each; ++c)
        for (int64_t i = 0; i < span; ++i) at.push_back((s * channels + c) * span + i);
      const Real n = Real(at.size());
      auto channel = [&](int64_t i) { return size_t(i / span % channels); };
      auto w = [&](int64_t i) -> Real { return weight.numel() && weight.view().data ? weight.at(int64_t(channel(i))) : 1; };
      const Real first = at.empty() ? 0 : x.at(at[0]);
      Real mean = 0, squares = 0, g_mean = 0, dot = 0, scale = 0;
      for (int64_t i : at) mean += (x.at(i) - first) / n;  // from an element: whole, it would be rounded where it is large
      auto from_mean = [&](int64_t i) { return (x.at(i) - first) - mean; };
      for (int64_t i : at) squares += from_mean(i) * from_mean(i) / n;
      const Real rstd = 1 / std::sqrt(squares + Real(d.eps));
      o.mean.push_back(at.empty() ? NAN : double(first + mean)), o.rstd.push_back(at.empty() ? NAN : double(rstd));
      for (int64_t i : at) {
        const Real xhat = from_mean(i) * rstd, b = bias.numel() && bias.view().data ? bias.at(int64_t(channel(i))) : 0;
        o.y[size_t(i)] = double(xhat * w(i) + b), o.y_scale[size_t(i)] = double((1 + std::fabs(xhat)) * std::fabs(w(i)) + std::fabs(b));
        if (!dy) continue;
        const Real e = dy->at(i);
        g_mean += e * w(i) / n, dot += e * w(i) * xhat / n, scale += std::fabs(e * w(i)) * (1 + std::fabs(xhat)) / n;
        o.dweight[channel(i)] += double(e * xhat), o.dweight_scale[channel(i)] += double(std::fabs(e) * (1 + std::fabs(xhat)));
        o.dbias[channel(i)] += double(e), o.dbias_scale[channel(i)] += double(std::fabs(e));
      }
      for (int64_t i : at) {
        if (!dy) break;
        const Real xhat = from_mean(i) * rstd, e = dy->at(i) * w(i);
        o.dx[size_t(i)] = double(rstd * (e - g_mean - xhat * dot));
        o.dx_scale[size_t(i)] = double(rstd * (std::fabs(e) + (1 + std::fabs(xhat)) * scale));
      }
    }
  return o;
}

struct Case {
  GroupNormDescriptor d;
  Layout layout = Layout::dense;
  bool weight = true, bias = true;
  double mean = 0.3, std = 2;
};
void check_values(const Case& c) {
  const GroupNormDescriptor& d = c.d;
  SCOPED_TRACE(text(describe(d), " weight ", c.weight, " bias ", c.bias, " layout ", int(c.layout)));
  const DType t = d.dtype, wt = d.weight_dtype.value_or(t), acc = accumulator(t);
  const Shape channels = {d.shape[1]}, statistics = {d.shape[0], d.groups};
  const double n = double(d.shape.numel()) / double(std::max<int64_t>(1, d.shape[0] * d.groups));
  const Layout vector = c.layout == Layout::dense ? Layout::dense : Layout::every_other;
  const Tensor x = Tensor::normal(t, d.shape, 1, c.mean, c.std, c.layout), dy = Tensor::normal(t, d.shape, 2, 0, 1, c.layout);
  const Tensor weight = c.weight ? Tensor::normal(wt, channels, 3, 1, 0.5, vector) : Tensor(), bias = c.bias ? Tensor::normal(wt, channels, 4, 0, 1, vector) : Tensor();
  Tensor y(t, d.shape, c.layout), mean(acc, statistics, vector), rstd(acc, statistics), dx(t, d.shape, c.layout);
  Tensor dweight(wt, channels, vector), dbias(wt, channels, vector);
  ASSERT_OK(run_plan<GroupNorm>(d, {x, weight, bias, y, mean, rstd}));
  const Oracle o = oracle(d, x, weight, bias, &dy);
  EXPECT_CLOSE(mean, o.mean, {.ulps = 1, .terms = n, .condition = c.std});
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1, .terms = n});
  EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = n}, &o.y_scale);
  EXPECT_TRUE(y.guards_intact() && mean.guards_intact() && rstd.guards_intact());
  for (bool saved : {true, false}) {
    dx.poison(), dweight.poison(), dbias.poison();
    ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, weight, saved ? mean.view() : TensorView(), saved ? rstd.view() : TensorView(), dx, dweight, dbias}));
    EXPECT_CLOSE(dx, o.dx, {.ulps = 1, .terms = n}, &o.dx_scale);
    EXPECT_CLOSE(dweight, o.dweight, {.ulps = 1, .terms = n * double(d.shape[0])}, &o.dweight_scale);
    EXPECT_CLOSE(dbias, o.dbias, {.ulps = 1, .terms = n * double(d.shape[0])}, &o.dbias_scale);
    EXPECT_TRUE(dx.guards_intact() && dweight.guards_intact() && dbias.guards_intact());
  }
}

TEST(GroupNorm, ValuesForEveryDtype) {
  for (DType t : kDTypesHere)
    for (bool weight : {false, true})
      for (bool bias : {false, true}) check_values({{.dtype = t, .shape = {3, 6, 5, 7}, .groups = 3}, Layout::dense, weight, bias});
  for (DType t : kDTypesHere) check_values({{.dtype = t, .shape = {2, 4, 33}, .groups = 2, .weight_dtype = DType::f32}});
}
TEST(GroupNorm, ShapesGroupsAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (DType t : {DType::f32, DType::bf16}) {
      check_values({{.dtype = t, .shape = {3, 4}, .groups = 2}, layout});
      check_values({{.dtype = t, .shape = {2, 6, 1}, .groups = 6}, layout});  // one element
      check_values({{.dtype = t, .shape = {2, 6, 17}, .groups = 1}, layout});
      check_values({{.dtype = t, .shape = {2, 3, 4, 5, 3}, .groups = 3}, layout});
      check_values({{.dtype = t, .shape = {1, 8, 3, 129}, .groups = 4}, layout});
    }
  check_values({{.shape = {40, 64, 3}, .groups = 32}});
  check_values({{.dtype = DType::bf16, .shape = {2, 4, 65, 128}, .groups = 2}});             // several chunks, cut within channels
  check_values({{.dtype = DType::f16, .shape = {2, 2, 3, 2731}, .groups = 1}, Layout::padded});
  check_values({{.dtype = DType::f64, .shape = {2, 3, 5000}, .groups = 3}});
}
// [N, C, H, W] whose channels lie next to one another.
TEST(GroupNorm, ChannelsLast) {
  const GroupNormDescriptor d{.shape = {2, 6, 4, 9}, .groups = 3};
  const Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2), w = Tensor::normal(DType::f32, {6}, 3);
  auto last = [&](const Tensor& memory) {  // memory is [N, H, W, C]
    TensorView v = memory;
    v.shape = d.shape, v.strides = {4 * 9 * 6, 1, 9 * 6, 6};
    return v;
  };
  auto turned = [&](const Tensor& from) {
    Tensor to(DType::f32, {2, 4, 9, 6});
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t c = 0; c < 6; ++c)
        for (int64_t s = 0; s < 36; ++s) to.set((n * 36 + s) * 6 + c, from.at((n * 6 + c) * 36 + s));
    return to;
  };
  Tensor y(DType::f32, d.shape), y_last(DType::f32, {2, 4, 9, 6}), dx(DType::f32, d.shape), dx_last(DType::f32, {2, 4, 9, 6}), dw(DType::f32, {6}), dw_last(DType::f32, {6});
  const Tensor x_last = turned(x), dy_last = turned(dy);
  ASSERT_OK(run_plan<GroupNorm>(d, {x, w, {}, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNorm>(d, {last(x_last), w, {}, last(y_last), {}, {}}));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, w, {}, {}, dx, dw, {}}));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {last(dy_last), last(x_last), w, {}, {}, last(dx_last), dw_last, {}}));
  EXPECT_TRUE(turned(y).same_bits(y_last) && turned(dx).same_bits(dx_last) && dw.same_bits(dw_last));
  EXPECT_TRUE(y_last.guards_intact() && dx_last.guards_intact());
}
TEST(GroupNorm, BroadcastInput) {
  const GroupNormDescriptor d{.shape = {3, 4, 10}, .groups = 2};
  const Tensor one = Tensor::normal(DType::f32, {4, 1}, 1);
  TensorView wide = one;
  wide.shape = d.shape, wide.strides = {0, 1, 0};
  Tensor whole(DType::f32, d.shape), y(DType::f32, d.shape), want(DType::f32, d.shape);
  for (int64_t i = 0; i < 120; ++i) whole.set(i, one.at(i / 10 % 4));
  ASSERT_OK(run_plan<GroupNorm>(d, {wide, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNorm>(d, {whole, {}, {}, want, {}, {}}));
  EXPECT_TRUE(y.same_bits(want));
}
TEST(GroupNorm, OneGroupIsALayerNorm) {  // groups = 1 without weights, bit for bit; groups = C is the norm of every channel
  for (int64_t groups : {int64_t(1), int64_t(6)}) {
    const GroupNormDescriptor d{.shape = {4, 6, 5, 41}, .groups = groups};
    const Tensor x = Tensor::normal(DType::f32, d.shape, 1, 3), dy = Tensor::normal(DType::f32, d.shape, 2);
    Tensor y(DType::f32, d.shape), want(DType::f32, d.shape), mean(DType::f32, {4, groups}), rstd(DType::f32, {4, groups});
    ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, y, mean, rstd}));
    ASSERT_OK(run_plan<LayerNorm>({.shape = d.shape, .axes = groups == 1 ? 3 : 2}, {x, {}, {}, want, {}, {}}));
    if (on_cuda()) EXPECT_CLOSE(y, want.values(), {.dtype = DType::f32, .terms = 6 * 5 * 41, .condition = 8});  // there in another order
    else EXPECT_TRUE(y.same_bits(want));
  }
}
TEST(GroupNorm, LargeMeanCostsNothing) {
  check_values({.d = {.dtype = DType::f32, .shape = {3, 4, 2500}, .groups = 2}, .mean = 1e4, .std = 1});
  check_values({.d = {.dtype = DType::f64, .shape = {3, 4, 2500}, .groups = 2}, .mean = 1e12, .std = 1});
}
TEST(GroupNorm, ChannelsFarFromOneAnother) {  // every chunk of a group has a mean of its own
  const GroupNormDescriptor d{.shape = {1, 4, 5000}, .groups = 1};
  Tensor x = Tensor::normal(DType::f32, d.shape, 1), y(DType::f32, d.shape), mean(DType::f32, {1, 1}), rstd(DType::f32, {1, 1});
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, x.at(i) + 1000.0 * double(i / 5000));
  ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, y, mean, rstd}));
  const Oracle o = oracle(d, x, {}, {}, nullptr);
  EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = 20000}, &o.y_scale);
  EXPECT_CLOSE(rstd, o.rstd, {.ulps = 1, .terms = 1});
}
TEST(GroupNorm, VarianceOutOfRange) {
  struct { DType t; double size; } const cases[] = {{DType::f32, 1e30}, {DType::f32, 1e-30}, {DType::f64, 1e200}, {DType::f64, 1e-200}, {DType::f16, 1e4}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(name(c.t), " ", c.size));
    const GroupNormDescriptor d{.dtype = c.t, .shape = {2, 4, 3000}, .groups = 2, .eps = 0};
    const Tensor x = Tensor::normal(c.t, d.shape, 1, 0, c.size);
    Tensor y(c.t, d.shape);
    ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, y, {}, {}}));
    const Oracle o = oracle(d, x, {}, {}, nullptr);
    EXPECT_CLOSE(y, o.y, {.ulps = 1, .terms = 6000}, &o.y_scale);
  }
}
TEST(GroupNorm, ConstantGroupsNaNAndInfinity) {  // a group is NaN as a whole and its neighbours are not
  const GroupNormDescriptor d{.shape = {2, 4, 20}, .groups = 2};
  Tensor x(DType::f32, d.shape, std::vector<double>(160, 3.3)), y(DType::f32, d.shape), dx(DType::f32, d.shape);
  const Tensor bias = Tensor::normal(DType::f32, {4}, 1), dy = Tensor::normal(DType::f32, d.shape, 2);
  x.set(50, NAN), x.set(90, INFINITY);
  ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, bias, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, {}, {}, {}, dx, {}, {}}));
  for (int i = 0; i < 160; ++i) {
    const bool lost = i >= 40 && i < 120;
    EXPECT_EQ(std::isnan(dx.at(i)), lost) << i;
    if (lost) EXPECT_TRUE(std::isnan(y.at(i))) << i;
    else EXPECT_EQ(y.at(i), bias.at(i / 20 % 4)) << i;
  }
}
TEST(GroupNorm, EmptyShapes) {
  Tensor dweight(DType::f32, {4}), dbias(DType::f32, {4});
  for (const Shape& shape : {Shape{0, 4, 5}, Shape{3, 4, 0}}) {
    Tensor x(DType::f32, shape), y(DType::f32, shape), mean(DType::f32, {shape[0], 2}), rstd(DType::f32, {shape[0], 2});
    ASSERT_OK(run_plan<GroupNorm>({.shape = shape, .groups = 2}, {x, {}, {}, y, mean, rstd}));
    for (int64_t i = 0; i < mean.numel(); ++i) EXPECT_TRUE(std::isnan(mean.at(i)) && std::isnan(rstd.at(i)));
    dweight.poison(), dbias.poison();
    ASSERT_OK(run_plan<GroupNormBackward>({.shape = shape, .groups = 2}, {x, x, {}, {}, {}, y, dweight, dbias}));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(dweight.at(i) == 0 && dbias.at(i) == 0);
  }
  Tensor none(DType::f32, {2, 0, 3}), out(DType::f32, {2, 0, 3});
  ASSERT_OK(run_plan<GroupNorm>({.shape = {2, 0, 3}, .groups = 2}, {none, {}, {}, out, {}, {}}));
}
TEST(GroupNorm, InPlaceAndSets) {
  for (DType t : {DType::f32, DType::f16})
    for (Layout layout : {Layout::dense, Layout::transposed}) {
      const GroupNormDescriptor d{.dtype = t, .shape = {3, 4, 5, 50}, .groups = 2};
      auto input = [&](uint64_t seed) { return Tensor::normal(t, d.shape, seed, 0, 1, layout); };
      const Tensor x = input(1), dy = input(2), w = Tensor::normal(t, {4}, 3);
      Tensor y(t, d.shape, layout), dx(t, d.shape, layout), here = input(1), grad = input(2), other_dx = input(1);
      ASSERT_OK(run_plan<GroupNorm>(d, {x, w, {}, y, {}, {}}));
      ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, w, {}, {}, dx, {}, {}}));
      ASSERT_OK(run_plan<GroupNormBackward>(d, {grad, here, w, {}, {}, grad, {}, {}}));
      ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, other_dx, w, {}, {}, other_dx, {}, {}}));
      ASSERT_OK(run_plan<GroupNorm>(d, {here, w, {}, here, {}, {}}));
      EXPECT_TRUE(grad.same_bits(dx) && other_dx.same_bits(dx) && here.same_bits(y));
      const Isa before = isa();
      for (Isa set : {Isa::portable, Isa::avx2}) {
        limit_isa(set);
        Tensor again(t, d.shape, layout), again_dx(t, d.shape, layout);
        EXPECT_OK(run_plan<GroupNorm>(d, {x, w, {}, again, {}, {}}));
        EXPECT_OK(run_plan<GroupNormBackward>(d, {dy, x, w, {}, {}, again_dx, {}, {}}));
        EXPECT_TRUE(again.same_bits(y) && again_dx.same_bits(dx)) << name(set);
      }
      limit_isa(before);
    }
}
TEST(GroupNorm, SamplesDoNotDependOnTheBatch) {
  const GroupNormDescriptor d{.dtype = DType::bf16, .shape = {5, 6, 333}, .groups = 3};
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), dy = Tensor::normal(DType::bf16, d.shape, 2);
  Tensor y(DType::bf16, d.shape), dx(DType::bf16, d.shape), one(DType::bf16, {1, 6, 333}), one_dx(DType::bf16, {1, 6, 333});
  ASSERT_TRUE(GroupNormPlan::select(Stream::cpu(), d)->precision_guarantee().batch_invariant);
  ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, {}, {}, {}, dx, {}, {}}));
  GroupNormDescriptor single = d;
  single.shape[0] = 1;
  for (int64_t s = 0; s < 5; ++s) {
    auto sample = [&](TensorView v) { return v.shape[0] = 1, v.data = v.as<uint16_t>() + s * v.strides[0], v; };
    ASSERT_OK(run_plan<GroupNorm>(single, {sample(x), {}, {}, one, {}, {}}));
    ASSERT_OK(run_plan<GroupNormBackward>(single, {sample(dy), sample(x), {}, {}, {}, one_dx, {}, {}}));
    for (int64_t i = 0; i < one.numel(); ++i) ASSERT_TRUE(one.at(i) == y.at(s * one.numel() + i) && one_dx.at(i) == dx.at(s * one.numel() + i)) << s << " " << i;
  }
}
TEST(GroupNorm, DirectionalDerivative) {
  for (const Shape& shape : {Shape{3, 4, 5, 2}, Shape{2, 4}}) {
    const GroupNormDescriptor d{.dtype = DType::f64, .shape = shape, .groups = 2};
    Tensor x = Tensor::normal(DType::f64, shape, 1), w = Tensor::normal(DType::f64, {4}, 2), b = Tensor::normal(DType::f64, {4}, 3);
    const Tensor dy = Tensor::normal(DType::f64, shape, 4);
    Tensor dx(DType::f64, shape), dw(DType::f64, {4}), db(DType::f64, {4});
    ASSERT_OK(run_plan<GroupNormBackward>(d, {dy, x, w, {}, {}, dx, dw, db}));
    const auto loss = [&] {
      Tensor y(DType::f64, shape);
      EXPECT_OK(run_plan<GroupNorm>(d, {x, w, b, y, {}, {}}));
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += dy.at(i) * y.at(i);
      return sum;
    };
    check_directional(loss, x, dx, 5, 1e-6, 1e-4);
    check_directional(loss, w, dw, 6);
    check_directional(loss, b, db, 7);
  }
}
TEST(GroupNorm, LargerThanTheCaches) {
  const GroupNormDescriptor d{.shape = {4, 32, 1024, 52}, .groups = 8};
  Large x(DType::f32, d.shape), y(DType::f32, d.shape), off(DType::f32, d.shape, 1);
  ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNorm>(d, {x, {}, {}, off, {}, {}}));
  EXPECT_TRUE(y.same_bits(off));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {x, x, {}, {}, {}, y, {}, {}}));
  ASSERT_OK(run_plan<GroupNormBackward>(d, {x, x, {}, {}, {}, off, {}, {}}));
  EXPECT_TRUE(y.same_bits(off));
}
// Gradients of the weights without atomics: the same bits in every run.
TEST(GroupNorm, case_norm_dweight_determinism) {
  const GroupNormDescriptor d{.dtype = DType::bf16, .shape = {64, 32, 256}, .groups = 8};
  const Tensor x = Tensor::normal(DType::bf16, d.shape, 1), dy = Tensor::normal(DType::bf16, d.shape, 2);
  Tensor dx(DType::bf16, d.shape), dw(DType::bf16, {32}), db(DType::bf16, {32});
  check_repeat_bits<GroupNormBackward>(d, {dy, x, {}, {}, {}, dx, dw, db});
}
TEST(GroupNorm, case_ln_large_mean) {
  const Tensor x(DType::f32, {1, 2, 2}, {40000, 40001, 40002, 40003});
  Tensor y(DType::f32, {1, 2, 2});
  ASSERT_OK(run_plan<GroupNorm>({.shape = {1, 2, 2}}, {x, {}, {}, y, {}, {}}));
  const std::vector<double> want = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
TEST(GroupNorm, case_ln_huge) {
  const Tensor x(DType::f32, {1, 4, 1}, {1e30, -1e30, 2e30, -2e30});
  Tensor y(DType::f32, {1, 4, 1});
  ASSERT_OK(run_plan<GroupNorm>({.shape = {1, 4, 1}}, {x, {}, {}, y, {}, {}}));
  const std::vector<double> want = {0.6324555, -0.6324555, 1.2649111, -1.2649111};
  EXPECT_CLOSE(y, want, {.ulps = 2});
}
TEST(GroupNorm, ContractAndBits) {
  for (DType t : {DType::bf16, DType::f32}) {
    const GroupNormDescriptor d{.dtype = t, .shape = {25, 6, 3, 43}, .groups = 2};
    const Tensor x = Tensor::normal(t, d.shape, 1), dy = Tensor::normal(t, d.shape, 2), w = Tensor::normal(t, {6}, 3), b = Tensor::normal(t, {6}, 4);
    Tensor y(t, d.shape), mean(DType::f32, {25, 2}), rstd(DType::f32, {25, 2}), dx(t, d.shape), dw(t, {6}), db(t, {6});
    check_contract<GroupNorm>(d, {x, w, b, y, mean, rstd});
    check_repeat_bits<GroupNorm>(d, {x, w, b, y, mean, rstd});
    check_contract<GroupNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
    check_repeat_bits<GroupNormBackward>(d, {dy, x, w, mean, rstd, dx, dw, db});
  }
}
TEST(GroupNorm, Refusals) {
  auto refuse = [&](GroupNormDescriptor d, std::initializer_list<std::string_view> fragments) {
    expect_refused(GroupNormPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
    expect_refused(GroupNormBackwardPlan::select(Stream::cpu(), d).status(), Code::invalid_problem, fragments);
  };
  refuse({.shape = {5}}, {"shape"});
  refuse({.shape = {2, 6}, .groups = 0}, {"groups 0", "6 channels"});
  refuse({.shape = {2, 6}, .groups = -2}, {"groups -2"});
  refuse({.shape = {2, 6, 3}, .groups = 4}, {"groups 4", "divide the 6 channels", "[2, 6, 3]"});
  refuse({.shape = {int64_t(1) << 40, 0}, .groups = int64_t(1) << 40}, {"groups", "int64"});
  refuse({.shape = {2, 6}, .eps = -1}, {"eps -1"});
  refuse({.shape = {2, 6}, .eps = NAN}, {"eps"});
  refuse({.shape = {2, 6}, .weight_dtype = DType::f16}, {"weight_dtype f16", "f32"});
  const Tensor x = Tensor::normal(DType::f32, {4, 6}, 1), mean(DType::f32, {4, 1});
  Tensor y(DType::f32, {4, 6});
  expect_refused(run_plan<GroupNormBackward>({.shape = {4, 6}}, {x, x, {}, mean, {}, y, {}, {}}), Code::invalid_problem, {"rstd is missing"});
}

}  // namespace
}  // namespace baracuda
