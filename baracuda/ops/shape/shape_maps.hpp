#pragma once
// The maps of valid descriptors, an AxisMap per axis.
#include "baracuda/ops/shape/index_map.hpp"
#include "baracuda/ops/shape/shape_detail.hpp"

namespace baracuda::shape_detail {

IndexMap map_of(const PadDescriptor& d);
IndexMap map_of(const FlipDescriptor& d);
IndexMap map_of(const RollDescriptor& d);
IndexMap map_of(const RepeatDescriptor& d);
IndexMap map_of(const RepeatInterleaveDescriptor& d);
AxisMap rolled(int64_t n, int64_t shift);
TensorView reshaped_ones(TensorView v, int rank);  // with leading axes of extent 1
// What a constant surrounds comes back whole, so its bits do: the map that takes dx from dy. False where a gradient sums.
bool gradient_map(const PadDescriptor& d, IndexMap& map);

}  // namespace baracuda::shape_detail
