// Sums and products.
#include "baracuda/ops/scan/scan_fold.cuh"
#include "baracuda/ops/scan/scan_piped.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <template <class> class F> constexpr ByDType<ScanLaunch> floats() {
  return device::floating<ScanLaunch>(launches<F<f16>>(), launches<F<bf16>>(), launches<F<float>>(), launches<F<double>>());
}
constexpr ScanCudaKernels make() {
  ScanCudaKernels k;
  k.of[0] = floats<Sums>(), k.of[1] = floats<Products>();
  return k;
}
constexpr ScanCudaKernels kKernels = make();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanCudaKernels scan_cuda_sums = kKernels;

}  // namespace baracuda
