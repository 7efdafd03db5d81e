// The forward on Hopper (attention_sm90.cuh) for scores of bf16 with a softcap of at most 2^20, a scale above 0 and a mask, at up to 128 columns.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

int capped(const SdpaCuda& p, void* stream) {
  const int64_t width = most(p.head_dim, p.head_dim_v);
  return width <= 64 ? launch_short<bf16, Scores::capped>(p, stream) : width <= 96 ? launch_wgmma<bf16, 96, Scores::capped>(p, stream) : launch_wgmma<bf16, 128, Scores::capped>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90_softcap = {attention::of_halves(nullptr, capped)};

}  // namespace baracuda
