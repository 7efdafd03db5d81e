#include "baracuda/ops/position/position.hpp"
#include <cmath>
#include <numeric>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

// The oracle: long double powers, sines and cosines, straight from the formula.
long double frequency(const RopeDescriptor& d, int64_t i) {
  const int64_t rotary = d.rotary_dim.value_or(d.shape[3]);
  const long double f = powl((long double)d.theta, -2.0L * i / rotary), pi = acosl(-1.0L);
  if (d.scaling == RopeScaling::none) return f;
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
          o.scale[ia] = o.scale[ib] = std::fabs(a) + std::fabs(c);
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

}  // namespace
}  // namespace baracuda
