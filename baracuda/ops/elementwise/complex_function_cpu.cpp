// The loops of the exponential, logarithm, circular and hyperbolic functions of complex numbers, for one instruction set.
#include "baracuda/ops/elementwise/complex_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexUnary<UnaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_COMPLEX_FUNCTION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kComplexFunction> complex_function_kernels = complex_table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
