#pragma once
// What the instruction-set units of the family export.
#include <cstdint>
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

// What a step takes from its plan and its run.
struct AdamSettings { double beta1, beta2, eps, weight_decay; bool decoupled, maximize; };
// The constants of one step. keep: 1 - lr weight_decay (decoupled), l2: weight_decay (not decoupled).
struct AdamStep { double grad_scale, keep, l2, one_minus_beta1, beta2, one_minus_beta2, step_size, root_correction2, eps; };
struct AdamPiece {
  void* params;
  const void* grads;
  void *m, *v, *masters, *v_max;  // masters and v_max may be null
  int64_t n;
  bool past;  // params are only written, and past the caches: they begin at a multiple of 64 bytes
};
// Sums of squares: all in `mid`, or, for f64, the squares of scaled numbers where `big` and `small` say so.
struct SquareSums { double big, mid, small; };
struct OptimKernels {
  ByDType<ByDType<void (*)(const AdamStep&, const AdamPiece&)>> adam;  // by dtype of params, then of grads
  ByDType<void (*)(const void* x, int64_t n, SquareSums&)> squares;
};
BARACUDA_ISA_TABLE(OptimKernels, optim_kernels)

}  // namespace baracuda
