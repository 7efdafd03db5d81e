// The loops of the unary function kinds, for one instruction set.
#include "baracuda/ops/elementwise/function_math.hpp"
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
#define BARACUDA_ENTRY(k) entry<elementwise::Unary<UnaryKind::k>, true>(),
constexpr ElementwiseEntry entries[] = {BARACUDA_UNARY_FUNCTION(BARACUDA_ENTRY)};
#undef BARACUDA_ENTRY
}  // namespace
extern constexpr ElementwiseTable<kUnaryFunction> unary_function_kernels = table(entries);
}  // namespace BARACUDA_ISA
}  // namespace baracuda
