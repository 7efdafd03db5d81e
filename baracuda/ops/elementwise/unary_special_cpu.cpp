// The loops of the unary special functions, for one instruction set.
#include "baracuda/ops/elementwise/special_math.hpp"
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>, true>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_UNARY_SPECIAL(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kUnarySpecial> unary_special_kernels = table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
