// The kernels of the binary arithmetic kinds.
#include "baracuda/ops/elementwise/elementwise_table.cuh"
#include "baracuda/ops/elementwise/binary_math.hpp"

namespace baracuda {

#define BARACUDA_ENTRY(k) entry<elementwise::Binary<BinaryKind::k>, (BinaryKind::k >= BinaryKind::div_trunc && BinaryKind::k <= BinaryKind::remainder)>(),
extern const ElementwiseCudaEntry binary_arithmetic_cuda[] = {BARACUDA_BINARY_ARITHMETIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
