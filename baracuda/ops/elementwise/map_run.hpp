#pragma once
#include <cstdint>

namespace baracuda {

// The arithmetic of a map: n elements from dense inputs to dense outputs, with the parameters of its functor.
using MapRun = void (*)(const double* parameters, const void* const* in, void* const* out, int64_t n);

}  // namespace baracuda
