#pragma once
// What the instruction-set units of broadcast sums export. By dtype: of the elements as they are stored; [2]: 0 f32, 1 f64.
#include <cstdint>
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kLanesOfShortSum = 8, kLanesOfSum = 32;  // lanes along a summed row
// Rows that are added in f32 before they reach the f64 sums, where they are of halves: their own rounding is 2^13 times coarser.
inline constexpr int kGroupOfHalves = 8;
struct BroadcastSumKernels {
  void (*add_row[2])(double* acc, const void* x, int64_t n);                        // acc[i] += x[i]
  void (*add_to_group)(float* acc, const float* x, int64_t n);                      // acc[i] += x[i]
  void (*add_short[2])(double* acc, const void* x, int64_t n, int64_t phase);       // acc[(phase + i) % 8] += x[i]
  ByDType<void (*)(double* acc, const void* x, int64_t n, int64_t phase)> add_lanes;  // acc[(phase + i) % 32] += x[i]
  // acc[j] += rows[0][j], then rows[1][j], ...; halves: acc[j] += their sum, in groups.
  ByDType<void (*)(double* acc, const void* const* rows, int64_t count, int64_t n)> add_rows;
};
BARACUDA_ISA_TABLE(BroadcastSumKernels, broadcast_sum_kernels)

}  // namespace baracuda
