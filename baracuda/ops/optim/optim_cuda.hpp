#pragma once
// What the kernel file of the family exports to its rows. Lists of tensors go by value in the parameters of a launch, which end at
// 4 KiB, so that nothing has to outlive the call.
#include "baracuda/core/dtype.hpp"
#include "baracuda/ops/optim/optim_cpu.hpp"

namespace baracuda {

inline constexpr int kAdamTensors = 56, kNormTensors = 160;
inline constexpr int64_t kAdamChunk = 4096, kNormChunk = 16384;  // elements of one block's turn
inline constexpr int kNormBlocks = 528;

struct AdamCudaStep { AdamStep s; int skip; };
struct AdamCudaConstants {
  AdamSettings settings;
  int64_t step;
  double lr;
  int64_t* steps;                              // null: step
  const float *lr_tensor, *grad_scale, *found_inf;
  AdamCudaStep* out;
};
struct AdamCudaList {  // chunks first[t] .. first[t + 1] are of tensor t
  const AdamCudaStep* step;
  int64_t first[kAdamTensors + 1];
  AdamPiece piece[kAdamTensors];
  int tensors;
};
struct NormCudaList {
  SquareSums* partial;                         // [kNormBlocks]
  int64_t first[kNormTensors + 1], n[kNormTensors];
  const void* x[kNormTensors];
  int tensors;
  bool begins;                                 // the first launch of a run
};
struct NormCudaResult { const SquareSums* partial; void* norm; float* found_inf; bool f64; };
struct ClipCuda { const void* norm; void* scale; double max_norm; bool f64; };
static_assert(sizeof(AdamCudaList) <= 4096 && sizeof(NormCudaList) <= 4096);

struct OptimCudaKernels {
  int (*constants)(const AdamCudaConstants&, void* stream);
  ByDType<ByDType<int (*)(const AdamCudaList&, void* stream)>> adam;  // by dtype of params, then of grads
  ByDType<int (*)(const NormCudaList&, void* stream)> squares;
  int (*norm)(const NormCudaResult&, void* stream);
  int (*clip)(const ClipCuda&, void* stream);
};
extern const OptimCudaKernels optim_cuda_kernels;

}  // namespace baracuda
