// The gradients of extrema and of logcumsumexp in long rows of whole pieces.
#include "baracuda/ops/scan/scan_extremum_grads.cuh"
#include "baracuda/ops/scan/scan_fast.hpp"
#include "baracuda/ops/scan/scan_flow.cuh"
#include "baracuda/ops/scan/scan_log_grads.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class Op> constexpr ScanFast fast() { return {.flow = launch_flow<Op>, .whole = true, .tile = FlowShape<Flow<Op, true>>::kMost}; }
template <template <class> class Op> constexpr ByDType<ScanFast> floats() { return device::floating<ScanFast>(fast<Op<f16>>(), fast<Op<bf16>>(), fast<Op<float>>(), {}); }
constexpr ByDType<ScanFast> kExtrema = floats<ExtremeGrads>(), kLogs = floats<LogGrads>();

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ScanFast> scan_cuda_fast_extremum_grads = kExtrema, scan_cuda_fast_log_grads = kLogs;

}  // namespace baracuda
