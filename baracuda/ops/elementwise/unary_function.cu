// The kernels of the unary functions.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/function_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>, true>(),
extern const ElementwiseCudaEntry unary_function_cuda[] = {BARACUDA_UNARY_FUNCTION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
