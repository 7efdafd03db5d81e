#pragma once
// What several plans can share: tables and the like that depend on a few numbers, not on the shape.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace baracuda {

// The state of that key: made by `make` unless a plan has it already, and kept while one does. key[0] says whose it is.
enum StateOwner : uint64_t { kUnaryState, kUnaryBackwardState, kGatedState, kGatedBackwardState, kRopeState };
std::shared_ptr<const void> kept_state(const std::vector<uint64_t>& key, const std::function<std::shared_ptr<const void>()>& make);

}  // namespace baracuda
