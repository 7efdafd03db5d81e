// y = f(x) and dx = dy f'(x): the loops of the unary kinds, for one instruction set.
#include <utility>
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
template <size_t... K> constexpr UnaryKernels table(std::index_sequence<K...>) {
  return {{entry<elementwise::Unary<UnaryKind(K)>>()...}};
}
}  // namespace
extern constexpr UnaryKernels unary_kernels = table(std::make_index_sequence<kUnaryKinds>{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
