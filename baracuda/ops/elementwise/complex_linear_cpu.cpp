// The loops of the linear and logical binary kinds and of the ternary kinds of complex numbers, for one instruction set.
#include "baracuda/ops/elementwise/complex_exponential_math.hpp"
#include "baracuda/ops/elementwise/complex_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexBinary<BinaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_COMPLEX_LINEAR(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexTernary<TernaryKind::k>>(),
constexpr ElementwiseEntry ternary_entries[] = {BARACUDA_COMPLEX_TERNARY(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kComplexLinear> complex_linear_kernels = complex_table(entries);
extern constexpr ElementwiseTable<kComplexTernary> complex_ternary_kernels = complex_table(ternary_entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
