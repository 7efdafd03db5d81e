// The kernels of the linear and logical binary kinds and of the ternary kinds of complex numbers.
#include "baracuda/ops/elementwise/complex_exponential_math.hpp"
#include "baracuda/ops/elementwise/complex_kinds.hpp"
#include "baracuda/ops/elementwise/elementwise_table.cuh"

namespace baracuda {

#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexBinary<BinaryKind::k>>(),
extern const ElementwiseCudaEntry complex_linear_cuda[] = {BARACUDA_COMPLEX_LINEAR(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexTernary<TernaryKind::k>>(),
extern const ElementwiseCudaEntry complex_ternary_cuda[] = {BARACUDA_COMPLEX_TERNARY(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY

}  // namespace baracuda
