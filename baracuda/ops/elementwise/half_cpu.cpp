// f16 and bf16 to f32 and back, dense, for one instruction set.
#include "baracuda/math/twice.hpp"
#include "baracuda/ops/elementwise/elementwise_cpu.hpp"
#include "baracuda/ops/elementwise/half_cpu.hpp"

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
template <class T> BARACUDA_HD void put(T* y, PackOf<float> x, bool past) {
  if (past) store_past<T, kLanes<float>>(y, x);
  else store<T, kLanes<float>>(y, x);
}
template <class T> void narrow(const float* from, void* half, int64_t n, bool past) {
  constexpr int N = kLanes<float>;
  T* y = static_cast<T*>(half);
  int64_t i = 0;
  for (; i + N <= n; i += N) put<T>(y + i, load<N>(from + i), past);
  for (; i < n; ++i) y[i] = from_float<T>(from[i]);
}
template <class T> void deal(const void* half, float* to, int64_t n) {
  constexpr int N = kLanes<float>;
  const T* x = static_cast<const T*>(half);
  int64_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    const auto both = load_dealt<N>(x + i);
    store<float, N>(to + i, both.low), store<float, N>(to + i + N, both.high);
  }
  widen<T>(x + i, to + i, n - i);
}
template <class T> void gather(const float* from, void* half, int64_t n, bool past) {
  constexpr int N = kLanes<float>;
  T* y = static_cast<T*>(half);
  int64_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) store_dealt<T, N>(y + i, load<N>(from + i), load<N>(from + i + N), past);
  narrow<T>(from + i, y + i, n - i, past);
}
}  // namespace
extern constexpr HalfKernels half_kernels = {{widen<f16>, widen<bf16>}, {narrow<f16>, narrow<bf16>}};
extern constexpr DealtHalves dealt_halves = {{deal<f16>, deal<bf16>}, {gather<f16>, gather<bf16>}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
