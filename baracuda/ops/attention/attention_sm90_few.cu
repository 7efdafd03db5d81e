// The forward on Hopper (attention_sm90.cuh) for plain scores of few keys at up to 64 columns.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
using attention::Scores;

extern const SdpaCudaMma sdpa_cuda_sm90_few = {attention::of_halves(attention::launch_short<f16, Scores::plain>, attention::launch_short<bf16, Scores::plain>)};

}  // namespace baracuda
