#pragma once
// Rows of equal length by teams of threads that do not meet: a thread has kEach units of its row at once, a block the rows of 256 threads. What a row
// needs to know is read once for all of its units; long rows are shared out among blocks.
#include "baracuda/device/launch.cuh"

namespace baracuda::inline BARACUDA_ISA {
namespace device_teams {

inline constexpr int kThreads = 256;
struct Teams {
  int64_t rows, units;  // units of a row
  int log;              // of the threads of a team

  static Teams of(int64_t rows, int64_t units, int each) {
    Teams t{rows, units, 0};
    while (t.log < 8 && (int64_t(each) << t.log) < units) ++t.log;
    return t;
  }
  dim3 grid(int each) const {
    const int64_t parts = device::ceil_div(units, int64_t(each) << log);
    return dim3(device::blocks_for(rows, kThreads >> log), unsigned(parts < 1 ? 1 : parts > 65535 ? 65535 : parts));
  }
};
// of_row(row) gives what units(that, first) takes: units first, first + team, ..., kEach of them, where below t.units.
template <int kEach, class Row, class Units> __device__ __forceinline__ void for_rows(const Teams& t, Row of_row, Units units) {
  const int64_t lane = threadIdx.x & ((1 << t.log) - 1), start = lane + (int64_t(blockIdx.y) * kEach << t.log), step = int64_t(gridDim.y) * kEach << t.log;
  for (int64_t row = int64_t(blockIdx.x) * (kThreads >> t.log) + (threadIdx.x >> t.log); row < t.rows; row += int64_t(gridDim.x) * (kThreads >> t.log)) {
    if (start >= t.units) break;
    const auto known = of_row(row);
    for (int64_t u = start; u < t.units; u += step) units(known, u);
  }
}

}  // namespace device_teams
}  // namespace baracuda
