// The kernels of the activations.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/activation_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>, true>(),
extern const ElementwiseCudaEntry unary_activation_cuda[] = {BARACUDA_UNARY_ACTIVATION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
