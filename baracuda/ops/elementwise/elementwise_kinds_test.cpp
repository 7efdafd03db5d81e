// Kinds beyond one float in, one float out: predicates, integers, bits, three operands, and special values by name.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/elementwise_oracle.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType kIntegers[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};

// ---- integers: every value of i8 against every value of i8, and their extremes in the wide types, in 128 bits
using Wide = __int128;
template <class T> Wide wrapped(Wide v) { return Wide(T(v)); }
Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
// False where the kind is not of integers.
template <class T> bool want_binary(BinaryKind k, Wide a, Wide b, Wide& y) {
  const int bits = 8 * sizeof(T);
  switch (k) {
    case BinaryKind::add: y = wrapped<T>(a + b); return true;
    case BinaryKind::sub: y = wrapped<T>(a - b); return true;
    case BinaryKind::mul: y = wrapped<T>(Wide((unsigned __int128)a * (unsigned __int128)b)); return true;
    case BinaryKind::maximum: case BinaryKind::fmax: case BinaryKind::clamp_min: y = a > b ? a : b; return true;
    case BinaryKind::minimum: case BinaryKind::fmin: case BinaryKind::clamp_max: y = a < b ? a : b; return true;
    case BinaryKind::div_trunc: y = b == 0 ? wrapped<T>(-1) : wrapped<T>(a / b); return true;
    case BinaryKind::floor_divide: y = b == 0 ? wrapped<T>(-1) : wrapped<T>(floor_of(a, b)); return true;
    case BinaryKind::fmod: y = b == 0 ? a : a % b; return true;
    case BinaryKind::remainder: y = b == 0 ? a : a - floor_of(a, b) * b; return true;
    case BinaryKind::heaviside: y = a == 0 ? b : a > 0 ? 1 : 0; return true;
    case BinaryKind::pow: {
      if (b < 0) y = a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
      else {
        y = 1;
        for (Wide i = 0, n = b > 300 ? 300 : b; i < n; ++i) y = wrapped<T>(y * a);
        if (b > 300) {  // by squaring, in another order than the kernel: from the top bit
          y = 1;
          for (int i = 63; i >= 0; --i) y = wrapped<T>(wrapped<T>(y * y) * (b >> i & 1 ? a : 1));
        }
      }
      return true;
    }
    case BinaryKind::eq: y = a == b; return true;
    case BinaryKind::ne: y = a != b; return true;
    case BinaryKind::lt: y = a < b; return true;
    case BinaryKind::le: y = a <= b; return true;
    case BinaryKind::gt: y = a > b; return true;
    case BinaryKind::ge: y = a >= b; return true;
    case BinaryKind::logical_and: y = a != 0 && b != 0; return true;
    case BinaryKind::logical_or: y = a != 0 || b != 0; return true;
    case BinaryKind::logical_xor: y = (a != 0) != (b != 0); return true;
    case BinaryKind::bitwise_and: y = wrapped<T>(a & b); return true;
    case BinaryKind::bitwise_or: y = wrapped<T>(a | b); return true;
    case BinaryKind::bitwise_xor: y = wrapped<T>(a ^ b); return true;
    case BinaryKind::bitwise_left_shift: y = b < 0 || b >= bits ? 0 : wrapped<T>(a << int(b)); return true;
    case BinaryKind::bitwise_right_shift: y = b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> int(b); return true;
    case BinaryKind::shift_right_logical: y = b < 0 || b >= bits ? 0 : wrapped<T>(Wide(std::make_unsigned_t<T>(a)) >> int(b)); return true;
    case BinaryKind::mulhi: y = sizeof(T) < 8 || a < 0 || b < 0 ? a * b >> bits : Wide((unsigned __int128)a * (unsigned __int128)b >> bits); return true;
    case BinaryKind::gcd: case BinaryKind::lcm: {
      Wide u = a < 0 ? -a : a, v = b < 0 ? -b : b;
      while (v) { const Wide r = u % v; u = v, v = r; }
      if (k == BinaryKind::gcd) y = wrapped<T>(u);
      else {
        y = u == 0 ? 0 : wrapped<T>(wrapped<T>(a / (wrapped<T>(u) == 0 ? 1 : wrapped<T>(u))) * b);
        if (y < 0) y = wrapped<T>(-y);
      }
      return true;
    }
    default: return false;
  }
}
template <class T> bool want_unary(UnaryKind k, Wide x, Wide& y) {
  const int bits = 8 * sizeof(T);
  const unsigned long long u = std::make_unsigned_t<T>(x);
  switch (k) {
    case UnaryKind::neg: y = wrapped<T>(-x); return true;
    case UnaryKind::abs: y = wrapped<T>(x < 0 ? -x : x); return true;
    case UnaryKind::square: y = wrapped<T>(x * x); return true;
    case UnaryKind::cube: y = wrapped<T>(wrapped<T>(x * x) * x); return true;
    case UnaryKind::pow_scalar: y = wrapped<T>(x * x); return true;  // 2.5 is cut to 2
    case UnaryKind::sign: case UnaryKind::sgn: y = x > 0 ? 1 : x < 0 ? -1 : 0; return true;
    case UnaryKind::real: case UnaryKind::conj: y = x; return true;
    case UnaryKind::step: y = x > 0; return true;
    case UnaryKind::relu: y = x > 0 ? x : 0; return true;
    case UnaryKind::clamp: y = x < 0 ? 0 : x > 1 ? 1 : x; return true;  // of [-0.75, 1.25], cut towards zero
    case UnaryKind::floor: case UnaryKind::ceil: case UnaryKind::round: case UnaryKind::trunc: y = x; return true;
    case UnaryKind::logical_not: y = x == 0; return true;
    case UnaryKind::isnan: case UnaryKind::isinf: case UnaryKind::isposinf: case UnaryKind::isneginf: y = 0; return true;
    case UnaryKind::isfinite: case UnaryKind::isreal: y = 1; return true;
    case UnaryKind::signbit: y = x < 0; return true;
    case UnaryKind::bitwise_not: y = wrapped<T>(~x); return true;
    case UnaryKind::population_count: y = std::popcount(u); return true;
    case UnaryKind::clz: y = std::countl_zero(u) - (64 - bits); return true;
    case UnaryKind::ctz: y = u ? std::countr_zero(u) : bits; return true;
    default: return false;
  }
}
template <class T> std::vector<T> interesting() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> v;
  if (sizeof(T) == 1)
    for (int i = 0; i < 256; ++i) v.push_back(T(i));
  else {
    for (int i = -9; i <= 70; ++i) v.push_back(T(i));
    for (int i = 0; i < 4; ++i) v.push_back(T(Limits::max() - i)), v.push_back(T(Limits::min() + i)), v.push_back(T(Limits::max() / 2 + i));
    Source source(sizeof(T));
    for (int i = 0; i < 40; ++i) v.push_back(T(source.next() >> (source.next() % 64)));
  }
  return v;
}
template <class T> void check_integers() {
  const std::vector<T> v = interesting<T>();
  const int64_t n = int64_t(v.size());
  const DType t = kDTypeOf<T>;
  std::vector<T> y(size_t(n * n));
  std::vector<uint8_t> mask(size_t(n * n));
  const TensorView rows = TensorView::dense(v.data(), {n, 1}), columns = TensorView::dense(v.data(), {n});
  for (int k = 0; k < kBinaryKinds; ++k) {
    const BinaryKind kind = BinaryKind(k);
    Wide want = 0;
    const bool known = want_binary<T>(kind, 1, 1, want), predicate = result_dtype(kind, t) == DType::boolean;
    EXPECT_EQ(known, takes(kind, t)) << enum_name(kind) << " " << name(t);
    if (!known) continue;
    const TensorView out = predicate ? TensorView::dense(mask.data(), DType::boolean, {n, n}) : TensorView::dense(y.data(), {n, n});
    ASSERT_OK(run_plan<Binary>({kind, t, {n, 1}, {n}}, {rows, columns, out}));
    for (int64_t i = 0, wrong = 0; i < n * n && wrong < 3; ++i) {
      const T a = v[size_t(i / n)], b = v[size_t(i % n)];
      want_binary<T>(kind, a, b, want);
      const Wide got = predicate ? Wide(mask[size_t(i)]) : Wide(y[size_t(i)]);
      if (got != want) ++wrong, ADD_FAILURE() << enum_name(kind) << " " << name(t) << " of " << +a << " and " << +b << ": " << int64_t(got) << ", want " << int64_t(want);
    }
  }
  for (int k = 0; k < kUnaryKinds; ++k) {
    const UnaryKind kind = UnaryKind(k);
    Wide want = 0;
    const bool known = want_unary<T>(kind, 1, want), predicate = result_dtype(kind, t) == DType::boolean;
    EXPECT_EQ(known, takes(kind, t)) << enum_name(kind) << " " << name(t);
    if (!known) continue;
    const TensorView out = predicate ? TensorView::dense(mask.data(), DType::boolean, {n}) : TensorView::dense(y.data(), {n});
    ASSERT_OK(run_plan<Unary>(describe(kind, t, {n}), {columns, out}));
    for (int64_t i = 0; i < n; ++i) {
      want_unary<T>(kind, v[size_t(i)], want);
      const Wide got = predicate ? Wide(mask[size_t(i)]) : Wide(y[size_t(i)]);
      EXPECT_TRUE(got == want) << enum_name(kind) << " " << name(t) << " of " << +v[size_t(i)] << ": " << int64_t(got) << ", want " << int64_t(want);
    }
  }
}
TEST(ElementwiseKinds, IntegersAreExact) {
  check_integers<int8_t>(), check_integers<uint8_t>(), check_integers<int16_t>(), check_integers<uint16_t>();
  check_integers<int32_t>(), check_integers<uint32_t>(), check_integers<int64_t>(), check_integers<uint64_t>();
}
TEST(ElementwiseKinds, Bools) {
  const Tensor a(DType::boolean, {4}, {0, 0, 1, 1}), b(DType::boolean, {4}, {0, 1, 0, 1});
  const struct { BinaryKind kind; std::vector<double> y; } cases[] = {
      {BinaryKind::add, {0, 1, 1, 1}}, {BinaryKind::mul, {0, 0, 0, 1}}, {BinaryKind::maximum, {0, 1, 1, 1}}, {BinaryKind::minimum, {0, 0, 0, 1}},
      {BinaryKind::eq, {1, 0, 0, 1}}, {BinaryKind::ne, {0, 1, 1, 0}}, {BinaryKind::lt, {0, 1, 0, 0}}, {BinaryKind::le, {1, 1, 0, 1}},
      {BinaryKind::gt, {0, 0, 1, 0}}, {BinaryKind::ge, {1, 0, 1, 1}}, {BinaryKind::logical_and, {0, 0, 0, 1}}, {BinaryKind::logical_or, {0, 1, 1, 1}},
      {BinaryKind::logical_xor, {0, 1, 1, 0}}, {BinaryKind::bitwise_and, {0, 0, 0, 1}}, {BinaryKind::bitwise_or, {0, 1, 1, 1}}, {BinaryKind::bitwise_xor, {0, 1, 1, 0}}};
  int served = 0;
  for (const auto& c : cases) {
    Tensor y(DType::boolean, {4});
    ASSERT_OK(run_plan<Binary>({c.kind, DType::boolean, {4}, {4}}, {a, b, y}));
    EXPECT_EQ(y.values(), c.y) << enum_name(c.kind);
  }
  for (int k = 0; k < kBinaryKinds; ++k) served += takes(BinaryKind(k), DType::boolean);
  EXPECT_EQ(served, int(std::size(cases)));
  for (UnaryKind k : {UnaryKind::logical_not, UnaryKind::bitwise_not}) {
    Tensor y(DType::boolean, {4});
    ASSERT_OK(run_plan<Unary>({k, DType::boolean, {4}}, {a, y}));
    EXPECT_EQ(y.values(), (std::vector<double>{1, 1, 0, 0})) << enum_name(k);
  }
}

// ---- floats
TEST(ElementwiseKinds, PredicatesOfSpecialValues) {
  const std::vector<double> values = {0.0, -0.0, 1.5, -1.5, INFINITY, -INFINITY, NAN, -NAN, 0.5, 1.5};
  const int64_t n = int64_t(values.size());
  for (DType t : kFloats) {
    const Tensor x(t, {n}, values), rows(t, {n, 1}, values);
    for (int k = 0; k < kUnaryKinds; ++k) {
      const UnaryKind kind = UnaryKind(k);
      if (!takes(kind, t) || result_dtype(kind, t) != DType::boolean) continue;
      Tensor y(DType::boolean, {n});
      ASSERT_OK(run_plan<Unary>({kind, t, {n}}, {x, y}));
      for (int64_t i = 0; i < n; ++i)  // read as a double a half's NaN has no sign
        if (kind != UnaryKind::signbit || !std::isnan(x.at(i))) EXPECT_EQ(y.at(i), oracle<double>(kind, x.at(i), {})) << enum_name(kind) << " " << name(t) << " at " << x.at(i);
    }
    for (int k = 0; k < kBinaryKinds; ++k) {
      const BinaryKind kind = BinaryKind(k);
      if (!takes(kind, t) || result_dtype(kind, t) != DType::boolean) continue;
      Tensor y(DType::boolean, {n, n});
      ASSERT_OK(run_plan<Binary>(describe(kind, t, {n, 1}, {n}), {rows, x, y}));
      for (int64_t i = 0; i < n * n; ++i)
        EXPECT_EQ(y.at(i), oracle<double>(kind, x.at(i / n), x.at(i % n), used_parameters(kind))) << enum_name(kind) << " " << name(t) << " " << x.at(i / n) << " " << x.at(i % n);
    }
  }
}
template <class T, class U> void check_nextafter() {
  using Limits = std::numeric_limits<float>;
  std::vector<double> values = {0.0, -0.0, 1, -1, 1.5, INFINITY, -INFINITY, NAN, Limits::min(), 3};
  const int64_t n = int64_t(values.size());
  const DType t = kDTypeOf<T>;
  const Tensor a(t, {n, 1}, values), b(t, {n}, values);
  Tensor y(t, {n, n});
  ASSERT_OK(run_plan<Binary>({BinaryKind::nextafter, t, {n, 1}, {n}}, {a, b, y}));
  for (int64_t i = 0; i < n * n; ++i) {
    const double u = a.at(i / n), v = b.at(i % n), got = y.at(i);
    if (std::isnan(u) || std::isnan(v)) { EXPECT_TRUE(std::isnan(got)); continue; }
    if (u == v) { EXPECT_EQ(got, v); EXPECT_EQ(std::signbit(got), std::signbit(v)); continue; }
    EXPECT_EQ(got > u, v > u) << name(t) << " " << u << " " << v;
    // Nothing between: the middle rounds to one of the two.
    const double middle = std::isinf(got) || std::isinf(u) ? u : u + (got - u) / 2;
    if (!std::isinf(got) && !std::isinf(u)) EXPECT_TRUE(rounded(t, middle) == u || rounded(t, middle) == got) << name(t) << " " << u << " " << v << " " << got;
  }
}
// Every half in other lanes of vectors each time, and tails of vectors.
TEST(ElementwiseKinds, PredicatesOfEveryHalf) {
  for (DType t : {DType::f16, DType::bf16}) {
    const int64_t n = 3 * 65536 + 41;
    Tensor a(t, {n}), b(t, {n}), y(DType::boolean, {n});
    std::vector<double> x(size_t(n), 0), z(x);
    for (int64_t i = 0; i < n; ++i) {
      a.view().as<uint16_t>()[i] = uint16_t(i * 257 + i / 65536), b.view().as<uint16_t>()[i] = uint16_t(i % 3 ? i * 257 : i * 4099);
      x[size_t(i)] = a.at(i), z[size_t(i)] = b.at(i);
    }
    const auto wrong = [&](auto want) {
      int64_t count = 0;
      for (int64_t i = 0; i < n; ++i) count += y.view().as<uint8_t>()[i] != uint8_t(want(x[size_t(i)], z[size_t(i)]));
      return count;
    };
    const auto unary = [&](UnaryKind k, auto want) {
      ASSERT_OK(run_plan<Unary>({k, t, {n}}, {a, y}));
      EXPECT_EQ(wrong([&](double v, double) { return want(v); }), 0) << name(t) << " " << enum_name(k);
    };
    const auto binary = [&](BinaryKind k, auto want) {
      ASSERT_OK(run_plan<Binary>({k, t, {n}, {n}}, {a, b, y}));
      EXPECT_EQ(wrong(want), 0) << name(t) << " " << enum_name(k);
    };
    unary(UnaryKind::isnan, [](double v) { return std::isnan(v); });
    unary(UnaryKind::isinf, [](double v) { return std::isinf(v); });
    unary(UnaryKind::isfinite, [](double v) { return std::isfinite(v); });
    unary(UnaryKind::isneginf, [](double v) { return std::isinf(v) && v < 0; });
    binary(BinaryKind::eq, [](double v, double w) { return v == w; });
    binary(BinaryKind::lt, [](double v, double w) { return v < w; });
  }
}
TEST(ElementwiseKinds, Nextafter) {
  check_nextafter<f16, uint16_t>(), check_nextafter<bf16, uint16_t>(), check_nextafter<float, uint32_t>();
  const struct { double a, b; } pairs[] = {{0, 1}, {-0.0, -1}, {1, 2}, {1, 0}, {-1, 5}, {1e308, INFINITY}, {INFINITY, 0}, {0x1p-1022, 0}, {0x1p-1074, -1}};
  for (const auto& p : pairs) {
    double y = 0;
    ASSERT_OK(run_plan<Binary>({BinaryKind::nextafter, DType::f64, {}, {}}, {TensorView::dense(&p.a, {}), TensorView::dense(&p.b, {}), TensorView::dense(&y, {})}));
    EXPECT_EQ(std::bit_cast<uint64_t>(y), std::bit_cast<uint64_t>(std::nextafter(p.a, p.b))) << p.a << " " << p.b;
  }
}
// atan2, hypot, the remainders and divisions against libm, special values and huge quotients included; exact where libm is.
template <class T> void check_pairs() {
  std::vector<double> values = {0.0, -0.0, 1, -1, 0.75, -2.5, 3, 1e-30, -1e30, INFINITY, -INFINITY, NAN, std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max(),
                                std::numeric_limits<T>::min(), 1e20, 5e-39, 7, 0.1, 123456.789};
  Source source(8);
  for (int i = 0; i < 60; ++i) values.push_back(source.normal() * std::exp2(30 * source.normal()));
  const int64_t n = int64_t(values.size());
  const DType t = kDTypeOf<T>;
  const Tensor a(t, {n, 1}, values), b(t, {n}, values);
  for (BinaryKind kind : {BinaryKind::atan2, BinaryKind::hypot, BinaryKind::fmod, BinaryKind::remainder, BinaryKind::copysign, BinaryKind::div_trunc, BinaryKind::fmax, BinaryKind::fmin,
                          BinaryKind::logaddexp, BinaryKind::logaddexp2, BinaryKind::xlogy, BinaryKind::xlog1py, BinaryKind::heaviside, BinaryKind::maximum, BinaryKind::clamp_min, BinaryKind::clamp_max}) {
    Tensor y(t, {n, n});
    ASSERT_OK(run_plan<Binary>({kind, t, {n, 1}, {n}}, {a, b, y}));
    int shown = 0;
    for (int64_t i = 0; i < n * n && shown < 5; ++i) {
      const long double u = a.at(i / n), v = b.at(i % n), w = oracle<long double>(kind, u, v, {});
      const double got = y.at(i), want = rounded(t, double(w));
      const bool sum = kind == BinaryKind::logaddexp || kind == BinaryKind::logaddexp2, logarithm = kind == BinaryKind::xlogy || kind == BinaryKind::xlog1py;
      const double ulps = sum ? 3 : kind == BinaryKind::atan2 || logarithm ? 2 : kind == BinaryKind::hypot ? 0.51 : 0.501;
      const double room = kind == BinaryKind::div_trunc ? 2 * unit_roundoff(t) * std::fabs(want) + (std::fabs(want) < 1e16 ? 1 : 0)  // the quotient is rounded first
                        : 2 * unit_roundoff(t) * ulps * std::max(std::fabs(want), sum ? double(std::fabs(std::max(u, v))) : 0) + smallest_subnormal(t);
      const bool zero_sign = want != 0 || sum || logarithm || kind == BinaryKind::maximum || kind == BinaryKind::clamp_min || kind == BinaryKind::clamp_max ||
                             kind == BinaryKind::fmax || kind == BinaryKind::fmin || std::signbit(got) == std::signbit(want);
      const bool same = std::isnan(want) ? std::isnan(got) : std::isinf(want) || std::isinf(got) ? got == want : std::fabs(got - double(w)) <= room && zero_sign;
      if (!same) ++shown, ADD_FAILURE() << enum_name(kind) << " " << name(t) << " of " << double(u) << " and " << double(v) << ": " << got << ", want " << double(w);
    }
  }
}
TEST(ElementwiseKinds, PairsOfSpecialValues) { check_pairs<float>(), check_pairs<double>(); }
TEST(ElementwiseKinds, FloorDivide) {
  const Tensor a(DType::f32, {9}, {7, -7, 7, -7, 1, 0, -1, 5, 0.3f}), b(DType::f32, {9}, {2, 2, -2, -2, 0, 0, 0, INFINITY, 0.1f});
  Tensor y(DType::f32, {9});
  ASSERT_OK(run_plan<Binary>({BinaryKind::floor_divide, DType::f32, {9}, {9}}, {a, b, y}));
  EXPECT_CLOSE(y, (std::vector<double>{3, -4, -4, 3, INFINITY, NAN, -INFINITY, 0, 3}), {});  // 0.3f / 0.1f is above 3
}
TEST(ElementwiseKinds, KinksAndBounds) {
  const struct { UnaryKind kind; double x, y, slope; } cases[] = {
      {UnaryKind::clamp, -0.75, -0.75, 1}, {UnaryKind::clamp, 1.25, 1.25, 1}, {UnaryKind::clamp, 2, 1.25, 0}, {UnaryKind::hardtanh, -0.75, -0.75, 0}, {UnaryKind::hardtanh, 1.25, 1.25, 0},
      {UnaryKind::relu6, 0, 0, 0}, {UnaryKind::relu6, 6, 6, 0}, {UnaryKind::hardsigmoid, -3, 0, 0}, {UnaryKind::hardsigmoid, 3, 1, 0}, {UnaryKind::hardswish, -3, 0, 0},
      {UnaryKind::hardswish, 3, 3, 1}, {UnaryKind::hardswish, -INFINITY, 0, 0}, {UnaryKind::hardswish, INFINITY, INFINITY, 1}, {UnaryKind::softsign, INFINITY, 1, 0},
      {UnaryKind::softsign, -INFINITY, -1, 0}, {UnaryKind::mish, -INFINITY, 0, 0}, {UnaryKind::mish, INFINITY, INFINITY, 1}, {UnaryKind::elu, -INFINITY, -1.75, 0},
      {UnaryKind::log_sigmoid, -INFINITY, -INFINITY, 1}, {UnaryKind::log_sigmoid, 1000, 0, 0}, {UnaryKind::log_sigmoid, -1000, -1000, 1}, {UnaryKind::softplus, 1000, 1000, 1},
      {UnaryKind::sign, 0, 0, 0}, {UnaryKind::step, NAN, 0, 0}, {UnaryKind::nan_to_num, NAN, 0.5, 0}, {UnaryKind::nan_to_num, INFINITY, 100, 0}, {UnaryKind::nan_to_num, -INFINITY, -200, 0},
      {UnaryKind::threshold, 0.25, -3, 0}, {UnaryKind::cbrt, -8, -2, 1.0 / 12}, {UnaryKind::cbrt, 0, 0, INFINITY}, {UnaryKind::atan, INFINITY, std::acos(0.0), 0},
      {UnaryKind::asin, 2, NAN, NAN}, {UnaryKind::acosh, 0.5, NAN, NAN}, {UnaryKind::atanh, 1, INFINITY, INFINITY}, {UnaryKind::tanhshrink, INFINITY, INFINITY, 1},
      {UnaryKind::round, 2.5, 2, 0}, {UnaryKind::round, -0.5, 0, 0}, {UnaryKind::frac, -1.25, -0.25, 1}, {UnaryKind::leaky_relu, 0, 0, 1.75}, {UnaryKind::asinh, 1e30, 69.77069997038132, 1e-30}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(enum_name(c.kind), " at ", c.x));
    const Tensor x(DType::f32, {1}, {c.x}), dy(DType::f32, {1}, {1});
    Tensor y(DType::f32, {1}), dx(DType::f32, {1});
    ASSERT_OK(run_plan<Unary>(describe(c.kind, DType::f32, {1}), {x, y}));
    ASSERT_OK(run_plan<UnaryBackward>(describe(c.kind, DType::f32, {1}), {dy, x, y, dx}));
    EXPECT_CLOSE(y, (std::vector<double>{c.y}), {});
    EXPECT_CLOSE(dx, (std::vector<double>{c.slope}), {});
  }
  for (DType t : kFloats) {  // absent: the dtype's own limits
    const Tensor x(t, {3}, {NAN, INFINITY, -INFINITY});
    Tensor y(t, {3});
    ASSERT_OK(run_plan<Unary>({UnaryKind::nan_to_num, t, {3}}, {x, y}));
    EXPECT_TRUE(y.at(0) == 0 && std::isfinite(y.at(1)) && y.at(2) == -y.at(1)) << name(t);
    EXPECT_TRUE(std::isinf(rounded(t, y.at(1) * (1 + 2 * unit_roundoff(t))))) << name(t);
  }
  const Tensor high(DType::f32, {1}, {5}), one(DType::f32, {1}, {1});
  Tensor y(DType::f32, {1});
  ASSERT_OK(run_plan<Unary>({UnaryKind::clamp, DType::f32, {1}, 3.0, 2.0}, {one, y}));  // alpha > beta: beta
  EXPECT_EQ(y.at(0), 2);
}

TEST(ElementwiseKinds, SpecialFunctionsAtTheirEnds) {
  constexpr double inf = INFINITY;
  const struct { UnaryKind kind; double x, y, slope; } cases[] = {
      {UnaryKind::sinc, 0, 1, 0}, {UnaryKind::sinc, -3, 0, 1.0 / 3}, {UnaryKind::sinc, inf, 0, 0}, {UnaryKind::sinc, -inf, 0, 0}, {UnaryKind::sinc, 1e30, 0, 1e-30},
      {UnaryKind::lgamma, 1, 0, -0.57721566490153286}, {UnaryKind::lgamma, 2, 0, 0.42278433509846714}, {UnaryKind::lgamma, 0, inf, -inf}, {UnaryKind::lgamma, -0.0, inf, inf},
      {UnaryKind::lgamma, -3, inf, NAN}, {UnaryKind::lgamma, inf, inf, inf}, {UnaryKind::lgamma, -inf, inf, NAN}, {UnaryKind::lgamma, -1e20, inf, NAN}, {UnaryKind::lgamma, 1e38, inf, 87.498233534},
      {UnaryKind::digamma, 0, -inf, inf}, {UnaryKind::digamma, -0.0, inf, inf}, {UnaryKind::digamma, -1, NAN, inf}, {UnaryKind::digamma, inf, inf, 0}, {UnaryKind::digamma, -inf, NAN, NAN},
      {UnaryKind::erfinv, 0, 0, 0.88622692545275801}, {UnaryKind::erfinv, 1, inf, inf}, {UnaryKind::erfinv, -1, -inf, inf}, {UnaryKind::erfinv, 1.5, NAN, NAN}, {UnaryKind::erfinv, inf, NAN, NAN},
      {UnaryKind::ndtr, inf, 1, 0}, {UnaryKind::ndtr, -inf, 0, 0}, {UnaryKind::ndtri, 0, -inf, inf}, {UnaryKind::ndtri, 1, inf, inf}, {UnaryKind::ndtri, -0.25, NAN, NAN}, {UnaryKind::ndtri, 2, NAN, NAN},
      {UnaryKind::ndtri, 0.5, 0, 2.5066282746310005}, {UnaryKind::log_ndtr, inf, 0, 0}, {UnaryKind::log_ndtr, -inf, -inf, inf}, {UnaryKind::log_ndtr, -1e10, -5e19, 1e10},
      {UnaryKind::log_ndtr, 30, 0, 0}, {UnaryKind::i0, 0, 1, 0}, {UnaryKind::i0, -inf, inf, -inf}, {UnaryKind::i0, 100, inf, inf}, {UnaryKind::i1, 0, 0, 0.5}, {UnaryKind::i1, -inf, -inf, inf},
      {UnaryKind::i1, -100, -inf, inf}, {UnaryKind::i0e, inf, 0, 0}, {UnaryKind::i0e, 0, 1, 0}, {UnaryKind::i1e, -inf, 0, 0}, {UnaryKind::i1e, 0, 0, 0.5},
      {UnaryKind::entr, 0, 0, inf}, {UnaryKind::entr, -1, -inf, NAN}, {UnaryKind::entr, inf, -inf, -inf}, {UnaryKind::log1mexp, 0, -inf, inf}, {UnaryKind::log1mexp, -1, NAN, NAN}, {UnaryKind::log1mexp, inf, 0, 0}};
  for (const auto& c : cases) {
    SCOPED_TRACE(text(enum_name(c.kind), " at ", c.x));
    const Tensor x(DType::f32, {1}, {c.x}), dy(DType::f32, {1}, {1});
    Tensor y(DType::f32, {1}), dx(DType::f32, {1});
    ASSERT_OK(run_plan<Unary>({c.kind, DType::f32, {1}}, {x, y}));
    ASSERT_OK(run_plan<UnaryBackward>({c.kind, DType::f32, {1}}, {dy, x, y, dx}));
    EXPECT_CLOSE(y, (std::vector<double>{c.y}), {});
    EXPECT_CLOSE(dx, (std::vector<double>{c.slope}), {});
  }
}
template <class T> void check_ldexp(int most) {
  std::vector<double> b;
  for (int i = -most; i <= most; ++i) b.push_back(i);
  Source source(6);
  std::vector<T> a = {T(1), T(-1.5), T(0), T(-0.0), std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(), T(INFINITY), T(NAN)};
  for (int i = 0; i < 60; ++i) a.push_back(T(source.normal() * std::exp2(most / 6 * source.normal())));
  const int64_t n = int64_t(a.size()), m = int64_t(b.size());
  const Tensor columns(kDTypeOf<T>, {m}, b);
  std::vector<T> y(size_t(n * m));
  ASSERT_OK(run_plan<Binary>({BinaryKind::ldexp, kDTypeOf<T>, {n, 1}, {m}}, {TensorView::dense(a.data(), {n, 1}), columns, TensorView::dense(y.data(), {n, m})}));
  for (int64_t i = 0, wrong = 0; i < n * m && wrong < 3; ++i) {
    const T want = std::ldexp(a[size_t(i / m)], int(b[size_t(i % m)])), got = y[size_t(i)];
    if (std::isnan(want) ? !std::isnan(got) : got != want || std::signbit(got) != std::signbit(want)) ++wrong, ADD_FAILURE() << a[size_t(i / m)] << " 2^" << b[size_t(i % m)] << ": " << got << ", want " << want;
  }
  const Tensor u(DType::f32, {5}, {0, INFINITY, 3, -2, 1}), v(DType::f32, {5}, {INFINITY, -INFINITY, 0.5, NAN, -INFINITY});
  Tensor z(DType::f32, {5});
  ASSERT_OK(run_plan<Binary>({BinaryKind::ldexp, DType::f32, {5}, {5}}, {u, v, z}));
  EXPECT_CLOSE(z, (std::vector<double>{NAN, NAN, 3 * std::sqrt(2.0), NAN, 0}), {});
}
TEST(ElementwiseKinds, LdexpIsRoundedOnce) { check_ldexp<float>(330), check_ldexp<double>(2250); }
// Where the gradient test above does not go: reflected arguments, both sides of every seam, far tails.
TEST(ElementwiseKinds, SlopesOfSpecialFunctions) {
  const std::vector<double> x = {-7.75, -3.5, -2.0625, -1.25, -0.75, -0.03125, 1e-5, 0.4375, 0.5625, 0.9375, 1.125, 1.4375, 1.9375, 2.0625, 2.9375, 3.0625, 7.9375, 8.0625, 30, 250};
  const int64_t n = int64_t(x.size());
  for (DType t : {DType::f32, DType::f64})
    for (UnaryKind k : {UnaryKind::lgamma, UnaryKind::digamma, UnaryKind::sinc, UnaryKind::log_ndtr, UnaryKind::ndtr, UnaryKind::i0e, UnaryKind::i1e}) {
      SCOPED_TRACE(text(enum_name(k), " ", t));
      const Tensor in(t, {n}, x), dy = Tensor(t, {n}, std::vector<double>(size_t(n), 1));
      Tensor y(t, {n}), dx(t, {n});
      ASSERT_OK(run_plan<Unary>({k, t, {n}}, {in, y}));
      ASSERT_OK(run_plan<UnaryBackward>({k, t, {n}}, {dy, in, y, dx}));
      std::vector<double> want, scale;
      for (int64_t i = 0; i < n; ++i) {
        with_functor(k, [&](auto op) {
          if constexpr (elementwise::kDifferentiable<decltype(op), Dual>) want.push_back(op.fwd(Dual(in.at(i), 1)).d);
        });
        // Reflections and differences of near equals: by their terms.
        const double term = k == UnaryKind::i0e || k == UnaryKind::i1e ? std::fabs(y.at(i)) : k == UnaryKind::lgamma || k == UnaryKind::digamma ? 4 : k == UnaryKind::sinc ? 1 / std::fabs(in.at(i)) : 0;
        scale.push_back(3 * (std::fabs(want.back()) + (in.at(i) > 1e-4 || in.at(i) < 0 ? term : 0)));
      }
      EXPECT_CLOSE(dx, want, {}, &scale);
    }
}

// ---- three operands
void check_ternary(TernaryKind k, DType t, const Shape& sa, const Shape& sb, const Shape& sc, Layout layout) {
  SCOPED_TRACE(text(enum_name(k), " ", t, " ", sa, " ", sb, " ", sc, " layout ", int(layout)));
  const Shape shape = *broadcast_shape("test", sa, sb, sc);
  const bool where = k == TernaryKind::where;
  TernaryDescriptor d{k, t, sa, sb, sc};
  if (parameters(k)) d.alpha = 1.75;
  Source source(9);
  std::vector<double> bits(size_t(sa.numel()));
  for (double& bit : bits) bit = double(source.next() & 1);
  const Tensor a = where ? Tensor(DType::boolean, sa, bits, layout) : Tensor::normal(t, sa, 1, 0, 1, layout), b = Tensor::normal(t, sb, 2, 0, 1, layout),
               c = k == TernaryKind::addcdiv ? Tensor::uniform(t, sc, 3, 0.5, 2, layout) : Tensor::normal(t, sc, 3, 0, 1, layout), dy = Tensor::normal(t, shape, 4);
  Tensor y(t, shape, layout), da(t, sa, layout), db(t, sb, layout), dc(t, sc, layout);
  ASSERT_OK(run_plan<Ternary>(d, {a, b, c, y}));
  ASSERT_OK(run_plan<TernaryBackward>(d, {dy, a, b, c, where ? TensorView{} : da.view(), db, dc}));
  std::vector<double> want, scale, grad[3], grad_scale[3];
  const Shape* shapes[] = {&sa, &sb, &sc};
  for (int o = 0; o < 3; ++o) grad[o].resize(size_t(shapes[o]->numel())), grad_scale[o] = grad[o];
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t at[] = {index_of(shape, sa, i), index_of(shape, sb, i), index_of(shape, sc, i)};
    const double u = a.at(at[0]), v = b.at(at[1]), w = c.at(at[2]);
    want.push_back(double(oracle<long double>(k, u, v, w, 1.75)));
    scale.push_back(std::fabs(u) + 2 * std::fabs(v) * (1 + std::fabs(w) + 1 / std::fabs(w)) + std::fabs(w * u) + std::fabs(w));
    const auto g = where ? std::array<double, 3>{0, u != 0 ? 1.0 : 0, u != 0 ? 0 : 1.0} : slopes(k, {u, v, w}, 0);
    for (int o = 0; o < 3; ++o) grad[o][size_t(at[o])] += dy.at(i) * g[size_t(o)], grad_scale[o][size_t(at[o])] += std::fabs(dy.at(i)) * (std::fabs(u) + std::fabs(v) + std::fabs(g[size_t(o)]));
  }
  const bool exact = where || k == TernaryKind::clamp;
  EXPECT_CLOSE(y, want, {}, exact ? nullptr : &scale);
  if (!where) EXPECT_CLOSE(da, grad[0], {}, &grad_scale[0]);
  EXPECT_CLOSE(db, grad[1], {}, &grad_scale[1]);
  EXPECT_CLOSE(dc, grad[2], {}, &grad_scale[2]);
  EXPECT_TRUE(y.guards_intact() && da.guards_intact() && db.guards_intact() && dc.guards_intact());
}
TEST(ElementwiseKinds, TernaryValuesAndGradients) {
  for (int k = 0; k < kTernaryKinds; ++k)
    for (DType t : kFloats) {
      const TernaryKind kind = TernaryKind(k);
      check_ternary(kind, t, {7, 301}, {7, 301}, {7, 301}, Layout::dense);
      check_ternary(kind, t, {301}, {7, 1}, {7, 301}, Layout::transposed);
      check_ternary(kind, t, {2, 1, 5}, {3, 1}, {}, Layout::reversed);
      check_ternary(kind, t, {0, 3}, {1, 3}, {3}, Layout::dense);
      check_ternary(kind, t, {}, {}, {}, Layout::dense);
    }
}
TEST(ElementwiseKinds, TernaryGradientsByDualNumbers) {
  for (int k = 0; k < kTernaryKinds; ++k)
    with_functor(TernaryKind(k), [&]<class Op>(Op) {
      if constexpr (elementwise::kDifferentiable<Op, Dual>) check_gradient<Op>(enum_name(TernaryKind(k)), {1.75});
    });
}
TEST(ElementwiseKinds, WhereMovesValuesAsTheyAre) {
  const Tensor a(DType::boolean, {4}, {1, 0, 1, 0});
  for (DType t : {DType::boolean, DType::i8, DType::u16, DType::i32, DType::u64, DType::bf16, DType::f64, DType::c64, DType::c128}) {
    const size_t size = byte_size(t);
    std::vector<uint8_t> b(4 * size), c(4 * size), y(4 * size);
    for (size_t i = 0; i < b.size(); ++i) b[i] = uint8_t(t == DType::boolean ? 1 : i + 1), c[i] = uint8_t(t == DType::boolean ? 0 : 200 - i);
    const auto view = [&](std::vector<uint8_t>& v) { return TensorView::dense(v.data(), t, {4}); };
    ASSERT_OK(run_plan<Ternary>({TernaryKind::where, t, {4}, {4}, {4}}, {a, view(b), view(c), view(y)}));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i / size % 2 == 0 ? b[i] : c[i]) << name(t);
  }
  // A NaN that is not chosen does not show, nor does it in the gradient.
  const Tensor b(DType::f32, {4}, {1, NAN, 3, NAN}), c(DType::f32, {4}, {INFINITY, 2, NAN, 4}), dy(DType::f32, {4}, {1, 2, 3, 4});
  Tensor y(DType::f32, {4}), db(DType::f32, {4}), dc(DType::f32, {4});
  const TernaryDescriptor d{TernaryKind::where, DType::f32, {4}, {4}, {4}};
  ASSERT_OK(run_plan<Ternary>(d, {a, b, c, y}));
  ASSERT_OK(run_plan<TernaryBackward>(d, {.dy = dy, .a = a, .db = db, .dc = dc}));
  EXPECT_EQ(y.values(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(db.values(), (std::vector<double>{1, 0, 3, 0}));
  EXPECT_EQ(dc.values(), (std::vector<double>{0, 2, 0, 4}));
}
TEST(ElementwiseKinds, ClampBetweenTensors) {
  const Tensor x(DType::f32, {5}, {1, 5, 3, NAN, 2}), low(DType::f32, {5}, {2, 2, 4, 0, 2}), high(DType::f32, {5}, {3, 3, 1, 1, 3}), dy(DType::f32, {5}, {1, 1, 1, 1, 1});
  Tensor y(DType::f32, {5}), da(DType::f32, {5}), db(DType::f32, {5}), dc(DType::f32, {5});
  const TernaryDescriptor d{TernaryKind::clamp, DType::f32, {5}, {5}, {5}};
  ASSERT_OK(run_plan<Ternary>(d, {x, low, high, y}));
  ASSERT_OK(run_plan<TernaryBackward>(d, {dy, x, low, high, da, db, dc}));
  EXPECT_CLOSE(y, (std::vector<double>{2, 3, 1, NAN, 2}), {});  // low > high: high
  EXPECT_EQ(da.values(), (std::vector<double>{0, 0, 0, 1, 1}));
  EXPECT_EQ(db.values(), (std::vector<double>{1, 0, 0, 0, 0}));
  EXPECT_EQ(dc.values(), (std::vector<double>{0, 1, 1, 0, 0}));
}

// ---- contract
TEST(ElementwiseKinds, StridesAndInPlaceOfOtherDtypes) {
  const Shape shape{9, 70};
  for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::every_other}) {
    for (DType t : {DType::i8, DType::i64, DType::bf16}) {
      const Tensor a(t, shape, Tensor::integers(t, shape, 1, 1, 50).values(), layout), b(t, {70}, Tensor::integers(t, {70}, 2, 1, 50).values());
      Tensor y(DType::boolean, shape, layout), sum(t, shape, layout);
      ASSERT_OK(run_plan<Binary>({BinaryKind::lt, t, shape, {70}}, {a, b, y}));
      ASSERT_OK(run_plan<Binary>({BinaryKind::add, t, shape, {70}}, {a, b, sum}));
      for (int64_t i = 0; i < shape.numel(); ++i) {
        EXPECT_EQ(y.at(i), a.at(i) < b.at(i % 70));
        EXPECT_EQ(sum.at(i), rounded(t, a.at(i) + b.at(i % 70)));
      }
      EXPECT_TRUE(y.guards_intact() && sum.guards_intact());
      Tensor x(t, shape, a.values(), layout), want(t, shape);
      ASSERT_OK(run_plan<Unary>({UnaryKind::neg, t, shape}, {x, want}));
      ASSERT_OK(run_plan<Unary>({UnaryKind::neg, t, shape}, {x, x}));
      EXPECT_TRUE(x.same_bits(want));
    }
  }
}
TEST(ElementwiseKinds, ContractAndBits) {
  const Shape shape{3, 20000};
  const Tensor a = Tensor::normal(DType::bf16, shape, 1), b = Tensor::normal(DType::bf16, {20000}, 2), c = Tensor::normal(DType::bf16, {3, 1}, 3), dy = Tensor::normal(DType::bf16, shape, 4);
  const Tensor i = Tensor::integers(DType::i32, shape, 5, -100, 100), j = Tensor::integers(DType::i32, {20000}, 6, 1, 100);
  Tensor y(DType::bf16, shape), da(DType::bf16, shape), db(DType::bf16, {20000}), dc(DType::bf16, {3, 1}), mask(DType::boolean, shape), k(DType::i32, shape);
  const TernaryDescriptor d{TernaryKind::addcmul, DType::bf16, shape, {20000}, {3, 1}};
  check_repeat_bits<Ternary>(d, {a, b, c, y});
  check_repeat_bits<TernaryBackward>(d, {dy, a, b, c, da, db, dc});
  check_repeat_bits<Binary>({BinaryKind::remainder, DType::i32, shape, {20000}}, {i, j, k});
  check_repeat_bits<Unary>({UnaryKind::isfinite, DType::bf16, shape}, {a, mask});
  check_contract<Ternary>(d, {a, b, c, y});
  check_contract<TernaryBackward>(d, {dy, a, b, c, da, db, dc}, {"a"});
  check_contract<Binary>({BinaryKind::lt, DType::i32, shape, {20000}}, {i, j, mask});
  check_contract<Unary>({UnaryKind::isfinite, DType::bf16, shape}, {a, mask});
}
TEST(ElementwiseKinds, SameBitsForInstructionSets) {
  const Shape shape{5, 333};
  for (DType t : kIntegers)
    for (int k = 0; k < kBinaryKinds; ++k) {
      const BinaryKind kind = BinaryKind(k);
      if (!takes(kind, t)) continue;
      const Tensor a = Tensor::integers(t, shape, 1, 0, 120), b = Tensor::integers(t, shape, 2, 0, 9);
      std::vector<uint8_t> want;
      for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
        limit_isa(set);
        Tensor y(result_dtype(kind, t), shape);
        ASSERT_OK(run_plan<Binary>({kind, t, shape, shape}, {a, b, y}));
        if (set == Isa::portable) want = y.element_bytes();
        EXPECT_TRUE(y.element_bytes() == want) << enum_name(kind) << " " << name(t) << " " << name(set);
      }
      limit_isa(Isa::avx512bf16);
    }
}
TEST(ElementwiseKinds, Refusals) {
  const Stream s = Stream::cpu();
  const auto bad = Code::invalid_problem, no = Code::unsupported;
  expect_refused(BinaryPlan::select(s, {BinaryKind::div, DType::i32, {2}, {2}}).status(), no, {"binary.cpu.map", "kind div does not take i32"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::sub, DType::boolean, {2}, {2}}).status(), no, {"kind sub does not take bool"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::bitwise_not, DType::f32, {2}}).status(), no, {"kind bitwise_not does not take f32"});
  expect_refused(UnaryBackwardPlan::select(s, {UnaryKind::isnan, DType::f32, {2}}).status(), no, {"kind isnan has no gradient"});
  expect_refused(UnaryBackwardPlan::select(s, {UnaryKind::neg, DType::i32, {2}}).status(), no, {"i32"});
  expect_refused(BinaryBackwardPlan::select(s, {BinaryKind::gcd, DType::f32, {2}, {2}}).status(), no, {"kind gcd has no gradient"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::celu, DType::f32, {2}, 0.0}).status(), bad, {"celu", "alpha > 0", "got 0"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::softshrink, DType::f32, {2}, -1.0}).status(), bad, {"softshrink", "alpha >= 0", "got -1"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::clamp, DType::f32, {2}, 0.0, 1.0, 2.0}).status(), bad, {"clamp", "no gamma", "2"});
  expect_refused(UnaryPlan::select(s, {UnaryKind::hardtanh, DType::f32, {2}, 0.5, -0.5}).status(), bad, {"hardtanh", "alpha <= beta", "0.5 and -0.5"});
  expect_refused(BinaryPlan::select(s, {BinaryKind::isclose, DType::f32, {2}, {2}, 1e-5, -1.0}).status(), bad, {"isclose", "alpha and beta >= 0", "-1"});
  expect_refused(TernaryPlan::select(s, {TernaryKind::fma, DType::f32, {2}, {3}, {1}}).status(), bad, {"ternary", "[2]", "[3]"});
  expect_refused(TernaryPlan::select(s, {TernaryKind::fma, DType::f32, {2}, {1}, {3}}).status(), bad, {"ternary", "c [3]", "do not broadcast"});
  const Tensor a = Tensor::normal(DType::f32, {2}, 1), m(DType::boolean, {2}, {0, 1});
  Tensor y(DType::f32, {2}), z(DType::f32, {2});
  const TernaryDescriptor where{TernaryKind::where, DType::f32, {2}, {2}, {2}};
  expect_refused(run_plan<Ternary>(where, {a, a, a, y}), bad, {"a", "bool", "f32"});
  expect_refused(run_plan<TernaryBackward>(where, {.dy = a, .a = m, .da = z, .db = y}), bad, {"da must be absent", "bool"});
  expect_refused(run_plan<TernaryBackward>({TernaryKind::fma, DType::f32, {2}, {2}, {2}}, {.dy = a, .a = a, .da = y}), bad, {"b is missing", "fma reads it"});
  expect_refused(run_plan<Unary>({UnaryKind::isnan, DType::f32, {2}}, {a, y}), bad, {"y", "bool", "f32"});
}

}  // namespace
}  // namespace baracuda
