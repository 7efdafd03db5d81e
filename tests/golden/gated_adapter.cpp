#include <cmath>
#include "baracuda/ops/gated/gated.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

// glu(x) = first half * sigmoid(second half) along an axis: two views of x.
Status glu(Replay& r, std::string_view) {
  const Held* x = r.input();
  const Shape shape = x->shape();
  int axis = r.value(0, "dim", -1);
  if (axis < 0) axis += shape.rank;
  const int64_t half = shape[axis] / 2;
  const TensorView up = part(*x, axis, 0, half), gate = part(*x, axis, half, half);
  const GatedDescriptor d{.kind = GatedKind::glu, .dtype = x->dtype(), .shape = up.shape};
  Tensor y(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Gated>(d, {.gate = gate, .up = up, .y = y}));
  r.output(0, y);
  r.judge = {.ulps = 1};
  const int64_t inner = shape.product(axis + 1, shape.rank);
  auto place = [half, inner](int64_t i, int64_t which) { return size_t((i / (half * inner) * 2 + which) * half * inner + i % (half * inner)); };
  r.reference = [&r, x, place](const Inputs& in) {
    const Values& v = r.numbers(*x, in);
    Numbers n;
    for (int64_t i = 0; i < int64_t(v.size() / 2); ++i) n.y.push_back(v[place(i, 0)] / (1 + std::exp(-v[place(i, 1)])));
    return n;
  };
  if (!r.has_gradients()) return {};
  Tensor dx(d.dtype, shape);
  BARACUDA_TRY(run_plan<GatedBackward>(d, {.dy = r.dy(), .gate = gate, .up = up, .dgate = part(dx, axis, half, half), .dup = part(dx, axis, 0, half)}));
  r.gradient(*x, dx);
  // The sigmoid's gradient is a difference of numbers near 1.
  const Values v = x->values(), dy = r.dy().values();
  Values scale(v.size());
  for (size_t i = 0; i < dy.size(); ++i) scale[place(int64_t(i), 1)] = std::fabs(dy[i] * v[place(int64_t(i), 0)]);
  r.condition(*x, scale);
  return {};
}

}  // namespace

Family gated_family() {
  static const Entry entries[] = {{"nn.functional.glu", glu}};
  return {.adapters = entries};
}

}  // namespace baracuda::golden
