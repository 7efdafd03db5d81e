#pragma once
// What the instruction-set units of cast_stochastic export: a loop per pair of dtypes over dense elements and their words.
#include "baracuda/core/dtype.hpp"
#include "baracuda/host/isa.hpp"

namespace baracuda {

using StochasticTo = decltype(join(TypeList<f16, bf16>{}, Float8{}));
struct CastStochasticKernels {
  ByDType<ByDType<void (*)(const void* x, const uint32_t* words, void* y, int64_t n, bool saturate)>> cast;
};
BARACUDA_ISA_TABLE(CastStochasticKernels, cast_stochastic_kernels)

}  // namespace baracuda
