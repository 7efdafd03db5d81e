// Every function of every instruction set against libm (f32 against double, f64 against long double), the promised
// error bounds, the special values, and equal bits between the sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "baracuda/host/thread_team.hpp"
#include "baracuda/math/dual.hpp"
#include "baracuda/math/math_table.hpp"
#include "baracuda/math/value_types_math.hpp"

namespace {
using namespace baracuda;

// Largest error in ulp of the result where argument and result are finite: f32 over all 2^32 arguments, f64 over 3 10^7
// random ones; the tests below take fewer. The policy of the library is at most 2.5.
struct Bound { double f32, f64; };
const std::map<std::string, Bound> kErrorBounds = {
    {"exp", {1.10, 1.07}},     {"expm1", {1.26, 1.34}},   {"exp2", {1.23, 1.19}},  {"log", {0.85, 0.84}},
    {"log1p", {1.39, 1.35}},   {"log2", {0.97, 0.87}},    {"log10", {0.78, 0.75}}, {"tanh", {1.00, 1.05}},
    {"sigmoid", {2.41, 2.38}}, {"erf", {1.07, 1.08}},     {"sin", {0.79, 0.85}},   {"cos", {0.79, 0.83}},
    {"sqrt", {0.50, 0.50}},    {"round_even", {0, 0}},    {"trunc", {0, 0}},       {"floor", {0, 0}},
    {"ceil", {0, 0}},          {"abs", {0, 0}},           {"pow", {1.20, 1.20}}};

template <class L> using Oracle = L (*)(L);
template <class L> Oracle<L> oracle(const std::string& f) {
  static const std::map<std::string, Oracle<L>> all = {
      {"exp", [](L x) { return std::exp(x); }},     {"expm1", [](L x) { return std::expm1(x); }},
      {"exp2", [](L x) { return std::exp2(x); }},   {"log", [](L x) { return std::log(x); }},
      {"log1p", [](L x) { return std::log1p(x); }}, {"log2", [](L x) { return std::log2(x); }},
      {"log10", [](L x) { return std::log10(x); }}, {"tanh", [](L x) { return std::tanh(x); }},
      {"erf", [](L x) { return std::erf(x); }},     {"sin", [](L x) { return std::sin(x); }},
      {"cos", [](L x) { return std::cos(x); }},     {"sqrt", [](L x) { return std::sqrt(x); }},
      {"trunc", [](L x) { return std::trunc(x); }}, {"round_even", [](L x) { return std::nearbyint(x); }},
      {"floor", [](L x) { return std::floor(x); }}, {"ceil", [](L x) { return std::ceil(x); }},
      {"abs", [](L x) { return std::fabs(x); }},    {"sigmoid", [](L x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }}};
  return all.at(f);
}

struct Set { std::string name; const MathTable* table; };
std::vector<Set> sets() {  // those that this processor runs
  std::vector<Set> all = {{"portable", &portable::math_table}};
#ifndef BARACUDA_WITHOUT_AVX2
  if (isa() >= Isa::avx2) all.push_back({"avx2", &avx2::math_table});
#endif
  if (isa() >= Isa::avx512) all.push_back({"avx512", &avx512::math_table});
  return all;
}
template <class T> const MathFunctions<T>& functions(const MathTable& t) {
  if constexpr (sizeof(T) == 4) return t.f32;
  else return t.f64;
}
template <class T> struct Named { const char* name; typename MathFunctions<T>::Unary MathFunctions<T>::*member; };
#define BARACUDA_NAMED(name) {#name, &MathFunctions<T>::name},
template <class T> std::vector<Named<T>> unary() { return {BARACUDA_MATH_UNARY(BARACUDA_NAMED)}; }

template <class T> using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <class T> bool same(T a, T b) {  // NaN payloads are not promised
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
}

// Error in ulp; -1 where a NaN, an infinity or the sign of a zero is wrong.
template <class T, class L> double error(T got, L want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : -1;
  constexpr int p = std::numeric_limits<T>::digits, e_min = std::numeric_limits<T>::min_exponent;
  const L beyond = std::ldexp(L(1), std::numeric_limits<T>::max_exponent);
  if (std::isinf(got)) return std::fabs(want) >= beyond * (1 - std::ldexp(L(1), -p)) && std::signbit(got) == std::signbit(want) ? 0 : -1;
  if (std::isinf(want)) return -1;
  if (want == 0 || got == 0)
    if (std::signbit(got) != std::signbit(want)) return -1;
  if (want == 0 && got != 0) return -1;
  int e = 0;
  std::frexp(want, &e);
  return double(std::ldexp(std::fabs(L(got) - want), p - std::max(e, e_min)));
}

template <class T> const std::vector<T>& special_values() {
  using N = std::numeric_limits<T>;
  static const std::vector<T> values = [] {
    std::vector<T> v = {0, N::denorm_min(), 3 * N::denorm_min(), N::min() / 2, N::min(), N::epsilon() / 4, N::epsilon(), T(0.25),
                        T(0.3), T(0.5), T(0.70710678), T(0.9), T(0.99999994), 1, T(1.0000001), T(1.5), 2, T(2.5), 3, 4, 5, 7, 10,
                        20, 36, 37, 40, 50, 87, 88, T(88.7), 89, 90, 100, 103, 104, 105, 126, 127, 128, 149, 150, 300, 700,
                        709, 710, 745, 746, 1000, 1022, 1023, 1024, 1074, 1075, T(99999), T(131072), T(131073), T(1e6), T(8388607.5),
                        T(8388608), T(16777216), T(1e9), T(1e10), T(4503599627370495.5), T(1e16), T(1e30), T(3e38), N::max(),
                        N::infinity(), N::quiet_NaN()};
    const size_t n = v.size();
    for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
    return v;
  }();
  return values;
}

template <class T> void check_specials() {
  using L = std::conditional_t<sizeof(T) == 4, double, long double>;
  const auto& x = special_values<T>();
  std::vector<T> y(x.size());
  for (const Set& set : sets())
    for (const auto& f : unary<T>()) {
      (functions<T>(*set.table).*f.member)(x.data(), y.data(), int64_t(x.size()));
      const Oracle<L> want = oracle<L>(f.name);
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = error(y[i], want(x[i]));
        EXPECT_TRUE(e >= 0 && e <= kErrorBounds.at(f.name).*(sizeof(T) == 4 ? &Bound::f32 : &Bound::f64))
            << set.name << ' ' << f.name << '(' << x[i] << ") = " << y[i] << ", want " << want(x[i]) << ", ulp " << e;
      }
    }
}
TEST(Math, special_values_f32) { check_specials<float>(); }
TEST(Math, special_values_f64) { check_specials<double>(); }

// Every 257th of all 2^32 floats (a prime step: every exponent, all low bits), each set against the oracle or, for the
// narrower sets, bit for bit against the widest one. Sanitizers take every 4099th.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kStep = 4099;
#else
constexpr int64_t kStep = 257;
#endif
TEST(Math, sweep_f32) {
  constexpr int64_t count = (int64_t(1) << 32) / kStep, block = 8192;
  const auto all = sets();
  const Set best = all.back();
  std::map<std::string, double> worst;
  std::mutex mutex;
  std::string wrong;
  parallel_for(count, block, 0, [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    std::vector<float> x(n), y(n), z(n);
    for (int64_t i = 0; i < n; ++i) x[i] = std::bit_cast<float>(uint32_t((begin + i) * kStep));
    for (const auto& f : unary<float>()) {
      (best.table->f32.*f.member)(x.data(), y.data(), n);
      const Oracle<double> want = oracle<double>(f.name);
      double largest = 0;
      int64_t at = -1;
      for (int64_t i = 0; i < n; ++i) {
        double e = error(y[i], want(double(x[i])));
        if (e < 0) e = 1e30;
        if (e > largest) largest = e, at = i;
      }
      std::string message;
      if (largest > kErrorBounds.at(f.name).f32)
        message = std::string(f.name) + "(" + std::to_string(x[at]) + ") = " + std::to_string(y[at]) + ", ulp " + std::to_string(largest) + '\n';
      for (const Set& set : all) {
        if (set.table == best.table) continue;
        const int64_t m = set.name == "portable" ? n / 16 : n;  // fma is a library call there
        (set.table->f32.*f.member)(x.data(), z.data(), m);
        for (int64_t i = 0; i < m; ++i)
          if (!same(y[i], z[i])) {
            message += set.name + " differs: " + f.name + "(" + std::to_string(x[i]) + ")\n";
            break;
          }
      }
      std::lock_guard lock(mutex);
      worst[f.name] = std::max(worst[f.name], largest);
      if (wrong.size() < 2000) wrong += message;
    }
  });
  EXPECT_EQ(wrong, "");
  for (const auto& [name, ulp] : worst) RecordProperty("worst_ulp_" + name, std::to_string(ulp));
  for (const auto& [name, ulp] : worst) EXPECT_GE(ulp, 0.7 * kErrorBounds.at(name).f32) << name << ": the bound is not tight";
}

// Random in magnitude over the whole range and dense where the functions bend.
std::vector<double> random_doubles(int n) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(-1, 1), exponent(-40, 40);
  std::vector<double> x;
  for (int i = 0; i < n; ++i) {
    x.push_back(unit(random) * 12);
    x.push_back(unit(random) * 760);
    x.push_back(unit(random) * std::exp2(exponent(random)));
    x.push_back(std::bit_cast<double>(random()));
    x.push_back(1 + unit(random) * 0.3);
  }
  return x;
}
TEST(Math, random_f64) {
  const std::vector<double> x = random_doubles(20000);
  const int64_t n = int64_t(x.size());
  std::vector<double> y(n), z(n);
  const auto all = sets();
  for (const auto& f : unary<double>()) {
    (all.back().table->f64.*f.member)(x.data(), y.data(), n);
    const Oracle<long double> want = oracle<long double>(f.name);
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double e = error(y[i], want(x[i]));
      ASSERT_GE(e, 0) << f.name << '(' << x[i] << ") = " << y[i];
      largest = std::max(largest, e);
    }
    EXPECT_LE(largest, kErrorBounds.at(f.name).f64) << f.name;
    RecordProperty(std::string("worst_ulp_") + f.name, std::to_string(largest));
    for (const Set& set : all) {
      (set.table->f64.*f.member)(x.data(), z.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(same(y[i], z[i])) << set.name << ' ' << f.name << ' ' << x[i];
    }
  }
}

template <class T> void check_pow() {
  using L = std::conditional_t<sizeof(T) == 4, double, long double>;
  std::vector<T> a, b;
  for (T u : special_values<T>())
    for (T v : special_values<T>()) a.push_back(u), b.push_back(v);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> unit(0, 1), sign(-1, 1);
  for (int i = 0; i < 200000; ++i) {
    const double base = std::exp2(sign(random) * (i % 2 ? 3 : 100)), largest = sizeof(T) == 4 ? 127 : 1020;
    a.push_back(T(base)), b.push_back(T(sign(random) * largest / std::max(0.05, std::fabs(std::log2(base)))));
    if (i % 5 == 0) a.back() = -a.back(), b.back() = std::nearbyint(b.back());
  }
  const int64_t n = int64_t(a.size());
  std::vector<T> y(n), z(n);
  const auto all = sets();
  functions<T>(*all.back().table).pow(a.data(), b.data(), y.data(), n);
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = error(y[i], std::pow(L(a[i]), L(b[i])));
    EXPECT_GE(e, 0) << "pow(" << a[i] << ", " << b[i] << ") = " << y[i] << ", want " << std::pow(L(a[i]), L(b[i]));
    largest = std::max(largest, e);
  }
  EXPECT_LE(largest, kErrorBounds.at("pow").*(sizeof(T) == 4 ? &Bound::f32 : &Bound::f64));
  testing::Test::RecordProperty("worst_ulp_pow", std::to_string(largest));
  for (const Set& set : all) {
    functions<T>(*set.table).pow(a.data(), b.data(), z.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(same(y[i], z[i])) << set.name << ' ' << a[i] << ' ' << b[i];
  }
}
TEST(Math, pow_f32) { check_pow<float>(); }
TEST(Math, pow_f64) { check_pow<double>(); }

// The classic hard cases of argument reduction: doubles and floats next to multiples of pi/2.
TEST(Math, sin_cos_near_multiples_of_half_pi) {
  std::vector<double> x;
  for (int e = 0; e < 1000; ++e) x.push_back(std::nearbyint(std::ldexp(0.6366197723675814, e)) * 1.5707963267948966);
  x.push_back(6381956970095103.0 * std::ldexp(1.0, 797));  // the double nearest to a multiple of pi/2
  std::vector<float> x32;
  for (int k = 1; k < 200000; ++k) x32.push_back(float(k * 1.5707963267948966));
  x32.push_back(16367173.0f * std::ldexp(1.0f, 72));
  for (const Set& set : sets()) {
    std::vector<double> s(x.size()), c(x.size());
    set.table->f64.sin(x.data(), s.data(), int64_t(x.size()));
    set.table->f64.cos(x.data(), c.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double es = error(s[i], sinl(x[i])), ec = error(c[i], cosl(x[i]));
      EXPECT_TRUE(es >= 0 && es <= kErrorBounds.at("sin").f64 && ec >= 0 && ec <= kErrorBounds.at("cos").f64) << set.name << ' ' << x[i] << ' ' << es << ' ' << ec;
    }
    std::vector<float> s32(x32.size()), c32(x32.size());
    set.table->f32.sin(x32.data(), s32.data(), int64_t(x32.size()));
    set.table->f32.cos(x32.data(), c32.data(), int64_t(x32.size()));
    double worst = 0;
    for (size_t i = 0; i < x32.size(); ++i) {
      const double es = error(s32[i], std::sin(double(x32[i]))), ec = error(c32[i], std::cos(double(x32[i])));
      ASSERT_TRUE(es >= 0 && ec >= 0) << x32[i];
      worst = std::max({worst, es, ec});
    }
    EXPECT_LE(worst, kErrorBounds.at("sin").f32) << set.name;
  }
}

TEST(Math, exact_results) {
  for (const Set& set : sets()) {
    std::vector<float> x, y(400);
    for (int e = -149; e <= 127; ++e) x.push_back(float(e));
    set.table->f32.exp2(x.data(), y.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::ldexp(1.0f, int(x[i]))) << set.name;
    std::vector<float> powers(x.size());
    for (size_t i = 0; i < x.size(); ++i) powers[i] = std::ldexp(1.0f, int(x[i]));
    set.table->f32.log2(powers.data(), y.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i]) << set.name;
  }
}

TEST(Math, max_nan_and_copysign) {
  const auto& v = special_values<float>();
  std::vector<float> a, b;
  for (float p : v)
    for (float q : v) a.push_back(p), b.push_back(q);
  const int64_t n = int64_t(a.size());
  std::vector<float> y(n);
  for (const Set& set : sets()) {
    set.table->f32.max_nan(a.data(), b.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_TRUE(std::isnan(a[i]) || std::isnan(b[i]) ? std::isnan(y[i]) : y[i] == std::max(a[i], b[i])) << a[i] << ' ' << b[i];
    set.table->f32.min_nan(a.data(), b.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_TRUE(std::isnan(a[i]) || std::isnan(b[i]) ? std::isnan(y[i]) : y[i] == std::min(a[i], b[i])) << a[i] << ' ' << b[i];
    set.table->f32.copysign(a.data(), b.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(std::copysign(a[i], b[i])));
  }
}

// Tails take the masked path: same bits as the body, nothing written behind it.
TEST(Math, tails) {
  std::vector<float> x(100), y(101), body(128);
  std::vector<double> xd(100), yd(101), bodyd(128);
  for (int i = 0; i < 100; ++i) xd[i] = x[i] = float(i) * 0.37f - 11;
  for (const Set& set : sets()) {
    set.table->f32.tanh(x.data(), body.data(), 96);
    set.table->f64.tanh(xd.data(), bodyd.data(), 96);
    for (int n = 0; n <= 40; ++n)
      for (int offset : {0, 1, 3}) {
        std::fill(y.begin(), y.end(), -7.0f);
        std::fill(yd.begin(), yd.end(), -7.0);
        set.table->f32.tanh(x.data() + offset, y.data() + offset, n);
        set.table->f64.tanh(xd.data() + offset, yd.data() + offset, n);
        for (int i = 0; i < n; ++i) ASSERT_TRUE(same(y[offset + i], body[offset + i]) && same(yd[offset + i], bodyd[offset + i]));
        ASSERT_TRUE(y[offset + n] == -7 && yd[offset + n] == -7) << set.name << ' ' << n;
      }
  }
}

// Over every half: of f16 and bf16.
TEST(Math, brief_functions) {
  struct Row { const char* name; MathFunctions<float>::Unary MathTable::OfBrief::*member; double (*want)(double); double bound = 0x1p-17; };
  constexpr auto exp_or_zero = [](double x) { return x <= -87 ? 0 : std::exp(x); };
  constexpr auto falling_exp = [](double x) { return x <= -87 ? 0 : x > 0 ? 1 : std::exp(x); };
#define BARACUDA_ROW(name) {#name, &MathTable::OfBrief::name, [](double x) -> double { return std::name(x); }}
  const Row rows[] = {BARACUDA_ROW(exp), BARACUDA_ROW(expm1), BARACUDA_ROW(exp2), BARACUDA_ROW(log), BARACUDA_ROW(log1p), BARACUDA_ROW(log2), BARACUDA_ROW(log10),
                      BARACUDA_ROW(tanh), BARACUDA_ROW(erf), BARACUDA_ROW(sinh), BARACUDA_ROW(cosh), {"sigmoid", &MathTable::OfBrief::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
                      {"exp_for_half", &MathTable::OfBrief::exp_for_half, falling_exp},
                      {"exp_or_zero", &MathTable::OfBrief::exp_or_zero, exp_or_zero, 0x1p-20}};
#undef BARACUDA_ROW
  const auto all = sets();
  for (const bool is_f16 : {true, false}) {
    std::vector<float> x(65536), y(x.size()), z(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = is_f16 ? to_float(f16{uint16_t(i)}) : to_float(bf16{uint16_t(i)});
    for (const Row& row : rows) {
      (all.back().table->brief.*row.member)(x.data(), y.data(), int64_t(x.size()));
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = row.want(x[i]), size = std::fabs(want), got = y[i];
        if (std::isnan(want)) { EXPECT_TRUE(std::isnan(got)) << row.name << ' ' << x[i]; continue; }
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << row.name << ' ' << x[i];
        if (size >= 0x1p128) EXPECT_EQ(std::fabs(got), HUGE_VAL) << row.name << ' ' << x[i];
        else if (size < 0x1p-126) EXPECT_LE(std::fabs(got - want), 0x1p-149 + 0x1p-16 * size) << row.name << ' ' << x[i];
        else worst = std::max(worst, std::fabs(got - want) / size / (1 + 0x1p-7 * std::max(0.0, std::min(std::fabs(double(x[i])), 128.0) - 16)));
      }
      EXPECT_LT(worst, row.bound) << row.name;
      RecordProperty(std::string("bits_") + row.name + (is_f16 ? "_f16" : "_bf16"), std::to_string(-std::log2(worst)));
      for (const Set& set : all) {
        (set.table->brief.*row.member)(x.data(), z.data(), int64_t(x.size()));
        for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same(y[i], z[i])) << set.name << ' ' << row.name << ' ' << x[i];
      }
    }
  }
}

// ---- the value type: one text of a formula, four kinds of V
TEST(ValueType, gelu_on_simd_scalar_and_dual) {
  std::vector<float> x;
  for (float v = -9; v < 9; v += 0.003f) x.push_back(v);
  std::vector<float> y(x.size());
  using Scalar = Pack<float, 1>;
  for (const Set& set : sets()) {
    set.table->gelu(x.data(), y.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(GeluProof{}.fwd(Scalar::of(x[i])).v, y[i])) << set.name << ' ' << x[i];
      const double want = 0.5 * x[i] * (1 + std::erf(x[i] / std::sqrt(2.0)));
      ASSERT_NEAR(y[i], want, 0x1p-22 * (std::fabs(want) + std::fabs(x[i])));
    }
  }
  for (float v : x) {  // the gradient functor against the derivative of the forward one
    const Dual y = GeluProof{}.fwd(Dual(v, 1)), dx = GeluProof{}.bwd(Dual(0.7), Dual(v));
    ASSERT_NEAR(dx.v, 0.7 * y.d, 1e-15) << v;
    ASSERT_NEAR((GeluProof{}.bwd(Pack<double, 1>(0.7), Pack<double, 1>(v)).v), dx.v, 1e-15);
  }
}
TEST(ValueType, cumprod_backward_scan_on_simd_scalar_and_dual) {
  constexpr int n = 33, rows = 32;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-1.5f, 1.5f);
  std::vector<float> dy(n * rows), carry(n * rows), s(n * rows);
  for (auto& v : dy) v = draw(random);
  for (auto& v : carry) v = draw(random);
  carry[5 * rows] = 0;  // a zero factor needs no branch
  for (const Set& set : sets()) {
    set.table->scan(dy.data(), carry.data(), s.data(), n, rows);
    for (int r = 0; r < rows; ++r) {
      Pack<float, 1> want = 0;
      for (int k = n; k-- > 0;) {
        want = CumprodBackwardProof{}.step(Pack<float, 1>::of(dy[k * rows + r]), Pack<float, 1>::of(carry[k * rows + r]), want);
        ASSERT_TRUE(same(want.v, s[k * rows + r])) << set.name << ' ' << k;
      }
    }
  }
  // The recurrence is the gradient of cumprod: with x the factors, sum(dy y) moved along x[j] is y[j - 1] S[j].
  const std::vector<double> x = {1.5, -0.5, 0.0, 2.0, -1.25}, g = {1, -2, 0.5, 3, -1};
  const int m = int(x.size());
  std::vector<double> y(m);
  for (int k = 0; k < m; ++k) y[k] = x[k] * (k ? y[k - 1] : 1);
  Dual sum = 0;
  for (int k = m; k-- > 0;) {
    sum = CumprodBackwardProof{}.step(Dual(g[k]), Dual(k + 1 < m ? x[k + 1] : 0), sum);
    double want = 0;
    Dual p = 1;
    for (int i = 0; i < m; ++i) p = p * Dual(x[i], i == k), want += g[i] * p.d;
    EXPECT_NEAR((k ? y[k - 1] : 1) * sum.v, want, 1e-14) << k;
  }
}

// Dual's derivatives against differences, so that gradient checks stand on tested ground.
TEST(Dual, derivatives) {
  struct Row { const char* name; Dual (*f)(Dual); double lo, hi; };
  const Row rows[] = {{"exp", [](Dual a) { return exp(a); }, -3, 3},         {"expm1", [](Dual a) { return expm1(a); }, -3, 3},
                      {"exp2", [](Dual a) { return exp2(a); }, -3, 3},       {"log", [](Dual a) { return log(a); }, 0.1, 5},
                      {"log1p", [](Dual a) { return log1p(a); }, -0.9, 5},   {"log2", [](Dual a) { return log2(a); }, 0.1, 5},
                      {"log10", [](Dual a) { return log10(a); }, 0.1, 5},    {"tanh", [](Dual a) { return tanh(a); }, -3, 3},
                      {"sigmoid", [](Dual a) { return sigmoid(a); }, -5, 5}, {"erf", [](Dual a) { return erf(a); }, -3, 3},
                      {"sin", [](Dual a) { return sin(a); }, -9, 9},         {"cos", [](Dual a) { return cos(a); }, -9, 9},
                      {"sqrt", [](Dual a) { return sqrt(a); }, 0.1, 9},      {"abs", [](Dual a) { return abs(a); }, -4, -0.1},
                      {"pow", [](Dual a) { return pow(a, a); }, 0.2, 3},     {"fma", [](Dual a) { return fma(a, a, a); }, -2, 2},
                      {"div", [](Dual a) { return (1 + a) / (a - 5); }, -2, 2}};
  std::mt19937 random(1);
  for (const Row& row : rows)
    for (int i = 0; i < 50; ++i) {
      const double x = std::uniform_real_distribution<double>(row.lo, row.hi)(random), h = 1e-6;
      const double want = (row.f(x + h).v - row.f(x - h).v) / (2 * h);
      EXPECT_NEAR(row.f(Dual(x, 1)).d, want, 1e-8 * (1 + std::fabs(want))) << row.name << ' ' << x;
    }
}

}  // namespace
