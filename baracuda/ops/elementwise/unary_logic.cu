// The kernels of the unary logic kinds.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/logic_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>>(),
extern const ElementwiseCudaEntry unary_logic_cuda[] = {BARACUDA_UNARY_LOGIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
