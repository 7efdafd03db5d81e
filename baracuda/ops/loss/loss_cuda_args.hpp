#pragma once
// From the descriptor and the arguments of a loss to what its kernels take.
#include "baracuda/ops/loss/loss.hpp"
#include "baracuda/ops/loss/loss_cuda.hpp"

namespace baracuda {

template <class D, class Args> LossCudaTokens tokens_of(const D& d, const Args& a, double scale, double* factor) {
  return {DeviceVector::of(a.target), DeviceVector::of(a.weights), DeviceVector::of(a.dloss), d.tokens, d.classes, d.ignore_index,
          d.target_dtype == DType::i32, d.reduction == Reduction::none, d.reduction == Reduction::mean, d.mean_over == MeanOver::weights,
          d.invalid_target == InvalidTarget::zero, scale, factor};
}

}  // namespace baracuda
