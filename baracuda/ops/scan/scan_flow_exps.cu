// Logarithms of sums of exponentials where elements lie side by side in whole pieces, or in rows.
#include "baracuda/ops/scan/scan_fast.hpp"
#include "baracuda/ops/scan/scan_flow.cuh"
#include "baracuda/ops/scan/scan_logs.cuh"
#include "baracuda/ops/scan/scan_short.cuh"
#include "baracuda/ops/scan/scan_strips.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> constexpr ScanFast fast() { return {launch_flow<Logs<T>>, launch_strips<Logs<T>>, launch_short<Logs<T>>}; }
constexpr ByDType<ScanFast> kKernels = device::floating<ScanFast>(fast<f16>(), fast<bf16>(), fast<float>(), {});

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ScanFast> scan_cuda_fast_exps = kKernels;

}  // namespace baracuda
