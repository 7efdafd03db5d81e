#pragma once
// What the rows of both devices share.
#include "baracuda/ops/position/position.hpp"
#include "baracuda/ops/position/position_cpu.hpp"

namespace baracuda::position_detail {

inline int64_t rotary_dim(const RopeDescriptor& d) { return d.rotary_dim.value_or(d.shape[3]); }
inline int64_t value_dim(const KvCacheAppendDescriptor& d) { return d.value_dim.value_or(d.head_dim); }
Result<PlanState> prepare_rope(const Stream&, const RopeDescriptor& d, const PlanPreference&);
RopeFrequencies frequencies(const void* state);
float slope(const AlibiSlopesDescriptor& d, int64_t head);

}  // namespace baracuda::position_detail
