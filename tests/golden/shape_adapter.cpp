#include "baracuda/ops/shape/dynamic_slice.hpp"
#include "baracuda/ops/shape/select_n.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr std::string_view kBatches = "more than two axes: diagonal takes batches of matrices";
constexpr size_t kKeywordOnly = 99;  // a position that no argument has
constexpr std::string_view kNoSteps = "the sample was recorded without its strides";
constexpr std::string_view kCounts = "a number of repeats per element: repeat_interleave takes one for all";

template <class D = Dims> D numbers(const Json& j) {  // a list, or one number
  D d;
  if (j.is_number()) d.push_back(j.get<int64_t>());
  else for (const Json& e : j.at("list")) d.push_back(e.get<int64_t>());
  return d;
}
// x through Op, dy through Backward; bits, or sums of as many terms as dy has.
template <class Op, class Backward, class D> Status replay(Replay& r, const D& d, const D& back, const Shape& y_shape, const TensorView& x) {
  Tensor y(d.dtype, y_shape);
  BARACUDA_TRY(run_plan<Op>(d, {x, y}));
  r.output(0, y.values());
  r.judge = {.terms = double(y.numel()), .inner = double(y.numel())};
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, x.shape), dense(d.dtype, y_shape, r.dy().values());
  BARACUDA_TRY(run_plan<Backward>(back, {dense, dx}));
  r.gradient(*r.input(), dx.values());
  return {};
}
Status permute(Replay& r, std::string_view op) {
  const Held* x = r.input();
  PermuteDescriptor d{x->dtype(), x->shape(), {}}, back = d;
  const int rank = x->shape().rank;
  if (op == "permute_copy") d.axes = numbers(*r.argument(0, "dims"));
  else {
    for (int i = 0; i < rank; ++i) d.axes.push_back(i);
    const int64_t a = r.value<int64_t>(0, "dim0", 0), b = r.value<int64_t>(1, "dim1", 0);
    if (rank > 0) std::swap(d.axes[int(a < 0 ? a + rank : a)], d.axes[int(b < 0 ? b + rank : b)]);
  }
  back.axes = d.axes;
  for (int i = 0; i < d.axes.rank; ++i) back.axes[int(d.axes[i] < 0 ? d.axes[i] + rank : d.axes[i])] = i;
  back.shape = d.y_shape();
  return replay<Permute, Permute>(r, d, back, d.y_shape(), *x);
}
Status flip(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const FlipDescriptor d{x->dtype(), x->shape(), op == "fliplr" ? Dims{1} : op == "flipud" ? Dims{0} : numbers(*r.argument(0, "dims"))};
  return replay<Flip, Flip>(r, d, d, d.shape, *x);
}
Status roll(Replay& r, std::string_view) {
  const Held* x = r.input();
  const RollDescriptor d{x->dtype(), x->shape(), numbers(*r.argument(0, "shifts")), r.argument(1, "dims") ? numbers(*r.argument(1, "dims")) : Dims{}};
  RollDescriptor back = d;
  for (int i = 0; i < d.shifts.rank; ++i) back.shifts[i] = -d.shifts[i];
  return replay<Roll, Roll>(r, d, back, d.shape, *x);
}
Status repeat(Replay& r, std::string_view op) {
  const Held* x = r.input();
  Dims repeats = numbers(*r.argument(0, op == "tile" ? "dims" : "repeats"));
  if (op == "tile")  // ones in front
    while (repeats.rank < x->shape().rank) {
      Dims more = {1};
      for (int i = 0; i < repeats.rank; ++i) more.push_back(repeats[i]);
      repeats = more;
    }
  const RepeatDescriptor d{x->dtype(), x->shape(), repeats};
  return replay<Repeat, RepeatBackward>(r, d, d, d.y_shape(), *x);
}
Status interleave(Replay& r, std::string_view) {
  const Held* x = r.input();
  if (!r.argument(0, "repeats")->is_number()) return r.decline(kCounts);
  Tensor dense(x->dtype(), x->shape(), x->values());
  const Json* dim = r.argument(1, "dim");
  const TensorView from = dim ? x->view() : reshaped(dense, {x->shape().numel()});
  const RepeatInterleaveDescriptor d{from.dtype, from.shape, r.value<int64_t>(0, "repeats", 1), dim ? dim->get<int64_t>() : 0};
  return replay<RepeatInterleave, RepeatInterleaveBackward>(r, d, d, d.y_shape(), from);
}
Status triangle(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const TriangleDescriptor d{x->dtype(), x->shape(), op == "tril" ? TriangleKind::lower : TriangleKind::upper, r.value<int64_t>(0, "diagonal", 0)};
  return replay<Triangle, Triangle>(r, d, d, d.shape, *x);
}
Status diagonal(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const int64_t offset = r.value<int64_t>(0, "offset", 0);
  if (op == "diagonal_copy") {
    const DiagonalDescriptor d{.dtype = x->dtype(), .shape = x->shape(), .offset = offset, .axis1 = r.value<int64_t>(1, "dim1", 0), .axis2 = r.value<int64_t>(2, "dim2", 1)};
    if (Status s = DiagonalPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
    return replay<Diagonal, DiagonalEmbed>(r, d, d, d.y_shape(), *x);
  }
  DiagonalDescriptor d{.dtype = x->dtype(), .offset = offset, .axis1 = r.value<int64_t>(1, "dim1", -2), .axis2 = r.value<int64_t>(2, "dim2", -1)};
  const Shape& from = x->shape();
  const int rank = from.rank + 1;
  for (int i = 0, next = 0; i < rank; ++i) {
    const bool matrix = i == d.axis1 || i == d.axis2 || i - rank == d.axis1 || i - rank == d.axis2;
    d.shape.push_back(matrix || next >= from.rank - 1 ? from.last() + std::abs(offset) : from[next++]);
  }
  if (Status s = DiagonalEmbedPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
  return replay<DiagonalEmbed, Diagonal>(r, d, d, d.shape, *x);
}
// The element of x that stands at place o of an axis, or -1.
int64_t padded_from(PadMode mode, int64_t o, int64_t n, int64_t lo, int64_t hi) {
  const int64_t q = o - lo;
  switch (mode) {
    case PadMode::reflect: return q < 0 ? -q : q >= n ? 2 * (n - 1) - q : q;
    case PadMode::replicate: return std::clamp<int64_t>(q, 0, n - 1);
    case PadMode::circular: {
      const int64_t base = std::max<int64_t>(0, -lo), period = n - base - std::max<int64_t>(0, -hi), i = (o - std::max<int64_t>(0, lo)) % period;
      return base + (i < 0 ? i + period : i);
    }
    default: return q >= 0 && q < n ? q : -1;
  }
}
Status pad(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const bool nd = op == "constant_pad_nd";
  PadDescriptor d{.dtype = x->dtype(), .shape = x->shape()};
  if (op.ends_with("reflect")) d.mode = PadMode::reflect;
  if (op.find("replicate") != op.npos) d.mode = PadMode::replicate;
  if (op.ends_with("circular")) d.mode = PadMode::circular;
  const Json& list = r.argument(0, "pad")->at("list");
  const int rank = d.shape.rank;
  for (int i = 0; i < rank; ++i) d.lo.push_back(0), d.hi.push_back(0);
  for (int i = 0; i < int(list.size()) / 2 && i < rank; ++i) d.lo[rank - 1 - i] = list[size_t(2 * i)].get<int64_t>(), d.hi[rank - 1 - i] = list[size_t(2 * i + 1)].get<int64_t>();
  if (Status s = PadPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
  const double value = r.value(nd ? 1 : 2, "value", 0.0);
  Tensor y(d.dtype, d.y_shape());
  BARACUDA_TRY(run_plan<Pad>(d, {*x, y, value}));
  r.output(0, y.values());
  r.reference = [&r, x, d, value, shape = d.y_shape()](const Inputs& in) {
    const Values& from = r.numbers(*x, in);
    Numbers n;
    for (int64_t o = 0; o < shape.numel(); ++o) {
      int64_t rest = o, at = 0, step = 1;
      bool inside = true;
      for (int a = shape.rank - 1; a >= 0; --a) {
        const int64_t i = padded_from(d.mode, rest % shape[a], d.shape[a], d.lo[a], d.hi[a]);
        rest /= shape[a], inside = inside && i >= 0, at += i * step, step *= d.shape[a];
      }
      n.y.push_back(inside ? from[size_t(at)] : value), n.scale.push_back(std::fabs(n.y.back()));
    }
    return n;
  };
  r.judge = {.terms = double(y.numel()), .inner = double(y.numel())};
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<PadBackward>(d, {r.dy(), dx}));
  r.gradient(*x, dx.values());
  return {};
}
SliceDescriptor slice_of(const Held& x, int64_t axis, int64_t start, int64_t length) {
  const int rank = x.shape().rank, a = int(axis < 0 ? axis + rank : axis);
  SliceDescriptor d{.dtype = x.dtype(), .shape = x.shape()};
  for (int i = 0; i < rank; ++i) d.start.push_back(0), d.size.push_back(x.shape()[i]);
  if (a >= 0 && a < rank) d.start[a] = start < 0 ? start + x.shape()[a] : start, d.size[a] = length;
  return d;
}
Status narrow(Replay& r, std::string_view) {
  const Held* x = r.input();
  const int64_t axis = r.value<int64_t>(0, "dim", 0);
  if (x->shape().rank == 0 || axis >= x->shape().rank || axis < -x->shape().rank) return {Code::invalid_problem, "narrow_copy: no such axis"};
  const SliceDescriptor d = slice_of(*x, axis, r.value<int64_t>(1, "start", 0), r.value<int64_t>(2, "length", 0));
  if (Status s = SlicePlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
  return replay<Slice, SliceBackward>(r, d, d, d.y_shape(), *x);
}
Status select_scatter(Replay& r, std::string_view) {
  const Held *x = r.input(), *src = r.tensor(0, "src");
  const int64_t axis = r.value<int64_t>(1, "dim", 0);
  const SliceDescriptor d = slice_of(*x, axis, r.value<int64_t>(2, "index", 0), 1);
  const int a = int(axis < 0 ? axis + x->shape().rank : axis);
  Tensor y(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<UpdateSlice>(d, {.x = *x, .update = unsqueezed(*src, a), .y = y}));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, d.shape), dupdate(d.dtype, d.y_shape());
  BARACUDA_TRY(run_plan<UpdateSliceBackward>(d, {.dy = r.dy(), .dx = dx, .dupdate = dupdate}));
  r.gradient(*x, dx);
  r.gradient(*src, dupdate.values());
  return {};
}

// A tensor as torch's stacks of rows, of columns and along the third axis see it.
TensorView at_least(TensorView v, std::string_view op) {
  const auto unsqueeze_to = [&](int rank, int axis) {
    if (v.shape.rank < rank) v = unsqueezed(v, axis);
  };
  if (op == "column_stack") unsqueeze_to(1, 0), unsqueeze_to(2, 1);
  if (op == "vstack" || op == "dstack") unsqueeze_to(1, 0), unsqueeze_to(2, 0);
  if (op == "dstack") unsqueeze_to(3, 2);
  return v;
}
// Tensors of a list: cat, stack, hstack, vstack, dstack, column_stack, lax.concatenate.
Status concat(Replay& r, std::string_view op) {
  const bool jax = op.starts_with("lax."), stacked = op == "stack";
  std::vector<const Held*> list;
  if (jax) list.push_back(r.input());
  for (const Held* h; (h = jax ? r.tensor(list.size() - 1, "") : r.tensor(kKeywordOnly, text("input", list.size())));) list.push_back(h);
  if (list.empty()) return ConcatPlan::select(Stream::cpu(), {.shape = {}}).status();
  int rank = 0;  // of the first that torch does not leave out
  for (const Held* h : list) rank = std::max(rank, at_least(*h, op).shape.rank + stacked);
  const std::map<std::string_view, int64_t> fixed = {{"hstack", rank > 1}, {"vstack", 0}, {"column_stack", 1}, {"dstack", 2}};
  int64_t axis = fixed.count(op) ? fixed.at(op) : r.value<int64_t>(jax ? kKeywordOnly : 0, jax ? "dimension" : "dim", 0);
  if (axis < 0) axis += rank;
  std::vector<TensorView> pieces;
  int64_t extent = 0;
  for (const Held* h : list) {
    if (h->shape().rank == 1 && h->shape()[0] == 0 && rank > 1) continue;  // torch leaves out empty vectors
    pieces.push_back(stacked ? unsqueezed(*h, int(axis)) : at_least(*h, op));
    extent += axis < pieces.back().shape.rank ? pieces.back().shape[int(axis)] : 0;
  }
  ConcatDescriptor d{pieces[0].dtype, pieces[0].shape, axis};
  if (axis < rank) d.shape[int(axis)] = extent;
  if (Status s = ConcatPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
  Held y(d.dtype, d.shape, d.shape.contiguous());
  BARACUDA_TRY(run_plan<Concat>(d, {pieces, y}));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  std::vector<Tensor> grads;
  std::vector<TensorView> views;
  for (const TensorView& p : pieces) grads.emplace_back(d.dtype, p.shape);
  for (const Tensor& g : grads) views.push_back(g);
  BARACUDA_TRY(run_plan<Split>(d, {r.dy(), views}));
  size_t next = 0;
  for (const Held* h : list) h->shape().numel() == 0 ? r.gradient(*h, Values{}) : r.gradient(*h, grads[next].values()), next += !(h->shape().rank == 1 && h->shape()[0] == 0 && rank > 1);
  return {};
}
// split_with_sizes_copy and unbind_copy: pieces, without the axis for unbind.
Status split(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const bool unbind = op == "unbind_copy";
  int64_t axis = r.value<int64_t>(unbind ? 0 : 1, "dim", 0);
  if (axis < 0) axis += x->shape().rank;
  if (axis < 0 || axis >= x->shape().rank) return SplitPlan::select(Stream::cpu(), {x->dtype(), x->shape(), axis}).status();
  const int a = int(axis);
  std::vector<Tensor> made;
  std::vector<TensorView> pieces, dy;
  const int64_t n = x->shape()[a];
  const Dims sizes = unbind ? Dims{} : numbers(*r.argument(0, "split_sizes"));
  for (int64_t k = 0; k < (unbind ? n : sizes.rank); ++k) {
    Shape s = x->shape();
    s[a] = unbind ? 1 : sizes[int(k)];
    made.emplace_back(x->dtype(), s);
  }
  for (const Tensor& t : made) pieces.push_back(t);
  const ConcatDescriptor d{x->dtype(), x->shape(), axis};
  BARACUDA_TRY(run_plan<Split>(d, {*x, pieces}));
  for (size_t k = 0; k < made.size(); ++k) r.output(k, made[k].values());
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  for (size_t k = 0; k < made.size(); ++k) dy.push_back(unbind ? unsqueezed(r.dy(k), a) : r.dy(k).view());
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Concat>(d, {dy, dx}));
  r.gradient(*x, dx);
  return {};
}
// A vector on a diagonal, or the diagonal of a matrix.
Status diag(Replay& r, std::string_view) {
  const Held* x = r.input();
  const int64_t offset = r.value<int64_t>(0, "diagonal", 0);
  if (x->shape().rank == 2) {
    const DiagonalDescriptor d{.dtype = x->dtype(), .shape = x->shape(), .offset = offset};
    return replay<Diagonal, DiagonalEmbed>(r, d, d, d.y_shape(), *x);
  }
  if (x->shape().rank > 2) return r.decline(kBatches);
  if (x->shape().rank == 0) return DiagonalPlan::select(Stream::cpu(), {.dtype = x->dtype(), .shape = x->shape(), .offset = offset}).status();
  const int64_t n = x->shape().last() + std::abs(offset);
  const DiagonalDescriptor d{.dtype = x->dtype(), .shape = {n, n}, .offset = offset};
  if (Status s = DiagonalEmbedPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
  return replay<DiagonalEmbed, Diagonal>(r, d, d, d.shape, *x);
}
// JAX's primitives, whose parameters are keywords; any dtype.
template <class Op> Status moved(Replay& r, const typename Op::Descriptor& d, const Shape& y_shape) {
  if (Status s = Plan<Op>::select(Stream::cpu(), d).status(); !s.ok()) return s;
  Held y(d.dtype, y_shape, y_shape.contiguous());
  BARACUDA_TRY(run_plan<Op>(d, {*r.input(), y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}
template <class D = Dims> D list_of(const Replay& r, std::string_view keyword) {
  D d;
  if (const Json* list = r.argument(kKeywordOnly, keyword))
    for (const Json& e : *list) d.push_back(e.get<int64_t>());
  return d;
}
Status lax(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const DType t = x->dtype();
  if (op == "lax.rev") return moved<Flip>(r, {t, x->shape(), list_of(r, "dimensions")}, x->shape());
  if (op == "lax.transpose") {
    const PermuteDescriptor d{t, x->shape(), list_of(r, "permutation")};
    return moved<Permute>(r, d, d.y_shape());
  }
  if (op == "lax.slice") {
    SliceDescriptor d{t, x->shape(), list_of(r, "start_indices"), {}, list_of(r, "strides")};
    const Dims limit = list_of(r, "limit_indices");
    for (int i = 0; i < limit.rank; ++i) {
      const int64_t step = d.step.rank ? d.step[i] : 1;
      d.size.push_back((limit[i] - d.start[i] + step - 1) / step);
    }
    if (!(d.y_shape() == r.wanted().shape())) return r.decline(kNoSteps);
    return moved<Slice>(r, d, d.y_shape());
  }
  if (op == "lax.pad") {
    PadDescriptor d{.dtype = t, .shape = x->shape()};
    for (const Json& p : *r.argument(kKeywordOnly, "pads")) d.lo.push_back(p[0].get<int64_t>()), d.hi.push_back(p[1].get<int64_t>()), d.interior.push_back(p[2].get<int64_t>());
    if (Status s = PadPlan::select(Stream::cpu(), d).status(); !s.ok()) return s;
    Held y(t, d.y_shape(), d.y_shape().contiguous());
    BARACUDA_TRY(run_plan<Pad>(d, {*x, y, r.tensor(0, "")->values()[0]}));
    r.output(0, y);
    r.judge.exact = true;
    return {};
  }
  const bool update = op == "lax.dynamic_update_slice";
  const Tensor start(DType::i64, {x->shape().rank}, r.tensor(update, "")->values());
  DynamicSliceDescriptor d{t, x->shape(), update ? r.tensor(0, "")->shape() : r.wanted().shape()};
  Held y(t, r.wanted().shape(), r.wanted().shape().contiguous());
  if (update) BARACUDA_TRY(run_plan<DynamicUpdateSlice>(d, {*x, *r.tensor(0, ""), start, y}));
  else BARACUDA_TRY(run_plan<DynamicSlice>(d, {*x, start, y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}

// The selector stands first, the cases behind it.
Status select(Replay& r, std::string_view) {
  const Held* which = r.input();
  std::vector<TensorView> cases;
  for (size_t k = 0; const Held* x = r.tensor(k, ""); ++k) cases.push_back(*x);
  const SelectNDescriptor d{r.out_dtype(), which->dtype(), cases[0].shape, which->shape()};
  const Held y(d.dtype, d.shape, d.shape.contiguous());
  BARACUDA_TRY(run_plan<SelectN>(d, {*which, cases, y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}

}  // namespace

Family shape_family() {
  static const Entry entries[] = {{"permute_copy", permute}, {"transpose_copy", permute}, {"flip", flip}, {"fliplr", flip}, {"flipud", flip}, {"roll", roll},
                                  {"repeat", repeat}, {"tile", repeat}, {"repeat_interleave", interleave}, {"tril", triangle}, {"triu", triangle},
                                  {"diag_embed", diagonal}, {"diagonal_copy", diagonal}, {"constant_pad_nd", pad}, {"nn.functional.pad.constant", pad},
                                  {"nn.functional.pad.reflect", pad}, {"nn.functional.pad.replicate", pad}, {"nn.functional.pad.replicate_negative", pad},
                                  {"nn.functional.pad.circular", pad}, {"narrow_copy", narrow}, {"select_scatter", select_scatter}, {"cat", concat}, {"stack", concat},
                                  {"hstack", concat}, {"lax.concatenate", concat}, {"split_with_sizes_copy", split}, {"unbind_copy", split}, {"diag", diag},
                                  {"lax.pad", lax}, {"lax.rev", lax}, {"lax.slice", lax}, {"lax.transpose", lax}, {"lax.dynamic_slice", lax},
                                  {"lax.dynamic_update_slice", lax}, {"vstack", concat}, {"dstack", concat}, {"column_stack", concat}, {"lax.select_n", select}};
  static const Declined declined[] = {{"repeat_interleave", {3, 4}, kCounts}, {"lax.slice", {17, 18, 23}, kNoSteps}};
  static const Declined errors[] = {{"diag", {1}, kBatches}};
  return {.adapters = entries, .declined = declined, .declined_errors = errors};
}

}  // namespace baracuda::golden
