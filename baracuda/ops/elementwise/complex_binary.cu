// The kernels of the binary kinds of complex numbers.
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_table.cuh"

namespace baracuda {

#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexBinary<BinaryKind::k>>(),
extern const ElementwiseCudaEntry complex_binary_cuda[] = {BARACUDA_COMPLEX_BINARY(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
