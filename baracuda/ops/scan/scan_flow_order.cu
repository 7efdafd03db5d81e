// Extrema where elements lie side by side in whole pieces, or in rows.
#include "baracuda/ops/scan/scan_extremum.cuh"
#include "baracuda/ops/scan/scan_fast.hpp"
#include "baracuda/ops/scan/scan_flow.cuh"
#include "baracuda/ops/scan/scan_short.cuh"
#include "baracuda/ops/scan/scan_strips.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

template <class T> int flow(const ScanCuda& p, void* stream) { return p.indices ? launch_flow<Extremes<T, true>>(p, stream) : launch_flow<Extremes<T, false>>(p, stream); }
template <class T> int strips(const ScanCuda& p, void* stream) { return p.indices ? launch_strips<Extremes<T, true>>(p, stream) : launch_strips<Extremes<T, false>>(p, stream); }
template <class T> int short_rows(const ScanCuda& p, void* stream) { return p.indices ? launch_short<Extremes<T, true>>(p, stream) : launch_short<Extremes<T, false>>(p, stream); }
template <class T> constexpr ScanFast fast() { return {flow<T>, strips<T>, short_rows<T>}; }
constexpr ByDType<ScanFast> kKernels = device::floating<ScanFast>(fast<f16>(), fast<bf16>(), fast<float>(), {});

}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<ScanFast> scan_cuda_fast_extrema = kKernels;

}  // namespace baracuda
