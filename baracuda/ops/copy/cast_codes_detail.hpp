#pragma once
// Values that are stored two to a byte, as a tensor of pairs: for the rows of both devices.
#include "baracuda/ops/copy/cast_codes.hpp"

namespace baracuda::cast_codes_detail {

using PackedValues = TypeList<f16, bf16, float, double, int8_t, uint8_t>;
// The elements of a pair lie one behind the other and `strides` counts pairs; or they lie `step` elements apart and it counts elements.
struct Pairs {
  bool joined;
  int64_t step;
  Strides strides;
  explicit Pairs(const TensorView& v) : step(v.strides[v.shape.rank - 1]), strides(v.strides) {
    const int last = v.shape.rank - 1;
    joined = step == 1 && uintptr_t(v.data) % (2 * byte_size(v.dtype)) == 0;
    for (int a = 0; a < last; ++a) joined = joined && (v.shape[a] == 1 || strides[a] % 2 == 0);
    if (!joined) strides[last] *= 2;
    else for (int a = 0; a < last; ++a) strides[a] /= 2;
  }
};

}  // namespace baracuda::cast_codes_detail
