#pragma once
// Views of the same memory as another dtype.
#include "baracuda/core/status.hpp"
#include "baracuda/core/tensor.hpp"

namespace baracuda {

// The same memory as elements of another dtype; nothing is copied. Of the same size: shape and strides stay. Else the last axis
// changes with the ratio of the sizes (PyTorch's Tensor.view(dtype)); it must be dense, and where elements become wider the
// other strides, the extent and the address must divide. bool comes from bool alone: other bytes need not be 0 or 1.
Result<TensorView> bitcast(const TensorView& v, DType to);
// Likewise, with an axis for the ratio (JAX's bitcast_convert_type): narrower elements get it behind the others, whose strides
// may be any; wider ones take the last axis, whose extent must be the ratio, away.
Result<TensorView> bitcast_axis(const TensorView& v, DType to);

}  // namespace baracuda
