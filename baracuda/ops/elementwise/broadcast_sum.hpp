#pragma once
// Sums of a map over the axes along which one of its operands was broadcast: the gradient of that operand. The map is
// computed block by block in its accumulator's dtype and added in f64, so that nothing of its full size is stored.
// Where the last axis is kept, columns are added row after row, of halves eight at a time in f32; where it is summed, 32 lanes run
// along it, eight along a short one. Long sums are cut into chunks, whose sums are added in order. All of this depends on the shapes alone.
#include "baracuda/ops/elementwise/map.hpp"

namespace baracuda {

// The axes of `shape`, of which an operand was broadcast to it: kept ones, then summed ones, then, when `columns`, the kept ones
// that stood last.
struct BroadcastAxes {
  bool columns = false;
  int64_t kept = 1, summed = 1, last = 1;  // numbers of elements; last: of the trailing kept axes
  int order[kMaxRank] = {}, rank = 0;
  int kept_axes[kMaxRank] = {}, kept_rank = 0;
};
BroadcastAxes broadcast_axes(const Shape& shape, const Shape& operand);
// v as an operand of a map over `shape`, to which its own shape broadcasts.
MapOperand broadcast_operand(const TensorView& v, const Shape& shape);
// Doubles of scratch that sum_broadcast needs for a target of this dtype.
int64_t broadcast_partials(const Shape& shape, const Shape& operand, DType dtype = DType::f32);
// target[kept] = sum over the axes where `target` has extent 1 and shape has more. The map `run` has at most three
// outputs, written in the accumulator of target's dtype; output `which` is summed. sign: 1 or -1 where that output is the first
// input or its negative, which is then added as it lies in memory; 0 otherwise. The bits are the same.
void sum_broadcast(const Shape& shape, std::span<const MapOperand> in, int which, int sign, const TensorView& target, const MapKernel& run,
                   const double* parameters, double* partial, int threads);

}  // namespace baracuda
