// The loops of the binary arithmetic kinds, for one instruction set.
#include "baracuda/ops/elementwise/binary_math.hpp"
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) entry<elementwise::Binary<BinaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_BINARY_ARITHMETIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kBinaryArithmetic> binary_arithmetic_kernels = table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
