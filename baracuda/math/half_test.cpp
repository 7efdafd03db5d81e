// f16 and bf16: all 65536 values, and narrowing against a search in exact arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "baracuda/math/element.hpp"
#include "baracuda/math/half.hpp"
#include "baracuda/math/math_table.hpp"

namespace {
using namespace baracuda;

// The value of a half from its fields, in double: sign, exponent, fraction.
template <class T> double value(uint16_t bits) {
  constexpr int fraction = std::is_same_v<T, f16> ? 10 : 7, exponent_bits = 15 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
  const int e = bits >> fraction & ((1 << exponent_bits) - 1), m = bits & ((1 << fraction) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (e == (1 << exponent_bits) - 1) return m ? std::nan("") : sign * INFINITY;
  return sign * (e ? std::ldexp(m + (1 << fraction), e - bias - fraction) : std::ldexp(m, 1 - bias - fraction));
}
template <class T> bool is_nan_half(uint16_t bits) { return std::isnan(value<T>(bits)); }

// Nearest half, ties to the even pattern: the two neighbours are found by bisection over the ordered positive patterns.
template <class T> uint16_t nearest(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(x);
  const uint16_t infinity = std::is_same_v<T, f16> ? 0x7c00 : 0x7f80;
  int lo = 0, hi = infinity;  // value(lo) <= a, value(hi) > a
  if (std::isinf(a)) return sign | infinity;
  while (hi - lo > 1) {
    const int mid = (lo + hi) / 2;
    (value<T>(uint16_t(mid)) <= a ? lo : hi) = mid;
  }
  const double below = value<T>(uint16_t(lo)), step = below - value<T>(uint16_t(lo ? lo - 1 : 0));
  // The neighbour of the largest finite value counts as one more step of the same size.
  const double above = hi == infinity ? below + step : value<T>(uint16_t(hi));
  const double down = a - below, up = above - a;
  return sign | uint16_t(down < up ? lo : up < down ? hi : lo % 2 == 0 ? lo : hi);
}

template <class T> class Half : public testing::Test {};
using HalfTypes = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Half, HalfTypes);

TYPED_TEST(Half, all_values_widen_exactly_and_come_back) {
  using T = TypeParam;
  for (int i = 0; i < 65536; ++i) {
    const T h{uint16_t(i)};
    const float f = to_float(h);
    if (is_nan_half<T>(uint16_t(i))) {
      ASSERT_TRUE(std::isnan(f)) << i;
      ASSERT_TRUE(is_nan_half<T>(from_float<T>(f).bits)) << i;
      continue;
    }
    ASSERT_EQ(f, value<T>(uint16_t(i))) << i;
    ASSERT_EQ(std::signbit(f), i >= 32768) << i;
    ASSERT_EQ(from_float<T>(f).bits, i);
    ASSERT_EQ(from_double<T>(double(f)).bits, i);
    ASSERT_EQ(to_double(h), double(f));
  }
}

std::vector<float> sweep() {
  std::vector<float> x;
  for (int64_t i = 0; i < int64_t(1) << 32; i += 1021) x.push_back(std::bit_cast<float>(uint32_t(i)));
  return x;
}
// Each half, each midpoint between neighbours, and the values next to them.
template <class T> std::vector<double> ties() {
  std::vector<double> x;
  const int infinity = std::is_same_v<T, f16> ? 0x7c00 : 0x7f80;
  for (int i = 0; i < infinity; ++i) {
    const double a = value<T>(uint16_t(i)), b = i + 1 < infinity ? value<T>(uint16_t(i + 1)) : 2 * a - value<T>(uint16_t(i - 1));
    for (double m : {a, (a + b) / 2, b})
      for (double s : {1.0, -1.0}) {
        x.push_back(s * m);
        x.push_back(s * std::nextafter(m, INFINITY));
        x.push_back(s * std::nextafter(m, 0.0));
      }
  }
  return x;
}

TYPED_TEST(Half, narrowing_rounds_to_nearest_even) {
  using T = TypeParam;
  for (float x : sweep()) {
    if (std::isnan(x)) ASSERT_TRUE(is_nan_half<T>(from_float<T>(x).bits));
    else ASSERT_EQ(from_float<T>(x).bits, nearest<T>(double(x))) << x;
  }
  for (double x : ties<T>()) {
    ASSERT_EQ(from_double<T>(x).bits, nearest<T>(x)) << std::hexfloat << x;
    ASSERT_EQ(from_float<T>(float(x)).bits, nearest<T>(double(float(x)))) << std::hexfloat << x;
  }
}
TYPED_TEST(Half, doubles_round_once) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  for (int i = 0; i < 300000; ++i) {
    const double x = std::bit_cast<double>(random());
    if (std::isnan(x)) continue;
    ASSERT_EQ(from_double<T>(x).bits, nearest<T>(x)) << std::hexfloat << x;
    const double near = std::ldexp(std::bit_cast<double>((random() >> 12) | 0x3ff0000000000000), int(random() % 60) - 45);
    ASSERT_EQ(from_double<T>(near).bits, nearest<T>(near)) << std::hexfloat << near;
  }
  // Once past a tie by less than a float can show.
  const double one_past_tie = 1 + (std::is_same_v<T, f16> ? 0x1p-11 : 0x1p-8) + 0x1p-50;
  EXPECT_EQ(from_double<T>(one_past_tie).bits, from_float<T>(1).bits + 1);
}
TYPED_TEST(Half, constant_expressions) {
  using T = TypeParam;
  static_assert(to_float(from_float<T>(1.5f)) == 1.5f);
  static_assert(to_float(from_double<T>(-0.25)) == -0.25f);
  SUCCEED();
}

// The vector paths against the scalar ones, bit for bit, NaN payloads aside.
TEST(HalfVectors, equal_the_scalar_conversions) {
  struct Set { const char* name; const MathTable* table; };
  std::vector<Set> sets = {{"portable", &portable::math_table}};
#ifndef BARACUDA_WITHOUT_AVX2
  if (isa() >= Isa::avx2) sets.push_back({"avx2", &avx2::math_table});
#endif
  if (isa() >= Isa::avx512) sets.push_back({"avx512", &avx512::math_table});
  const std::vector<float> x = [] {
    std::vector<float> v = sweep();
    for (double t : ties<f16>()) v.push_back(float(t));
    for (double t : ties<bf16>()) v.push_back(float(t));
    return v;
  }();
  for (const Set& set : sets) {
    std::vector<f16> h(65536), f(x.size() + 1);
    std::vector<bf16> b(65536), g(x.size() + 1);
    std::vector<float> wide(65536);
    for (int i = 0; i < 65536; ++i) h[i].bits = b[i].bits = uint16_t(i);
    set.table->widen_f16(h.data(), wide.data(), 65536);
    for (int i = 0; i < 65536; ++i)
      ASSERT_TRUE(std::isnan(wide[i]) ? std::isnan(to_float(h[i])) : std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(to_float(h[i]))) << set.name << i;
    set.table->widen_bf16(b.data(), wide.data(), 65536);
    for (int i = 0; i < 65536; ++i)
      ASSERT_TRUE(std::isnan(wide[i]) ? std::isnan(to_float(b[i])) : std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(to_float(b[i]))) << set.name << i;
    f.back().bits = g.back().bits = 0xabcd;
    set.table->narrow_f16(x.data(), f.data(), int64_t(x.size()));
    set.table->narrow_bf16(x.data(), g.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) ASSERT_TRUE(is_nan_half<f16>(f[i].bits) && is_nan_half<bf16>(g[i].bits)) << set.name;
      else ASSERT_TRUE(f[i].bits == from_float<f16>(x[i]).bits && g[i].bits == from_float<bf16>(x[i]).bits) << set.name << ' ' << x[i];
    }
    EXPECT_EQ(f.back().bits, 0xabcd) << set.name;
    EXPECT_EQ(g.back().bits, 0xabcd) << set.name;
    // Tails: any count, nothing behind it touched.
    for (int n = 0; n < 40; ++n) {
      std::vector<f16> tail(n + 1, f16{0xabcd});
      std::vector<bf16> tail_b(n + 1, bf16{0xabcd});
      set.table->narrow_f16(x.data() + 77, tail.data(), n);
      set.table->narrow_bf16(x.data() + 77, tail_b.data(), n);
      for (int i = 0; i < n; ++i)
        ASSERT_TRUE(tail[i].bits == from_float<f16>(x[77 + i]).bits && tail_b[i].bits == from_float<bf16>(x[77 + i]).bits);
      ASSERT_TRUE(tail[n].bits == 0xabcd && tail_b[n].bits == 0xabcd) << set.name << ' ' << n;
      std::vector<float> out(n + 1, -7.0f);
      set.table->widen_f16(h.data() + 15000, out.data(), n);
      for (int i = 0; i < n; ++i) ASSERT_EQ(out[i], to_float(h[15000 + i]));
      ASSERT_EQ(out[n], -7.0f);
    }
  }
}

TEST(CastElement, floats_to_integers_saturate_and_nan_is_zero) {
  EXPECT_EQ((cast_element<int8_t>(127.9f)), 127);
  EXPECT_EQ((cast_element<int8_t>(1e9f)), 127);
  EXPECT_EQ((cast_element<int8_t>(-1e9)), -128);
  EXPECT_EQ((cast_element<uint8_t>(-3.0f)), 0);
  EXPECT_EQ((cast_element<int32_t>(2147483648.0f)), 2147483647);
  EXPECT_EQ((cast_element<int64_t>(9.3e18)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((cast_element<uint64_t>(1.9e19)), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ((cast_element<int64_t>(std::nan(""))), 0);
  EXPECT_EQ((cast_element<int32_t>(-2.7f)), -2);
  EXPECT_EQ((cast_element<int32_t>(from_float<bf16>(INFINITY))), 2147483647);
  EXPECT_EQ((cast_element<int8_t>(int32_t(300))), 44);
  EXPECT_EQ((cast_element<bool>(0.5f)), true);
  EXPECT_EQ((cast_element<bool>(std::nan(""))), true);
  EXPECT_EQ((cast_element<bool>(from_float<f16>(-0.0f))), false);
}
TEST(CastElement, integers_to_halves_round_once) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 200000; ++i) {
    const int64_t v = int64_t(random()) >> (random() % 63);
    const uint64_t u = random() >> (random() % 63);
    // long double holds every 64-bit integer; rounding it to odd at 53 bits keeps what a half needs.
    const auto odd = [](long double x) {
      double d = double(x);
      if ((long double)d != x) {
        if (std::fabs((long double)d) > std::fabs(x)) d = std::nextafter(d, 0.0);
        d = std::bit_cast<double>(std::bit_cast<uint64_t>(d) | 1);
      }
      return d;
    };
    ASSERT_EQ(cast_element<bf16>(v).bits, nearest<bf16>(odd(v))) << v;
    ASSERT_EQ(cast_element<f16>(v).bits, nearest<f16>(odd(v))) << v;
    ASSERT_EQ(cast_element<bf16>(u).bits, nearest<bf16>(odd(u))) << u;
    ASSERT_EQ(cast_element<float>(v), float(v));
  }
}

}  // namespace
