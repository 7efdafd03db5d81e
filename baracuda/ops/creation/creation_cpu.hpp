#pragma once
// What the instruction-set units of the family export: values in f64, of n places from `first` on.
#include "baracuda/host/isa.hpp"
#include "baracuda/ops/creation/creation_line.hpp"

namespace baracuda {

struct CreationKernels {
  void (*ramp)(double start, double step, int64_t first, double* y, int64_t n);
  void (*line)(const CreationLine& line, int64_t first, double* y, int64_t n);
};
BARACUDA_ISA_TABLE(CreationKernels, creation_kernels)

}  // namespace baracuda
