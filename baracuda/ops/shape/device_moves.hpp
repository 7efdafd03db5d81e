#pragma once
#include "baracuda/core/tensor.hpp"
#include "baracuda/ops/copy/copy_cuda.hpp"

namespace baracuda::shape_detail {

// y = x, of one shape: a copy, or where rows of x allow no wide words and those of y do, by the units of the maps.
int move_on_device(const TensorView& x, const TensorView& y, void* stream);
// How a CUDA stream moves; after an error no more.
struct DeviceMoves {
  void* stream;
  int error = 0;
  void copy(const TensorView& x, const TensorView& y) {
    if (!error) error = move_on_device(x, y, stream);
  }
  void clear(const TensorView& y) {
    if (!error) error = fill_on_device(y.shape, device::Operand::of(y), 0, 0, stream);
  }
};

}  // namespace baracuda::shape_detail
