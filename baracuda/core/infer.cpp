#include "baracuda/core/registry.hpp"
#include <algorithm>

namespace baracuda {

std::vector<std::pair<std::string_view, std::string>> infer_fields(const OpInfo& op, std::span<const ArgValue> tensors) {
  auto tensor = [&](std::string_view name) -> const TensorView* {
    for (const ArgValue& v : tensors)
      if (v.name == name && !v.tensors.empty()) return &v.tensors[0];
    return nullptr;
  };
  constexpr std::string_view aliases[][2] = {{"index_dtype", "indices"}, {"index_dtype", "start"}, {"index_dtype", "tokens"},
                                                {"target_dtype", "target"}, {"grad_dtype", "grads"}};
  // The argument whose dtype a field NAME_dtype is.
  auto told_by = [&](const FieldInfo& f) -> const TensorView* {
    if (f.type != "dtype" || !f.name.ends_with("_dtype")) return nullptr;
    const TensorView* t = tensor(f.name.substr(0, f.name.size() - 6));
    for (const auto& [field, arg] : aliases)
      if (field == f.name && !t) t = tensor(arg);
    return t;
  };
  const std::vector<FieldInfo> fields = op.fields();
  const TensorView *x = tensor("x"), *first = nullptr, *open = nullptr, *floats = nullptr;  // open: no other field tells its dtype
  for (const ArgValue& v : tensors) {
    if (v.tensors.empty()) continue;
    const TensorView* t = &v.tensors[0];
    if (!first) first = t;
    if (!floats && is_floating(t->dtype)) floats = t;
    if (!open && std::none_of(fields.begin(), fields.end(), [&](const FieldInfo& f) { return told_by(f) == t; })) open = t;
  }
  if (!first) return {};
  const TensorView* typed = x ? x : floats ? floats : open;
  std::vector<std::pair<std::string_view, std::string>> found;
  for (const FieldInfo& f : fields) {
    if (f.name == "dtype") { if (typed) found.emplace_back(f.name, name(typed->dtype)); }
    else if (f.name == "shape") found.emplace_back(f.name, to_string((x ? x : first)->shape));
    else if (f.type == "ints") { if (const TensorView* t = tensor(f.name)) found.emplace_back(f.name, to_string(t->shape)); }
    else if (const TensorView* t = told_by(f)) found.emplace_back(f.name, name(t->dtype));
  }
  return found;
}

}  // namespace baracuda
