// token_penalty: counts of the rows' tokens (integer atomics: their order does not show), then y from x and the counts. 8 bytes of counts per logit
// beside the logits themselves; the floor is memory bandwidth.
#include "baracuda/device/map.cuh"
#include "baracuda/ops/random/token_penalty_cuda.hpp"
#include "baracuda/ops/random/token_penalty_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

constexpr int kBlock = 256;
constexpr uint32_t kPrompt = 1u << 31;  // in a count: the prompt has the token

struct Count { TokenListCuda list; uint32_t* counts; int64_t vocabulary; bool i64, prompt; };
__global__ void __launch_bounds__(kBlock) count_kernel(const __grid_constant__ Count c) {
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < c.list.walk.units; i += int64_t(gridDim.x) * kBlock) {
    int64_t at[2];
    c.list.walk.offsets(i, at);
    const int64_t token = c.i64 ? static_cast<const int64_t*>(c.list.tokens)[at[0]] : int64_t(static_cast<const int32_t*>(c.list.tokens)[at[0]]);
    if (token < 0 || token >= c.vocabulary) continue;
    uint32_t* const count = c.counts + at[1] + token;
    if (c.prompt) atomicOr(count, kPrompt);
    else atomicAdd(count, 1u);
  }
}
template <class T> __global__ void __launch_bounds__(kBlock) penalty_kernel(const __grid_constant__ TokenPenaltyCuda p) {
  const T* x = static_cast<const T*>(p.x);
  T* y = static_cast<T*>(p.y);
  for (int64_t i = int64_t(blockIdx.x) * kBlock + threadIdx.x; i < p.walk.units; i += int64_t(gridDim.x) * kBlock) {
    const uint32_t count = p.counts[i];
    if (count == 0 && p.in_place) continue;
    int64_t at[5];
    p.walk.offsets(i, at);
    T v = x[at[0]];
    if (count) {
      double f[3];
#pragma unroll
      for (int k = 0; k < 3; ++k) f[k] = p.factor[k] ? double(p.factor[k][at[2 + k]]) : p.otherwise[k];
      v = from_double<T>(token_penalty::penalised(to_double(v), int64_t(count & ~kPrompt), {f[0], f[1], f[2]}));
    }
    y[at[1]] = v;
  }
}
template <class T> int penalty(const TokenPenaltyCuda& p, void* stream) {
  if (const cudaError_t e = cudaMemsetAsync(p.counts, 0, size_t(p.walk.units) * sizeof(uint32_t), static_cast<cudaStream_t>(stream))) return int(e);
  for (int k = 0; k < 2; ++k) {
    if (!p.list[k].tokens || p.list[k].walk.units == 0) continue;
    if (const int e = device::launch(count_kernel, device::blocks_for(p.list[k].walk.units, kBlock), kBlock, 0, stream, Count{p.list[k], p.counts, p.vocabulary, p.i64, k == 1})) return e;
  }
  return device::launch(penalty_kernel<T>, device::blocks_for(p.walk.units, kBlock), kBlock, 0, stream, p);
}

using PenaltyFn = int (*)(const TokenPenaltyCuda&, void*);
}  // namespace
}  // namespace BARACUDA_ISA

extern const ByDType<PenaltyFn> token_penalty_cuda = device::floating<PenaltyFn>(penalty<f16>, penalty<bf16>, penalty<float>, penalty<double>);

}  // namespace baracuda
