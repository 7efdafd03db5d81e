#pragma once
// How much of what repeats itself is run. AddressSanitizer looks at memory, not at bits, and makes all of it three to five times
// as slow: under it one thread and several run once each.
#include <vector>

namespace baracuda::testing {

bool memory_is_watched();
// The teams of threads that a comparison of bits runs with on the device under test, and how often each.
std::vector<int> teams();
inline int repeats(int wanted) { return memory_is_watched() ? 1 : wanted; }

}  // namespace baracuda::testing
