#pragma once
// The row of fused linear cross entropy that makes the loss alone, on the CPU.
#include "baracuda/ops/loss/fused_linear_cross_entropy.hpp"

namespace baracuda {

Kernel<FusedLinearCrossEntropy> fused_loss_streamed_row();

}  // namespace baracuda
