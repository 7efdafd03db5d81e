// The promised errors of the kinds of complex numbers, over all exponents and near the points where a formula cancels, and
// their special values against the C library's (annex G).
#include <map>
#include <optional>
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/complex_oracle.hpp"

namespace baracuda {
namespace {

using namespace testing;

struct Bound { double c64, c128; };
const std::map<UnaryKind, Bound>& bounds() {
  using K = UnaryKind;
  static const std::map<K, Bound> all = {
      {K::neg, {0, 0}}, {K::conj, {0, 0}}, {K::real, {0, 0}}, {K::imag, {0, 0}}, {K::abs, {0.55, 0.55}}, {K::square, {1.15, 1.15}}, {K::sqrt, {1.85, 1.85}},
      {K::reciprocal, {2, 2}}, {K::sgn, {1.5, 1.5}}, {K::angle, {1.45, 1.45}}, {K::exp, {1.5, 1.5}}, {K::log, {1.4, 1.4}}, {K::sin, {2.6, 2.6}}, {K::cos, {2.6, 2.6}},
      {K::tan, {2.3, 2.3}}, {K::sinh, {2.6, 2.6}}, {K::cosh, {2.6, 2.6}}, {K::tanh, {2.3, 2.3}}, {K::asin, {3, 3}}, {K::acos, {2.4, 2.4}},
      {K::atan, {2.6, 2.6}}, {K::asinh, {3, 3}}, {K::acosh, {2.4, 2.4}}, {K::atanh, {2.6, 2.6}},
      {K::exp2, {2, 2}}, {K::expm1, {2.4, 2.4}}, {K::log2, {2.2, 2.2}}, {K::log10, {2.2, 2.2}}, {K::log1p, {2, 2}}, {K::sigmoid, {4.9, 4.9}}, {K::rsqrt, {3, 3}}, {K::cube, {2.5, 2.5}}};
  return all;
}
template <class T> T random_part(Source& s, int choice) {
  using L = std::numeric_limits<T>;
  const double sign = s.next() & 1 ? -1 : 1;
  switch (choice) {
    case 0: return T(sign * std::exp2((s.uniform() - 0.5) * 8));                                                          // around 1
    case 1: return T(sign * std::exp2(L::min_exponent - L::digits + s.uniform() * (L::max_exponent - L::min_exponent + L::digits)));  // all exponents
    case 2: return T(sign * (1 + std::exp2(-s.uniform() * L::digits) * (s.uniform() - 0.5)));                              // near 1
    case 3: return T(sign * std::exp2(-s.uniform() * 2 * L::digits));                                                      // small
    case 4: return T(sign * s.uniform() * L::max_exponent * 0.72);                                                         // to where exp ends
    default: return T(s.next() % 8 == 0 ? 0 : sign * double(s.next() % 64) * 0.78539816339744830962);                      // eighths of a turn
  }
}
template <class T> std::vector<std::complex<T>> arguments(int n) {
  Source s(sizeof(T));
  std::vector<std::complex<T>> x;
  for (int i = 0; i < n; ++i) {
    const T re = random_part<T>(s, int(s.next() % 6)), im = random_part<T>(s, int(s.next() % 6));
    x.emplace_back(re, im);
    if (i % 8 == 0) {  // on the unit circle
      const double turn = 6.283185307179586 * s.uniform();
      x.back() = {T(std::cos(turn)), T(std::sin(turn))};
    }
  }
  return x;
}
template <class T> constexpr DType kComplexOf = sizeof(T) == 4 ? DType::c64 : DType::c128;
template <class T> TensorView view_of(const std::vector<T>& v, DType t) { return TensorView::dense(const_cast<T*>(v.data()), t, {int64_t(v.size())}); }

template <class T> void check_unary(int n) {
  const std::vector<std::complex<T>> x = arguments<T>(n);
  const DType t = kComplexOf<T>;
  const Shape shape{n};
  for (const auto& [k, bound] : bounds()) {
    std::vector<std::complex<T>> y(x.size());
    const bool real = result_dtype(k, t) != t;
    ASSERT_OK(run_plan<Unary>({k, t, shape}, {view_of(x, t), view_of(y, result_dtype(k, t))}));
    double worst = 0;
    std::complex<T> at;
    for (size_t i = 0; i < x.size(); ++i) {
      const std::complex<T> g = real ? reinterpret_cast<const T*>(y.data())[i] : y[i];
      if (k == UnaryKind::exp2 && std::fabs(x[i].imag()) > 0x1p16) continue;  // the angle is x ln2 in two words
      const double e = ulp_error<T>(g, oracle(k, x[i]));
      if (!(e <= worst)) worst = e, at = x[i];
    }
    const double most = sizeof(T) == 4 ? bound.c64 : bound.c128;
    EXPECT_LE(worst, most) << enum_name(k) << " " << name(t) << " at " << at;
    EXPECT_GE(worst, 0.6 * most) << enum_name(k) << " " << name(t) << ": the bound is not tight";
  }
}
TEST(ComplexAccuracy, UnaryC64) { check_unary<float>(60000); }
TEST(ComplexAccuracy, UnaryC128) { check_unary<double>(40000); }

template <class T> void check_binary(int n) {
  const DType t = kComplexOf<T>;
  std::vector<std::complex<T>> a = arguments<T>(n), b = a;
  std::rotate(b.begin(), b.begin() + n / 3 + 1, b.end());
  for (size_t i = 0; i < b.size(); i += 5) b[i] = std::conj(a[i]) * std::complex<T>(T(1), std::numeric_limits<T>::epsilon() * T(i % 3));  // products that cancel
  const Shape shape{n};
  const struct { BinaryKind k; Bound bound; } cases[] = {{BinaryKind::add, {0.71, 0.71}}, {BinaryKind::sub, {0.71, 0.71}}, {BinaryKind::mul, {1.4, 1.4}}, {BinaryKind::div, {2.5, 2.5}}, {BinaryKind::pow, {0.75, 2.6}}};
  for (const auto& [k, bound] : cases) {
    std::vector<std::complex<T>> y(a.size());
    ASSERT_OK(run_plan<Binary>({k, t, shape, shape}, {view_of(a, t), view_of(b, t), view_of(y, t)}));
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const Number want = oracle(k, a[i], b[i]);
      // The C library's own power has as many bits more as the exponent has fewer; c128 shares the growth with |b log a|.
      const long double w = k == BinaryKind::pow && a[i] != std::complex<T>(0) ? std::abs(Number(b[i]) * std::log(Number(a[i]))) : 0;
      if (k == BinaryKind::pow && !(w < 12000)) continue;
      const double e = ulp_error<T>(y[i], want) / double(k == BinaryKind::pow && sizeof(T) == 8 ? 1 + w : 1);
      if (!(e <= worst)) worst = e, at = i;
    }
    const double most = sizeof(T) == 4 ? bound.c64 : bound.c128;
    EXPECT_LE(worst, most) << enum_name(k) << " " << name(t) << " at " << a[at] << " and " << b[at];
    EXPECT_GE(worst, 0.6 * most) << enum_name(k) << " " << name(t) << ": the bound is not tight";
  }
}
TEST(ComplexAccuracy, BinaryC64) { check_binary<float>(60000); }
TEST(ComplexAccuracy, BinaryC128) { check_binary<double>(40000); }

template <class T> void check_polar(int n) {
  Source s(5);
  std::vector<T> a, b;
  for (int i = 0; i < n; ++i) a.push_back(random_part<T>(s, int(s.next() % 4))), b.push_back(random_part<T>(s, int(s.next() % 6)));
  std::vector<std::complex<T>> y(a.size());
  const Shape shape{n};
  ASSERT_OK(run_plan<Binary>({BinaryKind::polar, kDTypeOf<T>, shape, shape}, {view_of(a, kDTypeOf<T>), view_of(b, kDTypeOf<T>), view_of(y, kComplexOf<T>)}));
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, ulp_error<T>(y[i], oracle(BinaryKind::polar, a[i], b[i])));
  EXPECT_LE(worst, 1.5);
  EXPECT_GE(worst, 0.9);
}

TEST(ComplexAccuracy, Polar) { check_polar<float>(60000), check_polar<double>(40000); }

// Annex G: every pair of special parts, against the C library in the same precision.
template <class T> std::vector<std::complex<T>> specials() {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T parts[] = {0, T(-0.0), T(0.75), T(-0.75), T(2), T(-2), inf, -inf, nan};
  std::vector<std::complex<T>> x;
  for (T re : parts) for (T im : parts) x.emplace_back(re, im);
  return x;
}
// Of kinds that the C library has.
template <class T> std::optional<std::complex<T>> library(UnaryKind k, std::complex<T> x) {
  switch (k) {
    case UnaryKind::neg: return -x;
    case UnaryKind::conj: return std::conj(x);
    case UnaryKind::square: return x * x;
    case UnaryKind::sqrt: return std::sqrt(x);
    case UnaryKind::reciprocal: return std::complex<T>(1) / x;
    case UnaryKind::exp: return std::exp(x);
    case UnaryKind::log: return std::log(x);
    case UnaryKind::sin: return std::sin(x);
    case UnaryKind::cos: return std::cos(x);
    case UnaryKind::tan: return std::tan(x);
    case UnaryKind::sinh: return std::sinh(x);
    case UnaryKind::cosh: return std::cosh(x);
    case UnaryKind::tanh: return std::tanh(x);
    case UnaryKind::asin: return std::asin(x);
    case UnaryKind::acos: return std::acos(x);
    case UnaryKind::atan: return std::atan(x);
    case UnaryKind::asinh: return std::asinh(x);
    case UnaryKind::acosh: return std::acosh(x);
    case UnaryKind::atanh: return std::atanh(x);
    default: return {};
  }
}
template <class T> void check_specials() {
  const DType t = kComplexOf<T>;
  const std::vector<std::complex<T>> x = specials<T>();
  const int64_t n = int64_t(x.size());
  for (const auto& [k, bound] : bounds()) {
    if (result_dtype(k, t) != t || k == UnaryKind::sgn) continue;
    std::vector<std::complex<T>> y(x.size());
    ASSERT_OK(run_plan<Unary>({k, t, {n}}, {view_of(x, t), view_of(y, t)}));
    for (size_t i = 0; i < x.size(); ++i) {
      const std::optional<std::complex<T>> known = library(k, x[i]);
      if (!known) break;
      const std::complex<T> want = *known;
      // Annex G leaves open the sign of a zero or an infinity beside a NaN here; libraries differ in the zeros of quotients.
      const bool open = (k == UnaryKind::sinh || k == UnaryKind::cosh || k == UnaryKind::sin || k == UnaryKind::cos) && (std::isnan(want.real()) || std::isnan(want.imag()));
      const bool beside_nan = (k == UnaryKind::acos || k == UnaryKind::atan) && std::isinf(x[i].real()) && std::isnan(x[i].imag());  // open too
      const bool zeros = open || beside_nan || k == UnaryKind::reciprocal;
      EXPECT_TRUE(same_kind(y[i].real(), want.real(), open || beside_nan, zeros) && same_kind(y[i].imag(), want.imag(), open || beside_nan, zeros)) << enum_name(k) << " " << name(t) << " of " << x[i] << ": got " << y[i] << ", want " << want;
    }
  }
  std::vector<std::complex<T>> product(x.size() * x.size()), quotient = product;
  const TensorView rows = TensorView::dense(const_cast<std::complex<T>*>(x.data()), t, {n, 1});
  const auto square = [&](auto& v) { return TensorView::dense(v.data(), t, {n, n}); };
  ASSERT_OK(run_plan<Binary>({BinaryKind::mul, t, {n, 1}, {n}}, {rows, view_of(x, t), square(product)}));
  ASSERT_OK(run_plan<Binary>({BinaryKind::div, t, {n, 1}, {n}}, {rows, view_of(x, t), square(quotient)}));
  const auto infinite = [](std::complex<T> z) { return std::isinf(z.real()) || std::isinf(z.imag()); };
  const auto unknown = [](std::complex<T> z) { return std::isnan(z.real()) || std::isnan(z.imag()); };
  for (size_t i = 0; i < product.size(); ++i) {
    const std::complex<T> a = x[i / size_t(n)], b = x[i % size_t(n)], p = a * b, q = a / b;
    EXPECT_TRUE(infinite(p) ? infinite(product[i]) : unknown(p) ? unknown(product[i]) : same_kind(product[i].real(), p.real()) && same_kind(product[i].imag(), p.imag()))
        << a << " * " << b << ": got " << product[i] << ", want " << p;
    EXPECT_TRUE(infinite(q) ? infinite(quotient[i]) : unknown(q) ? unknown(quotient[i]) : same_kind(quotient[i].real(), q.real(), false, true) && same_kind(quotient[i].imag(), q.imag(), false, true))
        << a << " / " << b << ": got " << quotient[i] << ", want " << q;
  }
}
TEST(ComplexAccuracy, SpecialValuesC64) { check_specials<float>(); }
TEST(ComplexAccuracy, SpecialValuesC128) { check_specials<double>(); }
// Those of the kinds that it has not: an infinity is one in either part.
template <class T> void check_further_specials() {
  using K = UnaryKind;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const DType t = kComplexOf<T>;
  const struct { K kind; std::complex<T> x, want; } all[] = {
      {K::exp2, 0, 1}, {K::exp2, -inf, 0}, {K::exp2, inf, inf}, {K::expm1, 0, 0}, {K::expm1, -inf, -1}, {K::expm1, inf, inf}, {K::log2, 0, -inf}, {K::log2, 1, 0},
      {K::log2, inf, inf}, {K::log10, 0, -inf}, {K::log10, 1, 0}, {K::log10, {0, -inf}, inf}, {K::log1p, 0, 0}, {K::log1p, -1, -inf}, {K::log1p, inf, inf},
      {K::sigmoid, 0, T(0.5)}, {K::sigmoid, -inf, 0}, {K::sigmoid, inf, 1}, {K::rsqrt, 0, inf}, {K::rsqrt, 1, 1}, {K::rsqrt, inf, 0}, {K::cube, 0, 0}, {K::cube, {0, 2}, {0, -8}},
      {K::cube, {inf, 1}, inf}, {K::affine, {1, -inf}, {1, -inf}}};
  for (const auto& e : all) {
    std::complex<T> x[2] = {e.x, {nan, nan}}, y[2];
    ASSERT_OK(run_plan<Unary>({e.kind, t, {2}}, {TensorView::dense(x, t, {2}), TensorView::dense(y, t, {2})}));
    if (std::isinf(e.want.real()) || std::isinf(e.want.imag())) EXPECT_TRUE(std::isinf(y[0].real()) || std::isinf(y[0].imag())) << enum_name(e.kind) << e.x << ": " << y[0];
    else EXPECT_EQ(y[0], e.want) << enum_name(e.kind) << e.x;
    EXPECT_TRUE(std::isnan(y[1].real()) && std::isnan(y[1].imag())) << enum_name(e.kind) << ": " << y[1];
  }
}
TEST(ComplexAccuracy, FurtherSpecialValues) { check_further_specials<float>(), check_further_specials<double>(); }

}  // namespace
}  // namespace baracuda
