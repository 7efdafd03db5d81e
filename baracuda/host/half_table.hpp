#pragma once
// Tables of a function of one f16 or bf16: all 65536 results, made by the formula's own loop, so that a result is the same bits
// whether it was computed or looked up (math/look_up.hpp). For tensors so large that making one does not show.
#include "baracuda/host/kept_state.hpp"

namespace baracuda {

inline constexpr int64_t kHalves = 65536, kTableFrom = int64_t(1) << 20;  // elements of a tensor from which on a table is made

// The table of that key, of kHalves elements of type E, filled by `fill`, and one more, as gathers of halves read words.
template <class E, class F> std::shared_ptr<const void> half_table(const std::vector<uint64_t>& key, const F& fill) {
  return kept_state(key, [&]() -> std::shared_ptr<const void> {
    std::shared_ptr<E[]> table(new E[size_t(kHalves) + 1]);
    fill(table.get());
    return table;
  });
}

}  // namespace baracuda
