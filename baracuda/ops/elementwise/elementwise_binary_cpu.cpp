// y = f(a, b), da and db: the loops of the binary kinds, for one instruction set.
#include <utility>
#include "baracuda/ops/elementwise/elementwise_table.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
template <size_t... K> constexpr BinaryKernels table(std::index_sequence<K...>) {
  return {{entry<elementwise::Binary<BinaryKind(K)>>()...}};
}
}  // namespace
extern constexpr BinaryKernels binary_kernels = table(std::make_index_sequence<kBinaryKinds>{});
}  // namespace BARACUDA_ISA
}  // namespace baracuda
