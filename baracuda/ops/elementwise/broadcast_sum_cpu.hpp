#pragma once
// What the instruction-set units of broadcast sums export. 0: f32, 1: f64.
#include <cstdint>
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kLanesOfSum = 8;
struct BroadcastSumKernels {
  void (*add_row[2])(double* acc, const void* x, int64_t n);                    // acc[i] += x[i]
  void (*add_lanes[2])(double* acc, const void* x, int64_t n, int64_t phase);   // acc[(phase + i) % 8] += x[i]
};
BARACUDA_ISA_TABLE(BroadcastSumKernels, broadcast_sum_kernels)

}  // namespace baracuda
