// baracuda ops: what this build can do, read from the registry.
#include <fmt/format.h>
#include "baracuda/core/registry.hpp"
#include "baracuda/io/ops_json.hpp"
#include "cli/command.hpp"
#include "cli/on_device.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {
namespace {

using Rows = std::optional<DeviceKind>;  // of which device; none: all
std::vector<RowInfo> rows(const OpInfo& op, Rows of) {
  std::vector<RowInfo> list = op.rows();
  std::erase_if(list, [&](const RowInfo& r) { return of && r.device != *of; });
  return list;
}
void print_rows(const OpInfo& op, Rows of) {
  for (const RowInfo& r : rows(op, of))
    fmt::print("  {:<38} {:<5} {:<9} {:<20} {}\n", r.name, name(r.device), name(r.backend), to_string(r.dtypes), to_string(r.guarantee));
}
void print_table(Rows of) {
  std::string_view category;
  for (const OpInfo& op : registry()) {
    if (rows(op, of).empty()) continue;
    if (op.category != category) fmt::print("{}{}\n", category.empty() ? "" : "\n", category = op.category);
    fmt::print(" {:<38} {}\n", op.name, op.summary);
    print_rows(op, of);
  }
}
void print_op(const OpInfo& op, Rows of) {
  fmt::print("{}: {}\n\nfields\n", op.name, op.summary);
  for (const FieldInfo& f : op.fields()) {
    std::string type(f.type);
    if (!f.values.empty()) type = fmt::format("{}", fmt::join(f.values, "|"));
    fmt::print("  {:<24} {:<32} default {:<10} {}\n", f.name, type, f.default_value.empty() ? "-" : f.default_value, f.help);
  }
  fmt::print("\narguments\n");
  for (const ArgInfo& a : op.args()) fmt::print("  {:<24} {:<16} {}\n", a.name, name(a.role), a.help);
  fmt::print("\nkernels, best first\n");
  print_rows(op, of);
}
}  // namespace

std::function<int()> ops_command(CLI::App& app) {
  struct Options { std::string op, device; bool json = false; };
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "show this op's fields, arguments and kernels");
  auto* json = app.add_flag("--json", o->json, "print JSON");
  add_device(app, o->device)->excludes(json)->default_str("all");
  return [o] {
    if (!o->op.empty())
      if (const auto op = known_op(o->op); !op.ok()) return fail("ops", op.status());
    Rows of;
    if (!o->device.empty()) {
      of = o->device == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
      if (const auto half = cuda_half(); of == DeviceKind::cuda && !half.ok()) return fail("ops", half.status());
    }
    if (o->json) {
      fmt::print("{}\n", io::ops_json(o->op));
    } else if (o->op.empty()) {
      print_table(of);
    } else {
      print_op(*find_op(o->op), of);
    }
    return kDone;
  };
}

}  // namespace baracuda::cli
