#pragma once
// Halves to f32 and back, two registers at a time, in the order that costs least (load_dealt of math/twice.hpp): for operands that
// are all halves, as what is computed between the two does not mind the order.
#include <cstdint>
#include "baracuda/host/isa.hpp"

namespace baracuda {

struct DealtHalves {  // 0: f16, 1: bf16
  void (*deal[2])(const void* half, float* to, int64_t n);
  void (*gather[2])(const float* from, void* half, int64_t n, bool past);  // past the caches: `half` begins at a line
};
BARACUDA_ISA_TABLE(DealtHalves, dealt_halves)

}  // namespace baracuda
