#pragma once
// Rows whose kernels are cuDNN's.
#include "baracuda/ops/attention/attention.hpp"

namespace baracuda::attention::library {

PrecisionGuarantee guarantee(const SdpaDescriptor& d);
PrecisionGuarantee guarantee_backward(const SdpaDescriptor& d);
std::string refuse(const SdpaDescriptor& d, const PlanPreference&);
// [batch, head, row, element] or [batch, row, head, element], one of them for all tensors.
Status check(const SdpaDescriptor& d, const FlashSdpa::Args& a);
Status check_backward(const SdpaDescriptor& d, const FlashSdpaBackward::Args& a);
Result<PlanState> prepare(const Stream& stream, const SdpaDescriptor& d, const PlanPreference&);
Result<PlanState> prepare_backward(const Stream& stream, const SdpaDescriptor& d, const PlanPreference&);
void carve(const SdpaDescriptor& d, const void* state, Carver& c);
void carve_backward(const SdpaDescriptor& d, const void* state, Carver& c);
Status run(const Launch<FlashSdpa>& l);
Status run_backward(const Launch<FlashSdpaBackward>& l);

}  // namespace baracuda::attention::library
