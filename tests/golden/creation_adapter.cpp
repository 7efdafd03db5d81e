#include "baracuda/ops/copy/copy.hpp"
#include "baracuda/ops/creation/creation.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr size_t kKeywordOnly = 99;  // a position that no argument has
constexpr std::string_view kTensors = "start or end is a tensor of several numbers: they are fields of a descriptor";
constexpr std::string_view kComplex = "complex elements: creation makes real ones";

// What stands in front of the arguments, which is no tensor.
const Json& first(const Replay& r) { return *r.argument(kKeywordOnly, "input"); }
DType dtype_of(const Replay& r) { return r.refused_by_torch() ? DType::f32 : r.out_dtype(); }
Shape sizes(const Json& list) {
  Shape s;
  for (const Json& e : list) s.push_back(e.get<int64_t>());
  return s;
}
template <class Op> Status made(Replay& r, const typename Op::Descriptor& d, const Shape& shape) {
  if (Status s = Plan<Op>::select(Stream::cpu(), d).status(); !s.ok()) return s;
  Tensor y(d.dtype, shape);
  BARACUDA_TRY(run_plan<Op>(d, {y}));
  r.output(0, y);
  return {};
}

Status arange(Replay& r, std::string_view) {
  const Json* end = r.argument(0, "end");
  const double start = end ? number(first(r)) : 0, stop = number(end ? *end : first(r)), step = r.argument(1, "step") ? number(*r.argument(1, "step")) : 1;
  const Result<int64_t> n = arange_size(start, stop, step);
  if (!n.ok()) return n.status();
  r.judge.exact = true;
  return made<Arange>(r, {dtype_of(r), {*n}, 0, start, step}, {*n});
}
Status iota(Replay& r, std::string_view) {
  const Shape shape = sizes(*r.argument(kKeywordOnly, "shape"));
  if (kDTypeFacts[size_t(r.out_dtype())].complex) return r.decline(kComplex);
  r.judge.exact = true;
  return made<Arange>(r, {r.out_dtype(), shape, r.value<int64_t>(kKeywordOnly, "dimension", 0)}, shape);
}
Status linspace(Replay& r, std::string_view op) {
  const Json &end = *r.argument(0, "end"), &steps = *r.argument(1, "steps");
  if (!first(r).is_number() || !end.is_number()) return r.decline(kTensors);
  LinspaceDescriptor d{.dtype = dtype_of(r), .start = number(first(r)), .end = number(end)};
  BARACUDA_TRY(set_field(d, "shape", steps.dump()));
  if (op == "logspace") d.base = r.value(2, "base", 10.0);
  r.reference = [d, log = op == "logspace"](const Inputs&) {
    Numbers y;
    for (int64_t i = 0, n = d.shape[0]; i < n; ++i) {
      const long double v = n == 1 ? d.start : (long double)d.start + ((long double)d.end - d.start) * i / (n - 1);
      y.y.push_back(double(log ? std::pow((long double)*d.base, v) : v)), y.scale.push_back(log ? std::fabs(y.y.back()) : std::max(std::fabs(d.start), std::fabs(d.end)));
    }
    return y;
  };
  return made<Linspace>(r, d, d.shape);
}
Status eye(Replay& r, std::string_view) {
  const int64_t rows = first(r).get<int64_t>(), columns = r.value<int64_t>(0, "m", rows);
  r.judge.exact = true;
  return made<Eye>(r, {dtype_of(r), {rows, columns}}, {rows, columns});
}
Status triangle_indices(Replay& r, std::string_view op) {
  const TriangleIndicesDescriptor d{r.out_dtype(), first(r).get<int64_t>(), r.value<int64_t>(0, "col", 0), op == "tril_indices" ? EyeKind::lower : EyeKind::upper,
                                    r.value<int64_t>(1, "offset", 0)};
  r.judge.exact = true;
  return made<TriangleIndices>(r, d, d.y_shape());
}
Status constant(Replay& r, std::string_view op) {
  const bool like = op.starts_with("new_");
  const Shape shape = sizes(like ? r.argument(0, "size")->at("list") : first(r).at("list"));
  const double value = op.ends_with("ones") ? 1 : op.ends_with("zeros") ? 0 : number(*r.argument(like, "fill_value"));
  Tensor y(r.out_dtype(), shape);
  BARACUDA_TRY(run_plan<Fill>({y.dtype(), shape}, {.y = y, .value = value}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}

}  // namespace

Family creation_family() {
  static const Entry entries[] = {{"arange", arange}, {"linspace", linspace}, {"logspace", linspace}, {"eye", eye}, {"full", constant}, {"zeros", constant},
                                  {"ones", constant}, {"new_full", constant}, {"new_ones", constant}, {"new_zeros", constant},
                                  {"tril_indices", triangle_indices}, {"triu_indices", triangle_indices}, {"lax.iota", iota}};
  static const Declined declined[] = {{"lax.iota", {9, 10}, kComplex}};
  static const Declined errors[] = {{"linspace", {2}, kTensors}, {"logspace", {2}, kTensors}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
