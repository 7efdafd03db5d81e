#pragma once
// What the instruction-set units of cast export: a loop per pair of dtypes.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

// The dtypes that cast and fill know.
using Castable = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;
struct CastKernels { ByDType<ByDType<MapRun>> from; };
BARACUDA_ISA_TABLE(CastKernels, cast_kernels)

}  // namespace baracuda
