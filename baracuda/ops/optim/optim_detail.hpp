#pragma once
// What the rows of both devices share.
#include "baracuda/ops/optim/optim.hpp"
#include "baracuda/ops/optim/optim_cpu.hpp"

namespace baracuda::optim_detail {

inline int64_t count(const TensorView& checked) { return checked.shape.product(0, checked.shape.rank); }
inline AdamSettings settings(const AdamWDescriptor& d, const AdamW::Args& a) { return {a.beta1, a.beta2, a.eps, a.weight_decay, d.decoupled, d.maximize}; }
Status expect_on(std::string_view op, std::string_view role, Tensors list, const Stream& stream);

}  // namespace baracuda::optim_detail
