#include <cmath>
#include "baracuda/ops/softmax/softmax.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr std::string_view kHiddenGradient = "the gradient that comes to an element that the mask hides: PyTorch adds it to the others, here it counts as 0";

SoftmaxKind kind_of(std::string_view op) {
  if (op.find("safe") != op.npos) return SoftmaxKind::safe_softmax;
  if (op.find("softmin") != op.npos) return SoftmaxKind::softmin;
  return op.starts_with("log") || op.starts_with("masked.log") ? SoftmaxKind::log_softmax : SoftmaxKind::softmax;
}
// f(indices of the elements of a line) for every line along the axis.
template <class F> void lines(const SoftmaxDescriptor& d, F f) {
  const int rank = d.shape.rank, axis = int(d.axis < 0 ? d.axis + std::max(rank, 1) : d.axis);
  const int64_t n = rank ? d.shape[axis] : 1, inner = rank ? d.shape.product(axis + 1, rank) : 1;
  std::vector<size_t> line(static_cast<size_t>(n));
  for (int64_t l = 0; n && l < d.shape.numel() / n; ++l) {
    for (int64_t i = 0; i < n; ++i) line[size_t(i)] = size_t(l / inner * inner * n + i * inner + l % inner);
    f(line);
  }
}
int64_t extent(const SoftmaxDescriptor& d) { return d.shape.rank ? d.shape[int(d.axis < 0 ? d.axis + d.shape.rank : d.axis)] : 1; }
// What dx = y (dy - sum dy y), or dy - exp(y) sum dy, is made of. y comes with one rounding to its dtype.
Values gradient_size(const SoftmaxDescriptor& d, const Values& y, const Values& dy) {
  Values size(y.size());
  lines(d, [&](const auto& line) {
    const bool log = d.kind == SoftmaxKind::log_softmax;
    double sum = 0;
    for (size_t i : line) sum += std::fabs(log ? dy[i] : dy[i] * y[i]);
    for (size_t i : line) size[i] = log ? std::fabs(dy[i]) + std::exp(y[i]) * sum : y[i] * (std::fabs(dy[i]) + sum);
  });
  const DType out = d.out_dtype.value_or(d.dtype), acc = accumulator(out);
  const double rounding = out == acc ? 0 : testing::unit_roundoff(out) / testing::unit_roundoff(acc) / (4 + 4 * std::sqrt(double(extent(d))));
  for (double& e : size) e *= 1 + rounding;
  return size;
}

Status softmax(Replay& r, std::string_view op) {
  const Held* x = r.input();
  const SoftmaxDescriptor d{.kind = kind_of(op), .dtype = x->dtype(), .shape = x->shape(), .axis = r.value(0, "dim", -1), .out_dtype = r.out_dtype()};
  const Held* mask = op.starts_with("masked") ? r.tensor(99, "mask") : nullptr;  // true: an element takes part
  const TensorView kept = mask ? expanded(*mask, d.shape) : TensorView{};
  Tensor y(r.out_dtype(), d.shape);
  BARACUDA_TRY(run_plan<Softmax>(d, {.x = *x, .y = y, .mask = kept}));
  r.output(0, y);
  r.judge = {.ulps = 1, .terms = double(extent(d))};
  const Values takes_part = mask ? values_of(kept) : Values{};
  if (mask && d.kind == SoftmaxKind::log_softmax && r.has_gradients()) return r.decline(kHiddenGradient);
  r.reference = [&r, x, d, takes_part](const Inputs& in) {
    Values v = r.numbers(*x, in);
    const double sign = d.kind == SoftmaxKind::softmin ? -1 : 1;
    for (size_t i = 0; i < takes_part.size(); ++i) v[i] = takes_part[i] != 0 ? v[i] : -sign * INFINITY;
    Numbers out{Values(v.size()), Values(v.size())};
    lines(d, [&](const auto& line) {
      double top = -INFINITY, sum = 0;
      for (size_t i : line) top = std::max(top, sign * v[i]);
      const bool empty = top == -INFINITY && d.kind == SoftmaxKind::safe_softmax;
      for (size_t i : line) sum += std::exp(sign * v[i] - top);
      for (size_t i : line) {
        const double t = sign * v[i] - top;
        if (d.kind == SoftmaxKind::log_softmax) out.y[i] = t - std::log(sum), out.scale[i] = 1 + std::fabs(t) + std::log(sum);
        else out.y[i] = empty ? 0 : std::exp(t) / sum, out.scale[i] = out.y[i] > 0 ? out.y[i] * (1 + std::fabs(t)) : 0;
      }
    });
    return out;
  };
  if (!r.has_gradients()) return {};
  if (d.kind == SoftmaxKind::safe_softmax || mask)  // differences cannot step from -inf
    r.derivatives = [&r, d, takes_part](const Inputs& in) {
      const Values y = r.reference(in).y, dy = r.dy().values();
      const double sign = d.kind == SoftmaxKind::softmin ? -1 : 1;
      Numbers dx{Values(y.size()), gradient_size(d, y, dy)};
      lines(d, [&](const auto& line) {
        double sum = 0;
        for (size_t i : line) sum += dy[i] * y[i];
        for (size_t i : line) dx.y[i] = takes_part.empty() || takes_part[i] != 0 ? sign * y[i] * (dy[i] - sum) : 0;
      });
      return std::vector<Numbers>{dx};
    };
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<SoftmaxBackward>(d, {.dy = r.dy(), .y = y, .dx = dx, .mask = kept}));
  r.gradient(*x, dx);
  r.condition(*x, gradient_size(d, values_of(y), r.dy().values()));
  return {};
}
// The gradient as an operator of its own. It is linear in dy with a symmetric matrix, so its gradient is itself.
Status backward_data(Replay& r, std::string_view) {
  const Held *dy = r.input(), *y = r.tensor(0, "output");
  const SoftmaxDescriptor d{.dtype = r.out_dtype(), .shape = dy->shape(), .axis = r.value(1, "dim", -1), .out_dtype = dy->dtype()};
  Tensor dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<SoftmaxBackward>(d, {.dy = *dy, .y = *y, .dx = dx}));
  r.output(0, dx);
  r.judge = {.ulps = 1, .terms = double(extent(d))};
  r.reference = [&r, dy, y, d](const Inputs& in) {
    const Values &g = r.numbers(*dy, in), &p = r.numbers(*y, in);
    Numbers out{Values(g.size()), gradient_size(d, p, g)};
    lines(d, [&](const auto& line) {
      double sum = 0;
      for (size_t i : line) sum += g[i] * p[i];
      for (size_t i : line) out.y[i] = p[i] * (g[i] - sum);
    });
    return out;
  };
  if (!r.has_gradients()) return {};
  Tensor again(dy->dtype(), d.shape);
  BARACUDA_TRY(run_plan<SoftmaxBackward>({.dtype = dy->dtype(), .shape = d.shape, .axis = d.axis}, {.dy = r.dy(), .y = *y, .dx = again}));
  r.gradient(*dy, again);
  r.condition(*dy, gradient_size(d, y->values(), r.dy().values()));
  return {};
}

}  // namespace

Family softmax_family() {
  static const Entry entries[] = {{"softmax", softmax},
                                  {"softmax.with_dtype", softmax},
                                  {"log_softmax", softmax},
                                  {"log_softmax.with_dtype", softmax},
                                  {"nn.functional.softmin", softmax},
                                  {"nn.functional.softmin.with_dtype", softmax},
                                  {"torch.ops.aten._safe_softmax.default", softmax},
                                  {"masked.softmax", softmax},
                                  {"masked.log_softmax", softmax},
                                  {"masked.softmin", softmax},
                                  {"_softmax_backward_data", backward_data}};
  static const Declined declined[] = {{"masked.log_softmax", {1, 3, 5, 7, 9}, kHiddenGradient}};
  return {.adapters = entries, .declined = declined};
}

}  // namespace baracuda::golden
