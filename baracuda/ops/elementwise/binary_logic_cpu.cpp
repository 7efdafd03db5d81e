// The loops of the binary logic kinds, for one instruction set.
#include "baracuda/ops/elementwise/logic_math.hpp"
#include "baracuda/ops/elementwise/predicate_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) logic_entry<elementwise::Binary<BinaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_BINARY_LOGIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kBinaryLogic> binary_logic_kernels = table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
