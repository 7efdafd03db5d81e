// The kernels of the binary functions.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/binary_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Binary<BinaryKind::k>, true>(),
extern const ElementwiseCudaEntry binary_function_cuda[] = {BARACUDA_BINARY_FUNCTION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
