#include "baracuda/ops/position/position.hpp"
#include <cmath>
#include <numeric>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

template <class Op> struct Of { using Tag = Op; };
constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: long double powers, sines and cosines, straight from the formula.
long double frequency(const RopeDescriptor& d, int64_t i) {
  const int64_t rotary = d.rotary_dim.value_or(d.shape[3]);
  const long double f = powl((long double)d.theta, -2.0L * i / rotary), pi = acosl(-1.0L);
  if (d.scaling == RopeScaling::none) return f;
  if (d.scaling == RopeScaling::linear) return f / d.factor;
  const long double wave = 2 * pi / f, slow = d.original_context / (long double)d.low_freq_factor, fast = d.original_context / (long double)d.high_freq_factor;
  if (wave < fast) return f;
  if (wave > slow) return f / d.factor;
  const long double smooth = (d.original_context / wave - d.low_freq_factor) / (d.high_freq_factor - d.low_freq_factor);
  return (1 - smooth) * f / d.factor + smooth * f;
}
struct Turned { std::vector<double> y, scale; };
Turned oracle(const RopeDescriptor& d, const Tensor& x, const std::vector<int64_t>& positions, bool inverse) {  // positions of [B, S]
  const int64_t batches = d.shape[0], heads = d.shape[1], length = d.shape[2], n = d.shape[3], half = d.rotary_dim.value_or(n) / 2;
  Turned o;
  o.y = x.values();
  for (double v : o.y) o.scale.push_back(std::fabs(v));
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t s = 0; s < length; ++s)
        for (int64_t i = 0; i < half; ++i) {
          // The product in two words: its rounding would show in f64 from positions of some thousands on.
          const long double p = (long double)positions[size_t(b * length + s)] * (inverse ? -1 : 1), f = frequency(d, i);
          const long double angle = p * f, rest = fmal(p, f, -angle), cosine = cosl(angle) - rest * sinl(angle), sine = sinl(angle) + rest * cosl(angle);
          const int64_t row = ((b * heads + h) * length + s) * n;
          const bool pairs = d.pairing == RopePairing::interleaved;
          const size_t ia = size_t(row + (pairs ? 2 * i : i)), ib = size_t(row + (pairs ? 2 * i + 1 : half + i));
          const double a = x.at(int64_t(ia)), c = x.at(int64_t(ib));
          o.y[ia] = double(a * cosine - c * sine);
          o.y[ib] = double(c * cosine + a * sine);
          // The contract: an angle may be off by |p| 2^-62, which f64 sees.
          o.scale[ia] = o.scale[ib] = (std::fabs(a) + std::fabs(c)) * (1 + (d.dtype == DType::f64 ? std::fabs(double(p)) * 0x1p-11 : 0));
        }
  return o;
}
std::vector<int64_t> counted(const RopeDescriptor& d, int64_t offset) {
  std::vector<int64_t> p;
  for (int64_t b = 0; b < d.shape[0]; ++b)
    for (int64_t s = 0; s < d.shape[2]; ++s) p.push_back(offset + s);
  return p;
}
void check_values(const RopeDescriptor& d, int64_t offset, Layout layout = Layout::dense) {
  SCOPED_TRACE(text(describe(d), " offset ", offset, " layout ", int(layout)));
  const Tensor x = Tensor::normal(d.dtype, d.shape, 1, 0, 1, layout);
  Tensor y(d.dtype, d.shape, layout);
  ASSERT_OK(run_plan<Rope>(d, {x, {}, y, offset}));
  const Turned want = oracle(d, x, counted(d, offset), false), back = oracle(d, x, counted(d, offset), true);
  EXPECT_CLOSE(y, want.y, {.ulps = 1}, &want.scale);
  EXPECT_TRUE(y.guards_intact());
  y.poison();
  ASSERT_OK(run_plan<RopeBackward>(d, {x, {}, y, offset}));
  EXPECT_CLOSE(y, back.y, {.ulps = 1}, &back.scale);
}

TEST(Rope, ValuesForEveryDtypeAndPairing) {
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved})
      for (int64_t rotary : {0, 2, 14, 40, 64})
        for (int64_t offset : {0, 61, -5, 100000}) check_values({.dtype = t, .shape = {2, 2, 3, 64}, .pairing = pairing, .rotary_dim = rotary}, offset);
}

TEST(Rope, ShapesAndStrides) {
  for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed})
    for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{3, 1, 130, 6}, Shape{1, 5, 64, 34}, Shape{2, 3, 65, 128}, Shape{70, 1, 1, 16}})
      for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved})
        check_values({.dtype = shape[1] == 3 ? DType::bf16 : DType::f32, .shape = shape, .pairing = pairing, .theta = 500000}, 3, layout);
}
TEST(Rope, RestsAndManyPairs) {  // elements behind the pairs, odd numbers of them; more pairs than a launch has frequencies
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) {
      check_values({.dtype = t, .shape = {2, 3, 5, 37}, .pairing = pairing, .rotary_dim = 16}, 7);
      check_values({.dtype = t, .shape = {1, 2, 3, 600}, .pairing = pairing, .rotary_dim = 580}, 7);
      check_values({.dtype = t, .shape = {1, 40, 2, 80}, .pairing = pairing, .rotary_dim = 64}, 7);
    }
}
TEST(Rope, SameBitsOnCpuAndCuda) {  // with sines so few that one launch makes them, and with more
  if (!on_cuda()) GTEST_SKIP() << "compares CUDA with the CPU";
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved})
      for (auto [width, rotary] : {std::pair<int64_t, int64_t>{300, 290}, {64, 64}, {81, 72}}) {
        const RopeDescriptor d{.dtype = t, .shape = {2, 3, 150, width}, .pairing = pairing, .rotary_dim = rotary, .theta = 500000};
        const Tensor x = Tensor::normal(t, d.shape, 1), positions = Tensor::integers(DType::i64, {2, 150}, 2, -100000, 100000);
        Tensor here(t, d.shape), there(t, d.shape);
        auto same = [&](const auto& args, const auto& args_there, auto plan) {
          ASSERT_OK(run_plan<typename decltype(plan)::Tag>(d, args_there));
          const auto chosen = Plan<typename decltype(plan)::Tag>::select(Stream::cpu(), d);
          GuardedWorkspace workspace(chosen->workspace_size());
          ASSERT_OK(chosen->run(Stream::cpu(), workspace.get(), args));
          EXPECT_TRUE(here.same_bits(there)) << describe(d);
        };
        same(Rope::Args{x, positions, here, 0}, Rope::Args{x, positions, there, 0}, Of<Rope>{});
        same(RopeBackward::Args{x, {}, here, -77}, RopeBackward::Args{x, {}, there, -77}, Of<RopeBackward>{});
      }
}
TEST(Rope, Llama3Scaling) {  // wavelengths on both sides of the blend and in it
  for (DType t : {DType::f32, DType::f64})
    check_values({.dtype = t, .shape = {1, 1, 5, 128}, .theta = 500000, .scaling = RopeScaling::llama3}, 9000);
  const RopeDescriptor d{.shape = {1, 1, 1, 128}, .theta = 500000, .scaling = RopeScaling::llama3};
  EXPECT_EQ(frequency(d, 0), 1);
  EXPECT_NEAR(double(frequency(d, 63) * 8 / powl(500000, -126.0L / 128)), 1, 1e-15);
}
TEST(Rope, LinearScaling) {
  for (DType t : {DType::f32, DType::f64})
    for (double factor : {4.0, 2.5}) check_values({.dtype = t, .shape = {1, 2, 5, 64}, .scaling = RopeScaling::linear, .factor = factor}, 9000);
}
TEST(Rope, LargePositions) {
  for (int64_t p : {int64_t(1) << 24, int64_t(1) << 31, (int64_t(1) << 36) + 7, -(int64_t(1) << 33)})
    check_values({.dtype = DType::f32, .shape = {1, 1, 70, 64}}, p);
}
TEST(Rope, case_rope_bf16_position) {
  const double c = -0.9080159, s = std::sin(15962.0);
  for (DType t : kDTypesHere)
    for (DType index : {DType::i32, DType::i64}) {
      const Tensor x(t, {1, 1, 1, 2}, {1, 0}), positions(index, {1}, {15962});
      Tensor y(t, {1, 1, 1, 2});
      ASSERT_OK(run_plan<Rope>({.dtype = t, .shape = {1, 1, 1, 2}}, {x, positions, y, 0}));
      EXPECT_NEAR(y.at(0), c, 5e-8 + unit_roundoff(t));
      EXPECT_NEAR(y.at(1), s, 5e-8 + unit_roundoff(t));
    }
}
// A row's bits depend on its position alone: given by offset, shared or per batch, in any block and layout.
TEST(Rope, PositionsInEveryForm) {
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) {
      const RopeDescriptor d{.dtype = t, .shape = {2, 3, 150, 10}, .pairing = pairing, .rotary_dim = 8};
      const Tensor x = Tensor::normal(t, d.shape, 1);
      Tensor want(t, d.shape), y(t, d.shape);
      ASSERT_OK(run_plan<Rope>(d, {x, {}, want, 41}));
      std::vector<double> shared(150), each(300);
      std::iota(shared.begin(), shared.end(), 41);
      for (int i = 0; i < 300; ++i) each[size_t(i)] = 41 + i % 150;
      for (DType index : {DType::i32, DType::i64}) {
        ASSERT_OK(run_plan<Rope>(d, {x, Tensor(index, {150}, shared, Layout::every_other), y, 0}));
        EXPECT_TRUE(y.same_bits(want));
        ASSERT_OK(run_plan<Rope>(d, {x, Tensor(index, {2, 150}, each, Layout::transposed), y, 0}));
        EXPECT_TRUE(y.same_bits(want));
      }
      // Shuffled positions: row s of batch b stands at (7 s + b) mod 150.
      std::vector<double> mixed(300);
      std::vector<int64_t> whole(300);
      for (int i = 0; i < 300; ++i) mixed[size_t(i)] = double(whole[size_t(i)] = (i % 150 * 7 + i / 150) % 150 - 20);
      ASSERT_OK(run_plan<Rope>(d, {x, Tensor(DType::i64, {2, 150}, mixed), y, 0}));
      const Turned o = oracle(d, x, whole, false);
      EXPECT_CLOSE(y, o.y, {.ulps = 1}, &o.scale);
      // One row alone.
      const RopeDescriptor one{.dtype = t, .shape = {1, 1, 1, 10}, .pairing = pairing, .rotary_dim = 8};
      for (int64_t s : {0, 22, 23, 63, 64, 149}) {
        TensorView row = x;
        row.data = x.view().as<char>() + s * 10 * int64_t(byte_size(t)), row.shape = one.shape, row.strides = one.shape.contiguous();
        Tensor alone(t, one.shape);
        ASSERT_OK(run_plan<Rope>(one, {row, {}, alone, 41 + s}));
        for (int i = 0; i < 10; ++i) EXPECT_EQ(alone.at(i), want.at(s * 10 + i));
      }
      // [B, S, H, D] memory.
      Tensor inside(t, {2, 150, 3, 10}), turned(t, {2, 150, 3, 10});
      for (int64_t i = 0; i < x.numel(); ++i) inside.set(((i / 4500 * 150 + i / 10 % 150) * 3 + i / 1500 % 3) * 10 + i % 10, x.at(i));
      TensorView from = inside, to = turned;
      from.shape = to.shape = d.shape, from.strides = to.strides = {4500, 10, 30, 1};
      ASSERT_OK(run_plan<Rope>(d, {from, {}, to, 41}));
      for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(turned.at(((i / 4500 * 150 + i / 10 % 150) * 3 + i / 1500 % 3) * 10 + i % 10), want.at(i));
      ASSERT_OK(run_plan<Rope>(d, {from, {}, from, 41}));  // in place
      EXPECT_TRUE(inside.same_bits(turned));
    }
}
TEST(Rope, BackwardIsTheTransposeAndTheInverse) {
  for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) {
    const RopeDescriptor d{.dtype = DType::f64, .shape = {2, 2, 9, 12}, .pairing = pairing, .rotary_dim = 10};
    Tensor x = Tensor::normal(DType::f64, d.shape, 1);
    const Tensor dy = Tensor::normal(DType::f64, d.shape, 2);
    Tensor y(DType::f64, d.shape), dx(DType::f64, d.shape), back(DType::f64, d.shape);
    ASSERT_OK(run_plan<RopeBackward>(d, {dy, {}, dx, 77}));
    check_directional([&] {
      EXPECT_OK(run_plan<Rope>(d, {x, {}, y, 77}));
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += y.at(i) * dy.at(i);
      return sum;
    }, x, dx, 3);
    ASSERT_OK(run_plan<Rope>(d, {x, {}, y, 77}));
    ASSERT_OK(run_plan<RopeBackward>(d, {y, {}, back, 77}));
    for (int64_t i = 0; i < x.numel(); ++i) EXPECT_NEAR(back.at(i), x.at(i), 1e-14);
  }
}
TEST(Rope, SpecialValuesStayInTheirPair) {
  const Tensor x(DType::f32, {1, 1, 1, 6}, {NAN, 1, 2, 3, 4, -0.0});
  Tensor y(DType::f32, {1, 1, 1, 6});
  ASSERT_OK(run_plan<Rope>({.shape = {1, 1, 1, 6}, .rotary_dim = 4}, {x, {}, y, 5}));
  EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(2)));
  EXPECT_FALSE(std::isnan(y.at(1)) || std::isnan(y.at(3)));
  EXPECT_TRUE(y.at(4) == 4 && y.at(5) == 0 && std::signbit(y.at(5)));
}
TEST(Rope, Empty) {
  for (const Shape& shape : {Shape{0, 2, 3, 4}, Shape{2, 0, 3, 4}, Shape{2, 2, 0, 4}, Shape{2, 2, 3, 0}}) {
    Tensor x(DType::f32, shape), y(DType::f32, shape);
    EXPECT_OK(run_plan<Rope>({.shape = shape}, {x, {}, y, 0}));
    EXPECT_OK(run_plan<RopeBackward>({.shape = shape}, {x, {}, y, 0}));
  }
}
TEST(Rope, ContractAndBits) {
  for (DType t : kDTypesHere) {
    const RopeDescriptor d{.dtype = t, .shape = {3, 2, 200, 64}};
    const Tensor x = Tensor::normal(t, d.shape, 1), positions = Tensor::integers(DType::i64, {3, 200}, 2, 0, 5000);
    Tensor y(t, d.shape);
    check_repeat_bits<Rope>(d, {x, positions, y, 0});
    check_repeat_bits<RopeBackward>(d, {x, {}, y, 12});
    if (t != DType::f16) continue;
    const RopeDescriptor small{.dtype = t, .shape = {2, 2, 5, 6}, .pairing = RopePairing::interleaved};
    const Tensor sx = Tensor::normal(t, small.shape, 1), sp = Tensor::integers(DType::i32, {2, 5}, 2, 0, 99);
    Tensor sy(t, small.shape);
    check_contract<Rope>(small, {sx, sp, sy, 0});
    check_contract<RopeBackward>(small, {sx, {}, sy, 3});
  }
}
TEST(Rope, SameBitsOnEveryInstructionSet) {
  if (on_cuda()) GTEST_SKIP() << "instruction sets are the CPU's";
  const Isa best = isa();
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) for (int64_t rotary : {42, 140}) for (double size : {1.0, 1e-5, 3e-39}) {
      std::vector<uint8_t> first;  // of subnormal halves, too
      for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16}) {
        limit_isa(set);
        const RopeDescriptor d{.dtype = t, .shape = {1, 2, 70, 150}, .pairing = pairing, .rotary_dim = rotary};
        const Tensor x = Tensor::normal(t, d.shape, 1, 0, size);
        Tensor y(t, d.shape);
        // A plan of its own for each set: plans are kept, with the table that the set of their making computed.
        ASSERT_OK(run_plan<Rope>(d, {x, {}, y, 100}, {.max_workspace = uint64_t(1) << (40 + int(set))}));
        if (set == Isa::portable) first = y.element_bytes();
        EXPECT_TRUE(y.element_bytes() == first) << name(set) << " " << name(t);
      }
    }
  limit_isa(best);
}
TEST(Rope, Refuses) {
  const Shape shape{2, 2, 3, 8};
  auto refused = [&](const RopeDescriptor& d, Code code, std::initializer_list<std::string_view> words) {
    expect_refused(RopePlan::select(Stream::cpu(), d).status(), code, words);
    expect_refused(RopeBackwardPlan::select(Stream::cpu(), d).status(), code, words);
  };
  refused({.shape = {2, 3, 8}}, Code::invalid_problem, {"rope", "[B, H, S, D]"});
  refused({.shape = {2, 3, -8, 2}}, Code::invalid_problem, {"shape"});
  refused({.shape = {2, 2, 3, 7}}, Code::invalid_problem, {"rotary_dim 7", "even"});
  refused({.shape = shape, .rotary_dim = 10}, Code::invalid_problem, {"rotary_dim 10", "at most the head dimension 8"});
  refused({.shape = shape, .rotary_dim = -2}, Code::invalid_problem, {"rotary_dim -2"});
  refused({.shape = {1, 1, 0, int64_t(1) << 40}}, Code::invalid_problem, {"rotary_dim 1099511627776", "65536"});  // whose sines would fill the memory
  refused({.shape = shape, .theta = 0}, Code::invalid_problem, {"theta 0"});
  refused({.shape = shape, .theta = INFINITY}, Code::invalid_problem, {"theta"});
  refused({.shape = shape, .pairing = RopePairing(5)}, Code::invalid_problem, {"pairing 5"});
  refused({.shape = shape, .scaling = RopeScaling(5)}, Code::invalid_problem, {"scaling 5"});
  refused({.shape = shape, .scaling = RopeScaling::llama3, .factor = 0}, Code::invalid_problem, {"factor 0"});
  refused({.shape = shape, .scaling = RopeScaling::linear, .factor = -1}, Code::invalid_problem, {"factor -1"});
  refused({.shape = shape, .scaling = RopeScaling::llama3, .low_freq_factor = 4}, Code::invalid_problem, {"low_freq_factor 4", "high_freq_factor 4"});
  refused({.shape = shape, .scaling = RopeScaling::llama3, .original_context = 0}, Code::invalid_problem, {"original_context 0"});
  refused({.dtype = DType::i32, .shape = shape}, Code::unsupported, {"no i32"});
  const Tensor x = Tensor::normal(DType::f32, shape, 1), slanted = Tensor::normal(DType::f32, shape, 1, 0, 1, Layout::every_other);
  Tensor y(DType::f32, shape);
  const RopeDescriptor d{.shape = shape};
  expect_refused(run_plan<Rope>(d, {slanted, {}, y, 0}), Code::unsupported, {"x has stride 2", "last axis"});
  expect_refused(run_plan<Rope>(d, {x, Tensor(DType::i64, {3}, {0, 1, 2}), y, 4}), Code::invalid_problem, {"offset 4", "positions are given"});
  expect_refused(run_plan<Rope>(d, {x, Tensor(DType::f32, {3}, {0, 1, 2}), y, 0}), Code::invalid_problem, {"positions has dtype f32"});
  expect_refused(run_plan<Rope>(d, {x, Tensor(DType::i64, {4}, {0, 1, 2, 3}), y, 0}), Code::invalid_problem, {"positions has shape [4]", "[3] or [2, 3]"});
  expect_refused(run_plan<Rope>(d, {x, {}, y, INT64_MAX}), Code::invalid_problem, {"offset", "2^63"});
}

// --- ALiBi
std::vector<double> slopes(int64_t heads, double max_bias = 8) {
  Tensor t(DType::f32, {heads});
  EXPECT_OK(run_plan<AlibiSlopes>({DType::f32, heads, max_bias}, {t}));
  return t.values();
}
TEST(AlibiSlopes, case_alibi_slopes_12_heads) {
  const auto got = slopes(12);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(got[size_t(h)], std::ldexp(1, -h - 1));
  const double rest[] = {0.7071068, 0.3535534, 0.1767767, 0.0883883};
  for (int h = 8; h < 12; ++h) EXPECT_NEAR(got[size_t(h)], rest[h - 8], 5e-8);
}
TEST(AlibiSlopes, OtherHeadCounts) {
  EXPECT_EQ(slopes(0), std::vector<double>{});
  EXPECT_EQ(slopes(1), std::vector<double>{std::ldexp(1, -8)});
  EXPECT_EQ(slopes(2), (std::vector<double>{0x1p-4, 0x1p-8}));
  EXPECT_EQ(slopes(3), (std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2}));
  EXPECT_EQ(slopes(2, 16), (std::vector<double>{0x1p-8, 0x1p-16}));
  const auto many = slopes(100);
  for (int h = 0; h < 100; ++h) EXPECT_EQ(many[size_t(h)], double(float(std::exp2(h < 64 ? -(h + 1) / 8.0 : -(2 * (h - 64) + 1) / 16.0))));
  Tensor strided(DType::f32, {5}, Layout::reversed);
  ASSERT_OK(run_plan<AlibiSlopes>({DType::f32, 5}, {strided}));
  EXPECT_EQ(strided.values(), slopes(5));
  EXPECT_TRUE(strided.guards_intact());
  check_contract<AlibiSlopes>({DType::f32, 5}, {strided});
  check_repeat_bits<AlibiSlopes>({DType::f32, 5}, {strided});
}
TEST(AlibiSlopes, SameBitsOnCpuAndCuda) {
  if (!on_cuda()) GTEST_SKIP() << "compares CUDA with the CPU";
  Tensor here(DType::f32, {1100}), there(DType::f32, {1100});
  ASSERT_OK(run_plan<AlibiSlopes>({DType::f32, 1100}, {there}));
  ASSERT_OK(AlibiSlopesPlan::select(Stream::cpu(), {DType::f32, 1100})->run(Stream::cpu(), Workspace::none(), {here}));
  EXPECT_TRUE(here.same_bits(there));
}
TEST(AlibiSlopes, Refuses) {
  expect_refused(AlibiSlopesPlan::select(Stream::cpu(), {DType::f32, -1}).status(), Code::invalid_problem, {"alibi_slopes", "heads [-1]"});
  expect_refused(AlibiSlopesPlan::select(Stream::cpu(), {DType::f32, 4, 0}).status(), Code::invalid_problem, {"max_bias 0"});
  expect_refused(AlibiSlopesPlan::select(Stream::cpu(), {DType::bf16, 4}).status(), Code::unsupported, {"no bf16"});
}

// --- cache
TEST(KvCacheAppend, WritesTheTokensAndNothingElse) {
  for (DType t : kDTypesHere)
    for (DType index : {DType::i32, DType::i64})
      for (Layout layout : {Layout::dense, Layout::padded, Layout::outer_reversed})
        for (const auto& [tokens, by_lengths] : {std::pair<int64_t, bool>{4, false}, {4, true}, {1, false}, {1, true}}) {  // one: all rows are one axis
          const KvCacheAppendDescriptor d{t, 3, 2, tokens, 10, 5, 7};
          const Tensor k = Tensor::normal(t, {3, 2, tokens, 5}, 1, 0, 1, layout), v = Tensor::normal(t, {3, 2, tokens, 7}, 2);
          Tensor k_cache = Tensor::normal(t, {3, 2, 10, 5}, 3, 0, 1, layout), v_cache = Tensor::normal(t, {3, 2, 10, 7}, 4, 0, 1, layout);
          const auto k_before = k_cache.values(), v_before = v_cache.values();
          const std::vector<double> places = by_lengths ? std::vector<double>{0, 6, 3} : std::vector<double>{2, 2, 2};
          ASSERT_OK(run_plan<KvCacheAppend>(d, {k, v, by_lengths ? Tensor(index, {3}, places, Layout::reversed) : Tensor(), k_cache, v_cache, by_lengths ? 0 : 2}));
          auto expect_cache = [&, tokens = tokens](const Tensor& from, const Tensor& cache, const std::vector<double>& before, int64_t n) {
            for (int64_t i = 0; i < cache.numel(); ++i) {
              const int64_t row = i / n / 10, s = i / n % 10 - int64_t(places[size_t(row / 2)]);
              ASSERT_EQ(cache.at(i), s >= 0 && s < tokens ? from.at((row * tokens + s) * n + i % n) : before[size_t(i)]);
            }
            EXPECT_TRUE(cache.guards_intact());
          };
          expect_cache(k, k_cache, k_before, 5);
          expect_cache(v, v_cache, v_before, 7);
        }
}
TEST(KvCacheAppend, FillsToTheLastTokenAndRefusesTheNext) {
  const KvCacheAppendDescriptor d{DType::f32, 2, 1, 2, 4, 3, {}};
  const Tensor k = Tensor::normal(DType::f32, {2, 1, 2, 3}, 1);
  Tensor k_cache = Tensor::normal(DType::f32, {2, 1, 4, 3}, 2), v_cache = Tensor::normal(DType::f32, {2, 1, 4, 3}, 3);
  EXPECT_OK(run_plan<KvCacheAppend>(d, {k, k, {}, k_cache, v_cache, 2}));
  const auto before = k_cache.values();
  for (int64_t offset : {int64_t(3), int64_t(-1), INT64_MAX, INT64_MIN})
    expect_refused(run_plan<KvCacheAppend>(d, {k, k, {}, k_cache, v_cache, offset}), Code::invalid_problem, {"kv_cache_append", "offset", "cache of 4"});
  if (on_cuda()) {  // lengths are on the device: what does not fit is not written
    for (double length : {-1.0, 3.0, 2147483647.0, -2147483648.0})
      ASSERT_OK(run_plan<KvCacheAppend>(d, {k, k, Tensor(DType::i32, {2}, {length, length}), k_cache, v_cache, 0}));
    EXPECT_TRUE(k_cache.guards_intact());
  } else {
    expect_refused(run_plan<KvCacheAppend>(d, {k, k, Tensor(DType::i32, {2}, {0, 3}), k_cache, v_cache, 0}), Code::invalid_problem, {"lengths[1] = 3", "cache of 4"});
    expect_refused(run_plan<KvCacheAppend>(d, {k, k, Tensor(DType::i32, {2}, {-1, 0}), k_cache, v_cache, 0}), Code::invalid_problem, {"lengths[0] = -1"});
  }
  expect_refused(run_plan<KvCacheAppend>(d, {k, k, Tensor(DType::i32, {2}, {0, 0}), k_cache, v_cache, 1}), Code::invalid_problem, {"offset 1", "lengths are given"});
  expect_refused(run_plan<KvCacheAppend>(d, {k, k, Tensor(DType::f32, {2}, {0, 0}), k_cache, v_cache, 0}), Code::invalid_problem, {"lengths has dtype f32"});
  EXPECT_EQ(k_cache.values(), before);
  expect_refused(KvCacheAppendPlan::select(Stream::cpu(), {DType::f32, 2, 1, 5, 4, 3, {}}).status(), Code::invalid_problem, {"tokens 5", "capacity 4"});
  expect_refused(KvCacheAppendPlan::select(Stream::cpu(), {DType::f32, 2, -1, 2, 4, 3, {}}).status(), Code::invalid_problem, {"negative"});
  expect_refused(KvCacheAppendPlan::select(Stream::cpu(), {DType::i32, 2, 1, 2, 4, 3, {}}).status(), Code::unsupported, {"no i32"});
}
TEST(KvCacheAppend, ContractAndBits) {
  const KvCacheAppendDescriptor d{DType::bf16, 3, 2, 40, 100, 64, 32};
  const Tensor k = Tensor::normal(DType::bf16, {3, 2, 40, 64}, 1), v = Tensor::normal(DType::bf16, {3, 2, 40, 32}, 2), lengths(DType::i64, {3}, {0, 60, 7});
  Tensor k_cache = Tensor::normal(DType::bf16, {3, 2, 100, 64}, 3), v_cache = Tensor::normal(DType::bf16, {3, 2, 100, 32}, 4);
  check_repeat_bits<KvCacheAppend>(d, {k, v, lengths, k_cache, v_cache, 0});
  check_contract<KvCacheAppend>(d, {k, v, lengths, k_cache, v_cache, 0});
  Tensor none(DType::bf16, {0, 2, 40, 64}), none_v(DType::bf16, {0, 2, 40, 32}), cache(DType::bf16, {0, 2, 100, 64}), cache_v(DType::bf16, {0, 2, 100, 32});
  EXPECT_OK(run_plan<KvCacheAppend>({DType::bf16, 0, 2, 40, 100, 64, 32}, {none, none_v, {}, cache, cache_v, 0}));
}

TEST(Rope, OneHeadAsOneOfTwo) {  // 64 positions one behind the other go in four streams, whatever stands around them
  constexpr int64_t kRows = 500, kWidth = 150;
  for (DType t : kDTypesHere)
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) for (int64_t rotary : {42, 128, 150}) for (int64_t from : {0, 7, -100}) {
      SCOPED_TRACE(text(t, " ", enum_name(pairing), " rotary ", rotary, " from ", from));
      const Tensor two = Tensor::normal(t, {1, 2, kRows, kWidth}, 1);
      TensorView one = two;
      one.shape[1] = 1;
      std::vector<double> list(kRows);
      std::iota(list.begin(), list.end(), double(from));
      list[100] += 3;
      const Tensor positions(DType::i64, {kRows}, list);
      for (const TensorView& given : {TensorView(), TensorView(positions)}) {
        const int64_t offset = given.absent() ? from : 0;
        RopeDescriptor d{.dtype = t, .shape = two.shape(), .pairing = pairing, .rotary_dim = rotary};
        Tensor want(t, two.shape()), back(t, two.shape()), y(t, one.shape), dx(t, one.shape);
        ASSERT_OK(run_plan<Rope>(d, {two, given, want, offset}));
        ASSERT_OK(run_plan<RopeBackward>(d, {two, given, back, offset}));
        d.shape = one.shape;
        ASSERT_OK(run_plan<Rope>(d, {one, given, y, offset}));
        ASSERT_OK(run_plan<RopeBackward>(d, {one, given, dx, offset}));
        const size_t bytes = size_t(kRows * kWidth) * byte_size(t);
        EXPECT_EQ(std::memcmp(y.view().data, want.view().data, bytes), 0);
        EXPECT_EQ(std::memcmp(dx.view().data, back.view().data, bytes), 0);
        EXPECT_TRUE(y.guards_intact() && dx.guards_intact());
      }
    }
}
TEST(Rope, LargerThanTheCaches) {
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  for (DType t : {DType::f32, DType::bf16})
    for (RopePairing pairing : {RopePairing::half_split, RopePairing::interleaved}) {
      const RopeDescriptor d{.dtype = t, .shape = {2, t == DType::f32 ? 16 : 32, 1601, 128}, .pairing = pairing};
      Large x(t, d.shape), y(t, d.shape), off(t, d.shape, 1);
      EXPECT_TRUE(past_caches(y, x.view().data));
      const int64_t row = 128 * int64_t(byte_size(t));
      for (bool subnormal : {false, true}) {  // here and there a row of subnormal values, which turn into such
        for (int64_t r = 5; subnormal && r < d.shape.numel() / 128; r += 4001)
          for (int64_t i = 0; i < 128; ++i) write_element(t, x.view().as<char>() + r * row + i * row / 128, double(i - 64) * 0x1p-132);
        ASSERT_OK(run_plan<Rope>(d, {x, {}, y, 7}));
        ASSERT_OK(run_plan<Rope>(d, {x, {}, off, 7}));
        EXPECT_TRUE(y.same_bits(off)) << name(t);
      }
      TensorView inside[] = {x, y, off};  // memory as [B, S, H, D]
      for (TensorView& v : inside) v.strides = {d.shape[1] * d.shape[2] * 128, 128, d.shape[1] * 128, 1};
      ASSERT_OK(run_plan<Rope>(d, {inside[0], {}, inside[1], 7}));
      ASSERT_OK(run_plan<Rope>(d, {inside[0], {}, inside[2], 7}));
      EXPECT_TRUE(y.same_bits(off)) << name(t);
      RopeDescriptor one = d;  // a single head
      one.shape = {1, 1, d.shape.numel() / 128, 128};
      TensorView from = x, to = y, apart = off;
      for (TensorView* v : {&from, &to, &apart}) *v = TensorView::dense(v->data, t, one.shape);
      ASSERT_OK(run_plan<Rope>(one, {from, {}, to, 7}));
      ASSERT_OK(run_plan<Rope>(one, {from, {}, apart, 7}));
      EXPECT_TRUE(y.same_bits(off)) << name(t);
    }
}
TEST(KvCacheAppend, LargerThanTheCaches) {
  if (on_cuda()) GTEST_SKIP() << "stores past the caches are the CPU's";
  for (DType t : {DType::f32, DType::bf16}) {  // of bf16 keys and values are large together
    const int64_t size = int64_t(byte_size(t)), capacity = t == DType::f32 ? 3301 : 6600;
    const Shape shape{1, 16, 3300, 128}, cache{1, 16, capacity, 128};
    Large x(t, shape), y(t, cache), off(t, cache, 1), v(t, cache);
    ASSERT_TRUE(past_caches(y, nullptr));
    const KvCacheAppendDescriptor d{t, 1, 16, 3300, capacity, 128, {}};
    ASSERT_OK(run_plan<KvCacheAppend>(d, {x, x, {}, y, v, 1}));
    ASSERT_OK(run_plan<KvCacheAppend>(d, {x, x, {}, off, v, 1}));
    EXPECT_TRUE(y.same_bits(off));
    for (const Large* into : {&y, &v})
      for (int64_t h = 0; h < 16; ++h)
        EXPECT_EQ(std::memcmp(into->view().as<char>() + (h * capacity + 1) * 128 * size, x.view().as<char>() + h * 3300 * 128 * size, size_t(3300 * 128 * size)), 0);
  }
}

}  // namespace
}  // namespace baracuda
