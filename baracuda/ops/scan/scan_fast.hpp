#pragma once
// What scan_flow.cu has for sums and products of floats.
#include "baracuda/ops/scan/scan_cuda.hpp"

namespace baracuda {

struct ScanFast {
  int (*flow)(const ScanCuda&, void* stream) = nullptr;        // rows of neighbours, by code for sm_90a
  int (*strips)(const ScanCuda&, void* stream) = nullptr;      // columns side by side in whole pieces of 16 bytes
  int (*short_rows)(const ScanCuda&, void* stream) = nullptr;  // whole rows of 32 pieces at most
};
struct ScanFastKernels { ByDType<ScanFast> of[2]; };            // by kind
extern const ScanFastKernels scan_cuda_fast;

}  // namespace baracuda
