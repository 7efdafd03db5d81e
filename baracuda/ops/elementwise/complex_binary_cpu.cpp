// The loops of the binary kinds of complex numbers, for one instruction set.
#include "baracuda/ops/elementwise/complex_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) complex_kind<elementwise::ComplexBinary<BinaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_COMPLEX_BINARY(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kComplexBinary> complex_binary_kernels = complex_table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
