// The forward on Hopper (attention_sm90.cuh) for plain scores of few keys at up to 64 columns: tiles of 64 keys, blocks of 256 queries where they are more than the
// multiprocessors, else of 128, with the same bits.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <class T> int few(const SdpaCuda& p, void* stream) {
  const bool many = p.q_len > 128 && p.batch * p.heads * device::ceil_div(p.q_len, 256) > p.multiprocessors;
  return many ? launch_groups<T, 64, Scores::plain, 4, true>(p, stream) : launch_groups<T, 64, Scores::plain, 2, true>(p, stream);
}

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90_few = {attention::of_halves(few<f16>, few<bf16>)};

}  // namespace baracuda
