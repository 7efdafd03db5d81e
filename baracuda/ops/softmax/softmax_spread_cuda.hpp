#pragma once
// What the kernel file of rows that all blocks of a device hold together exports.
#include "baracuda/ops/softmax/softmax_cuda.hpp"

namespace baracuda {

inline constexpr int kSoftmaxNotSpread = -1;  // the rows are not whole pieces of 16 bytes: nothing was queued
// `blocks`: what the device holds at once.
using SoftmaxSpread = int (*)(const SoftmaxCuda&, int64_t blocks, void* stream);
struct SoftmaxSpreadCuda { ByDType<SoftmaxSpread> forward, backward; };
extern const SoftmaxSpreadCuda softmax_spread_cuda;

}  // namespace baracuda
