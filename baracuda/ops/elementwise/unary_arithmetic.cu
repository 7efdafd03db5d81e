// The kernels of the unary arithmetic kinds.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/arithmetic_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>>(),
extern const ElementwiseCudaEntry unary_arithmetic_cuda[] = {BARACUDA_UNARY_ARITHMETIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
