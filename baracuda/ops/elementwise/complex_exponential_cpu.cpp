// The loops of the other exponentials, logarithms, roots and powers of complex numbers, for one instruction set.
#include "baracuda/ops/elementwise/complex_exponential_math.hpp"
#include "baracuda/ops/elementwise/complex_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexUnary<UnaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_COMPLEX_EXPONENTIAL(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kComplexExponential> complex_exponential_kernels = complex_table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
