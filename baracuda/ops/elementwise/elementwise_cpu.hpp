#pragma once
// What the instruction-set units of the family export: the loops of every kind, and what a kind reads and takes, as data.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/elementwise/elementwise_kinds.hpp"
#include "baracuda/ops/elementwise/map_run.hpp"

namespace baracuda {

struct ElementwiseEntry {
  ByDType<MapRun> forward;        // x... -> y
  ByDType<MapRun> backward;       // dy x... y -> dx...
  ByDType<MapRun> backward_wide;  // the same, written in the accumulator's dtype, for sums over broadcast axes
  int reads, reads_b, parameters; // bits: 1 first operand, 2 second, 4 y
};
struct UnaryKernels { ElementwiseEntry kind[kUnaryKinds]; };
struct BinaryKernels { ElementwiseEntry kind[kBinaryKinds]; };
BARACUDA_ISA_TABLE(UnaryKernels, unary_kernels)
BARACUDA_ISA_TABLE(BinaryKernels, binary_kernels)

}  // namespace baracuda
