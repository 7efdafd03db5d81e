// The harness must see what is wrong: wrong values, wrong bits, writes out of bounds, plans that claim too much.
#include <gtest/gtest-spi.h>
#include <cmath>
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

TEST(Harness, HalfFormatsAgainstKnownValues) {
  EXPECT_EQ(rounded(DType::f16, 65519), 65504);
  EXPECT_EQ(rounded(DType::f16, 65520), INFINITY);
  EXPECT_EQ(rounded(DType::f16, 2049), 2048);
  EXPECT_EQ(rounded(DType::f16, 2051), 2052);
  EXPECT_EQ(rounded(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(rounded(DType::f16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(rounded(DType::bf16, 257), 256);
  EXPECT_EQ(rounded(DType::bf16, 0x1.ffp127), INFINITY);
  EXPECT_EQ(rounded(DType::bf16, 0x1p-134), 0);
  EXPECT_EQ(rounded(DType::bf16, 0x1p-133), 0x1p-133);
  EXPECT_TRUE(std::isnan(rounded(DType::bf16, NAN)));
  EXPECT_TRUE(std::signbit(rounded(DType::f16, -0.0)));
}
TEST(Harness, LayoutsHoldTheSameValues) {
  std::vector<double> v(24);
  for (size_t i = 0; i < v.size(); ++i) v[i] = double(i);
  for (Layout l : {Layout::dense, Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other}) {
    Tensor t(DType::f32, {2, 3, 4}, v, l);
    EXPECT_EQ(t.values(), v) << int(l);
    EXPECT_TRUE(t.guards_intact());
    EXPECT_EQ(t.view().contiguous(), l == Layout::dense);
  }
}
TEST(Harness, CopiesHaveTheirOwnMemory) {
  for (Layout l : {Layout::dense, Layout::padded, Layout::outer_reversed}) {
    Tensor t = Tensor::normal(DType::f32, {3, 5}, 1, 0, 1, l), u = t, v;
    v = u;
    const double was = t.at(7);
    t.set(7, 42);
    EXPECT_EQ(u.at(7), was);
    EXPECT_EQ(v.at(7), was);
    v.set(7, 42);
    EXPECT_TRUE(v.same_bits(t));
    EXPECT_EQ(v.view().strides, t.view().strides);
    EXPECT_TRUE(v.guards_intact() && u.guards_intact());
    EXPECT_EQ(uintptr_t(v.view().data) % 64, uintptr_t(t.view().data) % 64);
  }
  EXPECT_TRUE(Tensor(Tensor()).view().absent());
}
TEST(Harness, SeesAWrongValue) {
  Tensor t(DType::f32, {3}, {1, 2, 3});
  EXPECT_TRUE(compare(t, {1, 2, 3}, {}));
  EXPECT_TRUE(compare(t, {1, 2, 3 + 1e-7}, {}));
  EXPECT_FALSE(compare(t, {1, 2, 3.00001}, {}));
  EXPECT_FALSE(compare(t, {1, 2, NAN}, {}));
  EXPECT_FALSE(compare(t, {1, 2, INFINITY}, {}));
  EXPECT_FALSE(compare(t, {1, 2}, {}));
  EXPECT_FALSE(compare(Tensor(DType::f32, {1}), {0.0}, {}));  // poison is NaN
}
TEST(Harness, SeesAWriteOutOfBounds) {
  Tensor t(DType::f32, {2, 3}, Layout::padded);
  t.view().as<float>()[3] = 0;  // in the gap between rows
  EXPECT_FALSE(t.guards_intact());
  Tensor u(DType::f32, {2});
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH(u.view().as<volatile float>()[2], "use-after-poison");
#else
  u.view().as<float>()[2] = 0;
  EXPECT_FALSE(u.guards_intact());
#endif
}

// Runs f with failures collected instead of reported.
template <class F> std::string failures_of(F f) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    f();
  }
  std::string all;
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed()) all += results.GetTestPartResult(i).message();
  return all;
}
void expect_seen(const std::string& failures, std::string_view what) {
  EXPECT_NE(failures.find(what), std::string::npos) << "not seen: " << what << "; seen: " << failures;
}

// An op with planted faults.
enum class Fault : uint8_t { none, bits_by_threads, writes_input, over_workspace, writes_when_refused };
constexpr std::array<std::string_view, 5> enum_names(Fault) { return {"none", "bits_by_threads", "writes_input", "over_workspace", "writes_when_refused"}; }
struct Faulty {
  static constexpr std::string_view name = "faulty", category = "test", summary = "y = x";
  struct Descriptor {
    DType dtype = DType::f32;
    int64_t n = 0;
    Fault fault = Fault::none;
    static constexpr auto fields() {
      return std::tuple(field("dtype", &Descriptor::dtype), field("n", &Descriptor::n), field("fault", &Descriptor::fault));
    }
  };
  struct Args {
    TensorView x, y;
    static constexpr auto args() { return std::tuple(arg("x", &Args::x, Role::in), arg("y", &Args::y, Role::out)); }
  };
  static Status validate(const Descriptor&) { return {}; }
  static Status check(const Descriptor& d, const Args& a) {
    if (d.fault == Fault::writes_when_refused && d.n) a.y.as<float>()[0] = 7;
    BARACUDA_TRY(expect(name, "x", a.x, d.dtype, {d.n}));
    return expect(name, "y", a.y, d.dtype, {d.n});
  }
  static std::span<const Kernel<Faulty>> kernels() {
    static constexpr Kernel<Faulty> list[] = {
        {.name = "faulty.cpu.copy",
         .launch = launch_all<Faulty>(TypeList<float>{},
                                      [](const Launch<Faulty>& l) -> Status {
                                        Carver c = l.carver();
                                        float* scratch = c.take<float>("scratch", l.desc.n);
                                        for (int64_t i = 0; i < l.desc.n; ++i) scratch[i] = l.args.x.as<float>()[i];
                                        for (int64_t i = 0; i < l.desc.n; ++i) l.args.y.as<float>()[i] = scratch[i];
                                        if (l.desc.fault == Fault::bits_by_threads) l.args.y.as<float>()[0] += float(l.threads);
                                        if (l.desc.fault == Fault::writes_input) l.args.x.as<float>()[0] += 1;
                                        if (l.desc.fault == Fault::over_workspace) scratch[c.size() / 4] = 1;
                                        return {};
                                      }),
         .guarantee = [](const Descriptor&) { return PrecisionGuarantee{}; },
         .carve = [](const Descriptor& d, const void*, Carver& c) { c.take<float>("scratch", d.n); }}};
    return list;
  }
};
Faulty::Descriptor faulty(Fault f) { return {DType::f32, 50, f}; }
Tensor& x() { static Tensor t = Tensor::normal(DType::f32, {50}, 1); return t; }
Tensor& y() { static Tensor t(DType::f32, {50}); return t; }

TEST(Harness, AcceptsAHonestPlan) {
  check_repeat_bits<Faulty>(faulty(Fault::none), {x(), y()});
  check_contract<Faulty>(faulty(Fault::none), {x(), y()});
}
TEST(Harness, SeesBitsThatDependOnThreads) {
  expect_seen(failures_of([&] { check_repeat_bits<Faulty>({DType::f32, 50, Fault::bits_by_threads}, {x(), y()}, {}, 1); }), "other bits");
}
TEST(Harness, SeesAChangedInput) {
  expect_seen(failures_of([&] { check_repeat_bits<Faulty>(faulty(Fault::writes_input), {x(), y()}, {}, 1); }), "changed its input x");
}
TEST(Harness, SeesAWriteBeyondTheWorkspace) {
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH((void)run_plan<Faulty>(faulty(Fault::over_workspace), {x(), y()}), "use-after-poison");
#else
  expect_seen(failures_of([&] { (void)run_plan<Faulty>(faulty(Fault::over_workspace), {x(), y()}); }), "outside its workspace");
#endif
}
TEST(Harness, SeesAWriteByARefusedRun) {
  expect_seen(failures_of([&] { check_contract<Faulty>(faulty(Fault::writes_when_refused), {x(), y()}); }), "a refused run of faulty wrote to y");
}
TEST(Harness, SeesAWrongGradient) {
  Tensor p = Tensor::normal(DType::f64, {5}, 3), right(DType::f64, {5}), wrong(DType::f64, {5});
  for (int64_t i = 0; i < 5; ++i) right.set(i, 2 * p.at(i)), wrong.set(i, 2.001 * p.at(i));
  auto loss = [&] { double s = 0; for (double v : p.values()) s += v * v; return s; };
  check_directional(loss, p, right, 1);
  expect_seen(failures_of([&] { check_directional(loss, p, wrong, 1); }), "directional derivative");
}

}  // namespace
}  // namespace baracuda
