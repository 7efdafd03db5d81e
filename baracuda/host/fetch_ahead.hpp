#pragma once
// For ISA units that go along memory with so much work in their way, folds of short rows say, that the processor does not look far enough ahead.
#include "baracuda/math/config.hpp"

namespace baracuda::inline BARACUDA_ISA {

// What stands 4 KiB behind p is asked for, kBytes of it.
template <int kBytes> BARACUDA_HD void fetch_ahead(const void* p) {
  for (int b = 0; b < kBytes; b += 64) __builtin_prefetch(static_cast<const char*>(p) + 4096 + b, 0, 2);
}

}  // namespace baracuda
