// The forward on Hopper (attention_sm90.cuh) for plain scores of few keys, at up to 64 columns and from 129 to 192: tiles of 64.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <class T> int few(const SdpaCuda& p, void* stream) {
  return p.head_dim > 64 || p.head_dim_v > 64 ? launch_groups<T, 192, Scores::plain, 2, true>(p, stream) : launch_short<T, Scores::plain>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90_few = {attention::of_halves(few<f16>, few<bf16>)};

}  // namespace baracuda
