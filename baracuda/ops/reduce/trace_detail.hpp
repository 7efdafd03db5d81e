#pragma once
// trace as a sum: what its rows share.
#include "baracuda/ops/reduce/reduce_detail.hpp"

namespace baracuda {

// Shape and strides of the other axes, and the diagonal as the last one; and the sum along it.
TensorView trace_diagonal(const TraceDescriptor& d, const TensorView& x);
ReduceDescriptor trace_sum(const TraceDescriptor& d);

}  // namespace baracuda
