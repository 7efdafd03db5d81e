// Sums and products where elements lie side by side in whole pieces, or in rows.
#include "baracuda/ops/scan/scan_fast.hpp"
#include "baracuda/ops/scan/scan_flow.cuh"
#include "baracuda/ops/scan/scan_fold.cuh"
#include "baracuda/ops/scan/scan_short.cuh"
#include "baracuda/ops/scan/scan_strips.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class Op> constexpr ScanFast fast() { return {launch_flow<Op>, launch_strips<Op>, launch_short<Op>}; }
template <template <class> class F> constexpr ByDType<ScanFast> floats() {
  return device::floating<ScanFast>(fast<F<f16>>(), fast<F<bf16>>(), fast<F<float>>(), fast<F<double>>());
}
constexpr ScanFastKernels kKernels = {{floats<Sums>(), floats<Products>()}};

}  // namespace
}  // namespace BARACUDA_ISA

extern const ScanFastKernels scan_cuda_fast = kKernels;

}  // namespace baracuda
