// The kernels of the other exponentials, logarithms, roots and powers of complex numbers.
#include "baracuda/ops/elementwise/complex_exponential_math.hpp"
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_table.cuh"

namespace baracuda {

#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexUnary<UnaryKind::k>>(),
extern const ElementwiseCudaEntry complex_exponential_cuda[] = {BARACUDA_COMPLEX_EXPONENTIAL(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
