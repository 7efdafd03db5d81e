// The loops of the unary logic kinds, for one instruction set.
#include "baracuda/ops/elementwise/logic_math.hpp"
#include "baracuda/ops/elementwise/predicate_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) logic_entry<elementwise::Unary<UnaryKind::k>>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_UNARY_LOGIC(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kUnaryLogic> unary_logic_kernels = table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
