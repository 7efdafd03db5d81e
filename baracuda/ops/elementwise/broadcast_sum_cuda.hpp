#pragma once
// sum_broadcast() on CUDA: the operands of device/map_sum.cuh for the gradient of an operand that was broadcast.
#include <algorithm>
#include "baracuda/device/sum_shape.hpp"
#include "baracuda/ops/elementwise/broadcast_sum.hpp"

namespace baracuda {

inline device::SumShape sum_shape(const BroadcastAxes& a) { return {a.last ? a.kept / a.last : 0, a.summed, a.last}; }
inline int64_t broadcast_partials_cuda(const Shape& shape, const Shape& operand, int lanes, int parts) {
  return device::sum_partials(sum_shape(broadcast_axes(shape, operand)), lanes, parts);
}
// K operands over `shape`; holds what device::SumOperands points to.
template <int K> struct BroadcastSumCuda {
  device::Operand x[K];
  device::SumOperands sum;

  BroadcastSumCuda(const Shape& shape, const device::Operand* in, int which, const TensorView& target, double* partial) {
    const BroadcastAxes a = broadcast_axes(shape, target.shape);
    sum = {{}, {}, sum_shape(a), x, {target.data, int(byte_size(target.dtype)), {}}, which, partial, 0, 0};
    for (int k = 0; k < K; ++k) x[k] = {in[k].data, in[k].bytes, {}};
    for (int i = 0; i < a.rank; ++i) {
      sum.axes.push_back(shape[a.order[i]]);
      const bool kept = std::find(a.kept_axes, a.kept_axes + a.kept_rank, a.order[i]) != a.kept_axes + a.kept_rank;
      if (!kept && sum.summed_axes++ == 0) sum.first_summed = i;
      for (int k = 0; k < K; ++k) x[k].strides.push_back(in[k].data ? in[k].strides[a.order[i]] : 0);
    }
    const int lead = shape.rank - target.shape.rank;
    for (int i = 0; i < a.kept_rank; ++i) {
      sum.kept.push_back(shape[a.kept_axes[i]]);
      sum.target.strides.push_back(a.kept_axes[i] < lead ? 0 : target.strides[a.kept_axes[i] - lead]);
    }
  }
  BroadcastSumCuda(const BroadcastSumCuda&) = delete;
  BroadcastSumCuda& operator=(const BroadcastSumCuda&) = delete;
};

}  // namespace baracuda
