// f16 and bf16 to f32 and back, dense, for one instruction set.
#include "baracuda/math/element.hpp"
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
template <class T> void widen(const void* half, float* to, int64_t n) {
  constexpr int N = kLanes<float>;
  const T* x = static_cast<const T*>(half);
  int64_t i = 0;
  for (; i + N <= n; i += N) store<float, N>(to + i, load<N>(x + i));
  for (; i < n; ++i) to[i] = to_float(x[i]);
}
template <class T> void narrow(const float* from, void* half, int64_t n) {
  constexpr int N = kLanes<float>;
  T* y = static_cast<T*>(half);
  int64_t i = 0;
  for (; i + N <= n; i += N) store<T, N>(y + i, load<N>(from + i));
  for (; i < n; ++i) y[i] = from_float<T>(from[i]);
}
}  // namespace
extern constexpr HalfKernels half_kernels = {{widen<f16>, widen<bf16>}, {narrow<f16>, narrow<bf16>}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
