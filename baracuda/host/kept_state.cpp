#include "baracuda/host/kept_state.hpp"
#include <map>
#include <mutex>

namespace baracuda {

std::shared_ptr<const void> kept_state(const std::vector<uint64_t>& key, const std::function<std::shared_ptr<const void>()>& make) {
  struct States {
    std::mutex mutex;
    std::map<std::vector<uint64_t>, std::weak_ptr<const void>> made;
  };
  static States& states = *new States;  // outlives static destructors
  std::lock_guard lock(states.mutex);
  if (const auto found = states.made.find(key); found != states.made.end())
    if (auto state = found->second.lock()) return state;
  std::erase_if(states.made, [](const auto& entry) { return entry.second.expired(); });
  auto state = make();
  states.made[key] = state;
  return state;
}

}  // namespace baracuda
