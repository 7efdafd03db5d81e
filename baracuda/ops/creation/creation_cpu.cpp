// The loops of arange and linspace, which the compiler vectorises; places are below 2^53, so that counting them in f64 is exact.
#include "baracuda/ops/creation/creation_cpu.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

void ramp(double start, double step, int64_t first, double* y, int64_t n) {
  const double from = double(first);
  for (int32_t k = 0; k < int32_t(n); ++k) y[k] = creation::ramp(start, step, from + k);
}
void line(const CreationLine& of, int64_t first, double* y, int64_t n) {
  const CreationLine l = of;
  const int64_t until = creation::turn(l) - first;
  const int32_t half = int32_t(until < 0 ? 0 : until < n ? until : n), count = int32_t(n);
  const double from = double(first), rest = double(l.steps - first);
  for (int32_t k = 0; k < half; ++k) y[k] = creation::ahead(l, from + k);
  for (int32_t k = half; k < count; ++k) y[k] = creation::behind(l, rest - k);
}

}  // namespace
extern constexpr CreationKernels creation_kernels = {ramp, line};
}  // namespace BARACUDA_ISA
}  // namespace baracuda
