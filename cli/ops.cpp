// baracuda ops: what this build can do, read from the registry.
#include <fmt/format.h>
#include "baracuda/core/registry.hpp"
#include "baracuda/io/ops_json.hpp"
#include "cli/command.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {
namespace {

void print_rows(const OpInfo& op) {
  for (const RowInfo& r : op.rows())
    fmt::print("  {:<38} {:<5} {:<9} {:<20} {}\n", r.name, name(r.device), name(r.backend), to_string(r.dtypes), to_string(r.guarantee));
}
void print_table() {
  std::string_view category;
  for (const OpInfo& op : registry()) {
    if (op.category != category) fmt::print("{}{}\n", category.empty() ? "" : "\n", category = op.category);
    fmt::print(" {:<38} {}\n", op.name, op.summary);
    print_rows(op);
  }
}
void print_op(const OpInfo& op) {
  fmt::print("{}: {}\n\nfields\n", op.name, op.summary);
  for (const FieldInfo& f : op.fields()) {
    std::string type(f.type);
    if (!f.values.empty()) type = fmt::format("{}", fmt::join(f.values, "|"));
    fmt::print("  {:<24} {:<32} default {:<10} {}\n", f.name, type, f.default_value.empty() ? "-" : f.default_value, f.help);
  }
  fmt::print("\narguments\n");
  for (const ArgInfo& a : op.args()) fmt::print("  {:<24} {:<16} {}\n", a.name, name(a.role), a.help);
  fmt::print("\nkernels, best first\n");
  print_rows(op);
}
}  // namespace

std::function<int()> ops_command(CLI::App& app) {
  struct Options { std::string op; bool json = false; };
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "show this op's fields, arguments and kernels");
  app.add_flag("--json", o->json, "print JSON");
  return [o] {
    if (!o->op.empty())
      if (const auto op = known_op(o->op); !op.ok()) return fail("ops", op.status());
    if (o->json) {
      fmt::print("{}\n", io::ops_json(o->op));
    } else if (o->op.empty()) {
      print_table();
    } else {
      print_op(*find_op(o->op));
    }
    return kDone;
  };
}

}  // namespace baracuda::cli
