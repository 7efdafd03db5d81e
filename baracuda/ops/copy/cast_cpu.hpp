#pragma once
// What the instruction-set units of cast export: a loop per pair of dtypes.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

// The dtypes of plain numbers; cast and fill know the 8-bit floats besides.
using Castable = TypeList<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, f16, bf16, float, double>;
using CastableOrFloat8 = decltype(join(Castable{}, Float8{}));
// What a cast can saturate to.
using Saturable = decltype(join(TypeList<f16, bf16>{}, Float8{}));
struct CastKernels {
  ByDType<ByDType<MapRun>> from, saturated;
  ByDType<ByDType<MapRun>> past;  // 8-bit floats to f16, bf16, f32, and bf16 and f32 to them, as `from`, past the caches; y starts at a line
  // Codes of cast_codes.hpp. e8m0 takes {rounding, saturate}; four bits take whether the values of a pair are apart, in two
  // operands: else they are one.
  ByDType<MapRun> to_e8m0, from_e8m0, to_packed[3], from_packed[3];
  uint32_t (*scale)(float* x, float scale, int64_t n);  // x = x scale; the bits of the largest |x| before, NaN above all
};
BARACUDA_ISA_TABLE(CastKernels, cast_kernels)

}  // namespace baracuda
