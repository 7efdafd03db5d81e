#include <cstdio>
#include <vector>
#include "baracuda/ops/gated/gated.hpp"

int main() {
  using namespace baracuda;
  std::vector<float> gate(8, 1), up(8, 2), y(8);
  const auto plan = GatedPlan::select(Stream::cpu(), {.kind = GatedKind::reglu, .shape = {8}});
  if (!plan.ok()) return std::puts(plan.status().message().c_str()), 1;
  const Status s = plan->run(Stream::cpu(), Workspace::none(),
                             {TensorView::dense(gate.data(), {8}), TensorView::dense(up.data(), {8}), TensorView::dense(y.data(), {8})});
  std::printf("%s %s %g\n", version(), s.to_string().c_str(), y[7]);
  return s.ok() && y[7] == 2 ? 0 : 1;
}
