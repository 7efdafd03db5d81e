// The forward on Hopper (attention_sm90.cuh) for plain scores: a scale above 0 and a mask.
#include "baracuda/ops/attention/attention_sm90.cuh"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {
using namespace attention;

template <class T, int kColumns> struct Plain {
  static int launch(const SdpaCuda& p, void* stream) { return launch_wgmma<T, kColumns, Scores::plain>(p, stream); }
};

}  // namespace
}  // namespace BARACUDA_ISA

extern const SdpaCudaMma sdpa_cuda_sm90 = {attention::of_halves(attention::by_columns<Plain, f16>, attention::by_columns<Plain, bf16>)};

}  // namespace baracuda
