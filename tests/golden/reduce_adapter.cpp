#include <cmath>
#include "baracuda/ops/reduce/reduce.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr size_t kKeywordOnly = 99;  // a position that no argument has
constexpr std::string_view kComplex = "complex elements: reductions take real ones";

constexpr std::string_view kOuts = "out is a pair of tensors of two dtypes, which a sample cannot be made of here";

// dim: absent, None, a number or a list, of which an empty one is every axis. A tensor of rank 0 has no axis here.
Dims axes_of(const Json* dim, const Shape& shape) {
  Dims axes;
  if (!dim || dim->is_null() || shape.rank == 0) return axes;
  if (dim->is_object()) for (const Json& e : dim->at("list")) axes.push_back(e.get<int64_t>());
  else axes.push_back(dim->get<int64_t>());
  return axes;
}
bool flag(const Json* j) { return j && j->is_boolean() && j->get<bool>(); }

// The elements of every row.
std::vector<Values> rows_of(const Values& x, const Shape& shape, const Dims& axes) {
  bool reduced[kMaxRank];
  int64_t rows = 1;
  for (int i = 0; i < shape.rank; ++i) reduced[i] = axes.rank == 0;
  for (int k = 0; k < axes.rank; ++k) reduced[axes[k] < 0 ? axes[k] + shape.rank : axes[k]] = true;
  for (int i = 0; i < shape.rank; ++i) rows *= reduced[i] ? 1 : shape[i];
  std::vector<Values> out(static_cast<size_t>(rows));
  for (size_t e = 0; e < x.size(); ++e) {
    int64_t rest = int64_t(e), row = 0, step = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
      if (!reduced[i]) row += rest % shape[i] * step, step *= shape[i];
      rest /= shape[i];
    }
    out[size_t(row)].push_back(x[e]);
  }
  return out;
}
// y of a row and the size of what was added.
std::pair<double, double> row_value(const ReduceDescriptor& d, const Values& row) {
  double sum = 0, size = 0, product = 1, powers = 0, exps = 0, spread = 0, numbers = 0, most = -INFINITY, least = INFINITY, far = 0, near = INFINITY, count = 0;
  const bool skips = d.kind == ReduceKind::nansum || d.kind == ReduceKind::nanmean;
  for (double v : row) {
    if (skips && std::isnan(v)) continue;
    ++numbers, sum += v, size += std::fabs(v), product *= v, powers += std::pow(std::fabs(v), d.p), count += v != 0;
    most = std::fmax(most, v), least = std::fmin(least, v), far = std::fmax(far, std::fabs(v)), near = std::fmin(near, std::fabs(v));
  }
  for (double v : row) exps += std::exp(v - most), spread += (v - sum / numbers) * (v - sum / numbers);
  const double var = numbers > d.correction ? spread / (numbers - d.correction) : NAN;
  switch (d.kind) {
    case ReduceKind::sum: case ReduceKind::nansum: return {sum, size};
    case ReduceKind::mean: case ReduceKind::nanmean: return {sum / numbers, size / numbers};
    case ReduceKind::max: return {most, 0};
    case ReduceKind::min: return {least, 0};
    case ReduceKind::prod: return {product, 0};
    case ReduceKind::logsumexp: return {most + std::log(exps), std::fabs(most) + std::log(numbers)};
    case ReduceKind::var: return {var, var};
    case ReduceKind::std: return {std::sqrt(var), std::sqrt(var)};
    default: {
      const double y = std::isinf(d.p) ? d.p > 0 ? far : near : d.p == 0 ? count : std::pow(powers, 1 / d.p);
      return {y, y};
    }
  }
}
auto value_of_each_row(Replay& r, const Held* x, const ReduceDescriptor& d) {
  return [&r, x, d](const Inputs& in) {
    Numbers out;
    for (const Values& row : rows_of(r.numbers(*x, in), d.shape, d.axes)) {
      const auto [value, scale] = row_value(d, row);
      out.y.push_back(value), out.scale.push_back(scale);
    }
    return out;
  };
}
Status reduced(Replay& r, ReduceDescriptor d) {
  const Held* x = r.input();
  if (const Held* out = r.tensor(9, "out")) d.out_dtype = out->dtype();
  if (const Json* t = r.argument(9, "dtype"); t && t->is_object() && t->value("opaque", "") == "torch.int64") d.out_dtype = DType::i64;
  BARACUDA_TRY(Reduce::validate(d));
  Tensor y(y_dtype(d), dy_shape(d));
  BARACUDA_TRY(run_plan<Reduce>(d, {*x, y, {}}));
  r.output(0, y);
  if (y_dtype(d) != d.dtype) return {};
  const int64_t rows = dy_shape(d).numel();
  r.judge = {.ulps = 1, .terms = double(rows ? x->shape().numel() / rows : 0)};
  r.reference = value_of_each_row(r, x, d);
  if (!r.has_gradients()) return {};
  const ReduceSaved saved = reduce_saved(d.kind, d.ties);
  r.judge.inner = saved.y;  // y as saved, rounded to its dtype
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<ReduceBackward>(d, {r.dy(), saved.x ? x->view() : TensorView{}, saved.y ? y.view() : TensorView{}, {}, dx}));
  r.gradient(*x, dx);
  if (d.kind == ReduceKind::logsumexp) {  // exp(x - y): what y lost when it was saved
    Values number(size_t(x->shape().numel())), scale(number.size());
    for (size_t i = 0; i < number.size(); ++i) number[i] = double(i);
    const auto rows_at = rows_of(number, d.shape, d.axes);
    for (size_t o = 0; o < rows_at.size(); ++o)
      for (double i : rows_at[o]) scale[size_t(i)] = std::fabs(dx.at(int64_t(i))) * (1 + std::fabs(y.at(int64_t(o))));
    r.condition(*x, scale);
  }
  return {};
}

template <ReduceKind kind> Status plain(Replay& r, std::string_view) {
  const Held* x = r.input();
  return reduced(r, {.kind = kind, .dtype = x->dtype(), .shape = x->shape(), .axes = axes_of(r.argument(0, "dim"), x->shape()), .keepdim = flag(r.argument(1, "keepdim"))});
}
// torch's unbiased is the correction 1.
ReduceDescriptor spread_of(Replay& r, ReduceKind kind, std::string_view op) {
  const Held* x = r.input();
  ReduceDescriptor d{.kind = kind, .dtype = x->dtype(), .shape = x->shape()};
  const bool overload = op.ends_with(".unbiased");
  if (!overload) d.axes = axes_of(r.argument(0, "dim"), x->shape()), d.keepdim = flag(r.argument(9, "keepdim"));
  if (const Json* u = r.argument(overload ? 0 : 9, "unbiased"); u && u->is_boolean()) d.correction = u->get<bool>();
  if (const Json* c = r.argument(9, "correction"); c && c->is_number()) d.correction = c->get<double>();
  return d;
}
template <ReduceKind kind> Status spread(Replay& r, std::string_view op) { return reduced(r, spread_of(r, kind, op)); }
// The spread and the mean, in one pass; the gradients of the two are two plans, and add up.
template <ReduceKind kind> Status spread_and_mean(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const ReduceDescriptor d = spread_of(r, kind, op);
  BARACUDA_TRY(Reduce::validate(d));
  Tensor y(d.dtype, dy_shape(d)), mean(accumulator(d.dtype), dy_shape(d));
  BARACUDA_TRY(run_plan<Reduce>(d, {*x, y, mean}));
  r.output(0, y), r.output(1, mean);
  const auto rows = rows_of(x->values(), d.shape, d.axes);
  r.judge = {.ulps = 1, .terms = double(rows.empty() ? 0 : rows[0].size()), .inner = 2};
  for (const Values& row : rows) {
    double sum = 0;
    for (double v : row) sum += v;
    r.references[1].push_back(sum / double(row.size()));
  }
  r.reference = value_of_each_row(r, x, d);
  if (!r.has_gradients()) return {};
  r.derivatives = [&r, d, means = r.references[1]](const Inputs& in) {
    const Values &v = in[0], dy = r.dy(0).values(), dmean = r.dy(1).values(), y = r.reference(in).y;
    Values number(v.size());
    for (size_t i = 0; i < v.size(); ++i) number[i] = double(i);
    Numbers dx{Values(v.size()), Values(v.size())};
    const auto rows_at = rows_of(number, d.shape, d.axes);
    for (size_t o = 0; o < rows_at.size(); ++o)
      for (double at : rows_at[o]) {
        const size_t i = size_t(at);
        const double n = double(rows_at[o].size()), slope = dy[o] * (d.kind == ReduceKind::std ? 1 / y[o] : 2) / (n - d.correction), even = dmean[o] / n;
        dx.y[i] = slope * (v[i] - means[o]) + even, dx.scale[i] = std::fabs(slope) * (std::fabs(v[i]) + std::fabs(means[o])) + std::fabs(even);
      }
    return std::vector<Numbers>{dx};
  };
  ReduceDescriptor of_mean = d;
  of_mean.kind = ReduceKind::mean;
  const ReduceSaved saved = reduce_saved(d.kind, d.ties);
  Tensor of_spread(d.dtype, d.shape), even(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<ReduceBackward>(d, {r.dy(0), *x, saved.y ? y.view() : TensorView{}, mean, of_spread}));
  BARACUDA_TRY(run_plan<ReduceBackward>(of_mean, {r.dy(1), {}, {}, {}, even}));
  Values dx = of_spread.values();
  for (size_t i = 0; i < dx.size(); ++i) dx[i] += even.at(int64_t(i));
  r.gradient(*x, dx);
  return {};
}
Status both_extrema(Replay& r, std::string_view) {
  const Held* x = r.input();
  if (r.argument(kKeywordOnly, "out")) return r.decline(kOuts);
  const AminmaxDescriptor d{x->dtype(), x->shape(), axes_of(r.argument(kKeywordOnly, "dim"), x->shape()), flag(r.argument(kKeywordOnly, "keepdim"))};
  const Shape shape = dy_shape({.dtype = d.dtype, .shape = d.shape, .axes = d.axes, .keepdim = d.keepdim});
  Tensor low(d.dtype, shape), high(d.dtype, shape);
  BARACUDA_TRY(run_plan<Aminmax>(d, {*x, low, high}));
  r.output(0, low), r.output(1, high);
  r.judge.exact = true;
  return {};
}
Status vector_norm(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const bool norm = op.starts_with("norm");
  const Json *ord = r.argument(0, norm ? "p" : "ord"), *dim = r.argument(1, "dim");
  return reduced(r, {.kind = ReduceKind::norm_p, .dtype = x->dtype(), .shape = x->shape(), .axes = axes_of(dim, x->shape()), .keepdim = flag(r.argument(2, "keepdim")),
                     .p = ord && !ord->is_string() ? number(*ord) : 2});  // "fro" is 2
}
template <ReduceKind kind> Status lax_reduced(Replay& r, std::string_view) {
  const Held* x = r.input();
  if (kDTypeFacts[size_t(x->dtype())].complex) return r.decline(kComplex);
  ReduceDescriptor d{.kind = kind, .dtype = x->dtype(), .shape = x->shape(), .out_dtype = r.out_dtype()};
  for (const Json& a : *r.argument(kKeywordOnly, "axes")) d.axes.push_back(a.get<int64_t>());
  return reduced(r, d);
}
// The extremum along an axis, whose gradient goes to the element that the index names; and of everything.
template <ReduceKind kind> Status extremum(Replay& r, std::string_view op) {
  const Held* x = r.input();
  ReduceDescriptor d{.kind = kind, .dtype = x->dtype(), .shape = x->shape(), .axes = axes_of(r.argument(0, "dim"), x->shape()), .keepdim = flag(r.argument(1, "keepdim"))};
  if (!op.ends_with("with_dim")) return reduced(r, d);
  d.ties = ReduceTies::first;
  ArgReduceDescriptor at{.kind = kind == ReduceKind::max ? ArgReduceKind::argmax : ArgReduceKind::argmin, .dtype = d.dtype, .shape = d.shape, .keepdim = d.keepdim};
  if (d.axes.rank) at.axis = d.axes[0];
  Tensor indices(DType::i64, dy_shape(d));
  BARACUDA_TRY(run_plan<ArgReduce>(at, {*x, indices, {}}));
  r.output(1, indices);
  return reduced(r, d);
}
template <ArgReduceKind kind> Status lax_index(Replay& r, std::string_view) {
  const Held* x = r.input();
  ArgReduceDescriptor d{.kind = kind, .dtype = x->dtype(), .shape = x->shape(), .axis = r.argument(kKeywordOnly, "axes")->at(0).get<int64_t>()};
  Tensor at(DType::i64, r.wanted().shape());
  BARACUDA_TRY(run_plan<ArgReduce>(d, {*x, at, {}}));
  r.output(0, at);
  r.judge.exact = true;
  return {};
}
template <ArgReduceKind kind> Status index(Replay& r, std::string_view) {
  const Held* x = r.input();
  const Dims axes = axes_of(r.argument(0, "dim"), x->shape());
  ArgReduceDescriptor d{.kind = kind, .dtype = x->dtype(), .shape = x->shape(), .keepdim = flag(r.argument(1, "keepdim"))};
  if (axes.rank) d.axis = axes[0];
  Tensor at(DType::i64, dy_shape({.dtype = d.dtype, .shape = d.shape, .axes = axes, .keepdim = d.keepdim}));
  BARACUDA_TRY(run_plan<ArgReduce>(d, {*x, at, {}}));
  r.output(0, at);
  return {};
}
Status trace(Replay& r, std::string_view) {
  const Held* x = r.input();
  const TraceDescriptor d{.dtype = x->dtype(), .shape = x->shape()};
  Tensor y(d.dtype, {}), dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Trace>(d, {*x, y}));
  r.output(0, y);
  r.judge = {.ulps = 1, .terms = double(std::min(d.shape[0], d.shape[1]))};
  r.reference = [&r, x, d](const Inputs& in) {
    Numbers out{{0}, {0}};
    for (int64_t i = 0; i < std::min(d.shape[0], d.shape[1]); ++i) {
      const double v = r.numbers(*x, in)[size_t(i * (d.shape[1] + 1))];
      out.y[0] += v, out.scale[0] += std::fabs(v);
    }
    return out;
  };
  if (!r.has_gradients()) return {};
  BARACUDA_TRY(run_plan<TraceBackward>(d, {r.dy(), dx}));
  r.gradient(*x, dx);
  return {};
}

}  // namespace

Family reduce_family() {
  static const Entry entries[] = {
      {"sum", plain<ReduceKind::sum>}, {"mean", plain<ReduceKind::mean>}, {"amax", plain<ReduceKind::max>}, {"amin", plain<ReduceKind::min>},
      {"prod", plain<ReduceKind::prod>}, {"logsumexp", plain<ReduceKind::logsumexp>}, {"nansum", plain<ReduceKind::nansum>},
      {"nanmean", plain<ReduceKind::nanmean>}, {"count_nonzero", plain<ReduceKind::count_nonzero>}, {"any", plain<ReduceKind::any>},
      {"all", plain<ReduceKind::all>}, {"var", spread<ReduceKind::var>}, {"var.unbiased", spread<ReduceKind::var>}, {"std", spread<ReduceKind::std>},
      {"std.unbiased", spread<ReduceKind::std>}, {"var_mean", spread_and_mean<ReduceKind::var>}, {"var_mean.unbiased", spread_and_mean<ReduceKind::var>},
      {"std_mean", spread_and_mean<ReduceKind::std>}, {"std_mean.unbiased", spread_and_mean<ReduceKind::std>}, {"aminmax", both_extrema}, {"linalg.vector_norm", vector_norm}, {"norm.inf", vector_norm}, {"argmax", index<ArgReduceKind::argmax>},
      {"argmin", index<ArgReduceKind::argmin>}, {"trace", trace}, {"norm", vector_norm}, {"norm.fro", vector_norm},
      {"max.reduction_no_dim", extremum<ReduceKind::max>}, {"max.reduction_with_dim", extremum<ReduceKind::max>},
      {"min.reduction_no_dim", extremum<ReduceKind::min>}, {"min.reduction_with_dim", extremum<ReduceKind::min>},
      {"lax.reduce_sum", lax_reduced<ReduceKind::sum>}, {"lax.reduce_prod", lax_reduced<ReduceKind::prod>}, {"lax.reduce_max", lax_reduced<ReduceKind::max>},
      {"lax.reduce_min", lax_reduced<ReduceKind::min>}, {"lax.reduce_and", lax_reduced<ReduceKind::all>}, {"lax.reduce_or", lax_reduced<ReduceKind::any>},
      {"lax.argmax", lax_index<ArgReduceKind::argmax>}, {"lax.argmin", lax_index<ArgReduceKind::argmin>}};
  static const Declined declined[] = {{"lax.reduce_sum", {9, 10}, kComplex}, {"lax.reduce_prod", {9, 10}, kComplex},
                                      {"lax.reduce_max", {12, 13}, kComplex}, {"lax.reduce_min", {12, 13}, kComplex}};
  static const Declined errors[] = {{"aminmax", {3}, kOuts}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
