#pragma once
// What the rows of every device ask a descriptor of softmax.
#include <algorithm>
#include "baracuda/ops/softmax/softmax.hpp"

namespace baracuda::softmax_detail {

inline DType out_dtype(const SoftmaxDescriptor& d) { return d.out_dtype.value_or(d.dtype); }
inline DType computing(const SoftmaxDescriptor& d) { return accumulator(out_dtype(d)); }
inline int axis_of(const SoftmaxDescriptor& d) { return int(d.axis < 0 ? d.axis + std::max(d.shape.rank, 1) : d.axis); }
inline int64_t extent_of(const SoftmaxDescriptor& d) { return d.shape.rank ? d.shape[axis_of(d)] : 1; }
inline PrecisionGuarantee guarantee(const SoftmaxDescriptor& d) {
  return {.math_precision = computing(d), .accumulator = computing(d), .batch_invariant = true};
}

}  // namespace baracuda::softmax_detail
