// Values of a map into sums of f64, for one instruction set. The values are in L1; an add and a conversion for each.
#include "baracuda/math/config.hpp"
#include "baracuda/ops/elementwise/broadcast_sum_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class W> void add_row(double* acc, const void* x, int64_t n) {
  const W* v = static_cast<const W*>(x);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) acc[i] += double(v[i]);
}
template <class W> void add_lanes(double* acc, const void* x, int64_t n, int64_t phase) {
  const W* v = static_cast<const W*>(x);
  int64_t i = 0;
  for (; i < n && (phase + i) % kLanesOfSum; ++i) acc[(phase + i) % kLanesOfSum] += double(v[i]);
  double lane[kLanesOfSum];
  for (int l = 0; l < kLanesOfSum; ++l) lane[l] = acc[l];
  for (; i + kLanesOfSum <= n; i += kLanesOfSum)
    for (int l = 0; l < kLanesOfSum; ++l) lane[l] += double(v[i + l]);
  for (int l = 0; l < kLanesOfSum; ++l) acc[l] = lane[l];
  for (; i < n; ++i) acc[(phase + i) % kLanesOfSum] += double(v[i]);
}

}  // namespace
extern constexpr BroadcastSumKernels broadcast_sum_kernels = {{add_row<float>, add_row<double>}, {add_lanes<float>, add_lanes<double>}};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
