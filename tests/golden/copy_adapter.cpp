#include "baracuda/core/bitcast.hpp"
#include "baracuda/ops/copy/copy.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr std::string_view kViews = "a view that cannot be: views are the caller's strides, copy takes any";

// Copies and casts to the dtype and strides that PyTorch chose for its result; the gradient is cast back.
Status cast(Replay& r, std::string_view) {
  const Held* x = r.input();
  Held y(r.out_dtype(), x->shape(), r.wanted().view().strides);
  auto move = [](const TensorView& from, const TensorView& to) {
    if (from.dtype == to.dtype) return run_plan<Copy>({from.dtype, from.shape}, {.x = from, .y = to});
    return run_plan<Cast>({from.dtype, to.dtype, from.shape}, {.x = from, .y = to});
  };
  BARACUDA_TRY(move(*x, y));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  Tensor dx(x->dtype(), x->shape());
  BARACUDA_TRY(move(r.dy(), dx));
  r.gradient(*x, dx);
  return {};
}

// A view made dense, as torch's copying views are; the gradient goes back through the same view.
Status copied_view(Replay& r, std::string_view op) {
  if (r.refused_by_torch()) return r.decline(kViews);
  const Held* x = r.input();
  const Held& want = r.wanted();
  const auto view = [&](const TensorView& v) {
    TensorView to = v;
    if (op == "t_copy") {
      if (v.shape.rank == 2) std::swap(to.shape[0], to.shape[1]), std::swap(to.strides[0], to.strides[1]);
    } else if (op != "alias_copy") {  // axes of one element more or less, or the elements of a dense tensor in another shape
      to = TensorView::dense(v.data, v.dtype, want.shape());
    }
    return to;
  };
  if (op != "t_copy" && op != "alias_copy" && x->view().strides != x->shape().contiguous()) return {Code::invalid_problem, "golden: the input of a view is not dense"};
  Held y(x->dtype(), want.shape(), want.view().strides);
  BARACUDA_TRY(run_plan<Copy>({x->dtype(), want.shape()}, {.x = view(*x), .y = y}));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  Tensor dx(x->dtype(), x->shape());
  BARACUDA_TRY(run_plan<Copy>({x->dtype(), want.shape()}, {.x = r.dy(), .y = view(dx)}));
  r.gradient(*x, dx);
  return {};
}

// x as a view whose new axes have stride 0, made dense.
Status broadcast(Replay& r, std::string_view) {
  const Held* x = r.input();
  const Json &axes = *r.argument(0, "broadcast_dimensions"), &extents = *r.argument(0, "outshape");
  TensorView wide = *x;
  wide.shape = {}, wide.strides = {};
  for (const Json& e : extents) wide.shape.push_back(e.get<int64_t>()), wide.strides.push_back(0);
  for (size_t i = 0; i < axes.size(); ++i)
    if (x->shape()[int(i)] > 1) wide.strides[axes[i].get<int>()] = x->view().strides[int(i)];
  Held y(x->dtype(), wide.shape, wide.shape.contiguous());
  BARACUDA_TRY(run_plan<Copy>({x->dtype(), wide.shape}, {.x = wide, .y = y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}
// The same bytes as another dtype, copied to where the result is wanted.
Status view_as(Replay& r, std::string_view) {
  BARACUDA_TRY_ASSIGN(view, bitcast_axis(*r.input(), r.out_dtype()));
  const Held y(view.dtype, view.shape, view.shape.contiguous());
  BARACUDA_TRY(run_plan<Copy>({view.dtype, view.shape}, {.x = view, .y = y}));
  r.output(0, y);
  r.judge.exact = true;
  return {};
}
Status fill(Replay& r, std::string_view op) {
  const Held* x = r.input();
  double value = op == "ones_like" ? 1 : 0;
  if (op == "fill") value = number(*r.argument(0, "value"));
  if (op == "full_like") value = number(*r.argument(0, "fill_value"));
  Held y(r.out_dtype(), x->shape(), r.wanted().view().strides);
  BARACUDA_TRY(run_plan<Fill>({y.dtype(), y.shape()}, {.y = y, .value = value}));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  Tensor dx(x->dtype(), x->shape());
  BARACUDA_TRY(run_plan<Fill>({dx.dtype(), dx.shape()}, {.y = dx, .value = 0}));
  r.gradient(*x, dx);
  return {};
}

}  // namespace

Family copy_family() {
  static const Entry entries[] = {{"positive", cast}, {"clone", cast}, {"real", cast}, {"conj_physical", cast}, {"alias_copy", copied_view}, {"t_copy", copied_view},
                                  {"view_copy", copied_view}, {"squeeze_copy", copied_view}, {"unsqueeze_copy", copied_view}, {"contiguous", cast}, {"to", cast},         {"half", cast},
                                  {"bfloat16", cast}, {"float", cast}, {"double", cast},     {"fill", fill},       {"zero_", fill},
                                  {"zeros_like", fill}, {"ones_like", fill}, {"full_like", fill},     {"lax.device_put", cast}, {"lax.stop_gradient", cast}, {"lax.broadcast_in_dim", broadcast},
                                  {"lax.bitcast_convert_type", view_as}, {"bool", cast}, {"byte", cast}, {"char", cast}, {"short", cast}, {"int", cast}, {"long", cast}};
  static const Declined errors[] = {{"t_copy", {0}, kViews}, {"view_copy", {0, 1, 2, 3, 4, 5, 6, 7}, kViews}};
  return {.adapters = entries, .declined_errors = errors};
}

}  // namespace baracuda::golden
