// The forward on Hopper (attention_sm90.cuh) for scores with softcap and ALiBi, and for scales that are not above 0.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <class T, int kColumns> struct General {
  static int launch(const SdpaCuda& p, void* stream) { return launch_wgmma<T, kColumns, Scores::general>(p, stream); }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90_scores = {attention::of_halves(attention::by_columns<General, f16>, attention::by_columns<General, bf16>)};

}  // namespace baracuda
