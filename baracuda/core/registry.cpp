#include "baracuda/core/registry.hpp"
#include <algorithm>
#include "baracuda/core/near_name.hpp"

namespace baracuda {
namespace {

Status parse_backend(std::string_view key, std::string_view value, Backend& b) {
  std::vector<std::string_view> names;
  for (int i = 0; i < int(Backend::count); ++i) names.push_back(name(Backend(i)));
  const int i = match_name(value, names);
  if (i < 0) return no_such_name(key, value, names);
  b = Backend(i);
  return {};
}

}  // namespace

const OpInfo* op_of_kind(std::string_view kind) {
  const OpInfo* found = nullptr;
  for (const OpInfo& op : registry())
    for (const FieldInfo& f : op.fields())
      if (f.name == "kind" && std::find(f.values.begin(), f.values.end(), kind) != f.values.end() &&
          (!found || (found->name.ends_with("_backward") && !op.name.ends_with("_backward"))))
        found = &op;
  return found;
}
std::string no_op(std::string_view name) {
  if (const OpInfo* op = op_of_kind(name)) return text("no op '", name, "', which is a kind of ", op->name);
  std::vector<std::string_view> names;
  for (const OpInfo& op : registry()) names.push_back(op.name);
  return text("no op '", name, "'", did_you_mean(name, names));
}
Status set_preference(PlanPreference& p, std::string_view key, std::string_view value) {
  if (key == "prefer_backend") return parse_backend(key, value, p.prefer_backend);
  if (key == "require_backend") return parse_backend(key, value, p.require_backend);
  if (key == "require_kernel") return p.require_kernel = value, Status();
  if (key == "allow_nondeterministic") return parse_value(key, value, p.allow_nondeterministic);
  if (key == "require_batch_invariant") return parse_value(key, value, p.require_batch_invariant);
  if (key == "allow_tf32") {
    bool allowed = false;
    BARACUDA_TRY(parse_value(key, value, allowed));
    p.math = allowed ? MathMode::allow_tf32 : MathMode::strict;
    return {};
  }
  if (key == "max_workspace") {
    int64_t bytes = 0;
    BARACUDA_TRY(parse_value(key, value, bytes));
    if (bytes < 0) return {Code::invalid_problem, text("max_workspace: ", bytes, " is negative")};
    p.max_workspace = uint64_t(bytes);
    return {};
  }
  return {Code::invalid_problem, text("no preference '", key, "'; they are prefer_backend require_backend require_kernel ",
                                      "allow_nondeterministic require_batch_invariant allow_tf32 max_workspace")};
}

}  // namespace baracuda

namespace baracuda::registry_detail {
namespace {

template <class T> Status not_that(std::string_view op, std::string_view arg, const T& got, std::string_view what) {
  return invalid(op, text(arg, " is ", got, ", ", what, " is needed"));
}

}  // namespace

Status set_tensor(std::string_view op, std::string_view arg, const ArgValue& v, TensorView& to) {
  if (v.tensors.size() != 1) return invalid(op, text(arg, " is one tensor, got ", v.tensors.size()));
  to = v.tensors[0];
  return {};
}
Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, int64_t& to) {
  if (const auto* i = std::get_if<int64_t>(&v.number)) return to = *i, Status();
  if (const auto* u = std::get_if<uint64_t>(&v.number); u && *u <= uint64_t(INT64_MAX)) return to = int64_t(*u), Status();
  if (const auto* d = std::get_if<double>(&v.number)) return not_that(op, arg, *d, "an integer");
  return invalid(op, text(arg, " takes an integer below 2^63"));
}
Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, uint64_t& to) {
  if (const auto* u = std::get_if<uint64_t>(&v.number)) return to = *u, Status();
  if (const auto* i = std::get_if<int64_t>(&v.number)) {
    if (*i < 0) return not_that(op, arg, *i, "an integer that is not negative");
    return to = uint64_t(*i), Status();
  }
  if (const auto* d = std::get_if<double>(&v.number)) return not_that(op, arg, *d, "an integer");
  return invalid(op, text(arg, " takes an integer"));
}
Status set_number(std::string_view op, std::string_view arg, const ArgValue& v, double& to) {
  if (const auto* d = std::get_if<double>(&v.number)) return to = *d, Status();
  if (const auto* i = std::get_if<int64_t>(&v.number)) return to = double(*i), Status();
  if (const auto* u = std::get_if<uint64_t>(&v.number)) return to = double(*u), Status();
  return invalid(op, text(arg, " takes a number"));
}
Status no_such_arg(std::string_view op, std::string_view given, std::span<const std::string_view> names) {
  std::string known;
  for (auto n : names) known += text(known.empty() ? "" : " ", n);
  return invalid(op, text("no argument '", given, "'; the arguments are ", known));
}
Result<Explanation> explanation(std::string descriptor, std::vector<RowVerdict> rows, const Result<std::shared_ptr<const AnyPlan>>& chosen) {
  Explanation e{std::move(descriptor), std::move(rows), {}, {}, 0, {}};
  if (chosen.ok()) {
    const AnyPlan& plan = **chosen;
    e.sku = to_string(plan.sku());
    e.guarantee = to_string(plan.sku().guarantee);
    e.workspace_bytes = plan.workspace_size();
    e.workspace = plan.workspace_items();
  }
  return e;
}

}  // namespace baracuda::registry_detail
