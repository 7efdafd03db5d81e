#pragma once
// What the rows of categorical and sampling_filter share.
#include "baracuda/ops/random/categorical.hpp"

namespace baracuda {

CategoricalDescriptor as_categorical(const SamplingFilterDescriptor& d);

}  // namespace baracuda
