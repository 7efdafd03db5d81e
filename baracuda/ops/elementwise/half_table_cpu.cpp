// Halves whose results, or whose slopes, come from a table, dense, for one instruction set.
#include "baracuda/math/bf16_instruction.hpp"
#include "baracuda/math/look_up_twice.hpp"
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <bool kGather> void halves(const void* table, const void* half, void* to, int64_t n, bool past) {
  look_up_halves<kGather>(static_cast<const uint16_t*>(table), half, static_cast<uint16_t*>(to), n, past);
}
template <bool kGather, class T> void times(const void* table, const void* dy, const void* half, void* to, int64_t n, bool past) {
  constexpr int N = kLanes<float>;
  const float* slopes = static_cast<const float*>(table);
  const T *g = static_cast<const T*>(dy), *x = static_cast<const T*>(half);
  T* y = static_cast<T*>(to);
  int64_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    if (past) __builtin_prefetch(reinterpret_cast<const char*>(g + i) + kLookUpAhead), __builtin_prefetch(reinterpret_cast<const char*>(x + i) + kLookUpAhead);
    const auto both = load_dealt<N>(g + i);
    const auto slope = look_up_dealt<kGather, T, N>(slopes, x + i);
    store_dealt_rounded<T, N>(y + i, both.low * slope.low, both.high * slope.high, past);
  }
  for (; i < n; ++i) store<T, 1>(y + i, load<1>(g + i) * look_up<1>(slopes, x + i));
}
template <bool kGather> constexpr HalfTableLoops make() { return {halves<kGather>, {times<kGather, f16>, times<kGather, bf16>}}; }

}  // namespace
extern constexpr HalfTableKernels half_table_kernels = {{make<false>(), make<true>()}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
