#include "baracuda/ops/random/dropout.hpp"
#include "baracuda/ops/random/random.hpp"
#include "golden.hpp"

namespace baracuda::golden {
namespace {

using testing::run_plan;
using testing::Tensor;

constexpr std::string_view kDrawn = "drawn numbers: generators differ, distributions are tested by their own means";

Status dropout(Replay& r, std::string_view) {
  const Held* x = r.input();
  const double p = r.value<bool>(1, "training", true) ? r.value(0, "p", 0.5) : 0;
  if (p > 0 && p < 1) return r.decline(kDrawn);
  const DropoutDescriptor d{x->dtype(), x->shape(), p};
  Tensor y(d.dtype, d.shape), dx(d.dtype, d.shape);
  BARACUDA_TRY(run_plan<Dropout>(d, {*x, y, 3, 5}));
  r.output(0, y);
  r.judge.exact = true;
  if (!r.has_gradients()) return {};
  BARACUDA_TRY(run_plan<DropoutBackward>(d, {r.dy(), dx, 3, 5}));
  r.gradient(*x, dx);
  return {};
}
// Only what is refused can be compared.
Status bernoulli(Replay& r, std::string_view) {
  if (!r.refused_by_torch()) return r.decline(kDrawn);
  const Held &p = *r.input(), &y = *r.tensor(1, "out");
  return run_plan<Bernoulli>({y.dtype(), y.shape()}, {y, 0, 0, p});
}
Status uniform(Replay& r, std::string_view) {
  if (!r.refused_by_torch()) return r.decline(kDrawn);
  return RandomUniformPlan::select(Stream::cpu(), {r.input()->dtype(), r.input()->shape(), r.value(0, "from", 0.0), r.value(1, "to", 1.0)}).status();
}

}  // namespace

Family random_family() {
  static const Entry entries[] = {{"nn.functional.dropout", dropout}, {"bernoulli", bernoulli}, {"uniform", uniform}};
  static const Declined declined[] = {{"nn.functional.dropout", {2, 8}, kDrawn}, {"bernoulli", {0, 1, 2, 3}, kDrawn}, {"uniform", {0, 1, 2}, kDrawn}};
  return {.adapters = entries, .declined = declined};
}

}  // namespace baracuda::golden
