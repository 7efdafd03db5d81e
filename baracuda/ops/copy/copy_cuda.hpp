#pragma once
// What the kernel files of the family export to its rows.
#include "baracuda/core/dtype.hpp"
#include "baracuda/device/walk.hpp"

namespace baracuda {

using CastLaunch = int (*)(const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream);
// By the dtypes of x and y. Casts of integers alone are those of their bits: one serves several dtypes.
extern const ByDType<ByDType<CastLaunch>> cast_integers_cuda, cast_floats_cuda, cast_saturated_cuda;
struct ScaledCast {
  const Shape& shape;
  device::Operand x, y;
  const float* scale;
  uint32_t* amax;  // bits of an f32; null: not wanted
};
extern const ByDType<ByDType<int (*)(const ScaledCast&, void* stream)>> cast_scaled_cuda[2];  // by whether it saturates

// y = x, bit by bit.
int copy_on_device(const Shape& shape, const device::Operand& x, const device::Operand& y, void* stream);
// y = the low bytes of a, b everywhere.
int fill_on_device(const Shape& shape, const device::Operand& y, uint64_t a, uint64_t b, void* stream);

}  // namespace baracuda
