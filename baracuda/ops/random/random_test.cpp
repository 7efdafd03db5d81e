#include "baracuda/ops/random/random.hpp"
#include <algorithm>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/random/philox.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The generator as the paper writes it, on plain integers.
struct Reference { uint32_t w[4]; };
Reference reference(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  uint32_t c[4] = {c0, c1, c2, c3}, k[2] = {k0, k1};
  for (int r = 0; r < 10; ++r) {
    const uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t n[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
    std::copy(n, n + 4, c);
    k[0] += 0x9E3779B9, k[1] += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}
Reference block(uint64_t number, uint64_t seed) {
  return reference(uint32_t(number), uint32_t(number >> 32), 0, 0, uint32_t(seed), uint32_t(seed >> 32));
}
TEST(Random, PhiloxKnownAnswers) {  // Random123's vectors for philox4x32, 10 rounds
  const struct { uint32_t counter[4], key[2], want[4]; } vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto& v : vectors) {
    const auto got = philox<1>({{v.counter[0], v.counter[1], v.counter[2], v.counter[3]}}, uint64_t(v.key[1]) << 32 | v.key[0]);
    const Reference same = reference(v.counter[0], v.counter[1], v.counter[2], v.counter[3], v.key[0], v.key[1]);
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(got.word[k] == v.want[k] && same.w[k] == v.want[k]) << k;
  }
}
// The numbers from the words, by libm.
double uniform_of(DType t, uint64_t seed, uint64_t element) {
  if (t == DType::f64) {
    const Reference b = block(element / 2, seed);
    const int k = int(element % 2) * 2;
    return double((uint64_t(b.w[k + 1]) << 32 | b.w[k]) >> 11) * 0x1p-53;
  }
  return (block(element / 4, seed).w[element % 4] >> 8) * 0x1p-24;
}
double normal_of(DType t, uint64_t seed, uint64_t element, double& radius) {
  double u;
  long double turn;
  if (t == DType::f64) {
    const Reference b = block(element / 2, seed);
    u = double(((uint64_t(b.w[1]) << 32 | b.w[0]) >> 11) + 1) * 0x1p-53;
    turn = (long double)(uint64_t(b.w[3]) << 32 | b.w[2]) * 0x1p-64L;
  } else {
    const Reference b = block(element / 4, seed);
    const int k = int(element % 4) / 2 * 2;
    u = (b.w[k] + 0.5) * 0x1p-32, turn = b.w[k + 1] * 0x1p-32L;
  }
  const long double angle = 2 * std::acos(-1.0L) * turn;
  radius = std::sqrt(-2 * std::log(u));
  return double(std::sqrt(-2 * std::log((long double)u)) * (element % 2 ? std::sin(angle) : std::cos(angle)));
}
TEST(Random, ElementsComeFromTheirWords) {
  const uint64_t seed = 0x123456789abcdef;
  for (uint64_t offset : {(uint64_t(3) << 40) + 5, (uint64_t(1) << 34) - 500})
    for (DType t : kFloats) {
      Tensor u(t, {1003}), z(t, {1003});
      ASSERT_OK(run_plan<RandomUniform>({t, {1003}, 0, 1}, {u, seed, offset}));
      ASSERT_OK(run_plan<RandomNormal>({t, {1003}, 2, 3}, {z, seed, offset}));
      std::vector<double> want, want_z, scale;
      for (uint64_t i = 0; i < 1003; ++i) {
        want.push_back(std::min(rounded(t, uniform_of(t, seed, offset + i)), 1 - 2 * unit_roundoff(t) / 2));
        double r = 0;
        want_z.push_back(2 + 3 * normal_of(t, seed, offset + i, r));
        scale.push_back(2 + 3 * (1 + r + 0.25 / r));  // u is rounded to 24 bits: -log u = r^2 / 2 is off by 2^-24, r by 2^-24 / r
      }
      for (int64_t i = 0; i < 1003; ++i) ASSERT_EQ(u.at(i), want[size_t(i)]) << name(t) << " " << i;
      EXPECT_CLOSE(z, want_z, {}, &scale);
    }
}
TEST(Random, NumbersOfBlocksCarry) {  // their low half wraps among the blocks that are made together
  for (DType t : kFloats) {
    const uint64_t seed = 5, offset = (uint64_t(t == DType::f64 ? 2 : 4) << 32) - 500;
    Tensor u(t, {1003});
    ASSERT_OK(run_plan<RandomUniform>({t, {1003}, 0, 1}, {u, seed, offset}));
    for (int64_t i = 0; i < 1003; ++i)
      ASSERT_EQ(u.at(i), std::min(rounded(t, uniform_of(t, seed, offset + uint64_t(i))), 1 - 2 * unit_roundoff(t) / 2)) << name(t) << " " << i;
  }
}
TEST(Random, AnySplitStrideThreadsAndInstructionSet) {
  for (DType t : kFloats) {
    const int64_t n = 20011;
    Tensor whole_u(t, {n}), whole_z(t, {n});
    ASSERT_OK(run_plan<RandomUniform>({t, {n}, -2, 3}, {whole_u, 9, 7}));
    ASSERT_OK(run_plan<RandomNormal>({t, {n}}, {whole_z, 9, 7}));
    for (int64_t first : {int64_t(0), int64_t(1), int64_t(2), int64_t(3), int64_t(62), int64_t(19000)}) {  // a piece from the middle
      const int64_t m = 999;
      Tensor u(t, {m}), z(t, {m});
      ASSERT_OK(run_plan<RandomUniform>({t, {m}, -2, 3}, {u, 9, 7 + uint64_t(first)}));
      ASSERT_OK(run_plan<RandomNormal>({t, {m}}, {z, 9, 7 + uint64_t(first)}));
      for (int64_t i = 0; i < m; ++i) ASSERT_TRUE(u.at(i) == whole_u.at(first + i) && z.at(i) == whole_z.at(first + i)) << first << " " << i;
    }
    for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
      for (const Shape& shape : {Shape{3, 7, 11}, Shape{2, 500}}) {
        Tensor z(t, shape, layout);
        ASSERT_OK(run_plan<RandomNormal>({t, shape}, {z, 9, 7}));
        for (int64_t i = 0; i < z.numel(); ++i) ASSERT_EQ(z.at(i), whole_z.at(i)) << int(layout);
        EXPECT_TRUE(z.guards_intact());
      }
    for (Isa set : {Isa::portable, Isa::avx2}) {
      limit_isa(set);
      Tensor u(t, {n}), z(t, {n});
      EXPECT_OK(run_plan<RandomUniform>({t, {n}, -2, 3}, {u, 9, 7}));
      EXPECT_OK(run_plan<RandomNormal>({t, {n}}, {z, 9, 7}));
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(u.same_bits(whole_u) && z.same_bits(whole_z)) << name(t) << " " << name(set);
    }
    check_repeat_bits<RandomUniform>({t, {n}, -2, 3}, {whole_u, 9, 7}, {}, 1);
    check_repeat_bits<RandomNormal>({t, {n}}, {whole_z, 9, 7}, {}, 1);
  }
  // The halves are the rounded f32 values.
  Tensor f(DType::f32, {500}), b(DType::bf16, {500});
  ASSERT_OK(run_plan<RandomNormal>({DType::f32, {500}}, {f, 4, 0}));
  ASSERT_OK(run_plan<RandomNormal>({DType::bf16, {500}}, {b, 4, 0}));
  for (int64_t i = 0; i < 500; ++i) EXPECT_EQ(b.at(i), rounded(DType::bf16, f.at(i)));
}
TEST(Random, OffsetsWrap) {
  Tensor across(DType::f32, {200}), start(DType::f32, {190});
  ASSERT_OK(run_plan<RandomNormal>({DType::f32, {200}}, {across, 1, uint64_t(0) - 10}));
  ASSERT_OK(run_plan<RandomNormal>({DType::f32, {190}}, {start, 1, 0}));
  for (int64_t i = 0; i < 190; ++i) ASSERT_EQ(across.at(10 + i), start.at(i));
}

// Kolmogorov and Smirnov: sqrt(n) D stays below 1.95 with probability 0.999; seeds are fixed.
double ks(std::vector<double> v, double (*cdf)(double)) {
  std::sort(v.begin(), v.end());
  const double n = double(v.size());
  double d = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double c = cdf(v[i]);
    d = std::max({d, c - double(i) / n, double(i + 1) / n - c});
  }
  return std::sqrt(n) * d;
}
double moment(const std::vector<double>& v, int k) {
  double s = 0;
  for (double x : v) s += std::pow(x, k);
  return s / double(v.size());
}
TEST(Random, Distributions) {
  const int64_t n = 200000;
  for (DType t : {DType::f32, DType::f64})
    for (uint64_t seed : {uint64_t(0), uint64_t(1), uint64_t(1) << 63}) {
      Tensor u(t, {n}), z(t, {n});
      ASSERT_OK(run_plan<RandomUniform>({t, {n}}, {u, seed, 0}));
      ASSERT_OK(run_plan<RandomNormal>({t, {n}}, {z, seed, 0}));
      const std::vector<double> uv = u.values(), zv = z.values();
      EXPECT_LT(ks(uv, [](double x) { return std::clamp(x, 0.0, 1.0); }), 1.95);
      EXPECT_LT(ks(zv, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }), 1.95);
      const double s = std::sqrt(double(n));  // five standard errors of each moment
      EXPECT_NEAR(moment(uv, 1), 0.5, 5 * 0.289 / s);
      EXPECT_NEAR(moment(zv, 1), 0, 5 / s);
      EXPECT_NEAR(moment(zv, 2), 1, 5 * std::sqrt(2.0) / s);
      EXPECT_NEAR(moment(zv, 3), 0, 5 * std::sqrt(15.0) / s);
      EXPECT_NEAR(moment(zv, 4), 3, 5 * std::sqrt(96.0) / s);
      for (int lag : {1, 2, 3, 4, 64, 128}) {  // neighbours of a pair, of a block, of a vector
        double c = 0;
        for (int64_t i = 0; i + lag < n; ++i) c += zv[size_t(i)] * zv[size_t(i + lag)];
        EXPECT_NEAR(c / double(n), 0, 5 / s) << lag;
      }
    }
}
TEST(Random, ExponentialAndGumbelComeFromTheirWords) {
  const uint64_t seed = 0x123456789abcdef, offset = (uint64_t(3) << 40) + 5;
  for (DType t : kFloats)
    for (Layout layout : {Layout::dense, Layout::transposed, Layout::reversed}) {
      const Shape shape{17, 59};
      Tensor e(t, shape, layout), g(t, shape, layout);
      ASSERT_OK(run_plan<RandomExponential>({t, shape, 2}, {e, seed, offset}));
      ASSERT_OK(run_plan<RandomGumbel>({t, shape, -1, 3}, {g, seed, offset}));
      EXPECT_TRUE(e.guards_intact() && g.guards_intact());
      std::vector<double> want_e, want_g, scale;
      for (uint64_t i = 0; i < 1003; ++i) {
        double u;
        if (t == DType::f64) {
          const Reference b = block((offset + i) / 2, seed);
          const int k = int((offset + i) % 2) * 2;
          u = double(((uint64_t(b.w[k + 1]) << 32 | b.w[k]) >> 11) + 1) * 0x1p-53;
        } else u = (block((offset + i) / 4, seed).w[(offset + i) % 4] + 0.5) * 0x1p-32;
        if (t != DType::f64) u = double(float(u));
        want_e.push_back(-std::log(u) / 2), want_g.push_back(-1 - 3 * std::log(-std::log(u)));
        scale.push_back(1 + 3 * std::fabs(std::log(-std::log(u))) + 3);
      }
      EXPECT_CLOSE(e, want_e, {.dtype = t});
      EXPECT_CLOSE(g, want_g, {.dtype = t}, &scale);
    }
  for (DType t : {DType::f32, DType::f64}) {
    const int64_t n = 200000;
    Tensor e(t, {n}), g(t, {n}), piece(t, {999});
    ASSERT_OK(run_plan<RandomExponential>({t, {n}, 0.5}, {e, 4, 0}));
    ASSERT_OK(run_plan<RandomGumbel>({t, {n}}, {g, 4, 0}));
    EXPECT_LT(ks(e.values(), [](double x) { return -std::expm1(-x / 2); }), 1.95);
    EXPECT_LT(ks(g.values(), [](double x) { return std::exp(-std::exp(-x)); }), 1.95);
    for (double v : e.values()) ASSERT_GT(v, 0);
    for (double v : g.values()) ASSERT_TRUE(std::isfinite(v));
    check_repeat_bits<RandomExponential>({t, {n}, 0.5}, {e, 4, 0}, {}, 1);
    check_repeat_bits<RandomGumbel>({t, {n}}, {g, 4, 0}, {}, 1);
    ASSERT_OK(run_plan<RandomGumbel>({t, {999}}, {piece, 4, 777}));
    for (int64_t i = 0; i < 999; ++i) ASSERT_EQ(piece.at(i), g.at(777 + i));
    for (Isa set : {Isa::portable, Isa::avx2}) {
      limit_isa(set);
      Tensor other(t, {n});
      EXPECT_OK(run_plan<RandomGumbel>({t, {n}}, {other, 4, 0}));
      limit_isa(Isa::avx512bf16);
      EXPECT_TRUE(other.same_bits(g)) << name(t) << " " << name(set);
    }
  }
}
TEST(Random, UniformBounds) {
  for (DType t : kFloats) {
    const struct { double lo, hi; } ranges[] = {{0, 1}, {-1, 1}, {1, 1.0625}, {-3, -2.5}, {5, 5}, {-0.25, 0}, {0.1, 0.3}};
    for (const auto& r : ranges) {
      Tensor y(t, {60000});
      ASSERT_OK(run_plan<RandomUniform>({t, {60000}, r.lo, r.hi}, {y, 3, 0}));
      const double lo = rounded(t, r.lo), hi = rounded(t, r.hi);
      double least = INFINITY, most = -INFINITY;
      for (double v : y.values()) least = std::min(least, v), most = std::max(most, v);
      EXPECT_GE(least, lo) << name(t);
      if (hi > lo) EXPECT_LT(most, hi) << name(t) << " " << r.lo << " " << r.hi;
      else EXPECT_EQ(most, lo);
      EXPECT_GT(most, hi - 0.01 * (hi - lo) - 3 * unit_roundoff(t) * std::max(std::fabs(lo), std::fabs(hi)) - 1e-300 * (hi == lo));
    }
  }
  Tensor y(DType::f64, {7}), none(DType::f32, {0});
  ASSERT_OK(run_plan<RandomUniform>({DType::f64, {7}, -1e-320, 0}, {y, 3, 0}));
  for (double v : y.values()) EXPECT_TRUE(v < 0 && v >= -1e-320);
  ASSERT_OK(run_plan<RandomNormal>({DType::f32, {0}}, {none, 3, 0}));
}
TEST(Random, ContractAndRefusals) {
  Tensor y(DType::f32, {3, 700});
  check_contract<RandomUniform>({DType::f32, {3, 700}}, {y, 1, 0});
  check_contract<RandomNormal>({DType::f32, {3, 700}}, {y, 1, 0});
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem;
  expect_refused(RandomUniformPlan::select(s, {DType::f32, {2}, 1, 0}).status(), bad, {"random_uniform", "lo 1", "hi 0"});
  expect_refused(RandomUniformPlan::select(s, {DType::f32, {2}, -3e38, 3e38}).status(), bad, {"overflows"});
  expect_refused(RandomUniformPlan::select(s, {DType::f16, {2}, 0, 1e6}).status(), bad, {"finite", "f16"});
  expect_refused(RandomUniformPlan::select(s, {DType::f32, {2}, NAN, 1}).status(), bad, {"finite"});
  expect_refused(RandomNormalPlan::select(s, {DType::f32, {2}, 0, -1}).status(), bad, {"random_normal", "std -1"});
  expect_refused(RandomNormalPlan::select(s, {DType::f32, {2}, INFINITY, 1}).status(), bad, {"mean"});
  expect_refused(RandomNormalPlan::select(s, {DType::f32, {2, -1}}).status(), bad, {"[2, -1]"});
  check_contract<RandomExponential>({DType::f32, {3, 700}}, {y, 1, 0});
  check_contract<RandomGumbel>({DType::f32, {3, 700}}, {y, 1, 0});
  for (double v : {0.0, -1.0, double(NAN), double(INFINITY)}) {
    expect_refused(RandomExponentialPlan::select(s, {DType::f32, {2}, v}).status(), bad, {"random_exponential", "rate"});
    expect_refused(RandomGumbelPlan::select(s, {DType::f32, {2}, 0, v}).status(), bad, {"random_gumbel", "scale"});
  }
  expect_refused(RandomGumbelPlan::select(s, {DType::f32, {2}, NAN}).status(), bad, {"loc"});
  expect_refused(RandomNormalPlan::select(s, {DType::i32, {2}}).status(), Code::unsupported, {"random_normal.cpu.philox", "no i32"});
}

}  // namespace
}  // namespace baracuda
