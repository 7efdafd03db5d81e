#include <cmath>
#include "baracuda/ops/elementwise/elementwise.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// The formula, and what its rounding errors grow with: the value, unless a difference loses more.
struct UnaryCall {
  std::string_view op, kind;
  double (*f)(double);
  bool singular = false;                          // at 0
  double (*scale)(double x, double y) = nullptr;  // of y
  double inner = 0;                               // roundings of a saved y that the gradient uses
};
double size_of_x(double x, double) { return std::fabs(x); }
const UnaryCall kUnary[] = {
    {"neg", "neg", [](double x) { return -x; }},
    {"abs", "abs", [](double x) { return std::fabs(x); }},
    {"exp", "exp", [](double x) { return std::exp(x); }, false, nullptr, 1},
    {"log", "log", [](double x) { return std::log(x); }, true},
    {"sqrt", "sqrt", [](double x) { return std::sqrt(x); }, true, nullptr, 1},
    {"rsqrt", "rsqrt", [](double x) { return 1 / std::sqrt(x); }, true, nullptr, 3},
    {"tanh", "tanh", [](double x) { return std::tanh(x); }, false, nullptr, 2},
    {"sigmoid", "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, false, nullptr, 2},
    {"square", "square", [](double x) { return x * x; }},
    {"reciprocal", "reciprocal", [](double x) { return 1 / x; }, true, nullptr, 2},
    {"nn.functional.relu", "relu", [](double x) { return x > 0 ? x : 0; }},
    {"nn.functional.silu", "silu", [](double x) { return x / (1 + std::exp(-x)); }, false, size_of_x},
    {"nn.functional.softplus", "softplus", softplus},
    {"gelu none", "gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, false, size_of_x},
    {"gelu tanh", "gelu_tanh", gelu_tanh, false, size_of_x},
};

Status unary(Replay& r, std::string_view op) {
  const Held* x = r.input();
  if (!x) return r.decline(kNoTensor);
  UnaryDescriptor d{.dtype = x->dtype(), .shape = x->shape()};
  std::string call(op);
  if (op == "nn.functional.gelu") {  // the name of the formula goes through the descriptor's own parser
    call = "gelu " + r.value<std::string>(0, "approximate", "none");
    BARACUDA_TRY(set_field(d, "kind", call == "gelu none" ? "gelu" : "gelu_" + call.substr(5)));
  }
  if (op == "nn.functional.softplus" && (r.value(0, "beta", 1.0) != 1 || r.value(1, "threshold", 20.0) < 20)) return r.decline(kThreshold);
  const UnaryCall* known = std::find_if(std::begin(kUnary), std::end(kUnary), [&](const UnaryCall& u) { return u.op == call; });
  if (known == std::end(kUnary)) return {Code::invalid_problem, "golden: no such call"};
  BARACUDA_TRY(set_field(d, "kind", known->kind));

  Tensor y(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Unary>(d, {.x = *x, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .inner = known->inner, .singular = known->singular};
  r.reference = [&r, x, known](const Inputs& in) {
    Numbers n;
    for (double v : r.numbers(*x, in)) {
      n.y.push_back(known->f(v));
      n.scale.push_back(known->scale ? known->scale(v, n.y.back()) : 0);
    }
    return n;
  };
  if (!r.has_gradients()) return {};
  const SavedTensors saved = saved_tensors(d.kind);
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<UnaryBackward>(d, {.dy = r.dy(), .x = saved.x ? x->view() : TensorView{}, .y = saved.y ? y.view() : TensorView{}, .dx = dx}));
  r.gradient(*x, dx);
  // Gradients of saturating functions are differences of numbers near 1.
  Values scale = r.dy().values();
  const Values at = x->values();
  for (size_t i = 0; i < scale.size(); ++i) {
    const bool saturates = known->kind == "tanh" || known->kind == "sigmoid" || known->scale;
    scale[i] = saturates ? std::fabs(scale[i]) * (known->scale ? 1 + std::fabs(at[i]) : 1) : 0;
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
    {"true_divide", BinaryKind::div},
    {"maximum", BinaryKind::maximum},
    {"minimum", BinaryKind::minimum},
    {"max.binary", BinaryKind::maximum},
    {"min.binary", BinaryKind::minimum},
    {"pow", BinaryKind::pow, false, 1},
    {"__radd__", BinaryKind::add, true},
    {"__rsub__", BinaryKind::sub, true},
    {"__rmul__", BinaryKind::mul, true},
    {"__rdiv__", BinaryKind::div, true},
    {"__rpow__", BinaryKind::pow, true, 1},
};
struct Partials { double y, a, b; };
Partials apply(const BinaryDescriptor& d, double a, double b) {
  switch (d.kind) {
    case BinaryKind::add: return {a + b, 1, 1};
    case BinaryKind::sub: return {a - b, 1, -1};
    case BinaryKind::mul: return {a * b, b, a};
    case BinaryKind::div: return {a / b, 1 / b, -a / b / b};
    case BinaryKind::maximum: return {std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b), a > b ? 1 : a == b ? 0.5 : 0, b > a ? 1 : a == b ? 0.5 : 0};
    case BinaryKind::minimum: return {std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b), a < b ? 1 : a == b ? 0.5 : 0, b < a ? 1 : a == b ? 0.5 : 0};
    case BinaryKind::pow: return {std::pow(a, b), b == 0 ? 0 : b * std::pow(a, b - 1), a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a)};
    case BinaryKind::scale_add: return {d.alpha * a + d.beta * b, d.alpha, d.beta};
    default: throw std::logic_error("golden: no formula for a kind");
  }
}

Status binary(Replay& r, std::string_view op) {
  const BinaryCall& call = *std::find_if(std::begin(kBinary), std::end(kBinary), [&](const BinaryCall& c) { return c.op == op; });
  const Held *a = r.input(), *b = r.tensor(0, "other");
  if (!b) b = r.tensor(0, "exponent");
  if (!a || !b) return r.decline(kNoTensor);
  if (call.swapped) std::swap(a, b);
  BinaryDescriptor d{.kind = call.kind, .dtype = a->dtype(), .a = a->shape(), .b = b->shape()};
  if (const double alpha = r.value(1, "alpha", 1.0); alpha != 1) {  // alpha belongs to the operand that torch calls other
    d.kind = BinaryKind::scale_add;
    const double sign = call.kind == BinaryKind::sub ? -1 : 1;
    d.alpha = call.swapped && op != "rsub" ? alpha : 1;
    d.beta = call.swapped && op != "rsub" ? sign : sign * alpha;
  }
  BARACUDA_TRY_ASSIGN(shape, broadcast_shape(Binary::name, d.a, d.b));
  Tensor y(d.dtype, shape);
  BARACUDA_TRY(run_plan<Binary>(d, {.a = *a, .b = *b, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .inner = call.inner};
  if (r.has_gradients() && y.numel() > 0) r.judge.terms = double(y.numel());  // of a broadcast operand
  // Row-major places of each operand in the broadcast shape, through views of zero strides over place numbers.
  auto places = [&](const Shape& of) {
    std::vector<int64_t> numbers(size_t(std::max<int64_t>(of.numel(), 1)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i);
    return values_of(expanded(TensorView::dense(numbers.data(), of), shape));
  };
  const Values ap = places(d.a), bp = places(d.b);
  r.reference = [&r, a, b, d, ap, bp](const Inputs& in) {
    Numbers n;
    for (size_t i = 0; i < ap.size(); ++i) {
      const double x = r.numbers(*a, in)[size_t(ap[i])], z = r.numbers(*b, in)[size_t(bp[i])];
      n.y.push_back(apply(d, x, z).y);
      const bool sum = d.kind == BinaryKind::add || d.kind == BinaryKind::sub || d.kind == BinaryKind::scale_add;
      n.scale.push_back(sum ? std::fabs(d.alpha * x) + std::fabs(d.beta * z) : 0);
    }
    return n;
  };
  if (r.has_gradients())
    r.derivatives = [&r, a, b, d, ap, bp, dy = r.dy().values()](const Inputs& in) {
      std::vector<Numbers> out(in.size());
      for (size_t k = 0; k < in.size(); ++k) out[k] = {Values(in[k].size()), Values(in[k].size())};
      for (size_t i = 0; i < ap.size(); ++i) {
        const size_t pa = size_t(ap[i]), pb = size_t(bp[i]);
        const Partials p = apply(d, r.numbers(*a, in)[pa], r.numbers(*b, in)[pb]);
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
                                            .b = da_reads.b || db_reads.b ? b->view() : TensorView{},
                                            .y = da_reads.y || db_reads.y ? y.view() : TensorView{},
                                            .da = da,
                                            .db = db}));
  r.gradient(*a, da);
  r.gradient(*b, db);
  return {};
}

}  // namespace

Family elementwise_family() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> list;
    for (const UnaryCall& u : kUnary)
      if (!u.op.starts_with("gelu ")) list.push_back({u.op, unary});
    list.push_back({"nn.functional.gelu", unary});
    for (const BinaryCall& b : kBinary) list.push_back({b.op, binary});
    return list;
  }();
  static const Declined declined[] = {{"nn.functional.softplus", {0, 1, 2}, kThreshold}};
  static const Declined errors[] = {{"rsub", {1}, kNoTensor},
 {"maximum", {2}, kNoTensor},
 {"minimum", {2}, kNoTensor},
 {"max.binary", {2}, kNoTensor},
 {"min.binary", {2}, kNoTensor},
 {"pow", {0}, kNoTensor},
 {"__radd__", {1}, kNoTensor},
 {"__rmul__", {1}, kNoTensor},
 {"__rdiv__", {1}, kNoTensor}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
