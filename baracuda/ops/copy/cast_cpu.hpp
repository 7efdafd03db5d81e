#pragma once
// What the instruction-set units of cast export: a loop per pair of dtypes.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

struct CastKernels { ByDType<ByDType<MapRun>> from; };
BARACUDA_ISA_TABLE(CastKernels, cast_kernels)

}  // namespace baracuda
