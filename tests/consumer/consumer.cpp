// consumer [cuda]: with the word, the CUDA half must be found, and either gives a stream or says what the machine lacks.
#include <cstdio>
#include <string>
#include <vector>
#include "baracuda/ops/gated/gated.hpp"
#ifdef WITH_GEMM
#include "baracuda/ops/gemm/gemm.hpp"
#endif

int main(int argc, char**) {
  using namespace baracuda;
  std::vector<float> gate(8, 1), up(8, 2), y(8);
  const auto plan = GatedPlan::select(Stream::cpu(), {.kind = GatedKind::reglu, .shape = {8}});
  if (!plan.ok()) return std::puts(plan.status().message().c_str()), 1;
  const Status s = plan->run(Stream::cpu(), Workspace::none(),
                             {TensorView::dense(gate.data(), {8}), TensorView::dense(up.data(), {8}), TensorView::dense(y.data(), {8})});
  std::printf("%s %s %g\n", version(), s.to_string().c_str(), y[7]);
#ifdef WITH_GEMM
  std::vector<float> c(64 * 64), a(64 * 64, 0.5f);
  const auto product = GemmPlan::select(Stream::cpu(), {.m = 64, .n = 64, .k = 64});
  if (!product.ok()) return std::puts(product.status().message().c_str()), 1;
  ScratchArena scratch;
  const TensorView av = TensorView::dense(a.data(), {64, 64});
  const Status t = product->run(Stream::cpu(), *scratch.get(product->workspace_size()), {.a = av, .b = av, .c = TensorView::dense(c.data(), {64, 64})});
  std::printf("%s %s %g\n", std::string(product->kernel_name()).c_str(), t.to_string().c_str(), c[0]);
  if (!t.ok() || c[0] != 16) return 1;
#endif
  if (argc > 1) {
    const auto stream = Stream::cuda();
    const std::string said = stream.ok() ? "a device" : stream.status().message();
    std::puts(said.c_str());
    if (said.find("CUDA half") != std::string::npos || said.find("cuda half") != std::string::npos) return 1;
  }
  return s.ok() && y[7] == 2 ? 0 : 1;
}
