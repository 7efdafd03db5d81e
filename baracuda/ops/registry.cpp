#include "baracuda/core/registry.hpp"
#include "baracuda/ops/gated/gated.hpp"

namespace baracuda {

// One line per op, by category and name. What a row says is read from the op itself.
std::span<const OpInfo> registry() {
  static constexpr OpInfo list[] = {
      op_info<Gated>(),
      op_info<GatedBackward>(),
  };
  return list;
}

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& op : registry())
    if (op.name == name) return &op;
  return nullptr;
}

}  // namespace baracuda
