// The kernels of the binary logic kinds.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/logic_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Binary<BinaryKind::k>, (BinaryKind::k >= BinaryKind::gcd)>(),
extern const ElementwiseCudaEntry binary_logic_cuda[] = {BARACUDA_BINARY_LOGIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
