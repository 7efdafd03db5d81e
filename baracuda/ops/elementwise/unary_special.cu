// The kernels of the special functions.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/special_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>, true>(),
extern const ElementwiseCudaEntry unary_special_cuda[] = {BARACUDA_UNARY_SPECIAL(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
