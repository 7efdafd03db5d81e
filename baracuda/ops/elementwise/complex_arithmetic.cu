// The kernels of the arithmetic of complex numbers.
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_table.cuh"

namespace baracuda {

#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexUnary<UnaryKind::k>>(),
extern const ElementwiseCudaEntry complex_arithmetic_cuda[] = {BARACUDA_COMPLEX_ARITHMETIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
