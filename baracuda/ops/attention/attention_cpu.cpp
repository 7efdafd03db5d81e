// The forward of attention_forward.hpp for every dtype.
#include "baracuda/ops/attention/attention_forward.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace attention {
namespace {

template <class T> void forward(const SdpaBlock& b) { Forward<T>{*b.problem, b}.run(); }

}  // namespace
}  // namespace attention

extern constexpr SdpaForwardKernels sdpa_forward_kernels = {
    by_dtype<void (*)(const SdpaBlock&)>(Floating{}, []<class T>() { return &attention::forward<T>; })};

}  // namespace baracuda::inline BARACUDA_ISA
