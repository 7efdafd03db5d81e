#include "baracuda/io/ops_json.hpp"
#include <nlohmann/json.hpp>
#include "baracuda/core/registry.hpp"

namespace baracuda::io {
namespace {

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

std::string ops_json(std::string_view op) {
  nlohmann::ordered_json all = nlohmann::json::array();
  for (const OpInfo& info : registry())
    if (op.empty() || info.name == op) all.push_back(as_json(info));
  return all.dump(1);
}

}  // namespace baracuda::io
