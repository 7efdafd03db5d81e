#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "drawn.hpp"

namespace baracuda::fuzz {
namespace {

constexpr uint64_t kMostWorkspace = 16 << 20;

template <class... A> [[noreturn]] void stop(const AnyPlan& plan, const A&... words) {
  std::fprintf(stderr, "%s; %s\n", text(plan.sku().op, " ", words...).c_str(), plan.descriptor().c_str());
  std::abort();
}
void check_guards(const AnyPlan& plan, std::string_view what, const Memory& m) {
  if (const auto at = m.damage()) stop(plan, "wrote byte ", *at, " of ", what, ", which has ", m.bytes());
}

}  // namespace

bool run_plan(const AnyPlan& plan, const Stream& stream, uint64_t seed) {
  Random r(seed);
  if (plan.workspace_size() > kMostWorkspace) return false;
  auto drawn = draw_arguments(plan, r, {});
  if (!drawn) return false;
  const auto args = values(*drawn);
  Status status;
  std::vector<std::vector<char>> first;
  for (int time = 0; time < 2; ++time) {
    Memory workspace(plan.workspace_size(), kWorkspaceAlignment);
    std::memset(workspace.data(), time ? 0x7f : 0xff, workspace.bytes());
    for (Drawn& d : *drawn) d.restore();
    status = plan.run(stream, {plan.workspace_size() ? workspace.data() : nullptr, plan.workspace_size()}, args);
    if (!status.ok() && status.message().empty()) stop(plan, "refuses without a reason");
    check_guards(plan, "its workspace", workspace);
    size_t k = 0;
    for (Drawn& d : *drawn)
      for (size_t i = 0; i < d.start.size(); ++i, ++k) {
        check_guards(plan, d.info.name, *d.memory[i]);
        std::vector<char> now(d.memory[i]->data(), d.memory[i]->data() + d.start[i].size());
        if (!written(d.info.role) && now != d.start[i]) stop(plan, "changed its input ", d.info.name);
        if (time == 0) first.push_back(std::move(now));
        else if (status.ok() && plan.sku().guarantee.deterministic && now != first[k]) stop(plan, "gave other bits for ", d.info.name, " the second time");
      }
  }
  return status.ok();
}

}  // namespace baracuda::fuzz
