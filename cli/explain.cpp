// baracuda explain: what select would choose for a descriptor, and why not the others.
#include <fmt/format.h>
#include "baracuda/core/registry.hpp"
#include "cli/command.hpp"
#include "cli/on_device.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {
namespace {

struct Options {
  std::string op, device = "cpu", prefer, require, kernel;
  std::vector<std::string> settings;
  bool allow_nondeterministic = false, batch_invariant = false, tf32 = false;
  uint64_t max_workspace = UINT64_MAX;
};
Status explain(const Options& o) {
  BARACUDA_TRY_ASSIGN(op, known_op(o.op));
  std::vector<KeyValue> settings;
  for (const std::string& s : o.settings) {
    const size_t equals = s.find('=');
    if (equals == s.npos) return {Code::invalid_problem, text("'", s, "' is not field=value")};
    settings.push_back({std::string_view(s).substr(0, equals), std::string_view(s).substr(equals + 1)});
  }
  PlanPreference p;
  if (!o.prefer.empty()) BARACUDA_TRY(set_preference(p, "prefer_backend", o.prefer));
  if (!o.require.empty()) BARACUDA_TRY(set_preference(p, "require_backend", o.require));
  p.require_kernel = o.kernel;
  p.allow_nondeterministic = o.allow_nondeterministic;
  p.require_batch_invariant = o.batch_invariant;
  p.math = o.tf32 ? MathMode::allow_tf32 : MathMode::strict;
  p.max_workspace = o.max_workspace;
  BARACUDA_TRY_ASSIGN(stream, stream_on(o.device));
  BARACUDA_TRY_ASSIGN(e, op->explain(stream, settings, p));
  fmt::print("{} {}\n", op->name, e.descriptor);
  if (e.sku.empty()) fmt::print("chosen     none\n");
  else {
    fmt::print("chosen     {}\nguarantee  {}\nworkspace  {} bytes\n", e.sku, e.guarantee, e.workspace_bytes);
    for (const WorkspaceItem& item : e.workspace) fmt::print("           {:<28} {} bytes\n", item.name, item.bytes);
  }
  fmt::print("kernels\n");
  for (const RowVerdict& r : e.rows) fmt::print("  {:<38} {}\n", r.kernel, r.reason.empty() ? "chosen" : r.reason);
  if (e.sku.empty()) return {Code::unsupported, text(o.op, e.rows.empty() ? text(": no kernel for ", name(stream.device.kind)) : ": every kernel refused")};
  return {};
}

}  // namespace

std::function<int()> explain_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "the op")->required();
  app.add_option("fields", o->settings, "descriptor fields as field=value, for example shape=4,512 dtype=bf16");
  add_device(app, o->device);
  app.add_option("--prefer-backend", o->prefer, "move this backend's kernels to the front");
  app.add_option("--require-backend", o->require, "refuse every other backend");
  app.add_option("--require-kernel", o->kernel, "refuse every other kernel");
  app.add_flag("--allow-nondeterministic", o->allow_nondeterministic);
  app.add_flag("--require-batch-invariant", o->batch_invariant);
  app.add_flag("--allow-tf32", o->tf32);
  app.add_option("--max-workspace", o->max_workspace, "bytes");
  return [o] {
    const Status s = explain(*o);
    fflush(stdout);
    return s.ok() ? kDone : fail("explain", s);
  };
}

}  // namespace baracuda::cli
