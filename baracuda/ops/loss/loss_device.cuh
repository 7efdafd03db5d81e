#pragma once
// What the kernels of the losses read of a token.
#include "baracuda/device/rows.cuh"
#include "baracuda/ops/loss/loss_cuda.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace loss_device {

constexpr int64_t kIgnored = -1, kInvalid = -2;
__device__ __forceinline__ int64_t target_of(const LossCudaTokens& t, int64_t token) {
  const int64_t at = t.target.at(token);
  const int64_t v = t.target_i32 ? int64_t(static_cast<const int32_t*>(t.target.data)[at]) : static_cast<const int64_t*>(t.target.data)[at];
  if (v == t.ignore_index) return kIgnored;
  if (v >= 0 && v < t.classes) return v;
  return t.invalid_is_zero ? kIgnored : kInvalid;
}

}  // namespace loss_device
}  // namespace baracuda
