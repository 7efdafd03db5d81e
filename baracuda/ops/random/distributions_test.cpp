#include <algorithm>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/random/initializers.hpp"
#include "baracuda/ops/random/integers.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr uint64_t kSeed = 0x123456789abcdef, kOffset = (uint64_t(3) << 40) + 5;

// u in (0, 1] of every element, from the words, which random_test holds to the cipher; rounded as the generator's type does.
std::vector<double> units(DType t, int64_t n) {
  const bool wide = t == DType::f64;
  Tensor words(wide ? DType::u64 : DType::u32, {n});
  EXPECT_OK(run_plan<RandomBits>({words.dtype(), {n}}, {words, kSeed, kOffset}));
  std::vector<double> u;
  for (int64_t i = 0; i < n; ++i)
    u.push_back(wide ? double((words.view().as<uint64_t>()[i] >> 11) + 1) * 0x1p-53 : double(float((words.view().as<uint32_t>()[i] + 0.5) * 0x1p-32)));
  return u;
}
double ks(std::vector<double> v, const std::function<double(double)>& cdf) {  // below 1.95 with probability 0.999
  std::sort(v.begin(), v.end());
  const double n = double(v.size());
  double d = 0;
  for (size_t i = 0; i < v.size(); ++i) d = std::max({d, cdf(v[i]) - double(i) / n, double(i + 1) / n - cdf(v[i])});
  return std::sqrt(n) * d;
}
double phi(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
const double kPi = std::acos(-1.0);

template <class Op> void check(const LocationScaleDescriptor& base, double (*quantile)(double u), double (*cdf)(double)) {
  const int64_t n = 2003;
  for (DType t : kFloats) {
    LocationScaleDescriptor d = base;
    d.dtype = t, d.shape = {n};
    Tensor y(t, {n});
    ASSERT_OK(run_plan<Op>(d, {y, kSeed, kOffset}));
    std::vector<double> want, scale;
    for (double u : units(t, n)) want.push_back(d.loc + d.scale * quantile(u)), scale.push_back(std::fabs(d.loc) + d.scale * (6 + 3 * std::fabs(quantile(u))));
    EXPECT_CLOSE(y, want, {.dtype = t}, &scale);
    for (Layout layout : {Layout::transposed, Layout::reversed}) {
      d.shape = {20, 50};
      Tensor z(t, d.shape, layout);
      ASSERT_OK(run_plan<Op>(d, {z, kSeed, kOffset}));
      EXPECT_TRUE(z.guards_intact());
      for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(z.at(i), y.at(i));
    }
  }
  for (DType t : {DType::f32, DType::f64}) {
    const LocationScaleDescriptor d{t, {100000}};
    Tensor y(t, d.shape), piece(t, {999});
    ASSERT_OK(run_plan<Op>(d, {y, 4, 0}));
    EXPECT_LT(ks(y.values(), cdf), 1.95) << Op::name;
    for (double v : y.values()) ASSERT_TRUE(std::isfinite(v));
    check_repeat_bits<Op>(d, {y, 4, 0}, {}, 1);
    ASSERT_OK(run_plan<Op>({t, {999}}, {piece, 4, 777}));
    for (int64_t i = 0; i < 999; ++i) ASSERT_EQ(piece.at(i), y.at(777 + i));
    for (Isa set : {Isa::portable, Isa::avx2}) {
      limit_isa(set);
      Tensor other(t, d.shape);
      EXPECT_OK(run_plan<Op>(d, {other, 4, 0}));
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(other.same_bits(y)) << Op::name << " " << name(set);
    }
  }
  Tensor y(DType::f32, {3, 700});
  check_contract<Op>({DType::f32, {3, 700}}, {y, 1, 0});
  const Stream s = Stream::cpu();
  for (double v : {0.0, -1.0, double(NAN), double(INFINITY)})
    expect_refused(Plan<Op>::select(s, {DType::f32, {2}, 0, v}).status(), Code::invalid_problem, {Op::name, "scale"});
  expect_refused(Plan<Op>::select(s, {DType::f32, {2}, NAN}).status(), Code::invalid_problem, {"loc"});
  expect_refused(Plan<Op>::select(s, {DType::i32, {2}}).status(), Code::unsupported, {"no i32"});
}
TEST(RandomDistributions, Laplace) {
  check<RandomLaplace>({.loc = -1, .scale = 3}, [](double u) { return u > 0.5 ? -std::log(2 * std::max(1 - u, 0x1p-26)) : std::log(2 * u); },
                       [](double x) { return x < 0 ? std::exp(x) / 2 : 1 - std::exp(-x) / 2; });
}
TEST(RandomDistributions, Cauchy) {
  check<RandomCauchy>({.loc = -1, .scale = 3}, [](double u) { return u > 0.5 ? 1 / std::tan(kPi * (1 - u)) : -1 / std::tan(kPi * u); },
                      [](double x) { return 0.5 + std::atan(x) / kPi; });
}
TEST(RandomDistributions, Logistic) {
  check<RandomLogistic>({.loc = -1, .scale = 3}, [](double u) { return u > 0.5 ? std::log(u / (1 - u)) : -std::log((1 - u) / u); },
                        [](double x) { return 1 / (1 + std::exp(-x)); });
}
TEST(RandomDistributions, TruncatedNormal) {
  const double inf = INFINITY;
  const struct { double mean, std, lo, hi; } cuts[] = {{0, 1, -2, 2}, {1, 0.02, 0.99, 1.05}, {0, 1, 3, inf}, {0, 1, -inf, -5}, {-1, 2, -inf, inf}, {0, 1, 4, 4.5}};
  for (const auto& c : cuts) {
    const double a = (c.lo - c.mean) / c.std, b = (c.hi - c.mean) / c.std;
    const auto mass = [](double from, double to) { return from > 0 ? phi(-from) - phi(-to) : phi(to) - phi(from); };
    for (DType t : kFloats) {
      const RandomTruncatedNormalDescriptor d{t, {100000}, c.mean, c.std, c.lo, c.hi};
      Tensor y(t, d.shape);
      ASSERT_OK(run_plan<RandomTruncatedNormal>(d, {y, 4, 0}));
      double least = inf, most = -inf;
      for (double v : y.values()) least = std::min(least, v), most = std::max(most, v);
      EXPECT_GE(least, rounded(t, c.lo)) << describe(d);
      EXPECT_LE(most, rounded(t, c.hi)) << describe(d);
      EXPECT_TRUE(std::isfinite(least) && std::isfinite(most));
      if (t == DType::f32 || t == DType::f64)
        EXPECT_LT(ks(y.values(), [&](double v) { return std::clamp(mass(a, std::clamp((v - c.mean) / c.std, a, b)) / mass(a, b), 0.0, 1.0); }), 1.95) << describe(d);
    }
  }
  const RandomTruncatedNormalDescriptor d{DType::f32, {20000}, 0.5, 2, -1, 3};
  Tensor y(DType::f32, d.shape), wide(DType::f64, {1000});
  check_contract<RandomTruncatedNormal>(d, {y, 1, 0});
  check_repeat_bits<RandomTruncatedNormal>(d, {y, 1, 0}, {}, 1);
  for (Isa set : {Isa::portable, Isa::avx2}) {
    limit_isa(set);
    Tensor other(DType::f32, d.shape);
    EXPECT_OK(run_plan<RandomTruncatedNormal>(d, {other, 1, 0}));
    limit_isa(Isa::avx512bf16);
    ASSERT_OK(run_plan<RandomTruncatedNormal>(d, {y, 1, 0}));
    EXPECT_TRUE(other.same_bits(y)) << name(set);
  }
  // Phi of an element gives back its u.
  const RandomTruncatedNormalDescriptor e{DType::f64, {1000}, 0, 1, 1, 6};
  ASSERT_OK(run_plan<RandomTruncatedNormal>(e, {wide, kSeed, kOffset}));
  const std::vector<double> u = units(DType::f64, 1000);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_NEAR(phi(-wide.at(i)), phi(-6) + (phi(-1) - phi(-6)) * u[size_t(i)], 1e-13 * phi(-1)) << i;
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(RandomTruncatedNormalPlan::select(s, {DType::f32, {2}, 0, 0}).status(), bad, {"std 0"});
  expect_refused(RandomTruncatedNormalPlan::select(s, {DType::f32, {2}, 0, 1, 2, 2}).status(), bad, {"lo 2", "hi 2"});
  expect_refused(RandomTruncatedNormalPlan::select(s, {DType::f32, {2}, NAN}).status(), bad, {"mean"});
  expect_refused(RandomTruncatedNormalPlan::select(s, {DType::f32, {2}, 0, 1, 20, 30}).status(), bad, {"lo 20", "probability"});
  EXPECT_TRUE(RandomTruncatedNormalPlan::select(s, {DType::f64, {2}, 0, 1, 20, 30}).ok());
}
TEST(RandomDistributions, Initializers) {
  const Shape shape{8, 4, 3, 3};  // fan_in 36, fan_out 72
  const auto normal = scaled_normal(DType::f32, shape, FanMode::in, std::sqrt(2.0));
  ASSERT_TRUE(normal.ok());
  EXPECT_DOUBLE_EQ(normal->std, std::sqrt(2.0 / 36));
  const auto uniform = scaled_uniform(DType::f32, shape, FanMode::average);
  ASSERT_TRUE(uniform.ok());
  EXPECT_DOUBLE_EQ(uniform->hi, std::sqrt(6.0 / (36 + 72)));
  EXPECT_EQ(uniform->lo, -uniform->hi);
  EXPECT_DOUBLE_EQ(scaled_normal(DType::f32, shape, FanMode::out)->std, std::sqrt(1.0 / 72));
  Tensor y(DType::f32, shape);
  ASSERT_OK(run_plan<RandomUniform>(*uniform, {y, 1, 0}));
  for (double v : y.values()) EXPECT_LE(std::fabs(v), uniform->hi);
  expect_refused(scaled_normal(DType::f32, {8}, FanMode::in).status(), Code::invalid_problem, {"initializer", "rank 1"});
  expect_refused(scaled_normal(DType::f32, {8, 0}, FanMode::in).status(), Code::invalid_problem, {"[8, 0]", "no connections"});
}

}  // namespace
}  // namespace baracuda
