#include "baracuda/ops/index/index.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr size_t kKeywordOnly = 99;  // a position that no argument has
constexpr std::string_view kOverlap = "out shares memory with an argument, which a sample cannot tell";
constexpr std::string_view kAnyRank = "indices without elements have another rank than x: gather takes its rank";
constexpr std::string_view kBroadcast = "x is broadcast, so its gradient is a sum over axes besides: gather reads x as the caller's view";

TensorView vector_of(TensorView v) {  // a tensor of rank 0 as one of one element
  if (v.shape.rank == 0) v.shape.push_back(1), v.strides.push_back(1);
  return v;
}
TensorView shaped(TensorView v, const Shape& shape) {  // dense, as the sample has it
  v.shape = shape, v.strides = shape.contiguous();
  return v;
}
std::vector<uint8_t> bytes_of_doubles(const Values& v) {
  std::vector<uint8_t> b(v.size() * sizeof(double));
  if (!v.empty()) std::memcpy(b.data(), v.data(), b.size());
  return b;
}
Values sizes(Values v) {
  for (double& e : v) e = std::fabs(e);
  return v;
}
// Row-major places of x that the indices name along an axis.
std::vector<size_t> places(const Shape& x, int axis, const Shape& walk, const TensorView& indices) {
  std::vector<size_t> all;
  const Values index = values_of(indices);
  for (int64_t o = 0; o < walk.numel(); ++o) {
    int64_t rest = o, at = 0, step = 1, c[kMaxRank];
    for (int a = walk.rank - 1; a >= 0; --a) c[a] = rest % walk[a], rest /= walk[a];
    for (int a = walk.rank - 1; a >= 0; --a) at += (a == axis ? int64_t(index[size_t(o)]) : c[a]) * step, step *= x[a];
    all.push_back(size_t(at));
  }
  return all;
}

// gather, take_along_dim; take reads x as one row, index_select one list.
Status gather(Replay& r, std::string_view op) {
  const bool listed = op == "index_select", flat = op == "take";
  const Held *x = r.input(), *index = flat ? r.tensor(0, "index") : op == "take_along_dim" ? r.tensor(0, "indices") : r.tensor(1, "index");
  const Json* dim = op == "take_along_dim" ? r.argument(1, "dim") : flat ? nullptr : r.argument(0, "dim");
  Tensor dense(x->dtype(), x->shape(), x->values());
  Tensor cast;  // torch takes bytes as indices too
  if (index->dtype() == DType::u8) cast = Tensor(DType::i64, index->shape(), index->values());
  TensorView from = vector_of(*x), indices = vector_of(cast.view().absent() ? index->view() : cast.view());
  if (!dim) {  // x, and for take_along_dim the indices, as rows
    from = reshaped(dense, {x->shape().numel()});
    if (!flat) indices = reshaped(indices, {indices.numel()});
  }
  const int64_t axis = dim ? dim->get<int64_t>() : 0;
  const Held* out = r.tensor(kKeywordOnly, "out");
  if (op == "gather" || op == "take_along_dim") {
    if (indices.numel() == 0 && indices.shape.rank != from.shape.rank) return r.decline(kAnyRank);
    if (dim && op == "take_along_dim") {  // each broadcasts to the other but for the axis
      const int a = int(axis < 0 ? axis + from.shape.rank : axis);
      Shape wide = indices.shape, wide_x = from.shape;
      for (int i = 0; i < wide.rank; ++i)
        if (i != a) wide[i] = wide_x[i] = std::max(wide[i], wide_x[i]);
      indices = expanded(indices, wide), from = expanded(from, wide_x);
      if (!(wide_x == x->shape()) && r.has_gradients()) return r.decline(kBroadcast);
    }
    const GatherDescriptor d{.dtype = from.dtype, .shape = from.shape, .axis = axis, .indices = indices.shape, .index_dtype = indices.dtype, .negative = op == "take_along_dim"};
    Tensor y(d.dtype, d.indices);
    BARACUDA_TRY(run_plan<Gather>(d, {from, indices, out ? out->view() : y.view()}));
    if (out && r.refused_by_torch()) return r.decline(kOverlap);
    r.output(0, y.values());
    r.judge = {.terms = double(d.indices.numel()), .inner = double(d.indices.numel())};
    if (!r.has_gradients()) return {};
    Tensor dx(d.dtype, from.shape);
    BARACUDA_TRY(run_plan<GatherBackward>(d, {shaped(r.dy(), y.shape()), indices, dx}));
    r.gradient(*x, dx.values());
    return {};
  }
  const IndexDescriptor d{.dtype = from.dtype, .shape = from.shape, .axes = {axis}, .indices = indices.shape, .index_dtype = indices.dtype, .negative = flat};
  const TensorView list[] = {indices};
  Tensor y(d.dtype, d.y_shape());
  BARACUDA_TRY(run_plan<Index>(d, {from, list, out ? out->view() : y.view()}));
  if (out && r.refused_by_torch()) return r.decline(kOverlap);
  r.output(0, y.values());
  r.judge = {.terms = double(y.numel()), .inner = double(y.numel())};
  if (listed && index->shape().rank > 1) return {Code::invalid_problem, "index_select: one list"};
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, from.shape);
  BARACUDA_TRY(run_plan<IndexBackward>(d, {shaped(r.dy(), y.shape()), list, dx}));
  r.gradient(*x, dx.values());
  return {};
}

Status scatter(Replay& r, std::string_view op) {
  const Held *x = r.input(), *index = r.tensor(1, "index"), *source = r.tensor(2, op.starts_with("scatter") ? "src" : "source");
  const TensorView to = vector_of(*x);
  TensorView indices = vector_of(*index);
  const int64_t dim = r.value<int64_t>(0, "dim", 0);
  ScatterDescriptor d{.dtype = to.dtype, .shape = to.shape, .axis = dim, .alpha = r.value(kKeywordOnly, "alpha", 1.0), .index_dtype = indices.dtype};
  if (op == "scatter_add" || op == "index_add" || op.ends_with(".sum")) d.reduce = ScatterKind::add;
  if (op.ends_with(".mean")) d.reduce = ScatterKind::mean;
  if (op.ends_with(".amin")) d.reduce = ScatterKind::amin;
  if (op.ends_with(".amax")) d.reduce = ScatterKind::amax;
  d.include_self = r.value(kKeywordOnly, "include_self", true);
  const int axis = int(dim < 0 ? dim + to.shape.rank : dim);
  if (op.starts_with("index")) {  // one list for all columns
    Shape wide = to.shape;
    wide[axis] = indices.numel();
    TensorView all = indices;
    all.shape = wide, all.strides = {};
    for (int i = 0; i < wide.rank; ++i) all.strides.push_back(i == axis ? indices.strides[0] : 0);
    indices = all;
  }
  d.indices = indices.shape;
  const bool number_given = r.is_number(2, "value");
  const Tensor constant = number_given ? Tensor(d.dtype, {}, {number(*r.argument(2, "value"))}) : Tensor();
  TensorView src = number_given ? constant.view() : source->view();
  const bool scalar = src.shape.rank == 0;
  auto as_source = [d, scalar](TensorView v) {  // what of it the indices have a place for
    v = vector_of(v);
    if (scalar && v.numel() == 1) {
      v.shape = d.indices, v.strides = {};
      for (int i = 0; i < d.indices.rank; ++i) v.strides.push_back(0);
      return v;
    }
    for (int i = 0; i < v.shape.rank && i < d.indices.rank; ++i)
      if (d.indices[i] <= v.shape[i]) v = part(v, i, 0, d.indices[i]);
    return v;
  };
  src = as_source(src);
  Tensor y(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Scatter>(d, {to, indices, src, y}));
  r.output(0, y.values());
  r.judge = {.terms = double(src.numel()) + 1, .inner = double(src.numel()) + 1};
  const bool sums = d.reduce == ScatterKind::add || d.reduce == ScatterKind::mean;
  if (sums)
    r.reference = [&r, x, source, d, indices, as_source, axis](const Inputs& in) {
      const Values& start = r.numbers(*x, in);
      Tensor all(DType::f64, source->shape(), r.numbers(*source, in));
      const Values from = values_of(as_source(all));
      Numbers n{start, start};
      Values count(start.size(), d.include_self);
      for (double& s : n.scale) s = std::fabs(s);
      const auto at = places(d.shape, axis, d.indices, indices);
      if (!d.include_self)
        for (size_t i : at) n.y[i] = n.scale[i] = 0;
      for (size_t o = 0; o < at.size(); ++o) n.y[at[o]] += d.alpha * from[o], n.scale[at[o]] += std::fabs(d.alpha * from[o]), ++count[at[o]];
      for (size_t i = 0; d.reduce == ScatterKind::mean && i < n.y.size(); ++i) n.y[i] /= std::max(1.0, count[i]);
      return n;
    };
  const bool extremum = d.reduce == ScatterKind::amin || d.reduce == ScatterKind::amax;
  if (extremum)
    r.reference = [y_values = y.values()](const Inputs&) { return Numbers{y_values, sizes(y_values)}; };
  if (extremum && r.has_gradients())  // where x takes no part PyTorch still counts it among the equals, if it is one
    r.derivatives = [&r, x, source, d, indices, as_source, axis, y_values = y.values(), dy = r.dy().values()](const Inputs& in) {
      const Values& start = r.numbers(*x, in);
      Tensor all(DType::f64, source->shape(), r.numbers(*source, in)), shares(DType::f64, source->shape(), Values(size_t(source->shape().numel()), 0.0));
      const TensorView each = as_source(all), to = as_source(shares);
      const Values from = values_of(each);
      const auto at = places(d.shape, axis, d.indices, indices);
      Values count(start.size()), dx = dy, part(from.size());
      std::vector<bool> hit(start.size());
      for (size_t o = 0; o < at.size(); ++o) hit[at[o]] = true, count[at[o]] += from[o] == y_values[at[o]];
      for (size_t i = 0; i < start.size(); ++i) {
        if (!hit[i]) continue;
        const bool self = d.include_self && start[i] == y_values[i];
        count[i] += self, dx[i] = self ? dy[i] / count[i] : 0;
      }
      for (size_t o = 0; o < at.size(); ++o) part[o] = from[o] == y_values[at[o]] ? dy[at[o]] / count[at[o]] : 0;
      testing::put_bytes(to, bytes_of_doubles(part));
      std::vector<Numbers> n(in.size());
      if (x->gradient >= 0) n[size_t(x->gradient)] = {dx, sizes(dx)};
      if (source->gradient >= 0) n[size_t(source->gradient)] = {shares.values(), sizes(shares.values())};
      return n;
    };
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, d.shape), dsrc(d.dtype, scalar ? Shape{1} : source->shape(), Values(size_t(scalar ? 1 : source->shape().numel()), 0.0)), each(d.dtype, d.indices);
  const TensorView into = scalar ? each.view() : as_source(dsrc);
  BARACUDA_TRY(run_plan<ScatterBackward>(d, {.dy = shaped(r.dy(), d.shape), .indices = indices, .x = to, .src = src, .y = y, .dx = dx, .dsrc = into}));
  r.gradient(*x, dx.values());
  if (number_given || source->gradient < 0) return {};
  if (scalar) {
    double sum = 0, size = 0;
    for (double v : each.values()) sum += v, size += std::fabs(v);
    r.condition(*source, {size});
    r.gradient(*source, Values{sum});
  } else r.gradient(*source, dsrc.values());
  return {};
}

// The number of classes is the caller's to find where it is -1.
Status one_hot(Replay& r, std::string_view) {
  const Held* x = r.input();
  int64_t classes = r.value<int64_t>(0, "num_classes", -1);
  if (classes < 0)
    for (double v : x->values()) classes = std::max(classes, int64_t(v) + 1);
  const OneHotDescriptor d{.dtype = r.out_dtype(), .shape = x->shape(), .classes = classes};
  Tensor y(d.dtype, d.y_shape());
  BARACUDA_TRY(run_plan<OneHot>(d, {*x, y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}

}  // namespace

Family index_family() {
  static const Entry entries[] = {{"gather", gather}, {"take_along_dim", gather}, {"index_select", gather}, {"take", gather}, {"scatter", scatter},
                                  {"scatter_add", scatter}, {"scatter_reduce.sum", scatter}, {"scatter_reduce.mean", scatter}, {"scatter_reduce.amin", scatter},
                                  {"scatter_reduce.amax", scatter}, {"index_add", scatter}, {"index_copy", scatter}, {"index_fill", scatter},
                                  {"index_reduce.mean", scatter}, {"index_reduce.amin", scatter}, {"index_reduce.amax", scatter}, {"nn.functional.one_hot", one_hot}};
  static const Declined declined[] = {{"gather", {4}, kAnyRank}, {"take_along_dim", {2}, kBroadcast}};
  static const Declined errors[] = {{"gather", {6, 7}, kOverlap}, {"take", {2}, kOverlap}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
