#include "baracuda/core/registry.hpp"

namespace baracuda {

std::vector<std::pair<std::string_view, std::string>> infer_fields(const OpInfo& op, std::span<const ArgValue> tensors) {
  auto tensor = [&](std::string_view name) -> const TensorView* {
    for (const ArgValue& v : tensors)
      if (v.name == name && !v.tensors.empty()) return &v.tensors[0];
    return nullptr;
  };
  const TensorView *first = nullptr, *floats = nullptr;
  for (const ArgValue& v : tensors) {
    if (v.tensors.empty()) continue;
    if (!first) first = &v.tensors[0];
    if (!floats && is_floating(v.tensors[0].dtype)) floats = &v.tensors[0];
  }
  if (!first) return {};
  const TensorView* x = tensor("x");
  constexpr std::string_view aliases[][2] = {{"index_dtype", "indices"}, {"index_dtype", "start"}, {"index_dtype", "tokens"},
                                                {"target_dtype", "target"}, {"grad_dtype", "grads"}};
  std::vector<std::pair<std::string_view, std::string>> found;
  for (const FieldInfo& f : op.fields()) {
    if (f.name == "dtype") found.emplace_back(f.name, name((x ? x : floats ? floats : first)->dtype));
    else if (f.name == "shape") found.emplace_back(f.name, to_string((x ? x : first)->shape));
    else if (f.type == "ints") { if (const TensorView* t = tensor(f.name)) found.emplace_back(f.name, to_string(t->shape)); }
    else if (f.type == "dtype" && f.name.ends_with("_dtype")) {
      const TensorView* t = tensor(f.name.substr(0, f.name.size() - 6));
      for (const auto& [field, arg] : aliases)
        if (field == f.name && !t) t = tensor(arg);
      if (t) found.emplace_back(f.name, name(t->dtype));
    }
  }
  return found;
}

}  // namespace baracuda
