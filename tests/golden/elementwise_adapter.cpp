#include <cmath>
#include "baracuda/ops/elementwise/elementwise_oracle.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr std::string_view kComplex = "complex numbers: the references here are of real ones, complex_test judges them";
constexpr std::string_view kOneValue = "the value is a tensor of more than rank 0: where broadcasts it";
constexpr std::string_view kAway = "round half away from zero: round is half to even";
enum Traits {
  kPlain = 0,
  kSingular = 1,  // at 0: differences step relative to the input
  kWide = 2,      // PyTorch's own rounding errors grow with x, and those of its gradient with dy, rather than with the result
};
struct Argument { std::string_view keyword; size_t position; std::optional<double> UnaryDescriptor::*field; };
struct UnaryCall {
  std::string_view op;
  UnaryKind kind;
  int traits = kPlain;
  std::vector<Argument> arguments = {};
};
constexpr auto kAlpha = &UnaryDescriptor::alpha, kBeta = &UnaryDescriptor::beta, kGamma = &UnaryDescriptor::gamma;
const std::vector<UnaryCall>& unary_calls() {
  using K = UnaryKind;
  static const std::vector<UnaryCall> all = {
      {"neg", K::neg}, {"abs", K::abs}, {"square", K::square}, {"sqrt", K::sqrt, kSingular}, {"rsqrt", K::rsqrt, kSingular},
      {"reciprocal", K::reciprocal, kSingular}, {"sign", K::sign}, {"floor", K::floor}, {"ceil", K::ceil}, {"round", K::round}, {"trunc", K::trunc},
      {"frac", K::frac}, {"deg2rad", K::deg2rad}, {"rad2deg", K::rad2deg},
      {"nan_to_num", K::nan_to_num, kPlain, {{"nan", 0, kAlpha}, {"posinf", 1, kBeta}, {"neginf", 2, kGamma}}},
      {"exp", K::exp}, {"exp2", K::exp2}, {"expm1", K::expm1}, {"log", K::log, kSingular}, {"log2", K::log2, kSingular}, {"log10", K::log10, kSingular},
      {"log1p", K::log1p}, {"sigmoid", K::sigmoid, kWide}, {"logit", K::logit, kWide, {{"eps", 0, kAlpha}}}, {"erf", K::erf, kWide}, {"erfc", K::erfc, kWide},
      {"sin", K::sin, kWide}, {"cos", K::cos, kWide}, {"tan", K::tan, kWide}, {"asin", K::asin, kWide}, {"acos", K::acos, kWide}, {"atan", K::atan},
      {"sinh", K::sinh}, {"cosh", K::cosh, kWide}, {"tanh", K::tanh, kWide}, {"asinh", K::asinh}, {"acosh", K::acosh, kWide}, {"atanh", K::atanh, kWide},
      {"nn.functional.relu", K::relu}, {"nn.functional.silu", K::silu, kWide}, {"nn.functional.mish", K::mish, kWide}, {"gelu none", K::gelu, kWide},
      {"gelu tanh", K::gelu_tanh, kWide}, {"nn.functional.softplus", K::softplus, kWide, {{"beta", 0, kAlpha}, {"threshold", 1, kBeta}}},
      {"nn.functional.logsigmoid", K::log_sigmoid, kWide}, {"nn.functional.elu", K::elu, kWide, {{"alpha", 0, kAlpha}}}, {"nn.functional.selu", K::selu, kWide},
      {"nn.functional.celu", K::celu, kWide, {{"alpha", 0, kAlpha}}}, {"nn.functional.leaky_relu", K::leaky_relu, kPlain, {{"negative_slope", 0, kAlpha}}},
      {"nn.functional.relu6", K::relu6}, {"nn.functional.hardtanh", K::hardtanh, kPlain, {{"min_val", 0, kAlpha}, {"max_val", 1, kBeta}}},
      {"nn.functional.hardsigmoid", K::hardsigmoid, kWide}, {"nn.functional.hardswish", K::hardswish, kWide},
      {"nn.functional.hardshrink", K::hardshrink, kPlain, {{"lambd", 0, kAlpha}}}, {"nn.functional.softshrink", K::softshrink, kPlain, {{"lambd", 0, kAlpha}}},
      {"nn.functional.softsign", K::softsign, kWide}, {"nn.functional.tanhshrink", K::tanhshrink, kWide},
      {"nn.functional.threshold", K::threshold, kPlain, {{"threshold", 0, kAlpha}, {"value", 1, kBeta}}},
      {"sgn", K::sgn}, {"round.decimals_0", K::round}, {"signbit", K::signbit}, {"isfinite", K::isfinite}, {"isinf", K::isinf}, {"isposinf", K::isposinf}, {"isneginf", K::isneginf}, {"isnan", K::isnan},
      {"logical_not", K::logical_not}, {"bitwise_not", K::bitwise_not},
      {"sinc", K::sinc, kWide}, {"lgamma", K::lgamma, kWide}, {"digamma", K::digamma, kWide}, {"erfinv", K::erfinv, kWide},
      {"i0", K::i0, kWide}, {"special.i0e", K::i0e, kWide}, {"special.i1", K::i1, kWide}, {"special.i1e", K::i1e, kWide}, {"special.ndtr", K::ndtr, kWide},
      {"special.ndtri", K::ndtri, kWide}, {"special.log_ndtr", K::log_ndtr, kWide}, {"special.entr", K::entr, kSingular},
      {"lax.abs", K::abs}, {"lax.acosh", K::acosh, kWide}, {"lax.asinh", K::asinh, kWide}, {"lax.atanh", K::atanh, kWide}, {"lax.acos", K::acos, kWide}, {"lax.atan", K::atan},
      {"lax.asin", K::asin, kWide}, {"lax.cos", K::cos, kWide}, {"lax.cosh", K::cosh, kWide}, {"lax.exp", K::exp}, {"lax.exp2", K::exp2}, {"lax.expm1", K::expm1},
      {"lax.log", K::log}, {"lax.log2", K::log2}, {"lax.log1p", K::log1p}, {"lax.rsqrt", K::rsqrt}, {"lax.sin", K::sin, kWide}, {"lax.sinh", K::sinh}, {"lax.sqrt", K::sqrt},
      {"lax.tan", K::tan, kWide}, {"lax.tanh", K::tanh, kWide}, {"lax.logistic", K::sigmoid, kWide}, {"lax.bessel_i0e", K::i0e}, {"lax.bessel_i1e", K::i1e}, {"lax.ceil", K::ceil},
      {"lax.erf", K::erf, kWide}, {"lax.erf_inv", K::erfinv, kWide}, {"lax.erfc", K::erfc, kWide}, {"lax.floor", K::floor}, {"lax.is_finite", K::isfinite},
      {"lax.lgamma", K::lgamma, kWide}, {"lax.digamma", K::digamma, kWide}, {"lax.cbrt", K::cbrt}, {"lax.neg", K::neg}, {"lax.sign", K::sign}, {"lax.round", K::round},
      {"lax.integer_pow", K::pow_scalar, kPlain, {{"y", 0, kAlpha}}}, {"lax.population_count", K::population_count}};
  return all;
}
testing::Parameters parameters_of(const UnaryDescriptor& d) {
  constexpr double largest = 1e300;  // nan_to_num's default is the dtype's largest number, which no sample without infinities shows
  if (d.kind == UnaryKind::nan_to_num) return {d.alpha.value_or(0), d.beta.value_or(largest), d.gamma.value_or(-largest)};
  return {d.alpha.value_or(d.kind == UnaryKind::leaky_relu ? 0.01 : d.kind == UnaryKind::logit ? -1 : d.kind == UnaryKind::hardtanh ? -1
                           : d.kind == UnaryKind::hardshrink || d.kind == UnaryKind::softshrink ? 0.5 : 1),
          d.beta.value_or(d.kind == UnaryKind::softplus ? 20 : 1)};
}

// Where differences step over a jump or lose themselves beside a pole.
std::optional<double> derivative(const UnaryDescriptor& d, double x) {
  switch (d.kind) {
    case UnaryKind::floor: case UnaryKind::ceil: case UnaryKind::trunc: case UnaryKind::round: case UnaryKind::sign: case UnaryKind::sgn: return 0;
    case UnaryKind::frac: return 1;
    case UnaryKind::tan: return 1 / (std::cos(x) * std::cos(x));
    case UnaryKind::asin: return 1 / std::sqrt((1 - x) * (1 + x));
    case UnaryKind::acos: return -1 / std::sqrt((1 - x) * (1 + x));
    case UnaryKind::atanh: return 1 / ((1 - x) * (1 + x));
    case UnaryKind::acosh: return 1 / std::sqrt((x - 1) * (x + 1));
    case UnaryKind::digamma: return double(testing::trigamma_of(x));
    case UnaryKind::erfinv: return double(std::sqrt(testing::kPi) / 2 * std::exp(testing::erf_inverse(x) * testing::erf_inverse(x)));
    case UnaryKind::i0e: return double(testing::i0e_slope(x));
    case UnaryKind::i1e: return double(testing::i1e_slope(x));
    case UnaryKind::log_ndtr: return log_ndtr(Dual(x, 1)).d;
    case UnaryKind::logit: return d.alpha && (x < *d.alpha || x > 1 - *d.alpha) ? 0 : 1 / (x * (1 - x));
    default: return {};
  }
}
Status unary(Replay& r, std::string_view op) {
  const Held* x = r.input();
  if (!x) return r.decline(kNoTensor);
  if (is_complex(x->dtype())) return r.decline(kComplex);
  if (op == "lax.round" && r.argument(0, "rounding_method") && r.value<int>(0, "rounding_method", 1) == 0) return r.decline(kAway);
  std::string call(op);
  if (op == "nn.functional.gelu") call = "gelu " + r.value<std::string>(0, "approximate", "none");
  const auto known = std::find_if(unary_calls().begin(), unary_calls().end(), [&](const UnaryCall& u) { return u.op == call; });
  if (known == unary_calls().end()) return {Code::invalid_problem, "golden: no such call"};
  UnaryDescriptor d{.kind = known->kind, .dtype = x->dtype(), .shape = x->shape()};
  for (const Argument& a : known->arguments)
    if (const Json* given = r.argument(a.position, a.keyword); given && !given->is_null()) d.*a.field = number(*given);
  if (d.kind == UnaryKind::softplus && !d.beta) d.beta = 20;  // PyTorch's default

  // An integer where the function is of floats: promotion is a cast, the caller's.
  const bool promoted = !r.refused_by_torch() && !is_floating(d.dtype) && !takes(d.kind, d.dtype);
  if (promoted) d.dtype = r.out_dtype();
  const Tensor cast(d.dtype, d.shape, x->values());
  const TensorView in = promoted ? cast.view() : x->view();
  const DType result = result_dtype(d.kind, d.dtype);
  Tensor y(result, d.shape);
  BARACUDA_TRY(run_plan<Unary>(d, {.x = in, .y = y}));
  r.output(0, y);
  const bool wide = known->traits & kWide;
  const SavedTensors saved = saved_tensors(d.kind);
  r.judge = {.ulps = 1, .inner = saved.y ? 3.0 : 0.0, .exact = !is_floating(result), .singular = (known->traits & kSingular) != 0};
  if (d.kind == UnaryKind::bitwise_not || d.kind == UnaryKind::population_count) return {};
  const bool rounds_square = op == "lax.erf_inv";  // JAX takes log1p(-x^2) of a rounded square
  r.reference = [&r, x, d, wide, rounds_square](const Inputs& in) {
    Numbers n;
    for (double v : r.numbers(*x, in)) {
      n.y.push_back(testing::oracle<double>(d.kind, v, parameters_of(d)));
      n.scale.push_back(wide ? std::max(1.0, std::fabs(v)) : 0);
      if (rounds_square) n.scale.back() = std::fabs(v * *derivative(d, v));
    }
    return n;
  };
  if (!r.has_gradients()) return {};
  if (derivative(d, 0.5))
    r.derivatives = [&r, x, d, dy = r.dy().values()](const Inputs& in) {
      Numbers n;
      const Values& at = r.numbers(*x, in);
      for (size_t i = 0; i < at.size(); ++i) n.y.push_back(dy[i] * *derivative(d, at[i])), n.scale.push_back(std::fabs(n.y.back()));
      return std::vector<Numbers>{n};
    };
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<UnaryBackward>(d, {.dy = r.dy(), .x = saved.x ? in : TensorView{}, .y = saved.y ? y.view() : TensorView{}, .dx = dx}));
  r.gradient(*x, dx);
  Values scale = r.dy().values();
  const Values at = x->values();
  const bool near_one = d.kind == UnaryKind::asin || d.kind == UnaryKind::acos || d.kind == UnaryKind::atanh;  // PyTorch's 1 - x^2 cancels
  for (size_t i = 0; i < scale.size(); ++i) {
    // PyTorch's: reduces x to its pole, takes exp(-x^2 / 2 - y).
    if (d.kind == UnaryKind::digamma) scale[i] *= *derivative(d, at[i]) * (1 + std::fabs(at[i]) / (at[i] < 0.5 ? std::fabs(at[i] - std::nearbyint(at[i])) : 1));
    else if (d.kind == UnaryKind::log_ndtr) scale[i] *= *derivative(d, at[i]) * (1 + at[i] * at[i]);
    else scale[i] = near_one ? std::fabs(scale[i] * *derivative(d, at[i])) / ((1 - at[i]) * (1 + at[i])) : wide ? std::fabs(scale[i]) * (1 + std::fabs(at[i])) : 0;
    scale[i] = std::fabs(scale[i]);
  }
  r.condition(*x, scale);
  return {};
}

struct BinaryCall {
  std::string_view op;
  BinaryKind kind;
  bool swapped = false;  // f(other, input)
  double inner = 0;
};
const BinaryCall kBinary[] = {
    {"add", BinaryKind::add},
    {"sub", BinaryKind::sub},
    {"rsub", BinaryKind::sub, true},
    {"mul", BinaryKind::mul},
    {"div.no_rounding_mode", BinaryKind::div},
    {"div.trunc_rounding", BinaryKind::div_trunc},
    {"div.floor_rounding", BinaryKind::floor_divide},
    {"floor_divide", BinaryKind::floor_divide},
    {"true_divide", BinaryKind::div},
    {"fmod", BinaryKind::fmod},
    {"remainder", BinaryKind::remainder},
    {"maximum", BinaryKind::maximum},
    {"minimum", BinaryKind::minimum},
    {"max.binary", BinaryKind::maximum},
    {"min.binary", BinaryKind::minimum},
    {"fmax", BinaryKind::fmax},
    {"fmin", BinaryKind::fmin},
    {"clamp_min", BinaryKind::clamp_min},
    {"clamp_max", BinaryKind::clamp_max},
    {"copysign", BinaryKind::copysign},
    {"heaviside", BinaryKind::heaviside},
    {"nextafter", BinaryKind::nextafter},
    {"nn.functional.prelu", BinaryKind::prelu},
    {"pow", BinaryKind::pow, false, 1},
    {"atan2", BinaryKind::atan2},
    {"hypot", BinaryKind::hypot, false, 1},
    {"logaddexp", BinaryKind::logaddexp},
    {"xlogy", BinaryKind::xlogy},
    {"logaddexp2", BinaryKind::logaddexp2},
    {"special.xlog1py", BinaryKind::xlog1py},
    {"ldexp", BinaryKind::ldexp, false, 1},
    {"lax.pow", BinaryKind::pow, false, 1},
    {"lax.add", BinaryKind::add},
    {"lax.sub", BinaryKind::sub},
    {"lax.mul", BinaryKind::mul},
    {"lax.max", BinaryKind::maximum},
    {"lax.min", BinaryKind::minimum},
    {"lax.and", BinaryKind::bitwise_and},
    {"lax.or", BinaryKind::bitwise_or},
    {"lax.xor", BinaryKind::bitwise_xor},
    {"lax.shift_left", BinaryKind::bitwise_left_shift},
    {"lax.add_any", BinaryKind::add},
    {"lax.eq", BinaryKind::eq},
    {"lax.ne", BinaryKind::ne},
    {"lax.ge", BinaryKind::ge},
    {"lax.gt", BinaryKind::gt},
    {"lax.le", BinaryKind::le},
    {"lax.lt", BinaryKind::lt},
    {"lax.div", BinaryKind::div},
    {"lax.rem", BinaryKind::fmod},
    {"lax.atan2", BinaryKind::atan2},
    {"lax.nextafter", BinaryKind::nextafter},
    {"lax.shift_right_logical", BinaryKind::shift_right_logical},
    {"lax.shift_right_arithmetic", BinaryKind::bitwise_right_shift},
    {"eq", BinaryKind::eq},
    {"ne", BinaryKind::ne},
    {"lt", BinaryKind::lt},
    {"le", BinaryKind::le},
    {"gt", BinaryKind::gt},
    {"ge", BinaryKind::ge},
    {"isclose", BinaryKind::isclose},
    {"logical_and", BinaryKind::logical_and},
    {"logical_or", BinaryKind::logical_or},
    {"logical_xor", BinaryKind::logical_xor},
    {"bitwise_and", BinaryKind::bitwise_and},
    {"bitwise_or", BinaryKind::bitwise_or},
    {"bitwise_xor", BinaryKind::bitwise_xor},
    {"bitwise_left_shift", BinaryKind::bitwise_left_shift},
    {"bitwise_right_shift", BinaryKind::bitwise_right_shift},
    {"gcd", BinaryKind::gcd},
    {"lcm", BinaryKind::lcm},
    {"__radd__", BinaryKind::add, true},
    {"__rsub__", BinaryKind::sub, true},
    {"__rmul__", BinaryKind::mul, true},
    {"__rdiv__", BinaryKind::div, true},
    {"__rmod__", BinaryKind::remainder, true},
    {"__rpow__", BinaryKind::pow, true, 1},
    {"__rand__", BinaryKind::bitwise_and, true},
    {"__ror__", BinaryKind::bitwise_or, true},
    {"__rxor__", BinaryKind::bitwise_xor, true},
};
// What a gradient of differences cannot tell: ties, kinks, powers of negative numbers.
struct Partials { double a, b; };
std::optional<Partials> partials(const BinaryDescriptor& d, double a, double b) {
  const double q = a / b;
  switch (d.kind) {
    case BinaryKind::add: return Partials{1, 1};
    case BinaryKind::sub: return Partials{1, -1};
    case BinaryKind::mul: return Partials{b, a};
    case BinaryKind::div: return Partials{1 / b, -q / b};
    case BinaryKind::maximum: return Partials{a > b ? 1 : a == b ? 0.5 : 0, b > a ? 1 : a == b ? 0.5 : 0};
    case BinaryKind::minimum: return Partials{a < b ? 1 : a == b ? 0.5 : 0, b < a ? 1 : a == b ? 0.5 : 0};
    case BinaryKind::fmax: case BinaryKind::clamp_min: return Partials{a >= b ? 1.0 : 0, a >= b ? 0 : 1.0};
    case BinaryKind::fmin: case BinaryKind::clamp_max: return Partials{a <= b ? 1.0 : 0, a <= b ? 0 : 1.0};
    case BinaryKind::div_trunc: case BinaryKind::floor_divide: return Partials{0, 0};
    case BinaryKind::fmod: return Partials{1, -std::trunc(q)};
    case BinaryKind::remainder: return Partials{1, -std::floor(q)};
    case BinaryKind::copysign: return Partials{a == 0 ? 0 : std::signbit(a) == std::signbit(b) ? 1.0 : -1.0, 0};
    case BinaryKind::prelu: return Partials{a > 0 ? 1 : b, a > 0 ? 0 : a};
    case BinaryKind::pow: return Partials{b == 0 ? 0 : b * std::pow(a, b - 1), a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a)};
    case BinaryKind::scale_add: return Partials{*d.alpha, *d.beta};
    case BinaryKind::lerp: return Partials{1 - *d.alpha, *d.alpha};
    default: return {};
  }
}

// Row-major places of an operand in the broadcast shape, through views of zero strides over place numbers.
Values places_in(const Shape& shape, const Shape& of) {
  std::vector<int64_t> numbers(size_t(std::max<int64_t>(of.numel(), 1)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i);
  return values_of(expanded(TensorView::dense(numbers.data(), of), shape));
}
Status run_binary(Replay& r, const BinaryDescriptor& d, const Held* a, const Held* b, double inner) {
  if (a->dtype() != b->dtype() && !r.refused_by_torch()) return r.decline(kMixed);
  BARACUDA_TRY_ASSIGN(shape, broadcast_shape(Binary::name, d.a, d.b));
  TensorView reshaped_b = *b;
  if (!(d.b == b->shape())) reshaped_b = reshaped(*b, d.b);
  const DType result = result_dtype(d.kind, d.dtype);
  Tensor y(result, shape);
  BARACUDA_TRY(run_plan<Binary>(d, {.a = *a, .b = reshaped_b, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .inner = inner, .exact = !is_floating(result) || d.kind == BinaryKind::nextafter};
  if (r.has_gradients() && y.numel() > 0) r.judge.terms = double(y.numel());  // of a broadcast operand
  const Values ap = places_in(shape, d.a), bp = places_in(shape, d.b);
  const testing::Parameters p{d.alpha.value_or(1), d.beta.value_or(1), d.gamma.value_or(1)};
  const bool of_integers = testing::oracle<double>(d.kind, 1, 1, p) != testing::oracle<double>(d.kind, 1, 1, p);  // NaN: it has no number
  if (of_integers) return {};
  r.reference = [&r, a, b, d, p, ap, bp](const Inputs& in) {
    Numbers n;
    for (size_t i = 0; i < ap.size(); ++i) {
      const double x = r.numbers(*a, in)[size_t(ap[i])], z = r.numbers(*b, in)[size_t(bp[i])];
      n.y.push_back(testing::oracle<double>(d.kind, x, z, p));
      const bool sum = d.kind == BinaryKind::add || d.kind == BinaryKind::sub || testing::additive(d.kind);
      // PyTorch's atan2 turns a small angle by a rounded pi, its hypot takes the root of a rounded sum.
      n.scale.push_back(sum ? std::fabs(p.alpha * x) + std::fabs(p.beta * z) : d.kind == BinaryKind::atan2 ? 3 : 0);
    }
    return n;
  };
  if (r.has_gradients() && partials(d, 1, 1))
    r.derivatives = [&r, a, b, d, ap, bp, dy = r.dy().values()](const Inputs& in) {
      std::vector<Numbers> out(in.size());
      for (size_t k = 0; k < in.size(); ++k) out[k] = {Values(in[k].size()), Values(in[k].size())};
      for (size_t i = 0; i < ap.size(); ++i) {
        const size_t pa = size_t(ap[i]), pb = size_t(bp[i]);
        const Partials p = *partials(d, r.numbers(*a, in)[pa], r.numbers(*b, in)[pb]);
        auto add = [&](const Held* h, size_t at, double partial) {
          if (h->gradient < 0) return;
          Numbers& n = out[size_t(h->gradient)];
          n.y[at] += dy[i] * partial, n.scale[at] += std::fabs(dy[i] * partial);
        };
        add(a, pa, p.a), add(b, pb, p.b);
      }
      return out;
    };
  if (!r.has_gradients()) return {};
  const SavedPair da_reads = saved_for_da(d.kind), db_reads = saved_for_db(d.kind);
  Tensor da(d.dtype, d.a), db(d.dtype, d.b);
  BARACUDA_TRY(run_plan<BinaryBackward>(d, {.dy = r.dy(),
                                            .a = da_reads.a || db_reads.a ? a->view() : TensorView{},
                                            .b = da_reads.b || db_reads.b ? reshaped_b : TensorView{},
                                            .y = da_reads.y || db_reads.y ? y.view() : TensorView{},
                                            .da = da,
                                            .db = db}));
  r.gradient(*a, da);
  r.gradient(*b, db);
  return {};
}

Status binary(Replay& r, std::string_view op) {
  const BinaryCall& call = *std::find_if(std::begin(kBinary), std::end(kBinary), [&](const BinaryCall& c) { return c.op == op; });
  const Held *a = r.input(), *b = r.tensor(0, "other");
  for (std::string_view name : {"exponent", "weight", "min", "max"})
    if (!b) b = r.tensor(0, name);
  if (!a || !b) return r.decline(kNoTensor);
  if (r.refused_by_torch() && (r.is_number(-1, "") || r.is_number(0, "other"))) return r.decline(kNumber);
  if (is_complex(a->dtype()) || is_complex(b->dtype())) return r.decline(kComplex);
  if (call.swapped) std::swap(a, b);
  BinaryDescriptor d{.kind = call.kind, .dtype = a->dtype(), .a = a->shape(), .b = b->shape()};
  if (op == "lax.div" && !is_floating(d.dtype)) d.kind = BinaryKind::div_trunc;
  if (call.kind == BinaryKind::prelu) {  // a slope per channel, which is the second axis
    if (d.b.numel() != 1 && d.a.rank < 2) return {Code::invalid_problem, "golden: slopes per channel without channels"};
    Shape slopes;
    if (d.b.numel() != 1) slopes.push_back(d.b[0]);
    for (int i = 2; d.b.numel() != 1 && i < d.a.rank; ++i) slopes.push_back(1);
    d.b = slopes;
  }
  if (call.kind == BinaryKind::isclose) {
    d.alpha = r.value(1, "rtol", 1e-5), d.beta = r.value(2, "atol", 1e-8), d.gamma = r.value(3, "equal_nan", false);
  } else if (const double alpha = r.value(1, "alpha", 1.0); alpha != 1) {  // alpha belongs to the operand that torch calls other
    d.kind = BinaryKind::scale_add;
    const double sign = call.kind == BinaryKind::sub ? -1 : 1;
    d.alpha = call.swapped && op != "rsub" ? alpha : 1;
    d.beta = call.swapped && op != "rsub" ? sign : sign * alpha;
  }
  return run_binary(r, d, a, b, call.inner);
}

// Calls with numbers or tensors for bounds and weights.
Status run_ternary(Replay& r, const TernaryDescriptor& d, const Held* a, const Held* b, const Held* c) {
  const Held* const operands[] = {a, b, c};
  const bool where = d.kind == TernaryKind::where;
  if (b->dtype() != c->dtype() || (!where && a->dtype() != b->dtype())) return r.decline(kMixed);
  BARACUDA_TRY_ASSIGN(shape, broadcast_shape(Ternary::name, d.a, d.b, d.c));
  Tensor y(d.dtype, shape);
  BARACUDA_TRY(run_plan<Ternary>(d, {.a = *a, .b = *b, .c = *c, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .exact = where || d.kind == TernaryKind::clamp};
  if (r.has_gradients() && y.numel() > 0) r.judge.terms = double(y.numel()), r.judge.exact = false;
  const std::array<Values, 3> places = {places_in(shape, d.a), places_in(shape, d.b), places_in(shape, d.c)};
  r.reference = [&r, a, b, c, d, places](const Inputs& in) {
    Numbers n;
    for (size_t i = 0; i < places[0].size(); ++i) {
      const double u = r.numbers(*a, in)[size_t(places[0][i])], v = r.numbers(*b, in)[size_t(places[1][i])], w = r.numbers(*c, in)[size_t(places[2][i])];
      n.y.push_back(testing::oracle<double>(d.kind, u, v, w, d.alpha.value_or(1)));
      n.scale.push_back(d.kind == TernaryKind::where || d.kind == TernaryKind::clamp ? 0 : std::fabs(u) + std::fabs(n.y.back() - u) + std::fabs(v));
    }
    return n;
  };
  if (!r.has_gradients()) return {};
  Tensor da(d.dtype, d.a), db(d.dtype, d.b), dc(d.dtype, d.c);
  BARACUDA_TRY(run_plan<TernaryBackward>(d, {.dy = r.dy(), .a = *a, .b = *b, .c = *c, .da = where ? TensorView{} : da.view(), .db = db, .dc = dc}));
  const Tensor* const gradients[] = {&da, &db, &dc};
  for (int k = where; k < 3; ++k) r.gradient(*operands[k], *gradients[k]);
  return {};
}
Status ternary(Replay& r, std::string_view op) {
  const Held* x = r.input();
  if (!x) return r.decline(kNoTensor);
  if (op == "masked_fill") {  // the value where the mask is true
    const Held *mask = r.tensor(0, "mask"), *value = r.is_number(1, "value") ? &r.number_tensor(x->dtype(), number(*r.argument(1, "value"))) : r.tensor(1, "value");
    if (!mask || !value) return r.decline(kNoTensor);
    if (value->shape().rank > 0) return r.decline(kOneValue);
    return run_ternary(r, {TernaryKind::where, x->dtype(), mask->shape(), value->shape(), x->shape()}, mask, value, x);
  }
  if (op == "where") {  // its samples' input is the first choice
    const Held *condition = r.tensor(0, "condition"), *other = r.tensor(1, "other");
    if (!condition || !other) return r.decline(kNoTensor);
    return run_ternary(r, {TernaryKind::where, x->dtype(), condition->shape(), x->shape(), other->shape()}, condition, x, other);
  }
  if (op == "lax.clamp") {  // bound, operand, bound
    const Held *operand = r.tensor(0, "x"), *high = r.tensor(1, "max");
    return run_ternary(r, {TernaryKind::clamp, operand->dtype(), operand->shape(), x->shape(), high->shape()}, operand, x, high);
  }
  if (op == "clamp") {
    const Held *low = r.tensor(0, "min"), *high = r.tensor(1, "max");
    if (low && high) return run_ternary(r, {TernaryKind::clamp, x->dtype(), x->shape(), low->shape(), high->shape()}, x, low, high);
    const Held* bound = low ? low : high;
    if (!bound) return r.decline(kNoTensor);
    return run_binary(r, {low ? BinaryKind::clamp_min : BinaryKind::clamp_max, x->dtype(), x->shape(), bound->shape()}, x, bound, 0);
  }
  if (op == "lerp") {
    const Held* end = r.tensor(0, "end");
    const Json* weight = r.argument(1, "weight");
    if (!end || !weight) return r.decline(kNoTensor);
    if (weight->is_number()) return run_binary(r, {BinaryKind::lerp, x->dtype(), x->shape(), end->shape(), number(*weight)}, x, end, 0);
    const Held* w = r.tensor(1, "weight");
    return run_ternary(r, {TernaryKind::lerp, x->dtype(), x->shape(), end->shape(), w->shape()}, x, end, w);
  }
  const Held *b = r.tensor(0, "tensor1"), *c = r.tensor(1, "tensor2");
  if (!b || !c) return r.decline(kNoTensor);
  TernaryDescriptor d{op == "addcmul" ? TernaryKind::addcmul : TernaryKind::addcdiv, x->dtype(), x->shape(), b->shape(), c->shape()};
  d.alpha = r.value(2, "value", 1.0);
  return run_ternary(r, d, x, b, c);
}

}  // namespace

Family elementwise_family() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> list;
    for (const UnaryCall& u : unary_calls())
      if (!u.op.starts_with("gelu ")) list.push_back({u.op, unary});
    list.push_back({"nn.functional.gelu", unary});
    for (const BinaryCall& b : kBinary) list.push_back({b.op, binary});
    for (std::string_view op : {"where", "masked_fill", "clamp", "lerp", "addcmul", "addcdiv", "lax.clamp"}) list.push_back({op, ternary});
    return list;
  }();
  static const std::vector<Declined> declined = [] {
    std::vector<Declined> list = {{"clamp", {5, 6}, kMixed}, {"lax.round", {0}, kAway}, {"lax.abs", {6, 7}, kComplex}, {"lax.sign", {18, 20}, kComplex},
                                  {"lax.sign", {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27}, kNoTensor}};
    for (std::string_view op : {"lax.acos", "lax.acosh", "lax.asin", "lax.asinh", "lax.atan", "lax.atanh", "lax.cos", "lax.cosh", "lax.exp", "lax.exp2", "lax.expm1", "lax.log", "lax.log1p",
                                "lax.log2", "lax.logistic", "lax.pow", "lax.rsqrt", "lax.sin", "lax.sinh", "lax.sqrt", "lax.tan", "lax.tanh"})
      list.push_back({op, {4, 5}, kComplex});
    for (std::string_view op : {"lax.add", "lax.sub", "lax.mul", "lax.add_any", "lax.div", "lax.neg"}) list.push_back({op, {9, 10}, kComplex});
    for (std::string_view op : {"lax.eq", "lax.ne", "lax.ge", "lax.gt", "lax.le", "lax.lt"}) list.push_back({op, {10, 11}, kComplex});
    for (std::string_view op : {"lax.max", "lax.min"}) list.push_back({op, {12, 13, 16, 17, 19, 20, 25, 26}, kComplex});
    return list;
  }();
  static const std::vector<Declined> errors = [] {
    std::vector<Declined> list;
    const auto decline = [&](const std::set<int>& samples, std::string_view why, std::initializer_list<std::string_view> ops) {
      for (std::string_view op : ops) list.push_back({op, samples, why});
    };
    decline({0}, kNumber, {"rsub", "fmod", "clamp_min", "clamp_max", "copysign", "eq", "ne", "lt", "le", "gt", "ge", "__radd__", "__rmul__", "__rdiv__", "__rand__", "__ror__", "__rxor__"});
    decline({0, 1}, kNumber, {"maximum", "minimum", "max.binary", "min.binary", "fmax", "fmin", "heaviside", "nextafter", "atan2", "hypot", "logaddexp", "logical_and", "logical_or", "logical_xor", "gcd", "lcm"});
    decline({2, 3}, kNumber, {"isclose"});
    decline({1}, kNoTensor, {"rsub", "fmod", "clamp_min", "clamp_max", "copysign", "eq", "ne", "lt", "le", "gt", "ge", "__radd__", "__rmul__", "__rdiv__", "__rand__", "__ror__", "__rxor__"});
    decline({0}, kNoTensor, {"remainder", "pow", "xlogy", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"});
    decline({2}, kNoTensor, {"maximum", "minimum", "max.binary", "min.binary", "fmax", "fmin", "heaviside", "nextafter", "atan2", "hypot", "logaddexp", "logical_and", "logical_or", "logical_xor", "gcd", "lcm"});
    decline({4}, kNoTensor, {"isclose"});
    decline({0}, kNoTensor, {"special.xlog1py"});
    decline({0, 1}, kNumber, {"ldexp"});
    decline({2}, kNoTensor, {"ldexp"});
    decline({0}, kOneValue, {"masked_fill"});
    decline({1}, kNoTensor, {"masked_fill"});
    decline({2}, kMixed, {"masked_fill"});
    return list;
  }();
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
