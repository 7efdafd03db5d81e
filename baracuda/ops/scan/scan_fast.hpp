#pragma once
// What scan_flow.cu and the like have for floats, beside the kernels that take everything.
#include "baracuda/ops/scan/scan_cuda.hpp"

namespace baracuda {

struct ScanFast {
  int (*flow)(const ScanCuda&, void* stream) = nullptr;        // rows of neighbours, by code for sm_90a
  int (*strips)(const ScanCuda&, void* stream) = nullptr;      // columns side by side in whole pieces of 16 bytes
  int (*short_rows)(const ScanCuda&, void* stream) = nullptr;  // whole rows of 32 pieces at most
  bool whole = false;                                          // `flow` has whole rows only
  int64_t tile = 0;                                            // elements, where it is less than that of the kernels that take everything
};
struct ScanFastKernels { ByDType<ScanFast> of[2]; };            // sums, products
extern const ScanFastKernels scan_cuda_fast;
extern const ByDType<ScanFast> scan_cuda_fast_extrema, scan_cuda_fast_exps, scan_cuda_fast_extremum_grads, scan_cuda_fast_log_grads;  // extrema: indices below 2^31

}  // namespace baracuda
