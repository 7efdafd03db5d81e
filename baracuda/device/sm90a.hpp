#pragma once
// For prepare() of rows that have kernels of sm_90a among others: a state where the code that runs is sm_90a's, else none.
#include "baracuda/core/kernel.hpp"
#include "baracuda/device/launch.hpp"

namespace baracuda::device {

template <class Descriptor> Result<PlanState> find_sm90a(const Stream& stream, const Descriptor&, const PlanPreference&) {
  static constexpr bool kIs = true;
  return only_sm90a(stream).ok() ? PlanState(PlanState(), &kIs) : PlanState();
}

}  // namespace baracuda::device
