// The kernels of the exponential, logarithm, circular and hyperbolic functions of complex numbers.
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_table.cuh"

namespace baracuda {

#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexUnary<UnaryKind::k>>(),
extern const ElementwiseCudaEntry complex_function_cuda[] = {BARACUDA_COMPLEX_FUNCTION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
