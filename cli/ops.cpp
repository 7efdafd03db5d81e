// baracuda ops: what this build can do, read from the registry.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "baracuda/core/registry.hpp"
#include "cli/command.hpp"

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
nlohmann::ordered_json as_json(const OpInfo& op) {
  nlohmann::ordered_json j{{"name", op.name}, {"category", op.category}, {"summary", op.summary}, {"fields", nlohmann::json::array()},
                           {"args", nlohmann::json::array()}, {"kernels", nlohmann::json::array()}};
  for (const FieldInfo& f : op.fields()) {
    nlohmann::ordered_json field{{"name", f.name}, {"type", f.type}, {"default", f.default_value}, {"optional", f.optional}, {"help", f.help}};
    if (!f.values.empty()) field["values"] = f.values;
    j["fields"].push_back(std::move(field));
  }
  for (const ArgInfo& a : op.args()) {
    nlohmann::ordered_json arg{{"name", a.name}, {"role", name(a.role)}, {"type", a.type}, {"help", a.help}};
    if (a.role == Role::value) arg["default"] = a.default_value;
    j["args"].push_back(std::move(arg));
  }
  for (const RowInfo& r : op.rows()) {
    std::vector<std::string_view> types;
    for (size_t t = 0; t < kDTypes; ++t)
      if (r.dtypes.has(DType(t))) types.push_back(name(DType(t)));
    const PrecisionGuarantee& g = r.guarantee;
    j["kernels"].push_back({{"name", r.name}, {"device", name(r.device)}, {"backend", name(r.backend)}, {"min_arch", r.min_arch}, {"dtypes", types},
                            {"guarantee", {{"math_precision", name(g.math_precision)}, {"tf32", g.tf32}, {"accumulator", name(g.accumulator)},
                                           {"deterministic", g.deterministic}, {"bit_stable_on_same_hardware", g.bit_stable_on_same_hardware},
                                           {"batch_invariant", g.batch_invariant}, {"same_on_cpu_and_cuda", g.same_on_cpu_and_cuda}}}});
  }
  return j;
}

}  // namespace

std::function<int()> ops_command(CLI::App& app) {
  struct Options { std::string op; bool json = false; };
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "show this op's fields, arguments and kernels");
  app.add_flag("--json", o->json, "print JSON");
  return [o] {
    if (!o->op.empty() && !find_op(o->op))
      return fail("ops", {Code::invalid_problem, text("no op '", o->op, "'; `baracuda ops` lists them")});
    if (o->json) {
      nlohmann::ordered_json all = nlohmann::json::array();
      for (const OpInfo& op : registry())
        if (o->op.empty() || op.name == o->op) all.push_back(as_json(op));
      fmt::print("{}\n", all.dump(1));
    } else if (o->op.empty()) {
      print_table();
    } else {
      print_op(*find_op(o->op));
    }
    return kDone;
  };
}

}  // namespace baracuda::cli
