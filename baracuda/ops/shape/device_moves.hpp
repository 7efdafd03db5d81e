#pragma once
#include "baracuda/core/tensor.hpp"
#include "baracuda/ops/copy/copy_cuda.hpp"

namespace baracuda::shape_detail {

// How a CUDA stream moves; after an error no more.
struct DeviceMoves {
  void* stream;
  int error = 0;
  void copy(const TensorView& x, const TensorView& y) {
    if (!error) error = copy_on_device(y.shape, device::Operand::of(x), device::Operand::of(y), stream);
  }
  void clear(const TensorView& y) {
    if (!error) error = fill_on_device(y.shape, device::Operand::of(y), 0, 0, stream);
  }
};

}  // namespace baracuda::shape_detail
