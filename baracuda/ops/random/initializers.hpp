#pragma once
// Descriptors of the usual distributions of weights, from their shape [out, in, ...]: fan_in = in times the further extents, fan_out = out times
// them, as torch.nn.init counts. The plans are random_uniform and random_normal.
#include <cmath>
#include "baracuda/ops/random/random.hpp"

namespace baracuda {

enum class FanMode : uint8_t { in, out, average };
// 2 at least of rank and no extent of 0.
inline Result<double> fan_of(const Shape& shape, FanMode mode) {
  constexpr std::string_view op = "initializer";
  BARACUDA_TRY(expect_shape(op, "shape", shape, 2));
  double receptive = 1;
  for (int i = 2; i < shape.rank; ++i) receptive *= double(shape[i]);
  const double in = double(shape[1]) * receptive, out = double(shape[0]) * receptive, fan = mode == FanMode::in ? in : mode == FanMode::out ? out : (in + out) / 2;
  if (!(fan > 0)) return invalid(op, text("shape ", shape, " has no connections"));
  return fan;
}
// Variance gain^2 / fan: average is Glorot and Bengio (2010, "xavier"), in or out He et al. (2015, "kaiming", gain sqrt(2) for relu).
inline Result<RandomNormalDescriptor> scaled_normal(DType dtype, const Shape& shape, FanMode mode, double gain = 1) {
  BARACUDA_TRY_ASSIGN(fan, fan_of(shape, mode));
  return RandomNormalDescriptor{dtype, shape, 0, gain / std::sqrt(fan)};
}
inline Result<RandomUniformDescriptor> scaled_uniform(DType dtype, const Shape& shape, FanMode mode, double gain = 1) {
  BARACUDA_TRY_ASSIGN(fan, fan_of(shape, mode));
  const double bound = gain * std::sqrt(3 / fan);
  return RandomUniformDescriptor{dtype, shape, -bound, bound};
}

}  // namespace baracuda
