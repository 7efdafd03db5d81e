#pragma once
// How a sum over some axes of a map is cut for a device: map_sum.cuh. Host and device; plain structs.
#include <algorithm>
#include "baracuda/device/walk.hpp"

namespace baracuda::device {

struct SumShape {
  int64_t outer = 1, summed = 1, last = 1;
  int64_t kept() const { return outer * last; }
};
inline constexpr int kSumBlock = 256;
// How a sum is cut: for V lanes where the axis that they run along allows them.
struct SumCut {
  int lanes = 1, columns = 1;     // of a unit; units of kept elements side by side in a block
  int64_t chunk = 1, chunks = 1;  // of the summed index in units
  bool along = true;              // lanes run along the summed axis
};
inline SumCut sum_cut(const SumShape& s, int lanes) {
  SumCut c;
  if (s.kept() == 0) return c;
  c.along = s.last == 1;
  c.lanes = (c.along ? s.summed : s.last) % lanes == 0 ? lanes : 1;
  const int64_t units = c.along ? (s.summed + c.lanes - 1) / c.lanes : s.summed, width = c.along ? 1 : s.last / c.lanes;
  if (c.along) {
    int threads = 1;
    while (threads < kSumBlock && threads < units) threads *= 2;
    c.columns = kSumBlock / threads;
  } else {
    while (c.columns < 32 && c.columns < width) c.columns *= 2;
  }
  const int64_t threads = kSumBlock / c.columns, blocks = (width + c.columns - 1) / c.columns;
  const int64_t wanted = (1024 + blocks - 1) / blocks, most = (units + 8 * threads - 1) / (8 * threads);
  c.chunks = std::max<int64_t>(1, std::min<int64_t>({wanted, most, 512}));
  c.chunk = std::max<int64_t>(1, (units + c.chunks - 1) / c.chunks);
  c.chunks = std::max<int64_t>(1, (units + c.chunk - 1) / c.chunk);
  return c;
}

// Doubles of scratch; `parts`: of a value.
inline int64_t sum_partials(const SumShape& s, int lanes, int parts) {
  const SumCut c = sum_cut(s, lanes);
  return c.chunks > 1 ? c.chunks * s.kept() * parts : 0;
}
// y = the sum of output `which` of f over the summed axes. `axes`: the extents of the map as [outer.., summed.., last..], operands
// and `target` (its kept axes) in that order.
struct SumOperands {
  Shape axes, kept;
  SumShape shape;
  const Operand* x;
  Operand target;
  int which;
  double* partial;  // sum_partials() doubles
  int first_summed, summed_axes;  // of `axes`
  // Whether operand k moves by one step from a summed index to the next.
  bool progression(int k, int64_t& step) const {
    step = 0;
    int64_t n = 1;
    if (!x[k].data) return true;
    for (int a = first_summed + summed_axes - 1; a >= first_summed; n *= axes[a--]) {
      if (axes[a] == 1) continue;
      if (n == 1) step = x[k].strides[a];
      else if (x[k].strides[a] != step * n) return false;
    }
    return true;
  }
};

}  // namespace baracuda::device
