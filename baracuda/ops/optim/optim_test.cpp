#include "baracuda/ops/optim/optim.hpp"
#include <cmath>
#include <deque>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

struct List {
  std::deque<Tensor> tensors;
  std::vector<TensorView> views;
  void add(Tensor t) { tensors.push_back(std::move(t)), views.push_back(tensors.back()); }
  bool same_bits(const List& o) const {
    for (size_t i = 0; i < tensors.size(); ++i) if (!tensors[i].same_bits(o.tensors[i])) return false;
    return tensors.size() == o.tensors.size();
  }
};
const std::vector<Shape> kShapes = {{3, 5}, {1}, {0, 4}, {1000}, {}, {33, 65}, {40000}, {7}};

struct Problem {
  DType dtype, grad_dtype;
  List p, g, m, v, w, v_max;
  bool masters, amsgrad;
  Problem(DType t, DType gt, bool with_masters, bool with_v_max = false, const std::vector<Shape>& shapes = kShapes)
      : dtype(t), grad_dtype(gt), masters(with_masters), amsgrad(with_v_max) {
    const DType s = t == DType::f64 ? DType::f64 : DType::f32;
    uint64_t seed = 1;
    for (const Shape& shape : shapes) {
      w.add(Tensor::normal(s, shape, ++seed));
      p.add(with_masters ? Tensor(t, shape, w.tensors.back().values()) : Tensor::normal(t, shape, seed));
      g.add(Tensor::normal(gt, shape, ++seed));
      m.add(Tensor::normal(s, shape, ++seed, 0, 0.1));
      v.add(Tensor::uniform(s, shape, ++seed, 0, 0.1));
      v_max.add(Tensor::uniform(s, shape, ++seed, 0, 0.1));
    }
  }
  AdamW::Args args() const {
    AdamW::Args a{.params = p.views, .grads = g.views, .m = m.views, .v = v.views};
    if (masters) a.masters = w.views;
    if (amsgrad) a.v_max = v_max.views;
    return a;
  }
};
double norm_of(const List& list) {
  long double s = 0;
  for (const Tensor& t : list.tensors) for (double v : t.values()) s += (long double)v * v;
  return double(std::sqrt(s));
}
bool same_state(const Problem& a, const Problem& b) { return a.p.same_bits(b.p) && a.m.same_bits(b.m) && a.v.same_bits(b.v) && a.w.same_bits(b.w) && a.v_max.same_bits(b.v_max); }

// torch.optim.AdamW from its documentation, in long double; Adam where not decoupled; amsgrad=True with v_max.
void step(const AdamWDescriptor& d, const AdamW::Args& a, long double scale, long double g, long double& p, long double& m, long double& v,
          long double* v_max = nullptr) {
  g *= d.maximize ? -scale : scale;
  if (d.decoupled) p *= 1 - (long double)a.lr * a.weight_decay;
  else g += a.weight_decay * p;
  m = a.beta1 * m + (1 - (long double)a.beta1) * g;
  v = a.beta2 * v + (1 - (long double)a.beta2) * g * g;
  if (v_max && v > *v_max) *v_max = v;
  const long double n = a.step, m_hat = m / (1 - std::pow((long double)a.beta1, n)), v_hat = (v_max ? *v_max : v) / (1 - std::pow((long double)a.beta2, n));
  p -= a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
}

TEST(AdamW, case_adamw_step) {  // 0.999 - 0.1 * 0.5 / (0.5 + 1e-8)
  for (DType t : {DType::f32, DType::f64}) {
    Tensor p(t, {1}, {1}), g(t, {1}, {0.5}), m(t, {1}, {0}), v(t, {1}, {0});
    const TensorView ps[] = {p}, gs[] = {g}, ms[] = {m}, vs[] = {v};
    ASSERT_OK(run_plan<AdamW>({t, t}, {.params = ps, .grads = gs, .m = ms, .v = vs, .step = 1, .lr = 0.1, .eps = 1e-8, .weight_decay = 0.01}));
    EXPECT_CLOSE(p, (std::vector<double>{0.899000002}), {.condition = 1});
    EXPECT_CLOSE(m, (std::vector<double>{0.05}), {});
    EXPECT_CLOSE(v, (std::vector<double>{(1 - 0.999) * 0.25}), {});
  }
}
TEST(AdamW, ValuesForEveryDtype) {
  const struct { DType t, g; bool masters; } cases[] = {{DType::f32, DType::f32, false}, {DType::f32, DType::bf16, false}, {DType::f64, DType::f64, false},
      {DType::bf16, DType::bf16, true}, {DType::bf16, DType::bf16, false}, {DType::bf16, DType::f32, true}, {DType::f16, DType::f16, true}, {DType::f16, DType::f32, false}};
  for (const auto& c : cases)
    for (int variant = 0; variant < 4; ++variant) {
      SCOPED_TRACE(text(c.t, " ", c.g, " masters ", c.masters, " variant ", variant));
      const AdamWDescriptor d{c.t, c.g, variant != 1, variant == 2};
      const bool amsgrad = variant == 3;
      Problem q(c.t, c.g, c.masters, amsgrad), old(c.t, c.g, c.masters, amsgrad);
      Tensor scale(DType::f32, {}, {0.375});
      AdamW::Args a = q.args();
      a.step = 3 + 1000 * variant, a.lr = 0.02, a.weight_decay = 0.1, a.eps = 1e-6;
      if (variant == 2) a.grad_scale = scale;
      ASSERT_OK(run_plan<AdamW>(d, a));
      for (size_t i = 0; i < q.p.tensors.size(); ++i) {
        std::vector<double> want_p, want_m, want_v, want_v_max, scale_p, scale_m;
        const double update = a.lr / (1 - std::pow(a.beta1, double(a.step)));  // what rounding in m may cost p
        for (int64_t j = 0; j < q.p.tensors[i].numel(); ++j) {
          long double p = c.masters ? old.w.tensors[i].at(j) : old.p.tensors[i].at(j), m = old.m.tensors[i].at(j), v = old.v.tensors[i].at(j), v_max = old.v_max.tensors[i].at(j);
          const double p0 = double(std::fabs(p)), m0 = double(std::fabs(m)), g = old.g.tensors[i].at(j);
          step(d, a, variant == 2 ? 0.375 : 1, g, p, m, v, amsgrad ? &v_max : nullptr);
          want_p.push_back(double(p)), want_m.push_back(double(m)), want_v.push_back(double(v)), want_v_max.push_back(double(v_max));
          scale_p.push_back(p0 + update * (m0 + std::fabs(g) + p0) / (std::sqrt(double(amsgrad ? v_max : v)) + a.eps)), scale_m.push_back(m0 + std::fabs(g));
        }
        EXPECT_CLOSE(q.m.tensors[i], want_m, {}, &scale_m);
        EXPECT_CLOSE(q.v.tensors[i], want_v, {.ulps = 4});
        EXPECT_CLOSE(q.v_max.tensors[i], want_v_max, {.ulps = 4});
        if (c.masters) {
          EXPECT_CLOSE(q.w.tensors[i], want_p, {}, &scale_p);
          for (int64_t j = 0; j < q.p.tensors[i].numel(); ++j) ASSERT_EQ(q.p.tensors[i].at(j), rounded(c.t, q.w.tensors[i].at(j)));
        } else {
          EXPECT_CLOSE(q.p.tensors[i], want_p, {}, &scale_p);
        }
        EXPECT_TRUE(q.p.tensors[i].guards_intact() && q.m.tensors[i].guards_intact() && q.v.tensors[i].guards_intact() && q.w.tensors[i].guards_intact() && q.v_max.tensors[i].guards_intact());
      }
      EXPECT_TRUE(q.g.same_bits(old.g));
    }
}
TEST(AdamW, case_adamw_states) {  // bf16 parameters with f32 m, v; step and lr on the device; found_inf
  Problem host(DType::bf16, DType::bf16, true), device(DType::bf16, DType::bf16, true), untouched(DType::bf16, DType::bf16, true);
  const AdamWDescriptor d{DType::bf16, DType::bf16};
  Tensor steps(DType::i64, {}, {0}), lr(DType::f32, {}, {0.01}), found(DType::f32, {1}, {0}), scale(DType::f32, {}, {0.5});
  for (int s = 1; s <= 3; ++s) {
    AdamW::Args a = host.args(), b = device.args();
    a.step = s, a.lr = double(0.01f), a.grad_scale = scale;
    b.step_tensor = steps, b.lr_tensor = lr, b.found_inf = found, b.grad_scale = scale, b.step = -7, b.lr = 123;
    ASSERT_OK(run_plan<AdamW>(d, a));
    ASSERT_OK(run_plan<AdamW>(d, b));
    EXPECT_TRUE(same_state(host, device));
    EXPECT_EQ(steps.at(0), s);
  }
  found.set(0, 1);
  AdamW::Args skipped = untouched.args();
  Problem fresh(DType::bf16, DType::bf16, true);
  skipped.step_tensor = steps, skipped.lr_tensor = lr, skipped.found_inf = found;
  ASSERT_OK(run_plan<AdamW>(d, skipped));
  EXPECT_TRUE(same_state(untouched, fresh));
  EXPECT_EQ(steps.at(0), 3);
}
// The gradient of Reddi, Kale and Kumar's example: large once in a while, so v falls in between and v_max must not.
TEST(AdamW, AmsgradKeepsTheLargestSecondMoment) {
  const AdamWDescriptor d{DType::f64, DType::f64};
  Tensor p(DType::f64, {2}, {0.5, 0.5}), m(DType::f64, {2}, {0, 0}), v(DType::f64, {2}, {0, 0}), v_max(DType::f64, {2}, {0, NAN});
  long double want_p = 0.5, want_m = 0, want_v = 0, want_v_max = 0;
  int fell = 0;
  for (int n = 1; n <= 40; ++n) {
    const double gradient = n % 10 == 1 ? 10.1 : -1;
    Tensor g(DType::f64, {2}, {gradient, gradient});
    const TensorView ps[] = {p}, gs[] = {g}, ms[] = {m}, vs[] = {v}, us[] = {v_max};
    const AdamW::Args a{.params = ps, .grads = gs, .m = ms, .v = vs, .step = n, .lr = 0.01, .beta2 = 0.9, .weight_decay = 0.1, .v_max = us};
    ASSERT_OK(run_plan<AdamW>(d, a));
    step(d, a, 1, gradient, want_p, want_m, want_v, &want_v_max);
    fell += want_v < want_v_max;
    const Tensor first(DType::f64, {2}, {p.at(0), v_max.at(0)});
    EXPECT_CLOSE(first, (std::vector<double>{double(want_p), double(want_v_max)}), {.ulps = 4, .terms = double(n), .condition = 10});
    EXPECT_TRUE(std::isnan(v_max.at(1)) && std::isnan(p.at(1)) && std::isfinite(v.at(1)));  // NaN stays
  }
  EXPECT_GT(fell, 20);
}
TEST(AdamW, NanReachesTheState) {
  Tensor p(DType::f32, {2}, {1, 1}), g(DType::f32, {2}, {NAN, 1}), m(DType::f32, {2}, {0, 0}), v(DType::f32, {2}, {0, 0}), v_max(DType::f32, {2}, {1, 1});
  const TensorView ps[] = {p}, gs[] = {g}, ms[] = {m}, vs[] = {v}, us[] = {v_max};
  ASSERT_OK(run_plan<AdamW>({}, {.params = ps, .grads = gs, .m = ms, .v = vs, .v_max = us}));
  EXPECT_TRUE(std::isnan(p.at(0)) && std::isnan(m.at(0)) && std::isnan(v.at(0)) && std::isnan(v_max.at(0)) && std::isfinite(p.at(1)));
  EXPECT_EQ(v_max.at(1), 1);
}
TEST(AdamW, SameBitsOnCpuAndCuda) {  // more tensors than a launch takes, lengths that end within a vector, memory that starts within one
  if (!on_cuda()) GTEST_SKIP() << "compares CUDA with the CPU";
  std::vector<Shape> shapes = kShapes;
  for (int64_t i = 0; i < 130; ++i) shapes.push_back({i * 37 % 9000});
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (bool amsgrad : {false, true}) {
      const bool masters = t == DType::bf16 || t == DType::f16;
      Problem here(t, t, masters, amsgrad, shapes), there(t, t, masters, amsgrad, shapes);
      auto step = [&](Problem& q, bool cuda) {
        AdamW::Args a = q.args();
        std::vector<TensorView> off[6];
        Tensors* roles[] = {&a.params, &a.grads, &a.m, &a.v, &a.masters, &a.v_max};
        for (int r = 0; r < 6; ++r) {
          off[r].assign(roles[r]->begin(), roles[r]->end());
          for (TensorView& v : off[r])
            if (v.shape == Shape{1000}) v.data = v.as<char>() + byte_size(v.dtype), v.shape = {999}, v.strides = {1};
          *roles[r] = off[r];
        }
        a.step = 7, a.lr = 0.03, a.weight_decay = 0.1;
        if (cuda) return run_plan<AdamW>({t, t}, a);
        return AdamWPlan::select(Stream::cpu(), {t, t})->run(Stream::cpu(), Workspace::none(), a);
      };
      ASSERT_OK(step(there, true));
      ASSERT_OK(step(here, false));
      EXPECT_TRUE(same_state(here, there)) << name(t) << " " << amsgrad;
    }
}
TEST(GlobalNorm, ManyTensors) {  // more than a launch takes; the bits do not depend on where they begin
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    List x;
    std::vector<TensorView> views, off;
    for (int64_t i = 0; i < 400; ++i) x.add(Tensor::normal(t, {i * 37 % 900 + 1}, uint64_t(i)));
    x.add(Tensor::normal(t, {70001}, 1000));
    const DType s = t == DType::f64 ? t : DType::f32;
    Tensor norm(s, {}), again(s, {});
    ASSERT_OK(run_plan<GlobalNorm>({t}, {x.views, norm}));
    EXPECT_CLOSE(norm, (std::vector<double>{norm_of(x)}), {});
    std::deque<std::vector<char>> copies;
    for (const TensorView& v : x.views) {
      const size_t size = byte_size(t), bytes = size_t(v.numel()) * size;
      copies.emplace_back(bytes + 2 * size);
      TensorView w = v;
      w.data = copies.back().data() + size;
      std::memcpy(w.data, v.data, bytes);
      off.push_back(w);
    }
    ASSERT_OK(run_plan<GlobalNorm>({t}, {off, again}));
    EXPECT_TRUE(again.same_bits(norm)) << name(t);
  }
}
TEST(AdamW, SameBitsForThreadsSplitsAndInstructionSets) {
  for (DType t : {DType::f32, DType::bf16, DType::f64}) {
    const DType g = t;
    const bool masters = t == DType::bf16, amsgrad = t != DType::f32;
    Problem want(t, g, masters, amsgrad);
    ASSERT_OK(run_plan<AdamW>({t, g}, want.args()));
    const int before = threads();
    for (int n : {1, 2, 3, 8}) {
      set_threads(n);
      Problem got(t, g, masters, amsgrad);
      ASSERT_OK(run_plan<AdamW>({t, g}, got.args()));
      EXPECT_TRUE(same_state(got, want)) << n;
    }
    set_threads(before);
    for (Isa set : {Isa::portable, Isa::avx2}) {
      limit_isa(set);
      Problem got(t, g, masters, amsgrad);
      EXPECT_OK(run_plan<AdamW>({t, g}, got.args()));
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(same_state(got, want)) << name(set) << " " << name(t);
    }
    Problem single(t, g, masters, amsgrad);  // one tensor at a time
    for (size_t i = 0; i < single.p.views.size(); ++i) {
      AdamW::Args a = single.args();
      a.params = a.params.subspan(i, 1), a.grads = a.grads.subspan(i, 1), a.m = a.m.subspan(i, 1), a.v = a.v.subspan(i, 1);
      if (masters) a.masters = a.masters.subspan(i, 1);
      if (amsgrad) a.v_max = a.v_max.subspan(i, 1);
      ASSERT_OK(run_plan<AdamW>({t, g}, a));
    }
    EXPECT_TRUE(same_state(single, want));
  }
}
TEST(AdamW, ParamsLargerThanTheCaches) {  // with masters they are written past them, from a multiple of 64 bytes on
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  const Shape shape{13000001};
  const Large g(DType::bf16, shape);
  Large on(DType::bf16, shape), off(DType::bf16, shape, 1);
  auto step = [&](const Large& params) {
    const Large m(DType::f32, shape), v(DType::f32, shape), w(DType::f32, shape);
    for (int64_t i = 0; i < shape[0]; ++i) v.view().as<float>()[i] = std::fabs(v.view().as<float>()[i]);
    const TensorView p = params, gv = g, mv = m, vv = v, wv = w;
    ASSERT_OK(run_plan<AdamW>({DType::bf16, DType::bf16}, {.params = {&p, 1}, .grads = {&gv, 1}, .m = {&mv, 1}, .v = {&vv, 1}, .masters = {&wv, 1}, .step = 3}));
    for (int64_t i = 0; i < shape[0]; i += 1 << 16) ASSERT_EQ(read_element(DType::bf16, p.as<uint16_t>() + i), rounded(DType::bf16, w.view().as<float>()[i]));
  };
  step(on), step(off);
  EXPECT_TRUE(on.same_bits(off));
}
TEST(AdamW, Refusals) {
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(AdamWPlan::select(s, {DType::i32, DType::f32}).status(), Code::unsupported, {"adamw.cpu.list", "no i32"});
  expect_refused(AdamWPlan::select(s, {DType::f32, DType::f64}).status(), Code::unsupported, {"no f64 gradients for f32 params"});
  expect_refused(AdamWPlan::select(s, {DType::f32, DType::i32}).status(), bad, {"grad_dtype i32"});
  Problem q(DType::f32, DType::f32, false), fresh(DType::f32, DType::f32, false);
  auto refused = [&](std::initializer_list<std::string_view> words, Code code, auto change) {
    AdamW::Args a = q.args();
    change(a);
    expect_refused(run_plan<AdamW>({}, a), code, words);
    EXPECT_TRUE(same_state(q, fresh));
  };
  std::vector<TensorView> list;
  Tensor other(DType::f32, {2}), wrong(DType::f64, {3, 5}), turned(DType::f32, {3, 5}, Layout::transposed), one(DType::i64, {1}, {0});
  auto with = [&](const Problem& p, size_t i, TensorView v) { list = p.g.views, list[i] = v; return Tensors(list); };
  refused({"grads has 7 tensors, expected 8"}, bad, [&](auto& a) { a.grads = a.grads.first(7); });
  refused({"grads[0]", "[2]", "15 elements", "params[0]"}, bad, [&](auto& a) { a.grads = with(q, 0, other); });
  refused({"grads[0]", "dtype f64"}, bad, [&](auto& a) { a.grads = with(q, 0, wrong); });
  refused({"grads[0]", "not dense"}, bad, [&](auto& a) { a.grads = with(q, 0, turned); });
  refused({"grads[0]", "missing"}, bad, [&](auto& a) { a.grads = with(q, 0, {}); });
  refused({"grads[0]"}, Code::misaligned_operand, [&](auto& a) { TensorView v = q.g.views[0]; v.data = v.as<char>() + 1; a.grads = with(q, 0, v); });
  if (!on_cuda()) refused({"m[0]", "cuda"}, bad, [&](auto& a) { TensorView v = q.m.views[0]; v.device = {DeviceKind::cuda, 0}; list = q.m.views, list[0] = v; a.m = list; });
  refused({"masters are for f16 and bf16"}, bad, [&](auto& a) { a.masters = q.w.views; });
  refused({"v_max has 7 tensors, expected 8"}, bad, [&](auto& a) { a.v_max = Tensors(q.v.views).first(7); });
  refused({"v_max[0]", "dtype f64", "expected f32"}, bad, [&](auto& a) { list = q.v.views, list[0] = wrong, a.v_max = list; });
  refused({"step 0"}, bad, [&](auto& a) { a.step = 0; });
  refused({"beta1 1"}, bad, [&](auto& a) { a.beta1 = 1; });
  refused({"beta2 -0.5"}, bad, [&](auto& a) { a.beta2 = -0.5; });
  refused({"lr nan"}, bad, [&](auto& a) { a.lr = NAN; });
  refused({"eps -1"}, bad, [&](auto& a) { a.eps = -1; });
  refused({"step_tensor", "expected i64"}, bad, [&](auto& a) { a.step_tensor = other; });
  refused({"lr_tensor", "1 element"}, bad, [&](auto& a) { a.lr_tensor = other; });
  refused({"found_inf", "dtype i64"}, bad, [&](auto& a) { a.found_inf = one; });
  EXPECT_OK(run_plan<AdamW>({}, {}));  // an empty list
}

TEST(GlobalNorm, ValuesAndBits) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    List x;
    uint64_t seed = 0;
    for (const Shape& shape : kShapes) x.add(Tensor::normal(t, shape, ++seed));
    const DType s = t == DType::f64 ? t : DType::f32;
    Tensor norm(s, {}), found(DType::f32, {});
    ASSERT_OK(run_plan<GlobalNorm>({t}, {x.views, norm, found}));
    EXPECT_CLOSE(norm, (std::vector<double>{norm_of(x)}), {});
    EXPECT_EQ(found.at(0), 0);
    check_repeat_bits<GlobalNorm>({t}, {x.views, norm, found});
    for (Isa set : {Isa::portable, Isa::avx2}) {
      limit_isa(set);
      Tensor again(s, {});
      EXPECT_OK(run_plan<GlobalNorm>({t}, {x.views, again}));
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(again.same_bits(norm)) << name(set) << " " << name(t);
    }
    x.tensors[5].set(777, NAN);
    ASSERT_OK(run_plan<GlobalNorm>({t}, {x.views, norm, found}));
    EXPECT_TRUE(std::isnan(norm.at(0)) && found.at(0) == 1);
    x.tensors[5].set(777, -INFINITY);
    ASSERT_OK(run_plan<GlobalNorm>({t}, {x.views, norm, found}));
    EXPECT_TRUE(std::isinf(norm.at(0)) && norm.at(0) > 0 && found.at(0) == 1);
  }
  Tensor norm(DType::f32, {1});
  ASSERT_OK(run_plan<GlobalNorm>({}, {{}, norm}));
  EXPECT_EQ(norm.at(0), 0);
}
TEST(GlobalNorm, case_norm2_overflow) {
  const struct { DType t; std::vector<double> x; double want; } cases[] = {
      {DType::f32, {1e20, 1, 1}, 1e20}, {DType::f32, {3e-30, 4e-30}, 5e-30}, {DType::f32, {3e-45, 4e-45}, 5e-45}, {DType::f64, {3e200, 4e200}, 5e200},
      {DType::f64, {3e-200, 4e-200}, 5e-200}, {DType::f64, {3e-320, 4e-320}, 5e-320}, {DType::f64, {3e200, 4e200, 1e-200, 7}, 5e200}, {DType::f64, {3, 4, 1e-200}, 5},
      {DType::f64, {1e308, 1e308}, std::sqrt(2.0) * 1e308}, {DType::f16, {60000, 60000}, std::sqrt(2.0) * 60000}, {DType::f32, {0, 0}, 0},
      {DType::bf16, {3e30, 4e30, 1}, 5e30}, {DType::bf16, {3e-30, 4e-30}, 5e-30}, {DType::bf16, {1e18, 3, 1e-30}, 1e18}, {DType::bf16, {0, 0}, 0},
      {DType::f16, {3 * 0x1p-24, 4 * 0x1p-24}, 5 * 0x1p-24}, {DType::f16, {60000, 0x1p-24}, 60000}};
  for (const auto& c : cases)
    for (int64_t padding : {0, 100, 101}) {  // in vectors and in the rest of them
      std::vector<double> x(c.x);
      x.insert(padding % 2 ? x.end() : x.begin(), size_t(padding), 0.0);
      const Tensor t(c.t, {int64_t(x.size())}, x);
      const TensorView list[] = {t};
      double s = 0, most = 0;
      for (double v : t.values()) most = std::max(most, std::fabs(v));
      for (double v : t.values()) s += most ? (v / most) * (v / most) : 0;
      Tensor norm(c.t == DType::f64 ? DType::f64 : DType::f32, {});
      ASSERT_OK(run_plan<GlobalNorm>({c.t}, {list, norm}));
      EXPECT_CLOSE(norm, (std::vector<double>{std::sqrt(s) * most}), {});
      EXPECT_NEAR(norm.at(0), c.want, 0.2 * c.want);  // the oracle itself is not far off
    }
}
TEST(ClipScale, Values) {
  const struct { double norm, max, want; } cases[] = {{0.5, 1, 1}, {1, 1, 1 / (1 + 1e-6)}, {10, 1, 1 / (10 + 1e-6)}, {0, 1, 1}, {INFINITY, 1, 0}, {NAN, 1, NAN}, {3, 0.25, 0.25 / (3 + 1e-6)}};
  for (DType t : {DType::f32, DType::f64})
    for (const auto& c : cases) {
      const Tensor norm(t, {}, {c.norm});
      Tensor scale(t, {});
      ASSERT_OK(run_plan<ClipScale>({t, c.max}, {norm, scale}));
      EXPECT_CLOSE(scale, (std::vector<double>{c.want}), {});
    }
}
TEST(GlobalNorm, ContractAndRefusals) {
  const Tensor x = Tensor::normal(DType::f32, {3000}, 1), turned = Tensor::normal(DType::f32, {30, 20}, 1, 0, 1, Layout::padded);
  const TensorView list[] = {x}, strided[] = {turned};
  Tensor norm(DType::f32, {1}, {3}), found(DType::f32, {1}), scale(DType::f32, {1});
  check_contract<GlobalNorm>({}, {list, norm, found}, {"norm", "found_inf"});
  check_contract<ClipScale>({}, {norm, scale}, {"norm", "scale"});
  const auto bad = Code::invalid_problem;
  expect_refused(run_plan<GlobalNorm>({}, {strided, norm}), bad, {"x[0]", "not dense"});
  expect_refused(run_plan<GlobalNorm>({DType::bf16}, {list, norm}), bad, {"x[0]", "dtype f32", "expected bf16"});
  expect_refused(ClipScalePlan::select(Stream::cpu(), {DType::f32, 0}).status(), bad, {"max_norm 0"});
  expect_refused(ClipScalePlan::select(Stream::cpu(), {DType::bf16, 1}).status(), Code::unsupported, {"no bf16"});
  expect_refused(GlobalNormPlan::select(Stream::cpu(), {DType::i32}).status(), Code::unsupported, {"no i32"});
}

}  // namespace
}  // namespace baracuda
