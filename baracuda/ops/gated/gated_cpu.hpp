#pragma once
// What the instruction-set units of the family export: one loop per kind and dtype, over a piece of a row.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

inline constexpr int kGatedKinds = 6;
struct GatedPiece {
  const void* in[3];      // forward: gate up; backward: dy gate up
  void* out[2];           // forward: y; backward: dgate dup, null where not wanted
  int64_t in_stride[3], out_stride[2], n;
  bool past;              // write past the caches
  const void* table;      // of a half's act, or of its act and slope, in f32
  double alpha, limit;    // of swiglu_clamped
};
struct ActSlope { float act, slope; };
struct GatedKernels {
  ByDType<void (*)(const GatedPiece&)> forward[kGatedKinds], backward[kGatedKinds];
};
BARACUDA_ISA_TABLE(GatedKernels, gated_kernels)
struct GatedTableLoops { ByDType<void (*)(const GatedPiece&)> forward, backward; };  // f16, bf16
struct GatedTableKernels { GatedTableLoops by[2]; };  // 1: by gathers (host/gathers.hpp)
BARACUDA_ISA_TABLE_BF16(GatedTableKernels, gated_table_kernels)

}  // namespace baracuda
